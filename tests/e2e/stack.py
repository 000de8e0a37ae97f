"""The product as a user runs it: `kwx serve`, and a stock kube-scheduler that is registered with it."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any

import httpx
import yaml
from prometheus_client.parser import text_string_to_metric_families

from bench.controlplane import ControlPlane, Process
from bench.controlplane.ports import LOOPBACK, free_port
from extender.admin.api.paging import MAX_ROWS
from tests.extender import guests

KWX = Path(sys.executable).with_name("kwx")
EXAMPLES = Path(__file__).parents[2] / "extender" / "examples"
READY_TIMEOUT_S = 30.0

OUTWEIGHS_IN_TREE = 100
"""An extender weight that no sum of in-tree scores can make up for."""

SECOND_SCHEDULER = "second-scheduler"

OWN_UPDATE = "OwnUpdate"
NAMES_OF_OWN_UPDATE = {"UnschedulablePodUpdate", "TargetPodUpdate"}
"""How the scheduler's metrics name the event that a waiting pod itself was written: until 1.36, and since 1.37."""
UNSCHEDULABLE = "unschedulable"
"""The scheduler's queue of pods that wait for an event, as its metrics name it."""
EVENTS_OF_THE_QUEUE = {"UnschedulablePodAdd", "UnscheduledPodAdd", "PopFromBackoffQ", "BackoffComplete"}
"""What the scheduler counts when a pod is new, since 1.37 by the second name, or has waited out its backoff."""


def example(name: str, **settings: Any) -> dict[str, Any]:
    """A plugin of the examples, as the configuration names it."""
    return {"name": name, "guestURL": f"file://{EXAMPLES / name}.wasm"} | settings


def guest(name: str, folder: Path, settings: str = "", **more: Any) -> dict[str, Any]:
    """A plugin of a guest that is made for the tests."""
    return {"name": name, "guestURL": f"file://{guests.build(name, folder)}", "guestConfig": settings, **more}


@dataclass
class Stack:
    """An extender and a scheduler on a control plane; a context manager that ends both."""

    control_plane: ControlPlane
    directory: Path
    plugins: Sequence[Mapping[str, Any]]
    kubeconfig: Path
    """The kubeconfig of the extender."""
    full_nodes: bool = False
    """Whether the scheduler sends whole nodes (nodeCacheCapable: false)."""
    weight: int = OUTWEIGHS_IN_TREE
    profile: Mapping[str, Any] = field(default_factory=dict)
    """More keys of the profile."""
    scheduler_flags: Sequence[str] = ()
    """More flags of the scheduler."""
    server: Mapping[str, Any] = field(default_factory=dict)
    """More keys of the server."""
    scheduler_options: Sequence[str | Path] = ()
    """More options of `kwx scheduler-config`."""
    proxy: str | None = None
    """The URL at which the scheduler asks, if it is not the extender's own."""
    scheduler_identity: Path | None = None
    """The scheduler's kubeconfig; by default that of system:kube-scheduler."""
    election: Mapping[str, Any] | None = None
    """`leaderElection` of a scheduler that is one of several."""
    port: int = field(default_factory=free_port)
    admin_port: int = field(default_factory=free_port)
    scheduler_port: int = field(default_factory=free_port)

    def __post_init__(self) -> None:
        self._cleanup = ExitStack()
        self._starts = 0
        self._scheduler_ports = [self.scheduler_port]

    def __enter__(self) -> Stack:
        self.config = self.directory / "extender.yaml"
        self.config.write_text(yaml.safe_dump(self._configuration()))
        try:
            self._launch_extender()
            self.scheduler_config = self.directory / "scheduler.yaml"
            self.scheduler_config.write_text(self._print_scheduler_config())
            self.start_scheduler()
            self._await_extender()
        except BaseException:
            self._cleanup.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._cleanup.close()

    @property
    def url(self) -> str:
        """The URL of the verbs."""
        return f"http://{LOOPBACK}:{self.port}"

    @property
    def admin_url(self) -> str:
        """The URL of the admin address."""
        return f"http://{LOOPBACK}:{self.admin_port}"

    def start_extender(self) -> None:
        """Starts `kwx serve` and waits until it is ready."""
        self._launch_extender()
        self._await_extender()

    def crash_extender(self) -> None:
        """Ends `kwx serve` as a crash does, and starts it anew."""
        self.extender.kill()
        self.start_extender()

    def start_scheduler(self) -> None:
        """Starts the scheduler, and waits until it is ready."""
        self._scheduler = self.control_plane.start_scheduler(
            self.scheduler_config, self.scheduler_port, flags=self.scheduler_flags, may_end=self.election is not None
        )
        self._cleanup.callback(self._scheduler.stop)

    def start_second_scheduler(self) -> None:
        """Starts another kube-scheduler, for pods that name SECOND_SCHEDULER; the extender is the same."""
        configuration = yaml.safe_load(self.scheduler_config.read_text())
        configuration["profiles"] = [{"schedulerName": SECOND_SCHEDULER}]
        file, port = self.directory / "second-scheduler.yaml", free_port()
        file.write_text(yaml.safe_dump(configuration))
        self._cleanup.callback(self.control_plane.start_scheduler(file, port, flags=self.scheduler_flags).stop)
        self._scheduler_ports.append(port)

    def stop_scheduler(self) -> None:
        """Ends the scheduler before the rest."""
        self._scheduler.stop()

    def kill_scheduler(self) -> None:
        """Ends the scheduler as a crash does."""
        self._scheduler.kill()

    @property
    def has_scheduler(self) -> bool:
        """Whether the scheduler runs."""
        return self._scheduler.alive

    def leads(self) -> bool:
        """Whether the scheduler is the leader, of those with an `election`."""
        text = httpx.get(f"https://{LOOPBACK}:{self.scheduler_port}/metrics", verify=False, trust_env=False).text
        return any(
            line.startswith("leader_election_master_status") and line.endswith(" 1") for line in text.splitlines()
        )

    def create_pod(self, name: str, **changes: Any) -> dict[str, Any]:
        """Creates a pod in namespace default; see `pod` for `changes`."""
        answer = self.control_plane.client.post("/api/v1/namespaces/default/pods", json=pod(name, **changes))
        answer.raise_for_status()
        created: dict[str, Any] = answer.json()
        return created

    def pods(self) -> dict[str, dict[str, Any]]:
        """The pods of namespace default by name."""
        answer = self.control_plane.client.get("/api/v1/namespaces/default/pods")
        answer.raise_for_status()
        return {item["metadata"]["name"]: item for item in answer.json()["items"]}

    def placements(self) -> dict[str, str]:
        """The node of each pod that has one."""
        return {name: item["spec"]["nodeName"] for name, item in self.pods().items() if "nodeName" in item["spec"]}

    def events(self, pod_name: str, reason: str) -> list[str]:
        """The messages of a pod's events of one reason."""
        answer = self.control_plane.client.get("/api/v1/namespaces/default/events")
        answer.raise_for_status()
        return [
            item["message"]
            for item in answer.json()["items"]
            if item["involvedObject"]["name"] == pod_name and item["reason"] == reason
        ]

    def ledger(self) -> dict[str, str]:
        """The state of each pod of the extender's ledger, by name."""
        page = httpx.get(f"{self.admin_url}/api/v1/ledger", params={"limit": MAX_ROWS}, trust_env=False).json()
        assert page["metadata"] == {"continue": ""}
        return {pod["name"]: pod["state"] for pod in page["items"]}

    def waits(self) -> set[str]:
        """The pods that wait on Permit."""
        return {wait["name"] for wait in httpx.get(f"{self.admin_url}/api/v1/waits", trust_env=False).json()}

    def live(self) -> str:
        """The digest of the first plugin's module that serves now."""
        digest: str = httpx.get(f"{self.admin_url}/api/v1/plugins", trust_env=False).json()[0]["digest"]
        return digest

    def queued(self) -> Counter[str]:
        """The number of pods in each queue of the schedulers. A pod that is being scheduled is in none."""
        counts: Counter[str] = Counter()
        for labels, count in self._scheduler_metrics("pending_pods"):
            counts[labels["queue"]] += count
        return counts

    def moves(self) -> int:
        """How often a pod has come into a queue of the schedulers."""
        return sum(count for _, count in self._scheduler_metrics("queue_incoming_pods_total"))

    def waiting(self) -> int:
        """The number of pods that the schedulers have tried in vain and will not try again before an event."""
        return self.queued()[UNSCHEDULABLE]

    def requeued(self) -> dict[str, int]:
        """The number of pods that waited and were to be tried again, by the event that was the cause."""
        counts: Counter[str] = Counter()
        for labels, count in self._scheduler_metrics("queue_incoming_pods_total"):
            if labels["queue"] != UNSCHEDULABLE and count and labels["event"] not in EVENTS_OF_THE_QUEUE:
                counts[OWN_UPDATE if labels["event"] in NAMES_OF_OWN_UPDATE else labels["event"]] += count
        return dict(counts)

    def wait_until(self, condition: Callable[[], bool], what: str, timeout: float = 60.0) -> None:
        """Waits for a condition. A failure says what did not come, with the extender's log."""
        try:
            self.control_plane.wait_until(condition, what, timeout)
        except Exception as error:
            error.add_note(self.extender.log.read_text()[-4000:]) if hasattr(error, "add_note") else None
            raise

    def _launch_extender(self) -> None:
        self._starts += 1
        self.extender = Process(f"extender-{self._starts}", [KWX, "serve", "--config", self.config], self.directory)
        self._cleanup.callback(self.extender.stop)

    def _await_extender(self) -> None:
        self.extender.wait_until(self._is_ready, READY_TIMEOUT_S)

    def _scheduler_metrics(self, name: str) -> list[tuple[dict[str, str], int]]:
        """The samples of one of the schedulers' metrics: labels and value."""
        urls = [f"https://{LOOPBACK}:{port}/metrics" for port in self._scheduler_ports]
        texts = [httpx.get(url, verify=False, trust_env=False).text for url in urls]
        lines = [line for text in texts for line in text.splitlines() if line.startswith(f"scheduler_{name}{{")]
        families = text_string_to_metric_families("\n".join([*lines, ""]))
        return [(sample.labels, int(sample.value)) for family in families for sample in family.samples]

    def _is_ready(self) -> bool:
        try:
            return httpx.get(f"{self.admin_url}/readyz", trust_env=False).status_code == httpx.codes.OK
        except httpx.TransportError:
            return False

    def _configuration(self) -> dict[str, Any]:
        return {
            "apiVersion": "kwx.dev/v1alpha1",
            "kind": "ExtenderConfiguration",
            "server": {
                "address": f"{LOOPBACK}:{self.port}",
                "adminAddress": f"{LOOPBACK}:{self.admin_port}",
                **self.server,
            },
            "cluster": {"mode": "kubeconfig", "kubeconfig": str(self.kubeconfig)},
            "profiles": [{"name": "default", "plugins": list(self.plugins), **self.profile}],
        }

    def _print_scheduler_config(self) -> str:
        command: list[str | Path] = [KWX, "scheduler-config", "--config", self.config, "--weight", str(self.weight)]
        command += ["--kubeconfig", self.scheduler_identity or self.control_plane.kubeconfig("scheduler")]
        command += ["--no-leader-election"]
        command += ["--full-nodes"] if self.full_nodes else ["--node-cache-capable"]
        command += ["--url", self.proxy] if self.proxy else []
        command += self.scheduler_options
        printed = subprocess.run(command, check=True, capture_output=True, text=True, timeout=60).stdout
        if self.election is None:
            return printed
        return str(yaml.safe_dump(yaml.safe_load(printed) | {"leaderElection": dict(self.election)}))


def pod(
    name: str,
    *,
    annotations: Mapping[str, str] | None = None,
    labels: Mapping[str, str] | None = None,
    requests: Mapping[str, str] | None = None,
    limits: Mapping[str, str] | None = None,
    priority_class: str | None = None,
    **spec: Any,
) -> dict[str, Any]:
    """A pod of one container; `spec` is added to its own."""
    container = {
        "name": "main",
        "image": "registry.example/app:1",
        "resources": {"requests": dict(requests or {}), "limits": dict(limits or {})},
    }
    spec = {"containers": [container], **spec}
    if priority_class:
        spec["priorityClassName"] = priority_class
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": "default",
            "annotations": dict(annotations or {}),
            "labels": dict(labels or {}),
        },
        "spec": spec,
    }
