"""An API server, two kube-schedulers, and an extender with a gang policy, in one thread with one clock.

The extender's parts are real but for HTTP: the ledger, groups, waits, binding cycles, the guest. The rest is as
kube-scheduler and the API server behave where it matters to gangs: watches that are behind, each by itself, assumed
pods, backing off, binds that fail.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack
from datetime import datetime, timedelta
from functools import partial
from typing import Any, Final, NamedTuple

from extender.cluster import BindError
from extender.scheduling import filter as filter_verb
from extender.scheduling.bind import BindingCycle
from extender.scheduling.binding_guests import Binding, RejectedError
from extender.scheduling.filter import Verdict
from extender.scheduling.group_claim import LABEL, MINIMUM
from extender.scheduling.groups import Groups
from extender.scheduling.ledger import PLAN_S, RETAINED_S, UNCONFIRMED_S, Ledger
from extender.scheduling.planning import OvertakenError, plan
from extender.scheduling.profile import Profile
from extender.scheduling.top_nodes import TopNodes
from extender.scheduling.waiting_pods import Wait, WaitingPods
from tests.clock import Clock
from tests.sdk_guest.gang_scheduler import KubeScheduler
from wasm_runtime.guests.guest import Pod
from wasm_runtime.nodes.node_table import Nodes, NodeTable
from wasm_runtime.protobuf import encode_node, encode_pod

NODES: Final = [f"node-{at}" for at in range(4)]
PODS_OF_A_NODE: Final = 3
BIND_S: Final = 60.0
"""server.bindTimeout."""
FAR_AHEAD_S: Final = 1e9
"""The clock is ahead of the system's, by which guests are interrupted: no bind is over before its time."""
QUIET_S: Final = UNCONFIRMED_S + 30.0
"""Without any bind, after which there is quiet: what is in doubt has shown by then."""
REFUSED: Final = "the API server refuses"


class Gang(NamedTuple):
    """Pods that are of use together."""

    name: str
    minimum: int
    members: tuple[str, ...]
    """UIDs of pods, which are their names as well."""
    created: datetime

    def object(self, uid: str, node: str = "") -> bytes:
        """A member as the API server has it."""
        container = {"name": "main", "resources": {"requests": {"cpu": "1"}}}
        labels = {LABEL: self.name, MINIMUM: str(self.minimum)}
        created = self.created.strftime("%Y-%m-%dT%H:%M:%SZ")
        metadata = {"name": uid, "namespace": "default", "uid": uid, "labels": labels, "creationTimestamp": created}
        return encode_pod({"metadata": metadata, "spec": {"containers": [container], "nodeName": node}})


class Kept(NamedTuple):
    """Room of a pod whose bind was refused."""

    node: str
    until: float


class Bind(NamedTuple):
    """A bind that waits on Permit."""

    node: str
    wait: Wait
    cycle: BindingCycle
    among_waits: ExitStack


class Extender:
    """A process of the extender. What it knows of the cluster comes by `observe` and `forget`."""

    def __init__(self, cluster: Cluster, profile: Callable[[WaitingPods], Profile]) -> None:
        self._cluster = cluster
        self._top_nodes = TopNodes()
        self.waiting = WaitingPods()
        self.table = NodeTable(self.waiting.change)
        node = {"status": {"allocatable": {"cpu": str(PODS_OF_A_NODE), "pods": "110"}}}
        self.table.put((name, encode_node({"metadata": {"name": name}, **node})) for name in NODES)
        groups = Groups(self.table.pods)
        groups.follow()
        self.ledger = Ledger(
            groups,
            lambda: 0.0,
            cluster.wake,
            cluster.clock,
            on_end=self.waiting.delete,
            is_member=groups.is_member,
            completes=groups.completes,
        )
        self.ledger.is_followed = True
        self.profile = profile(self.waiting)
        self.binds: dict[str, Bind] = {}

    def filter(self, pod: Pod, names: list[str]) -> str:
        """The node that the pod gets; nothing if no node takes it."""

        def judge(nodes: Nodes) -> Verdict:
            verdict = filter_verb.run(self.profile, pod, nodes)
            if len(verdict.kept) < 2:
                return verdict
            best = self._top_nodes.choose((pod.uid, ""), self.profile, pod, verdict.kept, 1)
            return verdict._replace(kept=best.nodes)

        try:
            verdict = plan(self.ledger, self.profile, pod, Nodes(self.table, names), judge, PLAN_S)
        except OvertakenError:
            return ""
        return verdict.kept.names[0] if verdict.kept else ""

    def bind(self, pod: Pod, node: str) -> bool | None:
        """Whether the pod is bound; None if it waits on Permit."""
        if not self._claim(pod, node):
            return False
        binding = Binding(pod, Nodes(self.table, [node]), self._cluster.clock.now + BIND_S)
        cycle = BindingCycle(self.profile, binding, self.ledger, partial(self._cluster.write_binding, pod.uid, node))
        changes = self.waiting.changes
        waits: Mapping[str, float] = {}

        def begin() -> None:
            nonlocal waits
            waits = cycle.begin()

        if not self._ends_well(pod.uid, node, begin):
            return False
        if not waits:
            self.ledger.confirm(pod.uid, node)
            return True
        wait = Wait(cycle, waits, changes, self._cluster.clock)
        among_waits = ExitStack()
        among_waits.enter_context(self.waiting.waiting(wait))
        self.binds[pod.uid] = Bind(node, wait, cycle, among_waits)
        return None

    def end_waits(self) -> dict[str, bool]:
        """The binds whose wait is over, and whether their pods are bound."""
        ended = {}
        for uid, bind in list(self.binds.items()):
            if bind.wait.is_over:
                del self.binds[uid]
                bind.among_waits.close()
                ended[uid] = self._ends_well(uid, bind.node, partial(self._go_on, bind))
                if ended[uid]:
                    self.ledger.confirm(uid, bind.node)
        return ended

    def ask_again(self) -> None:
        """A round about all pods that wait, if one is due."""
        if self.waiting.woken.is_set():
            self.waiting.woken.clear()
            self.waiting.ask_again()

    def expire(self) -> None:
        """Ends what is over by the clock."""
        self.ledger.expire()
        waits = [bind.wait for bind in self.binds.values() if not bind.wait.is_over]
        for wait in waits:
            wait.expire()
        self._cluster.in_vain += [wait.began for wait in waits if wait.is_over]

    def _claim(self, pod: Pod, node: str) -> bool:
        seconds = BIND_S + UNCONFIRMED_S
        if self.ledger.claim(pod.uid, node, seconds):
            return True
        judge = partial(filter_verb.run, self.profile, pod)
        verdict = plan(self.ledger, self.profile, pod, Nodes(self.table, [node]), judge, seconds)
        return bool(verdict.kept) and self.ledger.claim(pod.uid, node, seconds)

    def _go_on(self, bind: Bind) -> None:
        try:
            self._cluster.loop.run_until_complete(bind.wait.end())
        except RejectedError:
            bind.cycle.give_up()
            raise
        bind.cycle.go_on()

    def _ends_well(self, uid: str, node: str, work: Callable[[], object]) -> bool:
        """Whether a step of a bind went well; else the ledger takes note of it, as the handler of bind does."""
        try:
            work()
        except BindError as error:
            (self.ledger.doubt if error.may_be_bound else self.ledger.retain)(uid, node)
            return False
        except (RejectedError, OvertakenError):
            self.ledger.release(uid, node)
            return False
        return True


class Cluster:
    """Gangs come and run, whatever happens to the extender."""

    def __init__(self, dice: random.Random, profile: Callable[[WaitingPods], Profile], epoch: datetime) -> None:
        """`profile` makes the profile of an extender, whose guests reject pods that wait by what it is given.

        The first pods are created at the `epoch` by the system's clock, which is that of guests.
        """
        self.dice = dice
        self._epoch = epoch
        self.clock = Clock()
        self.clock.now = FAR_AHEAD_S
        self.loop = asyncio.new_event_loop()
        self._profile = profile
        self.gangs: dict[str, Gang] = {}
        self.pods: dict[str, tuple[Gang, str]] = {}
        """Those that were created, each with its gang and the node that it is bound to."""
        self.events: deque[str] = deque()
        """UIDs of pods that have changed, of which the extender does not know yet."""
        self.kept: dict[str, Kept] = {}
        """Of each pod whose last attempt was refused, the room that is kept for its next one."""
        self.in_vain: list[float] = []
        """When each wait on Permit began that ended since its time was over."""
        self.born = 0
        self.fails = True
        """Whether binds fail now and then."""
        self.done: Counter[str] = Counter()
        """What has happened how often."""
        self.extender = Extender(self, profile)
        self.schedulers = [KubeScheduler(self), KubeScheduler(self)]

    # -- the API server ----------------------------------------------------------------------------

    def create(self) -> None:
        """Somebody wants another gang, of which the first member is there."""
        if len(self.gangs) < 6:
            self.born += 1
            size = self.dice.randint(1, 9)
            name = f"gang-{self.born}"
            members = tuple(f"{name}.{at}" for at in range(size))
            created = self._epoch + timedelta(seconds=self.clock.now - FAR_AHEAD_S)
            self.gangs[name] = Gang(name, self.dice.choice([size, size, self.dice.randint(1, size)]), members, created)
            self.create_member(self.gangs[name])

    def create_some(self) -> None:
        """Some members come that are not there yet."""
        for gang in list(self.gangs.values()):
            if self.dice.random() < 0.5:
                self.create_member(gang)

    def create_member(self, gang: Gang) -> None:
        """Another member of a gang comes, if one is left."""
        uid = next((uid for uid in gang.members if uid not in self.pods), None)
        if uid:
            self.pods[uid] = (gang, "")
            self._changed(uid)

    def write_binding(self, uid: str, node: str, _: Mapping[str, str]) -> None:
        """A bind at the API server. Raises BindError."""
        outcome = (
            self.dice.choices(["bound", "refused", "lost", "unheard"], [70, 24, 3, 3])[0] if self.fails else "bound"
        )
        if outcome == "refused" or uid not in self.pods or self.pods[uid][1] not in {"", node}:
            self.done["refused"] += 1
            if uid in self.pods and not self.pods[uid][1]:
                self.kept[uid] = Kept(node, self.clock.now + RETAINED_S)
            raise BindError(REFUSED)
        if outcome != "unheard":
            gang, bound = self.pods[uid]
            assert bound in {"", node}
            self.pods[uid] = (gang, node)
            self._changed(uid)
        if outcome != "bound":
            self.done["in doubt"] += 1
            raise BindError("no answer", may_be_bound=True)
        self.done["bound"] += 1

    def end(self, gang: Gang) -> None:
        """A gang is deleted, whatever has become of it."""
        del self.gangs[gang.name]
        for uid in gang.members:
            if self.pods.pop(uid, None):
                self._changed(uid)

    def finish(self) -> None:
        """A gang that runs is done."""
        running = [gang for gang in self.gangs.values() if self.is_whole(gang)]
        if running:
            self.end(self.dice.choice(running))
            self.done["finished"] += 1

    def delete(self) -> None:
        """Somebody deletes a gang that may be half on its nodes."""
        if self.gangs:
            self.end(self.dice.choice(list(self.gangs.values())))

    def _changed(self, uid: str) -> None:
        """All watches are to show a pod anew."""
        self.kept.pop(uid, None)
        for events in self.events, *(scheduler.events for scheduler in self.schedulers):
            events.append(uid)

    # -- kube-schedulers ---------------------------------------------------------------------------

    def scheduler_of(self, uid: str) -> KubeScheduler:
        """Who places a pod: each gang has pods of all schedulers."""
        return self.schedulers[int(uid.rpartition(".")[2]) % len(self.schedulers)]

    def with_room(self, taken: Iterable[str]) -> list[str]:
        """The nodes with room for another pod, where pods are on some nodes."""
        used = Counter(taken)
        return [node for node in NODES if used[node] < PODS_OF_A_NODE]

    def schedule(self) -> None:
        """One of the schedulers tries a pod."""
        self.dice.choice(self.schedulers).schedule()

    def show(self) -> None:
        """The watch of one of the schedulers shows the next change."""
        self.dice.choice(self.schedulers).observe()

    def wake(self) -> None:
        """The extender has rejected pods tried again."""
        self.done["woken"] += 1
        for scheduler in self.schedulers:
            scheduler.requeue()

    # -- the extender ------------------------------------------------------------------------------

    def deliver(self) -> None:
        """The extender's watch shows the next change."""
        if self.events:
            uid = self.events.popleft()
            if uid in self.pods:
                gang, node = self.pods[uid]
                self.extender.ledger.observe(uid, node, gang.object(uid, node))
            else:
                self.extender.ledger.delete(uid)

    def relist(self) -> None:
        """The extender's watch is lost, and all is listed anew."""
        self.events.clear()
        self.extender.ledger.replace({uid: (node, gang.object(uid, node)) for uid, (gang, node) in self.pods.items()})

    def ask_again(self) -> None:
        """A round of Permit, and what comes of it."""
        self.extender.ask_again()
        self.end_waits()

    def end_waits(self) -> None:
        """Binds that waited are answered."""
        for uid, is_bound in self.extender.end_waits().items():
            self.scheduler_of(uid).answer(uid, is_bound)

    def pass_time(self, seconds: float | None = None) -> None:
        """Some time passes."""
        self.clock.now += self.dice.choice([0.1, 0.5, 2.0, 8.0]) if seconds is None else seconds
        self.extender.expire()
        self.end_waits()

    def crash(self) -> None:
        """The extender is killed, and another one is started. The requests of kube-schedulers fail."""
        left, before = self.extender.binds, self.extender
        self.extender = Extender(self, self._profile)
        close(before.profile)
        for uid in left:
            self.scheduler_of(uid).answer(uid, False)
        self.kept.clear()
        self.relist()
        self.done["crash"] += 1

    def swap(self) -> None:
        """Another revision of the policy decides about all that comes."""
        self.extender.profile = self._profile(self.extender.waiting)
        self.done["swap"] += 1

    def stop(self) -> None:
        """Gives back what it has."""
        close(self.extender.profile)
        self.loop.close()

    # -- what must hold ----------------------------------------------------------------------------

    def bound(self, gang: Gang) -> int:
        """How many members have a node."""
        return sum(bool(self.pods[uid][1]) for uid in gang.members if uid in self.pods)

    def is_whole(self, gang: Gang) -> bool:
        """Whether as many members have a node as it needs."""
        return self.bound(gang) >= gang.minimum

    def check(self) -> None:
        """After each step."""
        used = Counter(node for _, node in self.pods.values() if node)
        used += Counter(kept.node for kept in self.kept.values() if kept.until > self.clock.now)
        assert max(used.values(), default=0) <= PODS_OF_A_NODE, (used, self.kept)
        oldest = min((bind.wait.began for bind in self.extender.binds.values()), default=self.clock.now)
        assert self.clock.now - oldest < BIND_S, f"a pod has waited for {self.clock.now - oldest:g} s"

    def settle(self, *, in_order: bool) -> None:
        """Nothing new comes, nothing fails, and gangs that are whole end when nothing else goes on: all are bound.

        In between there is quiet again and again, and no gang is bound in part then. Those that go by their age do so
        `in_order`: the oldest one needs no more than the end of those that are whole when its turn comes.
        """
        self.fails = False
        self.pass_time(0.1)  # A wait that began just before is none of those that begin from now on.
        since = self.clock.now
        for gang in self.gangs.values():
            for _ in gang.members:
                self.create_member(gang)
        before: set[str] = set()
        oldest = ""
        while self.gangs:
            self.come_to_rest()
            parts = {name: (self.bound(gang), gang.minimum) for name, gang in self.gangs.items()}
            assert not {name: part for name, part in parts.items() if 0 < part[0] < part[1]}, f"bound in part: {parts}"
            assert not [began for began in self.in_vain if began >= since], f"pods wait in vain: {parts}"
            whole = {name: gang for name, gang in self.gangs.items() if self.is_whole(gang)}
            assert whole, f"nobody is going to try {parts}"
            left = [gang for name, gang in self.gangs.items() if name not in whole]
            free = len(NODES) * PODS_OF_A_NODE - sum(bool(node) for _, node in self.pods.values())
            forgotten = [gang.name for gang in (left[:1] if in_order else left) if gang.minimum <= free]
            assert not forgotten, f"there is room for {forgotten}: {parts}"
            if oldest != (left[0].name if left else ""):
                oldest, before = left[0].name if left else "", set(whole)
            assert not (in_order and oldest) or before & whole.keys(), f"others went before {oldest}: {parts}"
            self.end(self.dice.choice([*whole.values()]))
        self.in_vain.clear()
        self.come_to_rest()
        self.fails = True

    def come_to_rest(self) -> None:
        """Goes on until no pod has got a node for so long that none will, whatever is tried again and again."""
        since, before = self.clock.now, dict(self.pods)
        while self.clock.now - since < QUIET_S:
            self.work()
            if self.pods != before:
                since, before = self.clock.now, dict(self.pods)
            turns = [at for scheduler in self.schedulers for at in scheduler.queue.values()]
            self.pass_time(max(0.1, min([*turns, self.clock.now + 5.0]) - self.clock.now))

    def work(self) -> None:
        """Does what can be done at once. kube-schedulers see what has changed before the extender does."""
        for scheduler in self.schedulers:
            scheduler.observe_all()
            for _ in range(len(scheduler.queue)):
                scheduler.schedule()
        while self.events:
            self.deliver()
        self.ask_again()


def close(profile: Profile) -> None:
    """Gives back the guests of a profile."""
    for each in profile.plugins:
        each.plugin.close()


def facts(cluster: Cluster) -> Mapping[str, Any]:
    """What a person wants to know of a cluster in which something is wrong."""
    return {
        "gangs": {name: (cluster.bound(gang), gang.minimum, len(gang.members)) for name, gang in cluster.gangs.items()},
        "assumed": [scheduler.assumed for scheduler in cluster.schedulers],
        "queues": [scheduler.queue for scheduler in cluster.schedulers],
        "waits": list(cluster.extender.binds),
        "ledger": {uid: (each.state.value, each.node) for uid, each in cluster.extender.ledger.entries().items()},
    }
