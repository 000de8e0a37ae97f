"""gpu-pack by its README, in exact fractions of a GPU: what it is to say of a pod on a node."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from typing import Any, Final, NamedTuple

from tests.sdk_guest.policy import Object

DEVICES: Final = "gpu-pack.kwx.dev/devices"
MEMORY: Final = "nvidia.com/gpu.memory"
MAX_DEVICES: Final = 256
MAX_MEMORY: Final = 10**9

_FRACTION: Final = re.compile(r"0?\.(?=.*[1-9])[0-9]{1,6}")


class Share(NamedTuple):
    """A part of each of some devices: a fraction, or MiB."""

    part: Fraction | int
    devices: int


class Demand(NamedTuple):
    """The same in fractions of a device of one node."""

    part: Fraction
    devices: int


class Request(NamedTuple):
    """What a pod asks for."""

    whole: Mapping[str, int]
    share: Share | None
    node_policy: str
    gpu_policy: str


class Rejection(NamedTuple):
    """Why a node does not take a pod."""

    reason: str
    is_resolvable: bool

    @property
    def expected(self) -> Any:
        """As the cases of a policy have it."""
        return self.reason if self.is_resolvable else {"unresolvable": self.reason}


class ProblemError(Exception):
    """What is wrong with a pod that no node takes. `str()` says what."""


class Policy(NamedTuple):
    """A configuration of gpu-pack."""

    resources: Sequence[str] = ("nvidia.com/gpu",)
    node_policy: str = "binpack"
    gpu_policy: str = "binpack"

    @property
    def config(self) -> Object:
        """The same as `guestConfig`."""
        return {"resources": list(self.resources), "nodePolicy": self.node_policy, "gpuPolicy": self.gpu_policy}

    def answer(self, pod: Object, node: Object, pods: Iterable[Object]) -> Any:
        """The score of a node with some pods on it, or the reason against it, as `verdicts` of `kwx test` has it."""
        try:
            request = self.request(pod)
        except ProblemError as error:
            return {"unresolvable": str(error)}
        state = NodeState(self, node, pods)
        rejection = state.rejection(request)
        return rejection.expected if rejection else state.score(request)

    def request(self, pod: Object) -> Request:
        """What the pod asks for. Raises ProblemError."""
        annotations = _annotations(pod)
        share = _share(annotations)
        policies = [
            _policy(annotations, f"hami.io/{which}-scheduler-policy", usual)
            for which, usual in [("node", self.node_policy), ("gpu", self.gpu_policy)]
        ]
        whole = {resource: _requested(pod, resource) for resource in self.resources}
        if share and whole[self.resources[0]]:
            raise ProblemError(f"the pod asks for whole {self.resources[0]} and for a share of one: leave out either")
        return Request(whole, share, *policies)


class NodeState:
    """A node with pods on it."""

    def __init__(self, policy: Policy, node: Object, pods: Iterable[Object]) -> None:
        self._policy = policy
        self._first = policy.resources[0]
        self._allocatable = {each: int(node["status"]["allocatable"].get(each, 0)) for each in policy.resources}
        self._memory = _number(node["metadata"].get("labels", {}).get(MEMORY, ""), MAX_MEMORY) or 0
        count = self._allocatable[self._first]
        self.free = [Fraction(1)] * (count if count <= MAX_DEVICES else 0)
        pods = list(pods)
        self._requested = {each: sum(_requested(pod, each) for pod in pods) for each in policy.resources}
        self._take(pods)

    def rejection(self, request: Request) -> Rejection | None:
        """What Filter says."""
        if request.share and (rejection := self._without_share(request.share)):
            return rejection
        for resource, count in request.whole.items():
            allocatable = self._allocatable[resource]
            if not count or not allocatable:
                continue
            if count + self._requested[resource] > allocatable:
                return Rejection(f"Insufficient {resource}", is_resolvable=count <= allocatable)
            if resource == self._first and self.free and self.free.count(Fraction(1)) < count:
                return Rejection(f"Insufficient unshared {resource}", is_resolvable=True)
        return None

    def score(self, request: Request) -> int:
        """What Score says, if the node passes."""
        if request.share:
            return self._score_of_share(request, self._demand_of_share(request.share))
        for resource, count in request.whole.items():
            if count:
                level = self._level(resource, count) if self._allocatable[resource] else None
                return 0 if level is None else _by(request.node_policy, level)
        there = (self._level(resource, 0) // 2 for resource, count in self._allocatable.items() if count)
        return next(there, 100)

    def choice(self, request: Request) -> list[int]:
        """The devices that the pod gets, if the node passes."""
        demand = self._demand(request.whole[self._first], request.share)
        if not demand or not self.free:
            return []
        chosen = self._choose(demand, request.gpu_policy)
        assert chosen is not None
        return chosen

    def load(self, pods: Iterable[Object]) -> list[Fraction]:
        """How much of each device pods have by what their annotations say."""
        load = [Fraction(0)] * len(self.free)
        for pod in pods:
            demand, devices = self._demand_of(pod), indices(pod)
            for device in devices if demand and len(devices) == demand.devices else ():
                if demand and device < len(load):
                    load[device] += demand.part
        return load

    def overcommitted(self, pods: Sequence[Object]) -> list[str]:
        """Of what the pods have more than there is, all of them with annotations that are right."""
        wrong = [
            resource
            for resource, allocatable in self._allocatable.items()
            if allocatable and self._requested[resource] > allocatable
        ]
        for pod in pods:
            demand = self._demand_of(pod)
            if self.free and demand and len([each for each in indices(pod) if each < len(self.free)]) != demand.devices:
                wrong.append(f"{pod['metadata']['name']} without devices")
        return wrong + [f"device {at}" for at, load in enumerate(self.load(pods)) if load > 1]

    def _without_share(self, share: Share) -> Rejection | None:
        if not self.free:
            return Rejection(f"no {self._first}", is_resolvable=False)
        if isinstance(share.part, int) and not self._memory:
            return Rejection(f"no label {MEMORY}", is_resolvable=False)
        demand = self._demand_of_share(share)
        if self._choose(demand, "binpack") is not None:
            return None
        can_ever = demand.part <= 1 and demand.devices <= len(self.free)
        return Rejection(f"Insufficient share of {self._first}", is_resolvable=can_ever)

    def _score_of_share(self, request: Request, demand: Demand) -> int:
        level = self._level_of_devices(demand)
        if (request.node_policy, request.gpu_policy) != ("binpack", "binpack"):
            return _by(request.node_policy, level)
        opened = sum(1 for free in self.free if demand.part <= free < 1) < demand.devices
        return level // 2 + (0 if opened else 50)

    def _level(self, resource: str, more: int) -> int:
        if resource == self._first and self.free:
            return self._level_of_devices(Demand(Fraction(1), more))
        return _percent(Fraction(self._requested[resource] + more, self._allocatable[resource]))

    def _level_of_devices(self, demand: Demand) -> int:
        used = sum((1 - max(free, Fraction(0)) for free in self.free), Fraction(0))
        return _percent((used + demand.part * demand.devices) / len(self.free))

    def _take(self, pods: Iterable[Object]) -> None:
        unknown = []
        for pod in pods:
            demand, devices = self._demand_of(pod), indices(pod)
            if demand:
                known = [each for each in devices if each < len(self.free) and len(devices) == demand.devices]
                self._take_from(known, demand.part)
                unknown.append(demand._replace(devices=demand.devices - len(known)))
        for demand in sorted(unknown, reverse=True):
            by_room = sorted(range(len(self.free)), key=lambda each: (-self.free[each], each))
            self._take_from(self._choose(demand, "binpack") or by_room[: demand.devices], demand.part)

    def _take_from(self, devices: Iterable[int], part: Fraction) -> None:
        for device in devices:
            self.free[device] -= part

    def _choose(self, demand: Demand, policy: str) -> list[int] | None:
        fitting = [each for each, free in enumerate(self.free) if free >= demand.part]
        fitting.sort(key=lambda each: self.free[each], reverse=policy == "spread")
        return sorted(fitting[: demand.devices]) if len(fitting) >= demand.devices else None

    def _demand_of(self, pod: Object) -> Demand | None:
        """What a pod that is here asks for; a share that cannot be read is none."""
        try:
            share = _share(_annotations(pod))
        except ProblemError:
            share = None
        return self._demand(_requested(pod, self._first), share)

    def _demand(self, whole: int, share: Share | None) -> Demand | None:
        if whole:
            return Demand(Fraction(1), whole)
        return self._demand_of_share(share) if share else None

    def _demand_of_share(self, share: Share) -> Demand:
        part = share.part
        if isinstance(part, int):
            return Demand(Fraction(part, self._memory) if self._memory else Fraction(1), share.devices)
        return Demand(part, share.devices)


def indices(pod: Object) -> list[int]:
    """The devices that a pod's annotation names; none if it cannot be read."""
    parts = _annotations(pod).get(DEVICES, "").split(",")
    found = [int(part) for part in parts if re.fullmatch("[0-9]+", part)]
    is_read = len(found) == len(parts) == len(set(found)) <= MAX_DEVICES
    return found if is_read else []


def _share(annotations: Mapping[str, str]) -> Share | None:
    fraction, memory = annotations.get("gpu-fraction"), annotations.get("gpu-memory")
    part: Fraction | int
    if fraction is not None and memory is not None:
        raise ProblemError("annotations gpu-fraction and gpu-memory exclude each other")
    if fraction is not None:
        if not _FRACTION.fullmatch(fraction):
            raise _wrong("gpu-fraction", "a number between 0 and 1 with up to six digits, as 0.5", fraction)
        part = Fraction(fraction)
    elif memory is not None:
        found = _number(memory, MAX_MEMORY)
        if not found:
            raise _wrong("gpu-memory", "a number of MiB, as 8000", memory)
        part = found
    else:
        return None
    text = annotations.get("gpu-fraction-num-devices", "1")
    devices = _number(text, 64)
    if not devices:
        raise _wrong("gpu-fraction-num-devices", "a number from 1 to 64", text)
    return Share(part, devices)


def _policy(annotations: Mapping[str, str], key: str, usual: str) -> str:
    policy = annotations.get(key, usual)
    if policy not in {"binpack", "spread"}:
        raise ProblemError(f'annotation {key} must be binpack or spread, not "{policy}"')
    return policy


def _wrong(key: str, wanted: str, text: str) -> ProblemError:
    return ProblemError(f'annotation {key} must be {wanted}, not "{text}"')


def _number(text: str, most: int) -> int | None:
    """A number from 1 on."""
    return int(text) if re.fullmatch("[0-9]+", text) and 1 <= int(text) <= most else None


def _annotations(pod: Object) -> Mapping[str, str]:
    found: Mapping[str, str] = pod["metadata"].get("annotations", {})
    return found


def _requested(pod: Object, resource: str) -> int:
    return sum(
        int(each.get("resources", {}).get("requests", {}).get(resource, 0)) for each in pod["spec"]["containers"]
    )


def _by(policy: str, level: int) -> int:
    return level if policy == "binpack" else 100 - level


def _percent(part: Fraction) -> int:
    return min(100, int(100 * part))
