"""gang by its README: what it is to say of a pod, with pods put on nodes one by one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, Literal, NamedTuple

State = Literal["pending", "tentative", "binding", "bound"]
KEPT: Final = "room is kept for pods of groups"
FULL: Final = "no room beside the pods that the extender knows of"
GPU: Final = "example.com/gpu"


class Ask(NamedTuple):
    """What a pod asks for. The larger one of two is harder to place."""

    gpus: int
    cpu: int


class Member(NamedTuple):
    """A pod."""

    uid: str
    group: str
    """Empty for one of no group."""
    ask: Ask
    state: State
    node: str
    is_nominated: bool = False


class Gang(NamedTuple):
    """A group."""

    name: str
    minimum: int
    """0 where nobody says so."""
    priority: int
    age: int


class Model(NamedTuple):
    """A cluster, whose nodes are in the order in which room is looked for."""

    nodes: Mapping[str, Ask]
    """What each has."""
    pods: Sequence[Member]
    gangs: Mapping[str, Gang]
    patience: int

    def rejections(self, pod: Member, names: Sequence[str]) -> Mapping[str, tuple[str, bool]]:
        """Why nodes do not take a pod, and whether preemption may help; of those that are asked about."""
        reason = self.whole(pod, names) if pod.group else ""
        if reason:
            return dict.fromkeys(names, (reason, False))
        grouped = {each.node for each in self.pods if each.group}
        kept = {each.node for each in self.pods if each.group and each.state in {"tentative", "binding"}}
        free = self.free(self.pods)
        full = [name for name in names if not self.fits(free, name, pod.ask)]
        return {name: (KEPT if name in kept else FULL, True) for name in full if pod.group or name in grouped}

    def whole(self, pod: Member, names: Sequence[str]) -> str:
        """Why the group of a pod may not begin or go on; nothing if it may."""
        gang = self.gangs[pod.group]
        if not gang.minimum:
            return f"nobody says how many pods the group ml/{gang.name} needs"
        own = Standing(self, gang)
        if own.there < own.minimum:
            return f"{own.there} of {own.minimum} pods of the group ml/{gang.name} are there"
        is_any = len(names) == 1
        wanted = own.asks(pod)
        ahead = self.ahead(own)
        free = self.free(self.pods, None if is_any else names)
        for other in ahead:
            self.place(free, other.asks(), is_any=is_any)
        found = self.place(free, wanted, is_any=is_any)
        if found == len(wanted):
            return ""
        alone = self.place(self.free(self.pods, None if is_any else names), wanted, is_any=is_any)
        if ahead and alone == len(wanted):
            return f"waits for the group ml/{ahead[0].gang.name}"
        total = max(own.minimum, own.placed + len(wanted))
        return f"room for {own.placed + found} of {total} pods of the group ml/{gang.name}"

    def permit(self, pod: Member) -> tuple[str, str]:
        """`goes on`, `waits` or `lets go`, and why."""
        gang = self.gangs[pod.group]
        if not gang.minimum:
            return "waits", f"nobody says how many pods the group ml/{gang.name} needs"
        own = Standing(self, gang)
        if own.held >= own.minimum:
            return "goes on", ""
        said = f"{own.held} of {own.minimum} pods of the group ml/{gang.name} have a node"
        behind = {each.gang.name for each in self.others(own) if each.is_under_way and own.rank < each.rank}
        free = self.free(
            each for each in self.pods if not (each.group in behind and each.state in {"tentative", "binding"})
        )
        for other in self.ahead(own, patience=0):
            self.place(free, other.asks(), is_any=True)
        wanted = own.asks()
        if self.place(free, wanted, is_any=True) < len(wanted):
            return "lets go", f"{said}, and there is no room for the rest"
        return ("goes on", "") if own.bound else ("waits", said)

    def others(self, own: Standing) -> list[Standing]:
        """The other groups that need room, the first one first."""
        all_ = [Standing(self, gang) for gang in self.gangs.values() if gang.minimum and gang != own.gang]
        return sorted((each for each in all_ if each.rest), key=lambda each: each.rank)

    def ahead(self, own: Standing, patience: int | None = None) -> list[Standing]:
        """The groups that go before one."""
        after = self.patience if patience is None else patience
        if own.is_under_way:
            return [each for each in self.others(own) if each.is_under_way and each.rank < own.rank]
        return [
            each
            for each in self.others(own)
            if each.is_under_way
            or (
                each.is_to_begin
                and each.rank < own.rank
                and in_spell(each.gang.age, after)
                and self.place(self.free(pod for pod in self.pods if not pod.group), each.asks(), is_any=True)
                == len(each.asks())
            )
        ]

    def free(self, pods: Iterable[Member], names: Sequence[str] | None = None) -> dict[str, Ask]:
        """What some pods leave of nodes."""
        free = {name: self.nodes[name] for name in (self.nodes if names is None else names)}
        for pod in pods:
            if pod.node in free:
                free[pod.node] = Ask(free[pod.node].gpus - pod.ask.gpus, free[pod.node].cpu - pod.ask.cpu)
        return free

    def fits(self, free: Mapping[str, Ask], name: str, ask: Ask) -> bool:
        """Whether one pod more fits on a node."""
        has_none = not self.nodes[name].gpus  # They may come from elsewhere.
        return (not ask.cpu or ask.cpu <= free[name].cpu) and (not ask.gpus or has_none or ask.gpus <= free[name].gpus)

    def place(self, free: dict[str, Ask], asks: Sequence[Ask], *, is_any: bool) -> int:
        """Puts pods on nodes, and returns for how many there was room."""
        found = 0
        have_gpus = {name for name in free if self.nodes[name].gpus}
        for ask in asks:
            allowed = [name for name in free if not (is_any and ask.gpus and have_gpus) or name in have_gpus]
            name = next((name for name in allowed if self.fits(free, name, ask)), None)
            if name is not None:
                free[name] = Ask(free[name].gpus - ask.gpus, free[name].cpu - ask.cpu)
                found += 1
        return found


class Standing:
    """Where a group stands."""

    def __init__(self, model: Model, gang: Gang) -> None:
        pods = [pod for pod in model.pods if pod.group == gang.name]
        self.bound = bound = sum(pod.state == "bound" for pod in pods)
        self.gang = gang
        self.waiting = [pod for pod in pods if pod.state == "pending"]
        self.there = len(pods)
        self.placed = len(pods) - len(self.waiting)
        self.held = sum(pod.state in {"binding", "bound"} for pod in pods)
        self.minimum = min(gang.minimum, len(pods)) if bound else gang.minimum
        self.rest = max(self.minimum - self.placed, 0)
        is_complete = self.there >= self.minimum
        self.is_under_way = self.placed > 0 and self.rest > 0 and is_complete
        self.is_to_begin = self.placed == 0 and is_complete
        self.rank = (not (bound and self.rest), -gang.priority, -gang.age, gang.name)

    def asks(self, own: Member | None = None) -> list[Ask]:
        """What its rest asks for, the largest first; `own` is one of it."""
        others = [pod for pod in self.waiting if own is None or pod.uid != own.uid]
        nominated = sum(pod.is_nominated for pod in others)
        count = max(self.rest - nominated - (own is not None), 0)
        asks = sorted((pod.ask for pod in others if not pod.is_nominated), reverse=True)[:count]
        return sorted([*asks, *([own.ask] if own and not own.is_nominated else [])], reverse=True)


def in_spell(age: int, patience: int) -> bool:
    """Whether a group of that age goes ahead of others."""
    begin = patience
    while 0 < begin <= age:
        if age < begin + 0.75 * begin:
            return True
        begin *= 2
    return False
