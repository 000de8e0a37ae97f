"""An overlay's extender and scheduler as processes: its files and commands, with what only a cluster has replaced."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any

import yaml

from bench.controlplane import ControlPlane, Process
from bench.controlplane.ports import LOOPBACK, free_port
from bench.controlplane.process import answers
from extender.commands.scheduler_config import CERTIFICATES
from tests.certificates import Authority
from tests.e2e.stack import EXAMPLES, KWX

from .overlay import SIDECAR, Overlay

READY_TIMEOUT_S = 60.0
SECRET = "/etc/kwx-tls"
"""Where the Deployment of the Service has its certificates."""
PLUGINS_OF_THE_IMAGE = "file:///opt/kwx/plugins/"


class Pair:
    """A context manager that runs both under the identities that the overlay gives them.

    Replaced are addresses, paths of the image, and the token of a pod by a kubeconfig.
    """

    scheduler: Process

    def __init__(
        self,
        overlay: Overlay,
        control_plane: ControlPlane,
        directory: Path,
        plugins: Sequence[Mapping[str, Any]] = (),
        server: Mapping[str, Any] | None = None,
    ) -> None:
        """Takes plugins, and keys of the server, that the extender has beside those of the overlay.

        With plugins the cluster's scheduler, which is no part of the overlay, has what `kwx scheduler-config` prints.
        """
        self._server = server or {}
        self._plugins = plugins
        self._overlay = overlay
        self._control_plane = control_plane
        self._directory = directory
        self._verbs, self._admin = (f"{LOOPBACK}:{free_port()}" for _ in range(2))
        self._identity = overlay.identity(control_plane)
        self._cleanup = ExitStack()

    def __enter__(self) -> Pair:
        issue(self._directory)
        try:
            extender: list[str | Path] = [KWX, "serve", f"--config={self.write_extender_config()}"]
            self._start("extender", extender, f"http://{self._admin}/readyz")
            port = free_port()
            flags = [f"--bind-address={LOOPBACK}", f"--secure-port={port}"]
            command = [*self._scheduler_command(), *flags]
            self.scheduler = self._start("kube-scheduler", command, f"https://{LOOPBACK}:{port}/readyz")
        except BaseException:
            self._cleanup.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._cleanup.close()

    @property
    def admin_url(self) -> str:
        """The URL of the admin address."""
        return f"http://{self._admin}"

    def write_extender_config(self) -> Path:
        """The overlay's extender.yaml for this machine."""
        content = self._overlay.load("extender.yaml")
        tls = content["server"].get("tls")
        content["server"] = {"address": self._verbs, "adminAddress": self._admin, **self._server}
        if tls:
            content["server"]["tls"] = _moved(tls, SECRET, self._directory)
        content["cluster"] = {"mode": "kubeconfig", "kubeconfig": str(self._identity)}
        for profile in content["profiles"]:
            for plugin in profile["plugins"]:
                plugin["guestURL"] = plugin["guestURL"].replace(PLUGINS_OF_THE_IMAGE, f"file://{EXAMPLES}/")
            profile["plugins"] += self._plugins
        return self._write("extender.yaml", content)

    def print_scheduler_config(self, *options: str) -> dict[str, Any]:
        """What `kwx scheduler-config` makes of the overlay's extender.yaml."""
        command: list[str | Path] = [KWX, "scheduler-config", f"--config={self.write_extender_config()}", *options]
        answer = subprocess.run(command, check=True, capture_output=True, text=True, timeout=60)
        content: dict[str, Any] = yaml.safe_load(answer.stdout)
        return content

    def _scheduler_command(self) -> list[str | Path]:
        """The command of the overlay's container; of the cluster's scheduler where the overlay has none."""
        content = self._overlay.load("scheduler.yaml")
        identity = self._identity if self._overlay is SIDECAR else self._control_plane.kubeconfig("scheduler")
        content["clientConnection"] = {"kubeconfig": str(identity)}
        if self._plugins and self._overlay is not SIDECAR:
            content["extenders"] = self.print_scheduler_config()["extenders"]
        extender = content["extenders"][0]
        extender["urlPrefix"] = f"{extender['urlPrefix'].partition(':')[0]}://{self._verbs}"
        show_certificate(extender, self._directory)
        config = f"--config={self._write('scheduler.yaml', content)}"
        pod = self._overlay.deployment(self._control_plane)["spec"]["template"]["spec"]
        commands = [each["command"] for each in pod["containers"] if each["name"] == "kube-scheduler"]
        flags = [flag for command in commands for flag in command[1:] if not flag.startswith("--config=")]
        # A pod finds these two by itself.
        kubeconfigs = [f"--{use}-kubeconfig={identity}" for use in ("authentication", "authorization")]
        return [self._control_plane.binaries.kube_scheduler, config, *flags, *kubeconfigs]

    def _start(self, name: str, command: list[str | Path], ready_url: str) -> Process:
        process = Process(name, command, self._directory)
        self._cleanup.callback(process.stop)
        process.wait_until(lambda: answers(ready_url), READY_TIMEOUT_S)
        return process

    def _write(self, name: str, content: dict[str, Any]) -> Path:
        path = self._directory / name
        path.write_text(yaml.safe_dump(content))
        return path


def issue(folder: Path) -> None:
    """Makes the files of the Secrets: the extender's in the folder, kube-scheduler's in `client` below it."""
    ca, client = Authority(folder), folder / "client"
    ca.server("tls")
    ca.issue("tls", "kube-scheduler", folder=client)
    shutil.copyfile(ca.file, client / "ca.crt")


def show_certificate(extender: dict[str, Any], folder: Path) -> None:
    """Makes kube-scheduler's entry of an extender name the certificates in a folder, if it names any."""
    if "tlsConfig" in extender:
        extender["tlsConfig"] = _moved(extender["tlsConfig"], CERTIFICATES, folder / "client")


def _moved(section: Mapping[str, Any], place: str, folder: Path) -> dict[str, Any]:
    """A section of a file with its paths in another folder."""
    return {
        key: value.replace(place, str(folder)) if isinstance(value, str) else value for key, value in section.items()
    }
