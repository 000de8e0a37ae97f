"""Announcing pods to a guest that keeps them: their objects, or which of them are of which group."""

from __future__ import annotations

import struct
from typing import Final

from wasm_runtime.abi import NO_GROUP, NO_NODE, POD_STREAMS, PodState
from wasm_runtime.pods.pod_table import PlacedPod, PodChanges
from wasm_runtime.pods.record_feed import CURRENT, OUTDATED, RecordFeed

_HEAD: Final = struct.Struct("<4I")
"""A record before its object: pod, node, state, length of the object. That of a member has its group in the end."""


class PodFeed(RecordFeed[PlacedPod]):
    """What one guest knows of the pods of one stream, those on nodes or those without one."""

    subject = "pods"

    def __init__(self, export: str) -> None:
        super().__init__()
        self.export = export
        self._is_on_nodes = POD_STREAMS[export]

    def add(self, changes: PodChanges, position: int) -> None:
        """Notes which changes after `position` of the pod table the guest has yet to learn of."""
        known = self._known
        self._may_be_none = changes.is_complete
        self._make_room(changes.entries)
        for number, placed in changes.pods:
            if placed and (placed.node != NO_NODE) is self._is_on_nodes:
                if known[number] and placed.since > position:
                    known[number] = OUTDATED
                self._note(number, placed)
            else:
                self._note(number, None)

    def _record(self, number: int, entry: PlacedPod | None) -> bytes:
        if entry is None:
            return _HEAD.pack(number, NO_NODE, PodState.GONE, 0)
        object_ = b"" if self._known[number] == CURRENT else entry.pod.object
        head = _HEAD.pack(number, entry.node, entry.state, len(object_))
        return b"".join((head, object_, bytes(-len(object_) % 8)))


class MemberFeed(RecordFeed[PlacedPod]):
    """What one guest knows of the pods that are of a group, wherever they are."""

    export = "memberschanged"
    subject = "members of groups"

    def add(self, changes: PodChanges, _: int) -> None:
        """Notes which changes of the pod table the guest has yet to learn of."""
        self._make_room(changes.entries)
        for number, placed in changes.pods:
            self._note(number, placed if placed and placed.group != NO_GROUP else None)

    def _record(self, number: int, entry: PlacedPod | None) -> bytes:
        if entry is None:
            return _HEAD.pack(number, NO_NODE, PodState.GONE, NO_GROUP)
        return _HEAD.pack(number, entry.node, entry.member_state, entry.group)
