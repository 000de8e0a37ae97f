"""The rights that the extender's account needs."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import NamedTuple

from extender.cluster.waker import NAME
from extender.rollouts.registration import Registration


class Right(NamedTuple):
    """A verb on a resource, in the words of RBAC."""

    verb: str
    resource: str
    group: str = ""
    subresource: str = ""
    name: str = ""
    namespace: str = ""
    """The namespace of the right; empty for all namespaces."""

    def __str__(self) -> str:
        resource = f"{self.resource}/{self.subresource}" if self.subresource else self.resource
        where = f" in namespace {self.namespace}" if self.namespace else ""
        return f"{self.verb} {'.'.join(filter(None, [resource, self.group]))}{f' {self.name}' * bool(self.name)}{where}"


def needed(extender: Registration, group_apis: Collection[str], namespace: str, *, binds: bool) -> Iterator[Right]:
    """The rights that an extender needs for its plugins; `namespace` is its own.

    `group_apis` are the API groups that have PodGroups; `binds` says whether kube-scheduler asks the extender to bind.
    """
    if not extender.is_connected:
        return
    yield from (Right(verb, "nodes") for verb in ("list", "watch"))
    yield from (Right(verb, "events", "events.k8s.io") for verb in ("create", "patch"))
    if any(plugin.wants_pods or plugin.wants_victims for plugin in extender.plugins):
        yield from (Right(verb, "pods") for verb in ("list", "watch"))
    if any(plugin.wants_groups for plugin in extender.plugins):
        yield from (Right(verb, "podgroups", group) for group in sorted(group_apis) for verb in ("list", "watch"))
    if binds:
        yield Right("get", "pods")
        yield Right("create", "pods", subresource="binding")
    if any(plugin.wakes_pods for plugin in extender.plugins):
        yield Right("patch", "csistoragecapacities", "storage.k8s.io", name=NAME, namespace=namespace)
