"""How `kwx serve` starts, logs and ends."""

from __future__ import annotations

import json
import platform
import resource
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from bench.controlplane.ports import free_port
from extender.config import Address
from extender.serve import process, servers
from extender.webhook.router import MIN_JUDGING_THREADS
from tests.extender import kwx
from tests.extender.kwx import Extender, failure, plugin, profile
from tests.extender.objects import filter_error, filtered, names_args, pod
from tests.extender.raw import Connection, request
from tests.extender.telemetry.test_metrics import counts
from tests.patience import PATIENCE_S, Beside, delay, wait_until
from wasm_runtime.engine import MEBIBYTE

HEAP = 64 * MEBIBYTE

SPINNING = profile("default", plugin("spin", timeout="1s"))
INTERRUPTED = filter_error(
    failure(
        plugin("spin"),
        "filter of node node-0: interrupted at its timeout of 1000 ms; mend the guest, or raise the plugin's timeout",
    )
)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_what_is_in_flight_is_answered_before_the_end(tmp_path: Path, number: signal.Signals) -> None:
    with Extender(tmp_path, SPINNING) as extender:
        asking = Beside(lambda: extender.post("/filter", names_args()))
        extender.wait_until(lambda: counts(extender, "kwx_verb_phase_seconds").get(("filter", "decode")) == 1)
        extender.process.send_signal(number)
        assert asking.end() == INTERRUPTED
        assert extender.process.wait(PATIENCE_S) == 0
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(extender.address, timeout=5)


def test_requests_that_wait_behind_a_slow_one_are_answered_before_the_end(tmp_path: Path) -> None:
    with Extender(tmp_path, SPINNING, profile("quick", plugin("nodenumber"))) as extender:
        body = json.dumps(names_args()).encode()
        with Connection(extender.address) as slow, Connection(extender.address) as waiting:
            slow.send(request("/filter", body))
            waiting.send(request("/profiles/quick/filter", body))
            extender.wait_until(lambda: counts(extender, "kwx_verb_phase_seconds").get(("filter", "decode")) == 2)
            extender.process.send_signal(signal.SIGTERM)
            assert json.loads(slow.read().body) == INTERRUPTED
            assert json.loads(waiting.read().body)["Error"] == ""
        assert extender.process.wait(PATIENCE_S) == 0


def test_as_many_files_may_be_open_as_the_system_allows(tmp_path: Path) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(soft, 200), hard))
    try:
        extender = Extender(tmp_path, SPINNING)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    with extender:
        assert resource.prlimit(extender.process.pid, resource.RLIMIT_NOFILE) == (hard, hard)


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="no malloc of glibc: run the tests on a Linux with it")
def test_threads_share_the_heaps_of_malloc(tmp_path: Path) -> None:
    """Each of those that serve had one of its own, which kept what it had once given."""
    with Extender(tmp_path, SPINNING) as extender:
        asking = [Beside(lambda: extender.post("/filter", names_args())) for _ in range(MIN_JUDGING_THREADS)]
        assert [each.end() for each in asking] == [INTERRUPTED] * MIN_JUDGING_THREADS
        threads = len(list(Path(f"/proc/{extender.process.pid}/task").iterdir()))
        assert threads > MIN_JUDGING_THREADS
        assert heaps(extender.process.pid) < process.MAX_ARENAS


def heaps(pid: int) -> int:
    """How many heaps of malloc a process has besides the first: each uses the front of 64 MiB of addresses."""
    parts: list[tuple[int, int, str]] = []
    for line in Path(f"/proc/{pid}/maps").read_text().splitlines():
        addresses, access = line.split()[:2]
        start, end = (int(each, 16) for each in addresses.split("-"))
        parts.append((start, end, access))
    return sum(
        start % HEAP == 0 and access == "rw-p" and reserved == "---p" and (first, last) == (end, start + HEAP)
        for (start, end, access), (first, last, reserved) in pairwise(parts)
    )


@pytest.mark.parametrize(
    ("descriptors", "verbs", "admin"), [(1_048_576, 2_048, 128), (1_024, 597, 128), (256, 85, 42), (64, 21, 10)]
)
def test_clients_leave_descriptors_to_the_extender(
    monkeypatch: pytest.MonkeyPatch, descriptors: int, verbs: int, admin: int
) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _: (descriptors, descriptors))
    assert servers.max_connections(servers.MAX_CONNECTIONS, servers.VERBS_SHARE) == verbs
    assert servers.max_connections(servers.MAX_ADMIN_CONNECTIONS, servers.ADMIN_SHARE) == admin


def test_idle_connections_do_not_hold_up_the_end(tmp_path: Path) -> None:
    with (
        Extender(tmp_path, profile("default", plugin("nodenumber"))) as extender,
        Connection(extender.address) as connection,
        Connection(extender.address),
    ):
        connection.ask("/filter", json.dumps(names_args()).encode())
        extender.admin.get("/livez")
        assert extender.stop() == 0
        assert connection.is_closed
        assert [line["event"] for line in extender.log()] == ["serving"], "uvicorn says so when it has given up waiting"


def test_a_signal_while_modules_are_loaded_ends_the_process(tmp_path: Path) -> None:
    """Whenever it comes, there is no traceback, and nothing hangs."""
    for seconds in (0.5, 0.65):
        extender = Extender(tmp_path, profile("default", plugin("nodenumber")))
        delay(seconds)
        status = extender.stop()
        log = (tmp_path / "extender.log").read_text()
        assert status in {0, -signal.SIGTERM}
        assert "Traceback" not in log


IS_SIGNALLED = """
import signal, sys
from extender.commands import cli
from extender.serve.servers import VerbServer

run = VerbServer.run

def run_between_signals(self, **named):
    signal.raise_signal(number)
    print("before it serves", flush=True)
    run(self, **named)
    signal.raise_signal(number)
    print("after it served", flush=True)

VerbServer.run = run_between_signals
number = int(sys.argv.pop())
sys.argv = ["kwx", "serve", "--config", sys.argv[1]]
cli.main()
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_while_threads_run_ends_the_process_where_it_does_no_harm(
    tmp_path: Path, number: signal.Signals
) -> None:
    """An exception in the midst of an import leaves its lock to nobody, one in uvloop a loop that counts as running."""
    config = kwx.write(tmp_path, kwx.configuration(profile("default", plugin("nodenumber"))))
    ended = subprocess.run(
        [sys.executable, "-c", IS_SIGNALLED, config, str(int(number))],
        check=False,
        cwd=tmp_path,
        env=kwx.environment_of(tmp_path),
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
    )
    assert (ended.returncode, ended.stdout.splitlines()) == (0, ["before it serves", "after it served"]), ended.stderr
    assert "Traceback" not in ended.stderr


TELLS_WHERE_IT_LISTENS = """
import sys
from extender.commands import cli

sys.addaudithook(lambda event, args: event == "socket.bind" and print(args[1][1], flush=True))
sys.argv = ["kwx", "serve", "--config", sys.argv[1]]
cli.main()
"""


def test_who_finds_the_verbs_finds_the_admin_address_too(tmp_path: Path) -> None:
    """Whoever waits for the one port may ask the other at once."""
    verbs, admin = free_port(), free_port()
    server = {"address": f"127.0.0.1:{verbs}", "adminAddress": f"127.0.0.1:{admin}"}
    config = kwx.write(tmp_path, kwx.configuration(profile("default", plugin("nodenumber")), server=server))
    with subprocess.Popen(
        [sys.executable, "-c", TELLS_WHERE_IT_LISTENS, config],
        cwd=tmp_path,
        env=kwx.environment_of(tmp_path),
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    ) as running:
        try:
            assert running.stdout
            assert [int(Beside(running.stdout.readline).end()) for _ in range(2)] == [admin, verbs]
        finally:
            running.kill()


HANGS = """
import sys, threading
from extender.commands import cli
from extender.serve import process

def is_stuck():
    threading.Event().wait()

process.EXIT_TIMEOUT_S = 1.0
threading.Thread(target=is_stuck).start()
sys.argv = ["kwx", "serve", "--config", sys.argv[1]]
cli.main()
"""


def test_a_thread_that_hangs_does_not_hold_up_the_end_and_is_told(tmp_path: Path) -> None:
    """As one does that starts another when no memory is left: Python waits for it without bound."""
    config = kwx.write(tmp_path, kwx.configuration(profile("default", plugin("nodenumber"))))
    log = tmp_path / "extender.log"
    with log.open("wb") as output:
        running = subprocess.Popen(
            [sys.executable, "-c", HANGS, config],
            cwd=tmp_path,
            env=kwx.environment_of(tmp_path),
            stdout=output,
            stderr=output,
        )
    try:
        wait_until(lambda: '"serving"' in log.read_text(), log.read_text)
        running.terminate()
        assert running.wait(PATIENCE_S) == 1
    finally:
        running.kill()
    assert "in is_stuck" in log.read_text()


@pytest.mark.parametrize("number", [signal.SIGABRT, signal.SIGSEGV])
def test_a_crash_is_told_with_where_each_thread_was(tmp_path: Path, number: signal.Signals) -> None:
    """The engine looks at the one of them first, since guests trap by it."""
    extender = Extender(tmp_path, profile("default", plugin("nodenumber")))
    try:
        extender.wait_until(lambda: extender.events("serving"))
        extender.process.send_signal(number)
        assert extender.process.wait(PATIENCE_S) == -number
    finally:
        extender.process.kill()
        extender.process.wait(PATIENCE_S)
    log = (tmp_path / "extender.log").read_text()
    assert all(told in log for told in ("\nFatal Python error: ", " in _serve\n", "/supervision.py"))


@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
def test_small_answers_are_sent_at_once(host: str) -> None:
    """Else one of two packets waits for the client's acknowledgement of the first, some 40 ms."""
    with (
        servers.listen(Path("extender.yaml"), "server.address", Address(host, 0)) as listener,
        socket.create_connection(listener.getsockname()[:2]),
    ):
        connection, _ = listener.accept()
        with connection:
            assert connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


# -- the log ---------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def talking(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Extender]:
    severities = [profile(f"severity-{least}", plugin("talk", logSeverity=least)) for least in range(4)]
    with Extender(tmp_path_factory.mktemp("log"), *severities) as extender:
        yield extender


def said(extender: Extender, the_pod: str) -> list[dict[str, Any]]:
    """The lines about a pod, without their times, when the pod was filtered."""
    lines = [line for line in extender.log() if line.get("pod") == f"default/{the_pod}"]
    return [{key: value for key, value in line.items() if key != "timestamp"} for line in lines]


def guest_line(level: str, event: str, the_pod: str, guest: dict[str, str], **more: str) -> dict[str, Any]:
    fields = {"plugin": "talk", "pod": f"default/{the_pod}", "guest": guest, **more}
    return {"level": level, "logger": "extender.scheduling.guest_log", "event": event, **fields}


def test_what_a_guest_logs_is_logged_with_plugin_pod_and_node(talking: Extender) -> None:
    names = ["node-0", "node-1"]
    assert talking.post("/profiles/severity-0/filter", names_args(names, pod("chatty"))) == filtered(names)
    assert said(talking, "chatty") == [
        guest_line("info", '100% of "racks"\nare full', "chatty", {}),
        guest_line("warning", "rack is full", "chatty", {"rack": "r7", "free": "0"}),
        guest_line("error", "rack is full", "chatty", {}),
        guest_line("critical", "rack is full", "chatty", {}),
        guest_line("info", "is fine", "chatty", {}, node="node-0"),
        guest_line("info", "is fine", "chatty", {}, node="node-1"),
    ]


def test_an_event_is_a_line_of_the_log_where_there_is_no_cluster(talking: Extender) -> None:
    before = len(talking.events("an Event was recorded"))
    talking.post("/profiles/severity-3/filter", names_args(["node-0"], pod("eventful")))
    (line,) = talking.events("an Event was recorded")[before:]
    assert {key: value for key, value in line.items() if key != "timestamp"} == {
        "event": "an Event was recorded",
        "level": "warning",
        "logger": "extender.cluster.events.event",
        "regarding": "Node node-7",
        "type": "Warning",
        "reason": "Full",
        "note": "rack r7",
    }


@pytest.mark.parametrize(
    ("least", "levels"),
    [
        (0, ["info", "warning", "error", "critical", "info"]),
        (1, ["warning", "error", "critical"]),
        (2, ["error", "critical"]),
        (3, ["critical"]),
    ],
)
def test_lines_below_the_least_severity_are_left_out(talking: Extender, least: int, levels: list[str]) -> None:
    name = f"severe-{least}"
    talking.post(f"/profiles/severity-{least}/filter", names_args(["node-0"], pod(name)))
    assert [line["level"] for line in said(talking, name)] == levels


def test_every_line_is_json_with_time_level_logger_and_event(talking: Extender) -> None:
    talking.client.post("/filter", content=b"{")
    lines = talking.log()
    assert lines[0].keys() == {"event", "level", "logger", "timestamp", "verbs", "admin", "cluster"}
    assert (lines[0]["event"], lines[0]["cluster"]) == ("serving", "none")
    for line in lines:
        assert line.keys() >= {"event", "level", "logger", "timestamp"}
        assert line["timestamp"].endswith("Z")


def test_requests_are_not_logged(talking: Extender) -> None:
    before = talking.log()
    for path in ("/profiles/severity-3/prioritize", "/nope"):
        talking.client.post(path, content=json.dumps(names_args(["node-0"])).encode())
    talking.client.post("/filter", content=b"{")
    assert talking.log() == before
