"""An extender of the demonstration's own: a folder, a configuration, a process."""

from __future__ import annotations

import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from http.client import HTTPConnection, HTTPException
from importlib import resources
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import yaml

LOOPBACK: Final = "127.0.0.1"
PORTS: Final = (8888, 8889)
"""Where verbs and admin listen, if nobody else does; free ports otherwise."""
START_TIMEOUT_S: Final = 30.0


class DemoError(Exception):
    """The demonstration cannot go on. `str()` says why."""


class DemoServer:
    """`kwx serve` with the example plugins, without a cluster."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.port, self.admin_port = _ports()
        self.config = folder / "extender.yaml"
        self.log = folder / "extender.log"
        for name in ("accelerator", "nodenumber"):
            shutil.copyfile(example(name), self.module(name))
        self.config.write_text(yaml.safe_dump(self._configuration(), sort_keys=False))

    def module(self, plugin: str) -> Path:
        """The file of a plugin's module."""
        return self.folder / f"{plugin}.wasm"

    @contextmanager
    def running(self) -> Iterator[subprocess.Popen[bytes]]:
        """The process, once it is ready. Raises DemoError."""
        command = [sys.executable, "-m", "extender", "serve", "--config", str(self.config)]
        with self.log.open("wb") as log, subprocess.Popen(command, stdout=log, stderr=log) as process:
            try:
                self._wait(process)
                yield process
            finally:
                process.terminate()

    def _wait(self, process: subprocess.Popen[bytes]) -> None:
        deadline = time.monotonic() + START_TIMEOUT_S
        while not self._is_ready():
            if process.poll() is not None or time.monotonic() > deadline:
                raise DemoError(f"the extender did not start:\n{self.log.read_text()}")
            time.sleep(0.05)

    def _is_ready(self) -> bool:
        with closing(HTTPConnection(LOOPBACK, self.admin_port, timeout=1)) as connection:
            try:
                connection.request("GET", "/readyz")
                return connection.getresponse().status == 200
            except (OSError, HTTPException):
                return False

    def _configuration(self) -> dict[str, object]:
        return {
            "apiVersion": "kwx.dev/v1alpha1",
            "kind": "ExtenderConfiguration",
            "server": {
                "address": f"{LOOPBACK}:{self.port}",
                "adminAddress": f"{LOOPBACK}:{self.admin_port}",
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


def _ports() -> tuple[int, int]:
    if all(map(_is_free, PORTS)):
        return PORTS
    with socket.create_server((LOOPBACK, 0)) as verbs, socket.create_server((LOOPBACK, 0)) as admin:
        return verbs.getsockname()[1], admin.getsockname()[1]


def _is_free(port: int) -> bool:
    try:
        socket.create_server((LOOPBACK, port)).close()
    except OSError:
        return False
    return True
