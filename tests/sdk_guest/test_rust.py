"""The guests in Rust: what their sources build, and what they answer to hosts of three kinds."""

from __future__ import annotations

import importlib
import math
import random
import re
import time
from collections.abc import Callable, Iterator, Mapping
from fractions import Fraction
from pathlib import Path
from types import ModuleType
from typing import Final

import pytest

from tests.sdk_guest import policy
from tests.wasm_runtime.world import World, close, filter_nodes, score, world
from wasm_runtime import GuestError, Nodes, NodeTable, Plugin, Pod, Settings, WasmtimeEngine
from wasm_runtime.engine import NoHandle
from wasm_runtime.pods.pod_table import ResidentPod
from wasm_runtime.protobuf import encode_node, encode_pod

SDK: Final = Path(__file__).parents[2] / "sdk-guest"
MODULES: Final = SDK / "rust" / "modules"

EXAMPLES: Final = ("fullest", "gang", "headroom", "nodeinfo", "nodenumber", "seats", "usher")

LISTS: Final = ("filternodes", "scorenodes")
RESIDENT: Final = ("nodechanged", "noderemoved", "nodebuffer", *LISTS)
HOSTS: Final[Mapping[str, tuple[str, ...]]] = {"lists": (), "one by one": LISTS, "never announces": RESIDENT}
"""The exports that each kind of host does not know."""

NOTHING: Final[policy.Object] = {"metadata": {}}
"""What a node that the host does not know is taken for."""

LARGEST_INTEGER: Final = 2**63 - 1

Load = Callable[..., Plugin]


@pytest.fixture
def builder(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(SDK)
    return importlib.import_module("builders.rust")


@pytest.fixture(scope="module")
def engine() -> WasmtimeEngine:
    return WasmtimeEngine()


@pytest.fixture
def load(engine: WasmtimeEngine) -> Iterator[Load]:
    """Makes a plugin of one of the modules, for one kind of host."""
    plugins = []

    def load(name: str, host: str = "lists", config: str = "") -> Plugin:
        plugin = Plugin(engine, module(name, host), Settings(name, config=config, timeout=30.0))
        plugins.append(plugin)
        return plugin

    yield load
    for plugin in plugins:
        close(plugin)


def compiler(builder: ModuleType) -> Path:
    """The compiler; skips the test where there is none."""
    try:
        rustc: Path = builder.compiler()
    except builder.BuildError as error:
        pytest.skip(str(error))
    return rustc


def module(name: str, host: str = "lists") -> bytes:
    """A module's bytes, in which the exports that the host does not know have a name that none knows."""
    wasm = (MODULES / f"{name}.wasm").read_bytes()
    for export in HOSTS[host]:
        wasm = wasm.replace(export.encode(), export.upper().encode())
    return wasm


def at(nodes: Mapping[str, policy.Object], pod: policy.Object) -> World:
    return world({name: encode_node(node) for name, node in nodes.items()}, pod=encode_pod(pod))


def answers(plugin: Plugin, at: World) -> list[policy.Answer]:
    """What Filter and Score say of each node."""
    filtered = filter_nodes(plugin, at)
    reasons = iter(filtered.reasons)
    scores = score(plugin, at) or [0] * len(at.nodes)
    codes = filtered.codes or bytes(len(at.nodes))
    return [
        policy.Answer(code, next(reasons) if code else "", value) for code, value in zip(codes, scores, strict=True)
    ]


def with_room(cpu: str, memory: str) -> policy.Object:
    return {"metadata": {"name": "node"}, "status": {"allocatable": {"cpu": cpu, "memory": memory}}}


def asking_for(cpu: str, memory: str) -> policy.Object:
    resources = {"requests": {"cpu": cpu, "memory": memory}}
    return {"metadata": {"name": "pod"}, "spec": {"containers": [{"name": "c", "image": "i", "resources": resources}]}}


@pytest.mark.parametrize("name", EXAMPLES)
def test_the_modules_are_a_fresh_build_to_the_byte(builder: ModuleType, tmp_path: Path, name: str) -> None:
    found = builder.version(compiler(builder))
    if found != builder.OLDEST:
        wanted, other = (".".join(map(str, each)) for each in (builder.OLDEST, found))
        pytest.skip(f"PATH has rustc {other}, and the modules are built with {wanted}: put the one of Debian 12 first")
    built = builder.build(builder.EXAMPLES[name], tmp_path / name)
    assert built.read_bytes() == (MODULES / f"{name}.wasm").read_bytes()


def test_there_is_a_module_of_each_example(builder: ModuleType) -> None:
    assert set(builder.EXAMPLES) == {path.stem for path in MODULES.glob("*.wasm")} == set(EXAMPLES)


def test_the_modules_are_small() -> None:
    """The first two make no texts and read no JSON."""
    most = {"nodenumber": 20_000, "headroom": 20_500}
    sizes = {path.stem: path.stat().st_size for path in MODULES.glob("*.wasm")}
    assert {name: size for name, size in sizes.items() if size > most.get(name, 65_000)} == {}


def test_the_tests_of_library_and_examples_pass(builder: ModuleType) -> None:
    if not list(builder.compilers()):
        pytest.skip("there is no rustc: apt-get install rustc, or https://rustup.rs")
    builder.test([])


def test_what_to_do_without_a_compiler(builder: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(builder.BuildError) as caught:
        builder.check()
    assert str(caught.value) == (
        "guests in Rust are built with rustc 1.63.0 or newer and its target wasm32-unknown-unknown, and PATH has none: "
        "apt-get install rustc libstd-rust-dev-wasm32, or rustup target add wasm32-unknown-unknown"
    )


@pytest.mark.parametrize("host", HOSTS)
def test_headroom_is_the_policy(load: Load, host: str) -> None:
    source = random.Random(1)
    plugin = load("headroom", host)
    nodes = {f"node-{i}": policy.random_node(source, f"node-{i}") for i in range(200)}
    for i in range(30):
        pod = policy.random_pod(source, f"pod-{i}")
        assert answers(plugin, at(nodes, pod)) == [policy.headroom(pod, node) for node in nodes.values()]


@pytest.mark.parametrize("host", HOSTS)
def test_nodes_that_come_change_and_go_are_judged_as_they_are_now(load: Load, host: str) -> None:
    """Now and then a request has a node that is gone: then all of its nodes are judged one by one."""
    source = random.Random(2)
    plugin = load("headroom", host)
    node_table = NodeTable()
    nodes = {"stays": policy.random_node(source, "stays")}
    for i in range(300):
        for name in {f"node-{source.randrange(40)}" for _ in range(source.randrange(6))}:
            if nodes.pop(name, None) is None or source.random() < 0.5:
                nodes[name] = policy.random_node(source, name)
        node_table.replace({name: encode_node(node) for name, node in nodes.items()})
        gone = [name for name in (f"node-{at}" for at in range(40)) if name not in nodes]
        names = [*nodes, *gone[: i % 3]]
        pod = policy.random_pod(source, f"pod-{i}")
        now = World(Pod(str(i), "default/pod", encode_pod(pod)), Nodes(node_table, names))
        assert answers(plugin, now) == [policy.headroom(pod, nodes.get(name, NOTHING)) for name in names]


@pytest.mark.parametrize("host", HOSTS)
def test_what_a_pod_wishes_does_not_last_longer_than_its_cycle(load: Load, host: str) -> None:
    plugin = load("headroom", host)
    nodes = {"node": with_room("4", "1Gi")}
    for memory, code in [("1Gi", 0), ("2Gi", 2), ("1Gi", 0)]:
        assert [answer.code for answer in answers(plugin, at(nodes, asking_for("1", memory)))] == [code]


def test_quantities_are_exact(load: Load) -> None:
    """A pod that asks for just what there is fits, and not where there is one less."""
    source = random.Random(3)
    plugin = load("headroom")
    for _ in range(1500):
        quantity, number = random_quantity(source)
        cpu, memory = (min(math.ceil(number * scale), LARGEST_INTEGER) for scale in (1000, 1))
        nodes = {
            "just": with_room(f"{cpu}m", f"{memory}"),
            "less cpu": with_room(f"{cpu - 1}m", f"{memory}"),
            "less memory": with_room(f"{cpu}m", f"{memory - 1}"),
        }
        codes = filter_nodes(plugin, at(nodes, asking_for(quantity, quantity)))
        assert (codes.codes, codes.reasons) == (b"\x00\x02\x02", ["Insufficient cpu", "Insufficient memory"]), quantity


def random_quantity(source: random.Random) -> tuple[str, Fraction]:
    """A quantity above 0 in some of the ways to write it, and its value."""
    digits = "".join(source.choices("0123456789", weights=[5, *[1] * 9], k=source.randrange(1, 40))) + "1"
    point = source.randrange(len(digits) + 1)
    text = f"{digits[:point]}.{digits[point:]}" if source.random() < 0.7 else digits
    scale = Fraction(10) ** -len(text.partition(".")[2])
    suffix, factor = source.choice(
        [
            ("", Fraction(1)),
            *((letter, Fraction(1000) ** power) for power, letter in enumerate("numkMGTPE", -3) if power < 0),
            *((letter, Fraction(1000) ** power) for power, letter in enumerate("kMGTPE", 1)),
            *((f"{letter}i", Fraction(1024) ** power) for power, letter in enumerate("KMGTPE", 1)),
            *((f"{mark}{power}", Fraction(10) ** power) for mark in ("e", "E") for power in (-30, -3, 0, 2, 30)),
        ]
    )
    return source.choice(["", "+"]) + text + suffix, int(digits) * scale * factor


def test_a_quantity_that_is_none_is_told_until_it_is_mended(load: Load) -> None:
    plugin = load("headroom")
    pod = asking_for("1", "1Gi")
    here = at({"node": with_room("4", "2Gi"), "other": with_room("4", "2Gi")}, pod)
    broken = encode_node(with_room("4", "2Gi")).replace(b"2Gi", b"2G!")
    asks: list[tuple[Callable[[Plugin, World], object], str]] = [(filter_nodes, "filter"), (score, "score")]
    for changed, reason in [(broken, "malformed quantity"), (b"\xff", "malformed protobuf")]:
        here.node_table.put([("other", changed)])
        for ask, export in asks:
            with pytest.raises(GuestError) as caught:
                ask(plugin, here.with_pod("1", here.pod.object))
            assert str(caught.value) == f"{export}nodes: {reason}"
    here.node_table.put([("other", encode_node(with_room("4", "2Gi")))])
    assert answers(plugin, here) == [policy.Answer(0, "", 50)] * 2


@pytest.mark.parametrize("host", HOSTS)
@pytest.mark.parametrize("reverse", [False, True])
def test_nodenumber_is_the_policy(load: Load, host: str, reverse: bool) -> None:
    plugin = load("nodenumber", host, '{"reverse": true}' if reverse else "")
    names = ["node-0", "node-17", "7", "node-7x", "node"]
    for pod in ["web-7", "web-0", "web", "7-web"]:
        here = at({name: {"metadata": {"name": name}} for name in names}, {"metadata": {"name": pod}})
        expected = [policy.nodenumber(pod, name, reverse=reverse) for name in names]
        assert score(plugin, here) == (expected if pod[-1].isdigit() else None)


def test_nodenumber_needs_no_objects(load: Load) -> None:
    plugin = load("nodenumber")
    assert not plugin.wants_nodes
    here = world({}, ["node-7", "node-8"], encode_pod({"metadata": {"name": "web-7"}}))
    assert score(plugin, here) == [100, 0]


def test_a_configuration_that_is_wrong_is_told(load: Load) -> None:
    plugin = load("nodenumber", config='{"revers": true}')
    with pytest.raises(GuestError) as caught:
        score(plugin, at({"node-7": {"metadata": {"name": "node-7"}}}, {"metadata": {"name": "web-7"}}))
    assert str(caught.value) == (
        'prescore: guestConfig: unknown key "revers"; expected a JSON object with "reverse" (true or false)'
    )


@pytest.mark.parametrize(("nodes", "rounds", "settled", "renamed"), [(15_000, 7, 0, False), (1_000, 40, 25, True)])
def test_changes_do_not_make_it_grow(
    engine: WasmtimeEngine, nodes: int, rounds: int, settled: int, renamed: bool
) -> None:
    """Every node gets a new zone and type in each round, and a new name where `renamed`.

    New names have new numbers until the host, having `SLACK` of them to spare, uses the old ones again.
    """
    instance = engine.compile(module("headroom")).instantiate(Settings("headroom"), NoHandle())
    node_table = NodeTable()
    sizes = []
    labels = {policy.ZONE: "zone-123456", policy.INSTANCE_TYPE: "type-123456"}
    template = encode_node({"metadata": {"labels": labels}, "status": with_room("4", "8Gi")["status"]})
    for first in range(100_000, 100_000 + nodes * rounds, nodes):
        texts = [str(number).encode() for number in range(first, first + nodes)]
        names = [f"node-{first * renamed + i}" for i in range(nodes)]
        node_table.replace({name: template.replace(b"123456", text) for name, text in zip(names, texts, strict=True)})
        instance.sync_nodes(Nodes(node_table, ()), time.monotonic() + 30)
        sizes.append(instance.memory_size)
    instance.close()
    assert sizes[settled:] == [sizes[settled]] * (rounds - settled)
    assert sizes[-1] <= 4 << 20


def test_the_plugin_of_the_readme(builder: ModuleType, engine: WasmtimeEngine, tmp_path: Path) -> None:
    compiler(builder)
    wasm = builder.build(readme_plugin(0, tmp_path / "tier.rs"), tmp_path / "tier.wasm").read_bytes()
    plugin = Plugin(engine, wasm, Settings("tier", config='{"tier": "on-demand"}', timeout=30.0))
    labels = [{"tier": "on-demand"}, {"tier": "spot"}, {"tier": "spot", "retired": ""}, {}]
    nodes = {f"node-{i}": labelled(each) for i, each in enumerate(labels)}
    retired = policy.Answer(3, "node is retired", 0)
    no, yes = (policy.Answer(0, "", points) for points in (0, 100))
    assert answers(plugin, at(nodes, labelled({}))) == [yes, no, retired, no]
    assert answers(plugin, at(nodes, labelled({"tier": "spot"}))) == [no, yes, retired._replace(score=100), no]
    close(plugin)


def test_the_plugin_of_the_readme_that_knows_pods(builder: ModuleType, engine: WasmtimeEngine, tmp_path: Path) -> None:
    compiler(builder)
    wasm = builder.build(readme_plugin(1, tmp_path / "spread.rs"), tmp_path / "spread.wasm").read_bytes()
    plugin = Plugin(engine, wasm, Settings("spread", timeout=30.0))
    gpus = {"nvidia.com/gpu": "4"}
    here = at({name: {"metadata": {"name": name}, "status": {"allocatable": gpus}} for name in "abc"}, of_job("x", "2"))
    pods = {"1": ("a", of_job("x", "1")), "2": ("b", of_job("y", "3")), "3": ("c", of_job("y", "2"))}
    here.node_table.pods.put((uid, ResidentPod(node, encode_pod(pod))) for uid, (node, pod) in pods.items())
    filtered = filter_nodes(plugin, here)
    reasons = ["a pod of the job is there", "too few GPUs are free"]
    assert (filtered.codes, filtered.reasons) == (b"\x02\x02\x00", reasons)
    close(plugin)


def of_job(job: str, gpus: str) -> policy.Object:
    container = {"name": "c", "image": "i", "resources": {"requests": {"nvidia.com/gpu": gpus}}}
    labels = {"batch.kubernetes.io/job-name": job}
    return {"metadata": {"name": "pod", "labels": labels}, "spec": {"containers": [container]}}


def readme_plugin(at: int, source: Path) -> Path:
    """Writes one of the README's plugins to a file."""
    plugins = re.findall(r"^```rust\n(.*?)^```", (SDK / "README.md").read_text(), re.DOTALL | re.MULTILINE)
    source.write_text(plugins[at])
    return source


def labelled(labels: Mapping[str, str]) -> policy.Object:
    return {"metadata": {"name": "thing", "labels": {f"example.com/{key}": value for key, value in labels.items()}}}
