"""What a verb of a scheduler extender is, for all who deal with verbs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from wasm_runtime.guests.guest import Pod
from wasm_runtime.guests.plugin import Plugin
from wasm_runtime.nodes.node_table import Nodes

JudgingVerbName = Literal["filter", "prioritize", "preempt"]
"""A verb by which plugins judge nodes and change nothing, so that a request can be judged again."""

Victims = Callable[[str], Sequence[bytes]]
"""The pods that would be evicted from the node of that name, each a protobuf v1.Pod."""


class Question(NamedTuple):
    """What one plugin is asked by a verb that judges nodes."""

    pod: Pod
    nodes: Nodes
    victims: Mapping[str, Sequence[bytes]]
    """With preempt, by the node's name, each a protobuf v1.Pod; empty where no plugin asks for the victims."""


@dataclass(frozen=True)
class Verb:
    """A verb."""

    name: str
    """As in the path of a request."""
    key: str
    """In an extender of the KubeSchedulerConfiguration."""
    exports: tuple[str, ...]
    """Those of which a guest needs one at least, to have a say in the verb."""


@dataclass(frozen=True)
class JudgingVerb(Verb):
    """A verb by which plugins judge nodes."""

    name: JudgingVerbName
    decide: Callable[[Plugin, Question], Any]
    """What one plugin says: equal to what another one says if both say the same. Raises GuestError."""
    describe: Callable[[Any, Sequence[str]], Sequence[str | int]]
    """That decision in words, or numbers, about each of the nodes of these names."""
