"""Modules on web servers: what is asked again, and what tells one version from another."""

from __future__ import annotations

import base64
import functools
import os
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from extender.sources.download import Limit
from extender.sources.http import HttpSource
from extender.sources.source import Fetched, Signature, SourceError, SourceUnreachableError
from tests.extender.sources.signer import digest
from tests.extender.sources.web import Conversation, Web, answer, serving, tagged
from tests.patience import Beside
from wasm_runtime.blob import Blob

LIMIT = Limit(1000, "runtime.moduleLimit")
UNSIGNED = "unsigned"


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Without logins."""
    monkeypatch.delenv("NETRC", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    return tmp_path


def source_of(url: str, *, signed: bool = False) -> HttpSource:
    return HttpSource(url, LIMIT, interval=30, timeout=20, ca_file=None, signed=signed)


def fetch(source: HttpSource, known: str | None = None) -> Fetched:
    fetched = source.fetch(known)
    assert fetched
    return fetched


def test_a_module_is_named_without_what_may_be_secret(web: Web) -> None:
    web.pages["/m.wasm?token=secret"] = answer(200, b"one")
    source = source_of(web.url("/m.wasm?token=secret"))
    assert source.fetch() == Fetched(Blob(b"one"), web.url("/m.wasm"), digest(b"one"))
    assert (source.interval, source.is_remote) == (30, True)


# -- versions --------------------------------------------------------------------------------------


@pytest.mark.parametrize("tag", ['"v1"', 'W/"v1"', "v1"])
def test_a_module_with_an_etag_is_sent_again_only_when_that_has_changed(web: Web, tag: str) -> None:
    web.pages["/m.wasm"] = tagged(tag, b"one")
    source = source_of(web.url("/m.wasm"))
    first = fetch(source)
    assert first.version == f"etag {tag}"
    assert source.fetch(first.version) is None
    web.pages["/m.wasm"] = tagged('"v2"', b"second")
    second = fetch(source, first.version)
    assert (second.module.content, second.version) == (b"second", 'etag "v2"')
    assert [request.headers.get("if-none-match") for request in web.requests] == [None, tag, tag]


def test_a_server_that_ignores_its_etag_gives_no_news(web: Web) -> None:
    web.pages["/m.wasm"] = answer(200, b"one", ETag='"v1"')
    source = source_of(web.url("/m.wasm"))
    assert source.fetch(fetch(source).version) is None


def test_a_module_that_nothing_tells_from_others_is_told_by_its_digest(web: Web) -> None:
    web.pages["/m.wasm"] = answer(200, b"one")
    source = source_of(web.url("/m.wasm"))
    first = fetch(source)
    assert source.fetch(first.version) is None
    web.pages["/m.wasm"] = answer(200, b"second")
    assert (first.version, fetch(source, first.version).version) == (digest(b"one"), digest(b"second"))


EARLIER, LATER = "Mon, 06 Jul 2026 10:00:00 GMT", "Mon, 06 Jul 2026 10:00:01 GMT"


@pytest.mark.parametrize(
    ("headers", "version"),
    [
        ({"Last-Modified": EARLIER, "Date": LATER}, f"modified {EARLIER}"),
        ({"Last-Modified": EARLIER, "Date": LATER, "ETag": '"v1"'}, 'etag "v1"'),
        ({"Last-Modified": EARLIER, "Date": EARLIER}, digest(b"one")),
        ({"Last-Modified": LATER, "Date": EARLIER}, digest(b"one")),
        ({"Last-Modified": EARLIER}, digest(b"one")),
        ({"Last-Modified": EARLIER, "Date": LATER.removesuffix(" GMT") + " -0000"}, digest(b"one")),
        ({"Last-Modified": "yesterday", "Date": LATER}, digest(b"one")),
        ({"Last-Modified": "Mon, 06 Jul 99999999999 10:00:00 GMT", "Date": LATER}, digest(b"one")),
        ({"Last-Modified": f"{EARLIER} (\xf6)", "Date": LATER}, digest(b"one")),
        ({"ETag": '"\xf6"'}, digest(b"one")),
        ({"ETag": ""}, digest(b"one")),
    ],
    ids=range(11),
)
def test_what_a_server_says_of_a_version_is_used_if_it_can_be_relied_on(
    web: Web, headers: dict[str, str], version: str
) -> None:
    web.pages["/m.wasm"] = answer(200, b"one", **headers)
    assert fetch(source_of(web.url("/m.wasm"))).version == version


def test_a_folder_that_python_serves(tmp_path: Path) -> None:
    """A server that knows `Last-Modified` only."""
    module = tmp_path / "m.wasm"
    statuses: list[int] = []

    class Handler(SimpleHTTPRequestHandler):
        def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
            assert size == "-"
            statuses.append(int(code))

    def put(wasm: bytes, modified: int) -> None:
        module.write_bytes(wasm)
        os.utime(module, (modified, modified))

    with ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Handler, directory=str(tmp_path))) as server:
        server_loop = Beside(lambda: server.serve_forever(0.01))
        try:
            source = source_of(f"http://127.0.0.1:{server.server_port}/m.wasm")
            put(b"one", 1_000_000_000)
            first = fetch(source)
            assert source.fetch(first.version) is None
            put(b"second", 1_000_000_001)
            second = fetch(source, first.version)
        finally:
            server.shutdown()
            server_loop.end()
    assert (first.module.content, second.module.content) == (b"one", b"second")
    assert first.version == "modified Sun, 09 Sep 2001 01:46:40 GMT"
    assert statuses == [200, 304, 200]


@pytest.mark.parametrize("known", ["", "etag", "1234-5-6", digest(b"other"), f'{UNSIGNED} etag "v1"'])
def test_a_version_of_another_kind_of_source_is_not_asked_for(web: Web, known: str) -> None:
    web.pages["/m.wasm"] = tagged('"v1"', b"one")
    assert fetch(source_of(web.url("/m.wasm")), known).version == 'etag "v1"'


def test_not_modified_is_no_answer_to_who_knows_nothing(web: Web) -> None:
    web.pages["/m.wasm"] = answer(304)
    with pytest.raises(SourceError) as refused:
        source_of(web.url("/m.wasm")).fetch()
    assert str(refused.value) == f"{web.url('/m.wasm')} answers 304 Not Modified"


def test_a_server_that_fails_leaves_what_is_known(web: Web) -> None:
    web.pages["/m.wasm"] = tagged('"v1"', b"one")
    source = source_of(web.url("/m.wasm"))
    version = fetch(source).version
    page, web.pages["/m.wasm"] = web.pages["/m.wasm"], answer(503)
    with pytest.raises(SourceUnreachableError):
        source.fetch(version)
    web.pages["/m.wasm"] = page
    assert source.fetch(version) is None


def test_a_module_that_is_too_large_is_refused(web: Web) -> None:
    web.pages["/m.wasm"] = answer(200, b"x" * 1001)
    with pytest.raises(SourceError) as refused:
        source_of(web.url("/m.wasm")).fetch()
    assert str(refused.value) == f"{web.url('/m.wasm')} has more than the 1000 bytes that runtime.moduleLimit allows"


# -- signatures ------------------------------------------------------------------------------------


def signature(value: bytes) -> bytes:
    return base64.b64encode(value)


def test_a_signature_is_beside_the_module_and_asked_for_only_where_it_is_required(web: Web) -> None:
    web.pages |= {"/m.wasm?v=1": answer(200, b"one"), "/m.wasm.sig?v=1": answer(200, signature(b"signature"))}
    url = web.url("/m.wasm?v=1")
    assert fetch(source_of(url)).signatures == ()
    fetched = fetch(source_of(url, signed=True))
    assert fetched.signatures == (Signature(b"one", b"signature"),)
    assert fetched.version == f"{digest(signature(b'signature'))} {digest(b'one')}"
    assert [request.target for request in web.requests] == ["/m.wasm?v=1", "/m.wasm.sig?v=1", "/m.wasm?v=1"]


def test_a_module_without_a_signature_is_given_without(web: Web) -> None:
    web.pages["/m.wasm"] = tagged('"v1"', b"one")
    source = source_of(web.url("/m.wasm"), signed=True)
    fetched = fetch(source)
    assert (fetched.signatures, fetched.version) == ((), f'{UNSIGNED} etag "v1"')
    assert source.fetch(fetched.version) is None


def test_a_signature_that_comes_after_its_module_is_news(web: Web) -> None:
    web.pages["/m.wasm"] = tagged('"v1"', b"one")
    source = source_of(web.url("/m.wasm"), signed=True)
    first = fetch(source)
    web.pages["/m.wasm.sig"] = answer(200, signature(b"signature"))
    second = fetch(source, first.version)
    assert (second.module.content, second.signatures) == (b"one", (Signature(b"one", b"signature"),))
    assert source.fetch(second.version) is None
    asked = [each.headers.get("if-none-match") for each in web.requests if each.target == "/m.wasm"]
    assert asked == [None, None, '"v1"']


def test_a_signature_is_sent_again_only_when_it_has_changed(web: Web) -> None:
    web.pages |= {"/m.wasm": tagged('"v1"', b"one"), "/m.wasm.sig": tagged('"s1"', signature(b"first"))}
    source = source_of(web.url("/m.wasm"), signed=True)
    first = fetch(source)
    assert source.fetch(first.version) is None
    web.pages["/m.wasm.sig"] = tagged('"s2"', signature(b"second"))
    second = fetch(source, first.version)
    assert second.signatures == (Signature(b"one", b"second"),)
    web.pages["/m.wasm.sig"] = answer(404)
    assert fetch(source, second.version).signatures == ()
    asked = [each.headers.get("if-none-match") for each in web.requests if each.target == "/m.wasm.sig"]
    assert asked == [None, '"s1"', '"s1"', '"s2"']


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        (b"no signature", ": expected a signature in base64 or a bundle, as cosign writes them, found neither"),
        (b"x" * 100_000, " has more than the 16384 bytes that kwx allows"),
        (b"", " is empty; put it there again"),
    ],
    ids=["text", "long", "empty"],
)
def test_what_is_no_signature_is_refused_by_its_name(web: Web, body: bytes, problem: str) -> None:
    web.pages |= {"/m.wasm": answer(200, b"one"), "/m.wasm.sig": answer(200, body)}
    with pytest.raises(SourceError) as refused:
        source_of(web.url("/m.wasm"), signed=True).fetch()
    assert str(refused.value) == f"{web.url('/m.wasm.sig')}{problem}"


# -- logins ----------------------------------------------------------------------------------------

LOGIN = "Basic dXNlcjpwYXNzd29yZA=="


def guarded(conversation: Conversation) -> None:
    known = conversation.request.headers.get("authorization") == LOGIN
    answer(200 if known else 401, b"one")(conversation)


def test_the_login_of_a_netrc_file_is_shown(web: Web, home: Path) -> None:
    (home / ".netrc").write_text(
        "machine other login a password b\nmachine 127.0.0.1\n login user\n password password\n"
    )
    web.pages |= {"/m.wasm": guarded, "/m.wasm.sig": guarded}
    assert fetch(source_of(web.url("/m.wasm"))).module.content == b"one"
    with pytest.raises(SourceError, match=r"\.sig: expected a signature "):
        source_of(web.url("/m.wasm"), signed=True).fetch()


def test_the_netrc_file_may_be_elsewhere(
    web: Web, home: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path_factory.mktemp("secret") / "netrc"
    file.write_text("machine 127.0.0.1 login user password password")
    monkeypatch.setenv("NETRC", str(file))
    (home / ".netrc").write_text("no netrc")
    web.pages["/m.wasm"] = guarded
    assert fetch(source_of(web.url("/m.wasm"))).module.content == b"one"


@pytest.mark.parametrize("entry", ["machine localhost", "default"])
def test_a_login_for_another_host_is_not_shown(web: Web, home: Path, entry: str) -> None:
    (home / ".netrc").write_text(f"{entry} login user password password\n")
    web.pages["/m.wasm"] = guarded
    with pytest.raises(SourceError) as refused:
        source_of(web.url("/m.wasm")).fetch()
    assert (
        str(refused.value) == f"{web.url('/m.wasm')} answers 401 Unauthorized; put a login for its host into ~/.netrc"
    )


def test_a_login_is_not_shown_to_who_is_redirected_to(web: Web, home: Path) -> None:
    (home / ".netrc").write_text("machine 127.0.0.1 login user password password\n")
    with serving() as other:
        web.pages["/m.wasm"] = answer(302, Location=other.url("/m.wasm"))
        other.pages["/m.wasm"] = answer(200, b"one")
        assert fetch(source_of(web.url("/m.wasm"))).module.content == b"one"
        shown_to = [each.headers.get("authorization") for each in [*web.requests, *other.requests]]
    assert shown_to == [LOGIN, None]


def test_a_login_is_not_shown_where_others_may_listen(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As a proxy without TLS sees it: the request names another machine."""
    (home / ".netrc").write_text("machine modules.example login user password password\n")
    with serving() as proxy:
        proxy.pages["http://modules.example/m.wasm"] = guarded
        monkeypatch.setenv("http_proxy", proxy.url(""))
        with pytest.raises(SourceError, match="answers 401 Unauthorized"):
            source_of("http://modules.example/m.wasm").fetch()
        assert [request.headers.get("authorization") for request in proxy.requests] == [None]


@pytest.mark.parametrize("text", [b"machine 127.0.0.1 login user secret", b"secret", b"machine", b"\xff\xfe"])
def test_a_file_that_is_no_netrc_is_not_quoted(web: Web, home: Path, text: bytes) -> None:
    (home / ".netrc").write_bytes(text)
    with pytest.raises(SourceError) as refused:
        source_of(web.url("/m.wasm")).fetch()
    assert str(refused.value) == f"{home}/.netrc is no netrc file; expected machine HOST login USER password PASSWORD"
    assert web.requests == []


def test_a_netrc_that_cannot_be_read_is_named(web: Web, home: Path) -> None:
    (home / ".netrc").mkdir()
    with pytest.raises(SourceError) as refused:
        source_of(web.url("/m.wasm")).fetch()
    assert str(refused.value) == f"logins cannot be read from {home}/.netrc: Is a directory; set NETRC to a netrc file"
