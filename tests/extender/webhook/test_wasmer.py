"""Plugins on wasmer as kube-scheduler and the operator meet them: over HTTP, beside the same on wasmtime."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.extender import guests
from tests.extender.kwx import Extender, failure, plugin, profile
from tests.extender.objects import (
    NODE_NAMES,
    binding_args,
    filter_error,
    filtered,
    meta_victims,
    names_args,
    node,
    nodes_args,
    pod,
    preemption_args,
    priorities,
)

pytest.importorskip(
    "wasmer",
    reason="there is no wasmer for CPython 3.11 and newer: uv python install 3.10, and let make test use it",
    exc_type=ImportError,
)

ENGINES: dict[str, dict[str, Any]] = {"wasmtime": {}, "wasmer": {"engine": "wasmer", "allowUnlimited": True}}

PLUGINS = {
    "digit": [plugin("filter_by_digit", "72ends in 7"), plugin("score_by_digit")],
    "nodenumber": [plugin("nodenumber")],
    "accelerator": [plugin("accelerator")],
    "trap": [plugin("print_and_trap")],
    "exit": [plugin("exit")],
    "talk": [plugin("talk")],
    "swap": [plugin("swap", name="swap")],
    "bind": [plugin("binding_from_config", "aaaaafa")],
    "stops": [plugin("binding_from_config", "a2aaafa")],
}
"""Profiles, and their plugins."""

PROFILES = [
    profile(f"{name}-{engine}", *(each | more for each in plugins))
    for name, plugins in PLUGINS.items()
    for engine, more in ENGINES.items()
]


@pytest.fixture(scope="module")
def extender(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Extender]:
    folder = tmp_path_factory.mktemp("wasmer")
    (folder / "swap.wasm").write_bytes(guests.constant_score(10))
    with Extender(folder, profile("default", plugin("nodenumber")), *PROFILES, cluster={"mode": "dry-run"}) as extender:
        yield extender


LABEL = "kwx.dev/accelerator"
LABELLED = [node("node-0"), node("node-1", labels={LABEL: "a100"}), node("node-2", labels={LABEL: "h100"})]
PRINTED = "; the guest printed: panic: no quota\ngoroutine 1"
"""What the guest that prints and traps has printed."""

ANSWERS = {
    "filter rejects by name": (
        "digit/filter",
        names_args(),
        filtered([name for name in NODE_NAMES if name != "node-7"], failed={"node-7": "ends in 7"}),
    ),
    "prioritize": ("digit/prioritize", names_args(), priorities({name: int(name[-1]) for name in NODE_NAMES})),
    "preempt": (
        "digit/preempt",
        preemption_args({"node-6": meta_victims("a"), "node-7": meta_victims("b")}),
        {"NodeNameToMetaVictims": {"node-6": meta_victims("a")}},
    ),
    "filter rejects by what the nodes are": (
        "accelerator/filter",
        nodes_args(LABELLED, pod(annotations={LABEL: "h100"})),
        {
            "Nodes": {"metadata": {}, "items": LABELLED[2:]},
            "NodeNames": None,
            "FailedNodes": {},
            "FailedAndUnresolvableNodes": {
                "node-0": f"node has no label {LABEL}=h100",
                "node-1": f"node label {LABEL} is a100, pod wants h100",
            },
            "Error": "",
        },
    ),
    "an example": (
        "nodenumber/prioritize",
        names_args(),
        priorities({"node-7": 10}),
    ),
    "a trap": (
        "trap/filter",
        names_args(),
        filter_error(
            failure(PLUGINS["trap"][0], f"filter of node node-0: trap: unreachable in give_up < func[2]{PRINTED}")
        ),
    ),
    "an exit": (
        "exit/filter",
        names_args(),
        filter_error(failure(PLUGINS["exit"][0], "filter of node node-0: the guest left by exit status 3")),
    ),
    "bind": ("bind/bind", binding_args(), {"Error": ""}),
    "bind that a guest stops": (
        "stops/bind",
        binding_args(),
        {"Error": "plugin binding_from_config: reserve: Unschedulable: not today"},
    ),
}
"""Requests, and their answers."""


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("what", ANSWERS)
def test_answers_are_those_of_wasmtime(extender: Extender, engine: str, what: str) -> None:
    path, request, answer = ANSWERS[what]
    name, verb = path.split("/")
    if verb == "bind":
        extender.post(f"/profiles/{name}-{engine}/filter", names_args(["node-7"]))
    assert extender.post(f"/profiles/{name}-{engine}/{verb}", request) == answer


def test_what_a_guest_logs_is_that_of_wasmtime(extender: Extender) -> None:
    logged = []
    for engine in ENGINES:
        extender.post(f"/profiles/talk-{engine}/filter", names_args(["node-1", "node-2"], pod(f"talk-{engine}")))
        lines = [line for line in extender.log() if line.get("pod") == f"default/talk-{engine}"]
        logged.append([{key: each for key, each in line.items() if key not in {"timestamp", "pod"}} for line in lines])
    assert logged[0] == logged[1]
    assert [(line["event"], line.get("node")) for line in logged[1]][-2:] == [
        ("is fine", "node-1"),
        ("is fine", "node-2"),
    ]


def test_a_module_is_swapped_under_both(extender: Extender) -> None:
    def scores() -> list[int]:
        asked = [extender.post(f"/profiles/swap-{engine}/prioritize", names_args(["node-1"])) for engine in ENGINES]
        return [answer[0]["Score"] for answer in asked]

    assert scores() == [1, 1]
    beside = extender.folder / "new"
    beside.write_bytes(guests.constant_score(70))
    beside.replace(extender.folder / "swap.wasm")
    extender.wait_until(lambda: len(extender.events("revision is live")) == len(ENGINES), 60)
    assert scores() == [7, 7]
