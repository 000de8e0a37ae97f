"""Pages of templates. What comes from outside is text in them, whatever it holds."""

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
"""Rows of a table on a page."""

_HEADERS: Final = {"Cache-Control": "no-store"}

_Row = TypeVar("_Row")


@dataclass(frozen=True)
class Page(Generic[_Row]):
    """The rows of a table that a page shows."""

    rows: Sequence[_Row]
    number: int
    """From 1."""
    pages: int
    total: int
    """Rows of all pages."""

    @classmethod
    def of(cls, rows: Sequence[_Row], number: int) -> Page[_Row]:
        """The page of that number, or the nearest that there is."""
        pages = max(1, -(-len(rows) // ROWS))
        number = min(max(number, 1), pages)
        return cls(rows[(number - 1) * ROWS : number * ROWS], number, pages, len(rows))


def link(page: str, query: Mapping[str, Any] | None = None, /, **more: Any) -> str:
    """The path of a page, with what of the query is not empty; text that is no Unicode in it with `?`."""
    chosen = {name: value for name, value in {**(query or {}), **more}.items() if value not in {None, ""}}
    return f"{DASHBOARD}/{page}" + (f"?{urlencode(chosen, errors='replace')}" if chosen else "")


def render(request: Request, template: str, code: int = HTTPStatus.OK, **values: Any) -> Response:
    """A page of a template."""
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
