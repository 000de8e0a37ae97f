"""Reads the facts that checks need. For a fact that cannot be read, an Unread says why; nothing is guessed."""

from __future__ import annotations

import ssl
from collections.abc import Awaitable, Callable, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final, TypeVar

from extender.cluster.client.access import kubeconfig_files
from extender.cluster.client.api import ApiServer
from extender.cluster.client.errors import ClusterError
from extender.commands.doctor.cluster import SYSTEM, Cluster
from extender.commands.doctor.facts import Account, Entry, Facts, SchedulerFile, Unread, find_entry
from extender.commands.doctor.objects import ConfigMap, NamedService, Version, Workload
from extender.commands.doctor.rights import needed
from extender.commands.doctor.running import Running
from extender.commands.doctor.scheduler import KIND, ConfigurationError, SchedulerConfig, decode
from extender.commands.plugin.client import RemoteError
from extender.config import ExtenderConfiguration
from extender.http.certificates import CertificateError, ServerCertificates
from extender.rollouts import load
from extender.rollouts.registration import Registration

T = TypeVar("T")

SCHEDULER: Final = "this kube-scheduler; --scheduler-config names its configuration"
CONFIG_MAP: Final = "configmap/"
MAX_CONFIG_BYTES: Final = 1 << 20
"""Bytes of a file with a KubeSchedulerConfiguration."""


class UsageError(Exception):
    """A file or ConfigMap that an option names cannot be used. `str()` says why."""


@dataclass(frozen=True)
class Places:
    """Where the facts are read, as the options of `kwx doctor` say."""

    namespace: str
    """The namespace of the extender."""
    scheduler_config: str | None
    """A file, or `configmap/NAME` or `configmap/NAMESPACE/NAME`; by default what kube-scheduler's pod mounts."""
    config: Path | None
    """The extender's configuration file; by default the extender that runs at `server` is asked."""
    server: str
    """The URL of the running extender's admin address."""
    token: str | None
    """A bearer token of the admin API."""
    tls: ssl.SSLContext
    """By which certificates the running extender is trusted, and which one it is shown."""
    kubeconfig: Path | None
    """The kubeconfig of the cluster; by default the one that kubectl would use."""
    context: str | None
    """The context of the kubeconfig; by default its current one."""


async def gather(places: Places) -> Facts:
    """Reads everything. Raises ConfigError for a `config`, and UsageError for a `scheduler_config`, of no use."""
    extender, own = _extender(places)
    running = Running(places.server, places.token, places.tls)
    cluster = _try(lambda: Cluster(_connect(places)))
    loads = await _ask(cluster, lambda it: it.workloads(dict.fromkeys((places.namespace, SYSTEM))))
    scheduler, file = await _scheduler(places, cluster, _first_scheduler(loads, places))
    entry = find_entry(scheduler, extender)
    scheduler_workload = _scheduler_workload(loads, entry, places)
    extender_workload = _extender_workload(loads, scheduler_workload, places)
    group_apis = await _ask(cluster, lambda it: it.group_apis())
    facts = Facts(
        scheduler=scheduler,
        scheduler_file=file,
        scheduler_workload=scheduler_workload,
        scheduler_version=_version(scheduler_workload),
        extender=extender,
        certificate_hosts=_certificate_hosts(places, extender, own),
        extender_workload=extender_workload,
        service=await _service(cluster, entry),
        api_version=await _ask(cluster, lambda it: it.version()),
        group_apis=group_apis,
        account=await _account(places, cluster, extender, extender_workload, entry, group_apis, own),
        wake_object=await _ask(cluster, lambda it: it.has_wake_object(places.namespace)),
        nodes=await _ask(cluster, lambda it: it.nodes()),
        unscheduled=await _ask(cluster, lambda it: it.unscheduled()),
        scheduled=await _ask(cluster, lambda it: it.scheduled()),
        activity=_try(running.activity),
        readiness=_try(running.readiness),
    )
    if isinstance(cluster, Cluster):
        await cluster.aclose()
    return facts


def _extender(places: Places) -> tuple[Registration | Unread, ExtenderConfiguration | None]:
    """The registration of the extender, and its configuration if the file of that was given."""
    if places.config is None:
        return _try(Running(places.server, places.token, places.tls).registration), None
    with closing(load(places.config)) as loaded:
        return Registration.of(loaded.configuration, loaded.live), loaded.configuration


def _certificate_hosts(
    places: Places, extender: Registration | Unread, own: ExtenderConfiguration | None
) -> Sequence[str] | Unread:
    if isinstance(extender, Unread):
        return extender
    if not extender.has_tls:
        return []
    if not (own and own.server.tls and places.config):
        told = extender.certificate_hosts
        return Unread("the extender does not tell which hosts it is for") if told is None else told
    try:
        return ServerCertificates("server.tls", own.server.tls, places.config.absolute().parent).hosts
    except CertificateError as error:
        return Unread(str(error))


def _connect(places: Places) -> ApiServer:
    """The API server as kubectl would find it. Raises AccessError."""
    files = kubeconfig_files(places.kubeconfig)
    return ApiServer.from_kubeconfigs(files, places.context) if files else ApiServer.in_cluster()


async def _scheduler(
    places: Places, cluster: Cluster | Unread, workload: Workload | Unread
) -> tuple[SchedulerConfig | Unread, SchedulerFile | Unread]:
    """kube-scheduler's configuration, and where it was found."""
    given = places.scheduler_config
    if given and not given.startswith(CONFIG_MAP):
        return _decoded(_read(Path(given)), given), SchedulerFile(given, None)
    if given:
        *namespace, name = given.removeprefix(CONFIG_MAP).split("/")
        return await _mounted(cluster, [(namespace[0] if namespace else places.namespace, name)], given)
    if isinstance(workload, Unread):
        return workload, workload
    maps = [(workload.namespace, each.config_map.name) for each in workload.pod.volumes if each.config_map]
    return await _mounted(cluster, maps, str(workload), _hint(workload))


async def _mounted(
    cluster: Cluster | Unread, names: Sequence[tuple[str, str]], where: str, mend: str = ""
) -> tuple[SchedulerConfig | Unread, SchedulerFile | Unread]:
    """The first configuration in ConfigMaps of namespace and name, and which of them has it.

    `where` and `mend` are the beginning and the end of the reason if none has one.
    """
    for namespace, name in names:
        found = await _ask(cluster, partial(_config_map, namespace, name))
        if isinstance(found, Unread):
            return found, found
        for text in found.data.values():
            if KIND in text:
                place = f"ConfigMap {namespace}/{name}"
                return _decoded(text, place), SchedulerFile(place, found.written)
    reason = Unread(f"{where} has no ConfigMap with a {KIND}{mend}")
    return reason, reason


async def _config_map(namespace: str, name: str, cluster: Cluster) -> ConfigMap:
    return await cluster.config_map(namespace, name)


def _hint(workload: Workload) -> str:
    flag = workload.scheduler.flag("config") if workload.scheduler else None
    read = f"; it reads {flag}, a file of its node" if flag else "; it has no --config"
    return f"{read}: name a copy by --scheduler-config"


def _read(file: Path) -> str:
    try:
        with file.expanduser().open("rb") as stream:
            content = stream.read(MAX_CONFIG_BYTES + 1)
        if len(content) > MAX_CONFIG_BYTES:
            raise UsageError(f"--scheduler-config: {file} has more than {MAX_CONFIG_BYTES} bytes")
        return content.decode()
    except (OSError, UnicodeDecodeError) as error:
        cause = getattr(error, "strerror", None) or error
        raise UsageError(f"--scheduler-config: {file} cannot be read: {cause}") from error


def _decoded(text: str, place: str) -> SchedulerConfig:
    try:
        return decode(text)
    except ConfigurationError as error:
        raise UsageError(f"{place}: {error}") from error


async def _service(cluster: Cluster | Unread, entry: Entry | Unread) -> NamedService | Unread:
    if isinstance(entry, Unread):
        return entry
    host, _ = entry.extender.address
    return await _ask(cluster, lambda it: it.service(host))


async def _account(
    places: Places,
    cluster: Cluster | Unread,
    extender: Registration | Unread,
    workload: Workload | Unread,
    entry: Entry | Unread,
    group_apis: frozenset[str] | Unread,
    own: ExtenderConfiguration | None,
) -> Account | Unread:
    """The extender's account, and the rights that it lacks.

    It is the ServiceAccount of the extender's pod; without a pod, the user of the kubeconfig in its configuration.
    """
    if isinstance(extender, Unread):
        return extender
    if isinstance(group_apis, Unread):
        return group_apis
    binds = "bind" in (extender.verbs if isinstance(entry, Unread) else entry.extender.verbs)
    rights = list(needed(extender, group_apis, places.namespace, binds=binds))
    if not isinstance(workload, Unread):
        account = workload.namespace, workload.pod.service_account_name
        lacks = await _ask(cluster, lambda it: it.lacks(rights, account))
        name = f"ServiceAccount {'/'.join(account)}"
    elif own and own.cluster.mode == "kubeconfig" and places.config:
        file = places.config.absolute().parent / own.cluster.kubeconfig
        mine = _try(lambda: Cluster(ApiServer.from_kubeconfig(file)))
        lacks = await _ask(mine, lambda it: it.lacks(rights, None))
        name = f"the user of {file}"
    else:
        return Unread(f"{workload.reason}, so its account is not known")
    return lacks if isinstance(lacks, Unread) else Account(name, lacks)


def _first_scheduler(loads: Sequence[Workload] | Unread, places: Places) -> Workload | Unread:
    """The kube-scheduler whose configuration is read if no option names one."""
    if isinstance(loads, Unread):
        return loads
    return next((load for load in loads if load.scheduler), _nowhere(SCHEDULER, places))


def _scheduler_workload(loads: Sequence[Workload] | Unread, entry: Entry | Unread, places: Places) -> Workload | Unread:
    """The kube-scheduler that has the configuration: if it asks on loopback, the one with the extender in its pod."""
    if isinstance(loads, Unread) or isinstance(entry, Unread):
        return _first_scheduler(loads, places)
    beside = [load for load in loads if load.scheduler and load.has_extender]
    apart = [load for load in loads if load.scheduler and not load.has_extender]
    found = beside + apart if entry.is_loopback else apart
    return found[0] if found else _nowhere(SCHEDULER, places)


def _extender_workload(
    loads: Sequence[Workload] | Unread, scheduler: Workload | Unread, places: Places
) -> Workload | Unread:
    """The extender that is asked: the one in the pod of kube-scheduler, else one in a pod of its own."""
    if isinstance(loads, Unread):
        return loads
    if not isinstance(scheduler, Unread) and scheduler.has_extender:
        return scheduler
    apart = [load for load in loads if load.has_extender and not load.scheduler]
    return apart[0] if apart else _nowhere("the extender", places)


def _nowhere(what: str, places: Places) -> Unread:
    return Unread(f"nothing in the namespaces {places.namespace} and {SYSTEM} runs {what}")


def _version(workload: Workload | Unread) -> Version | Unread:
    if isinstance(workload, Unread):
        return workload
    container = workload.scheduler
    version = container.version if container else None
    return version or Unread(f"the image of {workload} has no tag such as v1.37.0")


def _try(read: Callable[[], T]) -> T | Unread:
    try:
        return read()
    except (ClusterError, RemoteError) as error:
        return Unread(str(error))


async def _ask(cluster: Cluster | Unread, question: Callable[[Cluster], Awaitable[T]]) -> T | Unread:
    if isinstance(cluster, Unread):
        return cluster
    try:
        return await question(cluster)
    except ClusterError as error:
        return Unread(str(error))
