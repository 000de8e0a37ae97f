"""Modules that change while `kwx serve` runs."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.extender import guests, versions
from tests.extender.kwx import Extender, plugin, profile
from tests.extender.objects import NODE_NAMES, names_args, pod
from tests.patience import delay
from wasm_runtime.blob import digest

OLD, NEW = (guests.constant_score(score) for score in (10, 90))
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
        return str(self.extender.admin.get(f"/api/v1/plugins/{self.name}").json()["digest"])

    def log(self) -> list[dict[str, Any]]:
        return [
            line for line in self.extender.log() if line.get("plugin") == self.name and line["requested_by"] != "start"
        ]

    def history(self) -> list[tuple[str, str, str]]:
        """Stage, module and problem of all rollouts but the first, in their order."""
        rollouts = self.extender.admin.get("/api/v1/history", params={"plugin": self.name}).json()
        latest = {each["id"]: each for each in reversed(rollouts) if each["requestedBy"] != "start"}
        return [(each["stage"], each["module"], each["message"]) for each in latest.values()]

    def wait_until(self, condition: Callable[[], object]) -> None:
        self.extender.wait_until(condition)


NAMES = ("renamed", "linked", "rewritten", "bad", "touched")


@pytest.fixture(scope="module")
def extender(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Extender]:
    """Live are modules that score 10, each for a test to replace; that of `linked` is reached by links."""
    folder = tmp_path_factory.mktemp("swaps")
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


def ready(swapped: Swapped) -> str:
    return str(swapped.extender.admin.get("/readyz?verbose").text)


@pytest.mark.parametrize("swapped", ["renamed"], indirect=True)
def test_a_renamed_file_goes_live_and_is_logged(swapped: Swapped) -> None:
    before = swapped.extender.admin.get("/api/v1/plugins/renamed").json()
    put(swapped.module, NEW)
    swapped.wait_until(lambda: swapped.score() == 9)
    swapped.wait_until(swapped.log)
    (line,) = [line for line in swapped.log() if line["event"] == "revision is live"]
    after = swapped.extender.admin.get("/api/v1/plugins/renamed").json()
    assert {key: value for key, value in line.items() if key not in {"logger", "timestamp"}} == {
        "event": "revision is live",
        "level": "info",
        "plugin": "renamed",
        "profile": "renamed",
        "rollout": after["rollout"]["id"],
        "requested_by": "source",
        "origin": str(swapped.module),
        "revision": after["revision"]["id"],
        "module_digest": digest(NEW),
        "replaces": before["revision"]["id"],
    }
    assert after["digest"] == digest(NEW)


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
    *pieces, last = (NEW[at : at + 16] for at in range(0, len(NEW), 16))
    with swapped.module.open("wb") as file:
        for piece in pieces:
            file.write(piece)
            file.flush()
            delay(0.2)
            assert swapped.score() == 1
        file.write(last)
    swapped.wait_until(lambda: swapped.score() == 9)


@pytest.mark.parametrize("swapped", ["bad"], indirect=True)
def test_a_bad_or_missing_module_is_told_once_and_a_good_one_goes_live_after_it(swapped: Swapped) -> None:
    bad = b"\0asm\x01\0\0\0"
    put(swapped.module, bad)
    refused = f"plugin bad: what file://./bad.wasm gives is refused: {swapped.module} exports no memory"
    swapped.wait_until(lambda: refused in ready(swapped))
    swapped.module.unlink()
    swapped.wait_until(lambda: len(swapped.history()) == 2)
    delay(SETTLED_S)
    assert (swapped.score(), swapped.live()) == (1, digest(OLD))
    put(swapped.module, NEW)
    swapped.wait_until(lambda: swapped.score() == 9)
    swapped.wait_until(lambda: len(swapped.history()) == 3)
    assert "plugin bad" not in ready(swapped)
    assert swapped.history() == [
        (
            "failed",
            digest(bad),
            f"{swapped.module} exports no memory named 'memory': the host hands everything to a guest through it;"
            f" {swapped.module} exports no extension point; it needs at least one of enqueue, prefilter, addpod,"
            " removepod, filter, postfilter, prescore, score, normalizescore, reserve, bindingannotations, unreserve,"
            " permit, prebind, bind, postbind",
        ),
        ("failed", None, f"{swapped.module} cannot be read: No such file or directory; build it or mend the path"),
        ("active", digest(NEW), ""),
    ]


@pytest.mark.parametrize("swapped", ["touched"], indirect=True)
def test_a_touched_file_is_the_same_module(swapped: Swapped) -> None:
    os.utime(swapped.module, (0, 0))
    delay(SETTLED_S)
    put(swapped.module, OLD)
    delay(SETTLED_S)
    assert (swapped.history(), swapped.live()) == ([], digest(OLD))


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Extender]:
    """A plugin that tells its version."""
    folder = tmp_path_factory.mktemp("told")
    (folder / "told.wasm").write_bytes(versions.module(20))
    with Extender(folder, profile("default", plugin("told"), scoreRange=100)) as extender:
        yield extender


def upload(extender: Extender, version: int) -> None:
    """Returns when the version is live."""
    answer = extender.admin.put(
        "/api/v1/plugins/told/module",
        params={"wait": "20s"},
        content=versions.module(version),
        headers={"Content-Type": "application/wasm"},
    )
    assert (answer.status_code, answer.json().get("stage")) == (200, "active"), answer.text


def test_no_request_fails_and_no_pod_is_judged_by_two_versions_through_ten_swaps(told: Extender) -> None:
    with versions.asking(told.address[1], [versions.Questions(20)], connections=3) as answered:
        cycles = answered.cycles["default"]
        for version in [11, 10] * 5:
            upload(told, version)
            told.wait_until(lambda: cycles and cycles[-1].versions[0] == version)  # noqa: B023 (called at once)
    assert answered.failures == []
    assert [cycle for cycle in cycles if cycle.is_mixed] == []


def test_who_has_waited_for_the_end_of_a_swap_can_begin_the_next_one(told: Extender) -> None:
    for version in [11, 10] * 5:
        upload(told, version)


def test_a_pod_is_scored_by_the_version_that_has_filtered_it(told: Extender) -> None:
    """The module is swapped twice meanwhile. A pod that nobody has filtered is scored by what is live."""

    def passing(pod_name: str) -> list[str]:
        return list(told.post("/filter", names_args(the_pod=pod(pod_name)))["NodeNames"])

    def scored(pod_name: str) -> list[int]:
        answer = told.post("/prioritize", names_args(["node-7"], the_pod=pod(pod_name)))
        return [each["Score"] for each in answer]

    upload(told, 10)
    without = {digit: [name for name in NODE_NAMES if name[-1] != digit] for digit in "012"}
    assert passing("first") == without["0"]
    upload(told, 11)
    assert passing("second") == without["1"]
    upload(told, 12)
    assert passing("third") == without["2"]
    assert [scored(name) for name in ("first", "second", "third", "new")] == [[10], [11], [12], [12]]
    assert passing("first") == without["2"]
    assert scored("first") == [12]


def test_a_verb_that_a_swap_brings_is_warned_of(tmp_path: Path) -> None:
    """kube-scheduler does not ask for it unless its configuration is changed, too."""
    module = tmp_path / "swapped.wasm"
    module.write_bytes(guests.module("reject"))
    with Extender(tmp_path, profile("default", plugin("swapped"))) as extender:

        def warned() -> list[str]:
            return [line["event"] for line in extender.log() if line["level"] == "warning"]

        for number, name in enumerate(("nodenumber", "reject", "drain"), 1):
            put(module, guests.module(name))
            extender.wait_until(lambda: len(warned()) >= number)  # noqa: B023 (called at once)
        assert len(extender.events("revision is live")) == 3
    assert warned() == [
        "plugins have a say in prioritize now; kube-scheduler asks for that only if its configuration names the verb,"
        " as kwx scheduler-config prints it",
        "plugins have a say in filter and preempt now; kube-scheduler asks for that only if its configuration names the"
        " verb, as kwx scheduler-config prints it",
        "plugins have a say in bind now; kube-scheduler asks for that only if its configuration names the verb,"
        " as kwx scheduler-config prints it, and bind only where the extender is not ignorable",
    ]
