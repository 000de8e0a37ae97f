"""The policy topology where a host tells less than this one."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from tests.extender.commands.command import Command
from tests.sdk_guest.plugins import without
from tests.sdk_guest.test_policies import MODULES

MODULE: Final = MODULES / "topology.wasm"

CLUSTER: Final = """
guestConfig: {levels: [rack], required: rack}
nodes:
- {name: a, labels: {rack: 1}, allocatable: {cpu: 4, pods: 110}}
- {name: b, labels: {rack: 2}, allocatable: {cpu: 4, pods: 110}}
- {name: c, allocatable: {cpu: 4, pods: 110}}
pods: [{name: other, node: b}]
groups: [{name: train, minMember: 9}]
"""


def run(command: Command, folder: Path, cases: str, *unknown: str) -> None:
    """Runs cases on a host that does not know some exports."""
    module, file = folder / "topology.wasm", folder / "cases.yaml"
    module.write_bytes(without(MODULE.read_bytes(), *unknown))
    file.write_text(CLUSTER + cases)
    ended = command("test", "--module", module, file)
    assert (ended.status, ended.stderr) == (0, ""), ended.stdout


def test_a_host_that_asks_about_nodes_one_by_one_has_a_group_go_on_where_it_is(
    command: Command, tmp_path: Path
) -> None:
    """Whether nine fit nobody looks at, and the log says so once."""
    cases = """
cases:
- name: The group is somewhere, or not
  steps:
  - pod: &pod {name: m-0, labels: &labels {scheduling.x-k8s.io/pod-group: train}, requests: {cpu: 1}}
    expect: {a: 0, b: 0, c: {unresolvable: no label rack}}
    logs: ['warning: WARNING (node a)']
  - put: {pods: [{name: m-1, labels: *labels, node: a}]}
    pod: *pod
    expect: {a: 0, b: {unresolvable: the group is in another rack}, c: {unresolvable: no label rack}}
    logs: []
"""
    warning = "the host asks about nodes one by one: whether a group fits a domain as a whole is not looked at"
    run(command, tmp_path, cases.replace("WARNING", warning), "filternodes", "scorenodes")


def test_without_groups_a_pod_that_names_one_waits_where_a_domain_is_required(command: Command, tmp_path: Path) -> None:
    cases = """
cases:
- name: Required
  pod: &pod {labels: {scheduling.x-k8s.io/pod-group: train}, requests: {cpu: 1}}
  expect: {a: &unknown the group of the pod is not known yet, b: *unknown, c: *unknown}
- name: Preferred
  guestConfig: {levels: [rack]}
  pod: *pod
  expect: {a: 100, b: 9, c: 9}
"""
    run(command, tmp_path, cases, "groupschanged", "memberschanged")
