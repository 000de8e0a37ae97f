"""Whether kube-scheduler asks where the extender listens."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Final

from extender.commands.doctor.check import Check, Problem, Severity
from extender.commands.doctor.facts import Entry
from extender.commands.doctor.objects import NamedService, Workload
from extender.commands.doctor.scheduler import SchedulerConfig
from extender.config.urls import is_loopback
from extender.rollouts.registration import Registration

PROFILES: Final = "/profiles/"
PRINT: Final = "print the entry anew by kwx scheduler-config"
RESOLVING: Final = "ClusterFirstWithHostNet"


def _registered(scheduler: SchedulerConfig) -> Iterator[Problem]:
    if not scheduler.extenders:
        yield Problem(
            "the KubeSchedulerConfiguration has no extenders, so kube-scheduler asks none",
            "merge in what kwx scheduler-config prints, and restart kube-scheduler",
        )


def _duplicate(scheduler: SchedulerConfig) -> Iterator[Problem]:
    judging = [each for each in scheduler.extenders if each.verbs.keys() != {"bind"}]
    for url, count in Counter(each.url_prefix.rstrip("/") for each in judging).items():
        if count > 1:
            yield Problem(
                f"{count} entries of extenders have urlPrefix {url}: each pod is judged as often, and scores count"
                " as often",
                "leave all but one of them out",
            )


def _scheme(entry: Entry) -> Iterator[Problem]:
    if (
        entry.extender.url.scheme not in {"http", "https"}
        or None in entry.extender.address
        or not entry.extender.url.hostname
    ):
        yield Problem(
            f"{entry.key('urlPrefix')} is {entry.extender.url_prefix!r}, which is no URL of http or https with a host",
            f"write a URL such as http://127.0.0.1:8888, or {PRINT}",
        )


def _port(entry: Entry, extender: Registration) -> Iterator[Problem]:
    host, port = entry.extender.address
    is_direct = entry.is_loopback or host == extender.host
    if is_direct and extender.port and port != extender.port:
        yield Problem(
            f"{entry.key('urlPrefix')} is {entry.extender.url_prefix}, and the extender listens on port"
            f" {extender.port} (server.address)",
            PRINT,
        )


def _reach(entry: Entry, extender: Registration) -> Iterator[Problem]:
    host, _ = entry.extender.address
    if host and not entry.is_loopback and is_loopback(extender.host):
        yield Problem(
            f"{entry.key('urlPrefix')} is {entry.extender.url_prefix}, and the extender listens on {extender.host}"
            " alone (server.address), which nobody reaches from elsewhere",
            "set server.address to 0.0.0.0 and the port, and say by a NetworkPolicy who may come in",
        )


def _path(entry: Entry, extender: Registration) -> Iterator[Problem]:
    path = entry.extender.url.path.rstrip("/") if entry.extender.url.hostname else ""
    known = [profile.name for profile in extender.profiles]
    if path.startswith(PROFILES) and path.removeprefix(PROFILES) not in known:
        yield Problem(
            f"{entry.key('urlPrefix')} names profile {path.removeprefix(PROFILES)!r}, and the extender has"
            f" {', '.join(known)}",
            "name one of these, or leave out the path: then the pod's schedulerName chooses the profile",
        )
    elif path and not path.startswith(PROFILES):
        yield Problem(
            f"{entry.key('urlPrefix')} has the path {path}, which the extender answers with status 404",
            "leave out the path, or write /profiles/ and the name of a profile",
        )


def _verbs(entry: Entry) -> Iterator[Problem]:
    for verb, path in entry.extender.verbs.items():
        if path.strip("/") != verb:
            yield Problem(
                f"{entry.key(f'{verb}Verb')} is {path!r}, which the extender answers with status 404",
                f"write {verb}Verb: {verb}",
            )


def _service(entry: Entry, service: NamedService) -> Iterator[Problem]:
    if service.name and not service.found:
        yield Problem(
            f"{entry.key('urlPrefix')} names the Service {service.name}, which does not exist",
            "apply manifests/overlays/service, or correct the name",
        )


def _service_port(entry: Entry, service: NamedService) -> Iterator[Problem]:
    _, port = entry.extender.address
    ports = [each.port for each in service.found.spec.ports] if service.found else []
    if service.found and port not in ports:
        yield Problem(
            f"{entry.key('urlPrefix')} has port {port}, and the Service {service.name} has"
            f" {', '.join(map(str, ports))}",
            "write a port of the Service",
        )


def _resolved(entry: Entry, scheduler_workload: Workload) -> Iterator[Problem]:
    pod, host = scheduler_workload.pod, entry.extender.url.hostname or ""
    is_name = ".svc" in host
    if pod.host_network and pod.dns_policy != RESOLVING and is_name:
        yield Problem(
            f"{scheduler_workload} is in the network of its host and does not resolve {host}, the name of a Service",
            f"write the Service's clusterIP in {entry.key('urlPrefix')}, or give kube-scheduler dnsPolicy: {RESOLVING}",
        )


def _beside(entry: Entry, scheduler_workload: Workload, extender_workload: Workload) -> Iterator[Problem]:
    share = scheduler_workload == extender_workload
    if entry.is_loopback and not share and not extender_workload.pod.host_network:
        yield Problem(
            f"{entry.key('urlPrefix')} is {entry.extender.url_prefix}, and the extender is in another pod"
            f" ({extender_workload})",
            "write the address of the extender's Service",
        )


CHECKS: Final = (
    Check("extender-registered", Severity.ERROR, "kube-scheduler has no extenders.", _registered),
    Check("extender-duplicate", Severity.ERROR, "Several entries of `extenders` have one `urlPrefix`.", _duplicate),
    Check("url-malformed", Severity.ERROR, "`urlPrefix` is no URL.", _scheme),
    Check("url-port", Severity.ERROR, "`urlPrefix` has another port than `server.address`.", _port),
    Check("url-loopback", Severity.ERROR, "The extender listens on loopback alone, and is asked elsewhere.", _reach),
    Check("url-path", Severity.ERROR, "`urlPrefix` has a path that the extender does not serve.", _path),
    Check("url-verb", Severity.ERROR, "A verb has a name that the extender does not serve.", _verbs),
    Check("service-missing", Severity.ERROR, "The Service of `urlPrefix` does not exist.", _service),
    Check("service-port", Severity.ERROR, "The Service does not have the port of `urlPrefix`.", _service_port),
    Check("service-dns", Severity.ERROR, "kube-scheduler cannot resolve the name of the Service.", _resolved),
    Check("url-other-pod", Severity.ERROR, "kube-scheduler asks on loopback, and the extender is elsewhere.", _beside),
)
