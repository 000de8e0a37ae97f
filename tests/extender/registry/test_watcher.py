from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from extender.registry import Registry, load
from extender.registry.watcher import Watcher
from extender.registry.workshop import LoadError
from tests.extender import guests, kwx
from tests.extender.kwx import Extender, plugin, profile
from tests.extender.objects import filtered, names_args, scores
from wasm_runtime.plugin import digest

OLD, NEW, THIRD = (guests.constant_score(score) for score in (10, 90, 50))
SETTLED_S = 1.3
"""More than two looks at the files: what has not happened by then does not happen."""


def put(path: Path, content: bytes) -> None:
    """Replaces a file at once, as an editor's or a deployment's rename does."""
    beside = path.with_suffix(".new")
    beside.write_bytes(content)
    beside.replace(path)


class Swapped(NamedTuple):
    """A plugin with a file, a name and a profile of its own."""

    extender: Extender
    name: str

    @property
    def module(self) -> Path:
        return self.extender.folder / f"{self.name}.wasm"

    def score(self) -> int:
        (only,) = self.extender.post(f"/profiles/{self.name}/prioritize", names_args(["node-7"]))
        return int(only["Score"])

    def live(self) -> str:
        plugins = self.extender.admin.get("/api/v1/plugins").json()
        (only,) = (each["digest"] for each in plugins if each["name"] == self.name)
        return str(only)

    def log(self) -> list[dict[str, Any]]:
        return [line for line in self.extender.log() if line.get("plugin") == self.name]

    def swaps(self) -> list[tuple[str, str]]:
        return [(line["from"], line["to"]) for line in self.log() if line["event"] == "module swapped"]

    def refusals(self) -> list[str]:
        start = "new module refused, the old one stays live: "
        return [line["event"].removeprefix(start) for line in self.log() if line["event"].startswith(start)]

    def wait_until(self, condition: Callable[[], object]) -> None:
        self.extender.wait_until(condition)


NAMES = ("renamed", "linked", "rewritten", "bad", "touched")


@pytest.fixture(scope="module")
def extender(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Extender]:
    """Live are modules that score 10, each for a test to replace; that of `linked` is reached by links."""
    folder = tmp_path_factory.mktemp("watcher")
    for version, content in (("..v1", OLD), ("..v2", NEW)):
        (folder / version).mkdir()
        (folder / version / "linked.wasm").write_bytes(content)
    (folder / "..data").symlink_to("..v1")
    (folder / "linked.wasm").symlink_to("..data/linked.wasm")
    for name in set(NAMES) - {"linked"}:
        (folder / f"{name}.wasm").write_bytes(OLD)
    with Extender(folder, *(profile(name, plugin(name)) for name in NAMES)) as extender:
        yield extender


@pytest.fixture
def swapped(extender: Extender, request: pytest.FixtureRequest) -> Swapped:
    """The plugin that the test names by a parameter."""
    swapped = Swapped(extender, request.param)
    assert (swapped.score(), swapped.live()) == (1, digest(OLD))
    return swapped


@pytest.mark.parametrize("swapped", ["renamed"], indirect=True)
def test_a_renamed_file_goes_live_and_is_logged(swapped: Swapped) -> None:
    put(swapped.module, NEW)
    swapped.wait_until(lambda: swapped.score() == 9)
    swapped.wait_until(swapped.log)
    (line,) = swapped.log()
    assert {key: value for key, value in line.items() if key not in {"logger", "timestamp"}} == {
        "event": "module swapped",
        "level": "info",
        "plugin": "renamed",
        "profile": "renamed",
        "path": str(swapped.module),
        "from": digest(OLD),
        "to": digest(NEW),
    }
    assert swapped.live() == digest(NEW)


@pytest.mark.parametrize("swapped", ["linked"], indirect=True)
def test_an_exchanged_link_goes_live_as_in_a_mounted_config_map(swapped: Swapped) -> None:
    """kubelet writes a new folder and exchanges the link `..data` to it; the file's own link stays."""
    folder = swapped.extender.folder
    (folder / "..data_tmp").symlink_to("..v2")
    (folder / "..data_tmp").replace(folder / "..data")
    swapped.wait_until(lambda: swapped.score() == 9)
    assert swapped.live() == digest(NEW)


@pytest.mark.parametrize("swapped", ["rewritten"], indirect=True)
def test_a_file_rewritten_in_place_goes_live_when_it_is_whole(swapped: Swapped) -> None:
    with swapped.module.open("wb") as file:
        for at in range(0, len(NEW), 16):
            file.write(NEW[at : at + 16])
            file.flush()
            time.sleep(0.2)
            assert swapped.score() == 1
    swapped.wait_until(lambda: swapped.score() == 9)


@pytest.mark.parametrize("swapped", ["bad"], indirect=True)
def test_a_bad_or_missing_module_changes_nothing_and_is_refused_once_with_the_reason(swapped: Swapped) -> None:
    put(swapped.module, b"\0asm\x01\0\0\0")
    swapped.wait_until(swapped.refusals)
    assert swapped.refusals() == [
        f"{swapped.module} exports no memory named 'memory': the host hands everything to a guest through it;"
        f" {swapped.module} exports no extension point; it needs at least one of enqueue, prefilter, addpod,"
        " removepod, filter, postfilter, prescore, score, normalizescore, reserve, unreserve, permit, prebind, bind,"
        " postbind"
    ]
    assert (swapped.score(), swapped.live(), swapped.swaps()) == (1, digest(OLD), [])

    swapped.module.unlink()
    swapped.wait_until(lambda: len(swapped.refusals()) == 2)
    assert swapped.refusals()[1] == (
        f"{swapped.module} cannot be read: No such file or directory; build it or mend the path"
    )
    assert swapped.score() == 1

    put(swapped.module, NEW)
    swapped.wait_until(lambda: swapped.score() == 9)
    swapped.wait_until(swapped.swaps)
    assert (swapped.swaps(), len(swapped.refusals())) == ([(digest(OLD), digest(NEW))], 2)


@pytest.mark.parametrize("swapped", ["touched"], indirect=True)
def test_a_touched_file_is_the_same_module(swapped: Swapped) -> None:
    os.utime(swapped.module, (0, 0))
    time.sleep(SETTLED_S)
    put(swapped.module, OLD)
    time.sleep(SETTLED_S)
    assert (swapped.log(), swapped.live()) == ([], digest(OLD))


def test_requests_flow_through_ten_swaps_and_each_is_answered_by_one_version(tmp_path: Path) -> None:
    """Two plugins are swapped five times; one of the versions filters, and one wants the objects of nodes."""
    accelerator = guests.module("accelerator")
    reject = guests.module("reject")
    for name, content in (("first", OLD), ("second", reject)):
        (tmp_path / f"{name}.wasm").write_bytes(content)
    profiles = [profile("default", plugin("first"), plugin("second"))]
    with Extender(tmp_path, *profiles) as extender:
        stopped = threading.Event()
        answers: list[tuple[str, Any]] = []
        threads = [threading.Thread(target=_ask, args=(extender, verb, stopped, answers)) for verb in _POSSIBLE]
        for thread in threads:
            thread.start()
        try:
            for swapped in range(1, 6):
                put(tmp_path / "first.wasm", NEW if swapped % 2 else OLD)
                put(tmp_path / "second.wasm", accelerator if swapped % 2 else reject)
                extender.wait_until(lambda count=2 * swapped: len(extender.events("module swapped")) == count)
        finally:
            stopped.set()
            for thread in threads:
                thread.join()
    for verb, possible in _POSSIBLE.items():
        seen = [answer for asked, answer in answers if asked == verb]
        assert [answer for answer in seen if answer not in possible] == []
        assert [answer for answer in possible if answer not in seen] == []
    assert len(answers) > 500


_NODES = [{"metadata": {"name": "node-7", "resourceVersion": "1", "labels": {"kwx.dev/accelerator": "h100"}}}]
_REQUEST = {
    "Pod": {"metadata": {"name": "train", "annotations": {"kwx.dev/accelerator": "h100"}}},
    "Nodes": {"metadata": {}, "items": _NODES},
}
_POSSIBLE: dict[str, list[Any]] = {
    "/filter": [
        filtered(None) | {"Nodes": {"metadata": {}, "items": _NODES}},
        filtered(None, failed={"node-7": "no"}) | {"Nodes": {"metadata": {}, "items": []}},
    ],
    "/prioritize": [scores(node_7=1), scores(node_7=9)],
}


def _ask(extender: Extender, path: str, stopped: threading.Event, answers: list[tuple[str, Any]]) -> None:
    body = json.dumps(_REQUEST).encode()
    with kwx.client(extender.url) as client:
        while not stopped.is_set():
            answer = client.post(path, content=body)
            answers.append((path, answer.json() if answer.is_success else answer.text))


# -- without a server ------------------------------------------------------------------------------


@pytest.fixture
def watched(tmp_path: Path) -> Iterator[tuple[Path, Registry]]:
    """A module's file, and the registry that has loaded it."""
    module = tmp_path / "module.wasm"
    module.write_bytes(OLD)
    _, registry = load(kwx.write(tmp_path, kwx.configuration(profile("default", plugin("module")))))
    yield module, registry
    registry.close()


def test_a_file_that_changed_between_loading_and_watching_goes_live(watched: tuple[Path, Registry]) -> None:
    """Compiling the other modules of a configuration may take long."""
    module, registry = watched
    put(module, NEW)
    watcher = Watcher(registry)
    watcher.start()
    try:
        deadline = time.monotonic() + 10
        while registry.slots[0].entry.plugin.digest != digest(NEW):
            assert time.monotonic() < deadline
            time.sleep(0.01)
    finally:
        watcher.stop()


def test_another_digest_than_the_pin_is_refused(tmp_path: Path) -> None:
    module = tmp_path / "module.wasm"
    module.write_bytes(OLD)
    pinned = profile("default", plugin("module", digest=digest(OLD)))
    _, registry = load(kwx.write(tmp_path, kwx.configuration(pinned)))
    put(module, NEW)
    with pytest.raises(LoadError) as refused:
        registry.slots[0].load(registry.workshop)
    registry.close()
    assert refused.value.problems == [f"{module} has digest {digest(NEW)}, the configuration allows only {digest(OLD)}"]


def test_a_watcher_that_never_started_stops(watched: tuple[Path, Registry]) -> None:
    _, registry = watched
    Watcher(registry).stop()


def test_a_request_in_its_midst_sees_nothing_of_a_swap(watched: tuple[Path, Registry]) -> None:
    module, registry = watched
    (slot,) = registry.slots
    profile_of_the_request = registry.profiles[0].frozen()
    put(module, THIRD)
    new = slot.load(registry.workshop)
    assert new is not None
    slot.swap(new)
    assert profile_of_the_request.entries[0].plugin.digest == digest(OLD)
    assert registry.profiles[0].frozen().entries[0].plugin.digest == digest(THIRD)
