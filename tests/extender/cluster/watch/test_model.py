"""After whatever a watch can meet, caches are what the API server has: against a model, by chance."""

from __future__ import annotations

import asyncio
import json
import random
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path

import pytest

from bench.peers.kubeconfig import write_kubeconfig
from bench.peers.protobuf import integer, text
from extender.cluster import ApiServer, NodeCache, PodCache
from extender.cluster.watch import reflector
from extender.scheduling.ledger import Ledger
from tests.extender.cluster.support import Ends, running
from tests.extender.cluster.watch.world import Make, UnsteadyServer, World
from tests.patience import eventually
from wasm_runtime.nodes import node_table as node_table_module
from wasm_runtime.nodes.images import ImageStates
from wasm_runtime.nodes.node_table import ABSENT, NEVER, NodeTable
from wasm_runtime.pods.pod_table import PodTable, ResidentPod
from wasm_runtime.protobuf.pod import node_name
from wasm_runtime.protobuf.read import identity

KEYS = 200
IMAGES = 20
MIB = 1 << 20

Scenario = Callable[[World, UnsteadyServer, ApiServer, random.Random], Awaitable[None]]

LENGTHS = [
    pytest.param(4_000, id="short"),
    pytest.param(170_000, id="full", marks=[pytest.mark.nightly, pytest.mark.timeout(1800)]),
]
"""Events; the full forms of both tests are 340,000."""


def node(version: int, key: str) -> bytes:
    """A node whose images follow from its version."""
    images = (text(8, text(1, f"image-{at}") + integer(2, at * MIB)) for at in images_at(version))
    metadata = text(1, key) + text(6, str(version)) + text(12, text(1, "a") + text(2, "x" * (version % 300)))
    return text(1, metadata) + text(3, b"".join(images))


def images_at(version: int) -> list[int]:
    """The numbers of the images that a node has at a version."""
    return [at for at in range(IMAGES) if version * 2_654_435_761 >> at & 1]


def pod(version: int, key: str) -> bytes:
    """A pod whose name comes again with other UIDs; some have no node yet."""
    metadata = text(1, f"web-{int(key) % 50}") + text(3, "default") + text(5, key) + text(6, str(version))
    annotated = text(1, metadata + text(12, text(1, "a") + text(2, "x" * (version % 300))))
    return annotated + text(2, text(10, f"node-{int(key) % 7}" if int(key) % 5 else ""))


class Copy:
    """The nodes as an instance of a guest has them, which takes over what changed."""

    def __init__(self, node_table: NodeTable) -> None:
        self._node_table = node_table
        self._epoch, self._position = NEVER, 0
        self._nodes: dict[int, tuple[str, bytes]] = {}
        self._images = ImageStates()
        self._states: dict[int, bytes] = {}

    def follow(self) -> tuple[dict[str, bytes], dict[str, bytes]]:
        """Objects and image states by name."""
        changes = self._node_table.changes(self._epoch, self._position)
        if changes:
            self._epoch, self._position = changes.epoch, changes.position
            self._nodes |= {at: (name, content) for at, name, content in changes.nodes}
            self._states |= self._images.update((at, content) for at, _, content in changes.nodes)
        live = {at: named for at, named in self._nodes.items() if named[1] != ABSENT}
        return dict(live.values()), {name: self._states.get(at, b"{}") for at, (name, _) in live.items()}


def image_states(objects: dict[str, bytes]) -> dict[str, object]:
    """What scheduling knows of the images of each node, counted anew."""
    held = {name: images_at(int(identity(content).resource_version)) for name, content in objects.items()}
    counts = Counter(at for images in held.values() for at in images)
    return {
        name: {f"image-{at}": {"Size": at * MIB, "NumNodes": counts[at]} for at in images}
        for name, images in held.items()
    }


async def trouble(
    world: World, server: UnsteadyServer, chance: random.Random, events: int, check: Callable[[], bool]
) -> None:
    """Changes the world through faults and outages until `events` and each fault have been; then always `check`."""
    while world.events < events or not server.has_done_its_worst:
        server.faults = chance.randrange(4)
        if chance.random() < 0.8:
            server.disturb()
        for _ in range(chance.randrange(1, 8)):
            for _ in range(chance.randrange(60)):
                world.change(str(chance.randrange(KEYS)))
            await asyncio.sleep(chance.choice([0, 0, 0.005]))
            if chance.random() < 0.1:
                server.disturb()
            if chance.random() < 0.05:
                world.compact()
        await eventually(check)


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the pauses that spare a real server; and memory of names is soon wasteful."""
    monkeypatch.setattr(reflector, "FIRST_PAUSE_S", 0.001)
    monkeypatch.setattr(reflector, "MAX_PAUSE_S", 0.005)
    monkeypatch.setattr(reflector, "GATHER_S", 0.0)
    monkeypatch.setattr(node_table_module, "SLACK", 10)


def play(directory: Path, make: Make, scenario: Scenario) -> None:
    """Runs a scenario whose chances are told if it fails."""
    seed = random.randrange(2**32)
    chance = random.Random(seed)

    async def run() -> None:
        world = World(make, chance)
        server = UnsteadyServer(world, chance)
        async with server.serving() as url:
            api = ApiServer.from_kubeconfig(write_kubeconfig(directory / "config", {"server": url}))
            try:
                await scenario(world, server, api, chance)
            finally:
                await api.aclose()

    print(f"seed {seed}")  # pytest shows it with a failure.
    asyncio.run(run())


@pytest.mark.parametrize("events", LENGTHS)
def test_nodes_and_their_images_are_those_of_the_server_after_each_outage(tmp_path: Path, events: int) -> None:
    async def scenario(world: World, server: UnsteadyServer, api: ApiServer, chance: random.Random) -> None:
        node_table = NodeTable()
        cache = NodeCache(api, node_table, Ends(), lifetime=20, grace=0.2)
        copy = Copy(node_table)

        def is_true() -> bool:
            objects, states = copy.follow()
            if cache.problem or objects != world.objects:
                return False
            assert {name: json.loads(state) for name, state in states.items()} == image_states(objects)
            return True

        async with running(cache):
            await trouble(world, server, chance, events, is_true)

    play(tmp_path, node, scenario)


def is_told(ledger: Ledger, pods: PodTable, objects: Mapping[str, bytes]) -> bool:
    """Whether the ledger and guests know pods as the server has them."""
    placed = {uid: (node, content) for uid, content in objects.items() if (node := node_name(content))}
    return (
        {uid: (entry.node, entry.object) for uid, entry in ledger.entries().items()} == placed
        and all(pods.get(uid) == ResidentPod(node_name(content), content) for uid, content in objects.items())
        and len(pods) == len(objects)
    )


@pytest.mark.parametrize("events", LENGTHS)
def test_pods_are_those_of_the_server_after_each_outage(tmp_path: Path, events: int) -> None:
    async def scenario(world: World, server: UnsteadyServer, api: ApiServer, chance: random.Random) -> None:
        node_table = NodeTable()
        ledger = Ledger(node_table.pods, lambda: cache.outdated)
        cache = PodCache(api, Ends(), ledger, grace=0.2)

        def is_true() -> bool:
            return (
                cache.problem is None
                and cache.size == len(world.objects)
                and all(
                    cache.find(uid, identity(content).resource_version) == content == cache.get(uid)
                    for uid, content in world.objects.items()
                )
                and is_told(ledger, node_table.pods, world.objects)
            )

        async with running(cache):
            await trouble(world, server, chance, events, is_true)

    play(tmp_path, pod, scenario)
