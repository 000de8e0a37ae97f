"""`kwx replay`: two modules judge what was recorded."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from extender.admin.recording.file_format import FORMAT, BegunRecord, CycleRecord, EndedRecord, NodeRecord
from tests.extender import guests
from tests.extender.commands.command import Command
from tests.extender.commands.traffic.test_recording import packed
from tests.extender.kwx import configuration, plugin, profile, write
from tests.extender.objects import node, pod
from wasm_runtime.protobuf import encode_node, encode_pod

NAMES = ["node-1", "node-2", "node-7"]
LABEL = "kwx.dev/accelerator"


@pytest.fixture
def recording(tmp_path: Path) -> Path:
    """Three pods about three nodes. Before the last one node-2 gets a label."""
    nodes = [NodeRecord(name, encode_node(node(name))) for name in NAMES]
    train = encode_pod(pod("train", annotations={LABEL: "h100"}))
    file = tmp_path / "traffic.kwxrec"
    file.write_bytes(
        packed(
            BegunRecord(FORMAT, "default", "2026-01-31T12:00:00Z"),
            *nodes,
            CycleRecord(0.5, "uid-1", "default/web-1", encode_pod(pod("web-1")), [0, 1, 2]),
            CycleRecord(1.5, "uid-2", "default/train", train, [0, 1]),
            NodeRecord("node-2", encode_node(node("node-2", labels={LABEL: "h100"}))),
            CycleRecord(2.5, "uid-3", "default/train", train, [0, 1]),
            EndedRecord("time", 0),
        )
    )
    return file


def module(name: str, folder: Path) -> Path:
    return guests.build(name, folder) if not guests.example(name).exists() else guests.example(name)


def test_what_another_configuration_changes_is_shown_and_ends_with_status_1(
    command: Command, recording: Path, tmp_path: Path
) -> None:
    wasm = module("filter_by_digit", tmp_path)
    ended = command(
        *("replay", recording, "--baseline", wasm, "--baseline-config", "72no sevens"),
        *("--module", wasm, "--guest-config", "23"),
    )
    assert (ended.status, ended.stderr) == (1, "")
    reason = "rejected for good: node(s) rejected by plugin filter_by_digit without a reason"
    lines = [line.split(maxsplit=4) for line in ended.stdout.splitlines()]
    assert [line[:4] for line in lines[:-1]] == [
        ["Second", "Pod", "Verb", "Node"],
        ["0.5", "default/web-1", "filter", "node-2"],
        ["0.5", "default/web-1", "filter", "node-7"],
        ["1.5", "default/train", "filter", "node-2"],
        ["2.5", "default/train", "filter", "node-2"],
    ]
    assert [" ".join(line[4].split()) for line in lines[1:-1]] == [
        f"passes {reason}",
        "rejected: no sevens passes",
        f"passes {reason}",
        f"passes {reason}",
    ]
    assert ended.stdout.splitlines()[-1] == "3 of 3 pods are judged otherwise"


def test_nodes_are_as_they_were_when_each_pod_was_judged(command: Command, recording: Path, tmp_path: Path) -> None:
    accelerator, keeps = module("accelerator", tmp_path), module("nodenumber", tmp_path)
    ended = command("replay", recording, "--baseline", accelerator, "--module", keeps, "--output", "json")
    found = json.loads(ended.stdout)
    reason = f"rejected for good: node has no label {LABEL}=h100"
    rejected = [
        (each["seconds"], each["node"], each["baseline"], each["module"])
        for each in found["differences"]
        if each["verb"] == "filter"
    ]
    assert rejected == [
        (1.5, "node-1", reason, "passes"),
        (1.5, "node-2", reason, "passes"),
        (2.5, "node-1", reason, "passes"),
    ]
    assert (ended.status, found["pods"]) == (1, 3)


def test_a_module_that_says_the_same_ends_with_status_0(command: Command, recording: Path, tmp_path: Path) -> None:
    wasm = module("score_by_digit", tmp_path)
    ended = command("replay", recording, "--baseline", wasm, "--module", wasm)
    assert ended == (0, "0 of 3 pods are judged otherwise\n", "")


def test_a_module_that_fails_differs_in_all_nodes(command: Command, recording: Path, tmp_path: Path) -> None:
    score, trap = module("score_by_digit", tmp_path), module("trap", tmp_path)
    ended = command("replay", recording, "--baseline", score, "--module", trap, "--output", "json")
    first, *_ = json.loads(ended.stdout)["differences"]
    assert (first["node"], first["baseline"]) == ("", "has an answer")
    assert first["module"].startswith("filter of node node-1: trap: unreachable")


@pytest.fixture
def configured(tmp_path: Path) -> Path:
    """A configuration with two plugins that filter, and two that score."""
    serving = profile(
        "default",
        plugin("filter_by_digit", "72no sevens", name="sevens"),
        plugin("filter_by_digit", "23", name="twos"),
        plugin("score_by_digit", weight=3),
        plugin("score_from_config", "50"),
    )
    return write(tmp_path, configuration(serving, profile("traps", plugin("trap"))))


def replayed(command: Command, *arguments: str | Path) -> tuple[int, list[tuple[str, ...]]]:
    """The exit status, and pod, verb, node and both words of each difference."""
    ended = command("replay", *arguments, "--output", "json")
    assert ended.stderr == ""
    return ended.status, [tuple(map(str, list(each.values())[1:])) for each in json.loads(ended.stdout)["differences"]]


def test_two_configurations_are_compared_by_all_plugins_of_the_profile(
    command: Command, recording: Path, configured: Path, tmp_path: Path
) -> None:
    other = tmp_path / "other.yaml"
    other.write_text(configured.read_text().replace("72no sevens", "12no ones").replace("weight: 3", "weight: 1"))
    assert replayed(command, recording, "--baseline", configured, "--module", configured) == (0, [])
    assert replayed(command, recording, "--baseline", configured, "--module", other) == (
        1,
        [
            ("default/web-1", "filter", "node-1", "passes", "rejected by sevens: no ones"),
            ("default/web-1", "filter", "node-7", "rejected by sevens: no sevens", "passes"),
            *[("default/train", "filter", "node-1", "passes", "rejected by sevens: no ones")] * 2,
        ],
    )
    other.write_text(configured.read_text().replace("weight: 3", "weight: 1"))
    scores = ("prioritize", "node-1", "20.0", "30.0")
    assert replayed(command, recording, "--baseline", configured, "--module", other) == (
        1,
        [("default/web-1", *scores), *[("default/train", *scores)] * 2],
    )


def test_a_module_takes_the_place_of_a_plugin_of_the_configuration(
    command: Command, recording: Path, configured: Path, tmp_path: Path
) -> None:
    other = tmp_path / "other.wasm"
    other.write_bytes(guests.constant_score(90))
    scores = ("prioritize", "node-1", "20.0", "80.0")
    expected = (1, [("default/web-1", *scores), *[("default/train", *scores)] * 2])
    replacing = ("--baseline", configured, "--module", other, "--plugin", "score_by_digit")
    assert replayed(command, recording, *replacing) == expected
    same = module("score_by_digit", tmp_path)
    assert replayed(command, recording, "--baseline", configured, "--module", same) == (0, [])
    other = module("filter_by_digit", tmp_path)
    settings = ("--plugin", "sevens", "--guest-config", "72not here")
    assert replayed(command, recording, "--baseline", configured, "--module", other, *settings) == (
        1,
        [("default/web-1", "filter", "node-7", "rejected by sevens: no sevens", "rejected by sevens: not here")],
    )


def test_another_profile_may_be_played(command: Command, recording: Path, configured: Path, tmp_path: Path) -> None:
    score = module("score_by_digit", tmp_path)
    status, found = replayed(command, recording, "--baseline", score, "--module", configured, "--profile", "traps")
    assert (status, len(found)) == (1, 3)
    assert found[0][:4] == ("default/web-1", "filter", "", "has an answer")


@pytest.mark.parametrize(
    ("arguments", "status", "told"),
    [
        (["--module", "nope.wasm"], 1, "name the one whose place nope.wasm takes by --plugin"),
        (
            ["--module", "CONFIG", "--profile", "nope"],
            1,
            "has no profile 'nope'; there are: default, traps; choose one",
        ),
        (["--module", "CONFIG", "--plugin", "sevens"], 2, "it is for configurations"),
        (["--module", "CONFIG", "--guest-config", "x"], 2, "a configuration has its own"),
        (["--module", "empty.yaml"], 1, "empty.yaml: cannot be read: No such file or directory"),
    ],
)
def test_what_is_wrong_with_a_configuration_is_said(
    command: Command, recording: Path, configured: Path, arguments: list[str], status: int, told: str
) -> None:
    given = [str(configured) if each == "CONFIG" else each for each in arguments]
    ended = command("replay", recording, "--baseline", configured, *given)
    assert (ended.status, told in " ".join(ended.stderr.replace("│", " ").split())) == (status, True), ended


def test_what_cannot_be_replayed_is_said(command: Command, recording: Path, tmp_path: Path) -> None:
    wasm, missing = module("score_by_digit", tmp_path), tmp_path / "missing.wasm"
    ended = command("replay", missing, "--baseline", wasm, "--module", wasm)
    problem = f"{missing} cannot be read: No such file or directory; give a file that `kwx record` wrote"
    assert (ended.status, ended.stderr) == (1, f"kwx: {problem}\n")
    ended = command("replay", recording, "--baseline", wasm, "--module", missing)
    assert (ended.status, ended.stdout) == (1, "")
    assert "missing.wasm" in ended.stderr
