"""Requests carry the credentials of the moment, and what goes wrong is named."""

from __future__ import annotations

import asyncio
import json
import shutil
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path

import certifi
import kubernetes
import pytest
from kubernetes.config import incluster_config

from bench.controlplane import ControlPlane
from bench.peers.kubeconfig import write_kubeconfig
from extender.cluster import ApiServer, ClusterError
from extender.cluster.client.api import ApiRequest
from extender.cluster.client.errors import RefusedError, UnauthorizedError, UnreachableError, UntrustedError
from tests.extender.cluster.scripted import ScriptedServer, answer, hang_up, say_nothing, stream

LIST = ApiRequest("list", "nodes", "/api/v1/nodes", {"limit": "1"})
OK = answer(200, b"fine")
CREDENTIAL_PLUGIN = """
import json, pathlib
directory = pathlib.Path({directory!r})
with (directory / "runs").open("a") as runs:
    runs.write(".")
print(json.dumps({{
    "apiVersion": "client.authentication.k8s.io/v1",
    "kind": "ExecCredential",
    "status": {{"token": (directory / "token").read_text(), "expirationTimestamp": {expiry!r}}},
}}))
"""
LONG_AGO = "2020-01-01T00:00:00Z"
FAR_AWAY = "2999-01-01T00:00:00Z"


def tokens(server: ScriptedServer) -> list[str]:
    """The token of each request."""
    return [got.headers.get("authorization", "").removeprefix("Bearer ") for got in server.received]


def kubeconfig_with_plugin(directory: Path, server: str, expiry: str) -> Path:
    """A kubeconfig whose tokens come from a program that reads the file `token`."""
    program = directory / "plugin.py"
    program.write_text(CREDENTIAL_PLUGIN.format(directory=str(directory), expiry=expiry))
    exec_config = {
        "apiVersion": "client.authentication.k8s.io/v1",
        "command": sys.executable,
        "args": [str(program)],
        "interactiveMode": "Never",
    }
    return write_kubeconfig(directory / "config", {"server": server}, {"exec": exec_config})


def play(scenario: Callable[[], Awaitable[None]]) -> None:
    """Run a scenario on an event loop of its own."""

    async def run() -> None:
        await asyncio.wait_for(scenario(), 30)

    asyncio.run(run())


def test_a_request_asks_for_plain_protobuf_below_the_path_of_the_server(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with ScriptedServer(OK) as server:
            config = write_kubeconfig(tmp_path / "config", {"server": f"{server.url}/k8s/clusters/c-1"})
            api = ApiServer.from_kubeconfig(config)
            assert await api.call(LIST, 5) == b"fine"
            await api.aclose()
            (got,) = server.received
            assert (got.method, got.target) == ("GET", "/k8s/clusters/c-1/api/v1/nodes?limit=1")
            assert got.headers["accept"] == "application/vnd.kubernetes.protobuf"
            assert got.headers["accept-encoding"] == "identity"
            assert "authorization" not in got.headers

    play(scenario)


def test_basic_authentication_is_sent(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with ScriptedServer(OK) as server:
            user = {"username": "aladdin", "password": "sesame"}
            api = ApiServer.from_kubeconfig(write_kubeconfig(tmp_path / "config", {"server": server.url}, user))
            await api.call(LIST, 5)
            await api.aclose()
            assert server.received[0].headers["authorization"] == "Basic YWxhZGRpbjpzZXNhbWU="

    play(scenario)


def test_an_expired_token_of_a_credential_plugin_is_replaced_before_it_is_sent(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with ScriptedServer(OK) as server:
            (tmp_path / "token").write_text("first")
            api = ApiServer.from_kubeconfig(kubeconfig_with_plugin(tmp_path, server.url, LONG_AGO))
            await api.call(LIST, 5)
            (tmp_path / "token").write_text("second")
            await api.call(LIST, 5)
            await api.aclose()
            assert tokens(server) == ["first", "second"]

    play(scenario)


def test_a_token_that_is_refused_is_loaded_anew_and_the_request_repeated(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with ScriptedServer(answer(401, b'{"kind":"Status","message":"Unauthorized"}'), OK) as server:
            (tmp_path / "token").write_text("old")
            user = {"tokenFile": "token"}
            api = ApiServer.from_kubeconfig(write_kubeconfig(tmp_path / "config", {"server": server.url}, user))
            (tmp_path / "token").write_text("new\n")
            assert await api.call(LIST, 5) == b"fine"
            await api.aclose()
            assert tokens(server) == ["old", "new"]

    play(scenario)


def test_credentials_that_stay_wrong_are_told_and_not_loaded_for_every_request(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with ScriptedServer(answer(401, b'{"kind":"Status","message":"Unauthorized"}')) as server:
            (tmp_path / "token").write_text("wrong")
            config = kubeconfig_with_plugin(tmp_path, server.url, FAR_AWAY)
            api = ApiServer.from_kubeconfig(config)
            for _ in range(3):
                with pytest.raises(UnauthorizedError) as caught:
                    await api.call(LIST, 5)
            await api.aclose()
            assert str(caught.value) == (
                f"list nodes: {server.url} answered 401: Unauthorized; "
                f"the credentials are missing, wrong or expired: renew those of the kubeconfig {config}"
            )
            assert (tmp_path / "runs").read_text() == ".."

    play(scenario)


def test_a_credential_plugin_that_failed_once_is_asked_again(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def scenario() -> None:
        anonymous = answer(
            403, b'{"kind": "Status", "message": "nodes is forbidden: User \\"system:anonymous\\" cannot list nodes"}'
        )
        async with ScriptedServer(anonymous, OK) as server:
            config = kubeconfig_with_plugin(tmp_path, server.url, FAR_AWAY)
            api = ApiServer.from_kubeconfig(config)  # the plugin has no token to read
            (tmp_path / "token").write_text("first")
            assert await api.call(LIST, 5) == b"fine"
            await api.aclose()
            assert tokens(server) == ["", "first"]

    play(scenario)
    assert "FileNotFoundError" in caplog.text


def test_credentials_that_vanished_leave_the_refusal_as_the_answer(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario() -> None:
        async with ScriptedServer(answer(401, b"who?")) as server:
            config = write_kubeconfig(tmp_path / "config", {"server": server.url}, {"token": "old"})
            api = ApiServer.from_kubeconfig(config)
            config.unlink()
            with pytest.raises(UnauthorizedError):
                await api.call(LIST, 5)
            await api.aclose()

    play(scenario)
    assert [record.__dict__["error"] for record in caplog.records if "renewed" in record.message] == [
        f"kubeconfig {tmp_path / 'config'} does not exist: set cluster.kubeconfig to a file that does, "
        "or cluster.mode to in-cluster, dry-run or none"
    ]


@pytest.mark.parametrize("token", ["open\nsesame", "open-sésame", "open\x00sesame"])
def test_a_token_that_no_header_can_carry_is_not_quoted(tmp_path: Path, token: str) -> None:
    async def scenario() -> None:
        async with ScriptedServer(OK) as server:
            (tmp_path / "token").write_text(token)
            user = {"tokenFile": "token"}
            api = ApiServer.from_kubeconfig(write_kubeconfig(tmp_path / "config", {"server": server.url}, user))
            with pytest.raises(ClusterError) as caught:
                await api.call(LIST, 5)
            await api.aclose()
            expected = f"the token for {server.url} has characters that no HTTP header can carry"
            assert str(caught.value) == expected
            assert not server.received

    play(scenario)


def test_a_forbidden_request_names_what_a_role_must_allow(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with ScriptedServer(answer(403, b'{"kind":"Status","message":"nodes is forbidden"}')) as server:
            api = ApiServer.from_kubeconfig(write_kubeconfig(tmp_path / "config", {"server": server.url}))
            with pytest.raises(RefusedError) as caught:
                await api.call(LIST, 5)
            await api.aclose()
            assert str(caught.value) == (
                f"list nodes: {server.url} answered 403: nodes is forbidden; RBAC must allow the verb list on nodes"
            )

    play(scenario)


def test_a_server_that_nobody_runs_is_unreachable(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with ScriptedServer(OK) as server:
            url = server.url
        api = ApiServer.from_kubeconfig(write_kubeconfig(tmp_path / "config", {"server": url}))
        with pytest.raises(UnreachableError, match=f"list nodes: {url} cannot be reached: .*[Cc]onnect"):
            await api.call(LIST, 5)
        await api.aclose()

    play(scenario)


@pytest.mark.parametrize(
    ("server", "problem"),
    [
        ("127.0.0.1:6443", "missing an 'http://' or 'https://' protocol"),
        ("https://host:port", "cannot use the address https://host:port or its proxy: Invalid port"),
        ("https://[::1", "config cannot be read: ValueError: Invalid IPv6 URL"),
        ("https://host.invalid", "https://host.invalid cannot be reached: .*[Nn]ame"),
    ],
)
def test_an_address_that_is_none_is_named(tmp_path: Path, server: str, problem: str) -> None:
    async def scenario() -> None:
        with pytest.raises(ClusterError, match=problem):
            api = ApiServer.from_kubeconfig(write_kubeconfig(tmp_path / "config", {"server": server}))
            try:
                await api.call(LIST, 5)
            finally:
                await api.aclose()

    play(scenario)


def test_an_answer_that_does_not_come_ends_with_the_time_for_it(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with ScriptedServer(say_nothing) as server:
            api = ApiServer.from_kubeconfig(write_kubeconfig(tmp_path / "config", {"server": server.url}))
            with pytest.raises(UnreachableError) as caught:
                await api.call(LIST, 0.2)
            await api.aclose()
            assert str(caught.value) == f"list nodes: no answer of {server.url} within 0.2 s"

    play(scenario)


def test_an_answer_that_trickles_ends_with_the_time_for_it(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with ScriptedServer(stream(*[b"."] * 10_000)) as server:
            api = ApiServer.from_kubeconfig(write_kubeconfig(tmp_path / "config", {"server": server.url}))
            with pytest.raises(UnreachableError, match=r"no answer of .* within 0.3 s"):
                await api.call(LIST, 0.3)
            await api.aclose()

    play(scenario)


class InstantServer(ApiServer):
    """Answers without a network, so that a cancellation can be made to meet the answer."""

    async def _read(self, request: ApiRequest, timeout: float, limit: int) -> bytes:  # noqa: ARG002
        await asyncio.sleep(0)
        return b"fine"


@pytest.mark.parametrize("steps", range(8))
def test_a_call_can_be_cancelled_at_any_moment(tmp_path: Path, steps: int) -> None:
    async def scenario() -> None:
        api = InstantServer.from_kubeconfig(write_kubeconfig(tmp_path / "config", {"server": "http://127.0.0.1:1"}))

        async def ask() -> None:
            for _ in range(8):
                await api.call(LIST, 5)

        task = asyncio.create_task(ask())
        for _ in range(steps):
            await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await api.aclose()

    play(scenario)


def test_a_connection_that_is_cut_is_unreachable(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with ScriptedServer(hang_up) as server:
            api = ApiServer.from_kubeconfig(write_kubeconfig(tmp_path / "config", {"server": server.url}))
            with pytest.raises(UnreachableError, match="gave no whole answer: Server disconnected"):
                await api.call(LIST, 5)
            await api.aclose()

    play(scenario)


@pytest.mark.skipif(
    int(kubernetes.__version__.split(".")[0]) < 37,
    reason="the Kubernetes client reads proxy-url from release 37 on: run the tests by Python 3.11 or newer",
)
def test_a_proxy_of_the_kubeconfig_is_used(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with ScriptedServer(OK) as proxy:
            cluster = {"server": "http://apiserver.invalid", "proxy-url": proxy.url}
            api = ApiServer.from_kubeconfig(write_kubeconfig(tmp_path / "config", cluster))
            assert await api.call(LIST, 5) == b"fine"
            await api.aclose()
            assert proxy.received[0].target == "http://apiserver.invalid/api/v1/nodes?limit=1"

    play(scenario)


def test_a_certificate_that_is_not_trusted_is_named_until_the_right_authority_is_there(
    tmp_path: Path, control_plane: ControlPlane
) -> None:
    async def scenario() -> None:
        authority = tmp_path / "ca.crt"
        shutil.copy(certifi.where(), authority)  # authorities, but not the right one
        config = tmp_path / "config"
        cluster = {"server": control_plane.server, "certificate-authority": str(authority)}
        write_kubeconfig(config, cluster, {"token": "anybody"})
        api = ApiServer.from_kubeconfig(config)
        with pytest.raises(UntrustedError, match=r"https://.* is not trusted: .*certificate verify failed"):
            await api.call(LIST, 5)
        await api.aclose()

        api = ApiServer.from_kubeconfig(config)
        shutil.copy(control_plane.certificate_authority, authority)
        with pytest.raises(UnauthorizedError):  # so the server is trusted now
            await api.call(LIST, 5)
        await api.aclose()

    play(scenario)


@pytest.mark.parametrize("name", ["kubernetes.default", "somebody.example"])
def test_the_name_to_verify_can_be_another_than_the_address(
    tmp_path: Path, control_plane: ControlPlane, name: str
) -> None:
    async def scenario() -> None:
        config = write_kubeconfig(
            tmp_path / "config",
            {
                "server": control_plane.server,
                "certificate-authority": str(control_plane.certificate_authority),
                "tls-server-name": name,
            },
        )
        api = ApiServer.from_kubeconfig(config)
        # An anonymous request is refused by a server that is trusted.
        expected = RefusedError if name == "kubernetes.default" else UntrustedError
        with pytest.raises(expected):
            await api.call(LIST, 5)
        await api.aclose()

    play(scenario)


def test_a_pod_uses_the_token_of_its_service_account_as_it_is_rotated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, control_plane: ControlPlane
) -> None:
    token_file = tmp_path / "token"
    host, port = control_plane.server.removeprefix("https://").split(":")
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", host)
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", port)
    monkeypatch.setattr(incluster_config, "SERVICE_TOKEN_FILENAME", str(token_file))
    monkeypatch.setattr(incluster_config, "SERVICE_CERT_FILENAME", str(control_plane.certificate_authority))

    async def scenario() -> None:
        token_file.write_text("expired")
        api = ApiServer.in_cluster()
        token_file.write_text(service_account_token(control_plane))
        with pytest.raises(RefusedError) as caught:
            await api.call(LIST, 5)
        await api.aclose()
        assert 'User "system:serviceaccount:default:rotated" cannot list resource "nodes"' in str(caught.value)

    play(scenario)


def service_account_token(control_plane: ControlPlane) -> str:
    """A token of a service account that may do nothing."""
    accounts = "/api/v1/namespaces/default/serviceaccounts"
    control_plane.client.post(accounts, json={"metadata": {"name": "rotated"}})
    answer = control_plane.client.post(f"{accounts}/rotated/token", json={"spec": {"expirationSeconds": 600}})
    return str(json.loads(answer.content)["status"]["token"])
