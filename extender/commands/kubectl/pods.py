"""Finds the extender's pod."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from extender.cluster.client.api import ApiServer
from extender.commands.doctor.cluster import Cluster
from extender.commands.doctor.objects import Container, Pod
from extender.commands.plugin.client import RemoteError

SELECTOR: Final = "app.kubernetes.io/name in (kwx-extender, kwx-scheduler)"
"""The pods of both overlays of the manifests."""
PORT: Final = ("admin", 8889)
"""The name of the admin API's port in the manifests, and its number where no port has this name."""
MAX_SHOWN: Final = 10


class ExtenderPod(NamedTuple):
    """A pod with an extender, and its admin port."""

    namespace: str
    name: str
    port: int

    def __str__(self) -> str:
        return f"pod {self.namespace}/{self.name}"


async def find(api: ApiServer, namespace: str | None, name: str | None) -> ExtenderPod:
    """The running pod of the extender in a namespace, or in all; `name` chooses one of several.

    Raises ClusterError, and RemoteError where there is no such pod, or several.
    """
    try:
        pods = await Cluster(api).pods(namespace, SELECTOR)
    finally:
        await api.aclose()
    return choose(list(extenders(pods)), namespace, name)


def extenders(pods: Iterable[Pod]) -> Iterator[ExtenderPod]:
    """The pods that run an extender and are not being deleted."""
    for pod in pods:
        if pod.status.phase != "Running" or pod.metadata.deletion_timestamp:
            continue
        for container in (*pod.spec.init_containers, *pod.spec.containers):
            if container.is_extender:
                yield ExtenderPod(pod.metadata.namespace, pod.metadata.name, _port(container))


def choose(found: Sequence[ExtenderPod], namespace: str | None, name: str | None) -> ExtenderPod:
    """The only pod, or the pod with a name. Raises RemoteError if there is no such pod, or several."""
    where = f"in namespace {namespace}" if namespace else "in any namespace"
    named = [each for each in found if name in {None, each.name}]
    if not named:
        what = f"pod {name} of an extender" if name else "extender"
        mend = "; name another namespace, or look in all by -A" if namespace else ""
        raise RemoteError(f"no {what} runs {where} (label {SELECTOR}){mend}")
    if len(named) > 1:
        names = ", ".join(f"{each.namespace}/{each.name}" for each in named[:MAX_SHOWN])
        raise RemoteError(f"{len(named)} pods run an extender {where}: {names}; choose one by --pod")
    return named[0]


def _port(container: Container) -> int:
    name, usual = PORT
    return next((each.container_port for each in container.ports if each.name == name), usual)
