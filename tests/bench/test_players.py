"""The players in Go ask what they are told to, of whom they are told to, and tell what that took."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Event
from typing import Any

import pytest
import wasmtime

from bench.controlplane.ports import LOOPBACK, free_port
from bench.peers import gopeer, objects
from bench.peers.nodelist import node_list
from bench.plugin.subject import Answer, Status, Subject, SubjectError
from bench.plugin.variants import MeasuredModule, Setup, starting
from bench.plugin.workload import FIRST_VERSION, Cycle, Synthetic
from tests.patience import PATIENCE_S, Beside
from tests.upstream.checkout import CHECKOUT, with_checkout
from wasm_runtime.protobuf import encode_node, encode_pod

pytestmark = pytest.mark.timeout(600)  # The first time programs in Go are built.

HEADROOM = Path(__file__).parents[2] / "sdk-guest" / "rust" / "modules" / "headroom.wasm"
TIMEOUT_S = 30.0
NODES = 200
PODS = 36

ASKING = ["kwx", "kwx-whole", "goextender", "goextender-whole"]
NAMES = [objects.node_name(at) for at in range(3)]
"""Nodes of the first instance type, one in each zone."""

FITS = encode_pod(objects.requesting(1, "1", "1Gi", {}))
ANSWERS = {"/filter": {"NodeNames": NAMES}, "/prioritize": []}


class Extender(ThreadingHTTPServer):
    """An extender that says the same to all."""

    daemon_threads = True

    def __init__(self, answers: Mapping[str, object]) -> None:
        super().__init__((LOOPBACK, 0), Handler)
        self.url = f"http://{LOOPBACK}:{self.server_port}"
        self.answers = answers
        self.requests: list[Any] = []
        self.connections = 0
        self.answering = Event()


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Extender

    def setup(self) -> None:
        super().setup()
        self.server.connections += 1

    def do_POST(self) -> None:
        self.server.requests.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
        self.server.answering.wait(TIMEOUT_S)
        answer = self.server.answers.get(self.path)
        body = json.dumps(answer).encode()
        with suppress(BrokenPipeError):
            self.send_response(404 if answer is None else 200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Says nothing."""


@contextmanager
def extender(answers: Mapping[str, object], *, answers_at_once: bool = True) -> Iterator[Extender]:
    """An extender in a thread."""
    with Extender(answers) as server:
        beside = Beside(server.serve_forever)
        try:
            if answers_at_once:
                server.answering.set()
            yield server
        finally:
            server.answering.set()
            server.shutdown()
            beside.end()


@contextmanager
def player(kind: str, *options: str | Path) -> Iterator[Subject]:
    """A player that is ready."""
    with Subject(kind, [gopeer.program("player"), kind, *options]) as subject:
        subject.ready()
        yield subject


def asking(server: Extender, nodes: Path, *options: str) -> AbstractContextManager[Subject]:
    """A player that asks an extender."""
    return player("http", "-nodes", nodes, "-url", server.url, *options)


@pytest.fixture(scope="module")
def nodes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The file of three nodes."""
    file = tmp_path_factory.mktemp("nodes") / "nodes.pb"
    file.write_bytes(node_list(encode_node(objects.node(at, FIRST_VERSION)) for at in range(len(NAMES))))
    return file


@pytest.fixture(scope="module")
def subjects(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mapping[str, Subject]]:
    """The plugin in Go in-process, and kube-scheduler's client of both extenders."""
    guest = MeasuredModule(HEADROOM)
    setup = Setup(tmp_path_factory.mktemp("players"), guest, Synthetic(NODES), ExitStack())
    with starting(setup, ["native", *ASKING]) as (started, left_out):
        assert left_out == {}
        yield {name: each.subject for name, each in started.items()}


def cycles() -> Iterator[Cycle]:
    """Pods with and without wishes, some of which are too large for some nodes or for all; each begins elsewhere."""
    types = list(objects.INSTANCE_TYPES)
    for at in range(PODS):
        wishes = {"example.com/zone": objects.ZONES[at % len(objects.ZONES)]} if at % 2 else {}
        if at % 3 == 0:
            wishes["example.com/instance-type"] = types[at % len(types)]
        pod = objects.requesting(at, f"{500 * (1 + at % 36)}m", f"{1 + at * 5 % 40}Gi", wishes)
        yield Cycle(encode_pod(pod), at * 7 % NODES)


@pytest.mark.parametrize("name", ASKING)
def test_extenders_answer_as_the_plugin_does(subjects: Mapping[str, Subject], name: str) -> None:
    found: set[tuple[int, str] | bool] = set()
    for cycle in cycles():
        expected = subjects["native"].ask(cycle, answer=True).answer
        assert expected is not None
        assert subjects[name].ask(cycle, answer=True).answer == expected
        assert len(expected.rejected) + len(expected.scores) == NODES
        found |= {(each.code, each.reason) for each in expected.rejected.values()}
        found |= {bool(score) for score in expected.scores.values()}
    reasons = {(2, "Insufficient cpu"), (2, "Insufficient memory"), (3, "node(s) in another zone")}
    assert found == reasons | {True, False}


def test_nodes_are_asked_about_by_name_in_the_order_of_the_names(nodes: Path) -> None:
    with player("native", "-nodes", nodes) as subject:
        names = [NAMES[2], NAMES[0]]
        assert subject.ask(Cycle(FITS, names=names), answer=True).answer == Answer("", {}, dict.fromkeys(names, 74))
        nobody = subject.ask(Cycle(FITS, names=[]), answer=True)
        assert (nobody.prioritize, nobody.answer) == (None, Answer())


@pytest.mark.parametrize(("start", "expected"), [(0, [0, 1, 2]), (1, [1, 2, 0]), (2, [2, 0, 1])])
def test_an_extender_is_asked_about_all_nodes_going_round_and_then_about_those_that_it_kept(
    nodes: Path, start: int, expected: list[int]
) -> None:
    with extender(ANSWERS) as server, asking(server, nodes) as subject:
        subject.ask(Cycle(FITS, start))
        assert [request["NodeNames"] for request in server.requests] == [[NAMES[at] for at in expected], NAMES]


def test_an_extender_is_asked_over_one_connection(nodes: Path) -> None:
    with extender(ANSWERS) as server, asking(server, nodes) as subject:
        for _ in range(5):
            subject.ask(Cycle(FITS))
        assert (len(server.requests), server.connections) == (10, 1)


def test_an_extenders_scores_are_told_as_they_are_and_a_missing_one_is_0(nodes: Path) -> None:
    answers = {"/filter": {"NodeNames": NAMES}, "/prioritize": [{"Host": NAMES[1], "Score": 7}]}
    with extender(answers) as server, asking(server, nodes) as subject:
        answer = subject.ask(Cycle(FITS), answer=True).answer
    assert answer == Answer("", {}, {NAMES[0]: 0, NAMES[1]: 7, NAMES[2]: 0})


def test_prioritize_is_not_asked_about_no_nodes(nodes: Path) -> None:
    reasons = {"FailedNodes": {NAMES[0]: "a"}, "FailedAndUnresolvableNodes": {NAMES[1]: "b", NAMES[2]: "c"}}
    with extender({"/filter": {"NodeNames": [], **reasons}}) as server, asking(server, nodes) as subject:
        reply = subject.ask(Cycle(FITS), answer=True)
    rejected = {NAMES[0]: Status(2, "a"), NAMES[1]: Status(3, "b"), NAMES[2]: Status(3, "c")}
    assert (reply.prioritize, reply.answer, len(server.requests)) == (None, Answer("", rejected), 1)


def test_the_only_node_is_scored_by_nobody(nodes: Path) -> None:
    with extender({"/filter": {"NodeNames": NAMES[1:2]}}) as server, asking(server, nodes) as subject:
        reply = subject.ask(Cycle(FITS), answer=True)
        assert (reply.prioritize, reply.answer, len(server.requests)) == (None, Answer("", {}, {NAMES[1]: 0}), 1)
    with player("native", "-nodes", nodes) as subject:
        reply = subject.ask(Cycle(FITS, names=NAMES[1:2]), answer=True)
        assert (reply.prioritize, reply.answer) == (None, Answer("", {}, {NAMES[1]: 0}))


def test_an_answer_is_told_if_it_is_asked_for(nodes: Path) -> None:
    with player("native", "-nodes", nodes) as subject:
        assert subject.ask(Cycle(FITS)).answer is None


@pytest.mark.parametrize("name", ["native", *ASKING])
def test_parts_add_up(subjects: Mapping[str, Subject], name: str) -> None:
    parts = {"guest"} if name == "native" else {"clientEncode", "transport", "clientDecode"}
    for cycle in cycles():
        reply = subjects[name].ask(cycle)
        for took in filter(None, (reply.filter, reply.prioritize)):
            assert took.parts.keys() == parts
            assert min(took.parts.values()) > 0
            assert sum(took.parts.values()) == pytest.approx(took.seconds, rel=1e-6)


def test_nodes_are_updated_in_process(nodes: Path) -> None:
    with player("native", "-nodes", nodes) as subject:
        check_updates(subject)


def test_nodes_that_are_sent_are_updated(nodes: Path) -> None:
    with gopeer.go_extender() as port:
        url = f"http://{LOOPBACK}:{port}"
        with player("http", "-nodes", nodes, "-url", url, "-whole") as subject:
            check_updates(subject)


def check_updates(subject: Subject) -> None:
    """The tenth update takes 10 millicores from a node; one that was not there comes last."""
    asked = Cycle(encode_pod(objects.requesting(1, "3920m", "1Gi", {})))
    before = subject.ask(asked, answer=True).answer
    subject.update(node_list([encode_node(objects.node(at, FIRST_VERSION + 1, update=10)) for at in (1, 3)]))
    after = subject.ask(asked, answer=True).answer
    assert before == Answer("", {}, dict.fromkeys(NAMES, 0))
    kept = {NAMES[0]: 0, NAMES[2]: 0, objects.node_name(3): 50}
    assert after == Answer("", {NAMES[1]: Status(2, "Insufficient cpu")}, kept)


# ---- what cannot be done


@pytest.mark.parametrize(
    ("cycle", "failure"),
    [
        (Cycle(b"", names=["nobody"]), "node nobody is not known"),
        (Cycle(b"", start=4), "there is no node 4: they are 3"),
    ],
)
def test_nodes_that_are_not_there(nodes: Path, cycle: Cycle, failure: str) -> None:
    with player("native", "-nodes", nodes) as subject, pytest.raises(SubjectError) as caught:
        subject.ask(cycle)
    assert str(caught.value) == f"the variant native failed: {failure}"


@pytest.mark.parametrize(
    ("answers", "failure"),
    [
        ({"/filter": {"Error": "no such luck"}}, "no such luck"),
        ({}, "failed filter with extender at URL <url>/filter, code 404"),
        ({"/filter": {"NodeNames": NAMES}}, "failed prioritize with extender at URL <url>/prioritize, code 404"),
        (
            {"/filter": {"NodeNames": ["a"]}},
            'extender "<url>" claims a filtered node "a" which is not found in the input node list',
        ),
    ],
)
def test_an_extender_that_fails(nodes: Path, answers: Mapping[str, object], failure: str) -> None:
    with extender(answers) as server, asking(server, nodes) as subject:
        with pytest.raises(SubjectError) as caught:
            subject.ask(Cycle(FITS))
        assert str(caught.value) == f"the variant http failed: {failure.replace('<url>', server.url)}"


def test_an_extender_that_is_not_there(nodes: Path) -> None:
    address = f"{LOOPBACK}:{free_port()}"
    with player("http", "-nodes", nodes, "-url", f"http://{address}") as subject, pytest.raises(SubjectError) as caught:
        subject.ask(Cycle(FITS))
    refused = f"dial tcp {address}: connect: connection refused"
    assert str(caught.value) == f'the variant http failed: Post "http://{address}/filter": {refused}'


def test_an_extender_that_takes_too_long(nodes: Path) -> None:
    with (
        extender(ANSWERS, answers_at_once=False) as server,
        asking(server, nodes, "-timeout", "50ms") as subject,
        pytest.raises(SubjectError) as caught,
    ):
        subject.ask(Cycle(FITS))
    assert str(caught.value) == f'the variant http failed: Post "{server.url}/filter": context deadline exceeded'


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ([], "say native or http"),
        (["wasm"], '"wasm" is neither native nor http'),
        (["native", "-plugins", "0"], "-plugins is 0: there must be one at least"),
        (["native", "-nodes", "absent.pb"], "open absent.pb: no such file or directory"),
        (["native", "-nodes", "/dev/stdin"], "/dev/stdin: proto: NodeList: wiretype end group for non-group"),
    ],
)
def test_a_player_that_cannot_play(options: list[str], message: str) -> None:
    found = subprocess.run(
        [gopeer.program("player"), *options], input=b"\x0c", capture_output=True, check=False, timeout=PATIENCE_S
    )
    assert (found.returncode, found.stdout, found.stderr.decode()) == (1, b"", f"error: {message}\n")


def test_a_line_that_is_no_question_ends_a_player(nodes: Path) -> None:
    with player("native", "-nodes", nodes) as subject, pytest.raises(SubjectError) as caught:
        subject.ask(Cycle(b"\x0c"))
    why = "proto: Pod: wiretype end group for non-group"
    assert str(caught.value) == f"native ended with status 1: error: {why}"


# ---- the player of the upstream host


KEEPS_ALL = """(func (export "filter") (result i32) (i32.const 0))"""
FIRST_NODE = f"""(func (export "prefilter") (result i32)
  (call $names (i32.const 0) (i32.const {len(NAMES[0]) + 1})) (i32.const 0))
  (data (i32.const 0) "{NAMES[0]}\\00")"""
REJECTS_ALL = """
  (data (i32.const 64) "no")
  (func (export "filter") (result i32) (call $reason (i32.const 64) (i32.const 2)) (i32.const 2))"""
SCORES_ALL = """(func (export "score") (result i64) (i64.const 0x700000000))"""
UNNAMED = {name: Status(3, "node(s) didn't satisfy plugin(s) [guest-0]") for name in NAMES[1:]}


def returns(export: str, code: int) -> str:
    return f'(func (export "{export}") (result i32) (i32.const {code}))'


CASES = {
    "keeps all": (KEEPS_ALL, Answer("", {}, dict.fromkeys(NAMES, 0))),
    "names a node": (FIRST_NODE + KEEPS_ALL + SCORES_ALL, Answer("", UNNAMED, {NAMES[0]: 0})),
    "rejects all": (REJECTS_ALL + SCORES_ALL, Answer("", dict.fromkeys(NAMES, Status(2, "no")))),
    "rejects the pod": (returns("prefilter", 3) + KEEPS_ALL, Answer("", dict.fromkeys(NAMES, Status(3, "")))),
    "scores all": (SCORES_ALL, Answer("", {}, dict.fromkeys(NAMES, 7))),
    "skips Filter": (returns("prefilter", 5) + REJECTS_ALL, Answer("", {}, dict.fromkeys(NAMES, 0))),
    "skips Score": (returns("prescore", 5) + SCORES_ALL, Answer("", {}, dict.fromkeys(NAMES, 0))),
}
"""Guests, and what their cycles come to."""


@with_checkout
@pytest.mark.parametrize("plugins", [1, 3])
@pytest.mark.parametrize(
    ("text", "expected"),
    CASES.values(),
    ids=CASES,
)
def test_a_cycle_upstream_comes_to_what_the_guest_says(
    nodes: Path, tmp_path: Path, text: str, expected: Answer, plugins: int
) -> None:
    with upstream(nodes, tmp_path, text, "-plugins", str(plugins)) as subject:
        for uid in range(2):
            asked = Cycle(encode_pod(objects.requesting(uid, "1", "1Gi", {})))
            assert subject.ask(asked, answer=True).answer == expected


@with_checkout
def test_a_cycle_upstream_that_fails(nodes: Path, tmp_path: Path) -> None:
    text = '(func (export "filter") (result i32) unreachable)'
    with upstream(nodes, tmp_path, text) as subject, pytest.raises(SubjectError) as caught:
        subject.ask(Cycle(FITS))
    assert str(caught.value).startswith("the variant upstream failed: wasm: filter error: wasm error: unreachable")


@with_checkout
def test_upstream_answers_as_the_plugin_does(subjects: Mapping[str, Subject], tmp_path: Path) -> None:
    file = tmp_path / "nodes.pb"
    file.write_bytes(node_list(Synthetic(NODES).nodes.values()))
    program = gopeer.build_upstream_player(CHECKOUT)
    with Subject("upstream", [program, "-nodes", file, "-guest", HEADROOM]) as subject:
        subject.ready()
        for cycle in cycles():
            reply, expected = (each.ask(cycle, answer=True) for each in (subject, subjects["native"]))
            assert reply.answer == expected.answer
            for took in filter(None, (reply.filter, reply.prioritize)):
                assert took.parts == {"guest": took.seconds}
                assert took.seconds > 0


@with_checkout
def test_nodes_upstream_are_updated(nodes: Path) -> None:
    program = gopeer.build_upstream_player(CHECKOUT)
    with Subject("upstream", [program, "-nodes", nodes, "-guest", HEADROOM]) as subject:
        subject.ready()
        check_updates(subject)


@with_checkout
def test_the_scheduler_of_a_checkout_runs() -> None:
    program = gopeer.build_upstream_scheduler(CHECKOUT)
    found = subprocess.run([program, "--config", "absent.yaml"], capture_output=True, check=False, timeout=PATIENCE_S)
    message = b"failed to get wasm plugins from config: open absent.yaml: no such file or directory\n"
    assert (found.returncode, found.stderr) == (1, message)


@contextmanager
def upstream(nodes: Path, folder: Path, text: str, *options: str) -> Iterator[Subject]:
    """A player of the upstream host with a guest, ready."""
    guest = folder / "guest.wasm"
    guest.write_bytes(
        wasmtime.wat2wasm(f"""(module
          (import "k8s.io/scheduler" "result.node_names" (func $names (param i32 i32)))
          (import "k8s.io/scheduler" "result.status_reason" (func $reason (param i32 i32)))
          (memory (export "memory") 1)
          {text})""")
    )
    program = gopeer.build_upstream_player(CHECKOUT)
    with Subject("upstream", [program, "-nodes", nodes, "-guest", guest, *options]) as subject:
        subject.ready()
        yield subject
