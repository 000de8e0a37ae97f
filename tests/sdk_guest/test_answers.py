"""What the examples `headroom` and `nodenumber` answer in languages whose modules are kept, to hosts of three kinds."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import Final

import pytest

from tests.sdk_guest import policy
from tests.sdk_guest.builds import SDK
from tests.sdk_guest.plugins import MakePlugin, about, answers, without
from tests.wasm_runtime.world import World, filter_nodes, score, world
from wasm_runtime import GuestError, Nodes, NodeTable, Plugin, Pod, Settings
from wasm_runtime.engine import Engine
from wasm_runtime.protobuf import encode_node, encode_pod

LISTS: Final = ("filternodes", "scorenodes")
RESIDENT: Final = ("nodechanged", "noderemoved", "nodebuffer", *LISTS)
HOSTS: Final[Mapping[str, tuple[str, ...]]] = {"lists": (), "one by one": LISTS, "never announces": RESIDENT}
"""The exports that each kind of host does not know."""

NOTHING: Final[policy.Object] = {"metadata": {}}
"""What a node that the host does not know is taken for."""

LARGEST_INTEGER: Final = 2**63 - 1

Load = Callable[..., Plugin]

every_host = pytest.mark.parametrize("host", HOSTS)


@pytest.fixture(params=["rust", "assemblyscript"])
def load(request: pytest.FixtureRequest, each_engine: Engine, make_plugin: MakePlugin) -> Load:
    """Makes a plugin of one of a language's modules, for one kind of host."""
    modules = SDK / request.param / "modules"

    def load(name: str, host: str = "lists", config: str = "") -> Plugin:
        wasm = without((modules / f"{name}.wasm").read_bytes(), *HOSTS[host])
        return make_plugin(each_engine, wasm, Settings(name, config=config, timeout=30.0))

    return load


def with_room(cpu: str, memory: str) -> policy.Object:
    return {"metadata": {"name": "node"}, "status": {"allocatable": {"cpu": cpu, "memory": memory}}}


def asking_for(cpu: str, memory: str) -> policy.Object:
    resources = {"requests": {"cpu": cpu, "memory": memory}}
    return {"metadata": {"name": "pod"}, "spec": {"containers": [{"name": "c", "image": "i", "resources": resources}]}}


@every_host
def test_headroom_is_the_policy(load: Load, host: str) -> None:
    source = random.Random(1)
    plugin = load("headroom", host)
    nodes = {f"node-{i}": policy.random_node(source, f"node-{i}") for i in range(200)}
    for i in range(30):
        pod = policy.random_pod(source, f"pod-{i}")
        assert answers(plugin, about(nodes, pod)) == [policy.headroom(pod, node) for node in nodes.values()]


@every_host
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


@every_host
def test_what_a_pod_wishes_does_not_last_longer_than_its_cycle(load: Load, host: str) -> None:
    plugin = load("headroom", host)
    nodes = {"node": with_room("4", "1Gi")}
    for memory, code in [("1Gi", 0), ("2Gi", 2), ("1Gi", 0)]:
        assert [answer.code for answer in answers(plugin, about(nodes, asking_for("1", memory)))] == [code]


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
        codes = filter_nodes(plugin, about(nodes, asking_for(quantity, quantity)))
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
    here = about({"node": with_room("4", "2Gi"), "other": with_room("4", "2Gi")}, pod)
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


@every_host
@pytest.mark.parametrize("reverse", [False, True])
def test_nodenumber_is_the_policy(load: Load, host: str, reverse: bool) -> None:
    plugin = load("nodenumber", host, '{"reverse": true}' if reverse else "")
    names = ["node-0", "node-17", "7", "node-7x", "node"]
    for pod in ["web-7", "web-0", "web", "7-web"]:
        here = about({name: {"metadata": {"name": name}} for name in names}, {"metadata": {"name": pod}})
        expected = [policy.nodenumber(pod, name, reverse=reverse) for name in names]
        assert score(plugin, here) == (expected if pod[-1].isdigit() else None)


def test_nodenumber_needs_no_objects(load: Load) -> None:
    plugin = load("nodenumber")
    assert not plugin.wants_nodes
    here = world({}, ["node-7", "node-8"], encode_pod({"metadata": {"name": "web-7"}}))
    assert score(plugin, here) == [100, 0]
