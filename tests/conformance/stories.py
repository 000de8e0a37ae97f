"""What happens to nodes and pods while a plugin lives, step by step."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from unittest.mock import patch

from tests.conformance import calls
from tests.conformance.calls import POD, TARGET, Does, attempt
from tests.wasm_runtime.world import idle_guests
from wasm_runtime import Nodes, NodeTable, Plugin, Pod
from wasm_runtime.guests.guest import Guest
from wasm_runtime.pods.group_table import Group, GroupKey
from wasm_runtime.pods.pod_table import ResidentPod


@dataclass
class Scene:
    """The plugin, and the nodes that it is asked about."""

    plugin: Plugin
    node_tables: list[NodeTable]
    """The node tables so far; requests are about the last one."""

    @property
    def node_table(self) -> NodeTable:
        return self.node_tables[-1]


Step = Callable[[Scene], object]
"""Something that happens; returns its outcome, or None if it has none. Raises GuestError."""


def story(*steps: Step, slack: int | None = None) -> Does:
    """What comes of the steps, failures among it, but for those of which nothing comes.

    It begins with the nodes that the plugin was made with, or with none. `slack` is what `node_table.SLACK` is
    meanwhile: the smaller, the sooner a new epoch begins.
    """

    def does(plugin: Plugin) -> list[object]:
        scene = Scene(plugin, [NodeTable() if plugin.nodes is None else plugin.nodes])
        if slack is None:
            return _outcomes(scene, steps)
        with patch("wasm_runtime.nodes.node_table.SLACK", slack):
            return _outcomes(scene, steps)

    return does


def _outcomes(scene: Scene, steps: tuple[Step, ...]) -> list[object]:
    outcomes = [attempt(lambda: step(scene)) for step in steps]  # noqa: B023 (called at once)
    return [outcome for outcome in outcomes if outcome is not None]


def put(objects: Mapping[str, str]) -> Step:
    """Nodes are new or have changed."""
    return lambda scene: scene.node_table.put((name, text.encode()) for name, text in objects.items())


def remove(*names: str) -> Step:
    """Nodes are gone."""

    def does(scene: Scene) -> None:
        for name in names:
            scene.node_table.remove(name)

    return does


def elsewhere(objects: Mapping[str, str]) -> Step:
    """Another cluster takes the place of this one."""

    def does(scene: Scene) -> None:
        scene.node_tables.append(NodeTable())
        put(objects)(scene)

    return does


def put_pods(pods: Mapping[str, ResidentPod]) -> Step:
    """Pods are new or have changed."""
    return lambda scene: scene.node_table.pods.put(pods.items())


def complete_pods(scene: Scene) -> None:
    """All pods that there are have been told."""
    scene.node_table.pods.complete()


def remove_pods(*uids: str) -> Step:
    """Pods are gone."""

    def does(scene: Scene) -> None:
        for uid in uids:
            scene.node_table.pods.remove(uid)

    return does


def put_groups(groups: Mapping[GroupKey, Group]) -> Step:
    """Groups are described anew."""

    def does(scene: Scene) -> None:
        for key, group in groups.items():
            scene.node_table.pods.groups.put(key, group)

    return does


def remove_groups(*keys: GroupKey) -> Step:
    """Groups are not described any more."""

    def does(scene: Scene) -> None:
        for key in keys:
            scene.node_table.pods.groups.remove(key)

    return does


def elsewhere_with_pods(objects: Mapping[str, str], pods: Mapping[str, ResidentPod]) -> Step:
    """Another cluster takes the place of this one."""

    def does(scene: Scene) -> None:
        elsewhere(objects)(scene)
        put_pods(pods)(scene)

    return does


def back(scene: Scene) -> None:
    """The cluster before this one is here again."""
    scene.node_tables.pop()


def filters(
    *names: str, uid: str = "1", between: Step = lambda _: None, carries: Mapping[str, str] | None = None
) -> Step:
    """Filter for a pod, which begins its cycle. `between` happens after PreFilter. Some nodes only the request has."""
    carried = {name: text.encode() for name, text in (carries or {}).items()}

    def does(scene: Scene) -> object:
        nodes = Nodes(scene.node_table, names, carried=carried)
        with scene.plugin.guest(_pod(uid), nodes, "filter") as (guest, deadline):
            between(scene)
            return guest.filter(nodes, deadline)

    return does


def filters_late(*names: str) -> Step:
    """Filter for a pod, whose time is over."""

    def does(scene: Scene) -> object:
        nodes = Nodes(scene.node_table, names)
        with scene.plugin.guest(_pod("1"), nodes, "filter") as (guest, _):
            return guest.filter(nodes, time.monotonic() - 1)

    return does


def narrows(*names: str) -> Step:
    """Filter for the nodes that PreFilter has left."""

    def does(scene: Scene) -> object:
        nodes = Nodes(scene.node_table, names)
        with scene.plugin.guest(_pod("1"), nodes, "filter") as (guest, deadline):
            left = guest.pre_filter.names or frozenset(names)
            return guest.filter(nodes.select([name in left for name in names]), deadline)

    return does


def evicts(*names: str) -> Step:
    """Filter for each node by itself, between RemovePod and AddPod, as preemption has it."""

    def does(scene: Scene) -> object:
        nodes = Nodes(scene.node_table, names)
        with scene.plugin.guest(_pod("1"), nodes, "preempt") as (guest, deadline):
            return [_without_target(guest, node, deadline) for node in nodes.singly()]

    return does


def _without_target(guest: Guest, node: Nodes, deadline: float) -> object:
    guest.remove_pod(TARGET.encode(), node, deadline)
    results = guest.filter(node, deadline)
    guest.add_pod(TARGET.encode(), node, deadline)
    return results


def scores(*names: str, uid: str = "1", carries: Mapping[str, str] | None = None) -> Step:
    """Score for a pod, whose cycle goes on. Some nodes only the request has."""
    carried = {name: text.encode() for name, text in (carries or {}).items()}

    def does(scene: Scene) -> object:
        nodes = Nodes(scene.node_table, names, carried=carried)
        with scene.plugin.guest(_pod(uid), nodes, "score") as (guest, deadline):
            return calls.scores(guest, nodes, deadline)

    return does


def maintain(scene: Scene) -> bool:
    """The guests are maintained. Whether there is more to do."""
    return scene.plugin.maintain(scene.node_table)


def idle(scene: Scene) -> None:
    """Nobody needs the guests for a long while."""
    for guest in idle_guests(scene.plugin._pool):
        guest.left = 0.0


def _pod(uid: str) -> Pod:
    return Pod(uid, f"default/pod-{uid}", POD.encode())
