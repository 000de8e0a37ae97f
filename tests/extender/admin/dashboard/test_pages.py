"""What the pages of the dashboard show of what comes from outside."""

from __future__ import annotations

import asyncio
import html
import re
from types import SimpleNamespace
from typing import Any, cast

import httpx
import pytest

from extender.admin.auth.access import LOCAL, TokenAccess
from extender.admin.dashboard import create_dashboard
from extender.admin.dashboard.app import HEADERS
from extender.admin.dashboard.rendering import ROWS
from extender.admin.health import Health
from extender.scheduling.decisions import Attempt, Decisions, Failure
from extender.telemetry.metrics import Metrics

PODS = 10_000
HOSTILE = [
    "<script>alert(1)</script>",
    "\"><img src=x onerror='alert(1)'>",
    "{{ 7 * 7 }}{% raw %}",
    "javascript:alert(1)",
    "</td></table><style>*{display:none}</style>",
    "\u202egnp.exe\u2066",
    "\x00\x1b[2J\r\nSet-Cookie: a=b",
    "&lt;b&gt;&amp;",
    "lone \ud800 surrogate",
    "a" * 10_000,
]


def attempt(number: int) -> Attempt:
    """One whose name, profile and message are hostile."""
    text = HOSTILE[number % len(HOSTILE)]
    failure = Failure(0.0, "filter", f"{text} said the guest")
    return Attempt(f"ns-{text}/pod-{number}-{text}", f"uid-{number}", "", text, float(number), failure=failure)


class Browser:
    """What the application answers, inside of this process."""

    def __init__(self, decisions: Decisions) -> None:
        context: Any = SimpleNamespace(decisions=decisions, ledger=None, read_pod=None)
        app = create_dashboard(context, Health(), Metrics(), TokenAccess(), 1024)

        async def as_local(scope: Any, receive: Any, send: Any) -> None:
            scope.setdefault("state", {})["user"] = LOCAL
            await app(scope, receive, send)

        self._transport = httpx.ASGITransport(cast(Any, as_local))

    def get(self, path: str, **query: str | int) -> httpx.Response:
        async def ask() -> httpx.Response:
            async with httpx.AsyncClient(transport=self._transport, base_url="http://localhost") as client:
                return await client.get(path, params=query)

        return asyncio.run(ask())


@pytest.fixture(scope="module")
def browser() -> Browser:
    decisions = Decisions(PODS)
    for number in range(PODS):
        decisions.begin(attempt(number))
    return Browser(decisions)


TAG = re.compile(r"<(/?[a-z0-9]+)([^<>]*)>")
OWN_TAGS = {
    *("html", "head", "meta", "title", "link", "script", "body", "a", "header", "strong", "nav", "ul", "li", "main"),
    *("h1", "h2", "form", "label", "input", "select", "option", "button", "div", "table", "thead", "tbody", "tr", "th"),
    *("td", "dl", "dt", "dd", "code", "p"),
}


def tags(page: str) -> set[str]:
    return {name.removeprefix("/") for name, _ in TAG.findall(page)}


def test_10000_decisions_of_hostile_names_are_paged_as_text(browser: Browser) -> None:
    first = browser.get("/decisions")
    assert first.status_code == httpx.codes.OK
    assert f"{PODS} in all, page 1 of {PODS // ROWS}" in first.text
    for page in (1, 50, PODS // ROWS):
        text = browser.get("/decisions", page=page).text
        assert tags(text) <= OWN_TAGS
        assert text.count("<script") == 1
        assert len(re.findall(r'<th scope="row">', text)) == ROWS
    shown = html.unescape(first.text)
    for each in HOSTILE:
        plain = each.replace("\ud800", "?").replace("\r\n", "\n")
        name = f"ns-{plain}".partition("/")[0]
        assert name in shown.replace("\r\n", "\n") or "/" in each, each


@pytest.mark.parametrize("number", range(len(HOSTILE) - 1))
def test_the_link_of_a_hostile_name_leads_to_its_pod(browser: Browser, number: int) -> None:
    pod = attempt(number).pod
    namespace, _, name = pod.partition("/")
    if "\ud800" in pod:
        assert browser.get("/pod", namespace="ns-lone ? surrogate", name=name.replace("\ud800", "?")).status_code == 404
        return
    answer = browser.get("/pod", namespace=namespace, name=name)
    assert answer.status_code == httpx.codes.OK
    assert tags(answer.text) <= OWN_TAGS
    assert answer.text.count("<script") == 1


def test_a_refusal_quotes_hostile_text_as_text(browser: Browser) -> None:
    answer = browser.get("/pod", namespace="<script>", name="</p><script>alert(1)</script>")
    assert (answer.status_code, answer.text.count("<script")) == (404, 1)
    assert "nothing is known of pod &lt;script&gt;/&lt;/p&gt;" in answer.text
    assert "it was not asked about here: kube-scheduler&#39;s own filters may have left no node for it" in answer.text
    namespace, _, name = attempt(3).pod.partition("/")
    other = browser.get("/pod", namespace=namespace, name=name, attempt=1)
    assert (
        other.status_code,
        f"nothing is known of pod {namespace}/{name}: it has no such attempt; " in other.text,
    ) == (
        404,
        True,
    )


def test_without_an_answer_of_filter_no_nodes_are_counted(browser: Browser) -> None:
    namespace, _, name = attempt(3).pod.partition("/")
    pod = browser.get("/pod", namespace=namespace, name=name)
    assert "<dt>Nodes</dt><dd>0 known; there is no answer of filter</dd>" in pod.text
    assert '<td class="number"></td>' in browser.get("/decisions", pod=name).text


def test_where_nobody_knows_the_node_it_is_said_which_page_does(browser: Browser) -> None:
    hint = "the pod's page says on which node it is"
    decisions = Decisions(1)
    decisions.begin(Attempt("default/web", "uid", "", "default", 0.0))
    assert hint in Browser(decisions).get("/decisions").text
    assert hint not in browser.get("/decisions").text


def test_every_answer_says_what_a_browser_may_do_with_it(browser: Browser) -> None:
    for path in ("/decisions", "/pod?namespace=a&name=b", "/nope", "/static/style.css", "/static/live.js", "/latency"):
        answer = browser.get(path)
        assert {name: answer.headers[name] for name in HEADERS} == HEADERS
    assert "inline" not in HEADERS["Content-Security-Policy"]


def test_a_page_beyond_the_last_is_the_last(browser: Browser) -> None:
    assert f"page {PODS // ROWS} of {PODS // ROWS}" in browser.get("/decisions", page=10**9).text
    assert "page 1 of 1" in browser.get("/decisions", pod="pod-77-", page=-5).text
    assert "0 in all, page 1 of 1" in browser.get("/decisions", outcome="bound").text


def test_what_is_no_number_is_refused_in_words(browser: Browser) -> None:
    answer = browser.get("/decisions", page="x")
    assert answer.status_code == httpx.codes.UNPROCESSABLE_ENTITY
    assert "page: Input should be a valid integer" in answer.text
