"""What kube-scheduler counts on a node, written a second time and plainly, and random pods to count.

Source: `PodRequests` of k8s.io/component-helpers/resource and NodeInfo in pkg/scheduler/framework/types.go of
Kubernetes 1.37, with its default features.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from typing import Any, Final

from tests.sdk_guest.policy import Object, value

Amounts = Mapping[str, Fraction]

_MISSING: Final[Amounts] = {"cpu": Fraction(1, 10), "memory": Fraction(200 << 20)}
"""What counts for scores where a container does not ask."""

_FIELDS: Final = {"cpu": "milliCPU", "memory": "memory", "ephemeral-storage": "ephemeralStorage", "pods": "pods"}

_QUANTITIES: Final = {
    "cpu": ("0", "1", "0.1", "100m", "2.5", "333u", "1500001u", "3e0"),
    "memory": ("0", "0.5", "1Ki", "1.5Gi", "129M", "100m", "0.1Gi"),
    "ephemeral-storage": ("1Gi", "500m", "2G"),
    "hugepages-2Mi": ("4Mi", "0"),
    "example.com/gpu": ("1", "2", "0"),
    "storage": ("1Gi",),
}


def node_info(node: Object, pods: Sequence[Object]) -> Object:
    """The node and its pods as the guest `nodeinfo` tells of them, without the names."""
    allocatable = _resources(_amounts(node.get("status", {}).get("allocatable")))
    asked = [requests(pod, {}) for pod in pods]
    requested = _total([{**_resources(each), "pods": 1} for each in asked])
    at_least = [requests(pod, _missing(pod, each)) for pod, each in zip(pods, asked, strict=True)]
    non_zero = _total([_resources(each) for each in at_least])
    return {
        "allocatable": allocatable,
        "requested": requested,
        "free": _total([allocatable, _times(-1, requested)]),
        "nonZeroRequested": {field: non_zero[field] for field in ("milliCPU", "memory")},
    }


def requests(pod: Object, missing: Amounts) -> Amounts:
    """What a pod asks for, with `missing` for each container that does not name these resources."""
    spec, status = pod["spec"], pod.get("status", {})
    conditions = [each for each in status.get("conditions", []) if each["type"] == "PodResizePending"]
    is_infeasible = bool(conditions) and conditions[0].get("reason") == "Infeasible"
    statuses: dict[str, Object] = {}
    for each in (*status.get("containerStatuses", []), *status.get("initContainerStatuses", [])):
        statuses.setdefault(each["name"], each)

    def wished(container: Object) -> Object | None:
        return _requests(container)

    def allocated(container: Object) -> Object | None:
        known = statuses.get(container["name"], {}).get("allocatedResources")
        return known or (None if is_infeasible else wished(container))

    def actuated(container: Object) -> Object | None:
        return _requests(statuses.get(container["name"], {})) or allocated(container)

    whole: list[Amounts] = [_amounts(status.get("allocatedResources")), _amounts(_requests(status))]
    if not all(whole):
        whole = [_of_containers(spec, ways, missing) for ways in (allocated, actuated)]
    total = dict(_most(*whole, *([] if is_infeasible else [_of_containers(spec, wished, missing)])))
    total.update(_of_pod(spec, status, is_infeasible=is_infeasible))
    return _sum(total, _amounts(spec.get("overhead")))


def _of_pod(spec: Object, status: Object, *, is_infeasible: bool) -> Amounts:
    """What takes the place of the containers' sum."""
    wished = _amounts(_requests(spec))
    if not any(map(_is_for_pods, wished)):
        return {}
    if "resources" in status:
        kept = {} if is_infeasible else wished
        wished = _most(kept, _amounts(_requests(status)), _amounts(status.get("allocatedResources")))
    return {name: amount for name, amount in wished.items() if _is_for_pods(name)}


def _of_containers(spec: Object, asks: Callable[[Object], Object | None], missing: Amounts) -> Amounts:
    """The most that is needed at the same time, from the first init container to the containers."""
    sidecars: list[Amounts] = []
    moments = []
    for container in spec.get("initContainers", []):
        asked = {**missing, **_amounts(asks(container))}
        moments.append(_sum(*sidecars, asked))
        if container.get("restartPolicy") == "Always":
            sidecars.append(asked)
    moments.append(_sum(*sidecars, *({**missing, **_amounts(asks(each))} for each in spec["containers"])))
    return _most(*moments)


def _missing(pod: Object, asked: Amounts) -> Amounts:
    if any(map(_is_for_pods, _requests(pod["spec"]) or {})):
        return {name: amount for name, amount in _MISSING.items() if name not in asked}
    return _MISSING


def _is_for_pods(name: str) -> bool:
    return name in {"cpu", "memory"} or name.startswith("hugepages-")


def _requests(thing: Object) -> Object | None:
    found: Object | None = thing.get("resources", {}).get("requests")
    return found


def _amounts(resources: Object | None) -> dict[str, Fraction]:
    return {name: value(quantity) for name, quantity in (resources or {}).items()}


def _sum(*lists: Amounts) -> dict[str, Fraction]:
    return {name: sum((each.get(name, Fraction()) for each in lists), Fraction()) for name in _names(lists)}


def _most(*lists: Amounts) -> dict[str, Fraction]:
    return {name: max(each[name] for each in lists if name in each) for name in _names(lists)}


def _names(lists: Sequence[Mapping[str, object]]) -> list[str]:
    return list(dict.fromkeys(name for each in lists for name in each))


def _resources(amounts: Amounts) -> Object:
    """As whole numbers, each rounded up."""
    scalars = {name: math.ceil(amount) for name, amount in amounts.items() if "/" in name or "hugepages-" in name}
    named = {field: math.ceil(amounts.get(name, 0) * (1000 if name == "cpu" else 1)) for name, field in _FIELDS.items()}
    return {**named, "scalars": {name: amount for name, amount in scalars.items() if amount}}


def _total(all_resources: Sequence[Object]) -> Object:
    named = {field: sum(each[field] for each in all_resources) for field in _FIELDS.values()}
    scalars = [each["scalars"] for each in all_resources]
    totals = {name: sum(each.get(name, 0) for each in scalars) for name in _names(scalars)}
    return {**named, "scalars": {name: total for name, total in totals.items() if total}}


def _times(factor: int, resources: Object) -> Object:
    scalars = {name: factor * amount for name, amount in resources["scalars"].items()}
    return {field: factor * resources[field] for field in _FIELDS.values()} | {"scalars": scalars}


def random_node(source: random.Random, name: str) -> Object:
    """A v1.Node of which any resource may be missing."""
    return {"metadata": {"name": name}, "status": {"allocatable": {**_some(source, 0.7), "pods": "110"}}}


def random_pod(source: random.Random, name: str) -> Object:
    """A v1.Pod with containers of all kinds, of which any part may be missing, and with a status in any stage."""
    names = [f"c{at}" for at in range(5)]
    kinds: dict[str, list[Object]] = {"containers": [], "initContainers": []}
    for each in names[: source.randrange(1, 6)]:
        kind = source.choice([*kinds])
        is_sidecar = kind == "initContainers" and source.random() < 0.5
        kinds[kind].append(_container(source, each) | ({"restartPolicy": "Always"} if is_sidecar else {}))
    spec: Object = {**kinds}
    _maybe(source, 0.3, spec, overhead=_some(source, 0.3))
    _maybe(source, 0.3, spec, resources={"requests": _some(source, 0.4)})
    status: Object = {}
    seen = [_status(source, each) for each in names if source.random() < 0.6]
    cut = source.randrange(len(seen) + 1)
    _maybe(source, 0.5, status, containerStatuses=seen[:cut], initContainerStatuses=seen[cut:])
    _maybe(source, 0.3, status, allocatedResources=_some(source, 0.4))
    _maybe(source, 0.3, status, resources={"requests": _some(source, 0.4)})
    reasons = source.choices(["Infeasible", "Deferred"], k=source.randrange(3))
    _maybe(source, 0.4, status, conditions=[_condition(reason) for reason in ("", *reasons)])
    return {"metadata": {"name": name, "namespace": "ns"}, "spec": spec, "status": status}


def _container(source: random.Random, name: str) -> Object:
    return {"name": name, "image": "i", "resources": {"requests": _some(source, 0.4)}}


def _status(source: random.Random, name: str) -> Object:
    status: Object = {"name": name, "ready": True, "restartCount": 0, "image": "i", "imageID": "i"}
    _maybe(source, 0.5, status, allocatedResources=_some(source, 0.4))
    _maybe(source, 0.5, status, resources={"requests": _some(source, 0.4)})
    return status


def _condition(reason: str) -> Object:
    """One that is about no resize where there is no reason."""
    return {"type": "PodResizePending" if reason else "Ready", "status": "True", "reason": reason}


def _maybe(source: random.Random, likelihood: float, thing: Object, **parts: Any) -> None:
    if source.random() < likelihood:
        thing.update(parts)


def _some(source: random.Random, likelihood: float) -> Object:
    return {name: source.choice(texts) for name, texts in _QUANTITIES.items() if source.random() < likelihood}
