"""What the tests of sources share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.extender.sources.web import Web, serving


@pytest.fixture(autouse=True)
def _no_proxies(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)


@pytest.fixture
def web() -> Iterator[Web]:
    """What says anything that no real server does."""
    with serving() as web:
        yield web
