"""bind: Reserve, Permit, PreBind, Bind and PostBind, each plugin after plugin; Unreserve after a failure."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from typing import Final, NamedTuple, TypeVar

from extender.scheduling import planning
from extender.scheduling.ledger import Ledger
from extender.scheduling.planning import Annotated
from extender.scheduling.profile import PluginFailedError, Profile, ProfilePlugin
from extender.scheduling.verb import Verb
from extender.scheduling.waiting_pods import WaitingPods
from wasm_runtime import abi
from wasm_runtime.abi import Code
from wasm_runtime.guests.guest import Guest, Pod, Status, name
from wasm_runtime.guests.plugin import Plugin
from wasm_runtime.nodes.node_table import Nodes
from wasm_runtime.protobuf.annotate import annotated

T = TypeVar("T")

logger = logging.getLogger(__name__)

LEFT_FOR_BIND: Final = 0.25
"""Part of the verb's time that a wait on Permit leaves to what comes after it."""

Step = Callable[[Guest, Nodes, float], T]
"""A method of Guest that takes the node and a deadline."""


class RejectedError(Exception):
    """A plugin does not let the pod on its node. `str()` names plugin, extension point and reason."""


class Binding(NamedTuple):
    """What is to be bound, and until when."""

    pod: Pod
    node: Nodes
    """The one that was chosen."""
    deadline: float
    """When the verb must have been answered, on the clock of `time.monotonic`."""


def run(
    profile: Profile,
    binding: Binding,
    waiting: WaitingPods,
    ledger: Ledger | None,
    bind: Callable[[Mapping[str, str]], None],
) -> None:
    """Binds a pod as the framework does: with what the plugins do before and after, and `bind` if none binds it.

    `bind` gets the annotations that they give the pod, which the `ledger` has by then. Takes as long as a plugin's
    Permit makes the pod wait. Source of the order: `schedulingCycle` and `bindingCycle` in
    `pkg/scheduler/schedule_one.go` of Kubernetes. Raises PluginFailedError, RejectedError, OvertakenError and what
    `bind` raises.
    """
    with ExitStack() as stack:
        cycle = _Cycle(binding, list(_enter(profile, binding, stack)))
        try:
            annotations = cycle.reserve(profile, ledger)
            cycle.permit(waiting)
            cycle.demand("prebind", lambda guest, *at: guest.pre_bind(*at))
            if not cycle.bind():
                bind(annotations)
        except BaseException:
            cycle.unreserve()
            raise
        cycle.tell("postbind", lambda guest, *at: guest.post_bind(*at))


BIND: Final = Verb("bind", "bindVerb", tuple(name for name in abi.EXPORTS if name in abi.BIND_CYCLE))


class _Seat(NamedTuple):
    """A plugin's place in a binding cycle, and its guest."""

    profile_plugin: ProfilePlugin
    guest: Guest

    def has(self, export: str) -> bool:
        """Whether an extension point can be called here."""
        return self.profile_plugin.plugin.runs(export) and not self.guest.is_broken


def _enter(profile: Profile, binding: Binding, stack: ExitStack) -> Iterator[_Seat]:
    for profile_plugin in profile.plugins:
        if profile_plugin.plugin.has_binding_points:
            guest = profile_plugin.attempt("bind", _guest, binding.pod, binding.node, stack)
            if guest is not None:
                yield _Seat(profile_plugin, guest)


def _guest(plugin: Plugin, pod: Pod, node: Nodes, stack: ExitStack) -> Guest:
    """The guest on the pod's cycle, which ends with the stack."""
    stack.callback(plugin.end_cycle, pod)
    guest, _ = stack.enter_context(plugin.guest(pod, node, "bind"))
    return guest


class _Cycle:
    """The binding cycle of a pod."""

    def __init__(self, binding: Binding, seats: list[_Seat]) -> None:
        self._binding = binding
        self._seats = seats

    def reserve(self, profile: Profile, ledger: Ledger | None) -> Mapping[str, str]:
        """Calls Reserve of each plugin, again where it was overtaken. Returns the annotations that they give the pod.

        Raises RejectedError at the first that says no, and for annotations that the pod cannot have.
        """
        (node,) = self._binding.node.names
        return planning.reserve(ledger, profile, self._binding.pod, node, self._reserve, self.unreserve)

    def unreserve(self) -> None:
        """Calls Unreserve of each plugin, the last one first."""
        self.tell("unreserve", lambda guest, *at: guest.unreserve(*at), backwards=True)

    def demand(self, export: str, step: Step[Status]) -> None:
        """Calls an extension point of each plugin. Raises RejectedError at the first that says no."""
        for seat, status in self._answers(export, step):
            _require(seat, export, status)

    def permit(self, waiting: WaitingPods) -> None:
        """Calls Permit of each plugin, then waits as long as the most impatient of those that say Wait."""
        waits: dict[str, float] = {}
        for seat, (status, timeout) in self._answers("permit", lambda guest, *at: guest.permit(*at)):
            if status.code is Code.WAIT:
                waits[seat.profile_plugin.plugin.name] = timeout
            else:
                _require(seat, "permit", status)
        if waits:
            self._wait(waiting, min(waits, key=waits.__getitem__), min(waits.values()))

    def bind(self) -> bool:
        """Calls Bind plugin after plugin until one does not skip. Whether one has bound the pod."""
        for seat, status in self._answers("bind", lambda guest, *at: guest.bind(*at)):
            if status.code is not Code.SKIP:
                _require(seat, "bind", status)
                return True
        return False

    def tell(self, export: str, step: Step[None], *, backwards: bool = False) -> None:
        """Calls an extension point that has no say: failures are only logged."""
        for seat in reversed(self._seats) if backwards else self._seats:
            try:
                self._call(seat, export, step)
            except PluginFailedError as error:
                fields = {"verb": "bind", "pod": self._binding.pod.name, **error.fields}
                logger.error("%s failed: %s", export, error, extra=fields)

    def _reserve(self) -> Annotated:
        pod, given = self._binding.pod, dict[str, dict[str, str]]()
        for seat in self._seats:
            status = self._ask(seat, "reserve", lambda guest, *at: guest.reserve(*at))
            if status is not None:
                _require(seat, "reserve", status)
            elif seat.has("reserve"):
                continue  # It has failed, which is to be ignored.
            if found := self._ask(seat, "bindingannotations", lambda guest, *at: guest.binding_annotations(*at)):
                given[seat.profile_plugin.plugin.name] = found
        if not given:
            return Annotated({}, pod.object)
        together = _together(given)
        try:
            return Annotated(together, annotated(pod.object, together))
        except ValueError as error:
            raise RejectedError(f"pod {pod.name} cannot have the annotations that plugins give it: {error}") from None

    def _wait(self, waiting: WaitingPods, plugin: str, timeout: float) -> None:
        left = self._binding.deadline - time.monotonic()
        allowed = left * (1 - LEFT_FOR_BIND)
        if waiting.wait(self._binding.pod, min(timeout, allowed)):
            raise RejectedError(f"plugin {plugin}: permit: the pod was rejected while it waited")
        if timeout <= allowed:
            raise RejectedError(
                f"plugin {plugin}: permit: the pod waited for its {timeout:g} s and nobody let it go on"
            )
        raise RejectedError(
            f"plugin {plugin}: permit: the pod was to wait for {timeout:g} s, but the verb ends before;"
            " raise server.bindTimeout, and the extender's httpTimeout with it"
        )

    def _answers(self, export: str, step: Step[T]) -> Iterator[tuple[_Seat, T]]:
        for seat in self._seats:
            answer = self._ask(seat, export, step)
            if answer is not None:
                yield seat, answer

    def _ask(self, seat: _Seat, export: str, step: Step[T]) -> T | None:
        """The same as `_call` does while there is time. Raises RejectedError afterwards."""
        if seat.has(export) and time.monotonic() > self._binding.deadline:
            raise RejectedError(
                f"plugin {seat.profile_plugin.plugin.name}: {export}: not called, the time of the verb was over;"
                " raise server.bindTimeout, and the extender's httpTimeout with it"
            )
        return self._call(seat, export, step)

    def _call(self, seat: _Seat, export: str, step: Step[T]) -> T | None:
        """What an extension point of a plugin answers; None if it has none, or failed and that is to be ignored."""
        if not seat.has(export):
            return None
        return seat.profile_plugin.attempt(
            "bind", lambda plugin, _: step(seat.guest, self._binding.node, plugin.deadline()), self._binding.pod
        )


def _require(seat: _Seat, export: str, status: Status) -> None:
    if status.code is not Code.SUCCESS:
        reason = f": {status.reason}" if status.reason else ""
        raise RejectedError(f"plugin {seat.profile_plugin.plugin.name}: {export}: {name(status.code)}{reason}")


def _together(given: Mapping[str, Mapping[str, str]]) -> dict[str, str]:
    """The annotations of all plugins, `given` by the plugins' names. Raises RejectedError if they contradict."""
    together: dict[str, str] = {}
    givers: dict[str, str] = {}
    for plugin, found in given.items():
        for key, value in found.items():
            giver = givers.setdefault(key, plugin)
            if together.setdefault(key, value) != value:
                raise RejectedError(
                    f"plugins {giver} and {plugin} give annotation {key} different values; leave it to one of them"
                )
    return together
