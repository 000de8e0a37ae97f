"""Files of cases that `kwx test` runs, and what it says of those that it cannot read."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import msgspec
import pytest

from extender.commands.test import cases
from extender.commands.test.document import DocumentError
from tests.extender import guests, objects
from tests.extender.commands.command import Command
from wasm_runtime.protobuf import encode_pod, fields

A_CASE: Final = "cases: [{name: A, pod: a"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path


def written(folder: Path, text: str, name: str = "cases.yaml") -> Path:
    file = folder / name
    file.write_text(textwrap.dedent(text))
    return file


def failures(command: Command, file: Path, *options: str | Path) -> Sequence[Any]:
    """The case, step, key, place, expectation and answer of all that differs, which is the same on each engine."""
    ended = command("test", file, *options, "--output", "json")
    assert ended.stderr == ""
    results = msgspec.json.decode(ended.stdout)
    assert ended.status == int(any(not each["passed"] for each in results))
    differing: dict[str, list[Any]] = {each["engine"]: [] for each in results}
    for each in results:
        differing[each["engine"]] += [[each["case"], *difference.values()] for difference in each["differences"]]
    first, *others = differing.values()
    assert all(other == first for other in others)
    return first


# -- what can be said ------------------------------------------------------------------------------


def test_verdicts_scores_and_reasons(command: Command, folder: Path) -> None:
    module = guests.example("accelerator")
    file = written(
        folder,
        f"""
        module: {module}
        nodes:
        - {{name: small, labels: {{kwx.dev/accelerator: a100}}}}
        - metadata: {{name: large, labels: {{kwx.dev/accelerator: h100}}}}
        - none
        cases:
        - name: As it is
          pod: {{annotations: {{kwx.dev/accelerator: h100}}}}
          expect:
            small: {{unresolvable: "node label kwx.dev/accelerator is a100, pod wants h100"}}
            large: passes
            none: {{unresolvable: node has no label kwx.dev/accelerator=h100}}
        - name: As it is not
          pod: {{annotations: {{kwx.dev/accelerator: h100}}}}
          expect: {{small: 7, large: busy, lost: 1}}
        - name: Nothing is expected
          pod: any
          nodes: [none]
        """,
    )
    small = "unresolvable: node label kwx.dev/accelerator is a100, pod wants h100"
    assert failures(command, file) == [
        ["As it is not", 1, "expect", "small", "7", small],
        ["As it is not", 1, "expect", "large", "busy", "passes"],
        [
            "As it is not",
            1,
            "expect",
            "none",
            "nothing",
            "unresolvable: node has no label kwx.dev/accelerator=h100",
        ],
        ["As it is not", 1, "expect", "lost", "1", "nothing"],
        ["Nothing is expected", 1, "expect", "none", "nothing", "passes"],
    ]


def test_a_configuration_of_all_cases_and_of_one(command: Command, folder: Path) -> None:
    file = written(
        folder,
        """
        guestConfig: {reverse: true}
        nodes: [node-1, node-2]
        cases:
        - name: Of all
          pod: pod-1
          expect: {node-1: 0, node-2: 100}
        - name: Its own
          pod: pod-1
          guestConfig: '{"reverse": false}'
          expect: {node-1: 100, node-2: 0}
        """,
    )
    assert failures(command, file, "--module", Path("sdk-guest/rust/modules/nodenumber.wasm")) == []


def test_logs_and_events(command: Command, folder: Path) -> None:
    file = written(
        folder,
        f"""
        module: {guests.build("talk", folder)}
        nodes: [node-7]
        cases:
        - name: As they are
          pod: any
          expect: {{node-7: passes}}
          events: [{{type: Warning, reason: Full, note: rack r7, regarding: Node node-7}}]
          logs:
          - 'info: 100% of "racks" are full'
          - 'warning: rack is full rack=r7 free=0'
          - 'error: rack is full'
          - 'fatal: rack is full'
          - 'info: is fine (node node-7)'
        - name: As they are not
          pod: any
          events: []
          logs: ['info: 100% of "racks" are full']
        """,
    )
    event = "type: Warning, reason: Full, note: rack r7, regarding: Node node-7"
    assert failures(command, file) == [
        ["As they are not", 1, "events", "[0]", "nothing", event],
        ["As they are not", 1, "logs", "[1]", "nothing", "warning: rack is full rack=r7 free=0"],
        ["As they are not", 1, "logs", "[2]", "nothing", "error: rack is full"],
        ["As they are not", 1, "logs", "[3]", "nothing", "fatal: rack is full"],
        ["As they are not", 1, "logs", "[4]", "nothing", "info: is fine (node node-7)"],
    ]


def test_pod_after_pod_in_one_cluster(command: Command, folder: Path) -> None:
    file = written(
        folder,
        f"""
        module: {guests.build("packs_two", folder)}
        nodes: [node-1, node-2]
        pods: [{{name: first, node: node-1}}, {{name: ended, node: node-1, status: {{phase: Succeeded}}}}]
        cases:
        - name: A node fills
          steps:
          - pod: {{name: second}}
            expect: {{node-1: passes, node-2: passes}}
            bind: node-1
          - pod: {{name: third}}
            expect: {{node-1: 2 pods are there, node-2: passes}}
          - remove: {{pods: [first]}}
            pod: third
            expect: {{node-1: passes, node-2: passes}}
          - put: {{pods: [{{name: other, node: node-1}}], nodes: [node-3]}}
            remove: {{nodes: [node-2]}}
            pod: third
            expect: {{node-1: 2 pods are there, node-3: passes}}
        """,
    )
    assert failures(command, file) == []


def test_a_pod_waits_until_others_are_there(command: Command, folder: Path) -> None:
    file = written(
        folder,
        f"""
        module: {guests.build("gang", folder)}
        guestConfig: 22job-1
        nodes: [node-1]
        cases:
        - name: The second lets the first go on
          steps:
          - pod: {{name: a, labels: {{job: job-1}}}}
            bind: {{node: node-1, waits: true}}
            waited: {{}}
          - pod: {{name: b, labels: {{job: job-1}}}}
            bind: node-1
            waited: {{a: node-1}}
        - name: Too many are rejected, and so is who waits
          guestConfig: 31job-1
          steps:
          - pod: {{name: a, labels: {{job: job-1}}}}
            bind: {{node: node-1, waits: true}}
          - pod: {{name: b, labels: {{job: job-1}}}}
            bind: {{node: node-1, error: too many are there}}
            waited: {{}}
          - put: {{pods: [{{name: c, node: node-1, labels: {{job: job-1}}}}]}}
            waited: {{a: {{error: too many are there}}}}
        """,
    )
    assert failures(command, file) == []


def test_annotations_that_a_bind_gives(command: Command, folder: Path) -> None:
    file = written(
        folder,
        f"""
        module: {guests.build("shares_devices", folder)}
        nodes: [node-1]
        cases:
        - name: Each pod has a device
          steps:
          - {{pod: a, bind: {{node: node-1, annotations: {{example.com/device: "0"}}}}}}
          - {{pod: b, bind: {{node: node-1, annotations: {{example.com/device: "9"}}}}}}
          - {{pod: c, expect: {{node-1: no device is free}}, bind: node-1}}
        """,
    )
    assert failures(command, file) == [
        ["Each pod has a device", 2, "bind", "example.com/device", "9", "1"],
        [
            "Each pod has a device",
            3,
            "bind",
            "error",
            "nothing",
            "the pod cannot be bound to a node that does not pass",
        ],
    ]


def test_candidates_of_a_preemption(command: Command, folder: Path) -> None:
    file = written(
        folder,
        f"""
        module: {guests.build("packs_two", folder)}
        nodes: [node-1, node-2]
        pods: [{{name: a, node: node-1}}, {{name: b, node: node-1}}, {{name: c, node: node-2}}]
        cases:
        - name: A guest that knows no removepod says what it says with all pods
          pod: any
          preempt: {{victims: {{node-1: [a], node-2: [c]}}, stays: [node-1]}}
        """,
    )
    assert failures(command, file) == [
        ["A guest that knows no removepod says what it says with all pods", 1, "preempt", "[0]", "node-1", "node-2"]
    ]


def test_an_error_is_expected_by_a_part_of_it(command: Command, folder: Path) -> None:
    file = written(
        folder,
        f"""
        module: {guests.build("print_and_trap", folder)}
        nodes: [node-1]
        cases:
        - {{name: Expected, pod: any, error: no quota}}
        - {{name: Not expected, pod: any, expect: {{node-1: passes}}}}
        """,
    )
    ((name, *_, expected, answered),) = failures(command, file, "--engine", "wasmtime")
    assert (name, expected) == ("Not expected", "nothing")
    assert answered.startswith("filter of node node-1: trap: unreachable in give_up")


def test_objects_as_kubectl_prints_them(command: Command, folder: Path) -> None:
    nodes = [objects.node("node-1"), {**objects.node("node-2"), "apiVersion": "v1", "spec": {"ofTomorrow": 1}}]
    (folder / "nodes.json").write_bytes(msgspec.json.encode({"kind": "List", "items": nodes}))
    written(
        folder,
        """
        apiVersion: v1
        kind: List
        items:
        - apiVersion: v1
          kind: Pod
          metadata: {name: a, namespace: default, creationTimestamp: "2026-01-01T00:00:00Z"}
          spec: {nodeName: node-1, ofTomorrow: true, containers: [{name: c, image: i}]}
        """,
        "pods.yaml",
    )
    file = written(
        folder,
        f"""
        module: {guests.build("packs_two", folder)}
        nodes: nodes.json
        pods: pods.yaml
        cases:
        - {{name: Read, pod: b, expect: {{node-1: passes, node-2: passes}}, bind: node-1}}
        """,
    )
    assert failures(command, file) == []


@pytest.mark.parametrize(
    ("short", "whole"),
    [
        ("a", {}),
        ("{name: a, uid: 7}", {"metadata": {"uid": "7"}}),
        ("{name: a, requests: {cpu: 2, memory: 1Gi}}",
         {"spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "2", "memory": "1Gi"}}}]}}),
        ("{name: a, node: n, priority: 5, spec: {hostNetwork: true}, labels: {x: true}}",
         {"metadata": {"labels": {"x": "true"}}, "spec": {"nodeName": "n", "priority": 5, "hostNetwork": True}}),
        ("{metadata: {name: a}, tolerations: [{key: k, tolerationSeconds: 3}], nodeSelector: {z: 1}}",
         {"spec": {"tolerations": [{"key": "k", "tolerationSeconds": 3}], "nodeSelector": {"z": "1"}}}),
    ],
)  # fmt: skip
def test_pods_as_short_as_a_person_writes_them(folder: Path, short: str, whole: Any) -> None:
    pods = cases.read(written(folder, f"pods: [{short}]\ncases: [{{name: A, pod: b}}]")).cases[0].pods
    metadata = {"namespace": "default", "uid": "default/a", "name": "a", **whole.get("metadata", {})}
    spec = {"containers": [{"name": "c"}], **whole.get("spec", {})}
    assert _content(pods[0].object) == _content(encoded({**whole, "metadata": metadata, "spec": spec}))


def encoded(pod: Any) -> bytes:
    return encode_pod(pod)


def _content(message: bytes) -> list[Any]:
    """The fields of a message, in any order."""
    return sorted(
        (number, sorted(value) if isinstance(value, bytes) else value) for number, _, value in fields(message)
    )


# -- what cannot be read ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "there is nothing in it"),
        ("- a", "1: expected a mapping, found a list"),
        ("cases: [", "1: is no YAML: expected the node content, but found '<stream end>'"),
        ("nodes: []", "1: cases is required"),
        ("cases: {}", "1: cases: expected a list, found a mapping"),
        ("cases: []\ncases: []", "2: key cases comes twice"),
        ("case: []", "1: unknown key case; did you mean cases?"),
        ("x: []", "1: unknown key x, expected module, guestConfig, args, nodes, pods, groups or cases"),
        ("cases:\n- pod: a", "2: cases[0]: name is required"),
        ("cases:\n- name: A", "2: cases[0]: pod is required"),
        ("cases:\n- {name: A, pod: a}\n- {name: A, pod: b}", "3: the name 'A' comes twice; names must differ"),
        ("cases:\n- name: A\n  pod: a\n  expects: {}", "4: cases[0]: unknown key expects; did you mean expect?"),
        ("cases:\n- name: A\n  steps:\n  - bind: n", "4: cases[0].steps[0]: bind needs a pod; give the step one"),
        (A_CASE + ", expect: {n: [1]}}]", "1: cases[0].expect.n: expected a text, found a list"),
        (A_CASE + ", expect: {n: {reason: x}}}]", "1: cases[0].expect.n: unknown key reason, expected unresolvable"),
        (A_CASE + ", bind: {node: n, waits: 3}}]", "1: cases[0].bind.waits: expected true or false, found '3'"),
        ("nodes:\n- {name: a, label: {}}\ncases: []", "2: nodes[0]: unknown key label; did you mean labels?"),
        ("nodes: [{labels: {}}]\ncases: []", "1: nodes[0]: name is required"),
        ("nodes: {a: 1}\ncases: []", "1: nodes: expected a list of nodes, or a file that has one"),
        ("pods:\n- name: a\n  spec:\n    nodeNam: b\ncases: []",
         "4: pods[0].spec: unknown key nodeNam; did you mean nodeName?"),
        ("pods: [{name: a, requests: {cpu: two}}]\ncases: []",
         '1: pods[0]: spec.containers[0].resources.requests["cpu"]: expected a quantity, got "two"'),
        ("pods: [{name: a, node: b, spec: {nodeName: c}}]\ncases: []", "1: pods[0]: nodeName: is given twice"),
        ("pods: [{kind: Node, metadata: {name: a}}]\ncases: []", "1: pods[0]: kind: expected Pod, found Node"),
        ("groups: [{name: g, minMember: x}]\ncases: []",
         "1: groups[0].minMember: expected a whole number, found 'x'"),
        ("a: &a [1]\nb: &b [*a, *a]\nguestConfig: !!set {a}\ncases: []", "1: unknown key a, expected module"),
    ],
)  # fmt: skip
def test_what_cannot_be_read_is_named_with_line_and_key(
    command: Command, folder: Path, text: str, problem: str
) -> None:
    file = written(folder, text)
    with pytest.raises(DocumentError) as raised:
        cases.read(file)
    place = ":" if problem[0].isdigit() else ": "
    assert str(raised.value).startswith(f"{file}{place}{problem}")
    assert command("test", file) == (1, "", f"kwx: {raised.value}\n")


def test_a_file_beside_the_cases_that_cannot_be_read(folder: Path) -> None:
    file = written(folder, "nodes: nodes.yaml\ncases: []")
    with pytest.raises(DocumentError) as raised:
        cases.read(file)
    assert str(raised.value) == f"{folder / 'nodes.yaml'}: cannot be read: No such file or directory"
    written(folder, "items:\n- {nam: a}", "nodes.yaml")
    with pytest.raises(DocumentError) as raised:
        cases.read(file)
    assert str(raised.value) == f"{folder / 'nodes.yaml'}:2: items[0]: unknown key nam; did you mean name?"
    (folder / "nodes.yaml").write_text('{"items": [{"metadata": {"name": 1}}]}')
    with pytest.raises(DocumentError) as raised:
        cases.read(file)
    assert str(raised.value) == f"{folder / 'nodes.yaml'}: items[0]: metadata.name: is required"


@pytest.mark.parametrize(
    ("step", "problem"),
    [
        ("{pod: a, bind: lost}", "bind: there is no node lost"),
        ("{pod: a, preempt: {victims: {lost: []}}}", "preempt: victims: there is no node lost"),
        ("{pod: a, preempt: {victims: {node-1: [lost]}}}", "there is no pod lost"),
        ("{remove: {nodes: [lost]}}", "remove: there is no node lost"),
        ("{remove: {pods: [lost]}}", "there is no pod lost"),
    ],
)
def test_names_that_nobody_has(command: Command, folder: Path, step: str, problem: str) -> None:
    module = guests.build("every_export", folder)
    file = written(folder, f"module: {module}\nnodes: [node-1]\ncases:\n- name: A\n  steps: [{step}]")
    assert command("test", file) == (1, "", f"kwx: {file}:4: A: {problem}\n")
