"""The extender in Go of bench/peers/goextender: built once, kept outside the checkout, and run."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from bench.controlplane.binaries import cache_root
from bench.controlplane.gobuild import Toolchain, compile_program, required_version
from bench.controlplane.ports import LOOPBACK, free_port
from bench.webhook import ready, running

MODULE: Final = Path(__file__).with_name("goextender")


def build() -> Path:
    """The program, which is built first where the cache has none of these sources and this Go.

    That takes some two minutes and says so on standard error. Raises BuildError.
    """
    toolchain = Toolchain.find(MODULE)
    sources = hashlib.sha256()
    for file in sorted([*MODULE.glob("*.go"), *MODULE.glob("go.*")]):
        sources.update(file.read_bytes())
    key = "-".join([MODULE.name, toolchain.version, toolchain.platform, sources.hexdigest()[:12]])
    program = cache_root().with_name(MODULE.name) / key
    if not program.exists():
        program.parent.mkdir(parents=True, exist_ok=True)
        partial = program.with_name(f"{key}.{os.getpid()}")
        compile_program(MODULE, ".", partial, "-s -w", f"the peer, an extender in Go ({versions()})")
        partial.rename(program)
    return program


def versions() -> str:
    """What it is made of, for people."""
    return f"k8s.io/kube-scheduler {required_version(MODULE, 'k8s.io/kube-scheduler')}"


@contextmanager
def go_extender(api_server: str = "") -> Iterator[int]:
    """The port of the extender in Go, once it knows the nodes of the API server, if it is given the URL of one."""
    port = free_port()
    with running([str(build()), "-listen", f"{LOOPBACK}:{port}", "-apiserver", api_server], port):
        if api_server:
            ready(port)
        yield port
