"""Long lists in pages, as lists of Kubernetes' API have them: `limit`, `continue`, and `metadata.continue`.

https://kubernetes.io/docs/reference/using-api/api-concepts/#retrieving-large-results-sets-in-chunks
"""

from __future__ import annotations

from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable, Iterable
from itertools import dropwhile
from typing import Annotated, Any, Final, Generic, NamedTuple, TypeAlias, TypeVar

import msgspec
from fastapi import Depends, Query
from pydantic import BeforeValidator, Field, WithJsonSchema

from extender.admin.api.views import ApiModel

Row = TypeVar("Row")
View = TypeVar("View")

Key: TypeAlias = tuple[str, ...]
"""What tells a row from all others. Rows are in the order of their keys."""

MAX_ROWS: Final = 5000
DEFAULT_ROWS: Final = 500


class Paging(NamedTuple):
    """Which page is asked for."""

    limit: int
    after: Key
    """The key of the last row of the page before; empty for the first page."""


class ListMeta(ApiModel):
    """How a list goes on, as Kubernetes' metav1.ListMeta."""

    continue_: Annotated[str, Field(alias="continue")]
    """`continue` of the request for the next page; empty if there is none."""


class ListView(ApiModel, Generic[View]):
    """A page of a list."""

    metadata: ListMeta
    items: list[View]


def _decode(token: str) -> Key:
    try:
        return msgspec.json.decode(urlsafe_b64decode(token), type=Key) if token else ()
    except (ValueError, msgspec.DecodeError):
        raise ValueError("it is not the metadata.continue of a page; leave it out for the first page") from None


def _encode(key: Key) -> str:
    return urlsafe_b64encode(msgspec.json.encode(key)).decode()


def _paging(
    limit: Annotated[int, Query(ge=1, le=MAX_ROWS, description="How many at most.")] = DEFAULT_ROWS,
    after: Annotated[
        Any,
        BeforeValidator(_decode),
        WithJsonSchema({"type": "string"}),
        Query(alias="continue", description="The `metadata.continue` of the page before."),
    ] = (),
) -> Paging:
    return Paging(limit, after)


PagingDep = Annotated[Paging, Depends(_paging)]


def page(
    rows: Iterable[Row],
    key: Callable[[Row], Key],
    view: Callable[[Row], View],
    paging: Paging,
    size: Callable[[Row], int] = lambda _: 1,
) -> ListView[View]:
    """The page that is asked for of rows in the order of their keys.

    A row that is there all the time is on one page, whatever comes and goes. The sizes of the rows of a page make up
    `MAX_ROWS` at most, unless it has a single row.
    """
    shown: list[Row] = []
    room, token = MAX_ROWS, ""
    for row in dropwhile(lambda row: key(row) <= paging.after, rows):
        room -= size(row)
        if shown and (room < 0 or len(shown) == paging.limit):
            token = _encode(key(shown[-1]))
            break
        shown.append(row)
    return ListView(metadata=ListMeta(continue_=token), items=list(map(view, shown)))
