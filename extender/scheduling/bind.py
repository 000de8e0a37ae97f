"""bind: Reserve, Permit, PreBind, Bind and PostBind, each plugin after plugin; Unreserve after a failure."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Final

from extender.config import FailurePolicy
from extender.scheduling.binding_guests import Binding, BindingGuests, Seat, log_failure, require
from extender.scheduling.ledger import Ledger
from extender.scheduling.profile import PluginFailedError, Profile, ProfilePlugin
from extender.scheduling.verb import Verb
from wasm_runtime import abi
from wasm_runtime.abi import Code
from wasm_runtime.errors import Fault, GuestError
from wasm_runtime.guests.guest import CycleStage, Guest, Permission, Pod, Status
from wasm_runtime.guests.plugin import Plugin

BIND: Final = Verb("bind", "bindVerb", tuple(name for name in abi.EXPORTS if name in abi.BIND_CYCLE))

_AFTER_PERMIT: Final = ("prebind", "bind", "postbind")

_BUSY: Final = Permission(Status(Code.WAIT), 0.0)
"""Stands for the answer of Permit where the plugin has no free guest."""


class BindingCycle:
    """The binding cycle of a pod, as in the scheduling framework. It stops while the pod waits on Permit.

    A cycle that has stopped has neither a thread nor a guest. One call of `go_on` or `give_up` ends it. Source of the
    order: `schedulingCycle` and `bindingCycle` in `pkg/scheduler/schedule_one.go` of Kubernetes. May be used from any
    thread: calls are carried out one after the other.
    """

    def __init__(
        self, profile: Profile, binding: Binding, ledger: Ledger | None, bind: Callable[[Mapping[str, str]], None]
    ) -> None:
        """`bind` binds the pod if no plugin does. It gets the annotations that plugins give the pod.

        The `ledger` has these annotations before `bind` is called.
        """
        self.binding = binding
        self._profile = profile
        self._ledger = ledger
        self._bind = bind
        self._annotations: Mapping[str, str] = {}
        self._all = [each for each in profile.plugins if each.plugin.has_binding_points]
        self._plugins = self._all
        """The plugins that take part. One that failed, and whose failures are ignored, takes part no more."""
        self._turn = threading.Lock()
        """Held by the thread that calls guests for the pod, so that Unreserve comes after the last Permit."""

    def begin(self) -> Mapping[str, float]:
        """Calls Reserve and Permit and, unless a plugin says Wait, PreBind, Bind and PostBind.

        Returns the seconds that the pod may wait, by the name of each plugin that says Wait; nothing if the pod is
        bound. Raises PluginFailedError, RejectedError, OvertakenError and what `bind` raises, after Unreserve.
        """
        with self._turn, ExitStack() as ending:
            ending.callback(self._end)
            with self._guests("bind") as guests:
                try:
                    self._annotations = guests.reserve(self._profile, self._ledger)
                    waits = guests.permit()
                    guests_stay = not waits and guests.have(*_AFTER_PERMIT)
                    if guests_stay:
                        self._complete(guests)
                except BaseException:
                    guests.unreserve()
                    raise
                if guests_stay:
                    guests.post_bind()
            if waits:
                ending.pop_all()  # A guest that no other pod needs meanwhile goes on with the cycle.
            elif not guests_stay:
                self._finish()  # Other pods need the guests, as those of a group that are bound at once.
            return waits

    def asks_again(self, plugin: str) -> bool:
        """Whether Permit of a plugin is called again when pods or nodes have changed."""
        return any(each.plugin.name == plugin and each.plugin.is_asked_again for each in self._all)

    def permit_again(self, plugin: str, is_over: Callable[[], bool]) -> bool | None:
        """Calls Permit of a plugin again. Returns whether it lets the pod go on; None if it has no free guest.

        Nothing is called once the wait `is_over`. A plugin that has failed where that is ignored lets the pod go on.
        Raises PluginFailedError and RejectedError.
        """
        if not self._turn.acquire(blocking=False):
            return None  # The cycle goes on, and may take long.
        try:
            if is_over():
                return None
            taking_part = next((each for each in self._plugins if each.plugin.name == plugin), None)
            return taking_part is None or self._lets_go_on(taking_part)
        finally:
            self._turn.release()

    def go_on(self) -> None:
        """Calls PreBind, Bind and PostBind, after a wait. Raises what `begin` raises, after Unreserve."""
        with self._turn, ExitStack() as ending:
            ending.callback(self._end)
            self._finish()

    def give_up(self) -> None:
        """Calls Unreserve, after a wait that ended with a rejection."""
        with self._turn, ExitStack() as ending:
            ending.callback(self._end)
            self._unreserve_apart()

    def _lets_go_on(self, profile_plugin: ProfilePlugin) -> bool | None:
        answer = profile_plugin.attempt("bind", self._permit_apart, self.binding.pod)
        if answer is _BUSY:
            return None
        if answer is None:
            self._leave_out(profile_plugin)
        elif answer.status.code is Code.WAIT:
            return False
        else:
            require(profile_plugin, "permit", answer.status)
        return True

    @contextmanager
    def _guests(self, stage: CycleStage) -> Iterator[BindingGuests]:
        """A guest of each plugin that takes part in what comes, as long as the context lasts.

        Raises PluginFailedError.
        """
        with ExitStack() as stack:
            guests = BindingGuests(self.binding, list(self._enter(stage, stack)))
            try:
                yield guests
            finally:
                for seat in guests.seats:
                    if seat.guest.is_broken:
                        self._leave_out(seat.profile_plugin)

    def _enter(self, stage: CycleStage, stack: ExitStack) -> Iterator[Seat]:
        for profile_plugin in self._plugins:
            if stage == "bind" or any(map(profile_plugin.plugin.runs, _AFTER_PERMIT)):
                may_wait = stage == "permit" or profile_plugin.failure_policy is FailurePolicy.FAIL
                guest = profile_plugin.attempt("bind", self._guest, self.binding.pod, stage, stack, may_wait)
                if guest is None:
                    self._leave_out(profile_plugin)
                else:
                    yield Seat(profile_plugin, guest)

    def _guest(self, plugin: Plugin, pod: Pod, stage: CycleStage, stack: ExitStack, may_wait: bool = True) -> Guest:
        """A guest on the pod's cycle, until the stack is closed. Raises GuestError.

        Many pods may be bound at once: those of a group that kube-scheduler places as a whole, or those whose waits
        have ended. If other pods have all guests, a pod that `may_wait` waits for one until the verb's deadline.
        """
        while True:
            try:
                return stack.enter_context(plugin.guest(pod, self.binding.node, stage))[0]
            except GuestError as error:
                is_over = time.monotonic() >= self.binding.deadline
                if error.fault is not Fault.BUSY or is_over or not may_wait:
                    raise

    def _finish(self) -> None:
        """PreBind, Bind and PostBind, with guests of the plugins that have a part in them."""
        is_bound = False
        try:
            with self._guests("permit") as guests:
                self._complete(guests)
                is_bound = True
                guests.post_bind()
        except BaseException:
            if not is_bound:
                self._unreserve_apart()
            raise

    def _complete(self, guests: BindingGuests) -> None:
        """PreBind and Bind."""
        guests.demand("prebind", lambda guest, *at: guest.pre_bind(*at))
        if not guests.bind():
            self._bind(self._annotations)

    def _permit_apart(self, plugin: Plugin, pod: Pod) -> Permission:
        try:
            with plugin.guest(pod, self.binding.node, "permit") as (guest, _):
                return guest.permit(self.binding.node, plugin.deadline())
        except GuestError as error:
            if error.fault is Fault.BUSY:
                return _BUSY
            raise

    def _unreserve_apart(self) -> None:
        """Calls Unreserve of each plugin that takes part, the last first, whatever becomes of the others."""

        def unreserve(plugin: Plugin, pod: Pod) -> None:
            with ExitStack() as stack:
                guest = self._guest(plugin, pod, "permit", stack)
                guest.unreserve(self.binding.node, plugin.deadline())

        for profile_plugin in reversed(self._plugins):
            if profile_plugin.plugin.runs("unreserve"):
                try:
                    profile_plugin.attempt("bind", unreserve, self.binding.pod)
                except PluginFailedError as error:
                    log_failure("unreserve", self.binding.pod, error)

    def _leave_out(self, profile_plugin: ProfilePlugin) -> None:
        self._plugins = [each for each in self._plugins if each is not profile_plugin]

    def _end(self) -> None:
        """Lets the next call for the pod begin a new cycle."""
        for profile_plugin in self._all:
            profile_plugin.plugin.end_cycle(self.binding.pod)
