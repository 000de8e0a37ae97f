"""The KubeSchedulerConfiguration that registers the extender in a stock kube-scheduler."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Any, Final

from extender.config import Address, ExtenderConfiguration
from extender.config.urls import is_loopback
from extender.rollouts.registration import Registration
from extender.scheduling.top_nodes import notices
from extender.scheduling.verbs import VERBS

ANY_HOST: Final = frozenset({"0.0.0.0", "::"})

CERTIFICATES: Final = "/etc/kubernetes/kwx"
"""Where kube-scheduler is to find certificates, by default."""


class RegistrationError(Exception):
    """kube-scheduler must not be given such an extender. `str()` names cause and mend."""


@dataclass(frozen=True, slots=True)
class Choices:
    """The choices of the operator, as options of `kwx scheduler-config`."""

    url: str | None = None
    """The URL at which kube-scheduler finds the verbs; by default that of server.address."""
    weight: int = 1
    node_cache_capable: bool | None = None
    """Whether requests carry names only; by default where that is enough for the plugins."""
    kubeconfig: str | None = None
    """The kubeconfig of kube-scheduler, if it does not run in a pod."""
    leader_election: bool = True
    ignorable: bool = False
    """Whether kube-scheduler goes on without the extender when it fails."""
    ca_file: str | None = None
    """The CA of the extender. Paths of this and of `cert_file` and `key_file` are those of kube-scheduler's pod."""
    cert_file: str | None = None
    key_file: str | None = None
    server_name: str | None = None
    """The name in the extender's certificate, where the URL has another one."""

    @property
    def concern_tls(self) -> bool:
        """Whether any choice is about TLS."""
        return any((self.ca_file, self.cert_file, self.key_file, self.server_name))


def build(registration: Registration, choices: Choices) -> dict[str, Any]:
    """The configuration as a mapping.

    Source of its fields: `k8s.io/kube-scheduler/config/v1`, type `KubeSchedulerConfiguration`. Raises RegistrationError
    where it would have a bindVerb and be ignorable (`extendersBinding` in `pkg/scheduler/schedule_one.go`), or have one
    that the extender refuses.
    """
    connection = {"clientConnection": {"kubeconfig": choices.kubeconfig}} if choices.kubeconfig else {}
    return {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        **connection,
        "leaderElection": {"leaderElect": choices.leader_election},
        "profiles": list(_profiles(registration)),
        "extenders": list(_extenders(registration, choices)),
    }


def notes(configuration: ExtenderConfiguration) -> Iterator[str]:
    """Notes for the operator who registers the extender."""
    yield from notices(configuration.profiles)
    server = configuration.server
    if server.tls and not server.tls.client_ca_file and not is_loopback(server.address.host):
        yield (
            "server.tls has no clientCAFile: whoever reaches the port decides for every pod; set it, and give"
            " kube-scheduler a client certificate"
        )
    if any(profile.top_nodes for profile in configuration.profiles):
        yield (
            "with topNodes this extender has to be the last of the extenders, behind ignorable ones as well: another"
            " that rejects the nodes that are left keeps the pod pending, though it would have kept others"
        )


def _profiles(registration: Registration) -> Iterator[dict[str, Any]]:
    """A profile for each scheduler name. Who decides about a group has to see all nodes that are left for it."""
    of_groups = {
        profile.scheduler_name
        for profile in registration.profiles
        if any(plugin.wants_groups for plugin in profile.plugins)
    }
    for name in dict.fromkeys(profile.scheduler_name for profile in registration.profiles):
        yield {"schedulerName": name, **({"percentageOfNodesToScore": 100} if name in of_groups else {})}


def _extenders(registration: Registration, choices: Choices) -> Iterator[dict[str, Any]]:
    """The entry, and one for bind alone where that may take long: kube-scheduler has one timeout for an entry."""
    wanted = registration.verbs
    if "bind" in wanted:
        _check_bind(registration, choices)
    if registration.binds_apart:
        judging = [verb for verb in wanted if verb != "bind"]
        yield _extender(registration, choices, judging, registration.judging_timeout)
        yield _extender(registration, choices, ["bind"], registration.timeout)
    else:
        yield _extender(registration, choices, wanted, registration.timeout)


def _extender(registration: Registration, choices: Choices, verbs: Collection[str], seconds: float) -> dict[str, Any]:
    cached = choices.node_cache_capable
    return {
        "urlPrefix": choices.url or _url(registration),
        **{verb.key: name for name, verb in VERBS.items() if name in verbs},
        "weight": choices.weight,
        "nodeCacheCapable": registration.names_are_enough if cached is None else cached,
        "httpTimeout": f"{round(seconds * 1000)}ms".replace("000ms", "s"),
        "ignorable": choices.ignorable,
        **_tls(registration, choices),
    }


def _check_bind(registration: Registration, choices: Choices) -> None:
    """Raises RegistrationError."""
    parts = " and ".join(registration.binding_parts())
    if choices.ignorable:
        raise RegistrationError(
            f"--ignorable: {parts}, and kube-scheduler binds by itself what an ignorable"
            " extender refuses to bind: leave out --ignorable, or those exports by extensionPoints"
        )
    if not registration.may_bind:
        raise RegistrationError(
            f"server.address: {parts}, and off loopback bind is refused to clients without a"
            " certificate: set server.tls.clientCAFile, or leave out those exports by extensionPoints"
        )


def _tls(registration: Registration, choices: Choices) -> dict[str, Any]:
    """Without a caFile kube-scheduler would not verify the extender (`makeTransport` in `pkg/scheduler/extender.go`).

    Raises RegistrationError.
    """
    if not registration.has_tls:
        if choices.concern_tls:
            raise RegistrationError(
                "--ca-file, --cert-file, --key-file and --server-name are for verbs with TLS: set server.tls, or leave"
                " them out"
            )
        return {}
    shown = {
        "certFile": choices.cert_file or f"{CERTIFICATES}/tls.crt",
        "keyFile": choices.key_file or f"{CERTIFICATES}/tls.key",
    }
    return {
        "enableHTTPS": True,
        "tlsConfig": {
            "caFile": choices.ca_file or f"{CERTIFICATES}/ca.crt",
            **(shown if registration.asks_for_certificates else {}),
            **({"serverName": choices.server_name} if choices.server_name else {}),
        },
    }


def _url(registration: Registration) -> str:
    host = "127.0.0.1" if registration.host in ANY_HOST else registration.host
    return f"{'https' if registration.has_tls else 'http'}://{Address(host, registration.port)}"
