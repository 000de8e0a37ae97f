"""Which of the revisions that have served are kept to go back to."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence, Set
from typing import NamedTuple

from extender.rollouts.revision import Revision
from extender.rollouts.slot import Slot


class Served(NamedTuple):
    """What has served in one place."""

    revisions: Sequence[Revision]
    """The newest first."""
    needed: Set[str]
    """The modules that are kept, whatever they take."""


def trim(slots: Sequence[Slot], size: Callable[[str], int], limit: int) -> list[Slot]:
    """Lets the oldest revisions go whose modules, of `size` bytes, take more than `limit`; those that have changed."""
    kept = within(limit, [Served(slot.revisions, _needed(slot)) for slot in slots], size)
    changed = [slot for slot, revisions in zip(slots, kept, strict=True) if len(revisions) < len(slot.revisions)]
    for slot, revisions in zip(slots, kept, strict=True):
        slot.revisions = revisions
    return changed


def within(limit: int, places: Sequence[Served], size: Callable[[str], int]) -> list[list[Revision]]:
    """The revisions of each place to keep: those that are needed, then the newest of each, then the next ones.

    A module that several have is counted once. Where one has no room, none that is older in its place is kept for its
    own sake.
    """
    modules = set[str]().union(*(place.needed for place in places))
    left = limit - sum(map(size, modules))
    full: set[int] = set()
    for depth in range(max((len(place.revisions) for place in places), default=0)):
        for number, place in enumerate(places):
            module = place.revisions[depth].module if depth < len(place.revisions) else None
            if module is None or module in modules or number in full:
                continue
            if size(module) > left:
                full.add(number)
            else:
                modules.add(module)
                left -= size(module)
    return [[each for each in place.revisions if each.module in modules] for place in places]


def _needed(slot: Slot) -> Set[str]:
    """The modules of what serves, of what comes back by itself, and of what a rollback leads to."""
    ids = [each.id for each in slot.revisions]
    at = ids.index(slot.live.revision.id) if slot.live and slot.live.revision.id in ids else -1
    lives: Iterable[Revision] = (live.revision for live in (slot.live, slot.standby) if live)
    return {each.module for each in (*lives, *slot.revisions[at + 1 : at + 2])}
