"""No neighbour suffers: whatever a guest does, other plugins, other profiles and health answer as without it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import msgspec
import pytest
import wasmtime

from extender.config import ConfigError, FailurePolicy
from extender.rollouts import load
from extender.scheduling import filter as filter_verb
from extender.scheduling.profile import SHORT_DIGEST, PluginFailedError, Profile, ProfilePlugin
from tests.extender import guests, kwx
from tests.extender.kwx import Extender, failure, plugin, profile
from tests.extender.objects import NODE_NAMES, filter_error, filtered, names_args, pod, priorities
from tests.patience import PATIENCE_S, wait_until
from wasm_runtime.engine import MEBIBYTE, Settings
from wasm_runtime.engines.wasmtime import WasmtimeEngine
from wasm_runtime.guests.guest import Pod
from wasm_runtime.guests.plugin import Plugin
from wasm_runtime.module import metadata
from wasm_runtime.nodes.node_table import Nodes, NodeTable

ROUNDS = 2
LIMITS: dict[str, Any] = {"timeout": "200ms", "memoryLimit": "16Mi", "tableLimit": 65_536, "outputLimit": "1Ki"}

LATE = "interrupted at its timeout of 200 ms"
PRINTED = "again\n" * 170 + "agai"
SLOW = "; mend the guest, or raise the plugin's timeout"
FULL = "; its memory has grown to 16 of 16 MiB; mend the guest, or raise the plugin's memoryLimit"

CAUSES: dict[str, Callable[[str], str]] = {
    "spin": lambda _: f"{LATE}{SLOW}",
    "recurse": lambda _: (
        f"trap: stack overflow in {' < '.join(['deeper'] * 12)} < …; mend the guest, or raise runtime.stackLimit"
    ),
    "grow_memory_and_trap": lambda export: f"trap: unreachable in grow < {export}{FULL}",
    "grow_memory": lambda _: f"{LATE}{SLOW}",
    "grow_table": lambda _: f"{LATE}{SLOW}",
    "log": lambda _: f"{LATE}{SLOW}",
    "record": lambda _: f"{LATE}{SLOW}",
    "print": lambda _: f"{LATE}; the guest printed: {PRINTED}{SLOW}",
    "ask": lambda _: f"{LATE}{SLOW}",
    "ask_in_python": lambda _: f"{LATE}{SLOW}",
    "trap": lambda export: f"trap: unreachable in func[{int(export == 'score')}]",
    "exit": lambda _: "the guest left by exit status 3",
}
"""Guests that do no good wherever they are called, and why a call of an export has no answer."""

STARTS = {
    "exit_at_start": "_initialize: the guest left by exit status 3",
    "grow_at_start": f"_initialize: trap: unreachable in grow < initialize{FULL}",
}
"""Guests that cannot be started again once they have broken, and why."""

GOOD = (plugin("filter_by_digit", "72ends in 7"), plugin("score_by_digit"))
GOOD_FILTER = filtered([name for name in NODE_NAMES if name != "node-7"], failed={"node-7": "ends in 7"})
GOOD_FILTER_BESIDE = GOOD_FILTER | {"FailedNodes": {"node-7": "ends in 7 (filter_by_digit)"}}
"""The same where another plugin filters, too."""
GOOD_SCORES = priorities({name: int(name[-1]) for name in NODE_NAMES})


def bad(name: str, policy: str = "Fail") -> dict[str, Any]:
    return plugin(name, failurePolicy=policy, **LIMITS)


PROFILES = [
    profile("good", *GOOD),
    profile("swapped", bad("swapped") | {"guestConfig": "72ends in 7"}),
    *(profile(f"{name}-fails", *GOOD, bad(name)) for name in CAUSES),
    *(profile(f"{name}-ignored", bad(name, "Ignore"), *GOOD) for name in CAUSES),
]


@pytest.fixture(scope="module")
def extender(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Extender]:
    folder = tmp_path_factory.mktemp("isolation")
    (folder / "swapped.wasm").write_bytes(guests.module("filter_by_digit"))
    with Extender(folder, *PROFILES) as extender:
        yield extender


def ask(extender: Extender, profile: str, verb: str, name: str = "web-7") -> Any:
    return extender.post(f"/profiles/{profile}/{verb}", names_args(the_pod=pod(name)))


def check_neighbours(extender: Extender) -> None:
    """Another profile, health, and the list of plugins."""
    assert ask(extender, "good", "filter") == GOOD_FILTER
    assert ask(extender, "good", "prioritize") == GOOD_SCORES
    assert extender.admin.get("/livez").text == "ok"
    assert extender.admin.get("/readyz").text == "ok"
    assert len(extender.admin.get("/api/v1/plugins").json()) == sum(len(each["plugins"]) for each in PROFILES)


@pytest.mark.parametrize("name", CAUSES)
def test_a_failure_is_answered_with_its_true_cause(extender: Extender, name: str) -> None:
    on_node = {export: f"{export} of node node-0: {CAUSES[name](export)}" for export in ("filter", "score")}
    assert ask(extender, f"{name}-fails", "filter") == filter_error(failure(bad(name), on_node["filter"]))
    assert ask(extender, f"{name}-fails", "prioritize", f"{name}-7") == []
    errors = extender.events(f"prioritize failed: {failure(bad(name), on_node['score'])}")
    assert [line["pod"] for line in errors] == [f"default/{name}-7"]


@pytest.mark.parametrize("name", CAUSES)
def test_a_failure_that_is_ignored_changes_nothing_of_what_the_others_say(extender: Extender, name: str) -> None:
    assert ask(extender, f"{name}-ignored", "filter") == GOOD_FILTER_BESIDE
    assert ask(extender, f"{name}-ignored", "prioritize") == GOOD_SCORES


@pytest.mark.parametrize("name", CAUSES)
def test_others_are_answered_meanwhile_as_without_it(extender: Extender, name: str) -> None:
    def load() -> list[Any]:
        return [ask(extender, f"{name}-fails", verb)["Error"] for verb in ["filter"] * ROUNDS]

    with ThreadPoolExecutor(1) as threads:
        errors = threads.submit(load)
        check_neighbours(extender)
        while not errors.done():
            check_neighbours(extender)
    cause = failure(bad(name), f"filter of node node-0: {CAUSES[name]('filter')}")
    assert errors.result(PATIENCE_S) == [cause] * ROUNDS


def test_of_what_is_written_without_end_as_much_is_kept_as_the_limit_allows(extender: Extender) -> None:
    """1,024 bytes: 33 lines, or 10 Events, of one node each with 20 bytes beside texts and names."""
    recorded = len(extender.events("an Event was recorded"))
    for name in ("log", "record"):
        ask(extender, f"{name}-fails", "filter", f"{name}-limited")
    lines = [line for line in extender.log() if line.get("pod") in {"default/log-limited", "default/record-limited"}]
    assert [line["plugin"] for line in lines if line["event"] == "again"] == ["log"] * 33
    dropped = "the guest logs more than is kept of one verb; raise the plugin's outputLimit"
    assert [(line["plugin"], line["dropped"] > 0) for line in lines if line["event"] == dropped] == [
        ("log", True),
        ("record", True),
    ]
    events = extender.events("an Event was recorded")[recorded:]
    assert [(line["regarding"], line["reason"]) for line in events] == [("Node node-7", "Again")] * 10


# -- what cannot be started ------------------------------------------------------------------------


@pytest.mark.parametrize("name", STARTS)
def test_a_guest_that_breaks_and_cannot_be_started_again_fails_alone(name: str) -> None:
    moment = time.time_ns() + 1_000_000_000
    engine = WasmtimeEngine()
    settings = Settings(name, memory_limit=16 * MEBIBYTE, timeout=30)
    broken = Plugin(engine, guests.failing_at_start(name, moment), settings)
    good = Plugin(engine, guests.module("filter_by_digit"), Settings("digit", "72ends in 7"))
    nodes = Nodes(NodeTable(), NODE_NAMES)

    def judge(policy: FailurePolicy) -> filter_verb.Verdict:
        plugins = [ProfilePlugin(good), ProfilePlugin(broken, failure_policy=policy)]
        return filter_verb.run(Profile("default", plugins), Pod("u", "default/web-7", b""), nodes)

    wait_until(lambda: time.time_ns() >= moment, "the guest fails from now on")
    for cause in ("filter of node node-0: trap: unreachable in filter", STARTS[name], STARTS[name]):
        with pytest.raises(PluginFailedError) as failed:
            judge(FailurePolicy.FAIL)
        assert str(failed.value) == f"plugin {name} ({broken.digest[:SHORT_DIGEST]}): {cause}"
    passing = [name for name in NODE_NAMES if name != "node-7"]
    kept, rejected, unresolvable, *_ = judge(FailurePolicy.IGNORE)
    assert (kept.names, rejected, unresolvable) == (passing, {"node-7": "ends in 7 (digit)"}, {})
    broken.close()
    good.close()


REFUSED = {
    "exits": (guests.failing_at_start("exit_at_start", 0), f"does not start: {STARTS['exit_at_start']}"),
    "grows": (guests.failing_at_start("grow_at_start", 0), f"does not start: {STARTS['grow_at_start']}"),
    "spins": (
        b'(module (memory (export "memory") 1) (func (export "filter") (result i32) (i32.const 0))'
        b' (func (export "_start") (loop $again (br $again))))',
        f"does not start: _start: {LATE}{SLOW}",
    ),
    "spins-in-its-start-section": (
        b'(module (memory (export "memory") 1) (func (export "filter") (result i32) (i32.const 0))'
        b" (func $start (loop $again (br $again))) (start $start))",
        f"does not start: instantiate: {LATE}{SLOW}",
    ),
    "misconfigured": (
        metadata.embed(
            guests.failing_at_start("exit_at_start", 0),
            metadata.Metadata(config_schema=msgspec.Raw(b'{"required":["tier"]}')),
        ),
        'does not accept this guestConfig: "tier" is a required property',
    ),
    "begins-too-large": (
        b'(module (memory (export "memory") 257) (func (export "filter") (result i32) (i32.const 0)))',
        "does not start: instantiate: memory minimum size of 257 pages exceeds memory limits;"
        " mend the guest, or raise the plugin's memoryLimit",
    ),
    "has-too-large-a-table": (
        b'(module (memory (export "memory") 1) (table 65537 funcref)'
        b' (func (export "filter") (result i32) (i32.const 0)))',
        "does not start: instantiate: table minimum size of 65537 elements exceeds table limits;"
        " mend the guest, or raise the plugin's tableLimit",
    ),
}
"""Guests that never start, and why."""


def test_guests_that_do_not_start_are_refused_with_their_true_causes_all_at_once(tmp_path: Path) -> None:
    for name, (module, _) in REFUSED.items():
        (tmp_path / f"{name}.wasm").write_bytes(wasmtime.wat2wasm(module) if module.startswith(b"(") else module)
    file = kwx.write(tmp_path, kwx.configuration(profile("default", *map(bad, REFUSED))))
    with pytest.raises(ConfigError) as refused:
        load(file)
    assert list(refused.value.problems) == [
        f"profiles[0].plugins[{at}].guestURL: plugin {name}: {tmp_path}/{name}.wasm {cause}"
        for at, (name, (_, cause)) in enumerate(REFUSED.items())
    ]


@pytest.mark.parametrize("name", STARTS)
def test_a_guest_that_does_not_start_never_takes_the_place_of_one_that_does(extender: Extender, name: str) -> None:
    module = extender.folder / "swapped.wasm"
    beside = module.with_suffix(".new")
    beside.write_bytes(guests.failing_at_start(name, 0))
    beside.replace(module)
    refusal = f"revision refused, what serves stays live: {module} does not start: {STARTS[name]}"
    extender.wait_until(lambda: extender.events(refusal))
    assert ask(extender, "swapped", "filter") == GOOD_FILTER
    check_neighbours(extender)
