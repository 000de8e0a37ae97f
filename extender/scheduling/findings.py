"""What plugins said of nodes, as it came: nothing is made of it before somebody asks."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from itertools import repeat
from typing import NamedTuple

from wasm_runtime.abi import Code
from wasm_runtime.guests.guest import SUCCESS, Status
from wasm_runtime.nodes.node_table import NodeSet


class Filtered(NamedTuple):
    """What PreFilter and Filter of a plugin said."""

    plugin: str
    """Empty where the extender itself has decided."""
    digest: str
    """Of the plugin's module."""
    seconds: float
    """How long it took, waiting for a guest included."""
    asked: NodeSet
    named: NodeSet
    """Those that Filter was asked about: PreFilter has left out the others."""
    left_out: Status
    """What PreFilter says of the nodes that it has left out."""
    codes: bytes
    """The status code of each one that Filter was asked about; empty if all pass."""
    reasons: Sequence[str]
    """The reasons of those whose code is not Success, in their order."""

    def statuses(self) -> Iterator[tuple[str, Status]]:
        """What became of each node, by its name; "" where that is not known any more."""
        named = self.named.names()
        if self.named is not self.asked:
            by_filter = set(named)
            left_out = [name for name in self.asked.names() if name not in by_filter]
            for name in left_out or [""] * (len(self.asked) - len(named)):
                yield name, self.left_out
        reasons = iter(self.reasons)
        for name, code in zip(named, self.codes or repeat(0), strict=False):
            yield name, Status(Code(code), next(reasons)) if code else SUCCESS

    def status(self, name: str) -> Status:
        """What became of one node; Success if its name is not known any more."""
        at = self.named.position(name)
        if at is None:
            return self.left_out if self.named is not self.asked and name in self.asked else SUCCESS
        if not self.codes or not self.codes[at]:
            return SUCCESS
        return Status(Code(self.codes[at]), self.reasons[at - self.codes.count(0, 0, at)])


def distinct(reasons: Sequence[str]) -> Collection[str]:
    """The different reasons, of at least one. Mostly all are equal, which a comparison finds five times as fast."""
    first = reasons[0]
    return (first,) if reasons.count(first) == len(reasons) else set(reasons)


class Scored(NamedTuple):
    """What PreScore, Score and NormalizeScore of a plugin said."""

    plugin: str
    digest: str
    """Of the plugin's module."""
    seconds: float
    """How long it took, waiting for a guest included."""
    weight: int
    scores: bytes
    """In 0..100, one a node."""
    raw: Sequence[int]
    """The same before NormalizeScore; empty where the plugin has none."""
