"""Requests to the API server that cost next to nothing: prepared bytes, connections that stay open."""

from __future__ import annotations

import ssl
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from datetime import datetime, timezone
from http.client import HTTPException, HTTPResponse, HTTPSConnection
from typing import Final
from urllib.parse import urlsplit

import msgspec

from bench.controlplane import ControlPlane
from bench.controlplane.process import comes_true
from bench.errors import BenchError
from bench.peers.protobuf import enveloped, text
from bench.scheduler.errors import MeasureError
from bench.scheduler.load import NAMESPACE
from extender.cluster.client.api import JSON, PROTOBUF
from extender.cluster.client.status import read_status

PODS: Final = f"/api/v1/namespaces/{NAMESPACE}/pods"
EVENTS: Final = f"/api/v1/namespaces/{NAMESPACE}/events"
NODES: Final = "/api/v1/nodes"
LEASES: Final = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases"
SCHEDULER: Final = "kube-scheduler"
"""The name of the Lease by which schedulers elect their leader."""
CONNECTIONS: Final = 4
"""Connections over which objects are created, which keeps two cores busy."""
TIMEOUT: Final = 60.0
"""Seconds that an answer may take."""
MOURNING: Final = 0.5
"""Seconds to wait for the exit of a process that has closed its connections."""


def join(thread: threading.Thread) -> None:
    """Waits for the end of a thread that waits for one more answer at most. Raises MeasureError."""
    thread.join(TIMEOUT)
    if thread.is_alive():
        raise MeasureError(f"{thread.name} have not ended within {TIMEOUT:g} s; see what holds up the API server")


@contextmanager
def telling(check: Callable[[], None]) -> Iterator[None]:
    """Where something goes wrong because a process has died, raises what `check` does then: a ControlPlaneError.

    Else it is a MeasureError where an API server does not answer.
    """
    try:
        yield
    except (BenchError, OSError, HTTPException) as error:
        comes_true(lambda: False, check, MOURNING)
        if isinstance(error, BenchError):
            raise
        raise MeasureError(f"the API server does not answer as it should: {error}") from error


class _Metadata(msgspec.Struct, rename="camel"):
    resource_version: str


class _Condition(msgspec.Struct):
    type: str
    status: str


class _NodeStatus(msgspec.Struct):
    conditions: list[_Condition] = []


class _Item(msgspec.Struct):
    status: _NodeStatus


class _List(msgspec.Struct):
    metadata: _Metadata
    items: list[_Item]


class Api:
    """An API server, asked as an admin; one that does not answer raises OSError or HTTPException: see `telling`."""

    def __init__(self, control_plane: ControlPlane) -> None:
        self._address = urlsplit(control_plane.server).netloc
        self._context = ssl.create_default_context(cafile=str(control_plane.certificate_authority))
        self._authorization = {"Authorization": control_plane.client.headers["Authorization"]}

    def connect(self) -> HTTPSConnection:
        """A connection that stays open until it is closed."""
        return HTTPSConnection(self._address, timeout=TIMEOUT, context=self._context)

    def send(
        self,
        connection: HTTPSConnection,
        method: str,
        path: str,
        body: bytes = b"",
        *,
        content: str = PROTOBUF,
        accept: str = PROTOBUF,
    ) -> HTTPResponse:
        """A successful answer, whose body is still to be read. Raises MeasureError."""
        headers = {**self._authorization, "Accept": accept, "Content-Type": content}
        connection.request(method, path, body, headers)
        response = connection.getresponse()
        if response.status >= 400:
            raise MeasureError(f"{method} {path}: {response.status} {read_status(response.read()).message}")
        return response

    def create(self, path: str, bodies: Sequence[bytes]) -> None:
        """Creates objects, over several connections at a time. Raises MeasureError."""

        def share(first: int) -> None:
            with closing(self.connect()) as connection:
                for body in bodies[first::CONNECTIONS]:
                    self.send(connection, "POST", path, body).read()

        with ThreadPoolExecutor(CONNECTIONS, "create") as pool:
            list(pool.map(share, range(CONNECTIONS)))

    def create_namespace(self) -> None:
        """Creates the namespace of the pods. Raises MeasureError."""
        name = text(1, text(1, NAMESPACE))
        self.create("/api/v1/namespaces", [enveloped(name, "Namespace")])

    def hold_election(self) -> None:
        """Keeps schedulers that start from leading, and so from scheduling. Raises MeasureError."""
        now = datetime.now(timezone.utc).isoformat(timespec="microseconds").replace("+00:00", "Z")
        spec = {"holderIdentity": "harness", "leaseDurationSeconds": 3_600, "acquireTime": now, "renewTime": now}
        lease = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": SCHEDULER}, "spec": spec}
        self.end_election()
        with closing(self.connect()) as connection:
            self.send(connection, "POST", LEASES, msgspec.json.encode(lease), content=JSON).read()

    def end_election(self) -> None:
        """Lets the scheduler lead that is the first to see it. Raises MeasureError."""
        with closing(self.connect()) as connection:
            self.send(connection, "DELETE", f"{LEASES}?fieldSelector=metadata.name%3D{SCHEDULER}").read()

    def clear(self) -> None:
        """Deletes all pods and events of the namespace; afterwards they are gone. Raises MeasureError."""
        with closing(self.connect()) as connection:
            for path in (PODS, EVENTS):
                self.send(connection, "DELETE", f"{path}?gracePeriodSeconds=0").read()
        left = len(self._list(PODS).items)
        if left:
            raise MeasureError(f"{left} pods are still there after they were deleted")

    def version(self) -> str:
        """The resourceVersion from which a watch of the pods tells all that happens from now on."""
        return self._list(f"{PODS}?limit=1").metadata.resource_version

    def ready_nodes(self) -> int:
        """The number of nodes that are Ready."""
        ready = _Condition("Ready", "True")
        return sum(ready in node.status.conditions for node in self._list(NODES).items)

    def _list(self, path: str) -> _List:
        with closing(self.connect()) as connection:
            body = self.send(connection, "GET", path, accept=JSON).read()
        return msgspec.json.decode(body, type=_List)
