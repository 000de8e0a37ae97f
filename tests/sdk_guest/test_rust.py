"""The guests in Rust: what their sources build, their size in memory, and the plugins of the README."""

from __future__ import annotations

import importlib
import re
import time
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Final

import pytest

from extender.commands.build import rust
from tests.sdk_guest import builds, policy
from tests.sdk_guest.builds import SDK
from tests.sdk_guest.plugins import about, answers
from tests.wasm_runtime.world import close, filter_nodes, score
from wasm_runtime import GuestError, Nodes, NodeTable, Plugin, Settings, WasmtimeEngine
from wasm_runtime.engine import NoHandle
from wasm_runtime.pods.pod_table import ResidentPod
from wasm_runtime.protobuf import encode_node, encode_pod

MODULES: Final = SDK / "rust" / "modules"
SHIPPED: Final = SDK.parent / "extender" / "policies"

EXAMPLES: Final = ("fullest", "headroom", "quorum", "nodeinfo", "nodenumber", "seats", "usher")
POLICIES: Final = ("gang", "gpu_pack", "topology")


@pytest.fixture
def sources(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """Those of the checkout."""
    monkeypatch.syspath_prepend(SDK)
    return importlib.import_module("builders.rust")


@pytest.fixture
def builder() -> ModuleType:
    return rust


@pytest.fixture(scope="module")
def engine() -> WasmtimeEngine:
    return WasmtimeEngine()


def compiler(builder: ModuleType) -> Path:
    """The compiler; skips the test where there is none."""
    try:
        rustc: Path = builder.compiler()
    except builder.BuildError as error:
        pytest.skip(str(error))
    return rustc


@pytest.mark.timeout(900)  # The compiler takes half a minute of a processor for a policy.
@pytest.mark.parametrize(
    ("folder", "name"),
    [*((MODULES, name) for name in EXAMPLES), *((SHIPPED, name) for name in POLICIES)],
    ids=[*EXAMPLES, *POLICIES],
)
def test_the_modules_are_a_fresh_build_to_the_byte(
    builder: ModuleType, sources: ModuleType, tmp_path: Path, folder: Path, name: str
) -> None:
    found = builder.version(compiler(builder))
    if found != builder.OLDEST:
        wanted, other = (".".join(map(str, each)) for each in (builder.OLDEST, found))
        pytest.skip(f"PATH has rustc {other}, and the modules are built with {wanted}: put the one of Debian 12 first")
    source = {**sources.EXAMPLES, **sources.POLICIES}[name]
    builds.built(source, "--out", tmp_path)
    builds.require_same(tmp_path / f"{name}.wasm", folder / f"{name}.wasm")


def test_there_is_a_module_of_each_example_and_policy(sources: ModuleType) -> None:
    assert set(sources.EXAMPLES) == {path.stem for path in MODULES.glob("*.wasm")} == set(EXAMPLES)
    assert set(sources.POLICIES) == {path.stem for path in SHIPPED.glob("*.wasm")} == set(POLICIES)


def test_the_modules_are_small() -> None:
    """The first two make no texts and read no JSON."""
    most = {"nodenumber": 24_000, "headroom": 26_000}
    sizes = {path.stem: path.stat().st_size for path in MODULES.glob("*.wasm")}
    assert {name: size for name, size in sizes.items() if size > most.get(name, 80_000)} == {}


def test_the_tests_of_library_and_examples_pass(builder: ModuleType, sources: ModuleType) -> None:
    if not list(builder.compilers()):
        pytest.skip("there is no rustc: apt-get install rustc, or https://rustup.rs")
    builder.test(sources.TESTS)


def test_what_to_do_without_a_compiler(builder: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(builder.BuildError) as caught:
        builder.check()
    assert str(caught.value) == (
        "guests in Rust are built with rustc 1.63.0 or newer and its target wasm32-unknown-unknown, and PATH has none: "
        "apt-get install rustc libstd-rust-dev-wasm32, or rustup target add wasm32-unknown-unknown"
    )


def test_a_configuration_that_is_wrong_is_told(engine: WasmtimeEngine) -> None:
    wasm = (MODULES / "nodenumber.wasm").read_bytes()
    plugin = Plugin(engine, wasm, Settings("nodenumber", config='{"revers": true}', timeout=30.0))
    with pytest.raises(GuestError) as caught:
        score(plugin, about({"node-7": {"metadata": {"name": "node-7"}}}, {"metadata": {"name": "web-7"}}))
    assert str(caught.value) == (
        'prescore: guestConfig: unknown key "revers"; expected a JSON object with "reverse" (true or false)'
    )
    close(plugin)


@pytest.mark.parametrize(("nodes", "rounds", "settled", "renamed"), [(15_000, 7, 0, False), (1_000, 40, 25, True)])
def test_changes_do_not_make_it_grow(
    engine: WasmtimeEngine, nodes: int, rounds: int, settled: int, renamed: bool
) -> None:
    """Every node gets a new zone and type in each round, and a new name where `renamed`.

    New names have new numbers until the host, having `SLACK` of them to spare, uses the old ones again.
    """
    instance = engine.compile((MODULES / "headroom.wasm").read_bytes()).instantiate(Settings("headroom"), NoHandle())
    node_table = NodeTable()
    sizes = []
    labels = {policy.ZONE: "zone-123456", policy.INSTANCE_TYPE: "type-123456"}
    template = encode_node({"metadata": {"labels": labels}, "status": {"allocatable": {"cpu": "4", "memory": "8Gi"}}})
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
    assert answers(plugin, about(nodes, labelled({}))) == [yes, no, retired, no]
    assert answers(plugin, about(nodes, labelled({"tier": "spot"}))) == [no, yes, retired._replace(score=100), no]
    close(plugin)


def test_the_plugin_of_the_readme_that_knows_pods(builder: ModuleType, engine: WasmtimeEngine, tmp_path: Path) -> None:
    compiler(builder)
    wasm = builder.build(readme_plugin(1, tmp_path / "spread.rs"), tmp_path / "spread.wasm").read_bytes()
    plugin = Plugin(engine, wasm, Settings("spread", timeout=30.0))
    gpus = {"nvidia.com/gpu": "4"}
    here = about(
        {name: {"metadata": {"name": name}, "status": {"allocatable": gpus}} for name in "abc"}, of_job("x", "2")
    )
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
