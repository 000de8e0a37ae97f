"""A disk that hangs holds up what is written to it, and nobody else."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests.extender import versions
from tests.extender.kwx import Extender, client, plugin, profile
from tests.extender.objects import binding_args, meta_victims, names_args, preemption_args
from tests.extender.rollouts.state import held_disk
from tests.extender.rollouts.state.held_disk import DISK, Gate
from tests.extender.rollouts.test_swaps import put
from tests.patience import PATIENCE_S

TOKEN = "a-token-of-somebody"
SERVER = {"stateDirectory": f"{DISK}/state", "adminTokens": f"{DISK}/tokens"}
CLUSTER = {"mode": "dry-run"}
PROFILES = [profile("default", plugin("plugin"), scoreRange=100), profile("other", plugin("other"), scoreRange=100)]
READERS = 50
"""Who ask for the history: more than there are threads for requests."""


class OnHeldDisk(Extender):
    """`kwx serve` whose state and tokens are on a disk that can be held."""

    @property
    def program(self) -> Sequence[str]:
        return [sys.executable, str(Path(held_disk.__file__)), str(self.folder)]

    def __enter__(self) -> OnHeldDisk:
        super().__enter__()
        self.admin.headers["Authorization"] = f"Bearer {TOKEN}"
        return self

    def score(self) -> int:
        (only,) = self.post("/prioritize", names_args(["node-7"]))
        return int(only["Score"])

    def upload(self, name: str, wasm: bytes, **params: str) -> dict[str, Any]:
        answer = self.admin.put(
            f"/api/v1/plugins/{name}/module",
            params=params,
            content=wasm,
            headers={"Content-Type": "application/wasm"},
        )
        return dict(answer.raise_for_status().json())


@pytest.fixture
def extender(tmp_path: Path) -> Iterator[OnHeldDisk]:
    (tmp_path / DISK).mkdir()
    (tmp_path / DISK / "tokens").write_text(f"{TOKEN},ann,write\n")
    (tmp_path / DISK / "tokens").chmod(0o600)
    for name in ("plugin", "other"):
        put(tmp_path / f"{name}.wasm", versions.module(10))
    with OnHeldDisk(tmp_path, *PROFILES, server=SERVER, cluster=CLUSTER) as extender:
        yield extender


def test_who_does_not_write_does_not_wait(extender: OnHeldDisk) -> None:
    gate = Gate(extender.folder)
    assert extender.upload("plugin", versions.module(20), wait="20s")["stage"] == "active"
    assert extender.score() == 20
    with ThreadPoolExecutor(READERS) as readers, client(extender.admin_url) as reader:
        reader.headers["Authorization"] = f"Bearer {TOKEN}"
        with gate.held():
            back = extender.admin.post("/api/v1/plugins/plugin/rollback").raise_for_status().json()
            extender.upload("other", versions.module(30))
            extender.wait_until(lambda: gate.is_waited_for)
            histories = [readers.submit(reader.get, "/api/v1/history") for _ in range(READERS)]
            extender.wait_until(
                lambda: extender.score() == 10
            )  # What is back serves; that this is so is yet unwritten.
            assert extender.admin.get("/livez").text == "ok"
            assert (
                extender.admin.get("/readyz?verbose").text
                == "[+]plugins ok\n[+]threads ok\n[+]verbs ok\n[+]tokens ok\nreadyz check passed\n"
            )
            plugins = extender.admin.get("/api/v1/plugins").json()
            assert [each["revision"]["origin"] for each in plugins] == [
                f"{extender.folder}/{each}.wasm" for each in ("plugin", "other")
            ]
            revisions = extender.admin.get("/api/v1/plugins/plugin/revisions").json()
            # What was replaced is retired a second later.
            assert [each["stage"] for each in revisions] in (["draining", "active"], ["retired", "active"])
            assert extender.admin.get(f"/api/v1/rollouts/{back['id']}").json()["stage"] == "active"
            assert "kwx_verb_phase_seconds" in extender.admin.get("/metrics").text
            extender.post("/filter", names_args())
            extender.post("/preempt", preemption_args({"node-7": meta_victims("uid-of-a")}))
            assert extender.post("/bind", binding_args()) == {"Error": ""}
            refused = reader.get("/api/v1/plugins", headers={"Authorization": "Bearer another-token-1"})
            assert refused.status_code == 401
            assert not any(history.done() for history in histories)
        assert all(history.result(20).json()[0]["requestedBy"] == "ann" for history in histories)
    extender.wait_until(
        lambda: extender.admin.get("/api/v1/plugins/other").json()["revision"]["origin"] == "upload by ann"
    )


def test_what_was_told_is_written(extender: OnHeldDisk) -> None:
    """Whoever waits for the end of a rollout is told of it when a restart would know of it."""
    gate = Gate(extender.folder)
    extender.upload("plugin", versions.module(20), wait="20s")
    with ThreadPoolExecutor(1) as thread, gate.held():
        waiting = thread.submit(extender.admin.post, "/api/v1/plugins/plugin/rollback?wait=20s")
        extender.wait_until(lambda: gate.is_waited_for and extender.score() == 10)
        assert not waiting.done()
        extender.kill()
        extender.process.wait(PATIENCE_S)
    with OnHeldDisk(extender.folder, *PROFILES, server=SERVER, cluster=CLUSTER) as again:
        assert again.score() == 20
