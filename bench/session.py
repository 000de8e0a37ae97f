"""A run in a folder: begun there, or gone on with."""

from __future__ import annotations

import platform
import subprocess
from datetime import datetime, timezone
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Final

import msgspec

import bench
import extender
import wasm_runtime
from bench import report
from bench.controlplane.gobuild import GoToolchain, required_version
from bench.peers import gopeer
from bench.run import FILE, Run, RunError
from bench.source import source
from wasm_runtime.blob import digest

PACKAGES: Final = ("kube-wasm-extender", "wasmtime", "uvicorn", "uvloop", "httptools", "msgspec")

_SAME: Final = {
    "command": "the command",
    "module": "the module",
    "machine": "the machine",
    "versions": "the versions of what is measured",
    "workload": "the workload",
}
"""Fields of a run that must not change when it goes on, and what messages call them."""


def now() -> str:
    """The time in UTC, as RFC 3339 has it."""
    return datetime.now(timezone.utc).isoformat(timespec="seconds").replace("+00:00", "Z")


def versions(upstream: Path | None = None) -> dict[str, str]:
    """The versions of all that a run measures, by name; `upstream` is a checkout. Raises BuildError without a Go."""
    found = {"python": platform.python_version(), "source": source(bench, extender, wasm_runtime)}
    if upstream:
        found["upstream"] = _commit(upstream)
    for package in PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    found["go"] = GoToolchain.find(gopeer.MODULE).version.removeprefix("go")
    return found | {"kubernetes": required_version(gopeer.MODULE, "k8s.io/kubernetes")}


def _commit(checkout: Path) -> str:
    """The commit of a checkout, `unknown` if it is none of git."""
    command = ["git", "-C", str(checkout), "describe", "--always", "--dirty", "--tags"]
    try:
        answer = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return "unknown"
    return answer.stdout.strip() or "unknown"


def named(module: Path) -> str:
    """A module's digest and file name."""
    return f"{digest(module.read_bytes())} {module.name}"


def begin(run: Run, folder: Path) -> Run:
    """The unfinished run of the same kind in the folder, else this one. Raises RunError."""
    if not (folder / FILE).exists():
        run.save(folder)
        return run
    found = Run.load(folder)
    if found.ended:
        raise RunError(f"{folder} has a run that is done: choose another folder, or remove this one")
    for name, what in _SAME.items():
        if getattr(found, name) != getattr(run, name):
            raise RunError(
                f"{folder} has a run with which this one cannot go on, for {what} would differ:"
                f" `{found.command}`; choose another folder"
            )
    return found


def finish(run: Run, folder: Path) -> Run:
    """Writes a run that is done, and its report. Raises RunError."""
    done = msgspec.structs.replace(run, ended=now())
    done.save(folder)
    report.write(done, folder)
    return done
