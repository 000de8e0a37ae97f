"""What README.md of the policy topology says, in Python: nodes by name, and rooms in pods that are all alike."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

Path = tuple[str, ...]
"""The values of a node's labels by level, empty where it has none."""


class Node(NamedTuple):
    """A candidate."""

    path: Path
    room: int


class Ask(NamedTuple):
    """What a group asks for, and what it lacks."""

    levels: Sequence[str]
    required: int | None
    preferred: int
    need: int
    """Members without a node, with those that the minimum lacks."""
    least: int
    """What the minimum lacks, at least 1."""
    placed: Sequence[Path]
    node_policy: str = "spread"


class _Domain(NamedTuple):
    name: Path
    nodes: list[Node]
    members: int
    has_label: bool

    @property
    def room(self) -> int:
        return sum(node.room for node in self.nodes)

    @property
    def path(self) -> Path:
        return self.nodes[0].path if self.nodes else self.name


class _Plan(NamedTuple):
    only: Path | None
    """The domain that may have the group, where one is required."""
    is_pinned: bool
    taken: Sequence[_Domain]

    @property
    def next(self) -> _Domain | None:
        return next((domain for domain in self.taken if domain.room), self.taken[0] if self.taken else None)


def answers(nodes: Mapping[str, Node], ask: Ask) -> dict[str, Any]:
    """The score of each node that passes, or why it does not."""
    plan = _plan(list(nodes.values()), ask)
    if isinstance(plan, str):
        return dict.fromkeys(nodes, plan)
    largest = max((each.room for each in nodes.values()), default=0)
    return {name: _rejection(node, ask, plan) or _score(node, ask, plan, largest) for name, node in nodes.items()}


def _rejection(node: Node, ask: Ask, plan: _Plan) -> str | dict[str, str] | None:
    if ask.required is None:
        return None
    label = ask.levels[ask.required]
    if not node.path[ask.required]:
        return {"unresolvable": f"no label {label}"}
    if node.path[: ask.required + 1] == plan.only:
        return None
    return (
        {"unresolvable": f"the group is in another {label}"} if plan.is_pinned else f"another {label} is for the group"
    )


def _score(node: Node, ask: Ask, plan: _Plan, largest: int) -> int:
    level, following = ask.preferred, plan.next
    if following is None:
        return 0
    name = _name(node.path, level)
    if name == following.name:
        return 80 + _share(ask, 20, node.room, max((each.room for each in following.nodes), default=0))
    if any(name == domain.name for domain in plan.taken):
        return 50 + _share(ask, 20, node.room, largest)
    place = following.path
    shared = sum(bool(node.path[at]) and node.path[: at + 1] == place[: at + 1] for at in range(level + 1))
    return 40 * shared // (level + 1) + _share(ask, 9, node.room, largest)


def _plan(nodes: list[Node], ask: Ask) -> _Plan | str:
    """Where the group goes, or why it goes nowhere."""
    pinned = None if ask.required is None else _most(ask.placed, ask.required)
    area, placed = nodes, list(ask.placed)
    if ask.required is not None:
        end = ask.required + 1
        area = [node for node in nodes if node.path[ask.required] and pinned in {None, node.path[:end]}]
        placed = [path for path in placed if pinned and path[:end] == pinned]
    first = ask.required or 0
    found = _fitting(area, placed, ask)
    if found:
        domain, first = found
        area, placed = domain.nodes, [path for path in placed if path[: first + 1] == domain.name]
    elif ask.required is not None and pinned is None:
        roomiest = next(iter(_domains(area, placed, ask.required)), None)
        if roomiest is None or roomiest.room < ask.least:
            most, label = roomiest.room if roomiest else 0, ask.levels[ask.required]
            return f"no {label} has room for the {ask.least} pods that the group needs; the most is {most}"
        area = roomiest.nodes
    taken: list[_Domain] = []
    for at in range(first, ask.preferred + 1):
        taken = _select(area, placed, at, ask.preferred, ask.need)
        area = [node for domain in taken for node in domain.nodes]
        placed = [path for path in placed if any(_name(path, at) == domain.name for domain in taken)]
    plan = _Plan(pinned, pinned is not None, taken)
    if ask.required is None or pinned or plan.next is None:
        return plan
    return plan._replace(only=plan.next.path[: ask.required + 1])


def _fitting(area: Sequence[Node], placed: Sequence[Path], ask: Ask) -> tuple[_Domain, int] | None:
    for at in range(ask.preferred, (ask.required or 0) - 1, -1):
        fitting = [each for each in _domains(area, placed, at) if each.members == len(placed)]
        if found := _fullest(fitting, placed, at, ask.preferred, ask.need):
            return found, at
    return None


def _share(ask: Ask, most: int, room: int, largest: int) -> int:
    part = most * min(room, largest) // max(largest, 1)
    return {"spread": part, "binpack": most - part, "none": 0}[ask.node_policy]


def _most(placed: Sequence[Path], level: int) -> Path | None:
    counts: dict[Path, int] = defaultdict(int)
    for path in placed:
        if path[level]:
            counts[path[: level + 1]] += 1
    return min(counts, key=lambda name: (-counts[name], "/".join(name)), default=None)


def _name(path: Path, level: int) -> Path:
    return path[: level + 1] if path[level] else (*path, "")


def _domains(nodes: Sequence[Node], placed: Sequence[Path], level: int) -> list[_Domain]:
    """In the order in which they are taken."""
    members: dict[Path, int] = defaultdict(int)
    by_name: dict[Path, list[Node]] = defaultdict(list)
    labels: dict[Path, bool] = {}
    for path in placed:
        members[_name(path, level)] += 1
        labels[_name(path, level)] = bool(path[level])
    for node in nodes:
        by_name[_name(node.path, level)].append(node)
        labels[_name(node.path, level)] = bool(node.path[level])
    found = [_Domain(name, by_name[name], members[name], labels[name]) for name in labels]
    return sorted(found, key=lambda each: (-each.members, not each.has_label, -each.room, "/".join(each.name)))


def _fullest(domains: Sequence[_Domain], placed: Sequence[Path], level: int, last: int, need: int) -> _Domain | None:
    def parts(domain: _Domain) -> int:
        if level == last:
            return 0
        inside = [path for path in placed if _name(path, level) == domain.name]
        left, count = need, 0
        for part in _domains(domain.nodes, inside, level + 1):
            count += left > 0
            left -= part.room
        return count

    fitting = [domain for domain in domains if domain.has_label and domain.room >= need]
    return min(fitting, key=lambda domain: (parts(domain), domain.room, "/".join(domain.name)), default=None)


def _select(nodes: Sequence[Node], placed: Sequence[Path], level: int, last: int, need: int) -> list[_Domain]:
    chosen: list[_Domain] = []
    rest = _domains(nodes, placed, level)
    left = need
    while rest and rest[0].members and left > 0:
        chosen.append(rest.pop(0))
        left -= chosen[-1].room
    rest = [domain for domain in rest if not domain.members]
    while rest and left > 0:
        taken = _fullest(rest, placed, level, last, left) or rest[0]
        rest.remove(taken)
        chosen.append(taken)
        left -= taken.room
    return chosen
