"""What a probe has seen."""

from __future__ import annotations

from typing import Final, Literal

import msgspec

from extender.scheduling.verb import JudgingVerbName

MAX_PODS: Final = 20
"""Requests whose differences are shown, each of another pod or verb."""
MAX_NODES: Final = 10
"""Nodes that are shown of each."""
MAX_FAILURES: Final = 10
"""Failures that are shown of all."""
MAX_REASON_LENGTH: Final = 256
"""Characters that are shown of a guest's reason."""
MAX_POD_LENGTH: Final = 320
"""Characters that are shown of a pod's name; a namespace has up to 63 and a name up to 253."""

Side = Literal["active", "candidate"]


class NodeDifference(msgspec.Struct, frozen=True, rename="camel"):
    """What each revision says of a node: `passes`, why it is rejected, the plugin's score, or `skipped`."""

    node: str
    active: str | int
    candidate: str | int


class Difference(msgspec.Struct, frozen=True, rename="camel"):
    """A request on which the candidate says something else."""

    pod: str
    """`namespace/name`."""
    verb: JudgingVerbName
    total: int
    """Nodes on which the two differ."""
    nodes: list[NodeDifference] = []
    """The first of them."""
    failure: str = ""
    """Why the active revision has no answer for the pod at all, where the candidate has one."""


class Failure(msgspec.Struct, frozen=True, rename="camel"):
    """How a revision has failed, and how often."""

    side: Side
    verb: JudgingVerbName
    message: str
    count: int


class VerbReport(msgspec.Struct, frozen=True, rename="camel"):
    """What became of the requests of a verb."""

    requests: int = 0
    """Those that were judged."""
    alike: int = 0
    """Those that both judge alike, or both fail."""
    different: int = 0
    active_failures: int = 0
    candidate_failures: int = 0
    left_out: int = 0
    """Those that could not be judged any more, through no fault of a revision."""
    active_milliseconds: float | None = None
    """Time of the processor for a request, in the median of the last ones; None where there is none to tell."""
    candidate_milliseconds: float | None = None


class ProbeReport(msgspec.Struct, frozen=True, rename="camel"):
    """What the candidate and the active revision have said of the same requests."""

    verbs: dict[JudgingVerbName, VerbReport] = {}
    differences: list[Difference] = []
    """The first ones."""
    failures: list[Failure] = []
    """The first ones, those of the same message counted together."""
    notes: list[str] = []
    """What was not compared, and why."""
