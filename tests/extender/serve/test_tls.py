"""`kwx serve` with TLS: every route of both ports with every kind of client and every role, and new certificates."""

from __future__ import annotations

import re
import ssl
from collections.abc import Iterator, Mapping
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any, Final, NamedTuple

import httpx
import pytest
from fastapi.routing import APIRoute

from extender.admin.dashboard import actions, pages
from tests.certificates import DAY, SERVER, Authority, Issued
from tests.extender import kwx
from tests.extender.kwx import Extender, plugin, profile
from tests.extender.objects import binding_args, filtered, names_args
from tests.extender.telemetry.test_metrics import counts
from tests.patience import Beside

NAMES: Final = ["CN:kube-scheduler", "URI:spiffe://cluster.example/operator"]
TOKENS: Final = {"read": "a-token-that-reads", "write": "a-token-that-writes"}
DENIED: Final = "the client's certificate has the names CN:stranger, none of which is in server.{key}.clientNames"
WITHOUT_TOKEN: Final = {"/livez", "/readyz", "/metrics", "/openapi.json"}


class Route(NamedTuple):
    """A method and a path of a port."""

    port: str
    method: str
    path: str

    def __str__(self) -> str:
        return f"{self.port}: {self.method} {self.path}"


DASHBOARD: Final = [
    *(
        Route("admin", method, f"/ui{each.path}")
        for each in (*pages.router.routes, *actions.router.routes)
        if isinstance(each, APIRoute)
        for method in sorted(each.methods or ())
    ),
    Route("admin", "GET", "/"),
    Route("admin", "GET", "/ui/static/style.css"),
]


class World(NamedTuple):
    """An extender with TLS on both ports, and who comes there."""

    extender: Extender
    folder: Path
    ca: Authority
    clients: Mapping[str, ssl.SSLContext | None]
    """Those who are not let in, and how they come; None by plain HTTP."""

    def url(self, route: Route) -> str:
        return f"{self.extender.url if route.port == 'verbs' else self.extender.admin_url}{route.path}"

    def routes(self) -> list[Route]:
        """All of both ports, as the application tells them."""
        paths = self.extender.admin.get("/openapi.json").json()["paths"]
        admin = [
            Route("admin", method.upper(), re.sub(r"{.*?}", "1", path))
            for path, item in paths.items()
            for method in item
        ]
        _, problem = self.extender.refuse("/nothing", b"")
        found = re.fullmatch("/nothing is no verb; there are: (.*), each at / and at /profiles/PROFILE/", problem)
        assert found
        verbs = [f"{prefix}/{verb}" for prefix in ("", "/profiles/default") for verb in found[1].split(", ")]
        return [*admin, Route("admin", "GET", "/openapi.json"), *(Route("verbs", "POST", path) for path in verbs)]

    def all_routes(self) -> list[Route]:
        """Those of the dashboard as well, which have no description."""
        return [*self.routes(), *DASHBOARD]


def tls_of(issued: Issued, ca: Authority) -> dict[str, Any]:
    return {
        "certFile": str(issued.cert),
        "keyFile": str(issued.key),
        "clientCAFile": str(ca.file),
        "clientNames": NAMES,
    }


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    folder = tmp_path_factory.mktemp("tls")
    ca, another = Authority(folder), Authority(folder, "another")
    issued = ca.server()
    clients = {
        "plain": None,
        "without a certificate": ca.trusting(),
        "of another CA": ca.trusting(another.issue("other", "kube-scheduler")),
        "expired": ca.trusting(ca.issue("expired", "kube-scheduler", begins=-2 * DAY, ends=-DAY)),
        "a server": ca.trusting(ca.issue("a-server", "kube-scheduler", usage=SERVER)),
        "with another name": ca.trusting(ca.issue("stranger", "stranger")),
    }
    tokens = folder / "tokens.csv"
    tokens.write_text("".join(f"{token},{role}er,{role}\n" for role, token in TOKENS.items()))
    tokens.chmod(0o600)
    server = {"tls": tls_of(issued, ca), "adminTLS": tls_of(issued, ca), "adminTokens": str(tokens)}
    allowed = ca.trusting(ca.issue("operator", "somebody", sans=["URI:spiffe://cluster.example/operator"]))
    plugins = profile("default", plugin("nodenumber"))
    with Extender(folder, plugins, tls=allowed, server=server, cluster={"mode": "dry-run"}) as extender:
        yield World(extender, folder, ca, clients)


def test_both_ports_tell_that_they_speak_tls(world: World) -> None:
    assert [url.partition(":")[0] for url in (world.extender.url, world.extender.admin_url)] == ["https", "https"]
    assert world.extender.post("/filter", names_args(["node-0"])) == filtered(["node-0"])


def test_the_extender_tells_for_which_hosts_its_certificate_is(world: World) -> None:
    bearer = {"Authorization": f"Bearer {TOKENS['read']}"}
    told = world.extender.admin.get("/api/v1/registration", headers=bearer).json()
    assert (told["hasTls"], told["certificateHosts"]) == (True, ["DNS:localhost", "IP:127.0.0.1"])


def test_there_are_routes_of_all_kinds(world: World) -> None:
    """What the next tests go through is not empty by mistake."""
    assert {"/ui/", "/ui/pod", "/ui/swap", "/ui/module", "/ui/sign-in"} <= {each.path for each in DASHBOARD}
    routes = world.routes()
    assert len(routes) == len(set(routes)) >= 25
    assert {"/livez", "/readyz", "/metrics", "/api/v1/plugins/1/swap", "/api/v1/traffic"} <= {
        each.path for each in routes
    }
    assert [str(each) for each in routes if each.port == "verbs"] == [
        f"verbs: POST {prefix}/{verb}"
        for prefix in ("", "/profiles/default")
        for verb in ("filter", "prioritize", "preempt", "bind")
    ]


@pytest.mark.parametrize("who", ["plain", "without a certificate", "of another CA", "expired", "a server"])
def test_who_is_not_known_gets_no_answer_from_any_route_whatever_the_role(world: World, who: str) -> None:
    tls = world.clients[who]
    answered: list[str] = []
    for route, role in product(world.all_routes(), (None, *TOKENS)):
        url = world.url(route).replace("https:", "http:" if tls is None else "https:")
        try:
            answer = ask(tls, route.method, url, role)
        except httpx.TransportError:
            continue
        answered.append(f"{route} with {role}: {answer.status_code}")
    assert answered == []


def test_another_name_is_denied_by_every_route_whatever_the_role(world: World) -> None:
    tls = world.clients["with another name"]
    wrong: list[str] = []
    for route, role in product(world.all_routes(), (None, *TOKENS)):
        answer = ask(tls, route.method, world.url(route), role)
        told = DENIED.format(key="tls" if route.port == "verbs" else "adminTLS")
        expected: dict[str, Any] = {"error": told}
        if route.port == "admin":
            expected = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "message": told}
            expected |= {"reason": "Forbidden", "code": 403}
        if (answer.status_code, answer.json()) != (403, expected):
            wrong.append(f"{route} with {role}: {answer.status_code} {answer.text}")
    assert wrong == []


def test_an_allowed_name_does_not_spare_the_token_and_a_token_not_the_role(world: World) -> None:
    """By role: what comes before the request is looked at. None of these requests is one, so nothing is changed."""
    wrong: list[str] = []
    for route, role in product(world.routes(), (None, *TOKENS)):
        if route.path in {"/api/v1/events", "/api/v1/traffic"} and role:
            continue  # They go on.
        answer = ask(world.extender._tls, route.method, world.url(route), role, b"{")
        if (answer.status_code in {401, 403}) != (answer.status_code == expected_denial(route, role)):
            wrong.append(f"{route} with {role}: {answer.status_code}, not {expected_denial(route, role)}")
    assert wrong == []


def expected_denial(route: Route, role: str | None) -> int | None:
    """The status for who may not use a route, by the role."""
    if route.port == "verbs" or route.path in WITHOUT_TOKEN:
        return None
    if role is None:
        return 401
    return 403 if role == "read" and route.method != "GET" else None


def ask(tls: ssl.SSLContext | None, method: str, url: str, role: str | None, body: bytes = b"{}") -> httpx.Response:
    token = {"Authorization": f"Bearer {TOKENS[role]}"} if role else {}
    headers = {"Content-Type": "application/json", **token}
    with httpx.Client(verify=tls or False, trust_env=False, timeout=30) as client:
        return client.request(method, url, content=body, headers=headers)


# -- new certificates ------------------------------------------------------------------------------


def put(folder: Path, new: Path) -> None:
    """As the kubelet does it."""
    (folder / "..new").symlink_to(new.name)
    (folder / "..new").rename(folder / "..data")


@pytest.fixture
def rotating(tmp_path: Path) -> tuple[Authority, dict[str, Any]]:
    """A CA, and the section of a server whose certificates are in links by way of `..data`."""
    ca = Authority(tmp_path)
    ca.server("tls", tmp_path / "..1")
    put(tmp_path, tmp_path / "..1")
    links = Issued(tmp_path / "tls.crt", tmp_path / "tls.key")
    for link in links:
        link.symlink_to(Path("..data", link.name))
    return ca, {"tls": tls_of(links, ca), "adminTLS": tls_of(links, ca)}


def shown(tls: ssl.SSLContext, url: str) -> int:
    """The number of the certificate that a new connection gets."""
    with httpx.Client(verify=tls, trust_env=False) as client, client.stream("GET", url) as answer:
        found = answer.extensions["network_stream"].get_extra_info("ssl_object").getpeercert()
        return int(found["serialNumber"], 16)


def is_shown(tls: ssl.SSLContext, url: str, issued: Issued) -> bool:
    return shown(tls, url) == issued.serial


def test_new_certificates_are_taken_under_load_without_a_failed_request(
    tmp_path: Path, rotating: tuple[Authority, dict[str, Any]]
) -> None:
    ca, server = rotating
    tls = ca.trusting(ca.issue("scheduler", "kube-scheduler"))
    with Extender(tmp_path, profile("default", plugin("nodenumber")), tls=tls, server=server) as extender:
        is_over = False

        def go_on(*, keep: bool) -> tuple[int, int]:
            """Asks until it is over: how many requests were answered, by how many certificates."""
            asked, serials = 0, set()
            kept = kwx.client(extender.url, tls)
            while not is_over:
                with kwx.client(extender.url, tls) as new:
                    answer = (kept if keep else new).post("/filter", json=names_args(["node-0"]))
                    assert answer.json() == filtered(["node-0"])
                asked += 1
                if not keep:
                    serials.add(shown(tls, f"{extender.url}/nothing"))
            kept.close()
            return asked, len(serials)

        asking = [Beside(partial(go_on, keep=keep)) for keep in (True, True, False)]
        for number in (2, 3):
            new = ca.server("tls", tmp_path / f"..{number}")
            put(tmp_path, new.cert.parent)
            for url in (extender.url, f"{extender.admin_url}/livez"):
                extender.wait_until(partial(is_shown, tls, url, new))
        is_over = True
        answered = [each.end() for each in asking]
        assert all(asked > 0 for asked, _ in answered)
        assert answered[2][1] == 3, "a new connection gets the new certificate"
        assert {line["event"] for line in extender.log()} == {"serving", "certificates read again"}
        ended = counts(extender, "kwx_tls_handshakes", "_total")
        assert {labels for labels, count in ended.items() if count} == {("verbs", "done"), ("admin", "done")}


def test_broken_new_certificates_are_told_and_those_from_before_serve(
    tmp_path: Path, rotating: tuple[Authority, dict[str, Any]]
) -> None:
    ca, server = rotating
    tls = ca.trusting(ca.issue("scheduler", "kube-scheduler"))
    with Extender(tmp_path, profile("default", plugin("nodenumber")), tls=tls, server=server) as extender:
        before = shown(tls, extender.url)
        broken = ca.server("tls", tmp_path / "..2")
        broken.key.write_text("none")
        broken.key.chmod(0o600)
        put(tmp_path, broken.key.parent)
        problem = (
            f"the certificates from before stay in force: keyFile: {tmp_path / 'tls.key'} has no private key that can"
            " be read; expected PEM"
        )
        extender.wait_until(lambda: len(extender.log()) == 3)
        assert {line["event"] for line in extender.log()} == {
            "serving",
            f"the new certificates of server.adminTLS cannot be used, {problem}",
            f"the new certificates of server.tls cannot be used, {problem}",
        }
        report = extender.admin.get("/readyz?verbose").text.splitlines()
        assert [line for line in report if "tls" in line.lower()] == [
            f"[+]tls ok, but {problem}",
            f"[+]adminTLS ok, but {problem}",
        ]
        assert counts(extender, "kwx_tls_outdated", "") == {("verbs",): 1, ("admin",): 1}
        assert shown(tls, extender.url) == before
        mended = ca.server("tls", tmp_path / "..3")
        put(tmp_path, mended.key.parent)
        extender.wait_until(lambda: shown(tls, extender.url) == mended.serial)
        extender.wait_until(lambda: counts(extender, "kwx_tls_outdated", "") == {("verbs",): 0, ("admin",): 0})
        assert "[+]tls ok" in extender.admin.get("/readyz?verbose").text.splitlines()
        days = counts(extender, "kwx_tls_days_left", "")
        assert {labels: round(left) for labels, left in days.items()} == {
            (server, file): left
            for file, left in (("certFile", 5), ("clientCAFile", 10))
            for server in ("verbs", "admin")
        }


# -- where TLS has to be ---------------------------------------------------------------------------


def test_files_that_cannot_be_used_stop_the_start_with_all_problems(tmp_path: Path) -> None:
    tls = {"certFile": "no.crt", "keyFile": "no.key", "clientCAFile": "no-ca.crt"}
    content = kwx.configuration(profile("default", plugin("nodenumber")), server={"tls": tls, "adminTLS": tls})
    config = kwx.write(tmp_path, content)
    assert kwx.problems(kwx.run("serve", "--config", config, home=tmp_path), config) == [
        f"server.{key}.{name}: {tmp_path / file} cannot be read: No such file or directory"
        for key in ("tls", "adminTLS")
        for name, file in (("certFile", "no.crt"), ("keyFile", "no.key"), ("clientCAFile", "no-ca.crt"))
    ]


UNVERIFIED: Final = (
    "bind refused: pod default/web-7 could be bound by whoever reaches server.address, which is off loopback and asks"
    " for no certificates; set server.tls.clientCAFile, or take bindVerb out of the scheduler's extender"
)


@pytest.mark.parametrize("has_tls", [False, True])
def test_off_loopback_bind_is_for_verified_clients_alone(tmp_path: Path, has_tls: bool) -> None:
    ca = Authority(tmp_path)
    issued = ca.server()
    tls = {"certFile": str(issued.cert), "keyFile": str(issued.key)}
    more: dict[str, Any] = {"tls": tls} if has_tls else {"allowUnencrypted": True}
    server = {"address": "0.0.0.0:0", **more}
    context = ca.trusting() if has_tls else None
    with Extender(
        tmp_path, profile("default", plugin("nodenumber")), tls=context, server=server, cluster={"mode": "dry-run"}
    ) as extender:
        url = extender.url.replace("0.0.0.0", "127.0.0.1")
        with kwx.client(url, context) as client:
            assert client.post("/filter", json=names_args(["node-0"])).json() == filtered(["node-0"])
            assert client.post("/bind", json=binding_args("node-0")).json() == {"Error": UNVERIFIED}
    with (
        Extender(
            tmp_path,
            profile("default", plugin("nodenumber")),
            tls=ca.trusting(ca.issue("scheduler", "kube-scheduler")),
            server={"address": "0.0.0.0:0", "tls": tls | {"clientCAFile": str(ca.file)}},
            cluster={"mode": "dry-run"},
        ) as extender,
        kwx.client(extender.url.replace("0.0.0.0", "127.0.0.1"), extender._tls) as client,
    ):
        client.post("/filter", json=names_args(["node-0"]))
        assert client.post("/bind", json=binding_args("node-0")).json() == {"Error": ""}
