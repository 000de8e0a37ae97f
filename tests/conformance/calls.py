"""How each export of a guest is called, and the outcome of a call."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from tests.wasm_runtime.world import World, core_guest, world
from wasm_runtime import Fault, Guest, GuestError, ModuleError, Nodes, Plugin
from wasm_runtime.guests.core_guest import CoreGuest
from wasm_runtime.guests.guest import CycleStage

NODE: Final = "node-a"
OBJECT: Final = "NODE-A.."
POD: Final = "THE POD."
TARGET: Final = "TARGETED"

ONE_NODE: Final = world({NODE: OBJECT.encode()}, pod=POD.encode())
"""A pod and a node. Every object has eight bytes."""

Does = Callable[[Plugin], object]
"""Does something with a plugin, and returns its outcome. Raises GuestError."""

ENGINES_WORDS: Final = "…"
"""What each engine says in its own words of a module that it cannot compile. All else is said alike."""
_IN_ITS_WORDS: Final = re.compile("(is no valid WebAssembly module|uses what \\w+ cannot do): (?!begins with).*")


class Failed(NamedTuple):
    """The outcome of a call that raises GuestError."""

    fault: Fault
    message: str
    fatal: bool


class Refused(NamedTuple):
    """The outcome of a module that raises ModuleError."""

    problems: list[str]


def failed(fault: Fault, message: str) -> Failed:
    """A failure that is as fatal as its fault."""
    return Failed(fault, message, fault.is_fatal)


def attempt(does: Callable[[], object]) -> object:
    """What `does` returns; Failed or Refused for an error that it raises."""
    try:
        return does()
    except GuestError as error:
        return Failed(error.fault, str(error), error.fatal)
    except ModuleError as error:
        return Refused([_IN_ITS_WORDS.sub(ENGINES_WORDS, problem) for problem in error.problems])


def _pre_filter(guest: Guest, *_: object) -> object:
    return guest.pre_filter


def scores(guest: Guest, nodes: Nodes, deadline: float) -> list[int] | None:
    """The score of each node; None if PreScore says Skip."""
    found = guest.score(nodes, deadline)
    return None if found is None else list(found)


def _add_pod(guest: Guest, nodes: Nodes, deadline: float) -> None:
    guest.add_pod(TARGET.encode(), nodes, deadline)


def _remove_pod(guest: Guest, nodes: Nodes, deadline: float) -> None:
    guest.remove_pod(TARGET.encode(), nodes, deadline)


STEPS: Final[dict[str, tuple[CycleStage, Callable[[CoreGuest, Nodes, float], object]]]] = {
    "prefilter": ("filter", _pre_filter),
    "addpod": ("preempt", _add_pod),
    "removepod": ("preempt", _remove_pod),
    "filter": ("filter", CoreGuest.filter),
    "postfilter": ("postFilter", CoreGuest.post_filter),
    "prescore": ("score", scores),
    "score": ("score", scores),
    "normalizescore": ("score", scores),
    "reserve": ("bind", CoreGuest.reserve),
    "bindingannotations": ("bind", CoreGuest.binding_annotations),
    "unreserve": ("bind", CoreGuest.unreserve),
    "permit": ("bind", CoreGuest.permit),
    "prebind": ("bind", CoreGuest.pre_bind),
    "bind": ("bind", CoreGuest.bind),
    "postbind": ("bind", CoreGuest.post_bind),
}
"""The stage of a cycle in which each export is called, and what calls it. A plugin's constructor calls enqueue."""


def calls(*exports: str, at: World = ONE_NODE, stage: CycleStage | None = None) -> Does:
    """Calls exports in one stage, by default that of the first, for a pod and nodes. The last one gives the outcome."""

    def does(plugin: Plugin) -> object:
        if exports == ("enqueue",):
            return plugin.cluster_events
        with plugin.guest(at.pod, at.nodes, stage or STEPS[exports[0]][0]) as (guest, deadline):
            return [STEPS[export][1](core_guest(guest), at.nodes, deadline) for export in exports][-1]

    return does


def one_by_one(does: Sequence[Does]) -> Does:
    """Does several things in turn, failures among them. The outcomes in a list."""

    def all_of_it(plugin: Plugin) -> list[object]:
        return [attempt(lambda: step(plugin)) for step in does]  # noqa: B023 (called at once)

    return all_of_it


def in_turn(does: Sequence[Does]) -> Does:
    """Does several things in turn. Nothing comes of it."""

    def all_of_it(plugin: Plugin) -> None:
        for step in does:
            step(plugin)

    return all_of_it
