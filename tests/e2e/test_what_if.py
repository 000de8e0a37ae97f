"""`kwx call --live` beside a stock kube-scheduler: it says what would be, and nothing comes of it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import httpx
from typer.testing import CliRunner

from bench.controlplane import ControlPlane
from extender.commands.cli import app
from tests.e2e.stack import Stack, guest
from tests.extender import guests

FULL = "2 pods are there"


def test_it_says_what_would_become_of_a_pod_that_waits_and_of_one_that_is_not_there(
    cluster: ControlPlane, identity: Path, tmp_path: Path
) -> None:
    """The plugin takes two pods on a node, so the fifth waits for a place on the two nodes."""
    cluster.create_nodes(2, timeout=60)
    candidate = tmp_path / "candidate.wasm"
    candidate.write_bytes(guests.constant_score(50))
    with Stack(cluster, tmp_path, [guest("packs_two", tmp_path)], identity) as stack:

        def ask(module: str | Path, pod: str | Path) -> dict[str, Any]:
            arguments = ["call", "prioritize", str(module), str(pod), "--plugin", "packs_two", "--output", "json"]
            result = CliRunner().invoke(app, [*arguments, "--live", "--server", stack.admin_url])
            assert result.exit_code == 0, result.stderr
            found: dict[str, Any] = json.loads(result.stdout)
            return found

        for at in range(5):
            stack.create_pod(f"web-{at}")
        stack.wait_until(lambda: len(stack.placements()) == 4, "placement of the four pods that fit")
        (waiting,) = stack.pods().keys() - stack.placements().keys()
        told = f"2 {FULL}"

        def is_told() -> bool:
            return any(told in message for message in stack.events(waiting, "FailedScheduling"))

        stack.wait_until(is_told, f"an Event of pod {waiting} that says {told!r}")
        ledger = stack.ledger()

        found = ask("active", f"default/{waiting}")
        assert (found["outcome"], found["nodesAsked"]) == ("rejected", 2)
        assert [(each["reason"], each["nodes"]) for each in found["rejections"]] == [(FULL, 2)]

        found = ask(candidate, f"default/{waiting}")
        assert [(each["total"], each["rejection"]) for each in found["nodes"]] == [(50.0, None)] * 2
        wish = tmp_path / "wish.json"
        wish.write_text(json.dumps({"kind": "Pod", "metadata": {"name": "wish"}, "spec": {"containers": []}}))
        assert ask("active", wish)["outcome"] == "rejected"

        assert stack.ledger() == ledger
        known = httpx.get(f"{stack.admin_url}/api/v1/decisions/default/wish", trust_env=False)
        assert known.status_code == httpx.codes.NOT_FOUND
        assert len(stack.placements()) == 4
