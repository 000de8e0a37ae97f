"""`kwx call`, as users and scripts see it."""

from __future__ import annotations

import importlib
import os
import re
from pathlib import Path
from typing import Any

import msgspec
import pytest
import wasmtime
import yaml

from extender.commands.call.table import MAX_NODES
from extender.config import ServerConfig
from tests.extender import guests, objects
from tests.extender.commands.command import Command, Ended
from tests.extender.commands.terminal import run_on_terminal
from tests.extender.kwx import KWX, environment_of
from wasm_runtime.blob import digest

CYCLE = guests.EXAMPLES / "cycle"
NAMES = [f"node-{at}" for at in (3, 5, 6, 7, 8, 9, 0, 2, 4, 1)]
"""The nodes of the captured cycle, in the order of its requests."""
H100 = "node label kwx.dev/accelerator is a100, pod wants h100"
NO_LABEL = "node has no label kwx.dev/accelerator=h100"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path


def written(folder: Path, content: Any, name: str = "request.json") -> Path:
    """A file of JSON."""
    file = folder / name
    file.write_bytes(content if isinstance(content, bytes) else msgspec.json.encode(content))
    return file


def guest(folder: Path, name: str) -> Path:
    return guests.build(name, folder)


def revision(module: Path) -> str:
    """How messages name the plugin of a module."""
    return f"{module.stem} ({digest(module.read_bytes())[:19]})"


def answer(ended: Ended) -> Any:
    """The answer of a call that went well."""
    assert (ended.status, ended.stderr) == (0, ""), ended
    assert ended.stdout.endswith("\n")
    return msgspec.json.decode(ended.stdout)


def shown(ended: Ended) -> list[str]:
    """The lines of a call that went well, without the time that it took."""
    assert (ended.status, ended.stderr) == (0, ""), ended
    return re.sub(r"in \d+\.\d\d ms$", "in N ms", ended.stdout, flags=re.MULTILINE).splitlines()


# -- the captured cycle ----------------------------------------------------------------------------


def test_filter_of_the_captured_cycle_as_json(command: Command) -> None:
    request = CYCLE / "filter.json"
    sent = {node["metadata"]["name"]: node for node in msgspec.json.decode(request.read_bytes())["Nodes"]["items"]}
    found = answer(command("call", "filter", guests.example("accelerator"), request, "--output", "json"))
    assert found.pop("Nodes")["items"] == [sent[name] for name in NAMES if name < "node-6"]
    assert found == {
        "NodeNames": None,
        "FailedNodes": {},
        "FailedAndUnresolvableNodes": {**dict.fromkeys(("node-6", "node-7", "node-8"), H100), "node-9": NO_LABEL},
        "Error": "",
    }


def test_filter_of_the_captured_cycle_as_a_table(command: Command) -> None:
    module = guests.example("accelerator")
    verdicts = {**dict.fromkeys(("node-6", "node-7", "node-8"), H100), "node-9": NO_LABEL}
    assert shown(command("call", "filter", module, CYCLE / "filter.json")) == [
        f"filter of pod default/train-3 by {revision(module)}: 6 of 10 nodes pass, in N ms",
        "Node    Verdict       Reason",
        *(f"{name}  unresolvable  {verdicts[name]}" if name in verdicts else f"{name}  passes" for name in NAMES),
    ]


def test_prioritize_of_the_captured_cycle(command: Command) -> None:
    module, request = guests.example("nodenumber"), CYCLE / "prioritize.json"
    scores = {name: 10 if name == "node-3" else 0 for name in NAMES if name < "node-6"}
    assert answer(command("call", "prioritize", module, request, "--output", "json")) == objects.priorities(scores)
    assert shown(command("call", "prioritize", module, request)) == [
        f"prioritize of pod default/train-3 by {revision(module)}: scores of 6 nodes, in N ms",
        "Node    Score of 10",
        *(f"{name}  {score:11}" for name, score in scores.items()),
    ]


def test_preempt_of_the_captured_cycle_with_the_nodes_beside_it(command: Command, folder: Path) -> None:
    module, request = guests.example("accelerator"), CYCLE / "preempt.json"
    nodes = written(folder, msgspec.json.decode((CYCLE / "filter.json").read_bytes())["Nodes"])
    victims = msgspec.json.decode(request.read_bytes())["NodeNameToVictims"]
    found = answer(command("call", "preempt", module, request, "--nodes", nodes, "--output", "json"))
    assert found == {
        "NodeNameToMetaVictims": {
            name: {"Pods": [{"UID": each["Pods"][0]["metadata"]["uid"]}], "NumPDBViolations": 0}
            for name, each in victims.items()
            if name < "node-6"
        }
    }
    assert shown(command("call", "preempt", module, request, "--nodes", nodes)) == [
        f"preempt of pod default/urgent-5 by {revision(module)}: 6 of 10 candidates stay, in N ms",
        "Node    Verdict  Victims",
        *(f"{name}  {'stays  ' if name < 'node-6' else 'dropped'}        1" for name in victims),
    ]


def test_bind_of_the_captured_cycle_is_a_dry_run(command: Command, folder: Path) -> None:
    module, request = guest(folder, "every_export"), CYCLE / "bind.json"
    pod = written(folder, msgspec.json.decode((CYCLE / "filter.json").read_bytes())["Pod"], "pod.json")
    assert answer(command("call", "bind", module, request, "--pod", pod, "--output", "json")) == {"Error": ""}
    assert shown(command("call", "bind", module, request, "--pod", pod)) == [
        f"bind of pod default/train-3 by {revision(module)}: it would be bound to node-3, in N ms"
    ]


# -- requests --------------------------------------------------------------------------------------


def test_a_request_may_come_by_standard_input(command: Command, folder: Path) -> None:
    request = msgspec.json.encode(objects.names_args(["node-7"]))
    module = guest(folder, "reject")
    ended = command("call", "filter", module, "-", "--output", "json", stdin=request)
    assert answer(ended) == objects.filtered([], {"node-7": "no"})


def test_nodes_that_are_only_named_may_come_beside_the_request(command: Command, folder: Path) -> None:
    the_pod = objects.pod(annotations={"kwx.dev/accelerator": "h100"})
    request = written(folder, objects.names_args(["node-1", "node-2"], the_pod))
    labels = {"kwx.dev/accelerator": "h100"}
    nodes = {
        "apiVersion": "v1",
        "kind": "List",
        "items": [objects.node("node-2", labels=labels), objects.node("node-1")],
    }
    beside = written(folder, nodes, "nodes.json")
    ended = command("call", "filter", guests.example("accelerator"), request, "--nodes", beside, "--output", "json")
    assert answer(ended) == objects.filtered(["node-2"], unresolvable={"node-1": NO_LABEL})


def test_pods_on_nodes_may_come_beside_the_request(command: Command, folder: Path) -> None:
    def placed(name: str, node: str, phase: str = "Running") -> objects.Object:
        pod = objects.pod(name)
        return {**pod, "spec": {**pod["spec"], "nodeName": node}, "status": {"phase": phase}}

    request = written(folder, objects.names_args(["node-1", "node-2"]))
    nodes = written(folder, {"items": [objects.node("node-1"), objects.node("node-2")]}, "nodes.json")
    finished = [placed("c", "node-2", "Succeeded"), placed("d", "node-2", "Failed"), objects.pod("waits")]
    pods = written(folder, {"items": [placed("a", "node-1"), placed("b", "node-1"), *finished]}, "pods.json")
    module = guest(folder, "packs_two")
    ended = command("call", "filter", module, request, "--nodes", nodes, "--pods", pods, "--output", "json")
    assert answer(ended) == objects.filtered(["node-2"], {"node-1": "2 pods are there"})


def test_that_no_pods_are_on_nodes_may_be_told(command: Command, folder: Path) -> None:
    request = written(folder, objects.nodes_args([objects.node("node-1")]))
    pods = written(folder, {"items": []}, "pods.json")
    module = Path(__file__).parents[4] / "extender" / "policies" / "gpu_pack.wasm"
    warning = "the host has told of no pods on nodes: all nodes count as empty"
    assert warning in command("call", "filter", module, request).stdout
    ended = command("call", "filter", module, request, "--pods", pods)
    assert (ended.status, warning in ended.stdout) == (0, False)


def test_a_guest_that_reads_nodes_says_how_to_give_them(command: Command, folder: Path) -> None:
    module = guests.example("accelerator")
    the_pod = objects.pod(annotations={"kwx.dev/accelerator": "h100"})
    request = written(folder, objects.names_args(["node-1"], the_pod))
    asked = "filter: the guest asked for a node's object, but none is known here: only names were given"
    problem = f"plugin {revision(module)}: {asked}; give a request with whole nodes (Nodes), or the nodes by --nodes"
    assert command("call", "filter", module, request) == (1, "", f"kwx: {problem}\n")


@pytest.mark.parametrize(
    ("verb", "request_of", "problem"),
    [
        ("filter", b"", "the request has no body"),
        ("filter", b"{", "the body is no ExtenderArgs: Input data was truncated"),
        ("filter", objects.binding_args(), "the request has no Pod"),
        ("prioritize", {"Pod": objects.pod()}, "the request has neither NodeNames (nodeCacheCapable: true)"
         " nor Nodes (nodeCacheCapable: false)"),
        ("preempt", objects.names_args(), "the request has neither NodeNameToMetaVictims nor NodeNameToVictims"),
        ("bind", objects.names_args(), "the request has no PodName, PodNamespace, PodUID, Node"),
    ],
)  # fmt: skip
def test_a_request_that_cannot_be_answered(
    command: Command, folder: Path, verb: str, request_of: Any, problem: str
) -> None:
    request = written(folder, request_of)
    ended = command("call", verb, guest(folder, "every_export"), request, "--output", "json")
    assert ended == (1, "", f"kwx: {request}: {problem}\n")


@pytest.mark.parametrize(
    ("option", "content", "problem"),
    [
        ("--nodes", b"", "Input data was truncated"),
        ("--nodes", b"[]", "Expected `object`, got `array`"),
        ("--nodes", b"{}},{", "JSON is malformed: trailing characters (byte 3)"),
        ("--nodes", b"\xff", "JSON is malformed: invalid character (byte 0)"),
        ("--nodes", {"items": []}, "there is no node in it; expected a list as kubectl get nodes -o json prints it"),
        (
            "--nodes",
            objects.node("a"),
            "there is no node in it; expected a list as kubectl get nodes -o json prints it",
        ),
        ("--nodes", {"items": [{"metadata": {}}]}, "Nodes.items[0]: the node has no metadata.name"),
        ("--pod", {"kind": "Pod"}, "Pod: Object missing required field `metadata`"),
        ("--pod", b"[" * 100_000, "Expected `object`, got `array`"),
        ("--pods", {"kind": "List"}, "Object missing required field `items`"),
        (
            "--pods",
            {"items": [objects.pod(), {"spec": {"nodeName": "node-1"}}]},
            "pod 1 of the list: Pod: Object missing required field `metadata`",
        ),
        (
            "--pods",
            {"items": [{"spec": {"nodeName": 1}}]},
            "pod 0 of the list: Expected `str`, got `int` - at `$.spec.nodeName`",
        ),
    ],
)
def test_objects_beside_the_request_that_are_none(
    command: Command, folder: Path, option: str, content: Any, problem: str
) -> None:
    beside = written(folder, content, "beside.json")
    ended = command("call", "filter", "any.wasm", written(folder, objects.names_args()), option, beside)
    assert ended == (1, "", f"kwx: {beside}: {problem}\n")


def test_files_that_cannot_be_read(command: Command, folder: Path) -> None:
    request, missing = written(folder, objects.names_args()), folder / "missing"
    absent = f"kwx: {missing} cannot be read: No such file or directory"
    assert command("call", "filter", "any.wasm", missing) == (1, "", f"{absent}\n")
    assert command("call", "filter", "any.wasm", request, "--nodes", missing) == (1, "", f"{absent}\n")
    assert command("call", "filter", "any.wasm", folder) == (1, "", f"kwx: {folder} cannot be read: Is a directory\n")
    assert command("call", "filter", missing, request) == (1, "", f"{absent}; build it or mend the path\n")
    limit = ServerConfig().max_request_bytes
    with request.open("wb") as file:
        file.truncate(limit + 1)
    problem = f"kwx: {request} is longer than the {limit} bytes that a request may have\n"
    assert command("call", "filter", "any.wasm", request) == (1, "", problem)


def test_victims_that_came_as_uids(command: Command, folder: Path) -> None:
    module = guest(folder, "every_export")
    request = written(folder, objects.preemption_args({"node-1": objects.meta_victims("a")}))
    problem = (
        "the victims on node node-1 came as UIDs and the guest asks for the pods (addpod, removepod);"
        " give a request with NodeNameToVictims, which has them whole"
    )
    assert command("call", "preempt", module, request) == (1, "", f"kwx: {problem}\n")
    request = written(folder, objects.victims_args({"node-1": [objects.pod("victim")]}))
    victims = {"node-1": objects.meta_victims("uid-of-victim")}
    assert answer(command("call", "preempt", module, request, "--output", "json")) == {"NodeNameToMetaVictims": victims}


def test_the_pod_that_is_bound_must_be_known_and_the_right_one(command: Command, folder: Path) -> None:
    module, request = guest(folder, "every_export"), written(folder, objects.binding_args())
    problem = "the request only names pod default/web-7; give its object by --pod, as kubectl get pod -o json prints it"
    assert command("call", "bind", module, request) == (1, "", f"kwx: {problem}\n")
    ended = command("call", "bind", module, request, "--output", "json")
    assert (ended.status, ended.stdout, ended.stderr) == (1, f'{{"Error":"{problem}"}}\n', f"kwx: {problem}\n")
    other = written(folder, objects.pod("web-8"), "pod.json")
    problem = "the request is about the pod of UID uid-of-web-7, --pod has uid-of-web-8"
    assert command("call", "bind", module, request, "--pod", other) == (1, "", f"kwx: {problem}\n")


# -- pods and nodes as kubectl prints them ---------------------------------------------------------


def printed(folder: Path, name: str, content: Any) -> Path:
    """A file as `kubectl get -o yaml` prints it."""
    file = folder / name
    file.write_text(yaml.safe_dump(content))
    return file


@pytest.fixture
def nodes(folder: Path) -> Path:
    labels = {"node-1": {"kwx.dev/accelerator": "h100"}, "node-2": {}}
    items = [{"kind": "Node", **objects.node(name, labels=labels[name])} for name in labels]
    return printed(folder, "nodes.yaml", {"apiVersion": "v1", "kind": "List", "items": items})


ASKS: Any = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "asks", "creationTimestamp": None}}
"""A pod as `kubectl run --dry-run=client -o yaml` prints it."""


@pytest.mark.parametrize("content", [ASKS, {"kind": "List", "items": [ASKS]}], ids=["pod", "list"])
def test_a_pod_and_nodes_in_yaml(command: Command, folder: Path, nodes: Path, content: Any) -> None:
    content = msgspec.json.decode(msgspec.json.encode(content).replace(b'"asks"', b'"asks-1"'))
    pod = printed(folder, "pod.yaml", content)
    module = guests.example("nodenumber")
    assert shown(command("call", "prioritize", module, pod, "--nodes", nodes)) == [
        f"prioritize of pod default/asks-1 by {revision(module)}: scores of 2 nodes, in N ms",
        "Node    Score of 10",
        "node-1           10",
        "node-2            0",
    ]
    module = guest(folder, "every_export")
    one = printed(folder, "node.yaml", {"kind": "Node", **objects.node("node-1")})
    assert shown(command("call", "bind", module, pod, "--nodes", one)) == [
        f"bind of pod default/asks-1 by {revision(module)}: it would be bound to node-1, in N ms"
    ]


def test_a_pod_whose_json_comes_by_standard_input(command: Command, nodes: Path) -> None:
    pod = msgspec.json.encode({**ASKS, "metadata": {"name": "a", "annotations": {"kwx.dev/accelerator": "h100"}}})
    ended = command(
        "call", "filter", guests.example("accelerator"), "-", "--nodes", nodes, "--output", "json", stdin=pod
    )
    assert answer(ended) == objects.filtered(["node-1"], {}, {"node-2": NO_LABEL})


@pytest.mark.parametrize(
    ("verb", "has_nodes", "problem"),
    [
        ("filter", False, "it is a pod; give the nodes by --nodes, as kubectl get nodes -o json prints them"),
        ("bind", True, "bind is about one node, and --nodes has 2; as in kubectl get node NAME -o json"),
        ("preempt", True, "preempt needs the victims, too; give a request with NodeNameToVictims, not a pod"),
    ],
)
def test_a_pod_that_is_not_enough(
    command: Command, folder: Path, nodes: Path, verb: str, problem: str, *, has_nodes: bool
) -> None:
    pod = printed(folder, "pod.yaml", ASKS)
    ended = command("call", verb, guest(folder, "every_export"), pod, *(["--nodes", nodes] if has_nodes else []))
    assert ended == (1, "", f"kwx: {pod}: {problem}\n")


@pytest.mark.parametrize(
    ("content", "what"),
    [
        ({"kind": "List", "items": [ASKS, ASKS]}, "List"),
        ({"kind": "Deployment", "metadata": {"name": "web"}}, "Deployment"),
        ({"kind": "Pod", "metadata": {}}, "Pod without a name"),
    ],
)
def test_an_object_that_is_not_one_pod(command: Command, folder: Path, nodes: Path, content: Any, what: str) -> None:
    file = printed(folder, "object.yaml", content)
    ended = command("call", "filter", guest(folder, "every_export"), file, "--nodes", nodes)
    wanted = "one pod as kubectl get pod NAME -o json prints it, or a request as kube-scheduler sends it"
    assert ended == (1, "", f"kwx: {file}: it is a {what}; give {wanted}\n")


def test_what_is_no_yaml(command: Command, folder: Path) -> None:
    file = folder / "pod.yaml"
    file.write_text("kind: [")
    ended = command("call", "filter", "any.wasm", file)
    assert (ended.status, ended.stdout) == (1, "")
    assert ended.stderr.startswith(f"kwx: {file}: is neither JSON nor YAML: while parsing a flow node ")


# -- what is shown ---------------------------------------------------------------------------------


LOGGED = [
    'guest info: 100% of "racks" are full',
    "guest warning: rack is full rack=r7 free=0",
    "guest error: rack is full",
    "guest fatal: rack is full",
    "guest Event: Warning Full rack r7 about Node node-7",
    "guest info: is fine (node node-7)",
]


def test_what_the_guest_logs_and_records_comes_last_or_on_standard_error(command: Command, folder: Path) -> None:
    module, request = guest(folder, "talk"), written(folder, objects.names_args(["node-7"]))
    assert shown(command("call", "filter", module, request))[-len(LOGGED) - 1 :] == [
        "node-7  passes",
        *LOGGED,
    ]
    ended = command("call", "filter", module, request, "--output", "json")
    assert (ended.status, ended.stderr.splitlines()) == (0, LOGGED)
    assert msgspec.json.decode(ended.stdout) == objects.filtered(["node-7"])
    ended = command("call", "filter", module, request, "--log-severity", "2", "--output", "json")
    assert ended.stderr.splitlines() == LOGGED[2:5]


def test_what_the_guest_hands_over_is_shown_as_text_only(command: Command, folder: Path) -> None:
    module = folder / "guest.wasm"
    module.write_bytes(
        wasmtime.wat2wasm("""(module
          (import "k8s.io/klog" "log" (func $log (param i32 i32 i32)))
          (import "k8s.io/scheduler" "handle.eventrecorder.eventf" (func $eventf (param i32 i32)))
          (import "k8s.io/scheduler" "result.status_reason" (func $reason (param i32 i32)))
          (memory (export "memory") 1)
          (data (i32.const 0) "\\1b[2Jlook\\0a")
          (func (export "filter") (result i32)
            (call $log (i32.const 0) (i32.const 0) (i32.const 9))
            (call $eventf (i32.const 0) (i32.const 9))
            (call $reason (i32.const 0) (i32.const 9))
            (i32.const 2)))""")
    )
    assert shown(command("call", "filter", module, written(folder, objects.names_args(["node-7"]))))[2:] == [
        "node-7  rejected  �[2Jlook",
        "guest info: �[2Jlook (node node-7)",
        "guest Event that is none: JSON is malformed: invalid character (byte 0)",
    ]


def test_long_lists_are_cut(command: Command, folder: Path) -> None:
    names = [f"node-{at:03}" for at in range(MAX_NODES + 20)]
    module, request = guest(folder, "reject"), written(folder, objects.names_args(names))
    assert shown(command("call", "filter", module, request)) == [
        f"filter of pod default/web-7 by {revision(module)}: 0 of 70 nodes pass, in N ms",
        "Node      Verdict   Reason",
        *(f"{name}  rejected  no" for name in names[:MAX_NODES]),
        "and 20 more; --output json shows them all",
    ]
    assert answer(command("call", "filter", module, request, "--output", "json")) == objects.filtered(
        [], dict.fromkeys(names, "no")
    )


LONG = [f"{at}{'n' * 245}" for at in (6, 9)]
"""Names of nodes whose UIDs, which say more, are as long as they may be."""


@pytest.mark.parametrize("columns", [40, 80, 200, 400])
def test_nothing_of_a_verdict_is_lost_on_a_narrow_terminal(folder: Path, columns: int) -> None:
    module = guests.example("accelerator")
    nodes = [objects.node(name, labels={"kwx.dev/accelerator": "a100"}) for name in LONG]
    pod = objects.pod(annotations={"kwx.dev/accelerator": "h100"})
    request = written(folder, objects.nodes_args(nodes, pod))
    shown = run_on_terminal([KWX, "call", "filter", module, request], columns, environment_of(folder))
    rows = shown[shown.index("Reason") :].split()[1:]
    assert rows == [word for name in LONG for word in (name, "unresolvable", *H100.split())]


def test_a_guest_without_a_say_in_the_verb_is_told(command: Command, folder: Path) -> None:
    module = guests.example("nodenumber")
    ended = command("call", "filter", module, written(folder, objects.names_args(["node-7"])), "--output", "json")
    assert (ended.status, msgspec.json.decode(ended.stdout)) == (0, objects.filtered(["node-7"]))
    calls = "prefilter, filter"
    assert ended.stderr == f"kwx: {module} serves nothing that filter calls ({calls}), so it has no say in the answer\n"


# -- failures --------------------------------------------------------------------------------------


def test_a_failure_of_filter_is_its_answer_and_on_standard_error(command: Command, folder: Path) -> None:
    module, request = guest(folder, "print_and_trap"), written(folder, objects.names_args(["node-7"]))
    failed = f"plugin {revision(module)}: filter of node node-7: trap: unreachable in give_up < func[2]"
    printed = "the guest printed: panic: no quota\ngoroutine 1"
    ended = command("call", "filter", module, request, "--output", "json")
    assert (ended.status, msgspec.json.decode(ended.stdout)) == (1, objects.filter_error(f"{failed}; {printed}"))
    assert ended.stderr == f"kwx: {failed}; {printed}\n"
    assert command("call", "filter", module, request) == (1, "", ended.stderr)


@pytest.mark.parametrize(
    ("verb", "request_of", "empty"),
    [
        ("prioritize", objects.names_args(["node-7"]), b"[]\n"),
        ("preempt", objects.victims_args({"node-7": [objects.pod("victim")]}), b'{"NodeNameToMetaVictims":{}}\n'),
    ],
)
def test_a_failure_that_the_answer_has_no_words_for_is_on_standard_error(
    command: Command, folder: Path, verb: str, request_of: Any, empty: bytes
) -> None:
    module, request = guest(folder, "spin"), written(folder, request_of)
    export = "score" if verb == "prioritize" else "filter"
    ended = command("call", verb, module, request, "--timeout", "40ms", "--output", "json")
    problem = f"{export} of node node-7: interrupted at its timeout of 40 ms; mend the guest, or raise --timeout"
    assert ended == (1, empty.decode(), f"kwx: plugin {revision(module)}: {problem}\n")


def test_a_module_that_is_no_guest(command: Command, folder: Path) -> None:
    request = written(folder, objects.names_args())
    module = guest(folder, "unknown_import")
    assert command("call", "filter", module, request) == (
        1,
        "",
        f"kwx: {module} imports k8s.io/scheduler/currentPodName, which the host does not have;"
        " the nearest that it has is k8s.io/scheduler/currentNodeName\n"
        f"{module} imports k8s.io/klog/severity as () -> (i64), the host has () -> (i32)\n",
    )
    module = guest(folder, "trap_at_start")
    started = command("call", "filter", module, request)
    assert (started.status, started.stdout) == (1, "")
    assert started.stderr.startswith(f"kwx: {module} does not start: ")


def test_what_a_guest_needs_more_of_is_named_by_its_option(command: Command, folder: Path) -> None:
    module = folder / "greedy.wasm"
    module.write_bytes(
        wasmtime.wat2wasm("""(module (memory (export "memory") 1)
          (func (export "filter") (result i32)
            (if (i32.eq (memory.grow (i32.const 15)) (i32.const -1)) (then unreachable))
            (if (i32.eq (memory.grow (i32.const 1)) (i32.const -1)) (then unreachable))
            (i32.const 0)))""")
    )
    request = written(folder, objects.names_args(["node-7"]))
    ended = command("call", "filter", module, request, "--memory-limit", "1Mi")
    assert ended == (
        1,
        "",
        f"kwx: plugin {revision(module)}: filter of node node-7: trap: unreachable in func[0];"
        " its memory has grown to 1 of 1 MiB; mend the guest, or raise --memory-limit\n",
    )
    assert command("call", "filter", module, request, "--memory-limit", "2Mi").status == 0


# -- options ---------------------------------------------------------------------------------------


def test_configuration_arguments_and_extension_points(command: Command, folder: Path) -> None:
    request = written(folder, objects.names_args(["node-7"]))
    module = guest(folder, "score_from_config")
    found = answer(command("call", "prioritize", module, request, "--guest-config", "70", "--output", "json"))
    assert found == objects.scores(node_7=7)
    module = folder / "count arguments.wasm"
    module.write_bytes(
        wasmtime.wat2wasm("""(module
          (import "wasi_snapshot_preview1" "args_sizes_get" (func $sizes (param i32 i32) (result i32)))
          (memory (export "memory") 1)
          (func (export "score") (result i64)
            (drop (call $sizes (i32.const 0) (i32.const 4)))
            (i64.shl (i64.extend_i32_u (i32.mul (i32.load (i32.const 0)) (i32.const 10))) (i64.const 32))))""")
    )
    assert answer(command("call", "prioritize", module, request, "--output", "json")) == objects.scores(node_7=1)
    arguments = [each for text in ("guest", "--verbose", "") for each in ("--args", text)]
    ended = command("call", "prioritize", module, request, *arguments, "--output", "json")
    assert answer(ended) == objects.scores(node_7=3)
    title = shown(command("call", "prioritize", module, request))[0]
    assert title.startswith("prioritize of pod default/web-7 by countarguments (sha256:")
    module = guest(folder, "reject")
    ended = command("call", "filter", module, request, "--extension-points", "preScore,score", "--output", "json")
    problem = f"{module} has nothing to call at the extensionPoints that are given (preScore, score)"
    assert ended == (1, "", f"kwx: {problem}\n")


@pytest.mark.parametrize(
    ("option", "value", "problem"),
    [
        ("--timeout", "5", "expected a duration such as 500ms or 2s, at most 1h, found '5'"),
        ("--guest-config", os.fsdecode(b"caf\xe9"), "expected UTF-8"),
        ("--args", os.fsdecode(b"\xff"), "expected UTF-8"),
        ("--memory-limit", "much", "expected a size such as 256Mi, found 'much'"),
        ("--memory-limit", "5", "Input should be greater than or equal to 1048576"),
        ("--extension-points", "filter,preenqueue", "'preenqueue' is no extension point; expected enqueue, preFilter,"
         " filter, postFilter, preScore, score, reserve, permit, preBind, bind, postBind"),
    ],
)  # fmt: skip
def test_wrong_usage(command: Command, option: str, value: str, problem: str) -> None:
    ended = command("call", "filter", "guest.wasm", "request.json", option, value)
    assert (ended.status, ended.stdout) == (2, "")
    said = " ".join(line.strip("│ ") for line in ended.stderr.splitlines() if line.startswith("│"))
    assert said == f"Invalid value for '{option}': {problem}"


@pytest.mark.parametrize(
    ("arguments", "wrong"),
    [
        (["score", "guest.wasm", "request.json"], "verb"),
        (["filter", "guest.wasm", "request.json", "--log-severity", "4"], "--log-severity"),
        (["filter", "guest.wasm", "request.json", "--engine", "v8"], "--engine"),
        (["filter", "guest.wasm", "request.json", "--output", "yaml"], "--output"),
    ],
)
def test_values_that_are_none(command: Command, arguments: list[str], wrong: str) -> None:
    ended = command("call", *arguments)
    assert (ended.status, ended.stdout) == (2, "")
    assert f"Invalid value for '{wrong}'" in ended.stderr or f"Invalid value for '{{{wrong}}}'" in ended.stderr


def test_an_engine_that_is_not_there_says_what_to_do(command: Command, folder: Path) -> None:
    request = written(folder, objects.names_args(["node-7"]))
    ended = command("call", "filter", guest(folder, "reject"), request, "--engine", "wasmer", "--output", "json")
    try:
        importlib.import_module("wasm_runtime.engines.wasmer")
    except ImportError as error:
        assert ended == (1, "", f"kwx: cannot run on engine wasmer: {error}\n")
    else:
        assert answer(ended) == objects.filtered([], {"node-7": "no"})
