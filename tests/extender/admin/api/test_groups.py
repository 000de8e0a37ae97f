"""Groups of pods, as the admin API shows them."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import httpx
import pytest
from fastapi import FastAPI

from extender.admin.api import paging
from extender.admin.api.groups import router
from extender.cluster import GroupObject
from extender.scheduling.group_claim import LABEL, MINIMUM
from extender.scheduling.groups import Groups
from extender.scheduling.ledger import Ledger
from tests.extender.objects import pod
from wasm_runtime.abi import GroupSource
from wasm_runtime.nodes.node_table import NodeTable
from wasm_runtime.pods.group_table import GroupKey
from wasm_runtime.protobuf.encode import encode_pod


def member(name: str, **labels: str) -> bytes:
    """A pod of the group `train`."""
    made = pod(name)
    made["metadata"]["labels"] = {LABEL: "train"} | labels
    return encode_pod(made)


def shown(name: str, state: str, node: str = "") -> dict[str, Any]:
    return {"name": name, "uid": f"uid-of-{name}", "state": state, "node": node}


BY_LABEL: dict[str, Any] = {
    "namespace": "default",
    "name": "train",
    "namedBy": "label",
    "hasObject": True,
    "minimum": 4,
    "timeoutSeconds": 60,
    "priority": 0,
    "creationTime": "2023-11-14T22:13:20Z",
    "message": f"{MINIMUM} of a pod is 'half'; make it a whole number from 1 to 2147483647",
    "pods": [
        shown("web-1", "tentative", "node-1"),
        shown("web-2", "pending"),
        shown("web-3", "bound", "node-2"),
        shown("web-4", "binding", "node-1"),
    ],
}
BY_FIELD: dict[str, Any] = {
    "namespace": "ml",
    "name": "train",
    "namedBy": "schedulingGroup",
    "hasObject": True,
    "minimum": None,
    "timeoutSeconds": None,
    "priority": 7,
    "creationTime": None,
    "message": "why",
    "pods": [],
}


class Page:
    """Groups, and what the API shows of them."""

    def __init__(self, groups: Groups | None, node_table: NodeTable | None = None) -> None:
        self._node_table = node_table  # It is to live as long as its pods.
        self.known = groups
        app = FastAPI()
        app.include_router(router)
        app.state.context = SimpleNamespace(groups=groups)
        self._transport = httpx.ASGITransport(app)

    def groups(self, **query: str) -> Any:
        """The groups of the first page, which is all."""
        answer = self.answer(**query)
        assert answer["metadata"] == {"continue": ""}
        return answer["items"]

    def answer(self, **query: str) -> Any:
        """The answer."""

        async def ask() -> Any:
            async with httpx.AsyncClient(transport=self._transport, base_url="http://admin") as client:
                return (await client.get("/groups", params=query)).json()

        return asyncio.run(ask())


@pytest.fixture
def page() -> Page:
    node_table = NodeTable()
    groups = Groups(node_table.pods)
    groups.follow()
    ledger = Ledger(groups, lambda: 0.0)
    assert ledger.plan("uid-of-web-1", "node-1", member("web-1"), ledger.position)
    assert ledger.plan("uid-of-web-4", "node-1", member("web-4"), ledger.position)
    assert ledger.claim("uid-of-web-4", "node-1", 5.0)
    ledger.observe("uid-of-web-2", "", member("web-2", **{MINIMUM: "half"}))
    ledger.observe("uid-of-web-3", "node-2", member("web-3"))
    groups.put_object(GroupKey(GroupSource.LABEL, "default", "train"), GroupObject(4, 60, created=1_700_000_000))
    groups.put_object(GroupKey(GroupSource.SCHEDULING_GROUP, "ml", "train"), GroupObject(0, 0, 7, problem="why"))
    return Page(groups, node_table)


def test_groups_are_shown_with_their_pods(page: Page) -> None:
    assert page.groups() == [BY_LABEL, BY_FIELD]


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ({"namespace": "ml"}, [BY_FIELD]),
        ({"name": "train", "namespace": "default"}, [BY_LABEL]),
        ({"name": "other"}, []),
    ],
)
def test_some_can_be_asked_for(page: Page, query: dict[str, str], expected: list[Any]) -> None:
    assert page.groups(**query) == expected


def test_groups_come_in_pages(page: Page) -> None:
    first = page.answer(limit="1")
    assert first["items"] == [BY_LABEL]
    assert page.groups(**first["metadata"]) == [BY_FIELD]


def test_a_page_has_so_many_pods_or_one_group(page: Page, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(paging, "MAX_ROWS", 3)
    assert page.known
    page.known.put_object(GroupKey(GroupSource.LABEL, "batch", "none"), GroupObject(2, 0))
    first = page.answer()
    assert [group["name"] for group in first["items"]] == ["none"]
    second = page.answer(**first["metadata"])
    assert second["items"] == [BY_LABEL]
    assert page.groups(**second["metadata"]) == [BY_FIELD]


def test_without_a_cluster_there_are_none() -> None:
    assert Page(None).groups() == []
