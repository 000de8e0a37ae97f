"""The ways of asking a policy that are measured side by side, and how each is started."""

from __future__ import annotations

import os
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, NamedTuple

from prometheus_client.parser import text_string_to_metric_families

from bench.controlplane.ports import LOOPBACK, free_port
from bench.peers import gopeer
from bench.peers.apiserver import Cluster, api_server
from bench.peers.nodelist import node_list
from bench.plugin.interpreter import InterpreterError, look
from bench.plugin.subject import Subject
from bench.plugin.workload import Workload
from bench.run import Variant
from bench.servers import configured, get, running

OWN_POLICY: Final = "it has the policy headroom only, not that of this module"


class MeasuredModule(NamedTuple):
    """The module that is measured, and its configuration."""

    file: Path
    config: str = ""
    args: tuple[str, ...] = ()
    has_peers: bool = True
    """Whether the peers in Go have the same policy."""
    scores: bool = True
    """Whether the module has Score: without it no node is the best."""


class LeftOutError(Exception):
    """A variant that cannot be measured here. `str()` says why, and what would help if anything does."""


TIMEOUT: Final = 4.0
"""Seconds that a plugin may take in a verb: just less than kube-scheduler waits for an extender."""

Spent = Mapping[tuple[str, str], float]
"""Seconds that an extender has spent by verb and part (`bench.run.PARTS`), since it started."""


class Started(NamedTuple):
    """A variant that is ready."""

    subject: Subject
    seconds: float = 0.0
    """Seconds until the extender was ready, or until the plugin was loaded in-process."""
    spent: Callable[[], Spent] = dict
    """Reads what the variant's extender has spent; nothing if it has none."""
    watches: bool = False
    """Whether the variant watches the nodes of the API server."""
    admin: str = ""
    """The URL of the admin API, if the variant is an extender of ours; otherwise empty."""
    top: int = 0
    """How many nodes filter answers at most, the best ones; 0 if it answers all that pass."""


@dataclass
class Setup:
    """A case, as variants need it to start."""

    folder: Path
    guest: MeasuredModule
    workload: Workload
    stack: ExitStack
    """Ends what was started."""
    plugins: int = 1
    changes: bool = False
    """Whether the nodes are to be updated: they must be those that the stand-in for the API server makes."""
    upstream: Path | None = None
    """A checkout of kube-scheduler-wasm-extension."""
    wasmer: Path | None = None
    """An interpreter that has this package with its extra `wasmer`."""
    environment: Mapping[str, str] | None = None
    """The environment of processes with our code, if it is not that of this process."""
    _cluster: Cluster | None = None
    _nodes: Path | None = None

    @property
    def names(self) -> list[str]:
        """The names of the plugins."""
        return [f"{self.guest.file.stem}-{at}" for at in range(self.plugins)]

    @property
    def nodes(self) -> Path:
        """A file with the nodes, as a protobuf v1.NodeList."""
        if self._nodes is None:
            self._nodes = self.folder / "nodes.pb"
            self._nodes.write_bytes(node_list(self.workload.nodes.values()))
        return self._nodes

    @property
    def cluster(self) -> Cluster:
        """A stand-in for the API server, with the nodes."""
        if self._cluster is None:
            nodes = len(self.workload.nodes) if self.changes else self.nodes
            self._cluster = self.stack.enter_context(api_server(nodes))
        return self._cluster

    def again(self, folder: Path, cache: Path) -> Setup:
        """The same setup for another start, with a cache of compiled code of its own."""
        environment = {**os.environ, "XDG_CACHE_HOME": str(cache)}
        return replace(self, folder=folder, stack=ExitStack(), environment=environment, _cluster=None, _nodes=None)

    def own_folder(self, name: str) -> Path:
        """A new folder for a variant."""
        folder = self.folder / name
        folder.mkdir()
        return folder


class Way(NamedTuple):
    """A variant, and how to start it."""

    variant: Variant
    start: Callable[[Setup], Started]


def _player(name: str, *options: str | Path) -> Subject:
    return Subject(name, [gopeer.program("player"), *options])


def _in_process(engine: str) -> Callable[[Setup], Started]:
    def start(setup: Setup) -> Started:
        python = Path(sys.executable) if engine == "wasmtime" else setup.wasmer
        if python is None:
            raise LeftOutError(
                "wasmer has releases for CPython 3.10 and older only: give the interpreter of an environment that has"
                " kube-wasm-extender[wasmer] with --wasmer PYTHON"
            )
        if engine == "wasmer":
            try:
                look(python)
            except InterpreterError as error:
                raise LeftOutError(str(error)) from error
        command: list[str | Path] = [
            python,
            "-m",
            "bench.plugin.worker",
            "--engine",
            engine,
            "--module",
            setup.guest.file,
        ]
        command += ["--nodes", setup.nodes, "--plugins", str(setup.plugins), "--timeout", str(TIMEOUT)]
        command += [f"--config={setup.guest.config}"]
        command += [f"--arg={each}" for each in setup.guest.args]
        return Started(Subject(engine, command, setup.environment))

    return start


def _native(setup: Setup) -> Started:
    _require_peers(setup)
    return Started(_player("native", "native", "-nodes", setup.nodes, "-plugins", str(setup.plugins)))


def _upstream(setup: Setup) -> Started:
    if setup.upstream is None:
        raise LeftOutError("give a checkout of kube-scheduler-wasm-extension with --upstream CHECKOUT")
    command: list[str | Path] = [gopeer.build_upstream_player(setup.upstream), "-guest", setup.guest.file]
    command += ["-nodes", setup.nodes, "-plugins", str(setup.plugins), f"-config={setup.guest.config}"]
    return Started(Subject("upstream", [*command, "--", *setup.guest.args]))


def profile(plugins: Sequence[Mapping[str, object]], top: int) -> dict[str, object]:
    """The profile in the configuration of an extender of ours; `top` is `topNodes`, 0 for none."""
    limit = {"topNodes": top} if top else {}
    return {"name": "default", "scoreRange": 100, "plugins": list(plugins), **limit}


def _kwx(name: str, *, whole: bool = False, top: int = 0) -> Callable[[Setup], Started]:
    def start(setup: Setup) -> Started:
        if top and not setup.guest.scores:
            raise LeftOutError("the module has no Score, so that no node is the best")
        folder = setup.own_folder(name)
        plugins = [
            {
                "name": plugin,
                "guestURL": f"file://{setup.guest.file}",
                "guestConfig": setup.guest.config,
                "timeout": f"{TIMEOUT:g}s",
                "args": list(setup.guest.args),
            }
            for plugin in setup.names
        ]
        sections: dict[str, object] = {"profiles": [profile(plugins, top)]}
        if not whole:
            kubeconfig = setup.cluster.write_kubeconfig(folder)
            sections["cluster"] = {"mode": "kubeconfig", "kubeconfig": str(kubeconfig)}
        begun = time.monotonic()
        ports = setup.stack.enter_context(configured(folder, sections, setup.environment))
        seconds = time.monotonic() - begun
        return Started(
            _asking(name, setup, ports.verbs, whole=whole),
            seconds,
            lambda: spent_by_kwx(get(ports.admin, "/metrics")[1], top),
            watches=not whole,
            admin=f"http://{LOOPBACK}:{ports.admin}",
            top=top,
        )

    return start


def _go_extender(name: str, *, whole: bool = False, top: int = 0) -> Callable[[Setup], Started]:
    def start(setup: Setup) -> Started:
        _require_peers(setup)
        port = free_port()
        command: list[str | Path] = [gopeer.program("extender"), "-listen", f"{LOOPBACK}:{port}"]
        command += ["-plugins", str(setup.plugins), "-top", str(top)]
        command += [] if whole else ["-apiserver", setup.cluster.url]
        begun = time.monotonic()
        setup.stack.enter_context(running(command, port, says_ready=not whole))
        seconds = time.monotonic() - begun
        return Started(
            _asking(name, setup, port, whole=whole),
            seconds,
            lambda: gopeer.spent(get(port, "/debug/vars")[1]),
            watches=not whole,
            top=top,
        )

    return start


def _asking(name: str, setup: Setup, port: int, *, whole: bool) -> Subject:
    """kube-scheduler's own client of extenders."""
    options: list[str | Path] = ["http", "-nodes", setup.nodes, "-url", f"http://{LOOPBACK}:{port}"]
    return _player(name, *options, *(["-whole"] if whole else []))


def _require_peers(setup: Setup) -> None:
    if not setup.guest.has_peers:
        raise LeftOutError(OWN_POLICY)


_PHASES: Final = {"decode": "decode", "nodes": "map", "judge": "map", "encode": "encode"}
"""The part of `bench.run.PARTS` of each phase of our extender; `judge` counts without the time in guests."""

_VERBS: Final = {
    "prefilter": "filter",
    "filter": "filter",
    "filternodes": "filter",
    "prescore": "prioritize",
    "score": "prioritize",
    "scorenodes": "prioritize",
    "normalizescore": "prioritize",
}
"""The verb in which an export of a guest is called."""


def spent_by_kwx(metrics: str, top: int = 0) -> Spent:
    """What our extender has spent, of the text of its metrics. Where it answers the `top` best, filter scores too."""
    spent: defaultdict[tuple[str, str], float] = defaultdict(float)
    for family in text_string_to_metric_families(metrics):
        for sample in family.samples:
            if sample.name == "kwx_verb_phase_seconds_sum":
                spent[sample.labels["verb"], _PHASES[sample.labels["phase"]]] += sample.value
            elif sample.name == "kwx_guest_seconds_sum" and sample.labels["export"] in _VERBS:
                verb = "filter" if top else _VERBS[sample.labels["export"]]
                spent[verb, "guest"] += sample.value
                spent[verb, "map"] -= sample.value
    return spent


def _inside(name: str, title: str, start: Callable[[Setup], Started], *, wasm: bool = True, ours: bool = False) -> Way:
    return Way(Variant(name=name, title=title, kind="in-process", wasm=wasm, ours=ours), start)


def _ours(name: str, asked: str, *, whole: bool = False, top: int = 0) -> Way:
    variant = Variant(name=name, title=f"wasm over HTTP, {asked}", kind="extender", wasm=True, ours=True)
    return Way(variant, _kwx(name, whole=whole, top=top))


def _in_go(name: str, asked: str, *, whole: bool = False, top: int = 0) -> Way:
    variant = Variant(name=name, title=f"Go extender, {asked}", kind="extender", wasm=False, ours=False)
    return Way(variant, _go_extender(name, whole=whole, top=top))


WAYS: Final = {
    way.variant.name: way
    for way in (
        _inside("native", "Go plugin, in-process", _native, wasm=False),
        _inside("upstream", "wasm in-process, upstream host", _upstream),
        _inside("wasmtime", "wasm in-process, wasmtime", _in_process("wasmtime"), ours=True),
        _inside("wasmer", "wasm in-process, wasmer", _in_process("wasmer"), ours=True),
        _ours("kwx-top1", "best node", top=1),
        _in_go("goextender-top1", "best node", top=1),
        _ours("kwx-top5", "best 5 nodes", top=5),
        _ours("kwx", "node names"),
        _in_go("goextender", "node names"),
        _ours("kwx-whole", "whole nodes", whole=True),
        _in_go("goextender-whole", "whole nodes", whole=True),
    )
}
"""The variants by name, in the order of reports and of rounds: those that are compared are neighbours."""


@contextmanager
def starting(setup: Setup, names: Sequence[str]) -> Iterator[tuple[dict[str, Started], dict[str, str]]]:
    """The variants of these names, ready; and why others are left out. Raises SubjectError or ServerError."""
    started: dict[str, Started] = {}
    left_out: dict[str, str] = {}
    with setup.stack:
        for name in names:
            try:
                found = WAYS[name].start(setup)
            except LeftOutError as reason:
                left_out[name] = str(reason)
                continue
            setup.stack.enter_context(found.subject)
            started[name] = found
        for name, each in started.items():
            started[name] = each._replace(seconds=each.seconds + each.subject.ready().start_seconds)
        yield started, left_out
