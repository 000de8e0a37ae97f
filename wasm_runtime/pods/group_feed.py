"""Announcing groups to a guest that keeps them."""

from __future__ import annotations

import struct
from typing import Final

from wasm_runtime.abi import PodState
from wasm_runtime.pods.group_table import GroupChanges, NumberedGroup
from wasm_runtime.pods.record_feed import RecordFeed

_HEAD: Final = struct.Struct("<5IiQ2I")
"""A record before the names: group, state, source, minimum, timeout, priority, creation, lengths of both names."""


class GroupFeed(RecordFeed[NumberedGroup]):
    """What one guest knows of the groups."""

    export = "groupschanged"
    subject = "groups"

    def add(self, changes: GroupChanges) -> None:
        """Notes which changes of the group table the guest has yet to learn of."""
        self._make_room(changes.entries)
        for number, entry in changes.groups:
            self._note(number, entry)

    def _record(self, number: int, entry: NumberedGroup | None) -> bytes:
        if entry is None:
            return _HEAD.pack(number, PodState.GONE, 0, 0, 0, 0, 0, 0, 0)
        (source, *names), group = entry
        namespace, name = (text.encode() for text in names)
        head = _HEAD.pack(number, PodState.THERE, source, *group, len(namespace), len(name))
        return b"".join((head, namespace, name, bytes(-(len(namespace) + len(name)) % 8)))
