"""Downloads, from servers that are well-behaved and from others."""

from __future__ import annotations

import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from extender.sources.download import DownloadSession, Limit, shown
from extender.sources.source import SourceError, SourceUnreachableError
from tests.extender.sources.certificates import authority
from tests.extender.sources.web import Conversation, Script, Web, answer, head, serving

LIMIT = Limit(1000, "runtime.moduleLimit")
QUICK = 0.3
"""Seconds; the deadline where it is to pass."""


def refusal(web: Web, timeout: float = 20.0, kind: type[SourceError] = SourceError, limit: Limit = LIMIT) -> str:
    """Why `/m.wasm` is not to be had, with the server's URL left out."""
    with pytest.raises(SourceError) as refused:
        DownloadSession(timeout).request(web.url("/m.wasm?token=secret"), limit)
    assert type(refused.value) is kind
    return str(refused.value).replace(web.url(""), "URL")


def test_a_body_and_its_headers_are_given(web: Web) -> None:
    web.pages["/m.wasm?v=1"] = answer(200, b"module", ETag='"a"')
    response = DownloadSession(20).request(web.url("/m.wasm?v=1"), LIMIT, headers={"Accept": "application/wasm"})
    assert (response.status, response.headers["etag"], response.body) == (200, '"a"', b"module")
    (request,) = web.requests
    asked = {name: request.headers[name] for name in ("accept", "accept-encoding", "user-agent")}
    assert asked == {"accept": "application/wasm", "accept-encoding": "identity", "user-agent": "kube-wasm-extender"}


def test_head_asks_for_the_headers_only(web: Web) -> None:
    web.pages["/m.wasm"] = lambda conversation: conversation.send(head(200, Content_Length="10", ETag="a"))
    response = DownloadSession(20).request(web.url("/m.wasm"), LIMIT, method="HEAD")
    assert (response.status, response.headers["etag"], response.body) == (200, "a", b"")
    assert [request.method for request in web.requests] == ["HEAD"]


@pytest.mark.parametrize("status", [304, 401, 404])
def test_a_status_that_is_expected_is_given(web: Web, status: int) -> None:
    web.pages["/m.wasm"] = answer(status)
    assert DownloadSession(20).request(web.url("/m.wasm"), LIMIT, expected={status}).status == status


@pytest.mark.parametrize(
    ("status", "problem"),
    [
        (204, "204 No Content"),
        (304, "304 Not Modified"),
        (400, "400 Bad Request"),
        (401, "401 Unauthorized; put a login for its host into ~/.netrc"),
        (403, "403 Forbidden; have this machine, or its login in ~/.netrc, allowed to read it"),
        (404, "404 Not Found; put it there or mend the URL"),
        (410, "410 Gone; put it there or mend the URL"),
        (499, "499"),
    ],
)
def test_a_server_that_refuses_has_answered(web: Web, status: int, problem: str) -> None:
    web.pages["/m.wasm?token=secret"] = answer(status)
    assert refusal(web) == f"URL/m.wasm answers {problem}"


@pytest.mark.parametrize(
    ("status", "problem"),
    [
        (408, "408 Request Timeout"),
        (429, "429 Too Many Requests"),
        (500, "500 Internal Server Error"),
        (503, "503 Service Unavailable"),
        (599, "599"),
    ],
)
def test_a_server_that_cannot_answer_now_is_out_of_reach(web: Web, status: int, problem: str) -> None:
    web.pages["/m.wasm?token=secret"] = answer(status)
    assert refusal(web, kind=SourceUnreachableError) == f"URL/m.wasm answers {problem}; see to the server"


# -- time ------------------------------------------------------------------------------------------


def drip(beginning: bytes, piece: bytes) -> Script:
    """Sends a little now and then, for ever."""

    def script(conversation: Conversation) -> None:
        conversation.send(beginning)
        while conversation.goes_on():
            conversation.send(piece)

    return script


def begin(beginning: bytes) -> Script:
    """Sends no more than that."""

    def script(conversation: Conversation) -> None:
        conversation.send(beginning)
        conversation.stall()

    return script


@pytest.mark.parametrize(
    "script",
    [
        begin(b""),
        begin(b"HTTP/1.1 200 OK\r\nContent-"),
        begin(head(200, Content_Length="10")),
        begin(head(200, Content_Length="10") + b"half"),
        begin(head(200, Transfer_Encoding="chunked") + b"5\r\nhalf"),
        drip(b"HTTP/1.1 200 OK\r\nX: ", b"x"),
        drip(b"", b"HTTP/1.1 103 Early Hints\r\n\r\n"),
        drip(head(200, Content_Length="1000"), b"x"),
        drip(head(200, Transfer_Encoding="chunked"), b"1\r\nx\r\n"),
        drip(head(200, Transfer_Encoding="chunked") + b"1;", b"x"),
    ],
    ids=range(10),
)
def test_a_server_that_stalls_or_drips_is_given_up_at_the_deadline(web: Web, script: Script) -> None:
    web.pages["/m.wasm?token=secret"] = script
    assert refusal(web, QUICK, SourceUnreachableError) == (
        "URL/m.wasm does not answer in time; see to the server or raise source.timeout (0.3 s)"
    )


def test_a_server_that_stalls_before_the_handshake_is_given_up_at_the_deadline() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener, pytest.raises(SourceUnreachableError) as refused:
        url = f"https://127.0.0.1:{listener.getsockname()[1]}/m.wasm"
        DownloadSession(QUICK).request(url, LIMIT)
    assert str(refused.value) == f"{url} does not answer in time; see to the server or raise source.timeout (0.3 s)"


def test_the_deadline_is_one_for_all_requests(web: Web) -> None:
    web.pages |= {"/m.wasm": begin(b""), "/other": answer(200, b"module")}
    session = DownloadSession(QUICK)
    for target in ("/m.wasm", "/other"):
        with pytest.raises(SourceUnreachableError, match=f"^{web.url(target)} does not answer in time; "):
            session.request(web.url(target), LIMIT)


# -- size ------------------------------------------------------------------------------------------

HUGE = 10**10


def flood(conversation: Conversation) -> None:
    """Sends 10 GB without saying so before."""
    conversation.send(head(200, Transfer_Encoding="chunked"))
    chunk = b"10000\r\n" + b"\0" * 0x10000 + b"\r\n"
    for _ in range(HUGE // 0x10000):
        conversation.send(chunk)


def test_a_body_of_the_largest_size_is_taken(web: Web) -> None:
    web.pages["/m.wasm"] = answer(200, b"x" * LIMIT.size)
    assert DownloadSession(20).request(web.url("/m.wasm"), LIMIT).body == b"x" * LIMIT.size


def test_a_body_that_claims_10_gb_is_refused_unread(web: Web) -> None:
    web.pages["/m.wasm?token=secret"] = begin(head(200, Content_Length=str(HUGE)))
    assert refusal(web) == "URL/m.wasm has more than the 1000 bytes that runtime.moduleLimit allows"


def test_10_gb_that_are_not_claimed_are_not_read(web: Web) -> None:
    web.pages["/m.wasm?token=secret"] = flood
    assert refusal(web, limit=Limit(1 << 20)) == "URL/m.wasm has more than the 1048576 bytes that kwx allows"
    web.close()
    assert web.sent < 32 << 20  # What the buffers of two sockets take, on top of the limit.


def test_an_endless_head_is_refused(web: Web) -> None:
    web.pages["/m.wasm?token=secret"] = begin(b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 100_000)
    assert refusal(web, kind=SourceUnreachableError) == (
        "URL/m.wasm cannot be fetched: Receive buffer too long; see to the server or mend the URL"
    )


@pytest.mark.parametrize("encoding", ["gzip", "br", "x" * 100])
def test_an_encoded_body_is_not_unfolded(web: Web, encoding: str) -> None:
    web.pages["/m.wasm?token=secret"] = answer(200, b"\x1f\x8b", Content_Encoding=encoding)
    assert refusal(web) == f"URL/m.wasm is sent encoded ({encoding[:40]!r}); have the server send it as it is"


def test_identity_is_no_encoding(web: Web) -> None:
    web.pages["/m.wasm"] = answer(200, b"module", Content_Encoding="identity")
    assert DownloadSession(20).request(web.url("/m.wasm"), LIMIT).body == b"module"


@pytest.mark.parametrize(
    "script",
    [
        answer(200),
        lambda conversation: conversation.send(head(200)),
        lambda conversation: conversation.send(head(200, Transfer_Encoding="chunked") + b"0\r\n\r\n"),
    ],
    ids=range(3),
)
def test_an_empty_body_is_refused(web: Web, script: Script) -> None:
    web.pages["/m.wasm?token=secret"] = script
    assert refusal(web) == "URL/m.wasm is empty; put it there again"


# -- what does not answer, or not in HTTP ----------------------------------------------------------


@pytest.mark.parametrize(
    ("sent", "cause"),
    [
        (b"", "Server disconnected without sending a response"),
        (b"HTTP/1.1 200", "Server disconnected without sending a response"),
        (
            head(200, Content_Length="10") + b"half",
            "peer closed connection without sending complete message body (received 4 bytes, expected 10)",
        ),
        (
            head(200, Transfer_Encoding="chunked") + b"4\r\nhalf\r\n",
            "peer closed connection without sending complete message body (incomplete chunked read)",
        ),
        (b"SSH-2.0-OpenSSH_9.6\r\n\r\n", "illegal status line: bytearray(b'SSH-2.0-OpenSSH_9.6')"),
        (head(200, Content_Length="-1"), "bad Content-Length"),
        (head(200, Content_Length="9" * 5000), "bad Content-Length"),
        (b"x" * 1000 + b"\r\n\r\n", "illegal status line: bytearray(b'" + "x" * 167),
    ],
    ids=range(8),
)
def test_an_answer_that_is_cut_or_is_none_counts_as_no_answer(web: Web, sent: bytes, cause: str) -> None:
    web.pages["/m.wasm?token=secret"] = lambda conversation: conversation.send(sent)
    problem = f"URL/m.wasm cannot be fetched: {cause}; see to the server or mend the URL"
    assert refusal(web, kind=SourceUnreachableError) == problem


@pytest.mark.parametrize("scheme", ["http", "https"])
@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_a_server_that_is_not_there_is_out_of_reach(scheme: str, host: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        url = f"{scheme}://{host}:{listener.getsockname()[1]}/m.wasm"
    with pytest.raises(SourceUnreachableError) as refused:
        DownloadSession(20).request(url, LIMIT)
    assert str(refused.value) == f"{url} cannot be fetched: Connection refused; see to the server or mend the URL"


def test_a_name_that_is_not_known_is_out_of_reach() -> None:
    with pytest.raises(SourceUnreachableError, match=r"^http://nowhere\.invalid/m\.wasm cannot be fetched: .*[Nn]ame "):
        DownloadSession(20).request("http://nowhere.invalid/m.wasm", LIMIT)


@pytest.mark.parametrize(
    ("url", "problem"),
    [
        ("http://[::1/x?token=secret", "'http://[::1/x' is no URL: Invalid port: ':1'"),
        ("ftp://host/x?token=secret", "ftp://host/x is no URL of a web server; expected https://HOST/PATH"),
        ("/x?token=secret", "/x is no URL of a web server; expected https://HOST/PATH"),
        (
            "http://127.0.0.1:65536/x?token=secret",
            "http://127.0.0.1:65536/x is no URL of a web server; expected https://HOST/PATH",
        ),
    ],
)
def test_what_is_no_url_is_refused(url: str, problem: str) -> None:
    with pytest.raises(SourceError) as refused:
        DownloadSession(20).request(url, LIMIT)
    assert (type(refused.value), str(refused.value)) == (SourceError, problem)


@pytest.mark.parametrize("value", ["Bearer a\nb", "Bearer ö"])
def test_a_header_that_cannot_be_sent_is_not_quoted(web: Web, value: str) -> None:
    with pytest.raises(SourceError) as refused:
        DownloadSession(20).request(web.url("/x"), LIMIT, headers={"Authorization": value})
    assert str(refused.value) == (
        f"{web.url('/x')} cannot be asked for: the name of its host, or a header, has what none can have"
    )


# -- redirects -------------------------------------------------------------------------------------


def redirect(location: str, status: int = 302) -> Script:
    return answer(status, Location=location)


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_redirect_is_followed(web: Web, status: int) -> None:
    web.pages |= {"/m.wasm": redirect("../v2/m.wasm?x=1", status), "/v2/m.wasm?x=1": answer(200, b"module")}
    assert DownloadSession(20).request(web.url("/m.wasm"), LIMIT).body == b"module"


def test_five_redirects_are_followed_and_not_six(web: Web) -> None:
    web.pages |= {f"/{at}": redirect(f"/{at + 1}") for at in range(6)}
    web.pages["/6"] = answer(200, b"module")
    assert DownloadSession(20).request(web.url("/1"), LIMIT).body == b"module"
    with pytest.raises(SourceError) as refused:
        DownloadSession(20).request(web.url("/0"), LIMIT)
    assert str(refused.value) == f"{web.url('/0')} redirects more than 5 times, at last to {web.url('/6')}"


def test_a_redirect_in_a_circle_ends(web: Web) -> None:
    web.pages["/m.wasm?token=secret"] = redirect("/m.wasm?token=secret")
    assert refusal(web) == "URL/m.wasm redirects more than 5 times, at last to URL/m.wasm"


@pytest.mark.parametrize(
    ("location", "target"),
    [
        ("https://127.0.0.1/other?token=secret", "https://127.0.0.1/other"),
        ("https://user:password@127.0.0.1/other", "https://127.0.0.1/other"),
        ("file:///etc/passwd", "file:/etc/passwd"),
        ("data:application/wasm;base64,AGFzbQ", "data:application/wasm;base64,AGFzbQ"),
        ("mailto:admin@example", "mailto:admin@example"),
        ("javascript:alert(1)", "javascript:alert(1)"),
        ("blob:http://127.0.0.1/1", "blob:http://127.0.0.1/1"),
        ("about:blank", "about:blank"),
        ("urn:isbn:0", "urn:isbn:0"),
        ("tel:+1", "tel:+1"),
        ("oci://registry/x", "oci://registry/x"),
    ],
)
def test_a_redirect_to_another_scheme_is_refused(web: Web, location: str, target: str) -> None:
    web.pages["/m.wasm?token=secret"] = redirect(location)
    assert refusal(web) == (
        f"URL/m.wasm redirects to {target}, which has another scheme and is not followed; name the URL that is meant"
    )


@pytest.mark.parametrize(
    "target",
    [
        "http://127.0.0.1:-1/m.wasm",
        "http://127.0.0.1:0/m.wasm",
        "http://127.0.0.1:65536/m.wasm",
    ],
)
def test_a_redirect_to_no_web_server_is_refused(web: Web, target: str) -> None:
    web.pages["/m.wasm?token=secret"] = redirect(f"{target}?token=secret")
    assert refusal(web) == f"URL/m.wasm redirects to {target}, which is no URL of a web server"


@pytest.mark.parametrize(
    ("location", "told"),
    [
        ("http://[::1", "http://[::1"),
        ("http://[zz]/", "http://[zz]/"),
        ("http://1.2.3.4:80:80/", "http://1.2.3.4:80:80/"),
        ("http://host:http/", "http://host:http/"),
        (f"http://host:{'1' * 5000}/", f"http://host:{'1' * 188}"),
        ("http://user:password@host:x/?token=secret", "http://host:x/"),
        ("http://host\x7f/", "http://host\\x7f/"),
        ("::", "::"),
        (f"/{'a' * 65_536}", f"/{'a' * 199}"),
    ],
)
def test_a_redirect_to_what_is_no_url_is_refused(web: Web, location: str, told: str) -> None:
    web.pages["/m.wasm?token=secret"] = redirect(location)
    assert refusal(web) == f"URL/m.wasm redirects to '{told}', which is no URL; see to the server"


@pytest.mark.parametrize("location", ["http://a..b/", "http://xn--/", "http://[fe80::1%25none]/"])
def test_a_redirect_to_nowhere_is_refused(web: Web, location: str) -> None:
    web.pages["/m.wasm?token=secret"] = redirect(location)
    with pytest.raises(SourceError, match=rf"^{web.url('/m.wasm')}, redirected to http://"):
        DownloadSession(20).request(web.url("/m.wasm?token=secret"), LIMIT)


@pytest.mark.parametrize(("status", "reason"), [(401, "Unauthorized"), (403, "Forbidden")])
def test_a_server_that_another_redirects_to_cannot_ask_for_a_login(web: Web, status: int, reason: str) -> None:
    with serving() as other:
        web.pages["/m.wasm"] = redirect(other.url("/m.wasm"))
        other.pages["/m.wasm"] = answer(status)
        with pytest.raises(SourceError) as refused:
            DownloadSession(20).request(web.url("/m.wasm"), LIMIT, expected={401, 403})
        assert str(refused.value) == (
            f"{web.url('/m.wasm')}, redirected to {other.url('/m.wasm')}, answers {status} {reason}; no login is sent"
            " where another server redirects to: name that URL, or have it let everybody in"
        )


def test_a_redirect_without_a_target_is_none(web: Web) -> None:
    web.pages["/m.wasm?token=secret"] = answer(302)
    assert refusal(web) == "URL/m.wasm answers 302 Found"


def test_what_is_wrong_behind_a_redirect_is_said_with_both_urls(web: Web) -> None:
    web.pages["/m.wasm?token=secret"] = redirect("/other?token=secret")
    problem = "URL/m.wasm, redirected to URL/other, answers 404 Not Found; put it there or mend the URL"
    assert refusal(web) == problem


def test_credentials_stay_with_the_scheme_host_and_port_that_they_are_for(web: Web) -> None:
    with serving() as other:
        web.pages |= {
            "/m.wasm": redirect("/same"),
            "/same": redirect(other.url("/other")),
            "/back": answer(200, b"module"),
        }
        other.pages["/other"] = redirect(web.url("/back"))
        response = DownloadSession(20).request(web.url("/m.wasm"), LIMIT, headers={"Authorization": "Bearer secret"})
    assert response.body == b"module"
    shown_to = [(each.target, each.headers.get("authorization")) for each in [*web.requests, *other.requests]]
    assert shown_to == [("/m.wasm", "Bearer secret"), ("/same", "Bearer secret"), ("/back", None), ("/other", None)]


# -- TLS and proxies -------------------------------------------------------------------------------


def test_a_server_whose_ca_is_named_is_accepted(tmp_path: Path) -> None:
    ca_file, context = authority(tmp_path)
    with serving(context) as web:
        web.pages["/m.wasm"] = answer(200, b"module")
        assert DownloadSession(20, ca_file).request(web.url("/m.wasm"), LIMIT).body == b"module"


def test_a_server_whose_ca_is_not_known_is_not_asked(tmp_path: Path) -> None:
    ca_file, context = authority(tmp_path)
    with serving(context) as web:
        web.pages["/m.wasm?token=secret"] = answer(200, b"module")
        problem = refusal(web, kind=SourceUnreachableError)
        with pytest.raises(SourceUnreachableError) as refused:
            DownloadSession(20, ca_file).request(web.url("/m.wasm", "localhost"), LIMIT)
        assert web.requests == []
        assert str(refused.value) == (
            f"{web.url('/m.wasm', 'localhost')} cannot be fetched: its certificate is not accepted: Hostname mismatch,"
            " certificate is not valid for 'localhost'; ask for it by a name that its certificate has, or give the"
            " certificate this one (subjectAltName)"
        )
    assert problem == (
        "URL/m.wasm cannot be fetched: its certificate is not accepted: unable to get local issuer certificate;"
        " name the CA that signed it in source.caFile"
    )


def test_a_redirect_from_https_to_http_is_refused(tmp_path: Path, web: Web) -> None:
    ca_file, context = authority(tmp_path)
    with serving(context) as secure:
        secure.pages["/m.wasm"] = redirect(web.url("/m.wasm"))
        with pytest.raises(SourceError) as refused:
            DownloadSession(20, ca_file).request(secure.url("/m.wasm"), LIMIT)
        assert str(refused.value) == (
            f"{secure.url('/m.wasm')} redirects to {web.url('/m.wasm')}, which has another scheme and is not followed;"
            " name the URL that is meant"
        )
    assert web.requests == []


def test_a_server_that_speaks_no_tls_is_out_of_reach(web: Web) -> None:
    url = web.url("/m.wasm").replace("http:", "https:")
    with pytest.raises(SourceUnreachableError, match=rf"^{url} cannot be fetched: \[SSL"):
        DownloadSession(20).request(url, LIMIT)


@pytest.mark.parametrize(
    ("make", "cause"),
    [
        (str, "No such file or directory"),
        (lambda file: file.write_text("no certificate"), "[X509: NO_CERTIFICATE_OR_CRL_FOUND] "),
        (lambda file: file.mkdir(), "Is a directory"),
    ],
    ids=["missing", "no PEM", "folder"],
)
def test_a_ca_file_that_cannot_be_used_is_refused(tmp_path: Path, make: Callable[[Path], object], cause: str) -> None:
    file = tmp_path / "ca.pem"
    make(file)
    with pytest.raises(SourceError) as refused:
        DownloadSession(20, file)
    assert str(refused.value).startswith(f"source.caFile '{file}' cannot be used: {cause}")
    assert str(refused.value).endswith("; expected certificates in PEM")


def test_the_proxy_of_the_environment_is_used(web: Web, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", web.url(""))
    web.pages["http://modules.example/m.wasm"] = answer(200, b"module")
    assert DownloadSession(20).request("http://modules.example/m.wasm", LIMIT).body == b"module"


def test_a_proxy_that_refuses_is_named_as_the_cause(web: Web, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("https_proxy", web.url("").replace("//", "//user:password@"))
    web.pages["modules.example:443"] = answer(407)
    with pytest.raises(SourceUnreachableError) as refused:
        DownloadSession(20).request("https://modules.example/m.wasm", LIMIT)
    assert str(refused.value) == ("https://modules.example/m.wasm cannot be fetched: the proxy answers 407 Whatever")


@pytest.mark.parametrize("proxy", ["socks5://user:password@proxy", "ftp://user:password@proxy", "http://[::1"])
def test_a_proxy_that_is_none_is_not_quoted(monkeypatch: pytest.MonkeyPatch, proxy: str) -> None:
    monkeypatch.setenv("http_proxy", proxy)
    with pytest.raises(SourceError) as refused:
        DownloadSession(20).request("http://modules.example/m.wasm", LIMIT)
    assert str(refused.value) == (
        "the proxy in HTTP_PROXY, HTTPS_PROXY or ALL_PROXY, or NO_PROXY, cannot be used; expected http://HOST:PORT and"
        " names of hosts"
    )


@pytest.mark.parametrize(
    ("url", "text"),
    [
        ("https://user:password@[::1]:8443/a%20b?token=secret#x", "https://[::1]:8443/a%20b"),
        ("https://host/" + "a" * 1000, "https://host/" + "a" * 987 + "…"),
    ],
    ids=["secret", "long"],
)
def test_a_url_is_shown_without_what_may_be_secret_or_is_too_much(url: str, text: str) -> None:
    assert shown(url) == text
