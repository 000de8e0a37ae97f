"""Everything by which something else goes live: commands, sources, the configuration file."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final

from extender.config import FailurePolicy
from extender.rollouts.config_watcher import ConfigWatcher
from extender.rollouts.controller import RolloutController
from extender.rollouts.drain import Drain
from extender.rollouts.pipeline import NO_PODS, Pipeline
from extender.rollouts.registration import GROUP_BIND_S, RegisteredPlugin
from extender.rollouts.revision import RolloutStage
from extender.rollouts.rollout import Rollout
from extender.rollouts.rollout_loop import RolloutLoop
from extender.rollouts.slot import Slot
from extender.rollouts.startup import Loaded
from extender.rollouts.what_if import WhatIf
from extender.scheduling.cycle_pins import CyclePins
from extender.scheduling.request_samples import RequestSamples
from wasm_runtime.nodes.node_table import NodeTable

logger = logging.getLogger(__name__)

SHORT_BIND: Final = (
    "a plugin may have pods of a group wait in bind for each other, and server.bindTimeout is %g s: the first of a"
    " large group let go before kube-scheduler comes to the last; set it to 2m, and print kube-scheduler's"
    " configuration anew by kwx scheduler-config"
)
"""What is to be known of a plugin that gathers groups where bind has little time."""


class RolloutService:
    """The controller of rollouts, and the threads that poll the sources and watch the configuration file."""

    def __init__(
        self,
        file: Path,
        loaded: Loaded,
        pins: CyclePins,
        samples: RequestSamples,
        nodes: Callable[[], NodeTable],
        follow_pods: Callable[[bool], str | None] | None,
        wake: Callable[[], object],
    ) -> None:
        """`nodes` gives what guests are to know, `wake` has rejected pods tried again.

        `follow_pods` says why plugins that want pods, and groups if that is true, have to wait, if that is so. None
        without an API server.
        """
        self._loaded = loaded
        self._knows_pods = follow_pods is not None
        pipeline = Pipeline(loaded.plugin_factory, loaded.store, samples, nodes, follow_pods, file.absolute().parent)
        drain = Drain(pins, loaded.journal)
        profiles = loaded.configuration.profiles
        replicas = loaded.configuration.server.replicas
        self.rollouts = RolloutController(loaded.live, pipeline, loaded.journal, drain, profiles, wake, replicas)
        self.what_if = WhatIf(loaded.live, pipeline)
        self._loop = RolloutLoop(self.rollouts)
        self._config_watcher = ConfigWatcher(file, loaded.configuration, self.rollouts)

    @property
    def missing(self) -> str | None:
        """Why pods of some profiles cannot be judged."""
        profiles = self._loaded.live.profiles
        words = [f"profile {each.name}: {each.problem}" for each in profiles if each.problem]
        return "; ".join([*words, *self._without_guests(FailurePolicy.FAIL)]) or None

    @property
    def oddities(self) -> str | None:
        """What those who look after plugins should know."""
        slots = self._loaded.live.slots
        words = [f"plugin {each.name}: {each.problem}" for each in slots if each.problem]
        words += [f"plugin {each.name}: {each.notice}" for each in slots if each.notice]
        words += [f"plugin {each.name} {failing}" for each in slots if (failing := each.recent_failures)]
        words += [f"plugin {each.name} {NO_PODS}" for each in self._without_pods(slots)]
        words += self._without_guests(FailurePolicy.IGNORE)
        if self._loaded.store.problem:
            words.append(f"a restart will not know what is live now, nor the history: {self._loaded.store.problem}")
        return "; ".join(filter(None, [*words, self._config_watcher.problem])) or None

    @property
    def served(self) -> str:
        """Which revisions serve, to be compared with those of other replicas."""
        slots = self._loaded.live.slots
        words = [f"{each.profile}/{each.name} {each.live.revision.id if each.live else 'none'}" for each in slots]
        return f"{self._loaded.configuration.server.replicas.value}; {', '.join(words)}"

    def _without_guests(self, policy: FailurePolicy) -> list[str]:
        """The plugins of a failure policy that have no guest, since none can be made."""
        lives = [slot.live for slot in self._loaded.live.slots if slot.live]
        plugins = [live.plugin for live in lives if live.profile_plugin.failure_policy is policy]
        problems = [(plugin.name, plugin.problem) for plugin in plugins]
        return [
            f"plugin {name} has no guest, and none can be made: {problem}; it is tried again now and then"
            for name, problem in problems
            if problem
        ]

    def _without_pods(self, slots: Iterable[Slot]) -> Iterator[Slot]:
        """The places of plugins that want to know pods, where nobody knows them."""
        for slot in slots:
            if slot.live and slot.live.plugin.wants_pods and not self._knows_pods:
                yield slot

    def _warn(self, slots: Sequence[Slot]) -> None:
        for slot in self._without_pods(slots):
            logger.warning("a plugin %s", NO_PODS, extra={"plugin": slot.name, "profile": slot.profile})
        seconds = self._loaded.configuration.server.bind_timeout
        for slot in slots:
            if RegisteredPlugin.of(slot).gathers_groups and seconds < GROUP_BIND_S:
                logger.warning(SHORT_BIND, seconds, extra={"plugin": slot.name, "profile": slot.profile})

    def _on_rollout(self, _: int, rollout: Rollout) -> None:
        slot = self._loaded.live.slot(rollout.profile, rollout.plugin)
        if slot and rollout.stage is RolloutStage.ACTIVE:
            self._warn([slot])

    def start(self) -> None:
        """Begins."""
        self._warn(self._loaded.live.slots)
        self._loaded.journal.listen(self._on_rollout)
        self._loop.start()
        self._config_watcher.start()

    def reload(self) -> None:
        """Has the configuration file read now. Signal handlers may call it."""
        self._config_watcher.reload()

    def stop(self) -> None:
        """Ends what is under way."""
        self._loaded.plugin_factory.close()
        self.rollouts.close()  # First: the others wait for what is under way.
        self._config_watcher.stop()
        self._loop.stop()
