"""The schedulers that place gangs, and how each is started."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final, NamedTuple

import yaml

from bench.controlplane import ControlPlane, Process
from bench.controlplane.ports import LOOPBACK
from bench.controlplane.process import answers
from bench.gangs.load import LABELLED, NATIVE, TIMEOUT_S, Kind
from bench.peers import gopeer
from bench.plugin.variants import profile
from bench.run import Variant
from bench.scheduler.variants import READY_TIMEOUT, REQUESTS_PER_SECOND
from bench.servers import configure

COSCHEDULING: Final = "Coscheduling"
"""The plugin's name."""
API_SERVER_FLAGS: Final = (
    "--feature-gates=GenericWorkload=true",
    "--runtime-config=scheduling.k8s.io/v1beta1=true",
    "--disable-admission-plugins=PodGroupProtection",  # Nobody would take its finalizer off again.
)
"""Flags by which the API server has PodGroups of its own, which it does not by default."""


class Setup(NamedTuple):
    """A control plane, and the programs that variants add to it."""

    control_plane: ControlPlane
    policy: Path
    """The module of the variants with our extender."""
    coscheduling: Path | None
    """The scheduler with coscheduling compiled in; None if no variant needs it."""


class Way(NamedTuple):
    """How a variant is set up."""

    variant: Variant
    kind: Kind
    """How its gangs are described."""
    flags: Sequence[str] = ()
    """Flags of the scheduler."""
    profile: Mapping[str, Any] = {}
    """Keys of the scheduler's profile beside its name."""
    is_extended: bool = False
    """Whether our extender decides."""
    is_compiled_in: bool = False
    """Whether the scheduler is the one with coscheduling compiled in."""


def _named(name: str, title: str, *, ours: bool = False) -> Variant:
    return Variant(name=name, title=title, kind="extender" if ours else "in-process", wasm=ours, ours=ours)


ON: Final = ("--feature-gates=GenericWorkload=true",)
"""Flags by which kube-scheduler places groups itself, which it does not by default."""

WAYS: Final[Mapping[str, Way]] = {
    each.variant.name: each
    for each in (
        Way(_named("gang-native", "kube-scheduler's own gang scheduling"), NATIVE, flags=ON),
        Way(
            _named("gang-coscheduling", "coscheduling compiled in"),
            LABELLED,
            profile={
                "plugins": {
                    "multiPoint": {"enabled": [{"name": COSCHEDULING}]},
                    "queueSort": {"enabled": [{"name": COSCHEDULING}], "disabled": [{"name": "*"}]},
                },
                "pluginConfig": [{"name": COSCHEDULING, "args": {"permitWaitingTimeSeconds": TIMEOUT_S}}],
            },
            is_compiled_in=True,
        ),
        Way(_named("gang-kwx", "policy gang over HTTP", ours=True), LABELLED, is_extended=True),
        Way(
            _named("gang-kwx-native", "policy gang over HTTP, native gang scheduling on", ours=True),
            NATIVE,
            flags=ON,
            is_extended=True,
        ),
    )
}
"""The variants by their names, in the order of reports."""


def build_coscheduling(variants: Sequence[str]) -> Path | None:
    """The scheduler with coscheduling, where one of these variants needs it. Raises BuildError."""
    return gopeer.build_coscheduling() if any(WAYS[name].is_compiled_in for name in variants) else None


@contextmanager
def starting(name: str, setup: Setup) -> Iterator[Mapping[str, Process]]:
    """The processes of a variant by their names, which place gangs until the context ends.

    Raises ControlPlaneError.
    """
    way = WAYS[name]
    with ExitStack() as stack:
        folder = Path(stack.enter_context(TemporaryDirectory(prefix=f"{name}-", dir=setup.control_plane.directory)))
        processes: dict[str, Process] = {}
        extenders = []
        if way.is_extended:
            processes["extender"], url = _extender(setup, folder, stack.callback)
            extenders = [_registered(url)]
        file = folder / "scheduler.yaml"
        file.write_text(yaml.safe_dump(_configuration(way, setup, extenders)))
        program = setup.coscheduling if way.is_compiled_in else None
        scheduler = setup.control_plane.start_scheduler(file, program=program, flags=way.flags)
        stack.callback(scheduler.stop)
        yield processes | {"kube-scheduler": scheduler}


def _extender(setup: Setup, folder: Path, at_end: Callable[[Callable[[], None]], object]) -> tuple[Process, str]:
    """The process of an extender that is ready, and the URL of its verbs."""
    plugin = {"name": "gang", "guestURL": f"file://{setup.policy}"}
    sections: dict[str, Any] = {
        "cluster": {"mode": "kubeconfig", "kubeconfig": str(setup.control_plane.kubeconfig())},
        "profiles": [profile([plugin], 1)],
        "server": {"bindTimeout": f"{TIMEOUT_S}s"},
    }
    command, verbs, admin = configure(folder, sections)
    process = Process("kwx", command, folder)
    at_end(process.stop)
    process.wait_until(lambda: answers(f"http://{LOOPBACK}:{admin}/readyz"), READY_TIMEOUT)
    return process, f"http://{LOOPBACK}:{verbs}"


def _registered(url: str) -> Mapping[str, Any]:
    """The extender as kube-scheduler knows it: a bind lasts as long as members may wait for each other."""
    timeout = f"{TIMEOUT_S + 5}s"
    verbs = {"filterVerb": "filter", "bindVerb": "bind"}
    return {"urlPrefix": url, **verbs, "weight": 1, "nodeCacheCapable": True, "httpTimeout": timeout}


def _configuration(way: Way, setup: Setup, extenders: Sequence[Mapping[str, Any]]) -> Mapping[str, Any]:
    """The KubeSchedulerConfiguration. The identity is the same for all: coscheduling reads its own PodGroups."""
    connection = {"kubeconfig": str(setup.control_plane.kubeconfig())}
    return {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "leaderElection": {"leaderElect": False},
        "clientConnection": {**connection, "qps": REQUESTS_PER_SECOND, "burst": REQUESTS_PER_SECOND},
        "profiles": [{"schedulerName": "default-scheduler", **way.profile}],
        "extenders": extenders,
    }
