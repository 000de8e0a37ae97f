"""Objects of the API server, with the fields that checks need. Names are those of the API."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from typing import Final, NamedTuple

from msgspec import Struct, field

_PROGRAM: Final = "kube-scheduler"
_VERSION: Final = re.compile(r":v(\d+)\.(\d+)\.")


class Version(NamedTuple):
    """A minor release of Kubernetes."""

    major: int
    minor: int

    def __str__(self) -> str:
        return f"{self.major}.{self.minor}"


class _Object(Struct, frozen=True, rename="camel"):
    pass


class Owner(_Object, frozen=True):
    """A metav1.OwnerReference: the object that has made another one."""

    kind: str = ""


class FieldsEntry(_Object, frozen=True):
    """A metav1.ManagedFieldsEntry: a write of an object."""

    time: datetime | None = None


class Metadata(_Object, frozen=True):
    """A metav1.ObjectMeta."""

    name: str = ""
    namespace: str = ""
    labels: dict[str, str] = field(default_factory=dict)
    creation_timestamp: datetime | None = None
    deletion_timestamp: datetime | None = None
    owner_references: tuple[Owner, ...] = ()
    managed_fields: tuple[FieldsEntry, ...] = ()


class ContainerPort(_Object, frozen=True):
    """A port of a container."""

    name: str = ""
    container_port: int = 0


class Container(_Object, frozen=True):
    """A container of a pod."""

    name: str = ""
    image: str = ""
    ports: tuple[ContainerPort, ...] = ()
    command: tuple[str, ...] = ()
    args: tuple[str, ...] = ()

    @property
    def words(self) -> tuple[str, ...]:
        """The command line of the container, as far as the pod says it."""
        return self.command + self.args

    @property
    def is_scheduler(self) -> bool:
        """Whether the container runs a kube-scheduler."""
        program = self.words[0] if self.words else self.image.split("@")[0].split(":")[0]
        return program.rsplit("/", 1)[-1] == _PROGRAM

    @property
    def is_extender(self) -> bool:
        """Whether the container runs `kwx serve`."""
        return "serve" in self.words[:2] and (self.words[0].rsplit("/", 1)[-1] in {"serve", "kwx"})

    @property
    def version(self) -> Version | None:
        """The minor of Kubernetes in the tag of the image; None if the tag is no version."""
        found = _VERSION.search(self.image.rsplit("/", 1)[-1])
        return Version(int(found[1]), int(found[2])) if found else None

    def flag(self, name: str) -> str | None:
        """The value of a flag of the command line; None if the flag is not there."""
        for word, following in zip(self.words, (*self.words[1:], ""), strict=True):
            key, has_value, value = word.lstrip("-").partition("=")
            if word.startswith("-") and key == name:
                return value if has_value else following
        return None


class ConfigMapVolume(_Object, frozen=True):
    """A ConfigMap that a pod mounts."""

    name: str = ""


class Volume(_Object, frozen=True):
    """A volume of a pod."""

    config_map: ConfigMapVolume | None = None


class SchedulingGate(_Object, frozen=True):
    """A gate that has to be removed before a pod is scheduled."""


class PodSpec(_Object, frozen=True):
    """The spec of a pod."""

    containers: tuple[Container, ...] = ()
    init_containers: tuple[Container, ...] = ()
    volumes: tuple[Volume, ...] = ()
    service_account_name: str = "default"
    scheduler_name: str = "default-scheduler"
    host_network: bool = False
    dns_policy: str = "ClusterFirst"
    scheduling_gates: tuple[SchedulingGate, ...] = ()


class PodStatus(_Object, frozen=True):
    """The status of a pod."""

    phase: str = ""
    start_time: datetime | None = None


class Pod(_Object, frozen=True):
    """A pod."""

    metadata: Metadata = Metadata()
    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()


class Template(_Object, frozen=True):
    """The template of which a Deployment makes pods."""

    spec: PodSpec = PodSpec()


class DeploymentSpec(_Object, frozen=True):
    """The spec of a Deployment."""

    replicas: int = 1
    template: Template = Template()


class Deployment(_Object, frozen=True):
    """A Deployment."""

    metadata: Metadata = Metadata()
    spec: DeploymentSpec = DeploymentSpec()


class ServicePort(_Object, frozen=True):
    """A port of a Service."""

    port: int = 0


class ServiceSpec(_Object, frozen=True):
    """The spec of a Service."""

    ports: tuple[ServicePort, ...] = ()


class Service(_Object, frozen=True):
    """A Service."""

    metadata: Metadata = Metadata()
    spec: ServiceSpec = ServiceSpec()


class NamedService(NamedTuple):
    """The Service that a URL names."""

    name: str
    """`NAMESPACE/NAME` of the Service; empty if the URL names none."""
    found: Service | None
    """The Service; None if it does not exist."""


class ConfigMap(_Object, frozen=True):
    """A ConfigMap."""

    metadata: Metadata = Metadata()
    data: dict[str, str] = field(default_factory=dict)

    @property
    def written(self) -> datetime | None:
        """When the ConfigMap was last written; None if unknown."""
        times = [each.time for each in self.metadata.managed_fields if each.time]
        return max(times, default=self.metadata.creation_timestamp)


class Event(_Object, frozen=True):
    """An Event of events.k8s.io."""

    event_time: datetime | None = None
    reporting_controller: str = ""


class Workload(NamedTuple):
    """A Deployment, or a pod that no Deployment has made."""

    kind: str
    namespace: str
    name: str
    replicas: int
    pod: PodSpec
    started: datetime | None
    """When the oldest pod of the workload started; None if none has."""

    def __str__(self) -> str:
        return f"{self.kind} {self.namespace}/{self.name}"

    @property
    def containers(self) -> tuple[Container, ...]:
        """The containers and init containers, which may be sidecars."""
        return self.pod.init_containers + self.pod.containers

    @property
    def scheduler(self) -> Container | None:
        """The container that runs a kube-scheduler; None if none does."""
        return next((each for each in self.containers if each.is_scheduler), None)

    @property
    def has_extender(self) -> bool:
        """Whether a container runs the extender."""
        return any(each.is_extender for each in self.containers)


def workloads(deployments: Iterable[Deployment], pods: Sequence[Pod]) -> Iterator[Workload]:
    """The workloads of these Deployments and pods that run a kube-scheduler or an extender."""
    made = [
        Workload(
            "Deployment",
            each.metadata.namespace,
            each.metadata.name,
            each.spec.replicas,
            each.spec.template.spec,
            min(_starts(each, pods), default=None),
        )
        for each in deployments
    ]
    alone = [
        Workload("Pod", pod.metadata.namespace, pod.metadata.name, 1, pod.spec, pod.status.start_time)
        for pod in pods
        if not _is_of_replica_set(pod)
    ]
    yield from (each for each in (*made, *alone) if each.scheduler or each.has_extender)


def _starts(deployment: Deployment, pods: Iterable[Pod]) -> Iterator[datetime]:
    """When the pods of a Deployment started. Their names begin with its own."""
    of = deployment.metadata
    for pod in pods:
        name = pod.metadata.name.rsplit("-", 2)[0]
        is_of = _is_of_replica_set(pod) and (pod.metadata.namespace, name) == (of.namespace, of.name)
        if is_of and pod.status.start_time:
            yield pod.status.start_time


def _is_of_replica_set(pod: Pod) -> bool:
    return any(owner.kind == "ReplicaSet" for owner in pod.metadata.owner_references)
