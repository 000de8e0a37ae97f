"""What the ledger knows of a pod, and what becomes of it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from enum import Enum
from typing import Final, NamedTuple

from wasm_runtime.pods.pod_table import ResidentPod
from wasm_runtime.protobuf.errors import DecodeError
from wasm_runtime.protobuf.pod import asks_alike

POD_OVERHEAD_BYTES: Final = 1024
"""What a pod takes beside its object."""


class State(Enum):
    """Why a pod counts on a node."""

    TENTATIVE = "tentative"
    """filter has answered this node and no other. The entry ends by itself."""
    BINDING = "binding"
    """A bind is under way, also while kube-scheduler asks about the pod again."""
    UNCONFIRMED = "unconfirmed"
    """The pod may be bound: the API server's answer was lost. The entry ends by itself if the watch does not show the
    pod."""
    RETAINED = "retained"
    """The API server has refused the bind, and the others of the pod's group need it there. The entry ends by
    itself."""
    CONFIRMED = "confirmed"
    """The pod was bound here."""
    OBSERVED = "observed"
    """The watch shows the pod on the node."""


class Step(Enum):
    """What becomes of a pod."""

    RETRY = "retry"
    """filter is asked about it."""
    PLAN = "plan"
    """filter answers one node."""
    BIND = "bind"
    """A bind begins."""
    ANNOTATE = "annotate"
    """The bind is to give it annotations."""
    CONFIRM = "confirm"
    """It is bound."""
    RELEASE = "release"
    """It was not bound."""
    RETAIN = "retain"
    """It was not bound, and is to keep its room."""
    DOUBT = "doubt"
    """It is not known whether it was bound."""
    EXPIRE = "expire"
    """Its time is over."""
    OBSERVE = "observe"
    """The watch shows it on a node."""
    MISS = "miss"
    """A list does not have it on a node: that may be older than the bind."""
    DELETE = "delete"
    """The watch shows that it has ended."""


_TENTATIVE, _BINDING, _UNCONFIRMED, _RETAINED, _CONFIRMED, _OBSERVED = State

TRANSITIONS: Final[Mapping[Step, Mapping[State | None, State | None]]] = {
    Step.RETRY: {_TENTATIVE: None, _RETAINED: None},
    Step.PLAN: {None: _TENTATIVE, _TENTATIVE: _TENTATIVE},
    Step.BIND: {_TENTATIVE: _BINDING, _BINDING: _BINDING, _RETAINED: _BINDING},
    Step.ANNOTATE: {_BINDING: _BINDING, _UNCONFIRMED: _UNCONFIRMED},
    Step.CONFIRM: {_BINDING: _CONFIRMED, _UNCONFIRMED: _CONFIRMED},
    Step.RELEASE: {_BINDING: None},
    Step.RETAIN: {_BINDING: _RETAINED, _UNCONFIRMED: _UNCONFIRMED},
    Step.DOUBT: {_BINDING: _UNCONFIRMED, _UNCONFIRMED: _UNCONFIRMED},
    Step.EXPIRE: {_TENTATIVE: None, _BINDING: None, _UNCONFIRMED: None, _RETAINED: None},
    Step.OBSERVE: dict.fromkeys([None, *State], _OBSERVED),
    Step.MISS: {_CONFIRMED: _UNCONFIRMED, _OBSERVED: None},
    Step.DELETE: dict.fromkeys(State),
}
"""What follows a state, None being that of a pod that is on no node. Where a state is left out, nothing changes."""

PLANS: Final = frozenset({_TENTATIVE, _RETAINED})
"""States of pods that kube-scheduler may have given up, or place elsewhere."""

SEEN: Final = frozenset({Step.OBSERVE, Step.DELETE})
"""Steps that kube-scheduler sees as well, if the pod was bound."""


class Entry(NamedTuple):
    """A pod on a node."""

    state: State
    node: str
    object: bytes
    """Protobuf v1.Pod."""
    expires: float = math.inf
    """When a tentative entry ends, on the clock of `time.monotonic`."""
    annotations: Mapping[str, str] | None = None
    """Those that a bind gives the pod; the object has them."""

    @property
    def is_tentative(self) -> bool:
        """Whether it is still open if the pod comes to the node."""
        return self.state not in {State.CONFIRMED, State.OBSERVED}

    def takes_as(self, later: Entry) -> bool:
        """Whether the pod takes the same room later: it is on the same node, and asks for the same."""
        if self.node != later.node:
            return False
        try:
            return self.object == later.object or asks_alike(self.object, later.object)
        except DecodeError:
            return False

    @property
    def told(self) -> ResidentPod:
        """What guests are told of it."""
        is_binding = self.state in {State.BINDING, State.UNCONFIRMED}
        return ResidentPod(self.node, self.object, self.is_tentative, is_binding=is_binding)

    @property
    def size(self) -> int:
        """Bytes of it that count for what all plans together may take."""
        return len(self.object) + POD_OVERHEAD_BYTES if self.state in PLANS else 0
