"""Two schedulers, an API server that loses answers, a watch that is behind: no node ever takes more than it has."""

from __future__ import annotations

import random
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

import pytest

from extender.scheduling.ledger import PLAN_S, UNCONFIRMED_S, Ledger
from extender.scheduling.ledger_entry import POD_OVERHEAD_BYTES, State
from wasm_runtime.nodes.node_table import NodeTable
from wasm_runtime.pods.pod_table import ResidentPod

NODES = [f"node-{at}" for at in range(6)]
CAPACITY = 8
MOST_PODS = 40
DEVICES = "01234567"
"""Those of a node. Each pod has one, whatever its size, and its annotation tells which."""
NONE = "x"
BIND_S = 4.0
LAG_S = UNCONFIRMED_S - BIND_S - 5.0
"""How far the watch is behind at most."""

STEPS = [
    pytest.param(20_000, id="short"),
    pytest.param(1_000_000, id="full", marks=[pytest.mark.nightly, pytest.mark.timeout(3600)]),
]


class Truth(NamedTuple):
    """A pod as the API server has it."""

    size: int
    node: str = ""
    device: str = NONE
    reported: int = 0
    """How often its status has changed, up to 99."""

    @property
    def object(self) -> bytes:
        """A v1.Pod of which the device stands for the annotations, and whose size is the number of its containers."""
        metadata = b"\x62\x01" + self.device.encode()
        status = b"\x1a\x02%02d" % self.reported
        parts = [(b"\x0a", metadata), (b"\x12", b"\x12\x00" * self.size), (b"\x1a", status)]
        return b"".join(key + bytes([len(part)]) + part for key, part in parts)


def size_of(pod: bytes) -> int:
    """How much a pod takes, by its object."""
    return pod.count(b"\x12\x00")


def device_of(pod: bytes) -> str:
    """The device that a pod has, by its object."""
    return pod[4:5].decode()


class Change(NamedTuple):
    """An event of the watch, and when it happened; `pod` is None when it has ended."""

    at: float
    uid: str
    pod: Truth | None


class Chosen(NamedTuple):
    """A pod for which a node was found; `since` is where the ledger stood before."""

    node: str
    since: int


class Choice(NamedTuple):
    """The node that a pod is being bound to, and its device there; `since` is where the ledger stood before."""

    node: str
    device: str
    since: int


class World:
    """The API server, its watch, and two schedulers that ask one extender."""

    def __init__(self, dice: random.Random) -> None:
        self.dice = dice
        self.now = 1_000.0
        self.node_table = NodeTable()
        self.table = self.node_table.pods
        self.ledger = Ledger(
            self.table,
            lambda: float(self.listed is not None),
            clock=lambda: self.now,
            is_member=lambda pod: size_of(pod) % 2 == 0,
        )
        self.ledger.replace({})
        self.pods: dict[str, Truth] = {}
        self.changes: deque[Change] = deque()
        self.listed: dict[str, Truth] | None = None
        """A list that is under way, as the API server was when it began."""
        self.judged: dict[str, Chosen] = {}
        self.planned: dict[str, str] = {}
        self.reserving: dict[str, Choice] = {}
        self.binding: dict[str, Choice] = {}
        self.spent = 0.0
        """Seconds for which binds have been under way."""
        self.born = 0
        self.done: set[str] = set()
        """What has happened at least once."""

    # -- the API server ----------------------------------------------------------------------------

    def write(self, uid: str, pod: Truth | None) -> None:
        """Changes a pod, or ends it."""
        if pod:
            self.pods[uid] = pod
        else:
            del self.pods[uid]
        self.changes.append(Change(self.now, uid, pod))

    def create(self) -> None:
        """Somebody wants another pod."""
        if len(self.pods) < MOST_PODS:
            self.born += 1
            self.write(f"pod-{self.born}", Truth(self.dice.randint(1, 4)))

    def report(self) -> None:
        """The status of a pod changes."""
        if self.pods:
            uid = self.dice.choice(sorted(self.pods))
            self.write(uid, self.pods[uid]._replace(reported=(self.pods[uid].reported + 1) % 100))

    def end(self) -> None:
        """A pod ends, whatever is done about it."""
        if self.pods:
            self.write(self.dice.choice(sorted(self.pods)), None)

    def assign(self, uid: str, node: str, device: str) -> bool:
        """A bind; returns whether the pod is on the node afterwards."""
        pod = self.pods.get(uid)
        if pod and not pod.node:
            self.write(uid, pod._replace(node=node, device=device))
        return bool(pod) and self.pods[uid].node == node

    # -- the watch ---------------------------------------------------------------------------------

    def deliver(self) -> None:
        """The next event comes; while a list is under way none does."""
        if self.changes and self.listed is None:
            change = self.changes.popleft()
            if change.pod:
                self.ledger.observe(change.uid, change.pod.node, change.pod.object)
            else:
                self.ledger.delete(change.uid)

    def begin_list(self) -> None:
        """The watch is lost, and a list begins."""
        if self.listed is None:
            self.changes.clear()
            self.listed = dict(self.pods)

    def end_list(self) -> None:
        """The list is there; the watch goes on from where it began."""
        if self.listed is not None:
            self.ledger.replace({uid: (pod.node, pod.object) for uid, pod in self.listed.items()})
            self.listed = None
            self.done.add("list")

    def wait(self) -> None:
        """Time passes. Binds do not take longer than they may, and the watch does not fall behind more than it may."""
        passed = self.dice.choice([0.01, 0.5, 5.0, 20.0])
        self.spent = self.spent + passed if self.reserving or self.binding else 0.0
        if self.spent > BIND_S:
            for uid in list(self.reserving):
                self.ledger.release(uid, self.reserving.pop(uid).node)
            while self.binding:
                self.end_bind()
        self.now += passed
        if self.dice.random() < 0.1:
            self.end_list()
        while self.listed is None and self.changes and self.changes[0].at < self.now - LAG_S:
            self.deliver()
        self.ledger.expire()

    # -- schedulers --------------------------------------------------------------------------------

    def used(self, node: str) -> int:
        """What the pods take that guests are told of."""
        return sum(size_of(pod.object) for pod in self.told().values() if pod.node == node)

    def told(self) -> Mapping[str, ResidentPod]:
        """What guests are told."""
        return {uid: pod for uid in [*self.pods, *self.ghosts()] if (pod := self.table.get(uid))}

    def ghosts(self) -> Iterator[str]:
        """Pods that are not there any more, and those of simulations."""
        return (uid for uid in self.ledger.entries() if uid not in self.pods)

    def judge(self, size: int) -> Chosen | None:
        """filter: the fullest node that has room."""
        since = self.ledger.position
        room = {node: CAPACITY - self.used(node) for node in NODES}
        fitting = [node for node in NODES if room[node] >= size]
        return Chosen(min(fitting, key=room.__getitem__), since) if fitting else None

    def begin_filter(self) -> None:
        """A scheduler asks about a pod that waits, and the plugins begin."""
        waiting = [uid for uid, pod in self.pods.items() if not pod.node]
        if not waiting:
            return
        uid = self.dice.choice(waiting)
        self.planned.pop(uid, None)
        kept = self.ledger.retained(uid)
        if kept and self.dice.random() < 0.7:  # Else kube-scheduler does not ask about the node.
            self.planned[uid] = kept.node
            self.done.add("retained")
            return
        self.ledger.retry(uid)
        if node := self.ledger.committed(uid):
            self.planned[uid] = node
            self.done.add("doubted")
        elif chosen := self.judge(self.pods[uid].size):
            self.judged[uid] = chosen

    def end_filter(self) -> None:
        """The plugins have judged a pod. Meanwhile others may have been."""
        if not self.judged:
            return
        uid = self.dice.choice(sorted(self.judged))
        node, since = self.judged.pop(uid)
        pod = self.pods.get(uid)
        if pod is None:
            return
        if self.ledger.plan(uid, node, pod.object, since):
            self.planned[uid] = node
        else:
            self.done.add("overtaken")

    def simulate(self) -> None:
        """Somebody asks about a pod that will never come: an autoscaler, a gang that does not fit."""
        before = dict(self.ledger.entries())
        self.born += 1
        uid, pod = f"simulated-{self.born}", Truth(1)
        if chosen := self.judge(pod.size):
            assert self.ledger.plan(uid, chosen.node, pod.object, chosen.since)
            assert self.ledger.entries().keys() - before.keys() == {uid}
            if self.dice.random() < 0.5:
                self.ledger.retry(uid)
                assert self.ledger.entries() == before

    def begin_bind(self) -> None:
        """A scheduler binds a pod for which filter has answered a node, now or much later."""
        ready = [uid for uid in self.planned if uid not in self.reserving and uid not in self.binding]
        if not ready:
            return
        uid = self.dice.choice(ready)
        node, pod = self.planned.pop(uid), self.pods.get(uid)
        if pod is None:
            return
        if not self.ledger.claim(uid, node, BIND_S + UNCONFIRMED_S):
            self.done.add("late")
            since = self.ledger.position
            if CAPACITY - self.used(node) < pod.size:
                return
            assert self.ledger.plan(uid, node, pod.object, since)
            assert self.ledger.claim(uid, node, BIND_S + UNCONFIRMED_S)
        self.choose(uid, node)

    def choose(self, uid: str, node: str) -> None:
        """The plugins choose a device that no pod has that they are told of."""
        since = self.ledger.position
        taken = {device_of(pod.object) for other, pod in self.told().items() if other != uid and pod.node == node}
        self.reserving[uid] = Choice(node, self.dice.choice([each for each in DEVICES if each not in taken]), since)

    def end_choice(self) -> None:
        """What the plugins have chosen is told to all, if nobody else came to the node meanwhile."""
        if not self.reserving:
            return
        uid = self.dice.choice(sorted(self.reserving))
        choice, pod = self.reserving.pop(uid), self.pods.get(uid)
        if pod is None:
            self.ledger.release(uid, choice.node)
            return
        told = pod._replace(device=choice.device).object
        kept = self.ledger.annotate(uid, choice.node, {"device": choice.device}, told, choice.since)
        if kept is None:
            self.done.add("chosen again")
            self.choose(uid, choice.node)
            return
        if kept["device"] != choice.device:
            self.done.add("chosen before")
        self.binding[uid] = choice._replace(device=kept["device"])

    def end_bind(self) -> None:
        """The API server answers; or it does not, and has bound the pod or not."""
        if not self.binding:
            return
        uid = self.dice.choice(sorted(self.binding))
        node, device, _ = self.binding.pop(uid)
        outcome = self.dice.choice(["answered", "answered", "refused", "lost", "unheard"])
        self.done.add(outcome)
        if outcome in {"lost", "unheard"}:
            if outcome == "lost":
                self.assign(uid, node, device)
            self.ledger.doubt(uid, node)
        elif outcome == "answered" and self.assign(uid, node, device):
            self.ledger.confirm(uid, node)
        elif outcome == "refused":
            self.ledger.retain(uid, node)
        else:
            self.ledger.release(uid, node)

    def give_up(self) -> None:
        """A scheduler does not bind a pod after all, and says so to nobody."""
        if self.planned:
            self.planned.pop(self.dice.choice(sorted(self.planned)))

    # -- what must hold ----------------------------------------------------------------------------

    def check(self) -> None:
        """After each step."""
        entries = self.ledger.entries()
        for node in NODES:
            bound = sum(pod.size for pod in self.pods.values() if pod.node == node)
            assert bound <= CAPACITY, f"{node} takes {bound}"
            expected = sum(size_of(entry.object) for entry in entries.values() if entry.node == node)
            assert self.used(node) == expected <= CAPACITY, f"{node} is expected to take {expected}"
            for pods in (self.pods.values(), self.told().values()):
                devices = [device_of(pod.object) for pod in pods if pod.node == node]
                shared = [device for device, count in Counter(devices).items() if count > 1 and device != NONE]
                assert shared == [], f"{node} {devices}"
        tentative = [entry for entry in entries.values() if entry.is_tentative]
        assert all(self.now < entry.expires <= self.now + PLAN_S + UNCONFIRMED_S + BIND_S for entry in tentative)
        plans = [entry.object for entry in tentative if entry.state in {State.TENTATIVE, State.RETAINED}]
        assert self.ledger._expiries._bytes == sum(len(pod) + POD_OVERHEAD_BYTES for pod in plans)
        assert {uid: (pod.node, pod.is_tentative) for uid, pod in self.told().items() if pod.node} == {
            uid: (entry.node, entry.is_tentative) for uid, entry in entries.items()
        }

    def settle(self) -> None:
        """All schedulers are gone, and the watch has told all."""
        for work in (self.judged, self.planned, self.reserving, self.binding):
            work.clear()
        self.end_list()
        while self.changes:
            self.deliver()
        self.now += PLAN_S + UNCONFIRMED_S + BIND_S
        placed = {uid: (State.OBSERVED, pod.node) for uid, pod in self.pods.items() if pod.node}
        assert {uid: (entry.state, entry.node) for uid, entry in self.ledger.entries().items()} == placed
        assert {uid: pod.node for uid, pod in self.told().items()} == {uid: pod.node for uid, pod in self.pods.items()}
        assert len(self.table) == len(self.pods)


@pytest.mark.parametrize("steps", STEPS)
def test_no_node_takes_more_than_it_has(steps: int) -> None:
    world = World(random.Random(steps))
    acts: list[tuple[Callable[[], None], int]] = [
        (world.create, 6),
        (world.end, 3),
        (world.report, 4),
        (world.deliver, 12),
        (world.begin_list, 1),
        (world.wait, 4),
        (world.begin_filter, 12),
        (world.end_filter, 12),
        (world.begin_bind, 8),
        (world.end_choice, 12),
        (world.end_bind, 8),
        (world.give_up, 2),
        (world.simulate, 1),
    ]
    chances = [weight for _, weight in acts]
    for step, (act, _) in enumerate(world.dice.choices(acts, chances, k=steps)):
        act()
        try:
            world.check()
        except AssertionError as error:
            raise AssertionError(f"step {step} ({act.__name__}): {error}") from error
        if step % 5_000 == 4_999:
            world.settle()
    world.settle()
    assert world.done == {
        *("list", "doubted", "overtaken", "late", "answered", "refused", "lost", "unheard"),
        *("chosen again", "chosen before", "retained"),
    }
