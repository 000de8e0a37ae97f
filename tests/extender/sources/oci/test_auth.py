"""Registries that ask for logins and tokens."""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlencode

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature

from extender.sources.source import Fetched, SourceError, SourceUnreachableError
from tests.extender.sources.certificates import authority
from tests.extender.sources.oci.registry import HTPASSWD, PASSWORD, USER, Registry, running
from tests.extender.sources.oci.test_source import PLUGIN, WASM, refusal, source
from tests.extender.sources.web import Conversation, Script, Web, answer, serving
from wasm_runtime.blob import Blob

SERVICE = "the registry"


def log_in(file: Path, address: str, user: str = USER, password: str = PASSWORD, **more: str) -> None:
    """What `docker login` writes."""
    entry = {"auth": base64.b64encode(f"{user}:{password}".encode()).decode(), **more}
    file.write_text(json.dumps({"auths": {address: entry}}))


# -- Basic -------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def closed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Registry]:
    """A registry with a password."""
    folder = tmp_path_factory.mktemp("closed")
    (folder / "htpasswd").write_text(HTPASSWD)
    auth = {"htpasswd": {"realm": SERVICE, "path": str(folder / "htpasswd")}}
    with running(folder, auth=auth, login=(USER, PASSWORD)) as registry:
        yield registry


def test_a_login_is_shown_to_its_registry(closed: Registry, repository: str, logins: Path) -> None:
    digest = closed.push(f"{repository}:v1", PLUGIN)
    log_in(logins, closed.address)
    reference = f"{closed.address}/{repository}:v1"
    followed = source(reference)
    assert followed.fetch() == Fetched(Blob(WASM), f"oci://{reference}@{digest}", digest)
    assert followed.fetch(digest) is None


def test_a_registry_that_wants_a_login_is_refused_without_one(closed: Registry, logins: Path) -> None:
    log_in(logins, "another.example")
    assert refusal(source(f"{closed.address}/spread:v1")) == (
        f"{closed.address} lets nobody without a login read spread, if it is there at all, and {logins} has none for"
        f" it; `docker login {closed.address}`"
    )


@pytest.mark.parametrize(
    ("login", "who"),
    [({"password": "secret"}, USER), ({"identitytoken": "secret"}, "the identity token")],
    ids=["wrong password", "identity token"],
)
def test_a_login_that_a_registry_does_not_accept_is_refused(
    login: Mapping[str, str], who: str, closed: Registry, logins: Path
) -> None:
    log_in(logins, closed.address, **login)
    assert refusal(source(f"{closed.address}/spread:v1")) == (
        f"{closed.address} does not let {who} of {logins} read spread, if it is there at all;"
        f" `docker login {closed.address}` again, or have it allowed to"
    )


def test_a_login_for_this_machine_goes_through_no_proxy(
    closed: Registry, repository: str, logins: Path, web: Web, monkeypatch: pytest.MonkeyPatch
) -> None:
    closed.push(f"{repository}:v1", PLUGIN)
    log_in(logins, closed.address)
    monkeypatch.setenv("http_proxy", web.url(""))
    assert source(f"{closed.address}/{repository}:v1").fetch() is not None
    assert web.requests == []


def test_a_new_login_is_taken_without_a_restart(closed: Registry, repository: str, logins: Path) -> None:
    digest = closed.push(f"{repository}:v1", PLUGIN)
    followed = source(f"{closed.address}/{repository}:v1")
    log_in(logins, closed.address, password="old")
    with pytest.raises(SourceError):
        followed.fetch()
    log_in(logins, closed.address)
    fetched = followed.fetch()
    assert fetched is not None and fetched.version == digest


# -- tokens ------------------------------------------------------------------------------------------


class TokenService:
    """Makes tokens that a registry believes, as long as it is shown what `accepts` says."""

    def __init__(self, web: Web, folder: Path) -> None:
        self.web = web
        self.ca_file, _ = authority(folder)
        self._chain = (folder / "server.pem").read_bytes()

    @property
    def auth(self) -> dict[str, Any]:
        """What the registry's configuration says of it."""
        realm, issuer = self.web.url("/token"), "tests"
        return {"token": {"realm": realm, "service": SERVICE, "issuer": issuer, "rootcertbundle": str(self.ca_file)}}

    def url(self, repository: str) -> str:
        """What is asked for a token to read a repository."""
        return f"/token?{urlencode({'service': SERVICE, 'scope': f'repository:{repository}:pull'})}"

    def token(self, repository: str | None) -> str:
        """A token to read a repository, or nothing; https://distribution.github.io/distribution/spec/auth/jwt/."""
        now = int(time.time())
        access = [{"type": "repository", "name": repository, "actions": ["pull"]}] if repository else []
        certificate = x509.load_pem_x509_certificate(self._chain)
        head = {"typ": "JWT", "alg": "ES256", "x5c": [_text(certificate.public_bytes(serialization.Encoding.DER))]}
        times = {"exp": now + 600, "nbf": now - 600, "iat": now - 600}
        claims = {"iss": "tests", "sub": "", "aud": SERVICE, **times, "jti": "1", "access": access}
        signed = b".".join(_part(json.dumps(each).encode()) for each in (head, claims))
        key = serialization.load_pem_private_key(self._chain, None)
        assert isinstance(key, ec.EllipticCurvePrivateKey)
        pair = decode_dss_signature(key.sign(signed, ec.ECDSA(hashes.SHA256())))
        return b".".join([signed, _part(b"".join(each.to_bytes(32, "big") for each in pair))]).decode()


def _text(content: bytes) -> str:
    return base64.b64encode(content).decode()


def _part(content: bytes) -> bytes:
    return base64.urlsafe_b64encode(content).rstrip(b"=")


def _json(**content: Any) -> Script:
    return answer(200, json.dumps(content).encode())


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TokenService]:
    with serving() as web:
        yield TokenService(web, tmp_path_factory.mktemp("service"))


@pytest.fixture(scope="module")
def guarded(service: TokenService, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Registry, str]]:
    """A registry that wants tokens, and the digest of `spread:v1` there."""
    folder = tmp_path_factory.mktemp("guarded")
    with running(folder) as registry:
        digest = registry.push("spread:v1", PLUGIN)
    with running(folder, auth=service.auth) as registry:
        yield registry, digest


@pytest.fixture(autouse=True)
def _forget(service: TokenService) -> None:
    service.web.pages.clear()
    service.web.requests.clear()


@pytest.mark.parametrize("name", ["token", "access_token"])
@pytest.mark.parametrize("login", [True, False], ids=["with a login", "without"])
def test_a_token_is_asked_for_once(
    name: str, login: bool, service: TokenService, guarded: tuple[Registry, str], logins: Path
) -> None:
    registry, digest = guarded
    if login:
        log_in(logins, registry.address)
    service.web.pages[service.url("spread")] = _json(**{name: service.token("spread")}, expires_in=300)
    reference = f"{registry.address}/spread:v1"
    followed = source(reference)
    assert followed.fetch() == Fetched(Blob(WASM), f"oci://{reference}@{digest}", digest)
    assert followed.fetch(digest) is None
    (request,) = service.web.requests
    shown = f"Basic {_text(f'{USER}:{PASSWORD}'.encode())}" if login else None
    assert request.headers.get("authorization") == shown


def test_an_identity_token_is_posted(service: TokenService, guarded: tuple[Registry, str], logins: Path) -> None:
    registry, digest = guarded
    log_in(logins, registry.address, identitytoken="the identity")
    service.web.pages["/token"] = _json(access_token=service.token("spread"))
    fetched = source(f"{registry.address}/spread:v1").fetch()
    assert fetched is not None and fetched.version == digest
    (request,) = service.web.requests
    assert (request.method, request.headers.get("authorization")) == ("POST", None)
    assert parse_qs(request.body.decode()) == {
        "grant_type": ["refresh_token"],
        "refresh_token": ["the identity"],
        "client_id": ["kwx"],
        "service": [SERVICE],
        "scope": ["repository:spread:pull"],
    }


def test_an_identity_token_is_not_redirected(
    service: TokenService, guarded: tuple[Registry, str], logins: Path
) -> None:
    registry, _ = guarded
    log_in(logins, registry.address, identitytoken="the identity")
    service.web.pages["/token"] = answer(307, Location="/elsewhere")
    assert refusal(source(f"{registry.address}/spread:v1")) == (
        f"{service.web.url('/token')} answers 307 Temporary Redirect"
    )
    assert [request.target for request in service.web.requests] == ["/token"]


@pytest.mark.parametrize("status", [400, 401, 403])
def test_a_login_that_the_service_does_not_accept_is_refused(
    status: int, service: TokenService, guarded: tuple[Registry, str], logins: Path
) -> None:
    registry, _ = guarded
    log_in(logins, registry.address)
    service.web.pages[service.url("spread")] = answer(status)
    assert refusal(source(f"{registry.address}/spread:v1")) == (
        f"{registry.address} does not let {USER} of {logins} read spread, if it is there at all;"
        f" `docker login {registry.address}` again, or have it allowed to"
    )


def test_a_token_that_lets_nobody_in_is_refused(
    service: TokenService, guarded: tuple[Registry, str], logins: Path
) -> None:
    registry, _ = guarded
    service.web.pages[service.url("spread")] = _json(token=service.token(None))
    assert refusal(source(f"{registry.address}/spread:v1")) == (
        f"{registry.address} lets nobody without a login read spread, if it is there at all, and {logins} has none for"
        f" it; `docker login {registry.address}`"
    )


@pytest.mark.parametrize("body", [b"{}", b"[", b"\xff", b'{"token": 1}', b'{"a":' * 9999], ids=range(5))
def test_a_service_that_sends_no_token_is_refused(
    body: bytes, service: TokenService, guarded: tuple[Registry, str]
) -> None:
    service.web.pages[service.url("spread")] = answer(200, body)
    assert refusal(source(f"{guarded[0].address}/spread:v1")) == (
        f"{service.web.url('/token')} was asked for a token and has sent none; see to that service"
    )


def test_a_service_that_is_ill_is_out_of_reach(service: TokenService, guarded: tuple[Registry, str]) -> None:
    service.web.pages[service.url("spread")] = answer(503)
    assert refusal(source(f"{guarded[0].address}/spread:v1"), SourceUnreachableError) == (
        f"{service.web.url('/token')} answers 503 Service Unavailable; see to the server"
    )


# -- where nothing secret may go ---------------------------------------------------------------------


MANIFEST = "/v2/spread/manifests/v1"


def challenging(challenge: str) -> Script:
    return answer(401, WWW_Authenticate=challenge)


@pytest.mark.parametrize(
    ("realm", "shown"),
    [
        ("http://auth.example/token?secret", "http://auth.example/token"),
        ("file:///etc/passwd", "file:/etc/passwd"),
        ("https://auth.example:port", "no URL"),
        ("/token", "/token"),
        ("", "no URL"),
    ],
)
def test_a_login_goes_to_no_service_without_tls(realm: str, shown: str, web: Web, logins: Path) -> None:
    address = web.url("").removeprefix("http://")
    log_in(logins, address)
    web.pages[MANIFEST] = challenging(f'Bearer realm="{realm}",service="registry"')
    assert refusal(source(f"{address}/spread:v1")) == (
        f"{address} has its tokens made at {shown}, where nothing secret is sent to; expected a URL of https"
    )


def test_a_registry_with_tls_names_no_service_without(tmp_path: Path, web: Web, logins: Path) -> None:
    ca_file, context = authority(tmp_path)
    with serving(context) as secure:
        address = secure.url("").removeprefix("https://")
        log_in(logins, address)
        secure.pages[MANIFEST] = challenging(f'Bearer realm="{web.url("/token")}"')
        assert refusal(source(f"{address}/spread:v1", ca_file=ca_file)) == (
            f"{address} has its tokens made at {web.url('/token')}, where nothing secret is sent to;"
            " expected a URL of https"
        )
    assert web.requests == []


def test_a_login_does_not_follow_a_redirect(web: Web, logins: Path) -> None:
    address = web.url("").removeprefix("http://")
    log_in(logins, address)

    def closed(conversation: Conversation) -> None:
        known = "authorization" in conversation.request.headers
        script = answer(307, Location=cdn.url("/blob")) if known else challenging('Basic realm="registry"')
        script(conversation)

    web.pages[MANIFEST] = closed
    with serving() as cdn:
        refusal(source(f"{address}/spread:v1"))
        assert ["authorization" in request.headers for request in (*web.requests, *cdn.requests)] == [
            False,
            True,
            False,
        ]


def test_a_server_that_a_registry_redirects_to_is_shown_no_login(web: Web, logins: Path) -> None:
    """Containerd once gave it to whoever asked (CVE-2020-15157)."""
    address = web.url("").removeprefix("http://")
    log_in(logins, address)
    with serving() as cdn:
        web.pages[MANIFEST] = answer(307, Location=cdn.url("/blob"))
        cdn.pages["/blob"] = challenging(f'Bearer realm="{cdn.url("/token")}",service="registry"')
        assert refusal(source(f"{address}/spread:v1")) == (
            f"{web.url(MANIFEST)}, redirected to {cdn.url('/blob')}, answers 401 Unauthorized; no login is sent where"
            " another server redirects to: name that URL, or have it let everybody in"
        )
        assert [(request.target, request.headers.get("authorization")) for request in cdn.requests] == [("/blob", None)]


@pytest.mark.parametrize(
    "challenge",
    ["", "Basic", "Negotiate", 'Digest realm="registry"', "Bearer", "Basically x=1"],
)
def test_a_registry_that_asks_for_what_nobody_has_is_refused(challenge: str, web: Web, logins: Path) -> None:
    address = web.url("").removeprefix("http://")
    log_in(logins, address)
    web.pages[MANIFEST] = challenging(challenge)
    assert refusal(source(f"{address}/spread:v1")) == (
        f"{address} does not let {USER} of {logins} read spread, if it is there at all; `docker login {address}` again,"
        " or have it allowed to"
    )


@pytest.mark.parametrize(
    "challenge",
    [
        'BASIC realm="registry"',
        "Basic realm=registry",
        'Negotiate, Basic realm="a, Bearer realm=b"',
        'Digest realm="registry", nonce="1", Basic realm="registry"',
    ],
)
def test_a_challenge_is_read_however_it_is_written(challenge: str, web: Web, logins: Path) -> None:
    address = web.url("").removeprefix("http://")
    log_in(logins, address)
    web.pages[MANIFEST] = challenging(challenge)
    refusal(source(f"{address}/spread:v1"))
    shown = [request.headers.get("authorization") for request in web.requests]
    assert shown == [None, f"Basic {_text(f'{USER}:{PASSWORD}'.encode())}"]


def test_the_scope_that_a_registry_names_is_asked_for(web: Web) -> None:
    address = web.url("").removeprefix("http://")
    web.pages[MANIFEST] = challenging(
        f'Bearer realm="{web.url("/token?kept=1")}",service="a b",scope="repository:spread:pull,push"'
    )
    asked = urlencode({"kept": "1", "service": "a b", "scope": "repository:spread:pull,push"})
    web.pages[f"/token?{asked}"] = _json(token="a token")
    refusal(source(f"{address}/spread:v1"))
    assert [request.headers.get("authorization") for request in web.requests] == [None, None, "Bearer a token"]


def test_a_registry_that_asks_for_nothing_and_lets_nobody_in_is_refused(web: Web, logins: Path) -> None:
    address = web.url("").removeprefix("http://")
    web.pages[MANIFEST] = answer(403)
    assert refusal(source(f"{address}/spread:v1")) == (
        f"{address} lets nobody without a login read spread, if it is there at all, and {logins} has none for it;"
        f" `docker login {address}`"
    )
    log_in(logins, address)
    assert refusal(source(f"{address}/spread:v1")) == (
        f"{address} does not let {USER} of {logins} read spread, if it is there at all; `docker login {address}` again,"
        " or have it allowed to"
    )


@pytest.mark.parametrize("status", [401, 403])
def test_what_was_granted_and_has_expired_is_asked_for_again(status: int, web: Web, logins: Path) -> None:
    """Registries say 401 of a token, and Amazon's 403 of a helper's password."""
    address = web.url("").removeprefix("http://")
    basic = {password: f"Basic {_text(f'{USER}:{password}'.encode())}" for password in ("first", "second")}
    valid = [""]

    def closed(conversation: Conversation) -> None:
        shown = conversation.request.headers.get("authorization")
        refused = challenging('Basic realm="registry"') if shown is None else answer(status)
        (answer(404) if shown == basic[valid[0]] else refused)(conversation)

    web.pages[MANIFEST] = closed
    followed = source(f"{address}/spread:v1")
    for password in basic:
        valid[0] = password
        log_in(logins, address, password=password)
        assert refusal(followed) == f"oci://{address}/spread:v1 is not there; push it or mend guestURL"
    shown = [request.headers.get("authorization") for request in web.requests]
    assert shown == [None, basic["first"], basic["first"], None, basic["second"]]
