"""Recordings that are being made of what filter is asked."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Final

import anyio
from anyio.to_thread import run_sync

from extender.admin.auth.followers import Ending
from extender.admin.recording.file_format import EndReason, RecordingWriter
from extender.scheduling.filter_recording import FilterRecording
from extender.scheduling.node_source import NodeSource
from extender.scheduling.request_samples import RequestSamples

MAX_RECORDINGS: Final = 2
"""Recordings that are made at a time."""

MAX_PODS: Final = 10_000
"""Pods of a recording."""

MAX_RECORDING_S: Final = 600
"""Seconds that a recording may take."""

POLL_INTERVAL_S: Final = 0.1
"""Seconds between two pieces of a recording."""


class BusyError(Exception):
    """MAX_RECORDINGS recordings are being made already. `str()` says what to do."""

    def __init__(self) -> None:
        super().__init__(f"{MAX_RECORDINGS} recordings are being made already; end one of them or ask again later")


class OngoingRecording:
    """A recording that is being made: it ends after so many pods, or so many seconds."""

    def __init__(self, requests: FilterRecording, nodes: NodeSource, pods: int, seconds: float) -> None:
        self._requests = requests
        self._writer = RecordingWriter(nodes)
        self._most = pods
        self._seconds = seconds
        self._is_cut_off = False
        self.ended: EndReason | None = None
        """Why the recording ended; None while it goes on, and if it was cut off."""

    def cut_off(self) -> None:
        """Ends the recording soon, without its last record: the client may not have it any more."""
        self._is_cut_off = True

    @property
    def pods(self) -> int:
        """How many pods the recording holds."""
        return self._writer.pods

    async def pieces(self) -> AsyncIterator[bytes]:
        """The bytes of the recording as they come, until one of the limits of EndReason is reached.

        The first piece has the nodes. Requests that are judged after it are recorded. A recording that is cut off has
        no last record.
        """
        requests, writer = self._requests, self._writer
        beginning = await run_sync(writer.begin, requests.profile)
        requests.start(self._most)
        until = time.monotonic() + self._seconds
        yield beginning
        reason: EndReason | None = None
        while not reason:
            await anyio.sleep(min(POLL_INTERVAL_S, max(0.0, until - time.monotonic())))
            if self._is_cut_off:
                return
            reason = "pods" if requests.is_full else "time" if time.monotonic() >= until else None
            if piece := await run_sync(writer.add, requests.take()):
                yield piece
            if writer.is_full:
                reason = "size"
            elif requests.is_gone:
                reason = reason or "gone"
        self.ended = reason
        yield await run_sync(partial(writer.end, reason, requests.dropped))


class Recorders:
    """Makes recordings of what filter is asked. All methods belong to one event loop; threads do the work."""

    def __init__(self, samples: RequestSamples, nodes: NodeSource) -> None:
        self._samples = samples
        self._nodes = nodes
        self._recordings = 0

    @contextmanager
    def recording(
        self, profile: str, pods: int, seconds: float, ending: Ending | None = None
    ) -> Iterator[OngoingRecording]:
        """A recording of a profile's requests, which lasts as long as the context at most; `ending` cuts it off.

        Raises BusyError.
        """
        if self._recordings >= MAX_RECORDINGS:
            raise BusyError
        self._recordings += 1
        with ExitStack() as stack:
            stack.callback(self._release)
            requests = stack.enter_context(self._samples.recording(profile))
            recording = OngoingRecording(requests, self._nodes, pods, seconds)
            if ending:
                stack.callback(ending(recording.cut_off))
            yield recording

    def _release(self) -> None:
        self._recordings -= 1
