"""Faults that are planted one by one, and what docs/troubleshooting.md says that shows of them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from bench.peers.apiserver import api_server
from tests.certificates import DAY, SERVER, Authority
from tests.extender import guests
from tests.extender.commands.command import Command
from tests.extender.commands.doctor.setup import ENTRY, SCHEDULER
from tests.extender.kwx import Extender, plugin, profile
from tests.extender.objects import NODE_NAMES, names_args, node, nodes_args, pod
from tests.extender.troubleshooting.page import check

WISH = "kwx.dev/accelerator"
HOSTILE = "\x1b[2J\u202e<img src=x onerror=alert(1)>"


@pytest.fixture
def nowhere(tmp_path: Path) -> str:
    """The option for a cluster that is not there."""
    return f"--kubeconfig={tmp_path / 'none'}"


@contextmanager
def asked(folder: Path, guest: str, settings: str = "", **more: Any) -> Iterator[Extender]:
    """An extender whose plugin `spread` is a guest of the tests, after a pod was asked about."""
    (folder / "spread.wasm").write_bytes(guests.module(guest))
    plugins = plugin("spread", settings, **more), plugin("nodenumber")
    with Extender(folder, profile("default", *plugins)) as extender:
        extender.post("/filter", names_args(NODE_NAMES, pod()))
        yield extender


def test_a_policy_rejects_every_node(command: Command, tmp_path: Path) -> None:
    nodes = [node(name, labels={WISH: "h100"} if at < 4 else {}) for at, name in enumerate(NODE_NAMES)]
    with Extender(tmp_path, profile("default", plugin("accelerator"))) as extender:
        extender.post("/filter", nodes_args(nodes, pod(annotations={WISH: "H100"})))
        check("A policy rejects every node", command, extender.admin_url, tmp_path)


def test_a_plugin_traps(command: Command, tmp_path: Path) -> None:
    with asked(tmp_path, "trap") as extender:
        check("A plugin traps", command, extender.admin_url, tmp_path)


def test_a_plugin_that_may_fail_traps(command: Command, tmp_path: Path) -> None:
    with asked(tmp_path, "trap", failurePolicy="Ignore") as extender:
        check("A plugin traps and is ignored", command, extender.admin_url, tmp_path)


def test_a_plugin_takes_too_long(command: Command, tmp_path: Path) -> None:
    with asked(tmp_path, "spin", timeout="50ms") as extender:
        check("A plugin takes too long", command, extender.admin_url, tmp_path)


def test_a_reason_holds_hostile_text(command: Command, tmp_path: Path) -> None:
    with asked(tmp_path, "filter_by_digit", f"72{HOSTILE}") as extender:
        check("A reason holds markup and control characters", command, extender.admin_url, tmp_path)


def test_the_source_gives_a_module_that_fails(command: Command, tmp_path: Path) -> None:
    with asked(tmp_path, "score_by_digit") as extender:
        replacement = tmp_path / "new.wasm"
        replacement.write_bytes(guests.module("trap"))
        replacement.rename(tmp_path / "spread.wasm")
        check("The source gives a module that fails", command, extender.admin_url, tmp_path)


def test_kube_scheduler_gives_up_too_early(command: Command, tmp_path: Path, nowhere: str) -> None:
    entry = {**ENTRY, "bindVerb": None, "nodeCacheCapable": False, "httpTimeout": "500ms"}
    (tmp_path / "scheduler.yaml").write_text(yaml.safe_dump({**SCHEDULER, "extenders": [entry]}))
    plugins = profile("kwx-scheduler", plugin("accelerator"), plugin("nodenumber"))
    with Extender(tmp_path, plugins) as extender:
        check("kube-scheduler gives up too early", command, extender.admin_url, tmp_path, nowhere)


def test_a_certificate_has_expired(command: Command, tmp_path: Path, nowhere: str) -> None:
    ca = Authority(tmp_path)
    old = ca.issue("server", "server", sans=["IP:127.0.0.1"], usage=SERVER, begins=-3 * DAY, ends=-DAY)
    server = {"tls": {"certFile": str(old.cert), "keyFile": str(old.key)}}
    with Extender(tmp_path, profile("default", plugin("nodenumber")), server=server) as extender:
        check("A certificate has expired", command, extender.admin_url, tmp_path, nowhere)


def test_the_api_server_is_away(command: Command, tmp_path: Path) -> None:
    with ExitStack() as servers:
        cluster = servers.enter_context(api_server(nodes=10))
        section = {"mode": "kubeconfig", "kubeconfig": str(cluster.write_kubeconfig(tmp_path)), "staleAfter": "1s"}
        with Extender(tmp_path, profile("default", plugin("accelerator")), cluster=section) as extender:
            extender.wait_until(lambda: extender.admin.get("/readyz").is_success)
            servers.close()
            check("The API server is away", command, extender.admin_url, tmp_path)
