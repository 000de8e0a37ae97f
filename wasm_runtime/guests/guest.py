"""What the extender asks of a guest, whatever its ABI is."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Final, Literal, NamedTuple

from wasm_runtime.abi import ClusterEvent, Code
from wasm_runtime.engine import GuestJournal, NodeResults, Span
from wasm_runtime.nodes.node_feed import ALL_NODES
from wasm_runtime.nodes.node_table import Nodes

GC_IDLE_S: Final = 0.25
"""Seconds without a call after which a guest collects its garbage."""

CycleStage = Literal["filter", "score", "preempt", "postFilter", "bind", "permit"]
"""Parts of a pod's cycle; `preempt` is Filter on the candidates for preemption, `bind` all of the binding cycle, and
`permit` what comes after a wait on Permit, also Permit itself once more."""


class Pod(NamedTuple):
    """The pod that a verb is about."""

    uid: str
    """What tells one pod's cycle from another's."""
    name: str
    """`namespace/name`, for messages."""
    object: bytes
    """Protobuf v1.Pod."""


class Status(NamedTuple):
    """The answer of an extension point."""

    code: Code
    reason: str = ""


SUCCESS: Final = Status(Code.SUCCESS)


class PreFilter(NamedTuple):
    """What PreFilter said of the pod."""

    status: Status = SUCCESS
    """Success, Skip (do not call Filter) or a rejection of the pod."""
    names: frozenset[str] | None = None
    """The only nodes to look at; None for all, also where the guest hands over no name."""


NO_PRE_FILTER: Final = PreFilter()


class Permission(NamedTuple):
    """What Permit said of the pod on its node."""

    status: Status
    """Success, a rejection, or Wait."""
    timeout: float
    """Seconds that the pod is to wait at most; without meaning but for Wait."""


class Nomination(NamedTuple):
    """What PostFilter said of the candidates."""

    status: Status
    mode: int
    node: str


class Guest(ABC):
    """A guest on a pod's scheduling cycle: the extension points in the scheduling framework's terms.

    Not for two threads at a time. Every method but `end_cycle`, `take_journal` and `close` raises GuestError. A
    deadline is when a call is interrupted, on the clock of `time.monotonic`.
    """

    def __init__(self) -> None:
        self.uid: str | None = None
        """The pod whose PreFilter the guest has seen."""
        self.left = 0.0
        """When it was last given back, on the clock of `time.monotonic`."""
        self.is_broken = False
        """Whether it must not be used again."""
        self.spans: list[Span] = []
        """How long its calls took, for who reads and empties it."""
        self.pre_filter = NO_PRE_FILTER
        self.raw_scores: Sequence[int] = ()
        """What Score said in the last `score`, one a node, if NormalizeScore was called after it."""

    @abstractmethod
    def enter(self, pod: Pod, nodes: Nodes, stage: CycleStage, deadline: float) -> None:
        """Goes on to a stage of the pod's cycle, beginning a new cycle where that is due.

        It is due when the guest is on another pod, at filter, which opens every cycle, and at a stage
        that this cycle has come to or passed: the scheduler is then trying the pod again. A pod that waits on
        Permit comes to `permit` as often as it is asked about.
        """

    @abstractmethod
    def enqueue(self, nodes: Nodes, deadline: float) -> list[ClusterEvent]:
        """Calls enqueue: the changes after which a pod that the guest rejected is worth another attempt."""

    @abstractmethod
    def filter(self, nodes: Nodes, deadline: float) -> NodeResults:
        """Calls Filter on each node: the codes are Success or rejections."""

    @abstractmethod
    def add_pod(self, target: bytes, node: Nodes, deadline: float) -> None:
        """Calls AddPod: what would be if the target, a protobuf v1.Pod, were on the node as well."""

    @abstractmethod
    def remove_pod(self, target: bytes, node: Nodes, deadline: float) -> None:
        """Calls RemovePod: what would be if the target, a protobuf v1.Pod, were not on the node any more."""

    @abstractmethod
    def post_filter(self, nodes: Nodes, deadline: float) -> Nomination:
        """Calls PostFilter, for which every one of `nodes` was found unschedulable."""

    @abstractmethod
    def score(self, nodes: Nodes, deadline: float) -> bytes | None:
        """Calls PreScore, Score on each node and NormalizeScore. None if PreScore says Skip.

        One byte a node: a score is in 0..100, as the framework demands of a plugin after NormalizeScore.
        """

    @abstractmethod
    def reserve(self, node: Nodes, deadline: float) -> Status:
        """Calls Reserve for the node that was chosen: Success or a rejection."""

    @abstractmethod
    def binding_annotations(self, node: Nodes, deadline: float) -> dict[str, str]:
        """Asks for the annotations that the bind is to give the pod, after Reserve."""

    @abstractmethod
    def unreserve(self, node: Nodes, deadline: float) -> None:
        """Calls Unreserve: the pod will not come to the node after all."""

    @abstractmethod
    def permit(self, node: Nodes, deadline: float) -> Permission:
        """Calls Permit: Success, a rejection, or Wait with the time to wait."""

    @abstractmethod
    def pre_bind(self, node: Nodes, deadline: float) -> Status:
        """Calls PreBind: Success or a rejection."""

    @abstractmethod
    def bind(self, node: Nodes, deadline: float) -> Status:
        """Calls Bind: Success if the guest has bound the pod, Skip if it leaves that to others, or a rejection."""

    @abstractmethod
    def post_bind(self, node: Nodes, deadline: float) -> None:
        """Calls PostBind: the pod is bound."""

    def end_cycle(self) -> None:
        """Makes whatever comes next for the pod begin with PreFilter."""
        self.uid = None

    @abstractmethod
    def sync_nodes(self, nodes: Nodes, deadline: float, max_nodes: int = ALL_NODES) -> bool:
        """Brings the guest's view of the nodes up to date before a call needs it.

        Announces at most `max_nodes` nodes to a guest that keeps them, then a batch of pods, as an instance does.
        Returns whether it knows all.
        """

    @property
    @abstractmethod
    def is_garbage_collection_due(self) -> bool:
        """Whether the guest has garbage and has been idle long enough to collect it."""

    @abstractmethod
    def collect(self, deadline: float) -> None:
        """Lets the guest collect its garbage."""

    @abstractmethod
    def take_journal(self) -> GuestJournal:
        """Takes what the guest logged and recorded since this was last called."""

    @abstractmethod
    def close(self) -> None:
        """Gives the instance back."""


def name(code: Code) -> str:
    """The framework's name of a code, as in UnschedulableAndUnresolvable."""
    return "".join(word if word == "And" else word.capitalize() for word in code.name.title().split("_"))
