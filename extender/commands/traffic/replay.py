"""Replays a recording: which pods and nodes the two sides judge differently."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from extender.commands.traffic.recording import Recording
from extender.commands.traffic.sides import Side, loaded
from extender.rollouts.probe import tell_plugins
from extender.scheduling import filter as filter_verb
from extender.scheduling import prioritize
from extender.scheduling.filter import Verdict
from extender.scheduling.profile import PluginFailedError, Profile
from wasm_runtime.abi import Code
from wasm_runtime.guests.guest import Pod
from wasm_runtime.nodes.node_table import Nodes, NodeTable

Word = str | int | float
"""The judgement about a node: a verdict, or a score."""


class Difference(NamedTuple):
    """A node that the two sides judge differently for a pod."""

    seconds: float
    """Seconds from the beginning of the recording to the pod."""
    pod: str
    verb: str
    node: str
    """The name of the node; empty if all nodes are meant."""
    baseline: Word
    module: Word


class Replayed(NamedTuple):
    """The result of a replay."""

    pods: int
    different: int
    """Number of pods that the two sides judge differently."""
    differences: Sequence[Difference]


class _Failed(NamedTuple):
    """Why a side has no answer."""

    cause: str


def replay(
    recording: Recording, baseline: Side, module: Side, *, profile: str | None = None, plugin: str | None = None
) -> Replayed:
    """Lets two sides judge all pods of a recording, each on the nodes as they were then, and compares the judgements.

    `profile` is the profile of configurations that judges, by default the one that was recorded. `plugin` is the plugin
    that a module replaces beside a configuration. Scores are compared on nodes that both sides let pass. Raises
    ReplayError.
    """
    table = NodeTable()
    table.put(recording.nodes.items())
    found: list[Difference] = []
    different = 0
    with loaded(baseline, module, profile or recording.profile, plugin) as sides:
        names_plugins = any(len(side.plugins) > 1 for side in sides)
        for cycle in recording.cycles:
            _change(table, cycle.changes)
            pod, nodes = Pod(cycle.uid, cycle.name, cycle.pod), Nodes(table, list(cycle.nodes))
            before = len(found)
            compared = _compare(sides, pod, nodes, names_plugins=names_plugins)
            found += [Difference(cycle.seconds, cycle.name, *each) for each in compared]
            different += len(found) > before
            for side in sides:
                side.end_cycle(pod)
    return Replayed(len(recording.cycles), different, found)


def _change(table: NodeTable, changes: Mapping[str, bytes]) -> None:
    table.put((name, node) for name, node in changes.items() if node)
    for name, node in changes.items():
        if not node:
            table.remove(name)


def _compare(
    sides: Sequence[Profile], pod: Pod, nodes: Nodes, *, names_plugins: bool
) -> Iterator[tuple[str, str, Word, Word]]:
    """Verb, node and both answers, where these differ."""
    verdicts = [_filter(side, pod, nodes, names_plugins=names_plugins) for side in sides]
    yield from _differences("filter", nodes.names, verdicts)
    if any(isinstance(each, _Failed) for each in verdicts):
        return
    passing = nodes.select([all(each == "passes" for each in both) for both in zip(*verdicts, strict=True)])
    if passing.names:
        scores = [_score(side, pod, passing, names_plugins=names_plugins) for side in sides]
        yield from _differences("prioritize", passing.names, scores)


def _differences(
    verb: str, names: Sequence[str], answers: Sequence[Sequence[Word] | _Failed]
) -> Iterator[tuple[str, str, Word, Word]]:
    baseline, module = answers
    if isinstance(baseline, _Failed) or isinstance(module, _Failed):
        told = [each.cause if isinstance(each, _Failed) else "has an answer" for each in answers]
        if told[0] != told[1]:
            yield verb, "", told[0], told[1]
        return
    for name, old, new in zip(names, baseline, module, strict=True):
        if old != new:
            yield verb, name, old, new


def _filter(side: Profile, pod: Pod, nodes: Nodes, *, names_plugins: bool) -> Sequence[Word] | _Failed:
    """The verdict on each node, or why there is none."""
    try:
        tell_plugins(side, pod, nodes)
        verdict = filter_verb.run(side, pod, nodes)
    except PluginFailedError as error:
        return _failed(error, names_plugins=names_plugins)
    words = _verdicts(verdict, names_plugins=names_plugins)
    return [words.get(name, "passes") for name in nodes.names]


def _verdicts(verdict: Verdict, *, names_plugins: bool) -> dict[str, str]:
    """The rejections by the nodes' names; each is by the first plugin that rejects the node."""
    words: dict[str, str] = {}
    for each in verdict.filtered:
        by = f" by {each.plugin}" if names_plugins else ""
        for name, (code, reason) in each.statuses():
            if code is not Code.SUCCESS:
                for_good = " for good" if code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE else ""
                words.setdefault(name, f"rejected{for_good}{by}: {reason}")
    return words


def _score(side: Profile, pod: Pod, nodes: Nodes, *, names_plugins: bool) -> Sequence[Word] | _Failed:
    """The score of each node in 0..100, the weighted mean of several plugins; or why there is none."""
    try:
        totals = prioritize.run(side, pod, nodes)
    except PluginFailedError as error:
        return _failed(error, names_plugins=names_plugins)
    if not totals.scored:
        return ["skipped"] * len(nodes)
    return totals.scores if totals.weights == 1 else [round(each / totals.weights, 1) for each in totals.scores]


def _failed(error: PluginFailedError, *, names_plugins: bool) -> _Failed:
    """The failure without the revision, which always differs between the sides."""
    return _Failed(f"{error.fields['plugin']}: {error.__cause__}" if names_plugins else str(error.__cause__))
