"""Servers on loopback that are measured: started, waited for, asked how they are, and ended."""

from __future__ import annotations

import http.client
import ssl
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any, Final, NamedTuple

import yaml

from bench.controlplane.ports import LOOPBACK, free_port
from bench.controlplane.process import leashed
from bench.errors import BenchError

START_TIMEOUT: Final = 120.0
"""Seconds: a module of standard Go takes a quarter of a minute to compile."""
STOP_TIMEOUT: Final = 10.0
ANSWER_TIMEOUT: Final = 30.0
POLL: Final = 0.005
"""Seconds between two looks at whether a server is there."""


class ServerError(BenchError):
    """A server did not start, or does not answer. `str()` ends with what it wrote last."""


class Ports(NamedTuple):
    """Where an extender listens, and the process that does."""

    verbs: int
    admin: int
    process: int
    """The id of the extender's process."""


@contextmanager
def running(
    command: Sequence[str | Path],
    port: int,
    environment: Mapping[str, str] | None = None,
    *,
    says_ready: bool = False,
    tls: ssl.SSLContext | None = None,
) -> Iterator[int]:
    """The id of a process that listens on a port; with `says_ready`, once it answers `/readyz` there.

    `tls` is how `/readyz` is asked, where the port has TLS. Raises ServerError if the process is not there in time.
    """
    with (
        TemporaryFile() as log,
        subprocess.Popen(leashed(command), stderr=log, stdin=subprocess.DEVNULL, env=environment) as process,
    ):
        try:
            if problem := _wait_for(process, lambda: _missing(port, tls, says_ready=says_ready)):
                log.seek(0)
                written = log.read().decode(errors="replace")
                raise ServerError(f"{' '.join(map(str, command))} did not start: {problem}\n{written}")
            yield process.pid
        finally:
            end(process)


def _wait_for(process: subprocess.Popen[bytes], missing: Callable[[], str]) -> str:
    """Waits until nothing is missing. Returns what still is if the process ends before, or START_TIMEOUT is over."""
    deadline = time.monotonic() + START_TIMEOUT
    while problem := missing():
        if process.poll() is not None:
            return f"it ended with status {process.returncode}"
        if time.monotonic() > deadline:
            return problem
        time.sleep(POLL)
    return ""


def end(process: subprocess.Popen[bytes]) -> None:
    """Ends a process, by force if it does not end in time."""
    process.terminate()
    try:
        process.wait(STOP_TIMEOUT)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait(STOP_TIMEOUT)


@contextmanager
def configured(
    folder: Path,
    sections: Mapping[str, object],
    environment: Mapping[str, str] | None = None,
    tls: ssl.SSLContext | None = None,
) -> Iterator[Ports]:
    """An extender of ours, ready, with these sections of a configuration, which is written into a folder.

    `tls` is how its admin address is asked, where that has TLS.
    """
    command, verbs, admin = configure(folder, sections)
    with running(command, admin, environment, says_ready=True, tls=tls) as process:
        yield Ports(verbs, admin, process)


def configure(folder: Path, sections: Mapping[str, Any]) -> tuple[Sequence[str | Path], int, int]:
    """Writes a configuration with these sections; the command that serves it, and the ports of verbs and admin API."""
    verbs, admin = free_port(), free_port()
    server = {"address": f"{LOOPBACK}:{verbs}", "adminAddress": f"{LOOPBACK}:{admin}", "stateDirectory": "state"}
    configuration = {
        "apiVersion": "kwx.dev/v1alpha1",
        "kind": "ExtenderConfiguration",
        **sections,
        "server": {**sections.get("server", {}), **server},
    }
    file = folder / "extender.yaml"
    file.write_text(yaml.safe_dump(configuration))
    return [sys.executable, "-m", "extender", "serve", "--config", file], verbs, admin


def listens(port: int) -> bool:
    """Whether the port answers."""
    connection = http.client.HTTPConnection(LOOPBACK, port, timeout=1)
    try:
        connection.connect()
    except OSError:
        return False
    connection.close()
    return True


def _missing(port: int, tls: ssl.SSLContext | None, *, says_ready: bool) -> str:
    """Why a server on a port is not ready yet; empty if it is."""
    if not listens(port):
        return f"nothing listens on port {port}"
    if not says_ready:
        return ""
    try:
        status, content = get(port, "/readyz", tls)
    except ServerError as error:
        return str(error)
    return "" if status == http.client.OK else f"port {port} is not ready: {content}"


def get(port: int, path: str, tls: ssl.SSLContext | None = None) -> tuple[int, str]:
    """Status and text of the answer to a GET. Raises ServerError."""
    try:
        with closing(_connection(port, tls)) as connection:
            connection.request("GET", path)
            answer = connection.getresponse()
            return answer.status, answer.read().decode()
    except (OSError, http.client.HTTPException) as error:
        raise ServerError(f"port {port} does not answer {path}: {error}") from error


def _connection(port: int, tls: ssl.SSLContext | None) -> http.client.HTTPConnection:
    if tls is None:
        return http.client.HTTPConnection(LOOPBACK, port, timeout=ANSWER_TIMEOUT)
    return http.client.HTTPSConnection(LOOPBACK, port, timeout=ANSWER_TIMEOUT, context=tls)
