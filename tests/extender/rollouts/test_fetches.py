"""How often sources are asked, files are read and modules are compiled: no more often than something may be new."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import wasmtime
import yaml

from extender import config
from extender.rollouts import load
from extender.rollouts.service import RolloutService
from extender.rollouts.swap_command import FromUpload, SwapCommand
from extender.scheduling.cycle_pins import CyclePins
from extender.scheduling.request_samples import RequestSamples
from extender.sources import file as file_source
from extender.sources.download import Limit
from extender.sources.file import FileSource
from extender.sources.source import Fetched
from tests.extender import guests, versions
from tests.extender.kwx import configuration, plugin, profile
from tests.extender.rollouts.test_swaps import put
from tests.extender.sources import web
from tests.extender.sources.oci.registry import File, Registry, running
from tests.extender.sources.signer import digest
from tests.extender.sources.web import Web
from tests.patience import wait_until
from wasm_runtime.blob import Blob
from wasm_runtime.compile.compiler import Compiler
from wasm_runtime.nodes.node_table import NodeTable

MODULE, OTHER = versions.module(10), versions.module(11)
MODULE_DIGEST, OTHER_DIGEST = digest(MODULE), digest(OTHER)
LARGE = bytes(
    wasmtime.wat2wasm(guests.text("tell_version").replace("VERSION", "10").replace('"memory") 1', '"memory") 40'))
)
"""Needs more memory than a MiB."""
TAG, OTHER_TAG = '"1"', '"2"'
REPOSITORY = "policies/artifact"
HEAD, GET = "HEAD manifests/v1", "GET manifests/v1"


def blob(module: bytes) -> str:
    return f"GET blobs/{digest(module)}"


class Asked(NamedTuple):
    """What was asked of the sources until now, and what was done with what they gave."""

    page: list[str]
    """The version that was known, for each request."""
    artifact: list[str]
    file: int
    """How often it was read."""
    compiled: int


class Sources:
    """A plugin from a web server, one from a registry and one in a file, all of the same module."""

    def __init__(self, folder: Path, server: Web, registry: Registry, monkeypatch: pytest.MonkeyPatch) -> None:
        self.looks = 0
        """At the file."""
        self._hashed: list[bytes] = []
        self._folder = folder
        self._server = server
        self._registry = registry
        self._reads = self._compiled = 0
        self.give(MODULE, TAG)
        self._count(monkeypatch)

    def give(self, module: bytes, tag: str) -> None:
        """Gives a module from now on."""
        put(self._folder / "file.wasm", module)
        self._server.pages["/page.wasm"] = web.tagged(tag, module)
        self._registry.push(f"{REPOSITORY}:v1", File("plugin.wasm", "application/wasm", module))
        self._pushes = len(self._registry.requests(REPOSITORY))

    @property
    def asked(self) -> Asked:
        """Since the module was given that is given now, but for the page."""
        page = [each.headers.get("if-none-match", "") for each in self._server.requests]
        return Asked(page, self._registry.requests(REPOSITORY)[self._pushes :], self._reads, self._compiled)

    def write(self, **settings: Any) -> Path:
        """Writes a configuration of the three."""
        settings = {"source": {"interval": "1h"}} | settings
        urls = {
            "page": self._server.url("/page.wasm"),
            "artifact": f"oci://{self._registry.address}/{REPOSITORY}:v1",
            "file": "file://./file.wasm",
        }
        plugins = [plugin(name, guestURL=url, **settings) for name, url in urls.items()]
        content = configuration(profile("default", *plugins), server={"stateDirectory": "state"})
        put(self._folder / "extender.yaml", yaml.safe_dump(content, sort_keys=False).encode())
        return self._folder / "extender.yaml"

    def hashes(self, module: bytes, name: str) -> tuple[list[int], int]:
        """How often each copy of a module was hashed, and how often an id was made of its digest and some settings.

        What another plugin has kept on disk is a copy.
        """
        copies = Counter(id(each) for each in self._hashed if each == module)
        named = b'{"module":"%b",' % name.encode()
        return list(copies.values()), sum(each.startswith(named) for each in self._hashed)

    def _count(self, monkeypatch: pytest.MonkeyPatch) -> None:
        read, fetch, compile_ = file_source.read, FileSource.fetch, Compiler._run
        sha256 = hashlib.sha256

        def counting_read(path: Path, limit: Limit) -> bytes:
            self._reads += path.name == "file.wasm"
            return read(path, limit)

        def counting_fetch(source: FileSource, known: str | None = None) -> Fetched | None:
            fetched = fetch(source, known)
            self.looks += source._path.name == "file.wasm"
            return fetched

        def counting_compile(compiler: Compiler, wasm: bytes) -> bytes:
            self._compiled += 1
            return compile_(compiler, wasm)

        def counting_sha256(content: bytes = b"") -> Any:
            self._hashed.append(content)
            return sha256(content)

        monkeypatch.setattr(hashlib, "sha256", counting_sha256)
        monkeypatch.setattr(file_source, "read", counting_read)
        monkeypatch.setattr(FileSource, "fetch", counting_fetch)
        monkeypatch.setattr(Compiler, "_run", counting_compile)


@pytest.fixture
def sources(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Sources]:
    """Compiled code is not kept on disk."""
    (tmp_path / "no-folder").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "no-folder"))
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path))
    (tmp_path / "registry").mkdir()
    with web.serving() as server, running(tmp_path / "registry") as registry:
        yield Sources(tmp_path, server, registry, monkeypatch)


@contextmanager
def serving(file: Path) -> Iterator[RolloutService]:
    """What serves by a configuration, and follows it and its sources."""
    with ExitStack() as stack:
        loaded = load(file, keeps=True)
        stack.callback(loaded.close)
        service = RolloutService(file, loaded, CyclePins(), RequestSamples(), NodeTable, lambda _: None, lambda: None)
        service.start()
        stack.callback(service.stop)
        yield service


def reconfigure(sources: Sources, service: RolloutService, **settings: Any) -> None:
    """Returns when other settings are live."""
    (wanted,) = config.read(sources.write(**settings)).profiles
    wait_until(
        lambda: [slot.config for slot in service.rollouts.live.slots] == list(wanted.plugins),
        service.oddities or "",
    )


FIRST = Asked([""], [GET, blob(MODULE)], 1, 1)


def test_a_source_is_asked_once_at_the_start(sources: Sources) -> None:
    """Who follows it begins with the version that the start was given."""
    with serving(sources.write(source={"interval": "100ms"})):
        wait_until(lambda: len(sources.asked.page) > 3 and len(sources.asked.artifact) > 4, "two looks at the sources")
        wait_until(lambda: sources.looks > 4, "looks at the file")
    page, artifact, *rest = sources.asked
    assert page == [*FIRST.page, *[TAG] * (len(page) - 1)]
    assert artifact == [*FIRST.artifact, *[HEAD] * (len(artifact) - 2)]
    assert rest == [1, 1]


def test_modules_of_sources_are_hashed_once_each(sources: Sources) -> None:
    """At the start, and when there is another one."""
    with serving(sources.write(source={"interval": "100ms"})) as service:
        assert sources.hashes(MODULE, MODULE_DIGEST) == ([1] * 5, 3)
        sources.give(OTHER, OTHER_TAG)
        slots = service.rollouts.live.slots
        wait_until(lambda: all(slot.live and slot.live.revision.module == OTHER_DIGEST for slot in slots), "a swap")
    assert sources.hashes(OTHER, OTHER_DIGEST) == ([1] * 5, 3)


def test_an_uploaded_module_is_hashed_once(sources: Sources) -> None:
    with serving(sources.write()) as service:
        slot, *_ = service.rollouts.live.slots
        begun = service.rollouts.begin(slot, SwapCommand(FromUpload(Blob(OTHER)), "ann"))
        wait_until(lambda: slot.live and slot.live.rollout.id == begun.id, "the upload")
    assert sources.hashes(OTHER, OTHER_DIGEST) == ([1], 1)


SETTINGS: list[Mapping[str, Any]] = [
    {"weight": 3},
    {"guestConfig": "other"},
    {"timeout": "2s", "memoryLimit": "32Mi"},
    {"failurePolicy": "Ignore"},
    {"source": {"interval": "30m"}},
]


def test_a_change_of_settings_asks_no_source_and_compiles_nothing(sources: Sources) -> None:
    with serving(sources.write()) as service:
        assert sources.asked == FIRST
        for settings in SETTINGS:
            reconfigure(sources, service, **settings)
        assert sources.asked == FIRST
        assert [len(slot.revisions) for slot in service.rollouts.live.slots] == [5, 5, 5]


def test_a_change_of_settings_takes_a_file_with_it_that_has_changed(sources: Sources) -> None:
    """Else what comes together would go live one after the other."""
    with serving(sources.write()) as service:
        sources.give(OTHER, OTHER_TAG)
        reconfigure(sources, service, weight=3)
        *_, file = service.rollouts.live.slots
        assert [each.module for each in file.revisions] == [digest(OTHER), digest(MODULE)]


def test_what_settings_do_not_suit_is_asked_for_anew(sources: Sources) -> None:
    """The source may have something by now that they suit."""
    often = {"source": {"interval": "2s"}}
    sources.give(LARGE, TAG)
    with serving(sources.write(**often)) as service:
        sources.give(OTHER, OTHER_TAG)
        reconfigure(sources, service, memoryLimit="1Mi", **often)
        serving_now = [slot.live and slot.live.revision.module for slot in service.rollouts.live.slots]
        assert serving_now == [digest(OTHER)] * 3
