"""`make cluster`: a control plane with the extender and the example plugins, until Ctrl-C."""

from __future__ import annotations

import shutil
import signal
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from bench.controlplane import BuildError, ControlPlane, ControlPlaneError
from tests.e2e.stack import EXAMPLES, Stack, example
from tests.manifests.overlay import SERVICE
from tests.patience import delay

PLUGINS = ("accelerator", "nodenumber")
ACCELERATOR = "kwx.dev/accelerator"

GUIDE = """
A stock kube-scheduler schedules through the extender. Nodes node-0 to node-9 are kwok's; the first six
have the label {label}=h100.

  export KUBECONFIG={kubeconfig}
  alias kubectl={kubectl}

  kubectl get nodes -L {label}
  kubectl run train-3 --image=example --annotations={label}=h100
  kubectl get pods -o wide                  # train-3 is on node-3: same last digit, and it has the label
  kubectl run train-8 --image=example --annotations={label}=t4
  kubectl describe pod train-8              # Pending, and why

What the extender knows of them, and whether all fits together:

  export KWX_ADMIN={admin}
  alias kwx={kwx}

  kwx explain pod default/train-3
  kwx explain pod default/train-8
  kwx doctor --scheduler-config {directory}/scheduler.yaml

Swap a plugin while it schedules: node numbers then repel instead of attract.

  cp {examples}/nodenumber_reversed.wasm {directory}/new.wasm
  mv {directory}/new.wasm {directory}/nodenumber.wasm

  kwx plugin history nodenumber

The dashboard is at {admin}/ and the log of the extender in
{log}

Ctrl-C ends everything.
"""


SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
LOOK_INTERVAL_S = 1.0


def main() -> None:
    """Starts all, says how to use it, waits for a signal or for the end of a part."""
    for number in SIGNALS:
        signal.signal(number, _leave)
    print("Starting etcd, kube-apiserver, kwok, the extender and kube-scheduler …", file=sys.stderr)
    try:
        _serve()
    except BuildError as error:
        sys.exit(str(error))
    except ControlPlaneError as error:
        what, _, log = str(error).partition("\n")
        is_killed = "ended with status -" in what
        said = f", its last words were: {log.strip().splitlines()[-1]}" if log.strip() and not is_killed else ""
        sys.exit(f"{what.rstrip(':')}{said}; so everything else was ended, `make cluster` starts it again")


def _leave(*_: object) -> None:
    for number in SIGNALS:
        signal.signal(number, signal.SIG_IGN)  # What has begun to end is ended.
    sys.exit()


def _serve() -> None:
    """Waits until a part has died, which raises ControlPlaneError."""
    with ControlPlane() as control_plane, TemporaryDirectory(prefix="kwx-cluster-") as name:
        directory = Path(name)
        control_plane.create_nodes(6, labels={ACCELERATOR: "h100"})
        for at in range(6, 10):
            control_plane.create_nodes(1, name=f"node-{at}")
        for plugin in PLUGINS:
            shutil.copyfile(EXAMPLES / f"{plugin}.wasm", directory / f"{plugin}.wasm")
        plugins = [example(plugin, guestURL=f"file://./{plugin}.wasm") for plugin in PLUGINS]
        with Stack(control_plane, directory, plugins, SERVICE.identity(control_plane)) as stack:
            guide = GUIDE.format(
                label=ACCELERATOR,
                kubeconfig=control_plane.kubeconfig("admin"),
                kubectl=control_plane.binaries.kubectl,
                kwx=Path(sys.executable).with_name("kwx"),
                examples=EXAMPLES,
                directory=directory,
                admin=stack.admin_url,
                log=stack.extender.log,
            )
            print(guide, flush=True)
            while True:
                control_plane.check()
                stack.extender.check()
                delay(LOOK_INTERVAL_S)


if __name__ == "__main__":
    main()
