"""The schedulers that are measured side by side, and how each is started."""

from __future__ import annotations

import ssl
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final, Literal, NamedTuple, TypeAlias

import yaml

from bench.controlplane import ControlPlane, Process
from bench.controlplane.ports import LOOPBACK, free_port
from bench.controlplane.process import answers
from bench.peers import gopeer
from bench.plugin.variants import Spent, profile, spent_by_kwx
from bench.servers import configure, get

PLUGIN: Final = "Headroom"
"""The plugin's name where it is compiled in."""
EXTENDER_WEIGHT: Final = 1
PLUGIN_WEIGHT: Final = 10 * EXTENDER_WEIGHT
"""kube-scheduler multiplies the scores of extenders by 10, for they are to be 10 at most; those here go up to 100.

https://github.com/kubernetes/kubernetes/blob/v1.36.3/pkg/scheduler/schedule_one.go (prioritizeNodes)
"""
REQUESTS_PER_SECOND: Final = 5_000
"""The scheduler's own limit towards the API server, as in scheduler_perf: not what is to be measured.

https://github.com/kubernetes/kubernetes/blob/v1.36.3/test/integration/scheduler_perf/util.go (mustSetupCluster)
"""
EXTENDER_TIMEOUT: Final = "30s"
ELECTION_RETRY: Final = "500ms"
"""How soon a scheduler that is ready sees that it may lead."""
READY_TIMEOUT: Final = 60.0
"""Seconds until a scheduler or an extender must be ready."""
MAY_BATCH: Final = ({"name": "PodTopologySpread", "args": {"defaultingType": "List", "defaultConstraints": []}},)
"""Settings of in-tree plugins with which kube-scheduler may batch pods. By default it never does: it spreads each pod
by the topology, which depends on the pods before, so that PodTopologySpread signs none.

https://github.com/kubernetes/kubernetes/blob/v1.36.3/pkg/scheduler/framework/plugins/podtopologyspread (SignPod)
"""


Program: TypeAlias = Literal["scheduler", "extender", "upstream"]
"""What is built beside the control plane: the scheduler with the plugin, the extender in Go, upstream's scheduler."""


class Extender(NamedTuple):
    """A running extender."""

    process: Process
    url: str
    spent: Callable[[], Spent]
    """Seconds that it has spent since it started, by verb and part (`bench.run.PARTS`)."""


@dataclass(frozen=True, slots=True)
class Started:
    """A scheduler that is ready, with its extender if it has one."""

    scheduler: Process
    metrics: Callable[[], str]
    """The text of the scheduler's metrics."""
    extender: Extender | None = None

    @property
    def processes(self) -> dict[str, Process]:
        """All that were started, by their names in the figures."""
        extender = {"extender": self.extender.process} if self.extender else {}
        return {"kube-scheduler": self.scheduler} | extender

    def spent(self) -> Spent:
        """What the extender has spent; nothing if there is none."""
        return self.extender.spent() if self.extender else {}


@dataclass(frozen=True, slots=True)
class Setup:
    """A control plane, and the programs that variants add to it."""

    control_plane: ControlPlane
    module: Path
    """The module of the variants with WebAssembly."""
    programs: Mapping[Program, Path]


class Way(NamedTuple):
    """How a variant is set up."""

    scheduler: Program | None = None
    """The scheduler's program; None for the stock scheduler."""
    profile: Callable[[Path], Mapping[str, Any]] = lambda _: {}
    """Makes the keys of the scheduler's profile beside its name, given the module."""
    flags: Sequence[str] = ()
    """Flags of the scheduler."""
    extender: Callable[[Way, Setup, Path], Extender] | None = None
    """Starts the variant's extender, with a folder of its own, and waits until it is ready."""
    whole: bool = False
    """Whether requests carry whole nodes, or their names."""
    top: int = 0
    """How many nodes filter answers at most, the best ones; 0 if it answers all that pass."""


def build_programs(variants: Sequence[str], upstream: Path | None) -> dict[Program, Path]:
    """The programs that variants need, built where the cache does not have them. Raises BuildError."""
    programs: dict[Program, Path] = {}
    ways = [WAYS[name] for name in variants]
    if any(way.scheduler == "scheduler" for way in ways):
        programs["scheduler"] = gopeer.program("scheduler")
    if any(way.extender is _go_extender for way in ways):
        programs["extender"] = gopeer.program("extender")
    if upstream:
        programs["upstream"] = gopeer.build_upstream_scheduler(upstream)
    return programs


@contextmanager
def starting(name: str, setup: Setup, settings: Sequence[Mapping[str, Any]] = ()) -> Iterator[Started]:
    """The variant of a name, ready, but that it schedules once it leads; afterwards its processes are gone.

    `settings` are those of in-tree plugins. Raises BuildError or ControlPlaneError.
    """
    way = WAYS[name]
    with ExitStack() as stack:
        folder = Path(stack.enter_context(TemporaryDirectory(prefix=f"{name}-", dir=setup.control_plane.directory)))
        extender = way.extender(way, setup, folder) if way.extender else None
        if extender:
            stack.callback(extender.process.stop)
        file = folder / "scheduler.yaml"
        file.write_text(yaml.safe_dump(configuration(way, setup, extender.url if extender else "", settings)))
        port = free_port()
        program = setup.programs[way.scheduler] if way.scheduler else None
        scheduler = setup.control_plane.start_scheduler(file, port, program, way.flags)
        stack.callback(scheduler.stop)
        yield Started(scheduler, _metrics(port), extender)


def configuration(way: Way, setup: Setup, url: str, settings: Sequence[Mapping[str, Any]] = ()) -> dict[str, Any]:
    """The KubeSchedulerConfiguration; `url` is where the extender's verbs are, if there is one."""
    made = {"schedulerName": "default-scheduler", **way.profile(setup.module)}
    document: dict[str, Any] = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "leaderElection": {"leaderElect": True, "retryPeriod": ELECTION_RETRY},
        "clientConnection": {
            "kubeconfig": str(setup.control_plane.kubeconfig("scheduler")),
            "qps": REQUESTS_PER_SECOND,
            "burst": REQUESTS_PER_SECOND,
        },
        "profiles": [{**made, "pluginConfig": [*made.get("pluginConfig", ()), *settings]}],
    }
    if url:
        extender = {
            "urlPrefix": url,
            "filterVerb": "filter",
            "weight": EXTENDER_WEIGHT,
            "nodeCacheCapable": not way.whole,
            "httpTimeout": EXTENDER_TIMEOUT,
        }
        if way.top != 1:  # kube-scheduler asks nobody to score the only node.
            extender["prioritizeVerb"] = "prioritize"
        document["extenders"] = [extender]
    return document


def _metrics(port: int) -> Callable[[], str]:
    """A function that reads a scheduler's metrics, whose certificate is self-signed."""
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE

    return lambda: get(port, "/metrics", context)[1]


def _compiled_in(_: Path) -> Mapping[str, Any]:
    return {"plugins": {"multiPoint": {"enabled": [{"name": PLUGIN, "weight": PLUGIN_WEIGHT}]}}}


def _alone(_: Path) -> Mapping[str, Any]:
    """A profile with the compiled-in plugin as the only one that scores."""
    enabled, nobody = {"name": PLUGIN, "weight": PLUGIN_WEIGHT}, {"disabled": [{"name": "*"}]}
    return {
        "plugins": {"multiPoint": {"enabled": [enabled]}, "preScore": nobody, "score": {"enabled": [enabled], **nobody}}
    }


def _guest_compiled_in(module: Path) -> Mapping[str, Any]:
    settings = {"name": PLUGIN, "args": {"guestURL": f"file://{module}"}}
    return {**_compiled_in(module), "pluginConfig": [settings]}


def _kwx(way: Way, setup: Setup, folder: Path) -> Extender:
    plugin = {"name": "headroom", "guestURL": f"file://{setup.module}"}
    sections: dict[str, object] = {"profiles": [profile([plugin], way.top)]}
    if not way.whole:
        sections["cluster"] = {"mode": "kubeconfig", "kubeconfig": str(setup.control_plane.kubeconfig())}
    command, verbs, admin = configure(folder, sections)
    process = _ready(Process("kwx", command, folder), f"http://{LOOPBACK}:{admin}/readyz")
    return Extender(process, f"http://{LOOPBACK}:{verbs}", lambda: spent_by_kwx(get(admin, "/metrics")[1], way.top))


def _go_extender(way: Way, setup: Setup, folder: Path) -> Extender:
    port = free_port()
    command: list[str | Path] = [setup.programs["extender"], "-listen", f"{LOOPBACK}:{port}", "-top", str(way.top)]
    command += [] if way.whole else ["-kubeconfig", setup.control_plane.kubeconfig()]
    url = f"http://{LOOPBACK}:{port}"
    process = _ready(Process("goextender", command, folder), f"{url}/{'debug/vars' if way.whole else 'readyz'}")
    return Extender(process, url, lambda: gopeer.spent(get(port, "/debug/vars")[1]))


def _ready(process: Process, url: str) -> Process:
    try:
        process.wait_until(lambda: answers(url), READY_TIMEOUT)
    except BaseException:
        process.stop()
        raise
    return process


UNBATCHED: Final = ("--feature-gates=OpportunisticBatching=false",)
"""https://github.com/kubernetes/enhancements/tree/master/keps/sig-scheduling/5598-opportunistic-batching"""

WAYS: Final = {
    "stock": Way(),
    "stock-unbatched": Way(flags=UNBATCHED),
    "native": Way("scheduler", _compiled_in),
    "native-noscores": Way("scheduler", _alone),
    "kwx-top1": Way(extender=_kwx, top=1),
    "goextender-top1": Way(extender=_go_extender, top=1),
    "kwx-top5": Way(extender=_kwx, top=5),
    "kwx": Way(extender=_kwx),
    "goextender": Way(extender=_go_extender),
    "kwx-whole": Way(extender=_kwx, whole=True),
    "goextender-whole": Way(extender=_go_extender, whole=True),
    "upstream": Way("upstream", _guest_compiled_in),
}
"""The variants by their names."""
