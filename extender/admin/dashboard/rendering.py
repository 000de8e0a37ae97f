"""Makes pages of the templates. Values from outside are escaped: they are always shown as text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from http import HTTPStatus
from math import isinf
from typing import Any, Final, Generic, TypeVar
from urllib.parse import urlencode

from fastapi import Request, Response
from jinja2 import Environment, PackageLoader, StrictUndefined

from extender.admin.auth.tokens import Role, User
from extender.admin.paths import DASHBOARD

ROWS: Final = 100
"""Rows of a table that one page shows."""

_HEADERS: Final = {"Cache-Control": "no-store"}

_Row = TypeVar("_Row")


@dataclass(frozen=True)
class Page(Generic[_Row]):
    """The rows of a table that a page shows."""

    rows: Sequence[_Row]
    number: int
    """The number of this page, counted from 1."""
    pages: int
    """How many pages the table has."""
    total: int
    """How many rows the table has."""

    @classmethod
    def of(cls, rows: Sequence[_Row], number: int) -> Page[_Row]:
        """The page with a number, or the nearest one that exists, of all rows of a table."""
        pages = max(1, -(-len(rows) // ROWS))
        number = min(max(number, 1), pages)
        return cls(rows[(number - 1) * ROWS : number * ROWS], number, pages, len(rows))


def link(page: str, query: Mapping[str, Any] | None = None, /, **more: Any) -> str:
    """The path of a page with a query of the values that are neither None nor empty; `more` overrides `query`.

    Lone surrogates, which UTF-8 cannot encode, become `?`.
    """
    chosen = {name: value for name, value in {**(query or {}), **more}.items() if value not in {None, ""}}
    return f"{DASHBOARD}/{page}" + (f"?{urlencode(chosen, errors='replace')}" if chosen else "")


def render(request: Request, template: str, code: int = HTTPStatus.OK, **values: Any) -> Response:
    """The answer with the page that a template makes of values, and of the user who looks at it."""
    user: User | None = getattr(request.state, "user", None)
    may_write = user is not None and user.role is Role.WRITE
    text = _TEMPLATES.get_template(template).render(user=user, may_write=may_write, **values)
    return Response(text.encode(errors="replace"), code, _HEADERS, "text/html")


def _time(at: datetime) -> str:
    return f"{at.astimezone(timezone.utc):%Y-%m-%d %H:%M:%S} UTC"


def _milliseconds(seconds: float) -> str:
    return "more" if isinf(seconds) else f"{seconds * 1000:.3g} ms"


_TEMPLATES: Final = Environment(
    loader=PackageLoader("extender.admin.dashboard"),
    autoescape=True,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)
_TEMPLATES.globals |= {"link": link}
_TEMPLATES.filters |= {"time": _time, "milliseconds": _milliseconds}
