"""Which source a plugin gets."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from extender.config import PluginConfig
from extender.sources import Source, SourceError, SourceUnreachableError, open_source
from extender.sources.file import FileSource
from extender.sources.http import HttpSource
from extender.sources.oci.source import OciSource
from tests.extender.sources.web import answer, serving

LIMIT = 1000


def open_at(folder: Path, url: str, **source: str) -> Source:
    return open_source(PluginConfig(name="p", guestURL=url, source=source), folder, LIMIT)


@pytest.mark.parametrize(
    ("url", "kind", "is_remote", "interval"),
    [
        ("file://m.wasm", FileSource, False, 0.5),
        ("http://modules.example/m.wasm", HttpSource, True, 5.0),
        ("https://modules.example/m.wasm", HttpSource, True, 5.0),
        ("oci://registry.example/policies/spread:v2", OciSource, True, 5.0),
    ],
)
def test_the_scheme_tells_the_kind(
    tmp_path: Path, url: str, kind: type[Source], is_remote: bool, interval: float
) -> None:
    source = open_at(tmp_path, url, interval="5s")
    assert (type(source), source.is_remote, source.interval) == (kind, is_remote, interval)


@pytest.mark.parametrize(
    ("url", "path"),
    [
        ("file://./modules/m.wasm", "modules/m.wasm"),
        ("file://modules/m.wasm", "modules/m.wasm"),
        ("file://modules/../m.wasm", "modules/../m.wasm"),
        ("file://{folder}/m.wasm", "m.wasm"),
        ("file://~/m.wasm", "home/m.wasm"),
        ("file://a%20b://m.wasm", "a%20b:/m.wasm"),
    ],
)
def test_a_path_is_relative_to_the_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, url: str, path: str) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    for name in ("modules", "home", "a%20b:"):
        (tmp_path / name).mkdir()
    (tmp_path / path).write_bytes(b"module")
    monkeypatch.chdir(tmp_path)
    for folder in (tmp_path, Path()):
        fetched = open_at(folder, url.format(folder=tmp_path)).fetch()
        assert fetched
        assert (fetched.module.content, fetched.origin) == (b"module", f"{tmp_path}/{path}")


def test_the_home_of_a_user_who_is_not_known_is_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(SourceError) as refused:
        open_at(tmp_path, "file://~nobody-of-that-name/m.wasm").fetch()
    assert str(refused.value) == (
        f"{tmp_path}/~nobody-of-that-name/m.wasm cannot be read: No such file or directory; build it or mend the path"
    )


@pytest.mark.parametrize("key", [{}, {"publicKey": "cosign.pub"}])
def test_signatures_are_fetched_where_a_key_is_required(tmp_path: Path, key: Mapping[str, str]) -> None:
    (tmp_path / "m.wasm").write_bytes(b"module")
    (tmp_path / "m.wasm.sig").write_bytes(b"c2lnbmF0dXJl")
    with serving() as web:
        web.pages |= {"/m.wasm": answer(200, b"module"), "/m.wasm.sig": answer(200, b"c2lnbmF0dXJl")}
        for url in ("file://m.wasm", web.url("/m.wasm")):
            fetched = open_at(tmp_path, url, **key).fetch()
            assert fetched
            assert [each.value for each in fetched.signatures] == [b"signature"] * len(key)


def test_a_limit_is_named_by_its_key(tmp_path: Path) -> None:
    (tmp_path / "m.wasm").write_bytes(b"m" * 1001)
    with serving() as web:
        web.pages["/m.wasm"] = answer(200, b"m" * 1001)
        for url, problem in (
            ("file://m.wasm", f"{tmp_path}/m.wasm has 1001 bytes, runtime.moduleLimit allows 1000"),
            (
                web.url("/m.wasm"),
                f"{web.url('/m.wasm')} has more than the 1000 bytes that runtime.moduleLimit allows",
            ),
        ):
            with pytest.raises(SourceError) as refused:
                open_at(tmp_path, url).fetch()
            assert str(refused.value) == problem


@pytest.mark.parametrize("url", ["https://127.0.0.1:1/m.wasm", "oci://127.0.0.1:1/m"])
def test_a_ca_file_is_relative_to_the_folder(tmp_path: Path, url: str) -> None:
    with pytest.raises(SourceError) as refused:
        open_at(tmp_path, url, caFile="ca.pem").fetch()
    assert str(refused.value) == (
        f"source.caFile '{tmp_path}/ca.pem' cannot be used: No such file or directory; expected certificates in PEM"
    )


def test_the_timeout_is_that_of_the_configuration(tmp_path: Path) -> None:
    with serving() as web:
        web.pages["/m.wasm"] = lambda conversation: conversation.stall()
        with pytest.raises(SourceUnreachableError) as refused:
            open_at(tmp_path, web.url("/m.wasm"), timeout="200ms").fetch()
        assert str(refused.value) == (
            f"{web.url('/m.wasm')} does not answer in time; see to the server or raise source.timeout (0.2 s)"
        )
