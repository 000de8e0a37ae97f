"""The dashboard beside a stock kube-scheduler: groups of pods, those that wait, and those that have a node."""

from __future__ import annotations

from pathlib import Path

from bench.controlplane import ControlPlane
from extender.scheduling.group_claim import TIMEOUT
from tests.e2e.gangs import PROFILE, SERVER, Gang, allocatable, gang_policy
from tests.e2e.stack import Stack
from tests.e2e.test_gangs import NOWHERE
from tests.extender.admin.dashboard.chromium import NEEDED, Chromium
from tests.extender.commands.command import Command
from tests.extender.troubleshooting.page import check
from tests.manifests.overlay import WAKE_PODS

CELLS = "[...document.querySelectorAll('{} tbody tr')].map((row) => [...row.children].map((cell) => cell.innerText))"


def rows(browser: Chromium, table: str) -> list[list[str]]:
    """The texts of a table's cells, by its label."""
    found: list[list[str]] = browser.eval(CELLS.format(f"[aria-label={table!r}]".replace("'", '"')))
    return found


@NEEDED
def test_a_gang_that_waits_for_a_pod_which_fits_nowhere_is_shown_as_such(
    cluster: ControlPlane, identity: Path, tmp_path: Path, command: Command
) -> None:
    cluster.create_nodes(1, allocatable=allocatable(4))
    gang = Gang("train", 3, 3)
    stack = Stack(cluster, tmp_path, [gang_policy()], identity, profile=PROFILE, server=SERVER)
    with stack, WAKE_PODS.applied(cluster), Chromium(tmp_path) as browser:
        *fitting, last = gang.members
        annotations = {TIMEOUT: "100"}
        gang.create(stack, fitting, annotations=annotations)
        gang.create(stack, [last], annotations=annotations, affinity=NOWHERE)
        stack.wait_until(lambda: stack.waits() == set(fitting), "the pods that fit, which wait for the last one")
        check("A gang waits for a pod that fits nowhere", command, stack.admin_url, tmp_path)
        for width in 1280, 390:
            browser.resize(width)
            browser.open(f"{stack.admin_url}/ui/groups")
            assert rows(browser, "Groups of pods") == [
                ["default/train", "3", "0", "2", "1", f"default/{last}", "0", ""]
            ]
            assert browser.eval("document.documentElement.scrollWidth <= innerWidth")
            (tmp_path / f"groups-{width}.png").write_bytes(browser.screenshot())
            browser.open(f"{stack.admin_url}/ui/pods")
            waiting = {each[0]: each[1] for each in rows(browser, "Pods that wait on Permit")}
            assert waiting == {f"default/{each}": "node-0" for each in fitting}
            expected = rows(browser, "Pods on nodes, or expected there")
            assert sorted(each[:3] for each in expected) == [
                [f"default/{each}", "node-0", "binding"] for each in fitting
            ]
            assert browser.eval("document.documentElement.scrollWidth <= innerWidth")
            (tmp_path / f"pods-{width}.png").write_bytes(browser.screenshot())
        assert browser.complaints == []
