"""The ledger, as the admin API shows it."""

from __future__ import annotations

import asyncio
from datetime import datetime, timedelta, timezone
from types import SimpleNamespace
from typing import Any

import httpx
import pytest
from fastapi import FastAPI

from extender.admin.api.ledger import router
from extender.scheduling.ledger import PLAN_S, Ledger
from tests.extender.objects import pod
from wasm_runtime.nodes.node_table import NodeTable
from wasm_runtime.protobuf.encode import encode_pod


def shown(name: str, node: str, state: str, expires: Any = None) -> dict[str, Any]:
    return {
        "namespace": "default",
        "name": name,
        "uid": f"uid-of-{name}",
        "node": node,
        "state": state,
        "expirationTime": expires,
    }


class Page:
    """A ledger, and what the API shows of it."""

    def __init__(self, *, with_cluster: bool = True) -> None:
        self.nodes = NodeTable()
        self.ledger = Ledger(self.nodes.pods, lambda: 0.0)
        app = FastAPI()
        app.include_router(router)
        app.state.context = SimpleNamespace(ledger=self.ledger if with_cluster else None)
        self._transport = httpx.ASGITransport(app)

    def plan(self, name: str, node: str) -> None:
        """Expects a pod on a node."""
        assert self.ledger.plan(f"uid-of-{name}", node, encode_pod(pod(name)), self.ledger.position)

    def pods(self, **query: str) -> Any:
        """The pods of the first page, which is all."""
        answer = self.answer(**query)
        assert answer["metadata"] == {"continue": ""}
        return answer["items"]

    def answer(self, **query: str) -> Any:
        """The answer, whatever its status."""

        async def ask() -> Any:
            async with httpx.AsyncClient(transport=self._transport, base_url="http://admin") as client:
                return (await client.get("/ledger", params=query)).json()

        return asyncio.run(ask())


@pytest.fixture
def page() -> Page:
    page = Page()
    for name, node in (("web-2", "node-2"), ("web-1", "node-2"), ("web-3", "node-1")):
        page.plan(name, node)
    assert page.ledger.claim("uid-of-web-1", "node-2", 10.0)
    page.ledger.confirm("uid-of-web-1", "node-2")
    page.ledger.observe("uid-of-web-3", "node-1", encode_pod(pod("web-3")))
    return page


def test_pods_are_shown_node_by_node(page: Page) -> None:
    before = datetime.now(timezone.utc).replace(microsecond=0)
    told = page.pods()
    expires = told[2]["expirationTime"]
    assert told == [
        shown("web-3", "node-1", "observed"),
        shown("web-1", "node-2", "confirmed"),
        shown("web-2", "node-2", "tentative", expires),
    ]
    assert before < datetime.fromisoformat(expires.replace("Z", "+00:00")) <= before + timedelta(seconds=PLAN_S + 1)


def test_those_of_a_node_or_a_state_can_be_asked_for(page: Page) -> None:
    assert [pod["name"] for pod in page.pods(node="node-2")] == ["web-1", "web-2"]
    assert [pod["name"] for pod in page.pods(state="observed")] == ["web-3"]
    assert page.pods(node="node-1", state="confirmed") == []


def test_those_of_a_namespace_can_be_asked_for(page: Page) -> None:
    other = pod("other")
    other["metadata"]["namespace"] = "batch"
    page.ledger.observe("uid-of-other", "node-1", encode_pod(other))
    assert [pod["name"] for pod in page.pods(namespace="batch")] == ["other"]
    assert [pod["name"] for pod in page.pods(namespace="default", node="node-1")] == ["web-3"]


def test_pages_go_on_where_the_one_before_has_ended(page: Page) -> None:
    """Also when its last pod is gone by then."""
    first = page.answer(limit="1")
    assert [pod["name"] for pod in first["items"]] == ["web-3"]
    page.ledger.delete("uid-of-web-3")
    page.plan("web-0", "node-0")
    second = page.answer(limit="1", **first["metadata"])
    assert [pod["name"] for pod in second["items"]] == ["web-1"]
    last = page.answer(limit="1", **second["metadata"])
    assert ([pod["name"] for pod in last["items"]], last["metadata"]) == (["web-2"], {"continue": ""})
    assert [pod["name"] for pod in page.pods()] == ["web-0", "web-1", "web-2"]


def test_there_is_none_without_a_cluster() -> None:
    assert Page(with_cluster=False).pods() == []


def test_a_state_that_there_is_not_is_refused(page: Page) -> None:
    (problem,) = page.answer(state="lost")["detail"]
    assert (
        problem["msg"] == "Input should be 'tentative', 'binding', 'unconfirmed', 'retained', 'confirmed' or 'observed'"
    )
