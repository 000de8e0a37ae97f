"""One call of a verb in this process: by the server's own code, with a profile of one plugin."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from contextlib import closing
from enum import Enum
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

from extender.cluster import DryRunBinder, Event, PodKey
from extender.commands.call.request import CallError, CallInput
from extender.commands.terminal import compiling
from extender.config import PluginConfig, RuntimeConfig, ServerConfig
from extender.rollouts.engines import EngineError
from extender.rollouts.plugin_factory import LoadError, PluginFactory
from extender.scheduling.cycle_pins import CyclePins
from extender.scheduling.feasible_nodes import FeasibleNodes
from extender.scheduling.live_profiles import LiveProfiles
from extender.scheduling.pod_source import PodNotKnownError, PodSource
from extender.scheduling.profile import MENDS, Profile, ProfilePlugin
from extender.scheduling.request_samples import RequestSamples
from extender.scheduling.requests import PodRequest, Preemption, RequestError
from extender.scheduling.top_nodes import TopNodes
from extender.scheduling.verbs import VERBS
from extender.scheduling.waiting_pods import WaitingPods
from extender.sources import SourceError
from extender.sources.download import Limit
from extender.sources.file import read
from extender.telemetry.metrics import Metrics
from extender.webhook.context import Context
from extender.webhook.overload import Overload
from extender.webhook.protocol import STAYS
from extender.webhook.router import Handler, make_handlers
from wasm_runtime.blob import Blob
from wasm_runtime.compile.cache import CacheError
from wasm_runtime.engine import GuestJournal
from wasm_runtime.errors import Fault
from wasm_runtime.guests.plugin import Plugin, Sink

Verb = Enum("Verb", {name.upper(): name for name in VERBS}, type=str)  # type: ignore[misc]
"""The verbs of an extender."""

_ADVICE: Final = {
    MENDS[Fault.NO_NODE_DATA]: "give a request with whole nodes (Nodes), or the nodes by --nodes",
    MENDS[Fault.DEADLINE]: "mend the guest, or raise --timeout",
    MENDS[Fault.MEMORY]: "mend the guest, or raise --memory-limit",
}
"""What to do about a failure on the command line, by what the server advises its operator."""


class Outcome(NamedTuple):
    """The result of a call."""

    plugin: str
    digest: str
    body: bytes
    """The answer, as kube-scheduler would get it."""
    error: str
    """Why the plugin has no part in the answer; empty if it has judged."""
    note: str
    """A hint that the module serves nothing of the verb; empty if it does."""
    seconds: float
    """Duration of the verb, without compiling the module and starting the guest."""
    journals: Sequence[GuestJournal]
    """What the guest logged and recorded, call by call."""


def call(verb: Verb, module: Path, config: PluginConfig, request: CallInput) -> Outcome:
    """Compiles and starts a module, and calls a verb of it. Raises CallError for an unusable module or request."""
    journals: list[GuestJournal] = []
    waiting = WaitingPods()
    profiles, plugin = _load(module, config, lambda _plugin, _pod, journal: journals.append(journal), waiting)
    with closing(plugin):
        body, error, seconds = _ask(verb, request, profiles, waiting)
        note = _note(verb, module, plugin)
        return Outcome(plugin.name, plugin.digest, body, _advised(error), note, seconds, journals)


def _load(module: Path, config: PluginConfig, sink: Sink, waiting: WaitingPods) -> tuple[LiveProfiles, Plugin]:
    """A profile of one plugin, and the plugin, which the caller closes. Raises CallError."""
    try:
        plugin_factory = PluginFactory(RuntimeConfig(), sink, handle=waiting)
        wasm = read(module, Limit(plugin_factory.module_limit, "runtime.moduleLimit"))
        with compiling(module, len(wasm)):
            plugin = plugin_factory.make(Blob(wasm), str(module), config)
    except LoadError as error:
        raise CallError("\n".join(map(_advised, error.problems))) from error
    except (CacheError, EngineError, SourceError) as error:
        raise CallError(str(error)) from error
    return LiveProfiles([Profile("default", [ProfilePlugin(plugin)])]), plugin


def _ask(verb: Verb, request: CallInput, profiles: LiveProfiles, waiting: WaitingPods) -> tuple[bytes, str, float]:
    """The answer, why the plugin has no part in it (or nothing), and its duration in seconds. Raises CallError."""
    failures = _Failures()
    context = Context(
        profiles,
        request.nodes,
        _Pods(request.pod),
        Metrics(),
        CyclePins(),
        RequestSamples(),
        _AnyNode(),
        TopNodes(),
        Overload(),
        failures,
    )
    handlers = make_handlers(context, DryRunBinder(), waiting, ServerConfig().bind_timeout)
    try:
        body, seconds = asyncio.run(_time(handlers[verb.value], request.body))
    except RequestError as error:
        raise CallError(f"{request.file}: {error}") from error
    return body, _error(body) or failures.first, seconds


async def _time(handler: Handler, body: bytes) -> tuple[bytes, float]:
    begun = time.perf_counter()
    answer = handler.answer(body, None, STAYS)
    return answer if isinstance(answer, bytes) else await answer, time.perf_counter() - begun


def _error(body: bytes) -> str:
    """The `Error` of an answer, which kube-scheduler takes for a failure of the verb; empty if there is none."""
    answer = msgspec.json.decode(body)
    return str(answer.get("Error", "")) if isinstance(answer, dict) else ""


class _Failures:
    """Records the Events by which verbs report failures that their answers cannot express."""

    def __init__(self) -> None:
        self.first = ""

    def record(self, event: Event) -> None:
        self.first = self.first or event.note


class _Pods(PodSource):
    """A source of pods that knows the pod of one request alone."""

    def __init__(self, pod: PodRequest | None) -> None:
        super().__init__(None, None)
        self._pod = pod

    async def find(self, key: PodKey) -> PodRequest:
        if self._pod is None:
            raise PodNotKnownError(
                f"the request only names pod {key}; give its object by --pod, as kubectl get pod -o json prints it"
            )
        if self._pod.pod.uid != key.uid:
            raise PodNotKnownError(f"the request is about the pod of UID {key.uid}, --pod has {self._pod.pod.uid}")
        return self._pod

    def victims(self, preemption: Preemption, node: str) -> Sequence[bytes]:
        if preemption.objects is None:
            raise PodNotKnownError(
                f"the victims on node {node} came as UIDs and the guest asks for the pods (addpod, removepod);"
                " give a request with NodeNameToVictims, which has them whole"
            )
        return super().victims(preemption, node)


class _AnyNode(FeasibleNodes):
    """Lets any pod be bound anywhere: a single call has no filter before it, and its bind is a dry run."""

    def require(self, pod: PodKey, route: str, node: str) -> None:
        pass


def _advised(message: str) -> str:
    """A message of the server with the advice that fits the command line."""
    for servers, ours in _ADVICE.items():
        message = message.replace(servers, ours)
    return message


def _note(verb: Verb, module: Path, plugin: Plugin) -> str:
    exports = VERBS[verb.value].exports
    if any(map(plugin.runs, exports)):
        return ""
    return f"{module} serves nothing that {verb.value} calls ({', '.join(exports)}), so it has no say in the answer"
