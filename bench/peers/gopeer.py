"""The programs in Go that are measured, or that measure: built once, kept outside the checkout, and run."""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final, Literal, TypeAlias

from bench.controlplane.binaries import NEWEST, SCHEDULERS, cache_root, minor_of
from bench.controlplane.gobuild import (
    BUILD_ENVIRONMENT,
    BUILD_FLAGS,
    BuildError,
    GoToolchain,
    compile_program,
    exclusive,
    required_version,
)
from bench.controlplane.ports import LOOPBACK, free_port
from bench.servers import running
from bench.source import DIGITS, contents

Program: TypeAlias = Literal["extender", "player", "scheduler"]

MODULE: Final = Path(__file__).with_name("go")
PROTOCOL: Final = Path(__file__).with_name("protocol")
UPSTREAM: Final = Path(__file__).with_name("upstream")
COSCHEDULING: Final = Path(__file__).with_name("coscheduling")
ROUNDTRIP: Final = Path(__file__).with_name("roundtrip")
SCHEDULER_PLUGINS: Final = "sigs.k8s.io/scheduler-plugins"
"""The Go module of coscheduling, which the go.mod of COSCHEDULING requires."""

LDFLAGS: Final = SCHEDULERS[NEWEST].ldflags
"""The linker's flags of the stock scheduler, so that the one with coscheduling reports the same version."""

MOST_KEPT: Final = 3
"""Builds of a program that are kept, some 50 MB each, for a developer who switches between sources."""

LEFT_ALONE: Final = 86_400.0
"""Seconds after its last use for which a build stays: a run uses its programs until it ends."""


def program(name: Program) -> Path:
    """A program of the module `go`, which is built first where the cache has none of these sources and this Go.

    After the control plane that takes some ten seconds, without it minutes; it says so on standard error. Processes
    that ask at the same time build once. Raises BuildError.
    """
    return _kept(
        name,
        GoToolchain.find(MODULE),
        (MODULE, PROTOCOL),
        lambda target: compile_program(MODULE, f"./{name}", target, LDFLAGS, f"the peer `{name}` ({versions()})"),
    )


def versions() -> str:
    """What the programs of the module are made of, for people."""
    return f"Kubernetes {required_version(MODULE, 'k8s.io/kubernetes')}"


def build_upstream_player(checkout: Path) -> Path:
    """The player of kube-scheduler-wasm-extension's host, with what a checkout of that has. Raises BuildError."""
    module = _scheduler_of(checkout)

    def compile_in_workspace(target: Path) -> None:
        # The player requires what the checkout requires: a workspace has both modules, and neither changes.
        with TemporaryDirectory(prefix="kwx-bench-") as folder:
            used = "".join(f"\t{json.dumps(str(each))}\n" for each in (UPSTREAM, PROTOCOL, module))
            Path(folder, "go.work").write_text(f"go 1.24.0\n\nuse (\n{used})\n")
            compile_program(Path(folder), str(UPSTREAM), target, "-s -w", f"the player of {checkout}")

    sources = (UPSTREAM, PROTOCOL, *_modules_of(checkout))
    return _kept("upstream-player", GoToolchain.find(module), sources, compile_in_workspace)


def build_upstream_scheduler(checkout: Path) -> Path:
    """The scheduler of a checkout of kube-scheduler-wasm-extension. Raises BuildError."""
    module = _scheduler_of(checkout)
    return _kept(
        "upstream-scheduler",
        GoToolchain.find(module),
        _modules_of(checkout),
        lambda target: compile_program(module, "./cmd/scheduler", target, "-s -w", f"the scheduler of {checkout}"),
    )


def build_coscheduling() -> Path:
    """A kube-scheduler with coscheduling, of the minor that scheduler-plugins is made for. Raises BuildError."""
    release = required_version(COSCHEDULING, "k8s.io/kubernetes")
    plugins = required_version(COSCHEDULING, SCHEDULER_PLUGINS)
    title = f"kube-scheduler {release} with coscheduling {plugins}"
    return _kept(
        "coscheduling",
        GoToolchain.find(COSCHEDULING),
        (COSCHEDULING,),
        lambda target: compile_program(COSCHEDULING, ".", target, SCHEDULERS[minor_of(release)].ldflags, title),
    )


def build_roundtrip() -> Path:
    """A server and a client of net/http, for what bytes cost on their way. Raises BuildError."""
    return _kept(
        "roundtrip",
        GoToolchain.find(ROUNDTRIP),
        (ROUNDTRIP,),
        lambda target: compile_program(ROUNDTRIP, ".", target, "-s -w", "the peer `roundtrip`"),
    )


def spent(variables: str) -> dict[tuple[str, str], float]:
    """Seconds that the extender in Go has spent by verb and phase, of the text of its /debug/vars."""
    verbs: Mapping[str, Mapping[str, float]] = json.loads(variables)["seconds"]
    return {(verb, phase): seconds for verb, phases in verbs.items() for phase, seconds in phases.items()}


@contextmanager
def go_extender(api_server: str = "") -> Iterator[int]:
    """The port of the extender in Go, once it knows the nodes of the API server, if it is given the URL of one."""
    port = free_port()
    command: list[str | Path] = [program("extender"), "-listen", f"{LOOPBACK}:{port}", "-apiserver", api_server]
    with running(command, port, says_ready=bool(api_server)):
        yield port


def _scheduler_of(checkout: Path) -> Path:
    module = checkout.resolve() / "scheduler"
    if not (module / "go.mod").is_file():
        raise BuildError(
            f"{checkout} has no scheduler/go.mod: clone https://github.com/kubernetes-sigs/kube-scheduler-wasm-extension"
            " and give that folder"
        )
    return module


def _modules_of(checkout: Path) -> tuple[Path, ...]:
    """The folders of a checkout that its scheduler is built of."""
    return checkout / "scheduler", checkout / "kubernetes"


def _kept(name: str, toolchain: GoToolchain, sources: Sequence[Path], compile_into: Callable[[Path], None]) -> Path:
    """A program of the cache, which is compiled where that has none of these sources; old ones go then."""
    key = "-".join([name, toolchain.version, toolchain.platform, _digest(sources)])
    kept = cache_root().with_name("peers") / key
    if not kept.exists():
        kept.parent.mkdir(parents=True, exist_ok=True)
        with exclusive(kept.with_name(f"{name}.lock"), f"`{name}`"):
            if not kept.exists():
                partial = kept.with_name(f"{key}.{os.getpid()}")
                compile_into(partial)
                partial.rename(kept)
                _forget_old(kept.parent, name)
    os.utime(kept)
    return kept


def _forget_old(folder: Path, name: str) -> None:
    """Deletes builds of a program that were not wanted for long, but the last ones."""
    builds = sorted((each.stat().st_mtime, each) for each in folder.glob(f"{name}-go*"))
    for wanted, build in builds[:-MOST_KEPT]:
        if wanted < time.time() - LEFT_ALONE:
            build.unlink()


def _digest(folders: Sequence[Path]) -> str:
    recipe = hashlib.sha256(repr((BUILD_FLAGS, BUILD_ENVIRONMENT, LDFLAGS)).encode())
    for folder in folders:
        recipe.update(contents(folder, "*.go", "go.mod", "go.sum"))
    return recipe.hexdigest()[:DIGITS]
