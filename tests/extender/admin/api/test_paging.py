"""Lists in pages, as a client of the admin API walks through them."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx
import pytest
from fastapi import FastAPI

from extender.admin.api.paging import MAX_ROWS, ListView, PagingDep, page

ROWS = [f"row-{number:04}" for number in range(2 * MAX_ROWS)]
"""Each is its own key."""


def answer(**query: str) -> httpx.Response:
    """A page of a list of names."""
    app = FastAPI()

    @app.get("/rows")
    def list_rows(paging: PagingDep) -> ListView[str]:
        return page(sorted(ROWS), lambda row: (row,), str, paging)

    async def ask() -> httpx.Response:
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://admin") as client:
            return await client.get("/rows", params=query)

    return asyncio.run(ask())


def walk(**query: str) -> list[list[str]]:
    """The rows of all pages."""
    pages: list[list[str]] = []
    metadata = {"continue": ""}
    while not pages or metadata["continue"]:
        told: Any = answer(**query, **metadata).json()
        metadata = told["metadata"]
        pages.append(told["items"])
    return pages


@pytest.mark.parametrize(("query", "most"), [({}, 500), ({"limit": "3000"}, 3000), ({"limit": "5000"}, 5000)])
def test_each_row_is_on_one_page(query: dict[str, str], most: int) -> None:
    pages = walk(**query)
    assert [row for page in pages for row in page] == ROWS
    assert {len(page) for page in pages[:-1]} == {most}
    assert 0 < len(pages[-1]) <= most


@pytest.mark.parametrize("limit", ["0", "-1", str(MAX_ROWS + 1), "many"])
def test_a_limit_has_bounds(limit: str) -> None:
    refused = answer(limit=limit)
    assert (refused.status_code, refused.json()["detail"][0]["loc"]) == (422, ["query", "limit"])


@pytest.mark.parametrize("token", ["x", "row-0001", "é", "W10x", "WzFd", "eyJhIjoiYiJ9", "////", "W1tb" * 1000])
def test_what_is_no_token_is_refused(token: str) -> None:
    (problem,) = answer(**{"continue": token}).json()["detail"]
    assert problem["loc"] == ["query", "continue"]
    assert problem["msg"] == ("Value error, it is not the metadata.continue of a page; leave it out for the first page")
