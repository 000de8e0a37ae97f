"""What kube-scheduler's configuration has to fit: where the verbs are, which ones are needed, how long they take."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from pydantic import BaseModel, ConfigDict
from pydantic.alias_generators import to_camel

from extender.config import ExtenderConfiguration, Replicas
from extender.rollouts.live_plugins import LivePlugins
from extender.rollouts.slot import Slot
from extender.scheduling.live_profiles import DEFAULT_PROFILE
from extender.scheduling.profile import Profile
from extender.scheduling.verbs import VERBS, used_verbs

MIN_TIMEOUT_S: Final = 5.0
"""Seconds that kube-scheduler waits at least; its own default."""

APART_FACTOR: Final = 2
"""bind has an entry of `extenders` of its own if it may take more than so many times as long as the other verbs."""

GROUP_BIND_S: Final = 30.0
"""Seconds that bind has to have at least where the pods of a group wait in it for each other. kube-scheduler tries a
pod again after up to 10 s, and places the pods of a large group one after the other."""

DEFAULT_SCHEDULER: Final = "default-scheduler"
"""What the API server writes into a pod that names no scheduler."""


class _Model(BaseModel):
    model_config = ConfigDict(
        alias_generator=to_camel, populate_by_name=True, use_attribute_docstrings=True, frozen=True
    )


class RegisteredPlugin(_Model):
    """A plugin, as far as kube-scheduler's configuration and the extender's rights depend on it."""

    name: str
    timeout_seconds: float
    """Longest time of one verb in it."""
    binding_points: list[str]
    """Its exports that the bind verb calls."""
    wants_nodes: bool
    """Whether it may ask for the objects of nodes."""
    wants_pods: bool
    """Whether it is told of the pods that are on nodes."""
    wants_victims: bool
    """Whether preempt shows it the pods that would be evicted."""
    wants_groups: bool
    """Whether it is told of groups of pods."""
    wakes_pods: bool
    """Whether a switch has rejected pods tried again (`swap.wakePods`)."""

    @property
    def gathers_groups(self) -> bool:
        """Whether it may have pods of a group wait on Permit for each other."""
        return self.wants_groups and "permit" in self.binding_points

    @classmethod
    def of(cls, slot: Slot) -> RegisteredPlugin:
        """What serves in a slot; where nothing does yet, what is configured."""
        plugin = slot.live.plugin if slot.live else None
        return cls(
            name=slot.name,
            timeout_seconds=plugin.settings.timeout if plugin else slot.config.timeout,
            binding_points=[export for export in VERBS["bind"].exports if plugin and plugin.runs(export)],
            wants_nodes=plugin is not None and plugin.wants_nodes,
            wants_pods=plugin is not None and plugin.wants_pods,
            wants_victims=plugin is not None and any(map(plugin.runs, ("addpod", "removepod"))),
            wants_groups=plugin is not None and plugin.wants_groups,
            wakes_pods=slot.config.swap.wake_pods,
        )


class RegisteredProfile(_Model):
    """What pods of one scheduler name are judged by."""

    name: str
    verbs: list[str]
    """Those in which a plugin has a say."""
    score_range: int
    """The largest score that prioritize answers."""
    top_nodes: int | None
    """How many nodes filter answers at most; null for all that pass."""
    plugins: list[RegisteredPlugin]

    @classmethod
    def of(cls, profile: Profile, slots: tuple[Slot, ...]) -> RegisteredProfile:
        """What is live under a profile's name."""
        used = used_verbs([profile])
        return cls(
            name=profile.name,
            verbs=[verb for verb in VERBS if verb in used],
            score_range=profile.score_range,
            top_nodes=profile.top_nodes,
            plugins=[RegisteredPlugin.of(slot) for slot in slots if slot.profile == profile.name],
        )

    @property
    def scheduler_name(self) -> str:
        """The `schedulerName` of its pods."""
        return DEFAULT_SCHEDULER if self.name == DEFAULT_PROFILE else self.name

    @property
    def seconds(self) -> float:
        """What its plugins may take for a verb that judges nodes.

        preempt asks plugins in two halves, and so does filter with topNodes.
        """
        return 2 * sum(plugin.timeout_seconds for plugin in self.plugins)


class Registration(_Model):
    """What kube-scheduler's configuration has to fit."""

    host: str
    """Where the verbs are listened for, as `server.address` has it."""
    port: int
    has_tls: bool = False
    """Whether the verbs speak TLS (`server.tls`)."""
    certificate_hosts: list[str] | None = None
    """The hosts that the certificate of the verbs is for, such as `DNS:kwx.example` and `IP:127.0.0.1`; null without
    TLS."""
    asks_for_certificates: bool = False
    """Whether kube-scheduler needs a client certificate (`server.tls.clientCAFile`)."""
    may_bind: bool = True
    """Whether bind is served: off loopback only to clients with a certificate."""
    replicas: Replicas = Replicas.NONE
    """Which other extenders decide about the same pods (`server.replicas`)."""
    cluster_mode: str
    """`cluster.mode`."""
    bind_timeout_seconds: float
    """Longest time of the bind verb."""
    profiles: list[RegisteredProfile]

    @classmethod
    def of(
        cls, configuration: ExtenderConfiguration, live: LivePlugins, certificate_hosts: Sequence[str] | None = None
    ) -> Registration:
        """What is live, with what of its configuration stays as it was at the start."""
        server = configuration.server
        return cls(
            host=server.address.host,
            port=server.address.port,
            has_tls=server.tls is not None,
            certificate_hosts=None if certificate_hosts is None else list(certificate_hosts),
            asks_for_certificates=server.tls is not None and server.tls.client_ca_file is not None,
            may_bind=server.may_bind,
            replicas=server.replicas,
            cluster_mode=configuration.cluster.mode,
            bind_timeout_seconds=configuration.server.bind_timeout,
            profiles=[RegisteredProfile.of(profile, live.slots) for profile in live.profiles],
        )

    @property
    def plugins(self) -> list[RegisteredPlugin]:
        """Those of all profiles."""
        return [plugin for profile in self.profiles for plugin in profile.plugins]

    @property
    def is_connected(self) -> bool:
        """Whether there is an API server."""
        return self.cluster_mode in {"kubeconfig", "in-cluster"}

    @property
    def verbs(self) -> list[str]:
        """Those that kube-scheduler has to ask for. bind takes only what filter has answered."""
        wanted = {verb for profile in self.profiles for verb in profile.verbs}
        if not self.is_connected:
            wanted.discard("bind")
        if "bind" in wanted:
            wanted.add("filter")
        return [verb for verb in VERBS if verb in wanted]

    @property
    def names_are_enough(self) -> bool:
        """Whether requests need not carry whole nodes (`nodeCacheCapable: true`)."""
        return self.is_connected or not any(plugin.wants_nodes for plugin in self.plugins)

    @property
    def judging_seconds(self) -> float:
        """What filter, prioritize or preempt may take in the profile that may take longest."""
        return max(profile.seconds for profile in self.profiles)

    @property
    def judging_timeout(self) -> float:
        """Seconds that kube-scheduler has to wait, so that every plugin meets its own timeout first."""
        return max(MIN_TIMEOUT_S, self.judging_seconds + 1)

    @property
    def timeout(self) -> float:
        """Seconds that kube-scheduler has to wait, so that every plugin meets its own timeout first, and bind."""
        return max(self.judging_timeout, self.bind_timeout_seconds + 1)

    @property
    def binds_apart(self) -> bool:
        """Whether bind is to have an entry of its own, so that no other verb is waited for as long."""
        return "bind" in self.verbs and self.timeout > APART_FACTOR * self.judging_timeout

    def binding_parts(self) -> Iterator[str]:
        """The plugins that have a part in binding, and by what."""
        for profile in self.profiles:
            for plugin in profile.plugins:
                parts = [*plugin.binding_points, *["it knows pods"] * plugin.wants_pods]
                if parts:
                    yield f"plugin {plugin.name} of profile {profile.name} has a part in binding ({', '.join(parts)})"
