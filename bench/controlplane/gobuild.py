"""The Go command: which one is here, and how it builds one program of a module with progress."""

from __future__ import annotations

import fcntl
import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

PROGRESS_INTERVAL_S = 30.0
STOP_TIMEOUT_S = 30.0
GO_TIMEOUT_S = 900.0
"""For what Go may have to download first, a toolchain or a module."""
LOG_TAIL_LINES = 40

# Static programs need no C compiler, and trimmed paths let every checkout share Go's build cache.
BUILD_FLAGS = ("-trimpath",)
BUILD_ENVIRONMENT = {"CGO_ENABLED": "0"}


class BuildError(RuntimeError):
    """A program cannot be built here; the message says why and what mends it."""


@dataclass(frozen=True, slots=True)
class GoToolchain:
    """The Go that a module is built with: its version as `go1.26.8`, and the platform it builds for."""

    version: str
    platform: str

    @classmethod
    def find(cls, module: Path) -> GoToolchain:
        """Ask the `go` on PATH, from inside `module`, so that Go's own choice of a newer toolchain counts.

        Raises BuildError where there is none, or where it is older than the module's go.mod demands.
        """
        required = required_go(module)
        mend = f"install Go {required} or newer (https://go.dev/dl/) and put it on PATH"
        if shutil.which("go") is None:
            raise BuildError(f"programs are built from source here and `go` was not found: {mend}")
        found = _ask_go(module, "env", "-json", "GOVERSION", "GOOS", "GOARCH")
        if _release(found["GOVERSION"]) < _release(required):
            raise BuildError(f"{found['GOVERSION']} is too old to build {module.name}: {mend}")
        return cls(found["GOVERSION"], f"{found['GOOS']}-{found['GOARCH']}")


def required_go(module: Path) -> str:
    """The version in the `go` line of the go.mod in `module`."""
    return _find(r"^go (\S+)$", module)


def required_version(module: Path, path: str) -> str:
    """The version, without its `v`, of the Go module `path` that `module` is built with.

    That is the one that the go.mod requires, or the one that a `replace` of the go.mod puts in its place.
    """
    name = re.escape(path)
    replaced = re.search(rf"^\s*(?:replace )?{name} => {name} v(\S+)", (module / "go.mod").read_text(), re.MULTILINE)
    return replaced[1] if replaced else _find(rf"^\s*(?:require )?{name} v(\S+)", module)


def module_directory(module: Path, path: str) -> Path:
    """Where Go keeps the unpacked source of `path`, a requirement of the go.mod in `module`.

    Raises BuildError where Go cannot get it.
    """
    return Path(_ask_go(module, "mod", "download", "-json", path)["Dir"])


def compile_program(module: Path, package: str, target: Path, ldflags: str, title: str) -> None:
    """Build `package` of the Go module in `module` into the file `target`.

    Says on standard error what it does, at the latest every PROGRESS_INTERVAL_S seconds. Raises BuildError
    with the end of the compiler's output where the build fails.
    """
    say(f"building {title} …")
    started = time.monotonic()
    log = target.with_name(f"{target.name}.log")
    command = ["go", "build", *BUILD_FLAGS, f"-ldflags={ldflags}", "-o", str(target), package]
    with log.open("wb") as output:
        process = subprocess.Popen(
            command,
            cwd=module,
            env={**os.environ, **BUILD_ENVIRONMENT},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
        )
        try:
            status = _wait_with_progress(process, f"building {title} …", started)
        finally:
            if process.poll() is None:
                process.terminate()
                process.wait(STOP_TIMEOUT_S)
    if status != 0:
        raise BuildError(f"`go build` of {title} failed with exit status {status}:\n{log_tail(log)}")
    log.unlink()
    say(f"built {title} in {time.monotonic() - started:.0f} s")


@contextmanager
def exclusive(lock: Path, title: str) -> Iterator[None]:
    """Hold `lock` against other processes that build `title`; the kernel releases it even when this one is killed."""
    started = time.monotonic()
    said = started - PROGRESS_INTERVAL_S
    with lock.open("w") as file:
        while not _try_lock(file.fileno()):
            if time.monotonic() - said >= PROGRESS_INTERVAL_S:
                said = time.monotonic()
                say(f"waiting for another process that builds {title} … {said - started:.0f} s")
            time.sleep(0.5)
        yield


def log_tail(log: Path) -> str:
    """The last LOG_TAIL_LINES lines of a log file; empty where there is none."""
    if not log.exists():
        return ""
    return "\n".join(log.read_text(errors="replace").splitlines()[-LOG_TAIL_LINES:])


def say(line: str) -> None:
    """One line of progress on standard error, at once."""
    print(line, file=sys.stderr, flush=True)


def _ask_go(module: Path, *arguments: str) -> dict[str, str]:
    """What a Go command says in JSON. Raises BuildError where it fails, or does not end."""
    command = ["go", *arguments]
    try:
        answer = subprocess.run(command, cwd=module, capture_output=True, text=True, check=False, timeout=GO_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        mend = "see whether Go reaches what it downloads from (`go env GOPROXY`)"
        raise BuildError(f"`{' '.join(command)}` has not ended within {GO_TIMEOUT_S:g} s: {mend}") from None
    if answer.returncode != 0:
        raise BuildError(f"`{' '.join(command)}` failed: {answer.stdout}{answer.stderr}".rstrip())
    said: dict[str, str] = json.loads(answer.stdout)
    return said


def _wait_with_progress(process: subprocess.Popen[bytes], title: str, started: float) -> int:
    while True:
        try:
            return process.wait(PROGRESS_INTERVAL_S)
        except subprocess.TimeoutExpired:
            say(f"{title} {time.monotonic() - started:.0f} s")


def _try_lock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _find(pattern: str, module: Path) -> str:
    found = re.search(pattern, (module / "go.mod").read_text(), re.MULTILINE)
    if found is None:
        raise BuildError(f"{module / 'go.mod'} has no line that matches {pattern!r}")
    return found[1]


def _release(version: str) -> tuple[int, int]:
    found = re.search(r"(\d+)\.(\d+)", version)
    if found is None:
        raise BuildError(f"cannot read the Go version {version!r}")
    return int(found[1]), int(found[2])
