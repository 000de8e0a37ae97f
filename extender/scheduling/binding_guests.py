"""The guests that are on a pod's binding cycle, and what is asked of all of them."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple, TypeVar

from extender.scheduling import planning
from extender.scheduling.ledger import Ledger
from extender.scheduling.planning import Annotated
from extender.scheduling.profile import PluginFailedError, Profile, ProfilePlugin
from wasm_runtime.abi import Code
from wasm_runtime.guests.guest import Guest, Pod, Status, name
from wasm_runtime.nodes.node_table import Nodes
from wasm_runtime.protobuf.annotate import annotated

T = TypeVar("T")

logger = logging.getLogger(__name__)

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


class Seat(NamedTuple):
    """A plugin's place in a binding cycle, and its guest."""

    profile_plugin: ProfilePlugin
    guest: Guest

    def has(self, export: str) -> bool:
        """Whether an extension point can be called here."""
        return self.profile_plugin.plugin.runs(export) and not self.guest.is_broken


class BindingGuests:
    """The guests that are on a pod's binding cycle, one of each plugin."""

    def __init__(self, binding: Binding, seats: list[Seat]) -> None:
        self._binding = binding
        self.seats = seats

    def have(self, *exports: str) -> bool:
        """Whether any of some extension points can be called."""
        return any(seat.has(export) for seat in self.seats for export in exports)

    def reserve(self, profile: Profile, ledger: Ledger | None) -> Mapping[str, str]:
        """Calls Reserve of each plugin, again where it was overtaken. Returns the annotations that they give the pod.

        Raises RejectedError at the first that says no, and for annotations that the pod cannot have.
        """
        (node,) = self._binding.node.names
        return planning.reserve(ledger, profile, self._binding.pod, node, self._reserve, self.unreserve)

    def demand(self, export: str, step: Step[Status]) -> None:
        """Calls an extension point of each plugin. Raises RejectedError at the first that says no."""
        for seat, status in self._answers(export, step):
            require(seat.profile_plugin, export, status)

    def permit(self) -> Mapping[str, float]:
        """Calls Permit of each plugin. Returns the seconds that a pod may wait for each that says Wait, by its name."""
        waits: dict[str, float] = {}
        for seat, (status, timeout) in self._answers("permit", lambda guest, *at: guest.permit(*at)):
            if status.code is Code.WAIT:
                waits[seat.profile_plugin.plugin.name] = timeout
            else:
                require(seat.profile_plugin, "permit", status)
        return waits

    def bind(self) -> bool:
        """Calls Bind plugin after plugin until one does not skip. Whether one has bound the pod."""
        for seat, status in self._answers("bind", lambda guest, *at: guest.bind(*at)):
            if status.code is not Code.SKIP:
                require(seat.profile_plugin, "bind", status)
                return True
        return False

    def post_bind(self) -> None:
        """Calls PostBind of each plugin."""
        self.tell("postbind", lambda guest, *at: guest.post_bind(*at))

    def unreserve(self) -> None:
        """Calls Unreserve of each plugin, the last first."""
        self.tell("unreserve", lambda guest, *at: guest.unreserve(*at), backwards=True)

    def tell(self, export: str, step: Step[None], *, backwards: bool = False) -> None:
        """Calls an extension point that has no say: failures are only logged."""
        for seat in reversed(self.seats) if backwards else self.seats:
            try:
                self._call(seat, export, step)
            except PluginFailedError as error:
                log_failure(export, self._binding.pod, error)

    def _reserve(self) -> Annotated:
        pod, given = self._binding.pod, dict[str, dict[str, str]]()
        for seat in self.seats:
            status = self._ask(seat, "reserve", lambda guest, *at: guest.reserve(*at))
            if status is not None:
                require(seat.profile_plugin, "reserve", status)
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

    def _answers(self, export: str, step: Step[T]) -> Iterator[tuple[Seat, T]]:
        for seat in self.seats:
            answer = self._ask(seat, export, step)
            if answer is not None:
                yield seat, answer

    def _ask(self, seat: Seat, export: str, step: Step[T]) -> T | None:
        """Does what `_call` does, until the verb's deadline. Raises RejectedError after it."""
        if seat.has(export) and time.monotonic() > self._binding.deadline:
            raise RejectedError(
                f"plugin {seat.profile_plugin.plugin.name}: {export}: not called, the time of the verb was over;"
                " raise server.bindTimeout, and the extender's httpTimeout with it"
            )
        return self._call(seat, export, step)

    def _call(self, seat: Seat, export: str, step: Step[T]) -> T | None:
        """What an extension point of a plugin answers; None if the plugin has none, or if its failure is ignored."""
        if not seat.has(export):
            return None
        return seat.profile_plugin.attempt(
            "bind", lambda plugin, _: step(seat.guest, self._binding.node, plugin.deadline()), self._binding.pod
        )


def require(profile_plugin: ProfilePlugin, export: str, status: Status) -> None:
    """Raises RejectedError for any other answer than Success."""
    if status.code is not Code.SUCCESS:
        reason = f": {status.reason}" if status.reason else ""
        raise RejectedError(f"plugin {profile_plugin.plugin.name}: {export}: {name(status.code)}{reason}")


def log_failure(export: str, pod: Pod, error: PluginFailedError) -> None:
    """Logs the failure of an extension point that has no say."""
    logger.error("%s failed: %s", export, error, extra={"verb": "bind", "pod": pod.name, **error.fields})


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
