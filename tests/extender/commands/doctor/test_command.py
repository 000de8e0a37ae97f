"""The command, without a cluster."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from bench.controlplane.ports import LOOPBACK, free_port
from extender.commands.doctor.checks import CHECKS
from extender.commands.doctor.scheduler import SchedulerConfig, duration
from tests.certificates import SERVER, Authority
from tests.extender import kwx
from tests.extender.commands.command import Command
from tests.extender.kwx import plugin, profile

from .setup import ENTRY, SCHEDULER


@pytest.fixture
def alone(tmp_path: Path) -> list[str]:
    """Options that reach neither a cluster nor an extender."""
    return [f"--server=http://{LOOPBACK}:{free_port()}", f"--kubeconfig={tmp_path / 'none'}"]


def files(folder: Path, server: Mapping[str, Any] | None = None, **entry: Any) -> list[str | Path]:
    """Options that name an extender's configuration and one of kube-scheduler with other keys in its entry."""
    plugins = plugin("accelerator"), plugin("nodenumber")
    extender = kwx.configuration(
        profile("kwx-scheduler", *plugins), cluster={"mode": "in-cluster"}, server=server or {}
    )
    scheduler = folder / "scheduler.yaml"
    scheduler.write_text(
        yaml.safe_dump({**SCHEDULER, "extenders": [{**ENTRY, "bindVerb": None, "httpTimeout": "5s", **entry}]})
    )
    return ["--config", kwx.write(folder, extender), "--scheduler-config", scheduler]


TABLE = """\
Severity  Check        Finding
error     url-verb     extenders[0].filterVerb is 'predicates', which the extender answers with status 404
                       → write filterVerb: filter
warning   nodes-whole  extenders[0].nodeCacheCapable is not true: kube-scheduler sends whole nodes, of which the\
 extender needs the names alone
                       → set nodeCacheCapable to true

Not read                     Checks  Reason
kube-scheduler's version         25  there is no kubeconfig {kubeconfig}: name one by --kubeconfig
the API server's version
kube-scheduler's workload
the Service of urlPrefix
the extender's workload
nodes
the account's rights
the object that wakes pods
the API server's groups
Events about scheduled pods
pods without a node
the extender's /readyz            5  no extender answers at {server}: [Errno 111] Connection refused
the extender's metrics

{checks} checks: 1 error, 1 warning; 28 left out
"""


def test_two_files_are_compared_without_a_cluster(command: Command, tmp_path: Path, alone: list[str]) -> None:
    ended = command("doctor", *alone, *files(tmp_path, filterVerb="predicates", nodeCacheCapable=False))
    assert (ended.status, ended.stderr) == (1, "")
    server, kubeconfig = (option.partition("=")[2] for option in alone)
    assert ended.stdout == TABLE.format(server=server, kubeconfig=kubeconfig, checks=len(CHECKS))


def test_files_that_fit_have_status_0(command: Command, tmp_path: Path, alone: list[str]) -> None:
    ended = command("doctor", "--output=json", *alone, *files(tmp_path))
    assert (ended.status, ended.stderr) == (0, "")
    report = json.loads(ended.stdout)
    assert (report["checks"], report["findings"]) == (len(CHECKS), [])
    unread = {name: reason for each in report["leftOut"] for name, reason in each["unread"].items()}
    assert unread["nodes"] == f"there is no kubeconfig {tmp_path / 'none'}: name one by --kubeconfig"
    assert unread["the extender's metrics"].startswith("no extender answers at http://127.0.0.1:")


def test_the_certificate_of_a_configuration_is_looked_at(command: Command, tmp_path: Path, alone: list[str]) -> None:
    issued = Authority(tmp_path).issue("server", sans=["DNS:kwx.example", "IP:10.0.0.7"], usage=SERVER)
    tls = {"tls": {"certFile": issued.cert.name, "keyFile": issued.key.name}}
    given = files(tmp_path, tls, urlPrefix="https://127.0.0.1:8888", tlsConfig={"caFile": "/etc/kwx/ca.crt"})
    ended = command("doctor", "--output=json", *alone, *given)
    (finding,) = json.loads(ended.stdout)["findings"]
    assert (ended.status, finding["check"]) == (1, "tls-host")
    assert "the extender's certificate is for DNS:kwx.example, IP:10.0.0.7: kube-scheduler" in finding["message"]
    issued.key.unlink()
    ended = command("doctor", "--output=json", *alone, *given)
    report = json.loads(ended.stdout)
    assert (ended.status, report["findings"]) == (0, [])
    (left_out,) = [each["unread"] for each in report["leftOut"] if each["check"] == "tls-host"]
    assert left_out == {
        "the extender's certificate": f"keyFile: {issued.key} cannot be read: No such file or directory"
    }


def test_where_nothing_can_be_read_nothing_is_well(command: Command, alone: list[str]) -> None:
    ended = command("doctor", *alone)
    assert ended.status == 1
    assert ended.stdout.splitlines()[-1] == f"{len(CHECKS)} checks: nothing found; {len(CHECKS)} left out"


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        ("{", "it is no YAML: while parsing a flow node expected the node content, but found '<stream end>'"),
        ("[]", "it is no KubeSchedulerConfiguration"),
        ("kind: Pod", "it is no KubeSchedulerConfiguration"),
        (
            "{kind: KubeSchedulerConfiguration, extenders: [{weight: heavy}]}",
            "Expected `int`, got `str` - at `$.extenders[0].weight`",
        ),
        (
            "{kind: KubeSchedulerConfiguration, extenders: [{httpTimeout: 5 s}]}",
            "expected a duration such as 5s, found '5 s'",
        ),
        (
            "{kind: KubeSchedulerConfiguration, percentageOfNodesToScore: 101}",
            "Expected `int` <= 100 - at `$.percentageOfNodesToScore`",
        ),
        ("{kind: KubeSchedulerConfiguration, extenders: [{urlPrefix: 'http://[1'}]}", "Invalid IPv6 URL"),
    ],
)
def test_a_configuration_of_kube_scheduler_that_is_none_is_refused(
    command: Command, tmp_path: Path, alone: list[str], text: str, cause: str
) -> None:
    file = tmp_path / "scheduler.yaml"
    file.write_text(text)
    ended = command("doctor", *alone, "--scheduler-config", file)
    assert (ended.status, ended.stdout) == (1, "")
    assert ended.stderr.startswith(f"kwx: {file}: {cause}"), ended.stderr


def test_a_file_that_cannot_be_read_is_refused(command: Command, tmp_path: Path, alone: list[str]) -> None:
    ended = command("doctor", *alone, "--scheduler-config", tmp_path / "none.yaml")
    told = f"kwx: --scheduler-config: {tmp_path}/none.yaml cannot be read: No such file or directory\n"
    assert (ended.status, ended.stdout, ended.stderr) == (1, "", told)
    long = tmp_path / "long.yaml"
    long.write_bytes(b"#" * ((1 << 20) + 1))
    ended = command("doctor", *alone, "--scheduler-config", long)
    told = f"kwx: --scheduler-config: {long} has more than 1048576 bytes\n"
    assert (ended.status, ended.stdout, ended.stderr) == (1, "", told)


def test_a_hostile_configuration_moves_no_cursor(command: Command, tmp_path: Path, alone: list[str]) -> None:
    ended = command("doctor", *alone, *files(tmp_path, filterVerb="\x1b[2J<b>"))
    assert ended.status == 1
    assert "\x1b" not in ended.stdout


@pytest.mark.parametrize(
    ("text", "seconds"), [("0", 0), ("5s", 5), ("1m30s", 90), ("1.5s", 1.5), ("250ms", 0.25), ("1h0m0.5s", 3600.5)]
)
def test_durations_are_read_as_go_writes_them(text: str, seconds: float) -> None:
    assert duration(text) == pytest.approx(seconds)


@pytest.mark.parametrize("text", ["", "5", "s", "5 s", "-1s", "five"])
def test_other_durations_are_none(text: str) -> None:
    with pytest.raises(ValueError, match="expected a duration such as 5s"):
        duration(text)


@pytest.mark.parametrize(
    ("percentage", "nodes", "found"),
    [(None, 99, 99), (None, 100, 100), (None, 500, 230), (None, 5000, 500), (None, 10_000, 500), (100, 500, 500)],
)
def test_so_many_nodes_are_looked_for(percentage: int | None, nodes: int, found: int) -> None:
    """As numFeasibleNodesToFind has it."""
    scheduler = SchedulerConfig(percentage_of_nodes_to_score=percentage)
    assert scheduler.nodes_to_find(scheduler.profiles[0], nodes) == found
