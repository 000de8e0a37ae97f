"""The guests in Go: what their sources build, and what they answer to this host and to one that announces no nodes."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Final

import pytest

from tests.sdk_guest import policy
from tests.sdk_guest.builds import SDK, WITHOUT_GO, build, built
from tests.sdk_guest.plugins import answers, without
from tests.wasm_runtime.world import World, close, filter_nodes, score, world
from wasm_runtime import GuestError, Nodes, NodeTable, Plugin, Pod, Settings
from wasm_runtime.compile.compiler import Compiler
from wasm_runtime.module.binary import interface
from wasm_runtime.protobuf import encode_node, encode_pod

pytestmark = pytest.mark.timeout(600)  # The first time programs in Go are built.

RESIDENT: Final = ("nodechanged", "noderemoved", "nodebuffer", "filternodes", "scorenodes")
HOSTS: Final[Mapping[str, tuple[str, ...]]] = {"announces": (), "never announces": RESIDENT}
"""The exports that each kind of host does not know."""

Load = Callable[..., Plugin]


@pytest.fixture(scope="session")
def modules(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, bytes]:
    """The examples by name; Go's own cache makes every build but the first quick."""
    out = tmp_path_factory.mktemp("modules")
    built("--language", "go", "--out", out)
    return {module.stem: module.read_bytes() for module in out.iterdir()}


@pytest.fixture
def load(engine: Compiler, modules: Mapping[str, bytes]) -> Iterator[Load]:
    """Makes a plugin of one of the modules, for one kind of host."""
    plugins = []

    def load(name: str, host: str = "announces", config: str = "") -> Plugin:
        wasm = without(modules[name], *HOSTS[host])
        plugin = Plugin(engine, wasm, Settings(name, config=config, timeout=60.0))
        plugins.append(plugin)
        return plugin

    yield load
    for plugin in plugins:
        close(plugin)


class Cluster:
    """Random nodes that come, change and go, and what the host is told of them."""

    def __init__(self, seed: int, size: int) -> None:
        self.random = random.Random(seed)
        self.nodes: dict[str, policy.Object] = {}
        self.node_table = NodeTable()
        for at in range(size):
            self.put(f"node-{at}")

    def put(self, name: str) -> None:
        self.nodes[name] = policy.random_node(self.random, name)
        self.node_table.put([(name, encode_node(self.nodes[name]))])

    def change(self) -> None:
        """Takes some nodes away, brings as many others, some under names that were there, and changes some."""
        gone = self.random.sample(sorted(self.nodes), 5)
        for name in gone:
            del self.nodes[name]
            self.node_table.remove(name)
        for name in [*gone[:3], *(f"node-{self.random.randrange(10**6)}" for _ in gone[3:])]:
            self.put(name)
        for name in self.random.sample(sorted(self.nodes), 5):
            self.put(name)

    def request(self, pod: policy.Object) -> World:
        """A request on most of the nodes, in any order."""
        names = self.random.sample(sorted(self.nodes), len(self.nodes) * 4 // 5)
        name: str = pod["metadata"]["name"]
        return World(Pod(name, name, encode_pod(pod)), Nodes(self.node_table, names))


@pytest.mark.parametrize("host", HOSTS)
def test_headroom_is_the_policy(load: Load, host: str) -> None:
    plugin = load("headroom", host)
    cluster = Cluster(seed=1, size=200)
    for at in range(30):
        pod = policy.random_pod(cluster.random, f"pod-{at}")
        request = cluster.request(pod)
        expected = [policy.headroom(pod, cluster.nodes[name]) for name in request.nodes.names]
        assert answers(plugin, request) == expected
        cluster.change()


def test_headroom_after_collecting_garbage(load: Load) -> None:
    """Enough nodes change in between to make it worth while."""
    plugin = load("headroom")
    cluster = Cluster(seed=2, size=200)
    pod = policy.random_pod(cluster.random, "pod")
    for _ in range(3):
        for _ in range(10):
            for name in cluster.nodes:
                cluster.put(name)
            request = cluster.request(pod)
            with plugin.guest(request.pod, request.nodes, "filter") as (guest, deadline):
                guest.filter(request.nodes, deadline)
                guest.collect(deadline)
        expected = [policy.headroom(pod, cluster.nodes[name]) for name in request.nodes.names]
        assert answers(plugin, request) == expected


@pytest.mark.parametrize(
    ("ask", "failure"),
    [
        (filter_nodes, "filter of node broken: node broken: unexpected EOF"),
        (score, "scorenodes: node broken: unexpected EOF"),
    ],
)
def test_a_node_that_cannot_be_read(load: Load, ask: Callable[[Plugin, World], object], failure: str) -> None:
    at = world({"whole": encode_node({"metadata": {"name": "whole"}}), "broken": b"\x0a"}, pod=encode_pod({}))
    with pytest.raises(GuestError) as caught:
        ask(load("headroom"), at)
    assert str(caught.value) == failure


@pytest.mark.parametrize("host", HOSTS)
@pytest.mark.parametrize(("config", "reverse"), [("", False), ('{"reverse": true}', True)])
def test_nodenumber_is_the_policy(load: Load, config: str, reverse: bool, host: str) -> None:
    """Half of the nodes have no object: only the others are announced."""
    plugin = load("nodenumber", host, config)
    names = [f"node-{at}" for at in range(40)] + ["node", "7"]
    for some in (names[::2], names):
        for pod in ("pod-0", "pod-3", "pod-13", "7"):
            encoded = encode_pod({"metadata": {"name": pod}})
            at = world(dict.fromkeys(names[::2], b"\x0a\x00"), some, encoded, uid=pod)
            assert score(plugin, at) == [policy.nodenumber(pod, name, reverse=reverse) for name in some]


def test_nodenumber_skips_a_pod_without_a_number(load: Load) -> None:
    at = world(pod=encode_pod({"metadata": {"name": "pod-a"}}))
    assert score(load("nodenumber"), at) is None


def test_a_configuration_that_is_wrong(load: Load) -> None:
    with pytest.raises(GuestError) as caught:
        load("nodenumber", config='{"revers": true}')
    assert str(caught.value) == (
        "_start: the guest left by exit status 1; the guest printed: "
        'guestConfig: json: unknown field "revers"; expected an object as {"reverse":false}'
    )


def test_a_module_exports_what_its_plugin_has(modules: Mapping[str, bytes]) -> None:
    every = {"memory", "_initialize", "_start", "prefilter", "collectgarbage"}
    kept = {"nodechanged", "noderemoved", "nodebuffer", "score", "scorenodes"}
    assert {name: set(interface(wasm).exports) for name, wasm in modules.items()} == {
        "nodenumber": every | kept | {"prescore"},
        "headroom": every | kept | {"filter", "filternodes"},
        "quorum": every | kept | {"podbuffer", "groupschanged", "memberschanged"},
    }


def test_nodenumber_asks_for_no_objects(modules: Mapping[str, bytes]) -> None:
    imports = {str(function) for function in interface(modules["nodenumber"]).imports}
    assert "k8s.io/api/node" not in imports


def test_a_module_without_the_types_of_kubernetes_is_small(modules: Mapping[str, bytes]) -> None:
    sizes = {name: len(wasm) // 1_000_000 for name, wasm in modules.items()}
    assert sizes["nodenumber"] < 5 < sizes["headroom"] < 20


@pytest.mark.parametrize("plugin", [0, 1])
def test_the_plugins_of_the_readme(tmp_path: Path, plugin: int) -> None:
    """A file in no Go module is built with what the library requires, and again to the same bytes."""
    source, module = tmp_path / "plugin.go", tmp_path / "plugin.wasm"
    readme = (SDK / "README.md").read_text(encoding="utf-8")
    source.write_text(re.findall(r"```go\n(.*?)```", readme, re.DOTALL)[plugin], encoding="utf-8")
    built(source, "--out", tmp_path)
    wasm = module.read_bytes()
    assert {"filter", "filternodes", "score", "scorenodes"} < interface(wasm).exports.keys()
    built(source, "--out", tmp_path)
    assert module.read_bytes() == wasm


def test_the_tests_of_library_and_examples_pass() -> None:
    built("--language", "go", "--test")


def test_without_go(tmp_path: Path) -> None:
    done = build("--language", "go", path=str(tmp_path))
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == f"error: {WITHOUT_GO}none: https://go.dev/dl\n"


def test_with_a_go_that_is_too_old(tmp_path: Path) -> None:
    go = tmp_path / "go"
    go.write_text("#!/bin/sh\necho go1.25.9\n", encoding="utf-8")
    go.chmod(0o755)
    done = build("--language", "go", path=str(tmp_path))
    assert (done.returncode, done.stderr) == (1, f"error: {WITHOUT_GO}go1.25.9: https://go.dev/dl\n")


def test_languages_without_a_compiler_are_left_out_and_that_is_said(tmp_path: Path) -> None:
    done = build("--test", path=str(tmp_path))
    assert f"*** LEFT OUT go: {WITHOUT_GO}none: https://go.dev/dl ***" in done.stderr.splitlines()


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (["plugin.c"], "error: plugin.c: expected a file that ends in .go, .rs, .ts, .zig"),
        (["a.go", "--language", "zig"], "error: a.go: expected a file that ends in .zig"),
        (["--out", "x"], "the examples of all languages have the same names: --out needs --language"),
    ],
)
def test_what_cannot_be_built(arguments: list[str], error: str) -> None:
    done = build(*arguments)
    assert done.returncode != 0
    assert done.stderr.splitlines()[-1].endswith(error)
