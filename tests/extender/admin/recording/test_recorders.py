"""Those who record the traffic, without a server."""

from __future__ import annotations

import asyncio
import gzip
from contextlib import ExitStack

import anyio
import msgspec
import pytest

from extender.admin.recording import file_format
from extender.admin.recording.file_format import EndedRecord
from extender.admin.recording.recorders import MAX_RECORDINGS, BusyError, Recorders
from extender.scheduling.node_source import NodeSource
from extender.scheduling.request_samples import RequestSamples
from extender.scheduling.requests import Candidates
from extender.scheduling.sample import Sample
from wasm_runtime.guests.guest import Pod
from wasm_runtime.nodes.node_table import NodeTable

ASKED = Candidates(["node-1"])
SAMPLE = Sample("filter", Pod("uid", "default/web", b""), ASKED.names)


@pytest.fixture
def samples() -> RequestSamples:
    return RequestSamples()


@pytest.fixture
def recorders(samples: RequestSamples) -> Recorders:
    return Recorders(samples, NodeSource(None, NodeTable()))


def test_a_recording_that_is_large_enough_ends(
    samples: RequestSamples, recorders: Recorders, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(file_format, "END_AT_BYTES", 1)

    async def story() -> bytes:
        with recorders.recording("default", pods=100, seconds=60) as recording:
            pieces = recording.pieces()
            content = await anext(pieces)
            samples.record("default", SAMPLE, ASKED)
            content += b"".join([piece async for piece in pieces])
            assert (recording.pods, recording.ended) == (0, "size")
            return content

    assert gzip.decompress(asyncio.run(story())).endswith(msgspec.msgpack.encode(EndedRecord("size", 0)))


def test_a_recording_of_a_profile_that_is_gone_ends(samples: RequestSamples, recorders: Recorders) -> None:
    async def story() -> tuple[int, str | None]:
        with recorders.recording("default", pods=3, seconds=60) as recording:
            pieces = recording.pieces()
            await anext(pieces)
            samples.record("default", SAMPLE, ASKED)
            samples.retain({"other"})
            with anyio.fail_after(20):
                async for _ in pieces:
                    pass
        return recording.pods, recording.ended

    assert asyncio.run(story()) == (1, "gone")


def test_so_many_are_made_at_a_time(recorders: Recorders) -> None:
    with ExitStack() as made:
        for _ in range(MAX_RECORDINGS):
            made.enter_context(recorders.recording("default", pods=1, seconds=60))
        with pytest.raises(BusyError) as caught, recorders.recording("default", pods=1, seconds=60):
            pytest.fail("one more has begun")
    assert (
        str(caught.value) == f"{MAX_RECORDINGS} recordings are being made already; end one of them or ask again later"
    )
    with recorders.recording("default", pods=1, seconds=60):
        pass


def test_nothing_is_taken_any_more_when_it_is_over(samples: RequestSamples, recorders: Recorders) -> None:
    async def story() -> tuple[int, str | None]:
        with recorders.recording("default", pods=3, seconds=0.3) as recording:
            pieces = recording.pieces()
            await anext(pieces)
            samples.record("default", SAMPLE, ASKED)
        samples.record("default", SAMPLE, ASKED)
        async for _ in pieces:
            pass
        return recording.pods, recording.ended

    assert asyncio.run(story()) == (1, "time")
