"""`kwx serve` is killed in the midst of swaps: whatever it was doing, the next one serves what is good."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import httpx
import msgspec
import pytest

from tests.extender import kwx, versions
from tests.extender.kwx import ON_PURPOSE, Extender, plugin, profile
from tests.extender.objects import names_args
from tests.extender.rollouts.test_swaps import put
from tests.patience import delay

SEEDS = (1, 2)
"""One for each process that is killed, started again, and so on; they run at the same time."""
KILLS = (
    pytest.param(8, id="short", marks=pytest.mark.timeout(600)),
    pytest.param(100, id="full", marks=[pytest.mark.nightly, pytest.mark.timeout(3600)]),
)
"""Of each; start after start, each of which compiles."""
STEPS = ("fetching", "fetched", "verified", "compiled", "probed", "warmed", "active", "draining")
"""Of a swap, by the stages of what comes and of what goes."""
JITTER_S = 0.05
"""Longest time between a step and the kill: most steps take less."""
BROKEN_SHARE = 0.1
"""Part of the modules that cannot be used, where the kill does not wait for them."""


@dataclass
class Swapped:
    """A plugin with a profile of its own. Each module that it is given has another version."""

    name: str
    versions: Iterator[int] = field(default_factory=partial(itertools.cycle, versions.VERSIONS))
    good: set[int] = field(default_factory=set)
    """The versions that the next start may serve."""

    def next(self, *, broken: bool = False) -> bytes:
        """Another module; a broken one lacks its end."""
        version = next(self.versions)
        wasm = versions.module(version)
        if broken:
            return wasm[:-1]
        self.good.add(version)
        return wasm

    def check(self, extender: Extender) -> None:
        """Asserts that a good version serves."""
        (only,) = extender.post(f"/profiles/{self.name}/prioritize", names_args(["node-7"]))
        assert int(only["Score"]) in self.good, (self.name, only, self.good)
        self.good = {int(only["Score"])}


@pytest.mark.parametrize("kills", KILLS)
def test_the_next_start_serves_what_is_good(kills: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))  # Each module is to be compiled.
    with ThreadPoolExecutor(len(SEEDS)) as threads:
        list(threads.map(partial(kill_again_and_again, tmp_path, kills), SEEDS))


def kill_again_and_again(parent: Path, kills: int, seed: int) -> None:
    """Starts, checks what serves, swaps and kills."""
    folder = parent / str(seed)
    folder.mkdir()
    chance = random.Random(seed)
    followed, uploaded = Swapped("followed"), Swapped("uploaded")
    unhurried = {"slowdownFloor": "10s"}  # What else the machine does must not make a candidate a slow one.
    profiles = [profile(each.name, plugin(each.name, swap=unhurried), scoreRange=100) for each in (followed, uploaded)]
    for each in followed, uploaded:
        put(folder / f"{each.name}.wasm", each.next())
    for _ in range(kills):
        with Extender(folder, *profiles) as extender:
            followed.check(extender)
            uploaded.check(extender)
            kill_amid_swaps(extender, followed, uploaded, chance)
        if not followed.good:
            refused = kwx.run("serve", "--config", extender.config, home=folder)
            problem = f"{folder}/followed.wasm is no valid WebAssembly module"
            assert (refused.returncode, problem in refused.stderr) == (1, True), refused
            put(folder / "followed.wasm", followed.next())


def kill_amid_swaps(extender: Extender, followed: Swapped, uploaded: Swapped, chance: random.Random) -> None:
    """Replaces a file, uploads a module, and kills at a random moment of one of these swaps."""
    awaited = chance.choice((followed, uploaded))
    stage = chance.choice(STEPS)
    is_broken = chance.random() < BROKEN_SHARE
    with httpx.stream(
        "GET", f"{extender.admin_url}/api/v1/events", headers=ON_PURPOSE, timeout=30, trust_env=False
    ) as events:
        followed.good.clear()
        put(extender.folder / "followed.wasm", followed.next(broken=is_broken and awaited is uploaded))
        extender.admin.put(
            "/api/v1/plugins/uploaded/module",
            content=uploaded.next(broken=is_broken and awaited is followed),
            headers={"Content-Type": "application/wasm"},
        ).raise_for_status()
        for line in events.iter_lines():
            if line.startswith("data:"):
                rollout = msgspec.json.decode(line.removeprefix("data:"))
                assert rollout["plugin"] != awaited.name or rollout["stage"] != "failed", rollout
                if (rollout["plugin"], rollout["stage"]) == (awaited.name, stage):
                    break
        delay(chance.uniform(0, JITTER_S))
        extender.kill()
