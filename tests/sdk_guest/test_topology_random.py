"""The policy topology in random clusters: each answer is the one of its README, and groups take the fewest domains."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from itertools import product
from typing import Any, Final

import msgspec
import pytest

from extender.commands.test.play import verdicts
from extender.scheduling.profile import Profile, ProfilePlugin
from tests.sdk_guest.plugins import MakePlugin
from tests.sdk_guest.test_policies import MODULES
from tests.sdk_guest.topology_model import Ask, Node, Path, answers
from wasm_runtime import Nodes, NodeTable, Pod, Settings
from wasm_runtime.abi import GroupSource
from wasm_runtime.engine import Engine
from wasm_runtime.pods.group_table import Group, GroupKey
from wasm_runtime.pods.pod_table import ResidentPod
from wasm_runtime.protobuf import encode_node, encode_pod

STEPS: Final = [
    pytest.param(200, id="short"),
    pytest.param(10_000, id="full", marks=[pytest.mark.nightly, pytest.mark.timeout(3600)]),
]
CLUSTERS: Final = 50

LEVELS: Final = ("zone", "block", "rack")
KEY: Final = GroupKey(GroupSource.LABEL, "ns", "train")
LABEL: Final = "scheduling.x-k8s.io/pod-group"


def pod(name: str) -> bytes:
    """A member, which asks for one cpu."""
    container = {"name": "c", "resources": {"requests": {"cpu": "1"}}}
    metadata = {"name": name, "namespace": "ns", "uid": name, "labels": {LABEL: KEY.name}}
    return encode_pod({"metadata": metadata, "spec": {"containers": [container]}})


class Cluster:
    """Nodes with room for some pods of one cpu, and a group."""

    def __init__(self, rooms: Mapping[str, tuple[Path, int]]) -> None:
        self.table = NodeTable()
        self.rooms = {name: room for name, (_, room) in rooms.items()}
        self.paths = {name: path for name, (path, _) in rooms.items()}
        self.placed: list[str] = []
        self.waiting: list[str] = []
        for name, (path, room) in rooms.items():
            labels = {label: value for label, value in zip(LEVELS, path, strict=False) if value}
            status = {"allocatable": {"cpu": str(room), "pods": "110"}}
            self.table.put([(name, encode_node({"metadata": {"name": name, "labels": labels}, "status": status}))])

    def place(self, uid: str, node: str, *, is_tentative: bool = False) -> None:
        """A member is expected on a node, or is there."""
        self.waiting = [other for other in self.waiting if other != uid]
        self.table.pods.put([(uid, ResidentPod(node, pod(uid), is_tentative, KEY))])
        self.placed.append(node)

    def wait(self, uid: str) -> None:
        """A member has no node yet."""
        self.table.pods.put([(uid, ResidentPod("", pod(uid), group=KEY))])
        self.waiting.append(uid)

    def free(self, node: str) -> int:
        """How many members the node has room for."""
        return max(self.rooms[node] - self.placed.count(node), 0)


def random_cluster(dice: random.Random, levels: int) -> Cluster:
    """Up to 12 nodes, some of them without one label or another, with a group somewhere."""
    rooms = {}
    for at in range(dice.randrange(1, 13)):
        path = tuple("" if dice.random() < 0.1 else dice.choice("abc") for _ in range(levels))
        rooms[f"node-{at}"] = (path, dice.randrange(7))
    cluster = Cluster(rooms)
    for at in range(dice.choice([0, 0, 0, 1, 2, 4])):
        cluster.place(f"placed-{at}", dice.choice(list(rooms)), is_tentative=dice.random() < 0.5)
    for at in range(dice.randrange(1, 9)):
        cluster.wait(f"waits-{at}")
    return cluster


@pytest.fixture
def make(each_engine: Engine, make_plugin: MakePlugin) -> Any:
    """Makes a profile of the plugin alone."""
    wasm = (MODULES / "topology.wasm").read_bytes()

    def make(config: dict[str, Any]) -> Profile:
        settings = Settings("topology", config=msgspec.json.encode(config).decode(), timeout=30.0, instances=1)
        return Profile("random", [ProfilePlugin(make_plugin(each_engine, wasm, settings))])

    return make


@pytest.mark.parametrize("steps", STEPS)
def test_each_answer_is_that_of_the_readme(make: Any, steps: int) -> None:
    dice, seen = random.Random(steps), set()
    settings = product((1, 2, 3), ("none", *LEVELS), LEVELS, ("spread", "binpack", "none"))
    for count, required, preferred, policy in settings:
        levels = LEVELS[:count]
        if {required, preferred} - {"none", *levels} or dice.random() < 0.3:
            continue
        profile = make({"levels": levels, "required": required, "preferred": preferred, "nodePolicy": policy})
        narrowest = levels.index(preferred)
        widest = None if required == "none" else levels.index(required)
        for _ in range(steps // 20):
            cluster = random_cluster(dice, count)
            minimum = dice.choice([0, 1, 4, 8, 12])
            cluster.table.pods.groups.put(KEY, Group(minimum))
            names = dice.sample(list(cluster.rooms), dice.randrange(1, len(cluster.rooms) + 1))
            least = max(minimum - len(cluster.placed), 1)
            ask = Ask(
                levels,
                widest,
                max(narrowest, -1 if widest is None else widest),
                max(least, len(cluster.waiting)),
                least,
                [cluster.paths[node] for node in cluster.placed],
                policy,
            )
            candidates = {name: Node(cluster.paths[name], cluster.free(name)) for name in names}
            uid = dice.choice(cluster.waiting)
            answered = verdicts(profile, Pod(uid, f"ns/{uid}", pod(uid)), Nodes(cluster.table, names))
            expected = answers(candidates, ask)
            assert answered == expected, (candidates, ask)
            seen |= {str(each)[:25] for each in expected.values() if not isinstance(each, int)}
    assert len(seen) == 8, seen


def put_all(profile: Profile, cluster: Cluster) -> set[Path]:
    """Places all members one after the other, each on its best node; the racks that they take."""
    for uid in list(cluster.waiting):
        names = [name for name in cluster.rooms if cluster.free(name)]
        answered = verdicts(profile, Pod(uid, f"ns/{uid}", pod(uid)), Nodes(cluster.table, names))
        best = max((name for name in names if isinstance(answered[name], int)), key=answered.__getitem__)
        cluster.place(uid, best, is_tentative=True)
    return {cluster.paths[node] for node in cluster.placed}


def ways(cluster: Cluster, need: int) -> Iterator[tuple[int, int]]:
    """For each set of racks with room for all: how many blocks and how many racks it has."""
    rooms: dict[Path, int] = {}
    for name, path in cluster.paths.items():
        rooms[path] = rooms.get(path, 0) + cluster.rooms[name]
    for chosen in product((False, True), repeat=len(rooms)):
        racks = [rack for rack, is_chosen in zip(rooms, chosen, strict=True) if is_chosen]
        if sum(rooms[rack] for rack in racks) >= need:
            yield len({rack[:1] for rack in racks}), len(racks)


def test_groups_take_the_fewest_domains(make: Any, capsys: pytest.CaptureFixture[str]) -> None:
    """Against all sets of racks: the fewest blocks always, and the fewest racks of them where one level or one block is
    enough. Where a group takes several blocks, its racks may be more."""
    dice = random.Random(50)
    two, one = make({"levels": ["zone", "block"]}), make({"levels": ["block"]})
    ratios, alone = [], 0
    for _ in range(CLUSTERS):
        blocks = [(block, rack) for block in "xyz" for rack in range(dice.randrange(1, 5))]
        rooms = {
            f"{block}{rack}-{at}": ((block, str(rack)), dice.randrange(1, 7))
            for block, rack in blocks
            for at in range(dice.randrange(1, 4))
        }
        need = dice.randrange(1, sum(room for _, room in rooms.values()) + 1)

        def cluster(paths: Mapping[str, tuple[Path, int]], need: int = need) -> Cluster:
            made = Cluster(paths)
            made.table.pods.groups.put(KEY, Group(need))
            for at in range(need):
                made.wait(f"waits-{at}")
            return made

        placed = cluster(rooms)
        racks = put_all(two, placed)
        least_blocks, least_racks = min(ways(placed, need))
        assert len({rack[:1] for rack in racks}) == least_blocks, rooms
        if least_blocks == 1:
            alone += 1
            assert len(racks) == least_racks, rooms
        ratios.append(len(racks) / least_racks)
        flat = {name: (("", f"{block}{rack}"), room) for name, ((block, rack), room) in rooms.items()}
        placed = cluster(flat)
        assert len(put_all(one, placed)) == min(count for _, count in ways(placed, need)), rooms
    with capsys.disabled():
        print(
            f"\n{CLUSTERS} clusters, {alone} of them with one block: at most {max(ratios):.2f} times the fewest racks"
        )
    assert (alone, max(ratios)) == (26, 1.25)
