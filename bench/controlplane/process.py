"""A server that this process starts, waits for, and ends; it never outlives us."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeAlias

import httpx

from .gobuild import log_tail

Command: TypeAlias = Sequence[str | Path]

LAUNCHER = Path(__file__).with_name("launcher.py")
POLL_INTERVAL_S = 0.05
PROBE_TIMEOUT_S = 2.0
STOP_TIMEOUT_S = 10.0


class ControlPlaneError(RuntimeError):
    """A part of the control plane died, was late, or refused; the message ends with what it said last."""


class Process:
    """A started program in a process group of its own, with its output in a log file.

    On Linux the kernel kills it when the *thread* that started it ends: start it from one that lives as
    long as the program should.
    """

    def __init__(self, name: str, command: Command, directory: Path) -> None:
        """Start `command`, whose first item is an absolute path; its home and its log are in `directory`."""
        self.name = name
        self.log = directory / f"{name}.log"
        self._is_stopped = False
        with self.log.open("wb") as output:
            self._popen = subprocess.Popen(
                leashed(command),
                cwd=directory,
                env=isolated_environment(directory),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    @property
    def pid(self) -> int:
        """The process id, which is the group's too."""
        return self._popen.pid

    @property
    def alive(self) -> bool:
        """Whether the program still runs."""
        return self._popen.poll() is None

    def check(self) -> None:
        """Raise ControlPlaneError where the program has ended before anybody called `stop`."""
        if not self.alive and not self._is_stopped:
            status = self._popen.returncode
            raise ControlPlaneError(f"{self.name} ended with status {status}:\n{log_tail(self.log)}")

    def wait_until(self, ready: Callable[[], bool], timeout: float) -> None:
        """Wait at most `timeout` seconds for `ready`; raises ControlPlaneError when late or when it died."""
        if not comes_true(ready, self.check, timeout):
            raise ControlPlaneError(f"{self.name} was not ready in {timeout:g} s:\n{log_tail(self.log)}")

    def kill(self) -> None:
        """End the program as a crash does."""
        self._is_stopped = True
        if self.alive:
            os.killpg(self.pid, signal.SIGKILL)
            self._popen.wait(STOP_TIMEOUT_S)

    def stop(self) -> None:
        """End the program: SIGTERM, and SIGKILL after STOP_TIMEOUT_S. Nobody minds any more if it has ended before."""
        self._is_stopped = True
        for signal_number in (signal.SIGTERM, signal.SIGKILL):
            # An unreaped child keeps its process id, so while `alive` says yes the group is surely ours.
            if not self.alive:
                return
            os.killpg(self.pid, signal_number)
            try:
                self._popen.wait(STOP_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                continue


def leashed(command: Command) -> list[str]:
    """A command, by absolute path, that the kernel ends when the thread that started it ends (on Linux)."""
    return [sys.executable, "-I", "-S", str(LAUNCHER), str(os.getpid()), *map(str, command)]


def comes_true(condition: Callable[[], bool], check: Callable[[], None], timeout: float) -> bool:
    """Wait at most `timeout` seconds for `condition`; False when it is late. `check` raises to give up at once."""
    deadline = time.monotonic() + timeout
    while not condition():
        check()
        if time.monotonic() > deadline:
            return False
        time.sleep(POLL_INTERVAL_S)
    check()
    return True


def isolated_environment(home: Path) -> dict[str, str]:
    """An environment in which Go programs see no configuration of the user, no proxy, and no cluster around."""
    return {"PATH": os.environ.get("PATH", os.defpath), "HOME": str(home), "TMPDIR": str(home)}


def answers(url: str) -> bool:
    """Whether a GET of `url` says 200. Certificates are not checked and nothing secret is sent."""
    try:
        return httpx.get(url, verify=False, trust_env=False, timeout=PROBE_TIMEOUT_S).status_code == httpx.codes.OK
    except httpx.TransportError:
        return False
