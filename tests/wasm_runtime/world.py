"""What a call needs besides a guest: a pod, nodes, time."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, TypeVar

from tests.patience import join, wait_until
from wasm_runtime import Nodes, NodeTable, Plugin, Pod
from wasm_runtime.abi import HostDocument
from wasm_runtime.engine import Call, CallResult, DocumentFactory, Instance, NodeResults
from wasm_runtime.engines.wasmtime.instance import WasmtimeInstance
from wasm_runtime.guests.core_guest import CoreGuest
from wasm_runtime.guests.guest import CycleStage, Guest, Nomination, PreFilter
from wasm_runtime.guests.pool import Pool
from wasm_runtime.nodes.node_feed import NodeFeed

T = TypeVar("T")

OBJECTS = {"node-a": b"A", "node-b": b"BB"}
ANY_CODE = -1


class World(NamedTuple):
    pod: Pod
    nodes: Nodes

    @property
    def node_table(self) -> NodeTable:
        return self.nodes.node_table

    def with_pod(self, uid: str, pod: bytes = b"POD") -> World:
        """The same nodes, seen by another pod."""
        return self._replace(pod=Pod(uid, f"default/pod-{uid}", pod))


def world(
    objects: Mapping[str, bytes] = OBJECTS, names: Sequence[str] | None = None, pod: bytes = b"POD", uid: str = "1"
) -> World:
    """The nodes of `objects`; a request on all of them, or on `names`."""
    node_table = NodeTable()
    node_table.put(objects.items())
    return World(Pod(uid, f"default/pod-{uid}", pod), Nodes(node_table, list(objects if names is None else names)))


def until(condition: Callable[[], bool]) -> None:
    """Waits for something that happens in another thread."""
    wait_until(condition, "what happens in another thread")


def settle(pool: Pool) -> None:
    """Waits until no guest of the pool is in the making."""
    until(lambda: not pool._count("due"))


def core_guest(guest: Guest | None) -> CoreGuest:
    """The guest as a CoreGuest, for tests that inspect it."""
    assert isinstance(guest, CoreGuest)
    return guest


def wasmtime_instance(guest: Guest) -> WasmtimeInstance:
    """The guest's instance, in the engine wasmtime."""
    instance = core_guest(guest)._instance
    assert isinstance(instance, WasmtimeInstance)
    return instance


def node_feed(guest: Guest) -> NodeFeed:
    """The node feed of a guest that keeps nodes."""
    feed = wasmtime_instance(guest)._feed
    assert feed is not None
    return feed


def announced(guest: Guest) -> Mapping[int, tuple[str, bytes]]:
    """The nodes that the guest was told of, by index: name and object."""
    return node_feed(guest)._announced


def pods_told(guest: Guest) -> int:
    """How many pods the guest was told of."""
    feeds = wasmtime_instance(guest)._pods
    assert feeds is not None
    return sum(len(feed._known) - feed._known.count(0) for feed in feeds._feeds)


def waiting(pool: Pool) -> int:
    """How many threads wait for a guest."""
    return len(pool._waiters)


def idle_guests(pool: Pool) -> list[CoreGuest]:
    """The idle guests of a pool, the longest idle one first."""
    return [core_guest(place.guest) for place in pool._places if place.state == "idle" and place.guest]


def end_of_maker(pool: Pool) -> None:
    """Waits until nothing of the pool is in the making, and the thread for it has ended."""
    settle(pool)
    join_maker(pool._name)


def join_maker(plugin: str = "plugin") -> None:
    """Waits until the thread that makes a plugin's guests has ended."""
    for thread in threading.enumerate():
        if thread.name == f"makes-{plugin}":
            join(thread)


def close(plugin: Plugin) -> None:
    """Closes a plugin, and waits until all that it had is given back."""
    plugin.close()
    end_of_maker(plugin._pool)


def pre_filter(plugin: Plugin, at: World, stage: CycleStage = "filter") -> PreFilter:
    with plugin.guest(at.pod, at.nodes, stage) as (guest, _):
        return guest.pre_filter


def filter_nodes(plugin: Plugin, at: World, stage: CycleStage = "filter") -> NodeResults:
    with plugin.guest(at.pod, at.nodes, stage) as (guest, deadline):
        return guest.filter(at.nodes, deadline)


def post_filter(plugin: Plugin, at: World) -> Nomination:
    with plugin.guest(at.pod, at.nodes, "postFilter") as (guest, deadline):
        return guest.post_filter(at.nodes, deadline)


def on_node(plugin: Plugin, at: World, stage: CycleStage, step: Callable[[CoreGuest, Nodes, float], T]) -> T:
    """What one of a guest's methods says of the only node of the request."""
    with plugin.guest(at.pod, at.nodes, stage) as (guest, deadline):
        return step(core_guest(guest), at.nodes, deadline)


def score(plugin: Plugin, at: World) -> list[int] | None:
    with plugin.guest(at.pod, at.nodes, "score") as (guest, deadline):
        scores = guest.score(at.nodes, deadline)
        return None if scores is None else list(scores)


def once(
    instance: Instance,
    at: World,
    export: str = "prefilter",
    documents: Mapping[HostDocument, DocumentFactory] | None = None,
) -> CallResult:
    """Begins the pod's cycle and calls an export once."""
    instance.begin(at.pod.object)
    return instance.once(export, Call(at.nodes, time.monotonic() + 5, documents or {}))


def each(instance: Instance, at: World, export: str = "filter", tolerated: int = ANY_CODE) -> NodeResults:
    """Begins the pod's cycle and calls an export for each node."""
    instance.begin(at.pod.object)
    return instance.each(export, Call(at.nodes, time.monotonic() + 5), tolerated)


def whole_code(results: NodeResults) -> int:
    """The 32-bit code of the only node, of which `codes` has the lowest byte."""
    return results.refused or (results.codes[0] if results.codes else 0)
