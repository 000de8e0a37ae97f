"""preempt: the candidates that the plugins would let the pod on, narrowed by PostFilter."""

from __future__ import annotations

from collections.abc import Sequence

from extender.profile import Profile
from extender.verbs.filter import judge
from wasm_runtime.abi import Code, NominatingMode
from wasm_runtime.guest import Pod
from wasm_runtime.plugin import Plugin
from wasm_runtime.snapshot import Nodes


def run(profile: Profile, pod: Pod, nodes: Nodes) -> Sequence[str]:
    """The names of the candidates that stay. Raises PluginFailedError."""
    for entry in profile.entries:
        if not nodes.names:
            break
        verdict = entry.attempt(judge, pod, nodes, "preempt")
        if verdict is not None:
            nodes = verdict.kept
    for entry in profile.entries:
        if not nodes.names or not entry.plugin.runs("postfilter"):
            continue
        chosen = entry.attempt(nominate, pod, nodes)
        if chosen is not None:
            return chosen
    return nodes.names


def nominate(plugin: Plugin, pod: Pod, nodes: Nodes) -> Sequence[str] | None:
    """The candidates that PostFilter leaves: the node that it nominates, or all; None if it cannot help the pod.

    The first plugin that succeeds ends PostFilter (`RunPostFilterPlugins` in
    `pkg/scheduler/framework/runtime/framework.go` of Kubernetes). Raises GuestError.
    """
    with plugin.guest(pod, nodes, "postFilter") as (guest, deadline):
        status, mode, node = guest.post_filter(nodes, deadline)
    if status.code is not Code.SUCCESS:
        return None
    if mode != NominatingMode.OVERRIDE or not node:
        return nodes.names
    return [node] if node in nodes.names else []
