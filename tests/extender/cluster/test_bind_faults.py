"""Whatever goes wrong between us and an API server, a bind is a success only if the pod is on the node."""

from __future__ import annotations

import asyncio
import gzip
import json
import random
import re
import socket
import struct
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import NamedTuple

import pytest

from bench.controlplane.ports import free_port
from bench.peers.kubeconfig import write_kubeconfig
from extender.cluster import ApiBinder, ApiServer, BindError, PodKey
from extender.cluster import binder as binder_module
from extender.cluster.binder import UNKNOWN
from extender.cluster.client.api import MAX_OBJECT_BYTES, MAX_REFUSAL_BYTES
from tests.extender.cluster.scripted import Behaviour, Received, drip, hang_up, read_request, say_nothing

POD = PodKey("default", "web-0", "1f0c")
NODE, OTHER = "node-1", "node-2"
TIMEOUT_S = 0.8
PATIENT_S = 20.0
CASE_TIMEOUT_S = 60.0
BRACKETS = b"[" * 200_000
UNREAD = Received("", "", {}, b"")


class Truth:
    """The pod, as the API server has it."""

    def __init__(self) -> None:
        self.node: str | None = None
        self.exists = True

    def bind(self, request: Received) -> tuple[int, Mapping[str, object]]:
        """Carries a Binding out as an API server does, and answers it."""
        binding = json.loads(request.body)
        assert binding["metadata"]["uid"] == POD.uid
        if not self.exists:
            return 404, {"status": "Failure", "message": 'pods "web-0" not found'}
        if self.node:
            message = f'Operation cannot be fulfilled: pod web-0 is already assigned to node "{self.node}"'
            return 409, {"status": "Failure", "message": message}
        self.node = binding["target"]["name"]
        return 201, {"status": "Success", "metadata": {}}


class Fault(NamedTuple):
    """Something that goes wrong with a bind."""

    name: str
    behave: Behaviour
    """What comes instead of the server's answer."""
    cause: str
    """What a bind says that meets nothing else; a pattern, in which URL stands for the server's."""
    passes: bool = True
    """Whether another attempt is made."""
    is_open: bool = True
    """Whether the request may have been carried out, for all that the client can know."""
    is_early: bool = False
    """Whether it comes before the request was read."""


def http(status: int, body: bytes = b"", *headers: str, length: int | None = None) -> bytes:
    """An answer, of which `length` bytes are promised."""
    lines = [f"HTTP/1.1 {status} Scripted", f"Content-Length: {len(body) if length is None else length}"]
    return "\r\n".join([*lines, "Connection: close", *headers, "", ""]).encode() + body


def sends(data: bytes) -> Behaviour:
    """Sends bytes, and closes."""

    async def behave(_: Received, writer: asyncio.StreamWriter) -> None:
        writer.write(data)
        await writer.drain()

    return behave


def stalls(data: bytes) -> Behaviour:
    """Sends bytes, and no more."""

    async def behave(request: Received, writer: asyncio.StreamWriter) -> None:
        writer.write(data)
        await say_nothing(request, writer)

    return behave


async def resets(_: Received, writer: asyncio.StreamWriter) -> None:
    """Cuts the connection as a crash does."""
    connection = writer.get_extra_info("socket")
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()


def refuses(code: int, message: str, *headers: str) -> Behaviour:
    """Answers with a Status of a failure."""
    status = {"kind": "Status", "status": "Failure", "message": message, "code": code}
    return sends(http(code, json.dumps(status).encode(), *headers))


ASKED = "create pods/binding: "
NO_ANSWER = ASKED + "no answer of URL within 0.[0-9]+ s"
CUT = ASKED + "URL gave no whole answer: .+"
NO_SUCCESS = ASKED + "URL sent a success that is none: '{}'; look what stands before the API server"
ANSWERED = ASKED + "URL answered {}: {}"
BOMB = gzip.compress(bytes(64 * 1024 * 1024))
FAILURE = b'{"kind":"Status","status":"Failure","message":"admission webhook: no"}'
SUCCESS = b'{"kind":"Status","status":"Success"}'
HTML = b"<html>Sign in</html>"

RESET = Fault("reset", resets, CUT)
PAGE = Fault("404 of a proxy", sends(http(404, HTML)), ANSWERED.format(404, HTML.decode()), False, False)

FAULTS = [
    Fault("reset before the request", resets, CUT, is_early=True),
    RESET,
    Fault("hang up", hang_up, CUT),
    Fault("silence", say_nothing, NO_ANSWER),
    Fault("half a head", sends(b"HTTP/1.1 201 Cre"), CUT),
    Fault("half a head, then silence", stalls(b"HTTP/1.1 201 Cre"), NO_ANSWER),
    Fault("half a body", sends(http(201, SUCCESS[:9], length=len(SUCCESS))), CUT),
    Fault("half a body, then silence", stalls(http(201, SUCCESS[:9], length=len(SUCCESS))), NO_ANSWER),
    Fault("dripping head", drip(b"HTTP/1.1 201 Created\r\nX-Drip: ", b"x"), NO_ANSWER),
    Fault("dripping body", drip(http(201, length=10_000), b" "), NO_ANSWER),
    Fault("continues for ever", drip(b"", b"HTTP/1.1 100 Continue\r\n\r\n"), NO_ANSWER),
    Fault("no HTTP", sends(b"SSH-2.0-OpenSSH_9.9\r\n"), CUT),
    Fault("200 KB of headers", sends(http(201, SUCCESS, f"X-Much: {'x' * 200_000}")), CUT),
    Fault("two lengths", sends(http(201, SUCCESS, "Content-Length: 7")), CUT),
    Fault("a broken chunk", sends(b"HTTP/1.1 201 Created\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n"), CUT),
    Fault("500", refuses(500, "etcdserver: request timed out"), ANSWERED.format(500, "etcdserver: request timed out")),
    Fault("503", sends(http(503, b"starting")), ANSWERED.format(503, "starting")),
    Fault("504 without a word", sends(http(504)), ANSWERED.format(504, "Scripted")),
    Fault("500 with 200,000 brackets", sends(http(500, BRACKETS)), ANSWERED.format(500, r"\[{300}")),
    Fault("500 without end", sends(http(500, bytes(2 * MAX_REFUSAL_BYTES))), ANSWERED.format(500, "\0{300}")),
    Fault("500 as a bomb", sends(http(500, BOMB, "Content-Encoding: gzip")), ANSWERED.format(500, "(?s:.+)")),
    Fault("500 of nonsense", sends(http(500, b"k8s\0\xff")), ANSWERED.format(500, "k8s\0\N{REPLACEMENT CHARACTER}")),
    Fault("200 with HTML", sends(http(200, HTML)), NO_SUCCESS.format(HTML.decode()), passes=False),
    Fault("200 without a word", sends(http(200)), NO_SUCCESS.format(""), passes=False),
    Fault("204", sends(b"HTTP/1.1 204 No Content\r\n\r\n"), NO_SUCCESS.format(""), passes=False),
    Fault("200 with a failure", sends(http(200, FAILURE)), NO_SUCCESS.format("admission webhook: no"), passes=False),
    Fault("200 with a pod", sends(http(200, b'{"kind":"Pod"}')), NO_SUCCESS.format('{"kind":"Pod"}'), passes=False),
    Fault("200 with 200,000 brackets", sends(http(200, BRACKETS)), NO_SUCCESS.format(r"\[{300}"), passes=False),
    Fault("200 as a bomb", sends(http(200, BOMB, "Content-Encoding: gzip")), NO_SUCCESS.format(".+"), passes=False),
    Fault("200 of nonsense", sends(http(200, b"k8s\0\xff")), NO_SUCCESS.format(r"k8s\\x00."), passes=False),
    Fault(
        "200 without end",
        sends(http(200, bytes(MAX_OBJECT_BYTES + 1))),
        ASKED + f"URL answers with more than {MAX_OBJECT_BYTES} bytes",
        passes=False,
    ),
    Fault(
        "307", sends(http(307, b"", "Location: http://127.0.0.1:1/")), ANSWERED.format(307, "Scripted"), False, False
    ),
    Fault(
        "302 to a login", sends(http(302, HTML, "Location: /login")), ANSWERED.format(302, HTML.decode()), False, False
    ),
    Fault("302 to no URL", sends(http(302, b"", "Location: data:,x")), CUT),
    Fault(
        "401",
        refuses(401, "Unauthorized"),
        ANSWERED.format(401, "Unauthorized; the credentials are missing, wrong or expired: renew those of .+"),
        False,
        False,
    ),
    Fault(
        "403",
        refuses(403, "forbidden"),
        ANSWERED.format(403, "forbidden; RBAC must allow the verb create on pods/binding"),
        False,
        False,
    ),
    Fault("404", refuses(404, "not found"), "the pod is gone: not found", False, False),
    PAGE,
    Fault("409 of a proxy", sends(http(409, HTML)), ANSWERED.format(409, HTML.decode()), False, False),
    Fault(
        "404 of a proxy in JSON",
        sends(http(404, b'{"message":"no route"}')),
        ANSWERED.format(404, '{"message":"no route"}'),
        False,
        False,
    ),
    Fault(
        "409 for the UID",
        refuses(409, "Precondition failed: UID in precondition"),
        "the pod is not waiting for a node any more: Precondition failed: UID in precondition",
        False,
        False,
    ),
    Fault("422", refuses(422, "invalid"), ANSWERED.format(422, "invalid"), False, False),
    Fault(
        "429",
        refuses(429, "too many requests", "Retry-After: 1"),
        ANSWERED.format(429, "too many requests"),
        True,
        False,
    ),
]
"""Those that are not open say that the request was not carried out, and are right."""


class Step(NamedTuple):
    """What happens to one request."""

    fault: Fault | None
    is_carried_out: bool
    """Before the fault; always without one."""
    meanwhile: str | None = None
    """What happens to the pod beforehand: `deleted`, or the node that another scheduler binds it to."""


class FaultyServer:
    """An API server with one pod, which plays a step a request, the last one again and again."""

    def __init__(self, steps: Sequence[Step]) -> None:
        self.truth = Truth()
        self._steps = list(steps)
        self._tasks: set[asyncio.Task[None] | None] = set()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serves a connection, which has one request."""
        self._tasks.add(asyncio.current_task())
        step = self._steps.pop(0) if len(self._steps) > 1 else self._steps[0]
        try:
            await self._answer(step, reader, writer)
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass  # The client has had enough, or the case is over.
        finally:
            self._tasks.discard(asyncio.current_task())
            writer.close()

    async def _answer(self, step: Step, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if step.fault and step.fault.is_early:
            await step.fault.behave(UNREAD, writer)
            return
        request = await read_request(reader)
        if step.meanwhile == "deleted":
            self.truth.exists = False
        elif step.meanwhile and not self.truth.node:
            self.truth.node = step.meanwhile
        if step.fault is None:
            code, status = self.truth.bind(request)
            await sends(http(code, json.dumps({"kind": "Status", **status}).encode()))(request, writer)
            return
        if step.is_carried_out:
            self.truth.bind(request)
        await step.fault.behave(request, writer)

    def stop(self) -> None:
        """Ends what is under way."""
        for task in self._tasks:
            if task:
                task.cancel()


@asynccontextmanager
async def binder(url: str, directory: Path, timeout: float) -> AsyncIterator[ApiBinder]:
    """A binder of a server."""
    directory.mkdir(exist_ok=True)
    api = ApiServer.from_kubeconfig(write_kubeconfig(directory / "config", {"server": url}))
    try:
        yield ApiBinder(api, timeout)
    finally:
        await api.aclose()


async def bound(directory: Path, *steps: Step, timeout: float = TIMEOUT_S) -> tuple[str | None, Truth]:
    """What a bind says that meets these steps, None for a success; and how the pod is afterwards."""
    faulty = FaultyServer(steps)
    server = await asyncio.start_server(faulty.serve, "127.0.0.1", 0)
    host, port = server.sockets[0].getsockname()
    try:
        async with binder(f"http://{host}:{port}", directory, timeout) as binds:
            message = await asyncio.wait_for(_bind(binds), CASE_TIMEOUT_S)
            return message and message.replace(f"http://{host}:{port}", "URL"), faulty.truth
    finally:
        server.close()
        faulty.stop()


async def _bind(binds: ApiBinder) -> str | None:
    try:
        await binds.bind(POD, NODE, {})
    except BindError as error:
        return str(error)
    return None


def lie(message: str | None, truth: Truth) -> str | None:
    """What of the outcome of a bind is not true."""
    is_bound = truth.node == NODE
    if message is None and not is_bound:
        return f"a success, and the pod is on {truth.node}"
    if message and not message.endswith(UNKNOWN) and is_bound and truth.exists:
        return f"the pod is bound, and no word of that: {message}"
    return None


CASES = [
    (fault, done) for fault in FAULTS for done in ([False, True] if fault.is_open and not fault.is_early else [False])
]


@pytest.mark.parametrize(("fault", "done"), CASES, ids=[f"{fault.name}-{done}" for fault, done in CASES])
def test_a_fault_that_stays_is_told_with_its_cause_and_what_is_not_known(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fault: Fault, done: bool
) -> None:
    timeout = TIMEOUT_S
    if fault.cause != NO_ANSWER:
        # However slow the machine is, the first attempt has its answer, and there is no time left for another.
        timeout = PATIENT_S
        monkeypatch.setattr(binder_module, "FIRST_PAUSE_S", 2 * PATIENT_S)
    message, truth = asyncio.run(bound(tmp_path, Step(fault, done), timeout=timeout))
    assert (truth.node == NODE) == done
    cause = fault.cause + (re.escape(UNKNOWN) if fault.is_open else "")
    assert re.fullmatch(f"cannot bind pod default/web-0 to node node-1: {cause}", message or "a success")


def test_a_server_that_is_not_there_has_bound_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(binder_module, "FIRST_PAUSE_S", 2 * PATIENT_S)  # One attempt, which has all the time it needs.

    async def scenario() -> str | None:
        async with binder(f"http://127.0.0.1:{free_port()}", tmp_path, PATIENT_S) as binds:
            return await _bind(binds)

    message = asyncio.run(scenario()) or "a success"
    assert "cannot be reached" in message
    assert UNKNOWN not in message


def test_a_fault_that_passes_ends_in_the_truth(tmp_path: Path) -> None:
    """By another attempt, which succeeds, or learns that the one before did."""

    async def scenario() -> None:
        passing = [(fault, done) for fault, done in CASES if fault.passes]
        outcomes = await asyncio.gather(
            *(
                bound(tmp_path / str(at), Step(fault, done), Step(None, True), timeout=PATIENT_S)
                for at, (fault, done) in enumerate(passing)
                if fault.cause != NO_ANSWER
            )
        )
        assert [(message, truth.node) for message, truth in outcomes] == [(None, NODE)] * len(outcomes)

    asyncio.run(scenario())


def test_a_proxys_page_does_not_say_what_became_of_the_attempt_before(tmp_path: Path) -> None:
    """Only the API server knows whether the pod is gone."""
    message, truth = asyncio.run(bound(tmp_path, Step(RESET, True), Step(PAGE, False), timeout=PATIENT_S))
    assert truth.node == NODE
    assert message == (
        "cannot bind pod default/web-0 to node node-1: create pods/binding: URL answered 404: <html>Sign in</html>"
        "; whether the pod is bound all the same is not known"
    )


def _random_steps(chance: random.Random) -> list[Step]:
    steps = []
    for _ in range(chance.randint(1, 4)):
        fault, done = chance.choice(CASES)
        meanwhile = "deleted" if fault.name == "404" else chance.choice([None, None, None, None, OTHER, "deleted"])
        steps.append(Step(fault, done, meanwhile))
    return [*steps, Step(None, True)] if chance.random() < 0.7 else steps


@pytest.mark.parametrize(
    "cases",
    [
        pytest.param(60, id="short"),
        pytest.param(3_000, id="full", marks=[pytest.mark.nightly, pytest.mark.timeout(1800)]),
    ],
)
def test_no_row_of_faults_makes_a_bind_lie(tmp_path: Path, cases: int) -> None:
    seed = random.randrange(2**32)

    async def case(at: int, gate: asyncio.Semaphore) -> tuple[int, str] | None:
        steps = _random_steps(random.Random(seed + at))
        async with gate:
            found = lie(*await bound(tmp_path / str(at % 1000), *steps))
        row = [(step.fault and step.fault.name, step.is_carried_out, step.meanwhile) for step in steps]
        return (seed + at, f"{found}: {row}") if found else None

    async def scenario() -> list[tuple[int, str]]:
        gate = asyncio.Semaphore(32)
        return [found for found in await asyncio.gather(*(case(at, gate) for at in range(cases))) if found]

    assert asyncio.run(scenario()) == []
