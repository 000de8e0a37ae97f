"""The extender in Go does what the policy says, so that it is worth being compared with."""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from bench.client import Connection, post
from bench.controlplane import binaries
from bench.controlplane.gobuild import BUILD_ENVIRONMENT, BUILD_FLAGS, BuildError, required_version
from bench.controlplane.ports import LOOPBACK, free_port
from bench.controlplane.process import comes_true
from bench.peers import gopeer, objects
from bench.peers.apiserver import FIRST_VERSION, Cluster, api_server
from bench.peers.gopeer import go_extender
from bench.servers import get, running
from tests.extender.objects import filtered, names_args, nodes_args

pytestmark = pytest.mark.timeout(600)  # The first time programs in Go are built.

NAMES = [objects.node_name(at) for at in range(12)]
NODES = [objects.node(at, FIRST_VERSION) for at in range(12)]
ZONE_A = {0, 3, 6, 9}
"""Nodes whose zone is the first one."""


def ask(connection: Connection, verb: str, request: object) -> Any:
    return json.loads(connection.ask(post(f"/{verb}", json.dumps(request).encode())).body)


def pod(cpu: str = "0", memory: str = "0", **wishes: str) -> objects.Object:
    labels = {f"example.com/{name.replace('_', '-')}": value for name, value in wishes.items()}
    return objects.requesting(1, cpu, memory, labels)


def failed(reasons: Mapping[int, str]) -> dict[str, str]:
    return {NAMES[at]: reason for at, reason in reasons.items()}


TIMEOUT_S = 30.0
BUILD_TIMEOUT_S = 500.0
VERBS = ("filter", "prioritize")

CPU, MEMORY, ZONE = "Insufficient cpu", "Insufficient memory", "node(s) in another zone"

FILTERS = [
    pytest.param(pod("1", "1Gi"), {}, {}, id="fits"),
    pytest.param(pod("3920m", "15735980Ki"), {}, {}, id="just fits"),
    pytest.param(pod("3921m"), dict.fromkeys(range(3), CPU), {}, id="cpu"),
    pytest.param(pod(memory="15735981Ki"), dict.fromkeys(range(3), MEMORY), {}, id="memory"),
    pytest.param(
        pod("8", "40Gi"), dict.fromkeys([*range(6), 9, 10, 11], CPU) | dict.fromkeys(range(6, 9), MEMORY), {}, id="both"
    ),
    pytest.param(
        pod("8", zone="region-1a"),
        dict.fromkeys([0, 3, 9], CPU),
        dict.fromkeys({*range(12)} - ZONE_A, ZONE),
        id="zone before cpu",
    ),
    pytest.param(pod(zone=""), {}, {}, id="no zone"),
]


@pytest.mark.parametrize(("asked", "insufficient", "elsewhere"), FILTERS)
def test_filter_of_names(
    peer: Connection, asked: objects.Object, insufficient: Mapping[int, str], elsewhere: Mapping[int, str]
) -> None:
    kept = [name for at, name in enumerate(NAMES) if at not in insufficient and at not in elsewhere]
    answer = ask(peer, "filter", names_args(NAMES, asked))
    assert answer == filtered(kept, failed(insufficient), failed(elsewhere))


@pytest.mark.parametrize(("asked", "insufficient", "elsewhere"), FILTERS)
def test_filter_of_whole_nodes_sends_them_back(
    peer: Connection, asked: objects.Object, insufficient: Mapping[int, str], elsewhere: Mapping[int, str]
) -> None:
    kept = [node for at, node in enumerate(NODES) if at not in insufficient and at not in elsewhere]
    answer = ask(peer, "filter", nodes_args(NODES, asked))
    nodes = {"metadata": {}, "items": kept}
    assert answer == filtered(None, failed(insufficient), failed(elsewhere)) | {"Nodes": nodes}


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        # Of 3,920, 7,920, 15,920 and 7,920 millicores and 15,367, 31,751, 31,751 and 64,519 MiB.
        pytest.param(pod("1", "1Gi"), [74, 87, 93, 87], id="cpu is scarce"),
        pytest.param(pod("100m", "8Gi"), [46, 74, 74, 87], id="memory is scarce"),
        pytest.param(pod("5"), [0, 36, 68, 36], id="too large for some"),
        pytest.param(pod("1", instance_type="compute.xlarge"), [37, 43, 93, 43], id="instance type"),
        pytest.param(pod(), [100, 100, 100, 100], id="nothing"),
    ],
)
@pytest.mark.parametrize("whole", [False, True], ids=["names", "whole nodes"])
def test_prioritize(peer: Connection, asked: objects.Object, expected: Sequence[int], whole: bool) -> None:
    request = nodes_args(NODES, asked) if whole else names_args(NAMES, asked)
    scores = [{"Host": name, "Score": expected[at // 3]} for at, name in enumerate(NAMES)]
    assert ask(peer, "prioritize", request) == scores


def test_requests_of_all_containers_count_each_rounded_up(peer: Connection) -> None:
    """1.5 and 3,918.5 millicores are 2 and 3,919."""
    asked = pod("1500u")
    asked["spec"]["containers"] += pod("3918500u")["spec"]["containers"]
    answer = ask(peer, "filter", names_args(NAMES[:1], asked))
    assert answer == filtered([], {NAMES[0]: CPU})


def test_an_update_of_a_node_counts() -> None:
    """The tenth update takes from node 10 what a pod needs that asks for all of it."""
    request = names_args([NAMES[10]], pod("7920m"))
    with api_server(12) as cluster, go_extender(cluster.url) as port, Connection(port) as connection:
        assert ask(connection, "filter", request) == filtered([NAMES[10]])
        cluster.update(rate=20)
        rejected = filtered([], {NAMES[10]: CPU})
        assert comes_true(lambda: ask(connection, "filter", request) == rejected, lambda: None, TIMEOUT_S)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({"NodeNames": NAMES}, "the request has no Pod"),
        ({"Pod": pod()}, "the request has neither NodeNames nor Nodes"),
        (names_args(["nobody"]), "node nobody is not known"),
    ],
)
def test_a_request_that_cannot_be_answered_is_refused(peer: Connection, body: object, message: str) -> None:
    with Connection(peer.port) as connection, pytest.raises(ConnectionError) as caught:
        ask(connection, "filter", body)
    answer = str(caught.value)
    assert answer.startswith("expected status 200 and a Content-Length, got 'HTTP/1.1 400 Bad Request"), answer
    assert answer.endswith(f"{message}\\n'"), answer


def test_several_policies_of_a_kubeconfigs_cluster_answer_as_one(cluster: Cluster, tmp_path: Path) -> None:
    port = free_port()
    options: list[str | Path] = ["-kubeconfig", cluster.write_kubeconfig(tmp_path), "-plugins", "3"]
    command: list[str | Path] = [gopeer.program("extender"), "-listen", f"{LOOPBACK}:{port}", *options]
    with running(command, port, says_ready=True), Connection(port) as connection:
        answers = [ask(connection, verb, names_args(NAMES, pod("4"))) for verb in ("filter", "prioritize")]
    assert answers == [
        filtered(NAMES[3:], failed(dict.fromkeys(range(3), CPU))),
        [{"Host": name, "Score": [0, 49, 74, 49][at // 3]} for at, name in enumerate(NAMES)],
    ]


@contextmanager
def answering_the_best(cluster: Cluster, top: int) -> Iterator[Connection]:
    """A connection to an extender whose filter answers so many nodes."""
    port = free_port()
    command: list[str | Path] = [gopeer.program("extender"), "-listen", f"{LOOPBACK}:{port}", "-apiserver", cluster.url]
    with running([*command, "-top", str(top)], port, says_ready=True), Connection(port) as connection:
        yield connection


def kept(connection: Connection, asked: objects.Object) -> list[int]:
    """The nodes that filter answers; it rejects the others as it does where it answers all that pass."""
    answer = ask(connection, "filter", names_args(NAMES, asked))
    nodes = [NAMES.index(name) for name in answer["NodeNames"]]
    rejected = dict.fromkeys(range(3), CPU) if asked is LARGE else {}
    assert answer == filtered([NAMES[at] for at in nodes], failed(rejected))
    return nodes


LARGE = pod("5")
"""Scores are 36 on nodes 3 to 5 and 9 to 11, and 68 on 6 to 8."""


def test_the_best_node_is_answered_and_equal_ones_in_turn(cluster: Cluster) -> None:
    with answering_the_best(cluster, 1) as connection:
        best = [kept(connection, LARGE) for _ in range(6)]
        assert sorted(best[:3]) == [[6], [7], [8]]
        assert best[3:] == best[:3]
        equal = [kept(connection, pod())[0] for _ in range(len(NAMES))]
        assert sorted(equal) == [*range(len(NAMES))]


def test_the_best_nodes_are_answered_in_their_order(cluster: Cluster) -> None:
    with answering_the_best(cluster, 5) as connection:
        first, second, third = (kept(connection, LARGE) for _ in range(3))
        assert {*first[:3]} == {*second[:3]} == {*third[:3]} == {6, 7, 8}
        assert sorted(first[3:] + second[3:] + third[3:]) == [3, 4, 5, 9, 10, 11]
        scores = ask(connection, "prioritize", names_args([NAMES[at] for at in first], LARGE))
        assert scores == [{"Host": NAMES[at], "Score": 68 if at in {6, 7, 8} else 36} for at in first]


def test_fewer_nodes_than_the_best_are_all_that_pass(cluster: Cluster) -> None:
    with answering_the_best(cluster, 100) as connection:
        assert sorted(kept(connection, LARGE)) == [*range(3, 12)]


def test_what_its_phases_took_is_told(cluster: Cluster) -> None:
    phases = ("decode", "encode", "guest", "map")
    with go_extender(cluster.url) as port, Connection(port) as connection:
        told = [gopeer.spent(get(port, "/debug/vars")[1])]
        for verb in ("filter", "filter", "prioritize"):
            ask(connection, verb, names_args(NAMES, pod()))
            told.append(gopeer.spent(get(port, "/debug/vars")[1]))
    filters, both = ({(verb, phase) for verb in verbs for phase in phases} for verbs in (["filter"], VERBS))
    assert [set(each) for each in told] == [set(), filters, filters, both]
    assert all(0 < told[1][phase] < told[2][phase] == told[3][phase] < 1 for phase in filters)


def test_the_programs_are_of_the_stock_schedulers_kubernetes() -> None:
    stock = binaries.SCHEDULERS[binaries.NEWEST].version
    assert required_version(gopeer.MODULE, "k8s.io/kubernetes") == stock
    assert gopeer.versions() == f"Kubernetes {stock}"


def test_a_program_is_built_once() -> None:
    program = gopeer.program("player")
    made = program.stat()
    assert (gopeer.program("player"), program.stat().st_ino) == (program, made.st_ino)


@pytest.fixture
def build(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[..., Path]:
    """Wants a program of other sources by their number, and sets when it was wanted."""
    monkeypatch.setattr(gopeer, "cache_root", lambda: tmp_path / "controlplane")
    monkeypatch.setattr(gopeer, "compile_program", lambda _module, _package, target, *_: target.write_bytes(b""))

    def build(sources: int, wanted: float, name: gopeer.Program = "player") -> Path:
        monkeypatch.setattr(gopeer, "LDFLAGS", str(sources))
        program = gopeer.program(name)
        os.utime(program, (wanted, wanted))
        return program

    return build


def test_few_builds_are_kept(build: Callable[..., Path], tmp_path: Path) -> None:
    """Those that were wanted last, each program's own."""
    extender = build(0, 0, "extender")
    first, second, third = (build(sources, sources) for sources in (1, 2, 3))
    assert build(1, 4) == first
    fourth = build(4, 5)
    assert {*tmp_path.glob("peers/*-go*")} == {extender, third, first, fourth}
    assert not second.exists()


def test_a_build_that_a_run_may_still_use_is_kept(build: Callable[..., Path], tmp_path: Path) -> None:
    builds = {build(sources, time.time()) for sources in range(gopeer.MOST_KEPT + 2)}
    assert {*tmp_path.glob("peers/*-go*")} == builds


def test_no_go(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    with pytest.raises(BuildError) as caught:
        gopeer.program("player")
    assert str(caught.value) == (
        "programs are built from source here and `go` was not found:"
        " install Go 1.26.0 or newer (https://go.dev/dl/) and put it on PATH"
    )


@pytest.mark.parametrize("build", [gopeer.build_upstream_player, gopeer.build_upstream_scheduler])
def test_a_folder_that_is_no_checkout(build: Callable[[Path], Path], tmp_path: Path) -> None:
    with pytest.raises(BuildError) as caught:
        build(tmp_path)
    assert str(caught.value) == (
        f"{tmp_path} has no scheduler/go.mod: clone https://github.com/kubernetes-sigs/kube-scheduler-wasm-extension"
        " and give that folder"
    )


def test_the_sources_are_formatted() -> None:
    folders = [gopeer.MODULE, gopeer.PROTOCOL, gopeer.UPSTREAM]
    found = subprocess.run(
        ["gofmt", "-d", *folders], capture_output=True, text=True, check=True, timeout=BUILD_TIMEOUT_S
    )
    assert found.stdout == ""


@pytest.mark.parametrize("check", ["vet", "test"])
def test_the_sources_pass_gos_own_checks(check: str) -> None:
    """With the flags of the programs, whose compiled packages they share."""
    command = ["go", check, *BUILD_FLAGS, "./..."]
    environment = {**os.environ, **BUILD_ENVIRONMENT}
    found = subprocess.run(
        command,
        cwd=gopeer.MODULE,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=BUILD_TIMEOUT_S,
    )
    assert found.returncode == 0, found.stdout + found.stderr
