"""Which URLs may name the source of a module."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from extender.config.urls import check_url, public
from extender.sources.download import DownloadSession, Limit
from extender.sources.source import SourceUnreachableError

ANY = "expected a URL that begins with one of file://, http://, https://, oci://, found"
WEB = "expected a URL such as https://modules.example/plugin.wasm, without blanks and #fragment, found"


@pytest.mark.parametrize(
    "url",
    [
        "file://./m.wasm",
        "file:///m.wasm",
        "file://~/m.wasm",
        "http://modules.example/m.wasm",
        "https://modules.example:8443/m.wasm?v=1&by=a@b",
        "https://[::1]/a%20b/m.wasm",
        "https://münchen.example/",
        "oci://registry.example/policies/spread:v2",
    ],
)
def test_a_url_that_names_a_source_is_accepted(url: str) -> None:
    check_url(url)


@pytest.mark.parametrize(
    ("url", "problem"),
    [
        ("m.wasm", f"{ANY} 'm.wasm'"),
        ("ftp://m", f"{ANY} 'ftp://m'"),
        ("HTTP://m", f"{ANY} 'HTTP://m'"),
        ("http:m", f"{ANY} 'http:m'"),
        ("file://", "expected file:// and a path, such as file://./plugin.wasm, found 'file://'"),
        ("http://", f"{WEB} 'http://'"),
        ("https:///m.wasm", f"{WEB} 'https:///m.wasm'"),
        ("https://host:0/m", f"{WEB} 'https://host:0/m'"),
        ("https://host:65536/m", f"{WEB} 'https://host:65536/m'"),
        ("https://host:a/m", f"{WEB} 'https://host:a/m'"),
        ("https://[::1/m", f"{WEB} 'https://[::1/m'"),
        ("https://999.1.1.1/m", f"{WEB} 'https://999.1.1.1/m'"),
        ("https://xn--/m", f"{WEB} 'https://xn--/m'"),
        ("https://host/a b?token=secret", f"{WEB} 'https://host/a b'"),
        ("https://host/a\n", f"{WEB} 'https://host/a\\n'"),
        ("https://host/\0", f"{WEB} 'https://host/\\x00'"),
        ("https://host/m#x", f"{WEB} 'https://host/m#x'"),
        ("https://host/" + "m" * 70_000, f"{WEB} 'https://host/{'m' * 70_000}'"),
        (
            "https://user:secret@host/m",
            "a URL must not hold a login, which would be logged; put it into a netrc file",
        ),
        ("https://secret@[::1", "a URL must not hold a login, which would be logged; put it into a netrc file"),
        (
            "oci://host",
            "expected oci://REGISTRY/REPOSITORY with :TAG or @sha256:DIGEST, such as"
            " oci://registry.example/policies/spread:v2, found 'oci://host'",
        ),
        (
            "oci://host/m:v1?token=secret",
            "expected oci://REGISTRY/REPOSITORY with :TAG or @sha256:DIGEST, such as"
            " oci://registry.example/policies/spread:v2, found 'oci://host/m:v1'",
        ),
        ("oci://user:secret@host/m", "a URL must not hold a login, which would be logged; docker login keeps it"),
        ("ftp://user:secret@host/m?token=secret", f"{ANY} 'ftp://host/m'"),
        ("https//user:secret@host/m", f"{ANY} 'https//host/m'"),
        ("user:secret@host/m", f"{ANY} 'host/m'"),
    ],
    ids=range(26),
)
def test_a_url_that_names_none_is_refused(url: str, problem: str) -> None:
    with pytest.raises(ValueError) as refused:
        check_url(url)
    assert str(refused.value) == problem


@pytest.mark.parametrize(
    ("url", "text"),
    [
        ("https://host/m.wasm?token=secret", "https://host/m.wasm"),
        ("http://host/m.wasm", "http://host/m.wasm"),
        ("file://./what?.wasm", "file://./what?.wasm"),
        ("oci://host/m:v1", "oci://host/m:v1"),
    ],
)
def test_everybody_may_see_a_url_but_its_query(url: str, text: str) -> None:
    assert public(url) == text


@given(st.builds("http://{}".format, st.text()) | st.text())
def test_whatever_is_accepted_can_be_asked_for(url: str) -> None:
    try:
        check_url(url)
    except ValueError:
        return
    if url.startswith("http"):
        with pytest.raises(SourceUnreachableError):
            DownloadSession(-1).request(url, Limit(1))
