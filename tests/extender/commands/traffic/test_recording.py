"""Recordings of `kwx serve`, and files that are none."""

from __future__ import annotations

import gzip
import signal
import stat
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path

import msgspec
import pytest

from bench.controlplane.ports import free_port
from bench.peers import objects
from bench.peers.apiserver import FIRST_VERSION, Cluster, api_server
from extender.admin.recording.file_format import (
    FORMAT,
    MAX_RECORDING_BYTES,
    BegunRecord,
    CycleRecord,
    EndedRecord,
    NodeRecord,
    Record,
)
from extender.commands.plugin.client import AdminClient, RemoteError
from extender.commands.traffic import recording
from extender.commands.traffic.recording import Cycle, Recording, RecordingError, record
from tests.extender.kwx import Extender, plugin, profile
from tests.extender.objects import names_args, node, nodes_args, pod
from wasm_runtime.protobuf import encode_node, encode_pod
from wasm_runtime.protobuf.read import identity

NODES = 30
NAMES = [objects.node_name(at) for at in range(NODES)]


@pytest.fixture(scope="module", autouse=True)
def _compiled_code(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Nothing is kept among the user's own."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture(scope="module")
def changing() -> Iterator[Cluster]:
    with api_server(NODES) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def beside(tmp_path_factory: pytest.TempPathFactory, changing: Cluster) -> Iterator[Extender]:
    """An extender that knows a cluster."""
    folder = tmp_path_factory.mktemp("beside")
    cluster = {"mode": "kubeconfig", "kubeconfig": str(changing.write_kubeconfig(folder))}
    with Extender(folder, profile("default", plugin("accelerator")), cluster=cluster) as extender:
        extender.wait_until(lambda: extender.admin.get("/readyz").is_success)
        yield extender


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Extender]:
    """An extender that knows what requests tell it."""
    with Extender(tmp_path_factory.mktemp("alone"), profile("default", plugin("nodenumber"))) as extender:
        yield extender


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "traffic.kwxrec"


def recorded(extender: Extender, file: Path, ask: Callable[[int], object], **limits: float) -> Recording:
    """A recording while pods are judged; `ask` has the first one judged once it has begun, others as they come."""
    with AdminClient(extender.admin_url) as client:
        made = record(client, file, progress=ask, **limits)  # type: ignore[arg-type]
    assert Recording.read(file) == made
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    return made


def test_of_a_cluster_it_has_all_nodes_as_they_were_and_as_they_change(
    beside: Extender, changing: Cluster, file: Path
) -> None:
    numbers = count()

    def ask(pods: int) -> None:
        at = next(numbers)
        beside.post("/filter", names_args(NAMES[at:] + NAMES[:at], objects.requesting(at, "1", "1Gi", {})))
        changing.update(rate=500 if pods else 0)

    try:
        made = recorded(beside, file, ask, pods=8)
    finally:
        changing.update(rate=0)
    assert (made.profile, made.dropped, made.ended, len(made.cycles)) == ("default", 0, "pods", 8)
    assert made.nodes == {name: encode_node(objects.node(at, FIRST_VERSION)) for at, name in enumerate(NAMES)}
    assert [cycle.nodes for cycle in made.cycles] == [tuple(NAMES[at:] + NAMES[:at]) for at in range(8)]
    seconds = [cycle.seconds for cycle in made.cycles]
    assert seconds == sorted(seconds)
    for cycle in made.cycles:
        for name, content in cycle.changes.items():
            update = int(identity(content).resource_version) - FIRST_VERSION
            assert content == encode_node(objects.node(NAMES.index(name), FIRST_VERSION + update, update))
    assert not made.cycles[0].changes
    assert sum(len(cycle.changes) for cycle in made.cycles) > NODES


def test_where_nodes_come_whole_they_are_those_of_the_requests(alone: Extender, file: Path) -> None:
    """Also if the plugins that serve look at no node."""
    secret = pod()
    secret["spec"]["containers"][0]["env"] = [{"name": "KEY", "value": "hidden"}]
    blank = pod()
    blank["spec"]["containers"][0]["env"] = [{"name": "KEY", "value": "xxxxxx"}]
    first, second = [node("a"), node("b")], [node("b", version="2"), node("a")]

    def ask(pods: int) -> None:
        if not pods:
            for nodes in (first, second):
                alone.post("/filter", nodes_args(nodes, secret))

    made = recorded(alone, file, ask, pods=2)
    assert made.nodes == {each["metadata"]["name"]: encode_node(each) for each in first}
    assert [cycle._replace(seconds=0.0) for cycle in made.cycles] == [
        Cycle(0.0, "uid-of-web-7", "default/web-7", encode_pod(blank), ("a", "b"), {}),
        Cycle(0.0, "uid-of-web-7", "default/web-7", encode_pod(blank), ("b", "a"), {"b": encode_node(second[0])}),
    ]


def test_where_nodes_are_only_named_there_are_no_objects(alone: Extender, file: Path) -> None:
    asked = iter([names_args(["a", "b"])])
    made = recorded(alone, file, lambda _: [alone.post("/filter", each) for each in asked], pods=1)
    assert (made.nodes, [cycle.nodes for cycle in made.cycles], made.ended) == ({}, [("a", "b")], "pods")


def test_without_a_pod_there_is_no_file(alone: Extender, file: Path) -> None:
    with AdminClient(alone.admin_url) as client, pytest.raises(RecordingError) as caught:
        record(client, file, seconds=0.1)
    assert str(caught.value) == (
        "what the extender sends holds no pod: profile default judged none meanwhile;"
        " record while pods are scheduled by it"
    )
    assert not file.exists()


@pytest.mark.parametrize(
    ("query", "problem"),
    [
        ({"profile": "nope"}, "no profile is named 'nope'; there are: default"),
        ({"pods": 0}, "pods: Input should be greater than or equal to 1"),
    ],
)
def test_what_is_refused_leaves_no_file(alone: Extender, file: Path, query: dict[str, str], problem: str) -> None:
    with AdminClient(alone.admin_url) as client, pytest.raises(RemoteError) as caught:
        record(client, file, **query)  # type: ignore[arg-type]
    assert (str(caught.value), file.exists()) == (problem, False)


def test_without_an_extender_there_is_no_file(file: Path) -> None:
    server = f"http://127.0.0.1:{free_port()}"
    with AdminClient(server) as client, pytest.raises(RemoteError) as caught:
        record(client, file)
    assert str(caught.value).startswith(f"no extender answers at {server}: ")
    assert not file.exists()


def test_a_file_that_is_there_stays(alone: Extender, file: Path) -> None:
    file.write_text("mine")
    with AdminClient(alone.admin_url) as client, pytest.raises(RecordingError) as caught:
        record(client, file)
    assert str(caught.value) == f"{file} cannot be written: File exists; name another file"
    assert file.read_text() == "mine"


def test_what_has_come_before_the_extender_ended_can_be_read(tmp_path: Path, file: Path) -> None:
    with Extender(tmp_path, profile("default", plugin("nodenumber"))) as extender:

        def ask(pods: int) -> None:
            if pods:
                assert extender.stop() == 0
            else:
                extender.post("/filter", names_args(["a"]))

        with AdminClient(extender.admin_url) as client, pytest.raises(RemoteError) as caught:
            record(client, file, progress=ask)
        assert str(caught.value).endswith(f"; what had come until then is in {file}")
    made = Recording.read(file)
    assert (made.ended, [cycle.name for cycle in made.cycles]) == (None, ["default/web-7"])


def test_ctrl_c_ends_it_and_what_has_come_is_the_recording(alone: Extender, file: Path) -> None:
    def ask(pods: int) -> None:
        if pods:
            signal.raise_signal(signal.SIGINT)
        alone.post("/filter", names_args(["a"]))

    made = recorded(alone, file, ask)
    assert (made.ended, [cycle.name for cycle in made.cycles]) == (None, ["default/web-7"])


def test_ctrl_c_before_the_first_pod_leaves_no_file(alone: Extender, file: Path) -> None:
    with AdminClient(alone.admin_url) as client, pytest.raises(RecordingError) as caught:
        record(client, file, progress=lambda _: signal.raise_signal(signal.SIGINT))
    assert str(caught.value) == f"no pod had come yet, so there is no {file}; record while pods are scheduled"
    assert not file.exists()


BEGUN = BegunRecord(FORMAT, "default", "2026-01-31T12:00:00.000+00:00")
FRAME = CycleRecord(0.5, "uid", "default/web", b"pod", [0])
WHOLE: list[Record] = [BEGUN, NodeRecord("a", b"a1"), FRAME, EndedRecord("pods", 3)]


def packed(*records: Record) -> bytes:
    return packed_frames(*map(msgspec.msgpack.encode, records))


def packed_frames(*frames: bytes) -> bytes:
    return gzip.compress(b"".join(len(each).to_bytes(4, "big") + each for each in frames))


def test_a_file_is_read_and_so_is_what_is_left_of_one(file: Path) -> None:
    whole = packed(*WHOLE)
    file.write_bytes(whole)
    made = Recording.read(file)
    cycle = Cycle(0.5, "uid", "default/web", b"pod", ("a",), {})
    assert made == Recording("default", BEGUN.at, {"a": b"a1"}, [cycle], 3, "pods")
    file.write_bytes(whole[:-4])
    assert Recording.read(file) in (made, made._replace(dropped=0, ended=None))


def test_nodes_come_and_go(file: Path) -> None:
    changes = [NodeRecord("a", b"a2"), NodeRecord("a", b""), NodeRecord("b", b""), NodeRecord("b", b"b1")]
    file.write_bytes(packed(*WHOLE[:3], *changes, FRAME, NodeRecord("a", b"a3"), FRAME, EndedRecord("pods", 0)))
    made = Recording.read(file)
    assert made.nodes == {"a": b"a1", "b": b"b1"}
    assert [cycle.changes for cycle in made.cycles] == [{}, {"a": b""}, {"a": b"a3"}]


def test_nodes_that_come_up_later_are_there_from_the_start(file: Path) -> None:
    """As they were first."""
    later: list[Record] = [
        NodeRecord("b", b"b1"),
        CycleRecord(1.0, "uid", "default/web", b"pod", [1, 0]),
        NodeRecord("b", b"b2"),
        FRAME,
    ]
    file.write_bytes(packed(*WHOLE[:3], *later, EndedRecord("pods", 0)))
    made = Recording.read(file)
    assert made.nodes == {"a": b"a1", "b": b"b1"}
    assert [(cycle.nodes, cycle.changes) for cycle in made.cycles] == [
        (("a",), {}),
        (("b", "a"), {}),
        (("a",), {"b": b"b2"}),
    ]


def recording_about(*about: tuple[tuple[str, ...], dict[str, bytes]]) -> Recording:
    """Cycles about nodes of which a and b are known, with changes before them."""
    cycles = [Cycle(0.5, "uid", "default/web", b"pod", names, changes) for names, changes in about]
    return Recording("default", BEGUN.at, {"a": b"a1", "b": b"b1"}, cycles, 0, "pods")


def test_what_is_played_is_about_nodes_that_have_objects() -> None:
    made = recording_about((("b", "x", "a"), {}), (("x", "y"), {"a": b"a2", "b": b"b2"}), (("a",), {"a": b"a3"}))
    left = recording_about((("b", "a"), {}), (("a",), {"a": b"a3", "b": b"b2"}))
    assert (made.unknown, made.playable()) == (2, left)
    assert (left.unknown, left.playable()) == (0, left)


def test_where_no_node_has_an_object_nothing_is_to_be_played() -> None:
    with pytest.raises(RecordingError) as caught:
        recording_about((("x", "y"), {}), (("z",), {})).playable()
    assert str(caught.value) == (
        "the recording has only the names of the nodes that pods were judged about; record an extender that has a"
        " cluster.mode, or whose kube-scheduler sends whole nodes"
    )


FOREIGN = "{} is no recording of `kwx record`; record one"
DAMAGED = "{} is damaged: %s; record anew"
EMPTY = "{} holds no pod: profile default judged none meanwhile; record while pods are scheduled by it"


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"", FOREIGN),
        (b"PK\x03\x04", FOREIGN),
        (gzip.compress(b"a text that somebody else has compressed"), FOREIGN),
        (gzip.compress(b""), FOREIGN),
        (packed(FRAME), FOREIGN),
        (
            packed(BegunRecord("kwx.dev/recording/v2", "default", "")),
            "{} has the format 'kwx.dev/recording/v2', this release reads 'kwx.dev/recording/v1'; record anew",
        ),
        (packed(BEGUN, BEGUN), DAMAGED % "its records are out of order"),
        (packed(*WHOLE, FRAME), DAMAGED % "its records are out of order"),
        (packed(BEGUN, FRAME), DAMAGED % "a pod is about a node that did not come up before"),
        (packed(*WHOLE[:3]), DAMAGED % "it has no end"),
        (packed(*WHOLE) + packed(*WHOLE), DAMAGED % "something follows its end"),
        (
            packed(*WHOLE)[:-8] + b"\0" * 8,
            DAMAGED % "Error -3 while decompressing data: incorrect data check",
        ),
        (
            packed_frames(
                b"\x95" + b"".join(map(msgspec.msgpack.encode, ("begun", FORMAT, "a", "b"))) + b"\x91" * 200_000
            ),
            FOREIGN,
        ),
        (packed_frames(b"\x94" + b"".join(map(msgspec.msgpack.encode, ("begun", FORMAT, "a"))) + b"\xa1\xff"), FOREIGN),
        (packed(BEGUN, EndedRecord("time", 0)), EMPTY),
        (packed(BEGUN, NodeRecord("a", b"a1"))[:-8], EMPTY),
    ],
)
def test_what_is_no_recording_is_refused(file: Path, content: bytes, problem: str) -> None:
    file.write_bytes(content)
    with pytest.raises(RecordingError) as caught:
        Recording.read(file)
    assert str(caught.value) == problem.format(file)


def test_one_that_unfolds_without_end_is_refused(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recording, "MAX_RECORDING_BYTES", 3 * recording.PIECE)
    file.write_bytes(packed(BEGUN, NodeRecord("a", bytes(4 * recording.PIECE))))
    with pytest.raises(RecordingError) as caught:
        Recording.read(file)
    assert str(caught.value) == f"{file} unfolds to more than 3 MiB; record fewer pods, or for a shorter time"
    assert file.stat().st_size < MAX_RECORDING_BYTES / 1000


def test_one_that_is_not_there_is_named(file: Path) -> None:
    with pytest.raises(RecordingError) as caught:
        Recording.read(file)
    assert str(caught.value) == (
        f"{file} cannot be read: No such file or directory; give a file that `kwx record` wrote"
    )
