"""Nodes that kube-scheduler names before the extender's own watch has brought them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
from uvicorn.server import ServerState

from bench.peers.kubeconfig import write_kubeconfig
from bench.peers.protobuf import event, framed, node_list
from extender.cluster import ApiServer, NodeCache
from extender.scheduling import late_nodes
from extender.scheduling.late_nodes import MAX_LAG_S, MAX_LATE_NODES, MAX_LOGGED_NAMES, LateNodes
from extender.webhook import protocol
from extender.webhook.protocol import Answer
from tests.clock import Clock
from tests.extender import raw
from tests.extender.cache import Cache
from tests.extender.cluster.scripted import ScriptedServer, answer, stream
from tests.extender.cluster.support import Ends, running
from tests.extender.kwx import plugin, profile
from tests.extender.objects import (
    Object,
    filtered,
    meta_victims,
    names_args,
    node,
    pod,
    preemption_args,
    scores,
)
from tests.extender.rollouts.inside import Inside
from tests.extender.served import Served
from tests.patience import Beside, eventually
from wasm_runtime.nodes.node_table import NodeTable
from wasm_runtime.protobuf import encode_node

LABEL = "kwx.dev/accelerator"
OTHER = {"node-0": f"node has no label {LABEL}=h100"}
UNKNOWN = {"node-1": "node node-1 is not known"}
"""What the guest says of a node without an object."""

WITHOUT = filtered([], UNKNOWN, OTHER)
WITH = filtered(["node-1"], unresolvable=OTHER)


@pytest.fixture
def inside(tmp_path: Path) -> Iterator[Inside]:
    """A cluster of node-0, a profile whose guest asks for nodes, and one whose guest does not."""
    profiles = profile("default", plugin("accelerator")), profile("names", plugin("nodenumber"))
    with Inside(tmp_path, *profiles, cache=Cache()) as inside:
        inside.nodes.put([("node-0", encode_node(node("node-0")))])
        yield inside


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """Time stands still, so a node is waited for until the test says that it is `late`."""
    clock = Clock()
    monkeypatch.setattr(late_nodes, "time", SimpleNamespace(monotonic=clock))
    return clock


@pytest.fixture
def late(clock: Clock) -> Callable[[], None]:
    """Says that the time is over for which a node is waited."""

    def pass_time() -> None:
        clock.now += MAX_LAG_S

    return pass_time


def train(name: str = "train-1") -> Object:
    """A pod that wants a node with a label."""
    return pod(name, annotations={LABEL: "h100"})


def asked(*names: str) -> Object:
    return names_args(names or ["node-0", "node-1"], train())


def comes(inside: Inside) -> None:
    inside.nodes.put([("node-1", encode_node(node("node-1", labels={LABEL: "h100"})))])


def during(inside: Inside, happens: Callable[[], object], *requests: tuple[str, Object]) -> list[Any]:
    """The answers of requests that wait until something happens."""

    async def scenario() -> list[Answer]:
        answers = [asyncio.ensure_future(_later(inside.begin_to_ask(*request))) for request in requests]
        await asyncio.sleep(0)
        assert inside.source.late.has_any(["node-1"])
        assert not any(each.done() for each in answers)
        happens()
        return await asyncio.gather(*answers)

    return [msgspec.json.decode(each.body) for each in inside.run(scenario())]


async def _later(answer: Any) -> Answer:
    found: Answer = await answer
    return found


def warnings(caplog: pytest.LogCaptureFixture) -> list[tuple[str, list[str], int]]:
    """What was warned of: message, names, number of names."""
    ours = [record for record in caplog.records if record.name.startswith("extender.")]
    ours = [record for record in ours if record.levelno >= logging.WARNING]
    return [(record.getMessage(), record.__dict__["nodes"], record.__dict__["count"]) for record in ours]


MISSING = (
    "requests name nodes that the watch on the API server has not brought within 150 ms;"
    " until it does, guests see them without an object"
)


def test_a_node_that_comes_is_judged_with_its_object(inside: Inside, caplog: pytest.LogCaptureFixture) -> None:
    assert during(inside, lambda: comes(inside), ("/filter", asked())) == [WITH]
    assert inside.ask("/filter", asked()) == WITH
    assert warnings(caplog) == []


def test_every_verb_that_judges_nodes_waits(tmp_path: Path) -> None:
    candidates = {"node-0": meta_victims("a"), "node-1": meta_victims("b")}
    requests = ("/prioritize", asked()), ("/preempt", preemption_args(candidates, train()))
    with Inside(tmp_path, profile("default", plugin("accelerator")), cache=Cache()) as inside:
        inside.nodes.put([("node-0", encode_node(node("node-0")))])
        assert during(inside, lambda: comes(inside), *requests) == [
            [],
            {"NodeNameToMetaVictims": {"node-1": meta_victims("b")}},
        ]


def test_one_that_never_comes_is_judged_without_and_not_waited_for_again(
    inside: Inside, late: Callable[[], None], caplog: pytest.LogCaptureFixture
) -> None:
    assert during(inside, late, ("/filter", asked())) == [WITHOUT]
    assert inside.ask("/filter", asked()) == WITHOUT
    assert inside.ask("/filter", asked("node-1")) == filtered([], UNKNOWN)
    assert warnings(caplog) == [(MISSING, ["node-1"], 1)]
    comes(inside)
    assert inside.ask("/filter", asked()) == WITH


def test_one_that_was_removed_is_not_waited_for(inside: Inside, caplog: pytest.LogCaptureFixture) -> None:
    comes(inside)
    inside.nodes.remove("node-1")
    assert inside.ask("/filter", asked()) == WITHOUT
    assert warnings(caplog) == []


def test_many_requests_wait_together_and_one_warning_tells_of_them(
    inside: Inside, late: Callable[[], None], caplog: pytest.LogCaptureFixture
) -> None:
    requests = [("/filter", names_args(["node-0", "node-1"], train(f"train-{at}"))) for at in range(10)]
    assert during(inside, late, *requests) == [WITHOUT] * 10
    assert warnings(caplog) == [(MISSING, ["node-1"], 1)]


def test_many_requests_wait_for_the_same_node(inside: Inside) -> None:
    requests = [("/filter", names_args(["node-0", "node-1"], train(f"train-{at}"))) for at in range(10)]
    assert during(inside, lambda: comes(inside), *requests) == [WITH] * 10


def test_a_plugin_that_asks_for_no_nodes_does_not_wait(inside: Inside) -> None:
    for _ in range(2):
        assert inside.ask("/profiles/names/filter", asked()) == filtered(["node-0", "node-1"])
        assert inside.ask("/profiles/names/prioritize", names_args(["node-7"], pod("web-7"))) == scores(node_7=10)
    assert during(inside, lambda: comes(inside), ("/filter", asked())) == [WITH]


def test_a_request_whose_nodes_are_known_does_not_wait_beside_one_that_does(inside: Inside) -> None:
    def knows_its_nodes() -> None:
        assert not inside.source.late.has_any(["node-0"])
        comes(inside)

    assert during(inside, knows_its_nodes, ("/filter", asked())) == [WITH]


def test_what_the_watch_brings_ends_the_wait(inside: Inside, tmp_path: Path) -> None:
    labelled = encode_node(node("node-1", version="8", labels={LABEL: "h100"}))

    async def scenario() -> Answer:
        asks = asyncio.Event()
        script = (
            answer(200, node_list("7", encode_node(node("node-0")))),
            stream(framed(event("ADDED", labelled)), when=asks, linger=60),
        )
        async with ScriptedServer(*script) as server:
            api = ApiServer.from_kubeconfig(write_kubeconfig(tmp_path / "config", {"server": server.url}))
            async with running(NodeCache(api, inside.nodes, Ends())):
                await eventually(lambda: len(server.received) == 2)
                coming = asyncio.ensure_future(_later(inside.begin_to_ask("/filter", asked())))
                await asyncio.sleep(0)
                assert not coming.done()
                asks.set()
                found = await coming
            await api.aclose()
        return found

    assert msgspec.json.decode(inside.run(scenario()).body) == WITH


class ServedInside(Served):
    """The verbs of an extender on a port."""

    def __init__(self, inside: Inside) -> None:
        self._inside = inside
        super().__init__()

    def _connect(self, server_state: ServerState, **_: object) -> protocol.Connection:
        return protocol.Connection(self._inside.router, self.clients, self.budget, self.overload.hear, server_state)


@pytest.mark.parametrize("is_in_time", [True, False])
def test_a_server_that_ends_answers_who_waits(
    inside: Inside, late: Callable[[], None], is_in_time: bool, caplog: pytest.LogCaptureFixture
) -> None:
    served = ServedInside(inside)
    with raw.Connection(served.address) as client:
        asking = Beside(lambda: client.ask("/filter", msgspec.json.encode(asked())))
        served.wait_until(lambda: inside.nodes.unknown(["node-1"]) == [])
        served.server.should_exit = True
        served.wait_until(lambda: not served.server.started or not served.server.servers[0].is_serving())
        if is_in_time:
            comes(inside)
        else:
            late()
        found = asking.end()
    served.stop()
    assert (found.status, msgspec.json.decode(found.body)) == (200, WITH if is_in_time else WITHOUT)
    assert warnings(caplog) == ([] if is_in_time else [(MISSING, ["node-1"], 1)])


def test_more_new_names_than_a_cluster_grows_by_are_not_waited_for() -> None:
    expected, names = LateNodes(NodeTable()), [f"node-{at}" for at in range(MAX_LATE_NODES + 1)]
    expected.expect(names)
    assert not expected.has_any(names)
    expected.expect(names[1:])
    assert (expected.has_any(names[:1]), expected.has_any(names[1:])) == (False, True)
    expected.expect(names[:1])
    assert not expected.has_any(names[:1])


def test_what_is_overdue_makes_room(late: Callable[[], None], caplog: pytest.LogCaptureFixture) -> None:
    expected, names = LateNodes(NodeTable()), [f"node-{at}" for at in range(MAX_LATE_NODES)]
    expected.expect(names)
    late()
    expected.expect(["another"])
    assert (expected.has_any(names), expected.has_any(["another"])) == (False, True)
    assert warnings(caplog) == [(MISSING, names[:MAX_LOGGED_NAMES], MAX_LATE_NODES)]
