"""Which pod `kubectl kwx` asks, what it takes for names, and what `kwx top` makes of histograms."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from click import unstyle
from prometheus_client.samples import Sample
from typer.testing import CliRunner

from extender.commands.doctor.objects import Pod
from extender.commands.kubectl.cli import app
from extender.commands.kubectl.pods import ExtenderPod, choose, extenders
from extender.commands.plugin.client import RemoteError
from extender.commands.top import Latency, latencies

SERVE = ["serve", "--config=x"]
ADMIN = [{"name": "verbs", "containerPort": 1}, {"name": "admin", "containerPort": 9000}]
FOUND = [ExtenderPod("a", "one", 8889), ExtenderPod("b", "two", 8889)]
LABEL = "app.kubernetes.io/name in (kwx-extender, kwx-scheduler)"


def made(metadata: dict[str, Any] | None = None, phase: str = "Running", **spec: Any) -> Pod:
    content = {
        "metadata": {"namespace": "a", "name": "one", **(metadata or {})},
        "spec": spec or {"containers": [{"name": "extender", "args": SERVE}]},
        "status": {"phase": phase},
    }
    return msgspec.convert(content, Pod)


@pytest.mark.parametrize(
    ("pod", "port"),
    [
        pytest.param(made(), 8889, id="no port is named"),
        pytest.param(made(containers=[{"args": SERVE, "ports": ADMIN}]), 9000, id="by the name"),
        pytest.param(
            made(containers=[{"command": ["kube-scheduler"]}], initContainers=[{"args": SERVE, "ports": ADMIN}]),
            9000,
            id="sidecar",
        ),
        pytest.param(made(containers=[{"command": ["kube-scheduler"]}]), None, id="a scheduler alone"),
        pytest.param(made(phase="Pending"), None, id="not running yet"),
        pytest.param(made({"deletionTimestamp": "2026-01-31T12:00:00Z"}), None, id="about to go"),
    ],
)
def test_pods_that_run_an_extender(pod: Pod, port: int | None) -> None:
    assert list(extenders([pod])) == ([] if port is None else [ExtenderPod("a", "one", port)])


@pytest.mark.parametrize(
    ("found", "namespace", "name", "outcome"),
    [
        (FOUND[:1], "a", None, FOUND[0]),
        (FOUND, None, "two", FOUND[1]),
        (
            [],
            "a",
            None,
            f"no extender runs in namespace a (label {LABEL}); name another namespace, or look in all by -A",
        ),
        (FOUND, None, "three", f"no pod three of an extender runs in any namespace (label {LABEL})"),
        (FOUND, None, None, "2 pods run an extender in any namespace: a/one, b/two; choose one by --pod"),
    ],
)
def test_one_pod_is_asked(
    found: list[ExtenderPod], namespace: str | None, name: str | None, outcome: ExtenderPod | str
) -> None:
    if isinstance(outcome, ExtenderPod):
        assert choose(found, namespace, name) == outcome
        return
    with pytest.raises(RemoteError) as raised:
        choose(found, namespace, name)
    assert str(raised.value) == outcome


@pytest.mark.parametrize("target", ["deployment/web", "default/web", "pod/", "a/b/c"])
def test_only_pods_and_nodes_are_explained(target: str) -> None:
    result = CliRunner().invoke(app, ["explain", target], prog_name="kubectl kwx", env={"COLUMNS": "200"})
    assert (result.exit_code, result.stdout) == (2, "")
    assert "expected NAME, pod/NAME or node/NAME; -n names the pod's namespace" in unstyle(result.stderr)


@pytest.mark.parametrize("command", [[], ["explain"], ["plugins"], ["swap"], ["rollback"], ["doctor"], ["top"]])
def test_every_command_has_help(command: list[str]) -> None:
    result = CliRunner().invoke(app, [*command, "-h"], prog_name="kubectl kwx", env={"COLUMNS": "200"})
    shown = unstyle(result.stdout)
    assert (result.exit_code, f"Usage: {' '.join(['kubectl kwx', *command])}" in shown) == (0, True)
    options = ["--namespace", "--all-namespaces", "-A", "--context", "--kubeconfig", "--pod", "--output"]
    assert not command or [each for each in options if each not in shown] == []
    assert "--server" not in shown


def test_a_missing_kubeconfig_is_told(tmp_path: Any) -> None:
    missing = tmp_path / "none"
    result = CliRunner().invoke(app, ["plugins", "--kubeconfig", str(missing)], prog_name="kubectl kwx")
    told = f"kwx: there is no kubeconfig {missing}: name one by --kubeconfig\n"
    assert (result.exit_code, result.stdout, result.stderr) == (1, "", told)


def test_quantiles_are_prometheus_own() -> None:
    """Linear within a bucket; of the last one its lower bound."""
    labels = {"verb": "filter", "phase": "judge"}
    name = "kwx_verb_phase_seconds"
    samples = [
        Sample(f"{name}_bucket", {**labels, "le": "0.001"}, 50.0),
        Sample(f"{name}_bucket", {**labels, "le": "0.002"}, 98.0),
        Sample(f"{name}_bucket", {**labels, "le": "+Inf"}, 100.0),
        Sample(f"{name}_count", labels, 100.0),
        Sample(f"{name}_sum", labels, 0.3),
        Sample("process_start_time_seconds", {}, 1.0),
    ]
    found = latencies(samples)
    assert list(found) == [(name, "filter", "judge")]
    (latency,) = found.values()
    assert (latency.calls, latency.seconds) == (100.0, 0.3)
    assert [latency.quantile(part) for part in (0.25, 0.5, 0.74, 0.99)] == pytest.approx([0.0005, 0.001, 0.0015, 0.002])


def test_a_refresh_shows_what_came_since() -> None:
    infinite = float("inf")
    earlier = Latency(1.0, {0.1: 10.0, infinite: 20.0})
    later = Latency(1.5, {0.1: 11.0, infinite: 25.0})
    assert later.since(earlier) == Latency(0.5, {0.1: 1.0, infinite: 5.0})
    assert later.since(None) == later
    assert earlier.since(later) == earlier, "a restart begins at 0"
