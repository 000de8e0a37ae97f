"""Each check finds its fault, and nothing else in that setup."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest

from bench.controlplane import SCHEDULERS
from extender.admin import health
from extender.commands.doctor.check import Check, Finding, Problem, Severity, examine
from extender.commands.doctor.checks import CHECKS
from extender.commands.doctor.checks.addresses import RESOLVING
from extender.commands.doctor.checks.schedulers import NEWEST, OLDEST
from extender.commands.doctor.checks.tls import is_for
from extender.commands.doctor.facts import SOURCES, Account, Activity, Facts, Readiness, SchedulerFile
from extender.commands.doctor.objects import (
    Event,
    Metadata,
    NamedService,
    Pod,
    PodSpec,
    Service,
    ServicePort,
    ServiceSpec,
    Version,
)
from extender.commands.doctor.rights import Right
from extender.config import TlsConfig
from extender.http.certificates import ServerCertificates
from tests.certificates import DAY, SERVER, Authority

from .setup import APART, ENTRY, MORNING, NOON, POD, PROFILE, facts, unread, workload

EXPIRED: Final = "the certificate has expired on 2026-01-30T08:00:00Z"

LISTENS = {"host": "0.0.0.0", "hasTls": True, "asksForCertificates": True}
CERTIFIED = {"caFile": "/etc/kwx/ca.crt", "certFile": "/etc/kwx/tls.crt", "keyFile": "/etc/kwx/tls.key"}
SECURE = {"urlPrefix": "https://kwx-extender.kwx-system.svc:8888", "enableHTTPS": True, "tlsConfig": CERTIFIED}
HTTPS = {"hasTls": True}
SERVICE = Service(spec=ServiceSpec((ServicePort(80),)))
OTHER = {"urlPrefix": "http://127.0.0.1:9999", "filterVerb": "filter"}
DEVICES = [{"name": "example.com/device", "ignoredByScheduler": True}]
BATCHING: Any = [{**POD["containers"][0], "args": ["--feature-gates=A=false,OpportunisticBatching=true"]}]
WAITING = Pod(Metadata("web-0", "default"), PodSpec(scheduler_name="kwx-scheduler"))
IN_TREE = {
    "TaintToleration": 30,
    "NodeAffinity": 20,
    "NodeResourcesFit": 10,
    "PodTopologySpread": 20,
    "InterPodAffinity": 20,
    "NodeResourcesBalancedAllocation": 10,
    "ImageLocality": 10,
}
RAISED = {"multiPoint": {"enabled": [{"name": name, "weight": weight} for name, weight in IN_TREE.items()]}}
SOME = {
    "multiPoint": {"disabled": [{"name": "*"}]},
    "score": {"enabled": [{"name": "NodeResourcesFit"}, {"name": "NodeAffinity", "weight": 20}]},
}


TLS = {"urlPrefix": "https://127.0.0.1:8888", "enableHTTPS": True, "tlsConfig": {"caFile": "/etc/kwx/ca.crt"}}


NAMED = TLS | {"tlsConfig": {"caFile": "/etc/kwx/ca.crt", "serverName": "kwx.example"}}


class Case(NamedTuple):
    """A setup with one fault."""

    check: str
    facts: Facts
    severity: Severity
    problem: Problem
    also: Sequence[str] = ()
    """Checks that have something to say about the same fault."""


def right(verb: str, resource: str, group: str = "", **more: str) -> Account:
    """An account that lacks a right."""
    return Account("ServiceAccount kwx-system/kwx-extender", [Right(verb, resource, group, **more)])


CASES = [
    Case(
        "scheduler-api-version",
        facts(scheduler={"apiVersion": "kubescheduler.config.k8s.io/v1beta3"}),
        Severity.ERROR,
        Problem(
            "the KubeSchedulerConfiguration has apiVersion 'kubescheduler.config.k8s.io/v1beta3', which no"
            " supported kube-scheduler reads",
            "write apiVersion: kubescheduler.config.k8s.io/v1",
        ),
    ),
    Case(
        "scheduler-unknown-key",
        facts(entry={"filterverb": "filter"}),
        Severity.ERROR,
        Problem(
            "extenders[0].filterverb is no key of an extender; kube-scheduler does not start with it",
            "correct the key, upper and lower case included, or leave it out",
        ),
    ),
    Case(
        "scheduler-unsupported",
        facts(scheduler_version=Version(1, 33), api_version=Version(1, 34)),
        Severity.WARNING,
        Problem(
            "kube-scheduler is 1.33; the extender is tested with 1.34 to 1.37",
            "run a supported kube-scheduler, or another release of the extender",
        ),
    ),
    Case(
        "scheduler-newer",
        facts(scheduler_version=Version(1, 37)),
        Severity.ERROR,
        Problem(
            "kube-scheduler is 1.37, and the API server is 1.36: kube-scheduler waits for kinds of objects that"
            " an older API server does not have",
            "run kube-scheduler 1.36",
        ),
    ),
    Case(
        "scheduler-older",
        facts(scheduler_version=Version(1, 34)),
        Severity.WARNING,
        Problem(
            "kube-scheduler is 1.34, and the API server is 1.36; Kubernetes supports a kube-scheduler that is one"
            " minor older",
            "run kube-scheduler 1.36",
        ),
    ),
    Case(
        "scheduler-restart",
        facts(scheduler_file=SchedulerFile("ConfigMap kwx-system/scheduler-config", NOON)),
        Severity.WARNING,
        Problem(
            "ConfigMap kwx-system/scheduler-config was written after Deployment kwx-system/kwx-scheduler had"
            " started, and kube-scheduler reads its configuration at the start alone",
            "restart Deployment kwx-system/kwx-scheduler",
        ),
    ),
    Case(
        "extender-registered",
        facts(scheduler={"extenders": []}),
        Severity.ERROR,
        Problem(
            "the KubeSchedulerConfiguration has no extenders, so kube-scheduler asks none",
            "merge in what kwx scheduler-config prints, and restart kube-scheduler",
        ),
    ),
    Case(
        "url-malformed",
        facts(entry={"urlPrefix": "127.0.0.1:8888"}),
        Severity.ERROR,
        Problem(
            "extenders[0].urlPrefix is '127.0.0.1:8888', which is no URL of http or https with a host",
            "write a URL such as http://127.0.0.1:8888, or print the entry anew by kwx scheduler-config",
        ),
    ),
    Case(
        "extender-duplicate",
        facts(
            scheduler={"extenders": [{**ENTRY, "bindVerb": ""}, {**ENTRY, "urlPrefix": "http://127.0.0.1:8888/"}]},
            profile={"verbs": ["filter", "prioritize", "preempt"]},
        ),
        Severity.ERROR,
        Problem(
            "2 entries of extenders have urlPrefix http://127.0.0.1:8888: each pod is judged as often, and scores"
            " count as often",
            "leave all but one of them out",
        ),
    ),
    Case(
        "url-port",
        facts(entry={"urlPrefix": "http://127.0.0.1:8080"}),
        Severity.ERROR,
        Problem(
            "extenders[0].urlPrefix is http://127.0.0.1:8080, and the extender listens on port 8888 (server.address)",
            "print the entry anew by kwx scheduler-config",
        ),
    ),
    Case(
        "url-loopback",
        facts(entry={"urlPrefix": "http://10.0.0.7:8888"}),
        Severity.ERROR,
        Problem(
            "extenders[0].urlPrefix is http://10.0.0.7:8888, and the extender listens on 127.0.0.1 alone"
            " (server.address), which nobody reaches from elsewhere",
            "set server.address to 0.0.0.0 and the port, and say by a NetworkPolicy who may come in",
        ),
    ),
    Case(
        "url-path",
        facts(entry={"urlPrefix": "http://127.0.0.1:8888/scheduler"}),
        Severity.ERROR,
        Problem(
            "extenders[0].urlPrefix has the path /scheduler, which the extender answers with status 404",
            "leave out the path, or write /profiles/ and the name of a profile",
        ),
    ),
    Case(
        "url-path",
        facts(entry={"urlPrefix": "http://127.0.0.1:8888/profiles/gpu"}),
        Severity.ERROR,
        Problem(
            "extenders[0].urlPrefix names profile 'gpu', and the extender has kwx-scheduler",
            "name one of these, or leave out the path: then the pod's schedulerName chooses the profile",
        ),
    ),
    Case(
        "url-verb",
        facts(entry={"filterVerb": "predicates"}),
        Severity.ERROR,
        Problem(
            "extenders[0].filterVerb is 'predicates', which the extender answers with status 404",
            "write filterVerb: filter",
        ),
    ),
    Case(
        "service-missing",
        facts(entry=SECURE, extender=LISTENS, service=NamedService("kwx-system/kwx-extender", None)),
        Severity.ERROR,
        Problem(
            "extenders[0].urlPrefix names the Service kwx-system/kwx-extender, which does not exist",
            "apply manifests/overlays/service, or correct the name",
        ),
    ),
    Case(
        "service-port",
        facts(entry=SECURE, extender=LISTENS, service=NamedService("kwx-system/kwx-extender", SERVICE)),
        Severity.ERROR,
        Problem(
            "extenders[0].urlPrefix has port 8888, and the Service kwx-system/kwx-extender has 80",
            "write a port of the Service",
        ),
    ),
    Case(
        "service-dns",
        facts(
            entry=SECURE,
            extender=LISTENS,
            scheduler_workload=workload("kube-scheduler-cp-1", kind="Pod", hostNetwork=True),
        ),
        Severity.ERROR,
        Problem(
            "Pod kwx-system/kube-scheduler-cp-1 is in the network of its host and does not resolve"
            " kwx-extender.kwx-system.svc, the name of a Service",
            "write the Service's clusterIP in extenders[0].urlPrefix, or give kube-scheduler dnsPolicy:"
            " ClusterFirstWithHostNet",
        ),
    ),
    Case(
        "url-other-pod",
        facts(scheduler_workload=workload("kube-scheduler-cp-1", kind="Pod")),
        Severity.ERROR,
        Problem(
            "extenders[0].urlPrefix is http://127.0.0.1:8888, and the extender is in another pod (Deployment"
            " kwx-system/kwx-scheduler)",
            "write the address of the extender's Service",
        ),
    ),
    Case(
        "tls-no-ca",
        facts(entry={"urlPrefix": "https://127.0.0.1:8888"}, extender=HTTPS),
        Severity.ERROR,
        Problem(
            "extenders[0].urlPrefix is https and extenders[0].tlsConfig has no caFile: kube-scheduler accepts"
            " only what the system's authorities have signed",
            "set extenders[0].tlsConfig.caFile to the authority of the extender's certificate",
        ),
    ),
    Case(
        "tls-no-ca",
        facts(entry={"urlPrefix": "https://127.0.0.1:8888", "enableHTTPS": True, "tlsConfig": {}}, extender=HTTPS),
        Severity.ERROR,
        Problem(
            "extenders[0].urlPrefix is https and extenders[0].tlsConfig has no caFile: kube-scheduler accepts any"
            " certificate",
            "set extenders[0].tlsConfig.caFile to the authority of the extender's certificate",
        ),
    ),
    Case(
        "tls-insecure",
        facts(entry={"urlPrefix": "https://127.0.0.1:8888", "tlsConfig": {"insecure": True}}, extender=HTTPS),
        Severity.WARNING,
        Problem(
            "extenders[0].tlsConfig.insecure is true: kube-scheduler accepts any certificate",
            "set tlsConfig.caFile to the authority of the extender's certificate, and leave out insecure",
        ),
    ),
    Case(
        "tls-scheme",
        facts(entry=TLS),
        Severity.ERROR,
        Problem(
            "extenders[0].urlPrefix is https, and the extender speaks plain http: each request fails",
            "set server.tls, or write http in urlPrefix where both are on one machine",
        ),
    ),
    Case(
        "tls-scheme",
        facts(extender=HTTPS),
        Severity.ERROR,
        Problem(
            "extenders[0].urlPrefix is http, and the extender speaks TLS alone (server.tls): each request fails",
            "print the entry anew by kwx scheduler-config",
        ),
    ),
    Case(
        "tls-no-certificate",
        facts(entry=TLS, extender=HTTPS | {"asksForCertificates": True}),
        Severity.ERROR,
        Problem(
            "the extender asks for client certificates (server.tls.clientCAFile), and extenders[0].tlsConfig has no"
            " certFile: each request fails",
            "set certFile and keyFile to a certificate that this CA has signed",
        ),
    ),
    Case(
        "tls-open",
        facts(entry=SECURE, extender=HTTPS | {"host": "0.0.0.0"}),
        Severity.WARNING,
        Problem(
            "the extender listens on 0.0.0.0 without a clientCAFile: whoever reaches the port decides for every pod",
            "set server.tls.clientCAFile, and give kube-scheduler a client certificate",
        ),
    ),
    Case(
        "tls-open",
        facts(entry={"urlPrefix": "http://10.0.0.7:8888"}, extender={"host": "10.0.0.7"}),
        Severity.WARNING,
        Problem(
            "the extender listens on 10.0.0.7 without TLS (server.allowUnencrypted): whoever reaches the port decides"
            " for every pod",
            "set server.tls.clientCAFile, and give kube-scheduler a client certificate",
        ),
    ),
    Case(
        "bind-refused",
        facts(extender={"mayBind": False}),
        Severity.ERROR,
        Problem(
            "extenders[0] has a bindVerb, and the extender listens on 127.0.0.1 without client certificates: every bind"
            " is refused",
            "set server.tls.clientCAFile, or leave out bindVerb",
        ),
    ),
    Case(
        "tls-expired",
        facts(readiness=Readiness([], [f"tls ok, but {EXPIRED}"])),
        Severity.ERROR,
        Problem(
            f"kube-scheduler refuses the extender's certificate: tls ok, but {EXPIRED}",
            "renew what server.tls.certFile names; the extender reads it again by itself",
        ),
    ),
    Case(
        "tls-host",
        facts(entry=TLS, extender=HTTPS, certificate_hosts=["DNS:kwx-extender.kwx-system.svc", "IP:10.0.0.7"]),
        Severity.ERROR,
        Problem(
            "extenders[0].urlPrefix names 127.0.0.1, and the extender's certificate is for"
            " DNS:kwx-extender.kwx-system.svc, IP:10.0.0.7: kube-scheduler refuses it, and each request fails",
            "have the certificate that server.tls.certFile names issued for 127.0.0.1 as well, or set"
            " extenders[0].tlsConfig.serverName to a host that it is for",
        ),
    ),
    Case(
        "tls-host",
        facts(entry=NAMED, extender=HTTPS, certificate_hosts=[]),
        Severity.ERROR,
        Problem(
            "extenders[0].tlsConfig.serverName names kwx.example, and the extender's certificate is for no host"
            " (subjectAltName): kube-scheduler refuses it, and each request fails",
            "have the certificate that server.tls.certFile names issued for kwx.example as well, or set"
            " extenders[0].tlsConfig.serverName to a host that it is for",
        ),
    ),
    Case(
        "tls-http-url",
        facts(entry={"enableHTTPS": True, "tlsConfig": {"caFile": "/etc/kwx/ca.crt"}}),
        Severity.ERROR,
        Problem(
            "extenders[0] has enableHTTPS and tlsConfig, and urlPrefix is http://127.0.0.1:8888: kube-scheduler"
            " goes by the URL, and nothing is encrypted",
            "write https in urlPrefix",
        ),
    ),
    Case(
        "verb-missing",
        facts(entry={"preemptVerb": None}),
        Severity.ERROR,
        Problem(
            "extenders[0] has no preemptVerb, and plugins of profile kwx-scheduler have a say in preempt",
            "add preemptVerb: preempt",
        ),
    ),
    Case(
        "verb-needless",
        facts(profile={"verbs": ["filter", "prioritize", "preempt"]}),
        Severity.INFO,
        Problem(
            "extenders[0].bindVerb is set, and no plugin has a say in bind: each call is in vain",
            "leave out bindVerb, unless a swap may bring a plugin that needs it",
        ),
    ),
    Case(
        "bind-ignorable",
        facts(entry={"ignorable": True}),
        Severity.ERROR,
        Problem(
            "extenders[0] has ignorable: true and a bindVerb: kube-scheduler binds by itself what the extender"
            " refuses to bind",
            "set ignorable to false, or leave out bindVerb",
        ),
    ),
    Case(
        "bind-without-filter",
        facts(entry={"filterVerb": None}, profile={"verbs": ["prioritize", "preempt", "bind"]}),
        Severity.ERROR,
        Problem(
            "extenders[0] has a bindVerb and no filterVerb: the extender binds only what filter has answered, and"
            " refuses all else",
            "add filterVerb: filter",
        ),
    ),
    Case(
        "bind-twice",
        facts(scheduler={"extenders": [ENTRY, {**ENTRY, "urlPrefix": "http://127.0.0.1:9999"}]}),
        Severity.ERROR,
        Problem(
            "extenders[0] and extenders[1] have a bindVerb; kube-scheduler does not start with more than one",
            "leave bindVerb to one of them",
        ),
    ),
    Case(
        "bind-without-cluster",
        facts(extender={"clusterMode": "none"}, plugin={"wantsNodes": False}),
        Severity.ERROR,
        Problem(
            "extenders[0] has a bindVerb, and cluster.mode is none: every bind fails",
            "set cluster.mode to in-cluster or kubeconfig, or leave out bindVerb",
        ),
    ),
    Case(
        "bind-without-cluster",
        facts(extender={"clusterMode": "dry-run"}, plugin={"wantsNodes": False}),
        Severity.ERROR,
        Problem(
            "extenders[0] has a bindVerb, and cluster.mode is dry-run: pods are taken for bound and never are",
            "set cluster.mode to in-cluster or kubeconfig, or leave out bindVerb",
        ),
    ),
    Case(
        "timeout-verbs",
        facts(entry={"httpTimeout": "5s"}, plugin={"timeoutSeconds": 2.5}),
        Severity.ERROR,
        Problem(
            "kube-scheduler waits 5 s for an answer (extenders[0].httpTimeout), and the plugins of profile"
            " kwx-scheduler may take 5 s for preempt, which asks them in two halves: kube-scheduler gives up"
            " before a plugin's own timeout tells what is wrong",
            "set httpTimeout to 121s, or lower the plugins' timeouts",
        ),
        also=["timeout-bind"],
    ),
    Case(
        "timeout-bind",
        facts(entry={"httpTimeout": "4000ms"}),
        Severity.ERROR,
        Problem(
            "kube-scheduler waits 4 s for an answer (extenders[0].httpTimeout), and server.bindTimeout is 120 s:"
            " kube-scheduler gives up while pods are being bound or wait on Permit",
            "set httpTimeout to 121s, or lower server.bindTimeout",
        ),
    ),
    Case(
        "timeout-bind",
        facts(entry={"httpTimeout": "0s"}, extender={"bindTimeoutSeconds": 60}),
        Severity.ERROR,
        Problem(
            "kube-scheduler waits 5 s for an answer (extenders[0].httpTimeout), and server.bindTimeout is 60 s:"
            " kube-scheduler gives up while pods are being bound or wait on Permit",
            "set httpTimeout to 61s, or lower server.bindTimeout",
        ),
    ),
    Case(
        "timeout-long",
        facts(entry={"httpTimeout": "10m0.5s"}),
        Severity.WARNING,
        Problem(
            "kube-scheduler waits 600.5 s for an answer (extenders[0].httpTimeout), and the extender needs 121 s at"
            " most: kube-scheduler judges no other pod while it waits for an extender that hangs",
            "set httpTimeout to 121s",
        ),
    ),
    Case(
        "timeout-plugins",
        facts(entry={"httpTimeout": "5s"}, extender={"bindTimeoutSeconds": 0.25}),
        Severity.WARNING,
        Problem(
            "plugins gang of profile kwx-scheduler may take 0.5 s for bind, and server.bindTimeout is 0.25 s: a"
            " bind can end before the plugins' own timeouts",
            "raise server.bindTimeout, and httpTimeout with it, or lower the plugins' timeouts",
        ),
        also=["timeout-groups"],
    ),
    Case(
        "timeout-groups",
        facts(entry={"httpTimeout": "5s"}, extender={"bindTimeoutSeconds": 4}),
        Severity.WARNING,
        Problem(
            "plugins gang may have pods of a group wait in bind for each other, and server.bindTimeout is 4 s: the"
            " first of a large group let go before kube-scheduler comes to the last",
            "set server.bindTimeout to 2m, at least 30s, and print kube-scheduler's configuration anew by kwx"
            " scheduler-config",
        ),
    ),
    Case(
        "score-weight",
        facts(entry={"weight": None}),
        Severity.ERROR,
        Problem(
            "extenders[0] has a prioritizeVerb and no positive weight; kube-scheduler does not start with it",
            "set extenders[0].weight to 1 or more",
        ),
    ),
    Case(
        "score-range",
        facts(profile={"scoreRange": 100}),
        Severity.WARNING,
        Problem(
            "profile kwx-scheduler has scoreRange 100, and profile kwx-scheduler of kube-scheduler has not raised"
            " the weights of TaintToleration, NodeAffinity, NodeResourcesFit, PodTopologySpread,"
            " InterPodAffinity, NodeResourcesBalancedAllocation, ImageLocality tenfold: the extender's scores"
            " count ten times as much beside these as its weight says",
            "raise these weights tenfold, or set scoreRange to 10",
        ),
    ),
    Case(
        "score-range",
        facts(
            profile={"scoreRange": 100}, scheduler={"profiles": [{"schedulerName": "kwx-scheduler", "plugins": SOME}]}
        ),
        Severity.WARNING,
        Problem(
            "profile kwx-scheduler has scoreRange 100, and profile kwx-scheduler of kube-scheduler has not raised"
            " the weights of NodeResourcesFit tenfold: the extender's scores count ten times as much beside these"
            " as its weight says",
            "raise these weights tenfold, or set scoreRange to 10",
        ),
    ),
    Case(
        "score-range-low",
        facts(scheduler={"profiles": [{"schedulerName": "kwx-scheduler", "plugins": RAISED}]}),
        Severity.WARNING,
        Problem(
            "profile kwx-scheduler of kube-scheduler has raised the weights of its plugins tenfold, and profile"
            " kwx-scheduler has scoreRange 10: the extender's scores count a tenth of what its weight says",
            "set scoreRange to 100",
        ),
    ),
    Case(
        "nodes-unknown",
        facts(extender={"clusterMode": "none"}, entry={"bindVerb": None}),
        Severity.ERROR,
        Problem(
            "extenders[0].nodeCacheCapable is true and cluster.mode is none: requests name nodes whose objects"
            " the extender does not have, and plugins gang ask for them",
            "set cluster.mode to in-cluster or kubeconfig, or nodeCacheCapable to false",
        ),
    ),
    Case(
        "nodes-whole",
        facts(entry={"nodeCacheCapable": False}),
        Severity.WARNING,
        Problem(
            "extenders[0].nodeCacheCapable is not true: kube-scheduler sends whole nodes, of which the extender"
            " needs the names alone",
            "set nodeCacheCapable to true",
        ),
    ),
    Case(
        "nodes-some",
        facts(nodes=500),
        Severity.WARNING,
        Problem(
            "profile kwx-scheduler of kube-scheduler shows filter 230 of 500 nodes at a time: a pod is rejected"
            " if the nodes that plugins let pass are among the others",
            "set percentageOfNodesToScore to 100",
        ),
    ),
    Case(
        "nodes-some",
        facts(nodes=500, scheduler={"percentageOfNodesToScore": 30}, profile={"topNodes": 1}),
        Severity.WARNING,
        Problem(
            "profile kwx-scheduler of kube-scheduler shows filter 150 of 500 nodes at a time: a pod is rejected"
            " if the nodes that plugins let pass are among the others, and topNodes of profile kwx-scheduler"
            " chooses among these alone",
            "set percentageOfNodesToScore to 100",
        ),
    ),
    Case(
        "top-nodes-last",
        facts(scheduler={"extenders": [ENTRY, {**OTHER, "ignorable": True}]}, profile={"topNodes": 1}),
        Severity.ERROR,
        Problem(
            "profile kwx-scheduler has topNodes, and extenders[1] filters after extenders[0]: where it rejects"
            " the nodes that are left, the pod stays pending, though others would have passed",
            "put this extender behind all others, and make it ignorable if one of them is, or leave out topNodes",
        ),
    ),
    Case(
        "resources-ignored",
        facts(
            entry={"managedResources": DEVICES},
            scheduler={"profiles": [{"schedulerName": "kwx-scheduler"}, {"schedulerName": "batch"}]},
            extender={"profiles": [{**PROFILE, "name": "default"}]},
            scheduler_version=Version(1, 34),
            api_version=Version(1, 34),
        ),
        Severity.WARNING,
        Problem(
            "extenders[0].managedResources has ignoredByScheduler for example.com/device: kube-scheduler does not"
            " count it in any of its 2 profiles, and forgets their own ignoredResources",
            "leave out ignoredByScheduler, or run a kube-scheduler of its own with this extender",
        ),
        also=["pods-managed-resources"],
    ),
    Case(
        "resources-uncounted",
        facts(
            entry={"managedResources": DEVICES, "ignorable": True, "bindVerb": None},
            profile={"verbs": ["filter", "prioritize", "preempt"]},
        ),
        Severity.ERROR,
        Problem(
            "extenders[0].managedResources has ignoredByScheduler for example.com/device, and the extender is"
            " ignorable: where it is not asked or fails, nobody counts, and nodes get more pods than they have"
            " room for",
            "leave out ignoredByScheduler, or have the extender filter, with ignorable: false",
        ),
        also=["pods-managed-resources"],
    ),
    Case(
        "profile-unasked",
        facts(extender={"profiles": [PROFILE, {**PROFILE, "name": "gpu"}]}),
        Severity.ERROR,
        Problem(
            "the extender has a profile gpu, and kube-scheduler has none with this schedulerName: nobody asks"
            " about such pods",
            "add a profile with schedulerName: gpu to kube-scheduler, or rename the extender's to one of kwx-scheduler",
        ),
    ),
    Case(
        "profile-fallback",
        facts(
            scheduler={"profiles": [{"schedulerName": "kwx-scheduler"}, {"schedulerName": "batch"}]},
            scheduler_version=Version(1, 34),
            api_version=Version(1, 34),
        ),
        Severity.WARNING,
        Problem(
            "pods with schedulerName batch are judged by profile kwx-scheduler: it is the first, and none is"
            " named so, nor default",
            "give the extender a profile batch or default",
        ),
    ),
    Case(
        "pods-managed-resources",
        facts(entry={"managedResources": [{"name": "example.com/device"}]}),
        Severity.WARNING,
        Problem(
            "extenders[0].managedResources has kube-scheduler ask only about pods of which a container or an init"
            " container names example.com/device: pods that ask in another way (annotations, resource claims,"
            " resources of the whole pod) are judged by no plugin",
            "leave out managedResources, unless plugins are about these containers alone",
        ),
    ),
    Case(
        "pods-batching",
        facts(scheduler_workload=workload(containers=BATCHING), extender_workload=workload(containers=BATCHING)),
        Severity.INFO,
        Problem(
            "any extender switches off opportunistic batching for all profiles of a kube-scheduler: all pods lose it",
            "let another kube-scheduler, without extenders, place the pods that need no plugin",
        ),
    ),
    Case(
        "pods-batching",
        facts(
            scheduler={"profiles": [{"schedulerName": "kwx-scheduler"}, {"schedulerName": "batch"}]},
            extender={"profiles": [PROFILE, {**PROFILE, "name": "default"}]},
        ),
        Severity.INFO,
        Problem(
            "any extender switches off opportunistic batching for all profiles of a kube-scheduler: pods of batch"
            " lose it",
            "let another kube-scheduler, without extenders, place the pods that need no plugin",
        ),
    ),
    Case(
        "own-pod-extender",
        facts(extender_workload=workload("kwx-extender", pod=APART, schedulerName="kwx-scheduler", hostNetwork=True)),
        Severity.ERROR,
        Problem(
            "Deployment kwx-system/kwx-extender runs the extender and is placed by kwx-scheduler, which asks this"
            " extender and may not ignore it: once its pod is gone, none is ever scheduled",
            "give its pods the schedulerName of another scheduler, or set ignorable to true",
        ),
    ),
    Case(
        "own-pod-scheduler",
        facts(
            scheduler_workload=workload("second", schedulerName="kwx-scheduler"),
            entry=SECURE,
            extender=LISTENS,
        ),
        Severity.ERROR,
        Problem(
            "Deployment kwx-system/second runs kube-scheduler and is placed by kwx-scheduler, which is itself:"
            " once its pod is gone, none is ever scheduled",
            "give its pods the schedulerName of another scheduler",
        ),
    ),
    Case(
        "scheduler-election",
        facts(
            scheduler={"leaderElection": {"leaderElect": False}},
            extender={"replicas": "standby"},
            scheduler_workload=workload(replicas=2),
            extender_workload=workload(replicas=2),
        ),
        Severity.ERROR,
        Problem(
            "Deployment kwx-system/kwx-scheduler has 2 replicas, and leaderElection.leaderElect is false: all of"
            " them schedule the same pods",
            "set leaderElect to true, or replicas to 1",
        ),
    ),
    Case(
        "scheduler-lease",
        facts(scheduler={"leaderElection": {}}),
        Severity.ERROR,
        Problem(
            "the scheduler of kwx-scheduler has the Lease kube-system/kube-scheduler of the cluster's own"
            " scheduler: one of the two never works",
            "set leaderElection.resourceNamespace and resourceName to a Lease of its own",
        ),
    ),
    Case(
        "extender-replicas",
        facts(entry=SECURE, extender=LISTENS, extender_workload=workload("kwx-extender", 2, pod=APART)),
        Severity.ERROR,
        Problem(
            "Deployment kwx-system/kwx-extender has 2 replicas, and server.replicas is none: the calls of a pod's cycle"
            " reach different ones, and plugins may rely on earlier ones",
            "set server.replicas to shared, which refuses plugins that cannot serve so, or replicas to 1",
        ),
    ),
    Case(
        "extender-replicas",
        facts(scheduler_workload=workload(replicas=2), extender_workload=workload(replicas=2)),
        Severity.ERROR,
        Problem(
            "Deployment kwx-system/kwx-scheduler has 2 replicas, and server.replicas is none: an upload or a rollback"
            " changes one of them, and a fail-over takes it back",
            "set server.replicas to standby, or replicas to 1",
        ),
    ),
    Case(
        "extender-none",
        facts(scheduler_workload=workload(replicas=0), extender_workload=workload(replicas=0)),
        Severity.ERROR,
        Problem(
            "Deployment kwx-system/kwx-scheduler has no replicas: the extender does not run",
            "set replicas to 1",
        ),
    ),
    Case(
        "right-nodes",
        facts(account=right("list", "nodes")),
        Severity.ERROR,
        Problem(
            "ServiceAccount kwx-system/kwx-extender may not list nodes: guests have no nodes, and verbs fail",
            "apply manifests/base/role.yaml",
        ),
    ),
    Case(
        "right-pods",
        facts(account=right("get", "pods")),
        Severity.ERROR,
        Problem(
            "ServiceAccount kwx-system/kwx-extender may not get pods: plugins that know pods, and binds, fail",
            "apply manifests/base/role.yaml",
        ),
    ),
    Case(
        "right-groups",
        facts(account=right("watch", "podgroups", "scheduling.k8s.io")),
        Severity.ERROR,
        Problem(
            "ServiceAccount kwx-system/kwx-extender may not watch podgroups.scheduling.k8s.io: plugins that keep"
            " groups do not learn them",
            "apply manifests/base/role.yaml",
        ),
    ),
    Case(
        "right-events",
        facts(account=right("create", "events", "events.k8s.io")),
        Severity.WARNING,
        Problem(
            "ServiceAccount kwx-system/kwx-extender may not create events.events.k8s.io: nobody sees at the pod"
            " why a plugin failed",
            "apply manifests/base/role.yaml",
        ),
    ),
    Case(
        "right-bind",
        facts(account=right("create", "pods", subresource="binding")),
        Severity.ERROR,
        Problem(
            "ServiceAccount kwx-system/kwx-extender may not create pods/binding: every bind fails",
            "apply manifests/components/bind",
        ),
    ),
    Case(
        "right-wake",
        facts(
            account=right("patch", "csistoragecapacities", "storage.k8s.io", name="kwx-wake", namespace="kwx-system")
        ),
        Severity.WARNING,
        Problem(
            "ServiceAccount kwx-system/kwx-extender may not patch csistoragecapacities.storage.k8s.io kwx-wake in"
            " namespace kwx-system: rejected pods wait for an event or five minutes after a swap",
            "apply manifests/components/wake-pods",
        ),
    ),
    Case(
        "wake-object",
        facts(wake_object=False),
        Severity.WARNING,
        Problem(
            "plugins gang have swap.wakePods, and there is no CSIStorageCapacity kwx-wake: after a swap rejected"
            " pods wait for an event or five minutes",
            "apply manifests/components/wake-pods in the extender's namespace (kwx-system)",
        ),
    ),
    Case(
        "groups-api",
        facts(group_apis=frozenset()),
        Severity.WARNING,
        Problem(
            "plugins gang keep groups of pods, and the API server has no PodGroups, neither of scheduling.k8s.io"
            " nor of scheduling.x-k8s.io: groups are known by their pods alone",
            "install the CustomResourceDefinition of scheduler-plugins, or switch on scheduling.k8s.io"
            " (--runtime-config, and the gate GenericWorkload)",
        ),
    ),
    Case(
        "asked-never",
        facts(activity=Activity(MORNING, {}), scheduled=[Event(NOON, "kwx-scheduler")]),
        Severity.ERROR,
        Problem(
            "since the extender started (2026-01-31 08:00:00 UTC) kube-scheduler has scheduled pods, and has not"
            " asked filter: nothing that plugins say counts",
            "check that kube-scheduler was restarted with this configuration and reaches urlPrefix"
            " (NetworkPolicy, DNS, TLS); kubectl logs of kube-scheduler tells",
        ),
    ),
    Case(
        "asked-not-yet",
        facts(activity=Activity(MORNING, {}), unscheduled=[WAITING]),
        Severity.WARNING,
        Problem(
            "pods of kwx-scheduler have no node (1 of them, such as default/web-0), and the extender has not been"
            " asked about any pod: kube-scheduler does not reach it, does not run, or its own plugins leave no"
            " node",
            "check that kube-scheduler was restarted with this configuration and reaches urlPrefix"
            " (NetworkPolicy, DNS, TLS); kubectl logs of kube-scheduler tells; kubectl describe pod tells what"
            " the in-tree plugins say",
        ),
    ),
    Case(
        "ready-not",
        facts(readiness=Readiness(["nodes failed: the nodes of the cluster are not known yet: forbidden"], [])),
        Severity.ERROR,
        Problem(
            "the extender is not ready: nodes failed: the nodes of the cluster are not known yet: forbidden",
            "see docs/troubleshooting.md for the message",
        ),
    ),
    Case(
        "ready-warning",
        facts(readiness=Readiness([], ["plugins ok, but plugin gang serves on"])),
        Severity.WARNING,
        Problem(
            "the extender warns: plugins ok, but plugin gang serves on",
            "see docs/troubleshooting.md for the message",
        ),
    ),
]


SPLIT: Final = [
    {**ENTRY, "bindVerb": "", "httpTimeout": "5s"},
    {"urlPrefix": ENTRY["urlPrefix"], "bindVerb": "bind", "httpTimeout": "61s"},
]
"""bind has an entry of its own."""


def split(judging: Mapping[str, Any] | None = None, binding: Mapping[str, Any] | None = None) -> Facts:
    """A setup whose bind takes long, with other keys in the entries."""
    entries = [{**SPLIT[0], **(judging or {})}, {**SPLIT[1], **(binding or {})}]
    return facts(scheduler={"extenders": entries}, extender={"bindTimeoutSeconds": 60})


@pytest.mark.parametrize(("begins", "ends"), [(-2 * DAY, -DAY), (DAY, 2 * DAY)])
def test_a_certificate_that_is_not_valid_now_is_an_error_as_the_extender_tells_it(
    tmp_path: Path, begins: timedelta, ends: timedelta
) -> None:
    issued = Authority(tmp_path).issue("server", "server", usage=SERVER, begins=begins, ends=ends)
    config = TlsConfig(certFile=issued.cert, keyFile=issued.key)
    served = ServerCertificates("server.tls", config, tmp_path)
    told = [health.Check(name, warning=served.warning).report()[1].removeprefix("[+]") for name in ("tls", "adminTLS")]
    found = examine(facts(readiness=Readiness([], told)), CHECKS).findings
    assert [(each.check, told.index(each.cause.partition(": ")[2])) for each in found] == [
        ("tls-expired", 0),
        ("ready-warning", 1),
    ]


@pytest.mark.parametrize(
    ("host", "certificate_hosts", "is_its"),
    [
        ("kwx.example", ["DNS:other.example", "DNS:KWX.example"], True),
        ("Kwx.Example.", ["DNS:kwx.example"], True),
        ("kwx.example", ["DNS:*.example"], True),
        ("localhost", ["DNS:localhost"], True),
        ("kwx.kwx-system.svc", ["DNS:*.svc", "DNS:*.kwx-system", "DNS:kwx"], False),
        ("example", ["DNS:*.example"], False),
        ("kwx.example", ["IP:10.0.0.7"], False),
        ("10.0.0.7", ["DNS:10.0.0.7"], False),
        ("10.0.0.7", ["IP:10.0.0.7"], True),
        ("::ffff:10.0.0.7", ["IP:10.0.0.7"], True),
        ("fd00:0::7", ["IP:fd00::7"], True),
    ],
)
def test_a_certificate_is_for_a_host_as_go_sees_it(host: str, certificate_hosts: list[str], is_its: bool) -> None:
    assert is_for(host, certificate_hosts) is is_its


@pytest.mark.parametrize(
    ("tls", "told"), [({"tlsConfig": {"insecure": True}}, "tls-insecure"), ({"enableHTTPS": True}, "tls-no-ca")]
)
def test_where_any_certificate_is_accepted_its_hosts_do_not_matter(tls: Mapping[str, Any], told: str) -> None:
    setup = facts(entry={"urlPrefix": TLS["urlPrefix"], **tls}, extender=HTTPS, certificate_hosts=[])
    assert [each.check for each in examine(setup, CHECKS).findings] == [told]


def test_a_healthy_setup_has_no_finding() -> None:
    for healthy in (facts(), split()):
        assert examine(healthy, CHECKS) == (len(CHECKS), [], [])


@pytest.mark.parametrize(
    ("setup", "check", "problem"),
    [
        (
            split(binding={"ignorable": True}),
            "bind-ignorable",
            "extenders[1] has ignorable: true and a bindVerb: kube-scheduler binds by itself what the extender"
            " refuses to bind",
        ),
        (
            split(binding={"bindVerb": "binds"}),
            "url-verb",
            "extenders[1].bindVerb is 'binds', which the extender answers with status 404",
        ),
        (
            split(judging={"managedResources": [{"name": "example.com/gpu"}]}),
            "bind-without-filter",
            "extenders[0] has managedResources, and extenders[1] binds pods that use none of them as well: the"
            " extender binds only what filter has answered, and refuses all else",
        ),
        (
            split(binding={"httpTimeout": "60s"}),
            "timeout-bind",
            "kube-scheduler waits 60 s for an answer (extenders[1].httpTimeout), and server.bindTimeout is 60 s:"
            " kube-scheduler gives up while pods are being bound or wait on Permit",
        ),
        (
            split(judging={"httpTimeout": "61s"}),
            "timeout-long",
            "kube-scheduler waits 61 s for an answer (extenders[0].httpTimeout), and the extender needs 5 s at"
            " most: kube-scheduler judges no other pod while it waits for an extender that hangs",
        ),
    ],
)
def test_an_entry_for_bind_alone_is_looked_at_beside_the_other(setup: Facts, check: str, problem: str) -> None:
    found = {each.check: each.cause for each in examine(setup, CHECKS).findings}
    assert found[check] == problem


SERVED = NamedService("kwx-system/kwx-extender", Service(spec=ServiceSpec((ServicePort(8888),))))
SCORING = {"bindingPoints": [], "wantsPods": False, "wantsGroups": False}
TWO = {"profiles": [{"schedulerName": "kwx-scheduler"}, {"schedulerName": "batch"}]}


@pytest.mark.parametrize(
    "healthy",
    [
        facts(
            entry={**SECURE, "bindVerb": None, "ignorable": True},
            extender=LISTENS,
            profile={"verbs": ["filter", "prioritize", "preempt"]},
            plugin=SCORING,
            service=SERVED,
            scheduler_workload=workload("kube-scheduler", kind="Pod", hostNetwork=True, dnsPolicy=RESOLVING),
            extender_workload=workload("kwx-extender", pod=APART, schedulerName="kwx-scheduler"),
        ),
        facts(entry={"urlPrefix": "http://localhost:8080"}, extender={"port": 0}),
        facts(entry={"urlPrefix": "http://127.0.0.1:8888/profiles/kwx-scheduler/"}),
        facts(entry=TLS, extender=HTTPS),
        facts(entry=NAMED, extender=HTTPS, certificate_hosts=["DNS:*.example"]),
        facts(
            profile={"scoreRange": 100}, scheduler={"profiles": [{"schedulerName": "kwx-scheduler", "plugins": RAISED}]}
        ),
        facts(profile={"topNodes": 1}, scheduler={"percentageOfNodesToScore": 100}, nodes=5000),
        facts(profile={"topNodes": 1}, scheduler={"extenders": [OTHER, ENTRY]}),
        facts(scheduler=TWO, extender={"profiles": [{**PROFILE, "name": "default"}]}, scheduler_version=Version(1, 35)),
        facts(
            extender={"replicas": "standby"},
            scheduler_workload=workload(replicas=2),
            extender_workload=workload(replicas=2),
        ),
        facts(scheduler={"leaderElection": {"leaderElect": False}}),
        facts(
            wake_object=False,
            group_apis=frozenset(),
            plugin=SCORING | {"bindingPoints": ["permit"], "wakesPods": False},
        ),
        facts(extender={"clusterMode": "none"}, entry={"bindVerb": None, "nodeCacheCapable": False}),
        facts(activity=Activity(NOON, {}), scheduled=[Event(MORNING, "kwx-scheduler"), Event(NOON, "batch")]),
        facts(activity=Activity(MORNING, {"filter": 1}), unscheduled=[WAITING]),
        facts(activity=Activity(MORNING, {}), unscheduled=[Pod(Metadata("web-1"), PodSpec(scheduler_name="batch"))]),
    ],
)
def test_other_healthy_setups_have_no_error_and_no_warning(healthy: Facts) -> None:
    assert [each for each in examine(healthy, CHECKS).findings if each.severity is not Severity.INFO] == []


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.check)
def test_a_fault_is_found_with_its_cause_and_its_mend(case: Case) -> None:
    found = [each for each in examine(case.facts, CHECKS).findings if each.check not in case.also]
    assert found == [Finding(case.check, case.severity, *case.problem)]


def test_every_check_has_a_case() -> None:
    assert sorted({case.check for case in CASES}) == sorted(check.id for check in CHECKS)


def test_what_could_not_be_read_leaves_out_what_depends_on_it() -> None:
    examination = examine(unread(), CHECKS)
    assert examination.findings == []
    assert [each.check for each in examination.left_out] == [check.id for check in CHECKS]
    assert examination.left_out[0].unread == {"the KubeSchedulerConfiguration": "no scheduler"}


def test_a_check_is_left_out_for_want_of_one_thing() -> None:
    lacking = facts(nodes=unread().nodes)
    assert examine(lacking, CHECKS) == (len(CHECKS), [], [("nodes-some", {"nodes": "no nodes"})])


def test_the_worst_is_told_first() -> None:
    several = facts(entry={"nodeCacheCapable": False}, profile={"verbs": ["filter", "prioritize"]}, nodes=500)
    bad = facts(entry={"nodeCacheCapable": False, "weight": None}, profile={"verbs": ["filter", "prioritize"]})
    assert [each.severity for each in examine(several, CHECKS).findings] == ["warning", "warning", "info", "info"]
    assert [each.severity for each in examine(bad, CHECKS).findings] == ["error", "warning", "info", "info"]


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.id)
def test_checks_take_facts_and_are_described(check: Check) -> None:
    assert set(check.reads) <= SOURCES.keys()
    assert check.about.endswith(".")
    assert inspect.isfunction(check.find)


def test_ids_are_unique_and_every_fact_is_of_use() -> None:
    assert len({check.id for check in CHECKS}) == len(CHECKS)
    assert {name for check in CHECKS for name in check.reads} == SOURCES.keys()


def test_the_supported_schedulers_are_those_that_are_tested() -> None:
    minors = [Version(*map(int, release.removeprefix("v").split(".")[:2])) for release in SCHEDULERS]
    assert (min(minors), max(minors)) == (OLDEST, NEWEST)
