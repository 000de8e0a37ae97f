"""An extender of the demonstration's own: a folder, a configuration, a process."""

from __future__ import annotations

import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from http.client import HTTPConnection, HTTPException
from importlib import resources
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final
from urllib.parse import urlsplit

import msgspec
import yaml

LOOPBACK: Final = "127.0.0.1"
PORTS: Final = (8888, 8889)
"""The ports of verbs and admin, if both are free."""
FREE_PORTS: Final = (0, 0)
"""Ports that the system chooses."""
START_TIMEOUT_S: Final = 30.0


class DemoError(Exception):
    """The demonstration cannot go on. `str()` says why."""


class DemoServer:
    """`kwx serve` with the example plugins, without a cluster."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.port = self.admin_port = 0
        """Where the server listens, once it runs."""
        self.config = folder / "extender.yaml"
        self.log = folder / "extender.log"
        for name in ("accelerator", "nodenumber"):
            shutil.copyfile(example(name), self.module(name))

    def module(self, plugin: str) -> Path:
        """The file of a plugin's module."""
        return self.folder / f"{plugin}.wasm"

    @contextmanager
    def running(self) -> Iterator[subprocess.Popen[bytes]]:
        """The process, once it is ready. Raises DemoError."""
        with ExitStack() as stack:
            process = stack.enter_context(self._begun(PORTS if all(map(_is_free, PORTS)) else FREE_PORTS))
            if not self._comes_up(process):  # Another process may have taken the ports since.
                process = stack.enter_context(self._begun(FREE_PORTS))
                if not self._comes_up(process):
                    raise self._failure()
            yield process

    @contextmanager
    def _begun(self, ports: Sequence[int]) -> Iterator[subprocess.Popen[bytes]]:
        self.config.write_text(yaml.safe_dump(self._configuration(*ports), sort_keys=False))
        command = [sys.executable, "-m", "extender.commands.demo.child", str(self.config)]
        with (
            self.log.open("wb") as log,
            subprocess.Popen(command, stdin=subprocess.PIPE, stdout=log, stderr=log) as process,
        ):
            try:
                yield process
            finally:
                process.terminate()

    def _comes_up(self, process: subprocess.Popen[bytes]) -> bool:
        """Waits until the server is ready; False if the process ends before. Raises DemoError after START_TIMEOUT_S."""
        deadline = time.monotonic() + START_TIMEOUT_S
        while not self._is_ready():
            if process.poll() is not None:
                return False
            if time.monotonic() > deadline:
                raise self._failure()
            time.sleep(0.05)
        return True

    def _is_ready(self) -> bool:
        """Whether the server is ready, at the ports that its log names: another process may have the wanted ones."""
        lines = [line for line in self.log.read_bytes().splitlines(keepends=True) if line.startswith(b"{")]
        logged = [msgspec.json.decode(line) for line in lines if line.endswith(b"\n")]
        serving = next((each for each in logged if each["event"] == "serving"), None)
        if serving is None:
            return False
        self.port, self.admin_port = (urlsplit(serving[name]).port or 0 for name in ("verbs", "admin"))
        with closing(HTTPConnection(LOOPBACK, self.admin_port, timeout=1)) as connection:
            try:
                connection.request("GET", "/readyz")
                return connection.getresponse().status == 200
            except (OSError, HTTPException):
                return False

    def _failure(self) -> DemoError:
        return DemoError(f"the extender did not start:\n{self.log.read_text()}")

    def _configuration(self, port: int, admin_port: int) -> dict[str, object]:
        return {
            "apiVersion": "kwx.dev/v1alpha1",
            "kind": "ExtenderConfiguration",
            "server": {
                "address": f"{LOOPBACK}:{port}",
                "adminAddress": f"{LOOPBACK}:{admin_port}",
                "stateDirectory": str(self.folder / "state"),
            },
            "cluster": {"mode": "dry-run"},
            "profiles": [
                {
                    "name": "default",
                    "plugins": [
                        {"name": "accelerator", "guestURL": "file://./accelerator.wasm"},
                        {"name": "nodenumber", "guestURL": "file://./nodenumber.wasm"},
                    ],
                }
            ],
        }


@contextmanager
def demo_server() -> Iterator[DemoServer]:
    """A server in a folder that is gone afterwards."""
    with TemporaryDirectory(prefix="kwx-run-") as folder:
        yield DemoServer(Path(folder))


def example(name: str) -> Path:
    """The module of an example plugin."""
    return Path(str(resources.files("extender") / "examples" / f"{name}.wasm"))


def _is_free(port: int) -> bool:
    try:
        socket.create_server((LOOPBACK, port)).close()
    except OSError:
        return False
    return True
