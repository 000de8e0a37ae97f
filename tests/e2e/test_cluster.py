"""`make cluster` ends as a whole, and says why."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

import httpx
import psutil
import pytest

from tests.patience import PATIENCE_S, wait_until

START_TIMEOUT_S = 110.0
END_TIMEOUT_S = 60.0
CHECKOUT = Path(__file__).parents[2]
STARTING = "Starting etcd, kube-apiserver, kwok, the extender and kube-scheduler …"


class Cluster:
    """A `make cluster` that is up."""

    def __init__(self, folder: Path) -> None:
        self._out, self._err = folder / "out", folder / "err"
        with self._out.open("wb") as out, self._err.open("wb") as err:
            command = [sys.executable, "-m", "tests.e2e.cluster"]
            self._process = subprocess.Popen(command, cwd=CHECKOUT, stdout=out, stderr=err)
        wait_until(lambda: "Ctrl-C ends" in self._out.read_text(), self._err.read_text, START_TIMEOUT_S)
        self.parts = psutil.Process(self._process.pid).children()

    def guide(self) -> str:
        """What it says to do."""
        return self._out.read_text()

    def part(self, program: str) -> psutil.Process:
        """The part that runs a program."""
        (found,) = [part for part in self.parts if any(each.endswith(f"/{program}") for each in part.cmdline())]
        return found

    def send(self, number: signal.Signals) -> None:
        """Signals the command itself."""
        self._process.send_signal(number)

    def end(self) -> tuple[int, list[str]]:
        """Status, and what was written for people, when all has ended."""
        status = self._process.wait(END_TIMEOUT_S)
        _, alive = psutil.wait_procs(self.parts, timeout=END_TIMEOUT_S)
        assert not alive
        return status, self._err.read_text().splitlines()

    def kill(self) -> None:
        """Whatever is left of it, for the kernel ends the parts."""
        self._process.kill()
        self._process.wait(END_TIMEOUT_S)


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    cluster = Cluster(tmp_path)
    yield cluster
    cluster.kill()


@pytest.mark.parametrize(
    ("program", "name"),
    [
        ("kwx", "extender-1"),
        pytest.param("etcd", "etcd", marks=pytest.mark.nightly),
        pytest.param("kube-apiserver", "kube-apiserver", marks=pytest.mark.nightly),
        pytest.param("kwok", "kwok", marks=pytest.mark.nightly),
        pytest.param("kube-scheduler", "kube-scheduler-3", marks=pytest.mark.nightly),
    ],
)
def test_when_a_part_is_killed_all_ends_with_one_line(cluster: Cluster, program: str, name: str) -> None:
    cluster.part(program).kill()
    told = f"{name} ended with status -9; so everything else was ended, `make cluster` starts it again"
    assert cluster.end() == (1, [STARTING, told])


SAID = {
    "kubectl get pods -o wide": "node-3",
    "kubectl describe pod train-8": "FailedScheduling",
    "kwx explain pod default/train-3": "bound to node-3",
    "kwx explain pod default/train-8": "no node passed",
    "kwx plugin history nodenumber": "replaced, by start",
}
"""What commands of the guide print by and by."""


def test_what_it_says_to_do_can_be_done(cluster: Cluster) -> None:
    guide = cluster.guide()
    lines = [line.partition(" #")[0].strip() for line in guide.splitlines() if line.startswith("  ")]
    given = [line for line in lines if line.startswith(("export ", "alias "))]
    commands = [line for line in lines if line not in given]
    assert SAID.keys() <= set(commands)
    for command in commands:
        expected = SAID.get(command, "")
        wait_until(partial(does, given, command, expected), f"{command}: {expected}", interval_s=0.1)
    (dashboard,) = re.findall(r"The dashboard is at (\S+)", guide)
    assert "<h1>Plugins</h1>" in httpx.get(dashboard, follow_redirects=True, trust_env=False).text


def does(given: Sequence[str], command: str, expected: str) -> bool:
    """Whether a command succeeds and prints what is expected of it."""
    script = "\n".join(["shopt -s expand_aliases", *given, command])
    ended = subprocess.run(["bash", "-c", script], check=False, capture_output=True, text=True, timeout=PATIENCE_S)
    return ended.returncode == 0 and expected in ended.stdout


@pytest.mark.parametrize("number", [signal.SIGINT, pytest.param(signal.SIGHUP, marks=pytest.mark.nightly)])
def test_a_signal_ends_all_without_a_word(cluster: Cluster, number: signal.Signals) -> None:
    cluster.send(number)
    cluster.send(number)
    assert cluster.end() == (0, [STARTING])
