"""From a source to a revision that is ready to serve."""

from __future__ import annotations

import logging
import queue
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

from extender.config import PluginConfig, SwapConfig
from extender.rollouts.plugin_factory import LoadError, PluginFactory
from extender.rollouts.probe import CandidateRefusedError, ProbeReport, probe
from extender.rollouts.revision import Revision, RolloutStage
from extender.rollouts.runs import CancelledError, RolloutRun
from extender.rollouts.slot import ActiveRevision, Slot
from extender.rollouts.state.store import Store
from extender.scheduling.profile import ProfilePlugin
from extender.scheduling.request_samples import RequestSamples
from extender.scheduling.sample import Sample
from extender.sources import Fetched, Source, SourceError
from extender.sources.factory import open_source
from extender.sources.signing import PublicKey
from extender.sources.source import fetch_now
from wasm_runtime.guests.plugin import Plugin
from wasm_runtime.nodes.node_table import Nodes, NodeTable

logger = logging.getLogger(__name__)

POLL_INTERVAL_S: Final = 0.1
"""Seconds between two looks at whether a rollout that waits is cancelled."""

MAX_SHADOW_S: Final = 3600.0
"""Seconds after which a shadow ends that has not seen its number of requests."""

MAX_PODS_S: Final = 60.0
"""Seconds that a rollout waits for the first list of the cluster's pods."""

NO_PODS: Final = (
    "wants to know pods, and is told of none: it takes all nodes for empty, as there is no API server;"
    " set cluster.mode to kubeconfig or in-cluster"
)
"""What is to be known of a plugin that exports podschanged or pendingpodschanged where no cluster is followed."""


class FetchedRevision(NamedTuple):
    """A module that was fetched, and the revision that it makes under a plugin's configuration."""

    fetched: Fetched
    revision: Revision

    @classmethod
    def of(cls, fetched: Fetched, config: PluginConfig) -> FetchedRevision:
        """The candidate that a module makes. It is not verified, so its revision has no signer yet."""
        return cls(fetched, Revision.of(fetched.module.digest, config, fetched.origin))


Fetch = Callable[[], FetchedRevision]
"""Gives a candidate. Raises SourceError."""


class RolloutFailedError(Exception):
    """A rollout has ended without a revision. Has every reason."""

    def __init__(self, problems: list[str]) -> None:
        super().__init__("; ".join(problems))
        self.problems = problems


@contextmanager
def failing(run: RolloutRun) -> Iterator[None]:
    """Ends the run by what keeps it from going on. Raises RolloutFailedError."""
    try:
        yield
    except RolloutFailedError:
        raise
    except CandidateRefusedError as error:
        run.fail(str(error), error.report)
        raise RolloutFailedError([str(error)]) from error
    except LoadError as error:
        run.fail(str(error))
        raise RolloutFailedError(error.problems) from error
    except (SourceError, CancelledError) as error:
        run.fail(str(error))
        raise RolloutFailedError([str(error)]) from error
    except Exception as error:
        logger.exception("a rollout has failed for a fault of our own")
        run.fail(f"a fault of the extender's own, see its log: {error!r}")
        raise RolloutFailedError([str(error)]) from error


def verify(
    run: RolloutRun, config: PluginConfig, fetch: Fetch, folder: Path, verified: Revision | None = None
) -> FetchedRevision:
    """Fetches a candidate, and checks the digest and the signature that the configuration requires.

    Returns the candidate with its signer. The paths of the configuration are relative to `folder`. `verified` is an
    earlier revision: if it has the same module and the same signer, the signature is not checked again, since
    signatures are not kept. Raises SourceError, CancelledError.
    """
    candidate = fetch()
    revision = candidate.revision
    run.advance(RolloutStage.FETCHED, revision=revision.id, module=revision.module, origin=revision.origin)
    required = _require(config, candidate, folder, verified)
    run.advance(RolloutStage.VERIFIED)
    return required


def _require(
    config: PluginConfig, candidate: FetchedRevision, folder: Path, verified: Revision | None
) -> FetchedRevision:
    """The candidate with its signer, if it has the digest and the signature that are required. Raises SourceError."""
    key = _required_key(config, folder)
    revision = msgspec.structs.replace(candidate.revision, signer=key.fingerprint if key else None)
    check_digest(config, revision.module, revision.origin)
    if key and (verified is None or (verified.module, verified.signer) != (revision.module, revision.signer)):
        key.check(candidate.fetched)
    return FetchedRevision(candidate.fetched, revision)


def _required_key(config: PluginConfig, folder: Path) -> PublicKey | None:
    """Raises SourceError."""
    path = config.source.public_key
    return PublicKey.read(folder / path) if path else None


def check_digest(config: PluginConfig, module: str, origin: str) -> None:
    """Raises SourceError for another module than the configuration allows."""
    if config.digest and module != config.digest:
        raise SourceError(f"{origin} has digest {module}, the configuration allows only {config.digest}")


def kept(store: Store, revision: Revision) -> FetchedRevision:
    """A revision whose module has served before, with the module from the store. Raises SourceError."""
    module = store.module(revision.module)
    if module is None:
        raise SourceError(f"the module of revision {revision.id} is not kept in server.stateDirectory")
    return FetchedRevision(Fetched(module, revision.origin, revision.module), revision)


def warmed(
    run: RolloutRun, store: Store, slot: Slot, candidate: FetchedRevision, config: PluginConfig, plugin: Plugin
) -> ActiveRevision:
    """A plugin that knows the nodes and is ready to serve in a slot. Its module is kept. Raises CancelledError."""
    try:
        store.keep_module(candidate.fetched.module)
        run.advance(RolloutStage.WARMED)
    except BaseException:
        plugin.close()
        raise
    profile_plugin = ProfilePlugin(plugin, config.weight, config.failure_policy, outcomes=slot.outcomes)
    return ActiveRevision(candidate.revision, profile_plugin, run.rollout)


class Pipeline:
    """Fetches, verifies, compiles, probes and warms candidates. May be used from any thread."""

    def __init__(
        self,
        plugin_factory: PluginFactory,
        store: Store,
        samples: RequestSamples,
        nodes: Callable[[], NodeTable],
        follow_pods: Callable[[bool], str | None] | None,
        folder: Path,
    ) -> None:
        """`follow_pods` says why plugins that want pods, and groups if that is true, have to wait, if that is so.

        It is None without an API server.

        `folder` is what the configuration's paths are relative to.
        """
        self.store = store
        self._plugin_factory = plugin_factory
        self.samples = samples
        self._nodes = nodes
        self._follow_pods = follow_pods
        self._folder = folder

    def prepare(
        self,
        run: RolloutRun,
        slot: Slot,
        config: PluginConfig,
        fetch: Fetch,
        verified: Revision | None = None,
        require_fit: Callable[[Plugin], None] = lambda _: None,
    ) -> ActiveRevision | None:
        """A candidate that is ready to be switched in, and waits for that.

        `verified` is an earlier revision, perhaps of the same module. `require_fit` raises LoadError if the profile
        cannot do with the candidate in its slot. None if there is nothing to switch: it was a dry run, or is active
        already.
        Raises RolloutFailedError; then the run has failed.
        """
        with failing(run):
            candidate = verify(run, config, fetch, self._folder, verified)
            fetched, revision = candidate
            replaced = slot.live.revision if slot.live else None
            is_served = replaced and (replaced.id, replaced.signer) == (revision.id, revision.signer)
            if is_served and not run.rollout.dry_run:
                run.advance(RolloutStage.UNCHANGED)
                return None
            trial = self._plugin_factory.make(fetched.module, fetched.origin, config, self._nodes(), trial=True)
            with closing(trial):
                require_fit(trial)
                self.await_pods(trial, MAX_PODS_S, run.check)
                run.advance(RolloutStage.COMPILED, replaces=replaced.id if replaced else None)
                report = self._probe(run, slot, config, trial)
                run.advance(RolloutStage.PROBED, report=report)
                if run.rollout.dry_run:
                    run.advance(RolloutStage.REHEARSED)
                    return None
                clone = self._plugin_factory.clone(trial, self._nodes())
                return warmed(run, self.store, slot, candidate, config, clone)

    def allow(self, config: PluginConfig, revision: Revision) -> None:
        """Raises SourceError for a revision that the configuration does not let in any more."""
        check_digest(config, revision.module, revision.origin)
        key = _required_key(config, self._folder)
        if key:
            key.check_signer(revision.origin, revision.signer)  # Signatures are not kept.

    def unmet(self, config: PluginConfig, revision: Revision) -> str:
        """Why the configuration does not let a revision in any more; empty if it does."""
        try:
            self.allow(config, revision)
        except SourceError as error:
            return str(error)
        return ""

    def admits(self, config: PluginConfig, fetched: Fetched) -> bool:
        """Whether the configuration lets in what a source gives."""
        with suppress(SourceError):
            check_digest(config, fetched.module.digest, fetched.origin)
            key = _required_key(config, self._folder)
            if key:
                key.check(fetched)
            return True
        return False

    def restore(
        self, run: RolloutRun, slot: Slot, revision: Revision, require_fit: Callable[[Plugin], None]
    ) -> ActiveRevision:
        """A revision that has served before, ready to be switched in; it is not probed.

        `require_fit` is as with `prepare`. Raises RolloutFailedError.
        """
        with failing(run):
            config = revision.configure(slot.config)
            fetched, _ = verify(run, config, lambda: self.kept(revision), self._folder, revision)
            plugin = self._plugin_factory.make(fetched.module, fetched.origin, config, self._nodes())
            try:
                require_fit(plugin)
                self.await_pods(plugin, MAX_PODS_S, run.check)
            except (LoadError, CancelledError):
                plugin.close()
                raise
            return warmed(run, self.store, slot, FetchedRevision(fetched, revision), config, plugin)

    def open(self, config: PluginConfig) -> Source:
        """The source of a plugin."""
        return open_source(config, self._folder, self._plugin_factory.module_limit)

    def fetch(self, config: PluginConfig) -> FetchedRevision:
        """What a plugin's source gives now. Raises SourceError."""
        return FetchedRevision.of(fetch_now(self.open(config)), config)

    def kept(self, revision: Revision) -> FetchedRevision:
        """A revision whose module has served before, with the module from the store. Raises SourceError."""
        return kept(self.store, revision)

    def try_out(self, config: PluginConfig, fetch: Fetch, verified: Revision | None, nodes: NodeTable) -> Plugin:
        """A candidate's plugin as a trial, which goes live nowhere. `verified` is as with `prepare`.

        Raises SourceError, LoadError.
        """
        fetched, _ = _require(config, fetch(), self._folder, verified)
        return self._plugin_factory.make(fetched.module, fetched.origin, config, nodes, trial=True)

    def clone(self, live: ActiveRevision, nodes: NodeTable) -> Plugin:
        """What serves, as a trial with guests of its own. Raises LoadError."""
        return self._plugin_factory.clone(live.plugin, nodes, trial=True)

    def current_nodes(self) -> NodeTable:
        """The nodes that guests see."""
        return self._nodes()

    def await_pods(self, plugin: Plugin, seconds: float, check: Callable[[], None] = lambda: None) -> None:
        """Waits until the pods are known that a plugin wants to know: it would have no answer until then.

        `check` raises an error to end the wait. Raises LoadError.
        """
        deadline = time.monotonic() + seconds
        while plugin.wants_pods and self._follow_pods and (problem := self._follow_pods(plugin.wants_groups)):
            if time.monotonic() >= deadline:
                raise LoadError([f"plugin {plugin.name} wants to know pods: {problem}"])
            check()
            time.sleep(POLL_INTERVAL_S)

    def _probe(self, run: RolloutRun, slot: Slot, config: PluginConfig, trial: Plugin) -> ProbeReport:
        """Compares the candidate with a clone of the active revision. Raises CandidateRefusedError."""
        with ExitStack() as stack:
            active = self._comparable(slot.live)
            if active:
                stack.callback(active.close)
            samples = self._samples(run, slot.profile, config.swap)
            report = probe(active, trial, samples, self._locate, config.swap, lambda: run.is_cancelled)
        run.check()
        if trial.wants_pods and self._follow_pods is None:
            return msgspec.structs.replace(report, notes=[*report.notes, f"the candidate {NO_PODS}"])
        return report

    def _comparable(self, live: ActiveRevision | None) -> Plugin | None:
        """What a candidate is compared with; None if nothing is live, or does not start any more."""
        with suppress(LoadError):
            return self.clone(live, self._nodes()) if live else None
        return None

    def _locate(self, names: Sequence[str]) -> Nodes:
        return Nodes(self._nodes(), names)

    def _samples(self, run: RolloutRun, profile: str, limits: SwapConfig) -> Iterator[Sample]:
        """The requests that were recorded; after them those that come, as long as a shadow is wanted."""
        yield from self.samples.last(profile)
        if limits.shadow_time is None and limits.shadow_requests is None:
            return
        left = limits.shadow_requests
        until = time.monotonic() + (limits.shadow_time or MAX_SHADOW_S)
        with self.samples.listening(profile) as arriving:
            while (left is None or left > 0) and time.monotonic() < until and not run.is_cancelled:
                with suppress(queue.Empty):
                    yield arriving.get(timeout=POLL_INTERVAL_S)
                    left = None if left is None else left - 1
