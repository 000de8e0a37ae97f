"""Those who record the traffic."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Final

import anyio
from anyio.to_thread import run_sync

from extender.admin.auth.followers import Ending
from extender.admin.recording.file_format import RecordingWriter, Why
from extender.scheduling.filter_recording import FilterRecording
from extender.scheduling.node_source import NodeSource
from extender.scheduling.request_samples import RequestSamples

MAX_RECORDINGS: Final = 2
"""Recordings at a time."""

MAX_PODS: Final = 10_000
MAX_RECORDING_S: Final = 600
"""Pods and seconds of a recording."""

POLL_INTERVAL_S: Final = 0.1
"""Seconds between two looks at what has come."""


class BusyError(Exception):
    """There is no room for another recording. `str()` says what to do."""

    def __init__(self) -> None:
        super().__init__(f"{MAX_RECORDINGS} recordings are being made already; end one of them or ask again later")


class OngoingRecording:
    """One that is being made."""

    def __init__(self, requests: FilterRecording, nodes: NodeSource, pods: int, seconds: float) -> None:
        self._requests = requests
        self._writer = RecordingWriter(nodes)
        self._most = pods
        self._seconds = seconds
        self._is_cut_off = False
        self.ended: Why | None = None
        """What was reached; None as long as nothing was, also if it was cut off."""

    def cut_off(self) -> None:
        """Has it end soon, as it is: who asked for it may not have it any more."""
        self._is_cut_off = True

    @property
    def pods(self) -> int:
        """How many it holds."""
        return self._writer.pods

    async def pieces(self) -> AsyncIterator[bytes]:
        """Its bytes as they come, until as many pods have come as are wanted, the time is up or the profile is gone.

        One that is cut off has no end.

        With the first piece it begins: the nodes have been written, and what is judged from then on is taken.
        """
        requests, writer = self._requests, self._writer
        beginning = await run_sync(writer.begin, requests.profile)
        requests.start(self._most)
        until = time.monotonic() + self._seconds
        yield beginning
        why: Why | None = None
        while not why:
            await anyio.sleep(min(POLL_INTERVAL_S, max(0.0, until - time.monotonic())))
            if self._is_cut_off:
                return
            why = "pods" if requests.is_full else "time" if time.monotonic() >= until else None
            if piece := await run_sync(writer.add, requests.take()):
                yield piece
            if writer.is_full:
                why = "size"
            elif requests.is_gone:
                why = why or "gone"
        self.ended = why
        yield await run_sync(partial(writer.end, why, requests.dropped))


class Recorders:
    """Makes recordings of what filter is asked. Of one event loop; the work is done in threads beside it."""

    def __init__(self, samples: RequestSamples, nodes: NodeSource) -> None:
        self._samples = samples
        self._nodes = nodes
        self._recordings = 0

    @contextmanager
    def recording(
        self, profile: str, pods: int, seconds: float, ending: Ending | None = None
    ) -> Iterator[OngoingRecording]:
        """A recording of a profile, for whoever takes its pieces while the context lasts; `ending` cuts it off.

        Raises BusyError.
        """
        if self._recordings >= MAX_RECORDINGS:
            raise BusyError
        self._recordings += 1
        try:
            with self._samples.recording(profile) as requests:
                recording = OngoingRecording(requests, self._nodes, pods, seconds)
                take_back = ending(recording.cut_off) if ending else None
                try:
                    yield recording
                finally:
                    if take_back:
                        take_back()
        finally:
            self._recordings -= 1
