"""Pods that wait on Permit."""

from __future__ import annotations

import threading
from typing import NamedTuple

from wasm_runtime.guests.guest import Pod


class _Wait(NamedTuple):
    pod: Pod
    rejected: threading.Event


class WaitingPods:
    """All pods that wait: the part of `framework.Handle` by which guests see and reject them.

    May be used from any thread.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waits: dict[str, _Wait] = {}
        self._closed = False

    def wait(self, pod: Pod, seconds: float) -> bool:
        """Lets a pod wait. Returns whether it was rejected before that time was over."""
        wait = _Wait(pod, threading.Event())
        with self._lock:
            if self._closed:
                return True
            self._waits[pod.uid] = wait
        try:
            return wait.rejected.wait(max(0.0, seconds))
        finally:
            with self._lock:
                if self._waits.get(pod.uid) is wait:
                    del self._waits[pod.uid]

    def close(self) -> None:
        """Rejects all pods that wait, and all that are to wait from now on."""
        with self._lock:
            self._closed = True
            for wait in self._waits.values():
                wait.rejected.set()

    def waiting_pod(self, uid: str, /) -> bytes | None:
        """The pod that waits, a protobuf v1.Pod; None if none of that UID does."""
        wait = self._find(uid)
        return wait.pod.object if wait else None

    def reject_waiting_pod(self, uid: str, /) -> bool:
        """Ends a pod's wait with a rejection. False if none of that UID waits."""
        wait = self._find(uid)
        if wait:
            wait.rejected.set()
        return wait is not None

    def _find(self, uid: str) -> _Wait | None:
        with self._lock:
            return self._waits.get(uid)
