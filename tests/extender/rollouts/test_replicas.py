"""Where other extenders serve as well, what serves comes from the source that all of them read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from extender.rollouts.revision import RolloutStage
from extender.rollouts.swap_command import (
    FromRevision,
    FromSource,
    FromUpload,
    FromUrl,
    ReplicatedError,
    SwapCommand,
)
from tests.extender import guests, kwx, versions
from tests.extender.kwx import Extender, plugin, profile
from tests.extender.objects import names_args
from tests.extender.rollouts.inside import Inside
from tests.extender.rollouts.test_probation import SETTINGS, TRAPS, ask
from tests.extender.rollouts.test_restart import DOWN, Serving, alone, configured, notice, serving, upload, wasm
from tests.extender.rollouts.test_swaps import put
from tests.extender.sources import web
from wasm_runtime.blob import Blob

STANDBY = {"replicas": "standby"}
OLD, NEW = versions.module(10), versions.module(11)
ELSEWHERE = (
    "plugin told is served by other replicas too (server.replicas), and this would change one of them; put the module"
    " at file://./told.wasm, or its settings into the configuration, where all of them read it"
)
BACK = (
    "plugin told is served by other replicas too (server.replicas), and this would change one of them; put the earlier"
    " module back at file://./told.wasm, where all of them read it"
)


def start(folder: Path, replicas: str, **more: Any) -> Inside:
    put(folder / "told.wasm", OLD)
    return Inside(folder, profile("default", plugin("told", **more), scoreRange=100), server={"replicas": replicas})


@pytest.mark.parametrize("replicas", ["standby", "shared"])
def test_commands_that_the_others_would_not_get_are_refused(tmp_path: Path, replicas: str) -> None:
    with start(tmp_path, replicas) as inside:
        first = inside.active()
        put(tmp_path / "told.wasm", NEW)
        inside.offer()
        second = inside.active()
        commands = [
            SwapCommand(FromUpload(Blob(OLD)), "ann"),
            SwapCommand(FromUrl("https://registry.example/told.wasm"), "ann"),
            SwapCommand(FromRevision(first), "ann"),
            SwapCommand(FromSource(), "ann", settings={"weight": 2}),
        ]
        for command in commands:
            with pytest.raises(ReplicatedError) as refused:
                inside.rollouts.begin(inside.slot(), command)
            assert str(refused.value) == ELSEWHERE
        with pytest.raises(ReplicatedError) as refused:
            inside.rollouts.roll_back(inside.slot(), by="ann")
        assert str(refused.value) == BACK
        assert inside.active() == second != first


def test_a_dry_run_and_what_the_source_gives_now_are_not_refused(tmp_path: Path) -> None:
    with start(tmp_path, "standby") as inside:
        first = inside.active()
        tried = inside.over(inside.begin(NEW, dry_run=True))
        assert (tried.stage, inside.active()) == (RolloutStage.REHEARSED, first)
        put(tmp_path / "told.wasm", NEW)
        swapped = inside.over(inside.rollouts.begin(inside.slot(), SwapCommand(FromSource(), "ann")))
        assert (swapped.stage, swapped.revision) == (RolloutStage.ACTIVE, inside.active())
        assert inside.active() != first


def test_probation_lasts_until_a_standby_has_been_asked(tmp_path: Path) -> None:
    """It rolls back after a fail-over what the leader has rolled back before."""
    with start(tmp_path, "standby", **SETTINGS, swap={"rollbackTime": "1ms", "slowdownFloor": "10s"}) as inside:
        good = inside.active()
        put(tmp_path / "told.wasm", TRAPS)
        inside.offer()
        bad = inside.active()
        inside.reconcile()
        assert inside.active() == bad != good
        ask(inside, 3)
        inside.reconcile()
        assert inside.active() == good


def test_after_a_restart_serves_what_the_source_gives_whatever_was_commanded_before(tmp_path: Path) -> None:
    """So it does while the source is away, but not what a probe has refused."""
    trapping = guests.module("trap_on_pod")
    with web.serving() as server:
        server.pages["/away.wasm"] = web.tagged('"1"', wasm(10))
        places = {name: configured(name) for name in ("uploaded", "refused")}
        places["away"] = configured("away", server.url("/away.wasm"))
        for name in ("uploaded", "refused"):
            put(tmp_path / f"{name}.wasm", wasm(10))
        own = {"stateDirectory": "state"}
        with Extender(tmp_path, *map(alone, places.values()), server=own) as extender:
            for name in ("uploaded", "away"):
                upload(extender, name, 20)
            extender.post("/profiles/refused/filter", names_args())
            put(tmp_path / "refused.wasm", trapping)
            extender.wait_until(lambda: serving(extender, "refused").notice)
        server.pages["/away.wasm"] = DOWN
        with Extender(tmp_path, *map(alone, places.values()), server=own | STANDBY) as extender:
            assert serving(extender, "uploaded") == Serving(10)
            assert serving(extender, "refused") == Serving(10, notice=notice("refused", wasm(10), trapping))
            assert serving(extender, "away")._replace(problem="") == Serving(10)
            views = {view["name"]: view["revision"]["id"] for view in extender.admin.get("/api/v1/plugins").json()}
            served = ", ".join(f"{name}/{name} {views[name]}" for name in places)
            ready = extender.admin.get("/readyz", params={"verbose": ""}).text.splitlines()
            assert f"[+]replicas ok: standby; {served}" in ready
            answer = extender.admin.post("/api/v1/plugins/uploaded/rollback")
            assert (answer.status_code, answer.json()["message"]) == (409, BACK.replace("told", "uploaded"))


STATEFUL = {
    "binding_from_config": "it has a part in binding (reserve, unreserve, permit, prebind, bind, postbind)",
    "packs_two": "it counts pods, and one replica does not know what another has just answered",
}


@pytest.mark.parametrize("name", STATEFUL)
def test_shared_refuses_plugins_that_rely_on_earlier_verbs(tmp_path: Path, name: str) -> None:
    shared = {"server": {"replicas": "shared"}}
    file = kwx.write(tmp_path, kwx.configuration(profile("default", plugin(name)), **shared))
    result = kwx.run("serve", "--config", file, home=tmp_path)
    (problem,) = kwx.problems(result, file)
    assert problem == (
        f"profiles[0].plugins[0].guestURL: plugin {name}: {tmp_path}/{name}.wasm cannot serve with server.replicas:"
        f" shared, where each verb may reach another replica: {STATEFUL[name]}. Give each kube-scheduler an extender"
        " of its own, with replicas: standby"
    )


def test_shared_refuses_such_a_module_of_the_source(tmp_path: Path) -> None:
    with start(tmp_path, "shared") as inside:
        first = inside.active()
        put(tmp_path / "told.wasm", guests.module("binding_from_config"))
        inside.offer()
        assert inside.active() == first
        assert "cannot serve with server.replicas: shared" in inside.slot().difference
