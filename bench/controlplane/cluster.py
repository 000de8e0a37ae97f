"""A control plane of its own on loopback: etcd, kube-apiserver, kwok's fake nodes, and stock schedulers."""

from __future__ import annotations

import atexit
import itertools
import ssl
import subprocess
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from copy import copy
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from types import TracebackType
from typing import Any, Literal

import httpx

from .binaries import Binaries, build
from .credentials import User, signing_key, token_file, write_kubeconfig, write_private
from .ports import LOOPBACK, free_port
from .process import Command, ControlPlaneError, Process, answers, comes_true, isolated_environment

UserName = Literal["admin", "scheduler"]

START_TIMEOUT_S = 60.0
COMMAND_TIMEOUT_S = 60.0
TOKEN_LIFETIME_S = 30 * 24 * 3600
FAKE_NODE = ("kwok.x-k8s.io/node", "fake")
POD_ENDS = Path(__file__).parent / "kwok" / "pod-ends.yaml"
DEFAULT_ALLOCATABLE = {"cpu": "32", "memory": "256Gi", "pods": "110"}
# Without a controller manager nobody makes default service accounts, and nobody takes the not-ready taint
# off a node again: these two plugins would keep every pod out.
DISABLED_ADMISSION_PLUGINS = ("ServiceAccount", "TaintNodesByCondition")


class ControlPlane:
    """A running control plane; a context manager that ends all it started, and its directory, on exit.

    There is no controller manager: no workload controllers, no garbage collection, no namespace deletion.
    Pods bound to nodes of `create_nodes` become Running, and end a second after they are deleted. What is started
    never outlives this process; on Linux not even when it is killed (see Process for the thread to start it from). A
    part that died or was late raises ControlPlaneError, with the end of its log, from whatever start, wait or API call
    meets it first.
    """

    directory: Path
    """Private to this control plane: data, certificates, kubeconfig files, logs."""
    server: str
    """The API server's https URL."""
    client: httpx.Client
    """An admin's client of the API server: takes paths such as `/api/v1/nodes`, checks the certificate."""

    def __init__(self, binaries: Binaries | None = None, api_server_flags: Sequence[str] = ()) -> None:
        """Nothing starts yet. Without `binaries` they are built, or taken from the cache, on entering.

        The API server is given `api_server_flags` as well.
        """
        self._binaries = binaries
        self._api_server_flags = api_server_flags
        self._users = {"admin": User("admin", ("system:masters",)), "scheduler": User("system:kube-scheduler")}
        self._processes: list[Process] = []
        self._schedulers = itertools.count()
        self._cleanup = ExitStack()

    def __enter__(self) -> ControlPlane:
        self._binaries = self._binaries or build()
        atexit.register(self.stop)
        try:
            directory = TemporaryDirectory(prefix="kwx-controlplane-", ignore_cleanup_errors=True)
            self.directory = Path(self._cleanup.enter_context(directory))
            self._start_api_server(self._start_etcd())
            self._connect()
            self._start_kwok()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.stop()

    def stop(self) -> None:
        """End everything, the last started first, and remove the directory. May be called again."""
        atexit.unregister(self.stop)
        self._cleanup.close()

    @property
    def binaries(self) -> Binaries:
        """The programs in use, known once entered."""
        if self._binaries is None:
            raise ControlPlaneError("the control plane has not been started")
        return self._binaries

    def with_scheduler(self, program: Path) -> ControlPlane:
        """The same running control plane with another program as the stock scheduler."""
        other = copy(self)
        other._binaries = replace(self.binaries, kube_scheduler=program)
        return other

    @property
    def processes(self) -> tuple[Process, ...]:
        """All that was ever started and became ready, in that order."""
        return tuple(self._processes)

    @property
    def certificate_authority(self) -> Path:
        """The PEM file to trust: the certificate that the API server made for itself."""
        return self.directory / "certificates" / "apiserver.crt"

    def kubeconfig(self, user: UserName = "admin") -> Path:
        """The kubeconfig of an admin (system:masters) or of system:kube-scheduler."""
        return self.directory / f"{user}.kubeconfig"

    def service_account_kubeconfig(self, namespace: str, name: str) -> Path:
        """A kubeconfig with a real token, good for TOKEN_LIFETIME_S, of a service account that exists.

        Raises httpx.HTTPStatusError where it does not.
        """
        body = {
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenRequest",
            "spec": {"expirationSeconds": TOKEN_LIFETIME_S},
        }
        path = f"/api/v1/namespaces/{namespace}/serviceaccounts/{name}/token"
        token = _checked(self.client.post(path, json=body))["status"]["token"]
        target = self.directory / f"{namespace}.{name}.kubeconfig"
        return write_kubeconfig(target, self.server, self.certificate_authority, token)

    def create_nodes(
        self,
        count: int,
        *,
        name: str = "node-{}",
        labels: Mapping[str, str] | None = None,
        allocatable: Mapping[str, str] | None = None,
        timeout: float = 60.0,
    ) -> list[str]:
        """Create `count` fake nodes, wait at most `timeout` seconds until all are Ready; returns their names.

        `name` is a format that gets 0 to count-1. Every node has the label kubernetes.io/hostname and
        `labels`. `allocatable` is the capacity too, DEFAULT_ALLOCATABLE without it.
        """
        names = [name.format(index) for index in range(count)]
        for node in names:
            manifest = fake_node(node, labels or {}, allocatable or DEFAULT_ALLOCATABLE)
            _checked(self.client.post("/api/v1/nodes", json=manifest))
        self.wait_until(lambda: set(names) <= self._ready_nodes(), f"{count} Ready nodes", timeout)
        return names

    def clear(self) -> None:
        """Delete all pods, events and nodes, so that one test leaves none to the next."""
        for namespace in _checked(self.client.get("/api/v1/namespaces"))["items"]:
            root = f"/api/v1/namespaces/{namespace['metadata']['name']}"
            _checked(self.client.delete(f"{root}/pods", params={"gracePeriodSeconds": 0}))
            _checked(self.client.delete(f"{root}/events"))
        _checked(self.client.delete("/api/v1/nodes"))

    def end_kwok(self) -> None:
        """Ends kwok: nodes stay as they are, pods stay Pending where they are bound, and nobody renews leases."""
        next(process for process in self._processes if process.name == "kwok").stop()

    def restart_api_server(self) -> None:
        """Ends kube-apiserver as a crash does, and starts it anew, with the same data at the same address."""
        old = next(process for process in reversed(self._processes) if process.name == "kube-apiserver")
        old.kill()
        self._start("kube-apiserver", self._api_server, f"{self.server}/readyz")

    def start_scheduler(
        self,
        config: Path,
        port: int | None = None,
        program: Path | None = None,
        flags: Sequence[str] = (),
        *,
        may_end: bool = False,
    ) -> Process:
        """Start a kube-scheduler with the KubeSchedulerConfiguration in `config`, and wait until it is ready.

        The configuration names its own kubeconfig. The result can be stopped, and another one started. Anybody may
        read its metrics, by https at `port` of LOOPBACK. `program` is a scheduler with more plugins than the stock one;
        `flags` are given to it as well. One that `may_end` is not looked after: a leader ends when it loses its Lease.
        """
        port = port or free_port()
        name = f"kube-scheduler-{next(self._schedulers)}"
        command: Command = [
            program or self.binaries.kube_scheduler,
            f"--config={config}",
            *_serving_flags(port),
            "--authorization-always-allow-paths=/healthz,/readyz,/livez,/metrics",
            *flags,
        ]
        return self._start(name, command, f"https://{LOOPBACK}:{port}/readyz", may_end=may_end)

    def scheduler_config_errors(self, config: Path) -> str:
        """What kube-scheduler's strict decoding and validation say against `config`; empty where it accepts it."""
        target = self.directory / "accepted-scheduler-config.yaml"
        command: Command = [
            self.binaries.kube_scheduler,
            f"--config={config}",
            f"--write-config-to={target}",
            *_serving_flags(free_port()),
        ]
        answer = self._run(command)
        return "" if answer.returncode == 0 else answer.stderr.strip()

    def kubectl(self, *arguments: str, user: UserName = "admin", stdin: str | None = None) -> str:
        """Run kubectl as `user`; returns its standard output. A failure raises ControlPlaneError with its errors."""
        command: Command = [self.binaries.kubectl, f"--kubeconfig={self.kubeconfig(user)}", *arguments]
        answer = self._run(command, stdin)
        if answer.returncode != 0:
            raise ControlPlaneError(f"kubectl {' '.join(arguments)} failed:\n{answer.stderr.strip()}")
        return answer.stdout

    def wait_until(self, condition: Callable[[], bool], what: str, timeout: float = 30.0) -> None:
        """Wait at most `timeout` seconds for `condition`; a ControlPlaneError says that `what` did not come."""
        if not comes_true(condition, self.check, timeout):
            raise ControlPlaneError(f"no {what} in {timeout:g} s")

    def check(self) -> None:
        """Raise ControlPlaneError where a part has died."""
        for process in self._processes:
            process.check()

    def _start_etcd(self) -> str:
        client, peer = (f"http://{LOOPBACK}:{free_port()}" for _ in range(2))
        command: Command = [
            self.binaries.etcd,
            f"--data-dir={self.directory / 'etcd'}",
            f"--listen-client-urls={client}",
            f"--advertise-client-urls={client}",
            f"--listen-peer-urls={peer}",
            f"--initial-advertise-peer-urls={peer}",
            f"--initial-cluster=default={peer}",
            "--unsafe-no-fsync",
            "--log-level=warn",
        ]
        self._start("etcd", command, f"{client}/readyz")
        return client

    def _start_api_server(self, etcd: str) -> None:
        port = free_port()
        self.server = f"https://{LOOPBACK}:{port}"
        key = write_private(self.directory / "service-account.key", signing_key())
        tokens = write_private(self.directory / "tokens.csv", token_file(self._users.values()))
        self._api_server: Command = [
            self.binaries.kube_apiserver,
            f"--etcd-servers={etcd}",
            *_serving_flags(port),
            f"--advertise-address={LOOPBACK}",
            f"--cert-dir={self.certificate_authority.parent}",
            f"--token-auth-file={tokens}",
            "--authorization-mode=RBAC",
            f"--service-account-key-file={key}",
            f"--service-account-signing-key-file={key}",
            "--service-account-issuer=https://kubernetes.default.svc",
            "--service-cluster-ip-range=10.0.0.0/24",
            "--endpoint-reconciler-type=none",
            f"--disable-admission-plugins={','.join(DISABLED_ADMISSION_PLUGINS)}",
            *self._api_server_flags,
        ]
        self._start("kube-apiserver", self._api_server, f"{self.server}/readyz")

    def _connect(self) -> None:
        for name, user in self._users.items():
            write_kubeconfig(self.directory / f"{name}.kubeconfig", self.server, self.certificate_authority, user.token)
        self.client = httpx.Client(
            base_url=self.server,
            headers={"Authorization": f"Bearer {self._users['admin'].token}"},
            transport=DiagnosingTransport(self.certificate_authority, self.check),
            timeout=30.0,
        )
        self._cleanup.callback(self.client.close)
        self.wait_until(
            lambda: self.client.get("/api/v1/namespaces/default").is_success, "default namespace", START_TIMEOUT_S
        )

    def _start_kwok(self) -> None:
        address = f"{LOOPBACK}:{free_port()}"
        command: Command = [
            self.binaries.kwok,
            f"--kubeconfig={self.kubeconfig('admin')}",
            f"--config={self.binaries.kwok_stages}",
            f"--config={POD_ENDS}",
            f"--manage-nodes-with-annotation-selector={'='.join(FAKE_NODE)}",
            f"--server-address={address}",
        ]
        self._start("kwok", command, f"http://{address}/readyz")

    def _start(self, name: str, command: Command, ready_url: str, *, may_end: bool = False) -> Process:
        process = Process(name, command, self.directory)
        self._cleanup.callback(process.stop)
        try:
            process.wait_until(lambda: answers(ready_url), START_TIMEOUT_S)
        except ControlPlaneError:
            process.stop()
            raise
        if not may_end:
            self._processes.append(process)
        return process

    def _run(self, command: Command, stdin: str | None = None) -> subprocess.CompletedProcess[str]:
        try:
            return subprocess.run(
                command,
                cwd=self.directory,
                env=isolated_environment(self.directory),
                input=stdin or "",
                capture_output=True,
                text=True,
                timeout=COMMAND_TIMEOUT_S,
                check=False,
            )
        except subprocess.TimeoutExpired as error:
            raise ControlPlaneError(f"{error}") from error

    def _ready_nodes(self) -> set[str]:
        nodes = _checked(self.client.get("/api/v1/nodes", params={"resourceVersion": "0"}))["items"]
        return {node["metadata"]["name"] for node in nodes if _is_ready(node)}


class DiagnosingTransport(httpx.HTTPTransport):
    """Connections that trust one authority; when one fails, `check` may raise with the better reason."""

    def __init__(self, certificate_authority: Path, check: Callable[[], None]) -> None:
        """No proxy and no other setting of the environment counts."""
        context = ssl.create_default_context(cafile=str(certificate_authority))
        super().__init__(verify=context, trust_env=False)
        self._check = check

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        """Send one request."""
        try:
            return super().handle_request(request)
        except httpx.TransportError:
            self._check()
            raise


def fake_node(name: str, labels: Mapping[str, str], allocatable: Mapping[str, str]) -> dict[str, Any]:
    """The manifest of a node that kwok makes Ready."""
    key, value = FAKE_NODE
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "annotations": {key: value},
            "labels": {"kubernetes.io/hostname": name, **labels},
        },
        "status": {"allocatable": dict(allocatable), "capacity": dict(allocatable)},
    }


def _serving_flags(port: int) -> list[str]:
    return [f"--bind-address={LOOPBACK}", f"--secure-port={port}"]


def _is_ready(node: dict[str, Any]) -> bool:
    conditions = node["status"].get("conditions", [])
    return any(condition["type"] == "Ready" and condition["status"] == "True" for condition in conditions)


def _checked(response: httpx.Response) -> Any:
    """The decoded body of a response; a refusal raises httpx.HTTPStatusError with the server's own message."""
    if response.is_error:
        message = f"{response.request.method} {response.request.url}: {response.status_code} {response.text}"
        raise httpx.HTTPStatusError(message, request=response.request, response=response)
    return response.json()
