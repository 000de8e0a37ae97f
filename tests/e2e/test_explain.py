"""`kwx explain` beside a stock kube-scheduler: what it says of pods is what has happened to them."""

from __future__ import annotations

import json
import random
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from bench.controlplane import ControlPlane
from extender.commands.cli import app
from tests.e2e.stack import Stack, example, guest

ACCELERATOR = "kwx.dev/accelerator"
WEIGHTS = {"nodenumber": 3, "score_by_digit": 1}
IS_H100 = {True: f"node label {ACCELERATOR} is h100, pod wants t4", False: f"node has no label {ACCELERATOR}=t4"}


def attempts(stack: Stack, pod: str) -> list[dict[str, Any]]:
    """What `kwx explain` says of a pod, the latest attempt first."""
    command = ["explain", "pod", f"default/{pod}", "--server", stack.admin_url, "--output", "json"]
    result = CliRunner().invoke(app, command)
    assert result.exit_code == 0, result.stderr
    found: list[dict[str, Any]] = json.loads(result.stdout)
    return found


def scores(pod: str, node: str) -> dict[str, int]:
    """What the plugins have to say of a node, computed by the rules of their policies."""
    return {"nodenumber": 100 if pod[-1] == node[-1] else 0, "score_by_digit": 10 * int(node[-1])}


def total(pod: str, node: str) -> float:
    return sum(WEIGHTS[name] * score for name, score in scores(pod, node).items()) / sum(WEIGHTS.values())


def unschedulable(attempt: dict[str, Any], nodes: int) -> str:
    """How kube-scheduler words the reasons of an attempt (`FitError.Error` in its framework's `types.go`).

    Two plugins filter, so each reason says whose it is.
    """
    reasons = sorted(f"{each['nodes']} {each['reason']} ({each['plugin']})" for each in attempt["rejections"])
    return f"0/{nodes} nodes are available: {', '.join(reasons)}."


@pytest.mark.parametrize(
    ("nodes", "bound", "waiting"),
    [
        pytest.param(40, 10, 3, id="short"),
        pytest.param(500, 50, 20, id="full", marks=[pytest.mark.nightly, pytest.mark.timeout(900)]),
    ],
)
def test_it_says_of_many_pods_where_each_went_and_why_none_took_it(
    cluster: ControlPlane, identity: Path, tmp_path: Path, nodes: int, bound: int, waiting: int
) -> None:
    """Half of the nodes have an accelerator. The names of pods and nodes end in the digits that the plugins go by."""
    cluster.create_nodes(nodes // 2, name="gpu-{}", labels={ACCELERATOR: "h100"}, timeout=120)
    cluster.create_nodes(nodes // 2, name="cpu-{}", timeout=120)
    plugins = [
        guest("filter_by_digit", tmp_path, "72no sevens"),
        example("accelerator"),
        example("nodenumber", weight=WEIGHTS["nodenumber"]),
        guest("score_by_digit", tmp_path, weight=WEIGHTS["score_by_digit"]),
    ]
    digits = random.Random(8)
    wishes = {f"web-{at}-{digits.randrange(10)}": digits.choice(["", "h100"]) for at in range(bound)}
    pending = [f"train-{at}" for at in range(waiting)]
    with Stack(cluster, tmp_path, plugins, identity) as stack:
        for name, wish in [*wishes.items(), *((name, "t4") for name in pending)]:
            stack.create_pod(name, annotations={ACCELERATOR: wish} if wish else {})
        stack.wait_until(lambda: len(stack.placements()) == bound, "placement of all pods that fit", 120)
        placements = stack.placements()
        for name, wish in wishes.items():
            shown, *_ = attempts(stack, name)
            assert (shown["outcome"], shown["node"]) == ("bound", placements[name])
            passing = {node["name"]: node for node in shown["nodes"] if not node["rejection"]}
            assert len(passing) == shown["nodesAnswered"] > 0
            assert shown["nodesAsked"] == shown["nodesAnswered"] + sum(each["nodes"] for each in shown["rejections"])
            for node, said in passing.items():
                assert node[-1] != "7"
                assert not wish or node.startswith("gpu-")
                given = {each["plugin"]: each["score"] for each in said["scores"]}
                assert (given, said["total"]) == (scores(name, node), total(name, node))
            best = max(node["answer"] for node in passing.values())
            assert int(total(name, placements[name]) / 10 + 0.5) == best

        def is_told(name: str) -> bool:
            shown, *_ = attempts(stack, name)
            expected = unschedulable(shown, nodes)
            return any(message.startswith(expected) for message in stack.events(name, "FailedScheduling"))

        for name in pending:
            stack.wait_until(partial(is_told, name), f"an Event of pod {name} with the reasons of kwx explain")
        (shown, *_) = attempts(stack, pending[0])
        assert {each["reason"] for each in shown["rejections"]} == {"no sevens", *IS_H100.values()}
        assert shown["schedulerMessage"].startswith(f"0/{nodes} nodes are available: ")
