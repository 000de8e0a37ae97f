from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import NamedTuple

import httpx
import pytest
import yaml

from extender.commands.demo import server
from extender.commands.demo.server import demo_server
from tests.extender.kwx import KWX, environment_of, run
from tests.patience import PATIENCE_S, wait_until

DEFAULT_PORTS = (8888, 8889)
VERDICTS = {
    "node-3": ("", 10, 0),
    "node-5": ("", 0, 10),
    "node-6": ("node label kwx.dev/accelerator is a100, pod wants h100", None, None),
    "node-7": ("node label kwx.dev/accelerator is a100, pod wants h100", None, None),
    "node-8": ("node label kwx.dev/accelerator is a100, pod wants h100", None, None),
    "node-9": ("node has no label kwx.dev/accelerator=h100", None, None),
    "node-0": ("", 0, 10),
    "node-2": ("", 0, 10),
    "node-4": ("", 0, 10),
    "node-1": ("", 0, 10),
}
"""Reason of a rejection, score, and score after the swap of each node, for pod train-3."""

GPU_VERDICTS: dict[str, tuple[str, dict[str, int | str]]] = {
    "half a GPU": ("gpu-2", {"gpu-1": 40, "gpu-2": 68, "gpu-3": 3}),
    "2 GPUs": ("gpu-1", {"gpu-1": 100, "gpu-2": 56, "gpu-3": 25}),
    "8 GPUs": (
        "gpu-3",
        {"gpu-1": "Insufficient nvidia.com/gpu", "gpu-2": "Insufficient nvidia.com/gpu", "gpu-3": 100},
    ),
}
"""By what a pod asks for: the node that wins, and the score of each node or the reason against it."""


class Runs(NamedTuple):
    """What `kwx run --once` printed, in a home directory of its own each."""

    home: Path
    as_json: subprocess.CompletedProcess[str]
    as_table: subprocess.CompletedProcess[str]


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Runs:
    """Both kinds of output, while the default ports are taken by us or by somebody else."""
    home = tmp_path_factory.mktemp("home")
    proxies = dict.fromkeys(("http_proxy", "HTTP_PROXY", "all_proxy"), "http://127.0.0.1:1")
    with ExitStack() as stack:
        for port in DEFAULT_PORTS:
            with suppress(OSError):
                stack.enter_context(socket.create_server(("127.0.0.1", port)))
        as_json = run("run", "--once", "--output", "json", home=home, **proxies)
        return Runs(home, as_json, run("run", "--once", home=home, COLUMNS="160"))


def test_json_is_the_whole_output_and_tells_what_the_cycle_and_the_swap_have_shown(runs: Runs) -> None:
    result = runs.as_json
    assert result.returncode == 0, result.stderr
    report = json.loads(result.stdout)
    assert list(report) == ["verbs_url", "admin_url", "cycle", "swap", "gpus", "scheduler_config"]

    ports = [httpx.URL(report[name]).port for name in ("verbs_url", "admin_url")]
    assert len({*ports, *DEFAULT_PORTS}) == 4
    for port in ports:
        assert port
        assert not _listens(port)

    verbs = report["cycle"]["verbs"]
    assert [(verb["verb"], verb["pod"]) for verb in verbs] == [
        ("filter", "train-3"),
        ("prioritize", "train-3"),
        ("preempt", "urgent-5"),
        ("bind", "train-3"),
    ]
    assert all(verb[key] > 0 for verb in verbs for key in ("first_ms", "p50_ms"))
    passing = [name for name, (reason, _, _) in VERDICTS.items() if not reason]
    assert report["cycle"]["nodes"] == [
        {
            "node": name,
            "passes": name in passing,
            "reason": reason,
            "score": score,
            "preemption": name in passing,
            "bound": name == "node-3",
        }
        for name, (reason, score, _) in VERDICTS.items()
    ]

    swap = report["swap"]
    assert (swap["failed"], swap["requests"] > 0, swap["seconds"] > 0) == (0, True, True)
    assert swap["before"] == {name: VERDICTS[name][1] for name in passing}
    assert swap["after"] == {name: VERDICTS[name][2] for name in passing}

    assert report["gpus"]["used"] == {
        "gpu-1": [1.0] * 6 + [0.0] * 2,
        "gpu-2": [0.5, 1.0, 1.0] + [0.0] * 5,
        "gpu-3": [0.0] * 8,
    }
    decisions = {each["asks"]: each["nodes"] for each in report["gpus"]["decisions"]}
    assert decisions == {
        asks: [
            {"node": node, "reason": "", "score": said, "wins": node == winner}
            if isinstance(said, int)
            else {"node": node, "reason": said, "score": None, "wins": False}
            for node, said in verdicts.items()
        ]
        for asks, (winner, verdicts) in GPU_VERDICTS.items()
    }

    (extender,) = yaml.safe_load(report["scheduler_config"])["extenders"]
    assert extender == {
        "urlPrefix": report["verbs_url"],
        "filterVerb": "filter",
        "prioritizeVerb": "prioritize",
        "preemptVerb": "preempt",
        "weight": 1,
        "nodeCacheCapable": False,
        "httpTimeout": "5s",
        "ignorable": False,
    }
    assert list(runs.home.iterdir()) == []


def test_the_table_shows_the_same_to_people(runs: Runs) -> None:
    result = runs.as_table
    assert result.returncode == 0, result.stderr
    lines = result.stdout.replace(" ←", "").splitlines()
    for name, (reason, score, after) in VERDICTS.items():
        verdict = "rejected" if reason else "passes"
        numbers = [str(value) for value in (score, after) if value is not None]
        row = [verdict, *numbers, "" if reason else "candidate", reason]
        assert [line.split()[1:] for line in lines if line.startswith(name)] == [" ".join(row).split()]
    assert re.search(
        r"Hot swap: \d+ requests flowed, 0 failed; the new module answered \d+\.\d\d s after", result.stdout
    )
    assert [line.split(maxsplit=4) for line in result.stdout.splitlines() if line.startswith("half a GPU")] == [
        ["half", "a", "GPU", "gpu-1", "■■■■■■□□  passes              40"]
    ]
    assert re.search(
        r"^ +gpu-2 ← +◧■■□□□□□ +passes +68  the share fits on a GPU that is shared already", result.stdout, re.MULTILINE
    )
    assert "kind: KubeSchedulerConfiguration\n" in result.stdout
    assert list(runs.home.iterdir()) == []


@pytest.mark.parametrize(("number", "status"), [(signal.SIGTERM, 143), (signal.SIGKILL, -9)], ids=["ended", "killed"])
def test_it_shows_what_it_has_then_stays_up_until_a_signal_and_leaves_nothing_behind(
    number: signal.Signals, status: int, tmp_path: Path
) -> None:
    shown, folder = tmp_path / "shown", tmp_path / "home"
    folder.mkdir()
    with shown.open("wb") as stdout:
        process = subprocess.Popen(
            [KWX, "run", "--output", "json"],
            stdout=stdout,
            stderr=subprocess.DEVNULL,
            cwd=folder,
            env=environment_of(folder),
            start_new_session=True,
        )
    try:
        wait_until(lambda: b"KubeSchedulerConfiguration" in shown.read_bytes(), shown.read_text)
        urls = re.findall(r"http://127.0.0.1:\d+", shown.read_text())
        verbs, admin = urls[:2]
        assert (
            httpx.get(f"{admin}/readyz?verbose", trust_env=False).text
            == "[+]plugins ok\n[+]threads ok\n[+]verbs ok\nreadyz check passed\n"
        )
        assert httpx.post(f"{verbs}/nope", trust_env=False).status_code == httpx.codes.NOT_FOUND
        process.send_signal(number)
        assert process.wait(PATIENCE_S) == status
        wait_until(lambda: not _listens(httpx.URL(verbs).port or 0), f"{verbs} is closed")
        wait_until(lambda: not list(folder.iterdir()), lambda: f"still there: {list(folder.iterdir())}")
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait(PATIENCE_S)


def test_two_that_begin_at_the_same_moment_have_an_extender_of_their_own_each(monkeypatch: pytest.MonkeyPatch) -> None:
    """Both have found the default ports free. The one that comes too late must not take the other's extender for its
    own."""
    with demo_server() as first, first.running():
        monkeypatch.setattr(server, "PORTS", (first.port, first.admin_port))
        monkeypatch.setattr(server, "_is_free", lambda _: True)
        with demo_server() as second, second.running() as process:
            assert process.poll() is None
            assert {second.port, second.admin_port}.isdisjoint((0, first.port, first.admin_port))
            for each in (first, second):
                answer = httpx.get(f"http://127.0.0.1:{each.admin_port}/readyz", trust_env=False)
                assert (answer.status_code, answer.text) == (200, "ok")


def _listens(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=5).close()
    except ConnectionRefusedError:
        return False
    return True
