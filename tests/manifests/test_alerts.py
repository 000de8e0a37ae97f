"""Each alert is fired by the fault that it is for, names metrics that an extender has, and has a runbook."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import pytest
import yaml

from bench.controlplane import ControlPlane

from .overlay import CHECKOUT, MANIFESTS, SERVICE
from .pair import Pair

FILE = MANIFESTS / "monitoring" / "prometheus-rule.yaml"
RULES: list[dict[str, Any]] = yaml.safe_load(FILE.read_text())["spec"]["groups"][0]["rules"]
PROMTOOL = shutil.which("promtool")

needs_promtool = pytest.mark.skipif(PROMTOOL is None, reason="promtool is missing: Debian has it in `prometheus`")


class Fault(NamedTuple):
    """What an extender's metrics look like, a value a minute, before and after a fault."""

    alert: str
    well: Mapping[str, str]
    ill: Mapping[str, str]
    labels: Mapping[str, str]
    """Of the alert, beside those of its rule."""


PLACE = {"instance": "kwx:8889", "profile": "default", "plugin": "gang"}
PLUGIN = 'instance="kwx:8889",profile="default",plugin="gang"'
SAME = 'profile="default",plugin="gang"'
CERTIFICATE = 'instance="kwx:8889",server="verbs",file="certFile"'
INSTANCE = {"instance": "kwx:8889"}
FAULTS = [
    Fault("KwxAbsent", {'kwx_ready{instance="kwx:8889"}': "1x30"}, {}, {}),
    Fault(
        "KwxNotReady", {'kwx_ready{instance="kwx:8889"}': "1x30"}, {'kwx_ready{instance="kwx:8889"}': "0x30"}, INSTANCE
    ),
    Fault(
        "KwxVerbErrors",
        {
            'kwx_verb_results_total{instance="kwx:8889",verb="filter",result="success"}': "0+100x30",
            'kwx_verb_results_total{instance="kwx:8889",verb="filter",result="error"}': "0+1x30",
        },
        {
            'kwx_verb_results_total{instance="kwx:8889",verb="filter",result="success"}': "0+90x30",
            'kwx_verb_results_total{instance="kwx:8889",verb="filter",result="error"}': "0+10x30",
        },
        INSTANCE | {"verb": "filter"},
    ),
    Fault(
        "KwxPluginFailing",
        {f'kwx_plugin_failures_total{{{PLUGIN},kind="trap"}}': "7x30"},
        {f'kwx_plugin_failures_total{{{PLUGIN},kind="trap"}}': "0+1x30"},
        PLACE | {"kind": "trap"},
    ),
    Fault(
        "KwxNodesOutdated",
        {'kwx_nodes_outdated_seconds{instance="kwx:8889"}': "100x30"},
        {'kwx_nodes_outdated_seconds{instance="kwx:8889"}': "0+60x30"},
        INSTANCE,
    ),
    Fault(
        "KwxRolloutFailed",
        {
            f'kwx_rollouts_total{{{PLUGIN},end="active"}}': "0+1x30",
            f'kwx_rollouts_total{{{PLUGIN},end="failed"}}': "2x30",
        },
        {f'kwx_rollouts_total{{{PLUGIN},end="failed"}}': "0x20 1x9"},
        PLACE | {"end": "failed"},
    ),
    Fault(
        "KwxReplicasDiffer",
        {f'kwx_plugin_info{{instance="{each}",job="kwx",{SAME},revision="sha256:1"}}': "1x30" for each in "ab"},
        {f'kwx_plugin_info{{instance="{each}",job="kwx",{SAME},revision="sha256:{each}"}}': "1x30" for each in "ab"},
        {"job": "kwx", "profile": "default", "plugin": "gang"},
    ),
    Fault(
        "KwxWakesFailing",
        {'kwx_wakes_total{instance="kwx:8889",end="done"}': "0+1x30"},
        {'kwx_wakes_total{instance="kwx:8889",end="failed"}': "0x20 1x9"},
        INSTANCE,
    ),
    Fault(
        "KwxCertificateExpires",
        {f"kwx_tls_days_left{{{CERTIFICATE}}}": "8x30"},
        {f"kwx_tls_days_left{{{CERTIFICATE}}}": "6x30"},
        INSTANCE | {"server": "verbs", "file": "certFile"},
    ),
    Fault(
        "KwxCertificateRefused",
        {'kwx_tls_outdated{instance="kwx:8889",server="verbs"}': "0x30"},
        {'kwx_tls_outdated{instance="kwx:8889",server="verbs"}': "1x30"},
        INSTANCE | {"server": "verbs"},
    ),
]


def promtool(folder: Path, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """Runs it in a folder that has the rules as a file."""
    (folder / "rules.yaml").write_text(yaml.safe_dump(yaml.safe_load(FILE.read_text())["spec"]))
    assert PROMTOOL
    return subprocess.run([PROMTOOL, *arguments], check=False, capture_output=True, text=True, timeout=60, cwd=folder)


def series(values: Mapping[str, str]) -> Sequence[Mapping[str, str]]:
    """As promtool takes them. Something is scraped always, so that time passes."""
    return [{"series": name, "values": text} for name, text in ({"up": "1x30"} | dict(values)).items()]


@needs_promtool
def test_prometheus_takes_the_rules(tmp_path: Path) -> None:
    checked = promtool(tmp_path, "check", "rules", tmp_path / "rules.yaml")
    assert (checked.returncode, checked.stderr) == (0, "")
    assert f"SUCCESS: {len(RULES)} rules found" in checked.stdout


@needs_promtool
@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.alert)
def test_an_alert_is_fired_by_its_fault_alone(fault: Fault, tmp_path: Path) -> None:
    (rule,) = [rule for rule in RULES if rule["alert"] == fault.alert]
    (tmp_path / "test.yaml").write_text(yaml.safe_dump(_test_of(fault, rule)))
    tested = promtool(tmp_path, "test", "rules", "test.yaml")
    assert tested.returncode == 0, tested.stdout + tested.stderr


def _test_of(fault: Fault, rule: Mapping[str, Any]) -> dict[str, Any]:
    """A test for promtool: the alert is not fired while all is well, it is with the fault, and no other one is."""
    labels = {**fault.labels, **rule["labels"], "alertname": fault.alert}
    count = f"count(ALERTS{{{','.join(f'{key}={value!r}' for key, value in labels.items())},alertstate='firing'}})"
    others = f"count(ALERTS{{alertname!='{fault.alert}',alertname!='KwxAbsent',alertstate='firing'}})"
    one = [{"labels": "{}", "value": 1}]
    return {
        "rule_files": ["rules.yaml"],
        "evaluation_interval": "1m",
        "tests": [
            {
                "interval": "1m",
                "input_series": series(values),
                "promql_expr_test": [
                    {"expr": count, "eval_time": "29m", "exp_samples": firing},
                    {"expr": others, "eval_time": "29m", "exp_samples": []},
                ],
            }
            for values, firing in ((fault.well, []), (fault.ill, one))
        ],
    }


def test_each_alert_has_a_fault_and_a_runbook() -> None:
    assert [rule["alert"] for rule in RULES] == [fault.alert for fault in FAULTS]
    page = (CHECKOUT / "docs" / "reference" / "alerts.md").read_text()
    assert re.findall(r"^## (\w+)$", page, re.MULTILINE) == [rule["alert"] for rule in RULES]
    for rule in RULES:
        assert rule["annotations"]["runbook"] == f"docs/reference/alerts.md#{rule['alert'].lower()}"


def test_the_metrics_of_the_alerts_are_those_of_a_running_extender(cluster: ControlPlane, tmp_path: Path) -> None:
    """That of the Service has TLS, and so its metrics."""
    with Pair(SERVICE, cluster, tmp_path) as pair:
        text = httpx.get(f"{pair.admin_url}/metrics", trust_env=False).text
    told = set(re.findall(r"^# TYPE (\w+) ", text, re.MULTILINE))
    named = {name for rule in RULES for name in re.findall(r"kwx_\w+", rule["expr"])}
    assert named <= told
