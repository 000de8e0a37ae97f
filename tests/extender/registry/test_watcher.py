from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from extender.registry import load
from extender.registry.registry import LoadError
from extender.registry.watcher import Watcher
from tests.extender import guests, kwx
from tests.extender.kwx import Extender, plugin, profile
from tests.extender.objects import filtered, names_args, scores
from wasm_runtime.engines.wasmtime import WasmtimeEngine
from wasm_runtime.plugin import digest

OLD, NEW, THIRD = (guests.constant_score(score) for score in (10, 90, 50))
SETTLED_S = 1.6
"""Three looks at the files: what has not happened by then does not happen."""


def put(path: Path, content: bytes) -> None:
    """Replaces a file at once, as an editor's or a deployment's rename does."""
    beside = path.with_suffix(".new")
    beside.write_bytes(content)
    beside.replace(path)


class Swapping(Extender):
    """An extender with one plugin, `swapped`, whose module may be replaced."""

    def __init__(self, folder: Path, **settings: Any) -> None:
        self.module = folder / "module.wasm"
        if not self.module.exists():
            self.module.write_bytes(OLD)
        super().__init__(folder, profile("default", plugin("module", name="swapped", **settings)))

    def score(self) -> int:
        (only,) = self.post("/prioritize", names_args(["node-7"]))
        return int(only["Score"])

    def live(self) -> str:
        (only,) = self.admin.get("/api/v1/plugins").json()
        return str(only["digest"])

    def swaps(self) -> list[tuple[str, str]]:
        return [(line["from"], line["to"]) for line in self.events("module swapped")]

    def refusals(self) -> list[str]:
        start = "new module refused, the old one stays live: "
        return [line["event"].removeprefix(start) for line in self.log() if line["event"].startswith(start)]


@pytest.fixture
def extender(tmp_path: Path) -> Iterator[Swapping]:
    with Swapping(tmp_path) as extender:
        assert extender.score() == 1
        yield extender


def test_a_renamed_file_goes_live_and_is_logged(extender: Swapping) -> None:
    put(extender.module, NEW)
    extender.wait_until(lambda: extender.score() == 9)
    extender.wait_until(extender.swaps)
    (line,) = extender.events("module swapped")
    assert {key: line[key] for key in ("level", "plugin", "profile", "path", "from", "to")} == {
        "level": "info",
        "plugin": "swapped",
        "profile": "default",
        "path": str(extender.module),
        "from": digest(OLD),
        "to": digest(NEW),
    }
    assert extender.live() == digest(NEW)

    put(extender.module, guests.build("every_export", extender.folder).read_bytes())
    extender.wait_until(lambda: extender.events("the guest exports what this version does not run"))
    (line,) = extender.events("the guest exports what this version does not run")
    assert (line["plugin"], line["not_run"][-5:]) == ("swapped", ["unreserve", "permit", "prebind", "bind", "postbind"])


def test_an_exchanged_link_goes_live_as_in_a_mounted_config_map(tmp_path: Path) -> None:
    """kubelet writes a new folder and exchanges the link `..data` to it; the file's own link stays."""
    for version, content in (("..v1", OLD), ("..v2", NEW)):
        (tmp_path / version).mkdir()
        (tmp_path / version / "module.wasm").write_bytes(content)
    (tmp_path / "..data").symlink_to("..v1")
    (tmp_path / "module.wasm").symlink_to("..data/module.wasm")
    with Swapping(tmp_path) as extender:
        assert extender.score() == 1
        (tmp_path / "..data_tmp").symlink_to("..v2")
        (tmp_path / "..data_tmp").replace(tmp_path / "..data")
        extender.wait_until(lambda: extender.score() == 9)
        assert extender.live() == digest(NEW)


def test_a_file_rewritten_in_place_goes_live_when_it_is_whole(extender: Swapping) -> None:
    with extender.module.open("wb") as file:
        for at in range(0, len(NEW), 16):
            file.write(NEW[at : at + 16])
            file.flush()
            time.sleep(0.2)
            assert extender.score() == 1
    extender.wait_until(lambda: extender.score() == 9)
    assert extender.refusals() == []


def test_a_bad_module_changes_nothing_and_is_refused_once_with_the_reason(extender: Swapping) -> None:
    put(extender.module, b"\0asm\x01\0\0\0")
    extender.wait_until(extender.refusals)
    time.sleep(SETTLED_S)
    (refusal,) = extender.refusals()
    assert refusal == (
        f"{extender.module} exports no memory named 'memory': the host hands everything to a guest through it;"
        f" {extender.module} exports no extension point; it needs at least one of enqueue, prefilter, addpod,"
        " removepod, filter, postfilter, prescore, score, normalizescore, reserve, unreserve, permit, prebind, bind,"
        " postbind"
    )
    assert (extender.score(), extender.live(), extender.swaps()) == (1, digest(OLD), [])

    extender.module.unlink()
    extender.wait_until(lambda: len(extender.refusals()) == 2)
    assert extender.refusals()[1] == (
        f"{extender.module} cannot be read: No such file or directory; build it or mend the path"
    )
    assert extender.score() == 1

    put(extender.module, OLD)
    time.sleep(SETTLED_S)
    assert (extender.score(), extender.swaps(), len(extender.refusals())) == (1, [], 2)

    put(extender.module, NEW)
    extender.wait_until(lambda: extender.score() == 9)
    extender.wait_until(extender.swaps)
    assert extender.swaps() == [(digest(OLD), digest(NEW))]


def test_a_touched_file_is_the_same_module(extender: Swapping) -> None:
    before = extender.log()
    os.utime(extender.module, (0, 0))
    put(extender.module.with_name("copy"), OLD)
    extender.module.with_name("copy").replace(extender.module)
    time.sleep(SETTLED_S)
    assert (extender.log(), extender.live()) == (before, digest(OLD))


def test_requests_flow_through_ten_swaps_and_each_is_answered_by_one_version(tmp_path: Path) -> None:
    """Two plugins are swapped five times; one of the versions filters, and one wants the objects of nodes."""
    accelerator = guests.example("accelerator").read_bytes()
    reject = guests.build("reject", tmp_path).read_bytes()
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
def watched(tmp_path: Path) -> Iterator[tuple[Path, Any, Any]]:
    """A module's file, and the registry that has loaded it with its engine."""
    module = tmp_path / "module.wasm"
    module.write_bytes(OLD)
    engine = WasmtimeEngine()
    _, registry = load(kwx.write(tmp_path, kwx.configuration(profile("default", plugin("module")))), engine)
    yield module, registry, engine
    registry.close()


def test_a_file_that_changed_between_loading_and_watching_goes_live(watched: tuple[Path, Any, Any]) -> None:
    """Compiling the other modules of a configuration may take long."""
    module, registry, engine = watched
    put(module, NEW)
    watcher = Watcher(registry, engine)
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
    engine = WasmtimeEngine()
    _, registry = load(kwx.write(tmp_path, kwx.configuration(pinned)), engine)
    put(module, NEW)
    with pytest.raises(LoadError) as refused:
        registry.slots[0].load(engine)
    registry.close()
    assert refused.value.problems == [f"{module} has digest {digest(NEW)}, the configuration allows only {digest(OLD)}"]


def test_a_watcher_that_never_started_stops(watched: tuple[Path, Any, Any]) -> None:
    _, registry, engine = watched
    Watcher(registry, engine).stop()


def test_a_request_in_its_midst_sees_nothing_of_a_swap(watched: tuple[Path, Any, Any]) -> None:
    module, registry, engine = watched
    (slot,) = registry.slots
    profile_of_the_request = registry.profiles[0].frozen()
    put(module, THIRD)
    slot.swap(slot.load(engine))
    assert profile_of_the_request.entries[0].plugin.digest == digest(OLD)
    assert registry.profiles[0].frozen().entries[0].plugin.digest == digest(THIRD)
