"""The upstream host as a process: built from a checkout, asked by lines on its standard input and output."""

from __future__ import annotations

import base64
import json
import os
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, Final

import msgspec

from bench.inprocess.cycle import Cycle

SOURCE: Final = Path(__file__).parent / "host"


class HostError(RuntimeError):
    """The upstream host cannot be built or does not run; the message has what it wrote."""


def build(checkout: Path, folder: Path) -> Path:
    """Builds the host's program in an empty folder and returns its file.

    What it requires is what the checkout requires: a workspace has both modules, and neither changes. Raises HostError.
    """
    module = checkout.resolve() / "scheduler"
    if not (module / "go.mod").is_file():
        raise HostError(f"{checkout} is no checkout of kube-scheduler-wasm-extension: it has no scheduler/go.mod")
    workspace, program = folder / "go.work", folder / "host"
    workspace.write_text(f"go 1.24.0\n\nuse (\n\t{json.dumps(str(SOURCE))}\n\t{json.dumps(str(module))}\n)\n")
    environment = {**os.environ, "GOWORK": str(workspace), "CGO_ENABLED": "0"}
    command = ["go", "build", "-mod=readonly", "-o", str(program), "."]
    try:
        answer = subprocess.run(command, cwd=SOURCE, env=environment, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        mend = "install Go (https://go.dev/dl/) and put it on PATH"
        raise HostError(f"the upstream host is built from source and `go` was not found: {mend}") from None
    if answer.returncode != 0:
        raise HostError(f"`{' '.join(command)}` failed: {answer.stderr.strip()}")
    return program


class UpstreamHost:
    """A plugin in the upstream host, with one guest and all nodes."""

    def __init__(self, process: subprocess.Popen[bytes], errors: IO[bytes]) -> None:
        self._process = process
        self._errors = errors
        self._line()

    def run(self, pod: bytes) -> Cycle:
        """Puts a pod, a protobuf v1.Pod, through a scheduling cycle. Raises HostError."""
        assert self._process.stdin is not None
        self._process.stdin.write(base64.b64encode(pod) + b"\n")
        self._process.stdin.flush()
        return msgspec.json.decode(self._line(), type=Cycle)

    def _line(self) -> bytes:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            self._process.wait()
            self._errors.seek(0)
            raise HostError(f"the upstream host ended: {self._errors.read().decode(errors='replace').strip()}")
        return line


@contextmanager
def running(program: Path, guest: Path, nodes: Path, argv: Sequence[str]) -> Iterator[UpstreamHost]:
    """The host with a guest and with the nodes in a file, a protobuf v1.NodeList. Raises HostError."""
    command = [str(program), str(guest.resolve()), str(nodes), *argv]
    with (
        TemporaryFile() as errors,
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors) as process,
    ):
        try:
            yield UpstreamHost(process, errors)
        finally:
            process.kill()
