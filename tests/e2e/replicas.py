"""Several kube-schedulers that elect a leader, each with an extender of its own, as the sidecar has them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from bench.controlplane import ControlPlane
from tests.certificates import Authority
from tests.e2e.stack import Stack
from tests.manifests.overlay import NAMESPACE, SIDECAR

SCHEDULER = "kube-scheduler"
"""The common name of each scheduler's certificate."""
LEASE = {"resourceNamespace": NAMESPACE, "resourceName": "kwx-scheduler"}
ELECTION: Mapping[str, Any] = {
    "leaderElect": True,
    **LEASE,
    "leaseDuration": "8s",
    "renewDeadline": "6s",
    "retryPeriod": "1s",
}
"""`leaderElection` by which a fail-over takes some 8 s, instead of 15."""
LEADER_TIMEOUT_S = 90.0


class Replicas:
    """All replicas, under the account of the manifests' sidecar."""

    def __init__(
        self, control_plane: ControlPlane, stacks: Sequence[Stack], certificates: Sequence[Certificates]
    ) -> None:
        self.control_plane = control_plane
        self.stacks = stacks
        self._certificates = certificates

    def leader(self) -> Stack:
        """The replica that leads, as soon as one does."""
        found: list[Stack] = []

        def is_there() -> bool:
            self.tend()
            found[:] = [stack for stack in self.stacks if stack.leads()]
            return len(found) == 1

        self.control_plane.wait_until(is_there, "leader", LEADER_TIMEOUT_S)
        return found[0]

    def tend(self) -> None:
        """Starts schedulers anew that have ended, as the kubelet does: a leader that cannot renew its Lease ends."""
        for stack in self.stacks:
            if not stack.has_scheduler:
                stack.start_scheduler()

    def wait_until(self, condition: Callable[[], bool], what: str, timeout: float = 60.0) -> None:
        """Waits; schedulers that end meanwhile are started anew."""

        def is_so() -> bool:
            self.tend()
            return condition()

        self.control_plane.wait_until(is_so, what, timeout)

    def fail_over(self, *, with_extender: bool = True) -> Stack:
        """Ends the leader as a crash does, with its extender or without: the one that has led. It comes back later."""
        old = self.leader()
        old.kill_scheduler()
        if with_extender:
            old.crash_extender()
        return old

    def renew_certificates(self) -> None:
        """Gives each program another certificate, while it runs."""
        for each in self._certificates:
            each.renew()

    def lives(self) -> set[str]:
        """The digests that serve as the first plugin of the replicas: one if all serve the same."""
        return {stack.live() for stack in self.stacks}


class Certificates:
    """The certificates of one replica's extender and scheduler, in files that change."""

    def __init__(self, authority: Authority, folder: Path) -> None:
        self._authority = authority
        self._folder = folder
        self.server, self.client = authority.server(folder=folder), authority.issue("client", SCHEDULER, folder=folder)

    @property
    def server_section(self) -> Mapping[str, Any]:
        """`server.tls` of the extender."""
        return {
            "certFile": str(self.server.cert),
            "keyFile": str(self.server.key),
            "clientCAFile": str(self._authority.file),
            "clientNames": [f"CN:{SCHEDULER}"],
        }

    @property
    def scheduler_options(self) -> list[str | Path]:
        """Options of `kwx scheduler-config`."""
        return ["--ca-file", self._authority.file, "--cert-file", self.client.cert, "--key-file", self.client.key]

    def renew(self) -> None:
        """Replaces both certificates while the programs run."""
        self.server.renew(self._authority.server("new", self._folder))
        self.client.renew(self._authority.issue("new", SCHEDULER, folder=self._folder))


@contextmanager
def replicas(
    control_plane: ControlPlane,
    directory: Path,
    plugins: Sequence[Mapping[str, Any]],
    count: int,
    *,
    identity: Path | None = None,
    bind_timeout: str = "4s",
    profile: Mapping[str, Any] | None = None,
) -> Iterator[Replicas]:
    """`count` replicas with mTLS. `identity` is the extenders' kubeconfig, by default that of the sidecar's account."""
    own = SIDECAR.identity(control_plane)
    authority = Authority(directory)
    control_plane.client.delete(_LEASE_PATH)
    with ExitStack() as cleanup:
        stacks, certificates = [], []
        for at in range(count):
            folder = directory / f"replica-{at}"
            folder.mkdir()
            each = Certificates(authority, folder)
            stack = Stack(
                control_plane,
                folder,
                plugins,
                identity or own,
                profile=profile or {},
                server={"replicas": "standby", "tls": each.server_section, "bindTimeout": bind_timeout},
                scheduler_options=each.scheduler_options,
                scheduler_identity=own,
                election=ELECTION,
            )
            stacks.append(cleanup.enter_context(stack))
            certificates.append(each)
        yield Replicas(control_plane, stacks, certificates)


_LEASE_PATH = f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases/{LEASE['resourceName']}"
