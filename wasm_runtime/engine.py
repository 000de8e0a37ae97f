"""What an engine is: the part of the runtime that differs from one WebAssembly engine to another."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple, Protocol

from wasm_runtime.abi import FunctionType, GuestResult, HostDocument, Import, Severity
from wasm_runtime.blob import Blob
from wasm_runtime.driver.layout import REASON_ROOM
from wasm_runtime.errors import Fault, GuestError
from wasm_runtime.nodes.node_feed import ALL_NODES
from wasm_runtime.nodes.node_table import Nodes

KIBIBYTE = 1024
MEBIBYTE = 1024 * KIBIBYTE

DEFAULT_STACK_BYTES: Final = MEBIBYTE
"""Bytes of stack that wasm may use, of the thread's own."""

MAX_STACK_BYTES: Final = 2 * MEBIBYTE
"""The largest stack of a guest. wasmtime ends the process when it is asked for more (its `async_stack_size`)."""


@dataclass(frozen=True, slots=True)
class Settings:
    """How instances of a module are made and bounded."""

    name: str
    """Name of the plugin, for messages; the guest's argv where `args` is empty."""
    config: str = ""
    """What the guest reads by `get_config`."""
    args: tuple[str, ...] = ()
    """The whole argv of the guest."""
    log_severity: Severity = Severity.INFO
    memory_limit: int = 256 * MEBIBYTE
    """Bytes that the guest's linear memory may grow to."""
    table_limit: int = 1 << 20
    """Elements that each of the guest's tables may grow to: they are memory too, of 8 bytes an element."""
    output_limit: int = 8 * KIBIBYTE
    """Bytes that are kept of what the guest logs and records in one verb, and of what it prints in one call."""
    timeout: float = 0.5
    """Seconds that one verb may take in this plugin, the wait for an instance and its start included."""
    instances: int = 8
    """How many guests there may be at the same time."""

    @property
    def argv(self) -> tuple[str, ...]:
        """Never empty: guests that link klog panic without a first argument."""
        return self.args or (self.name,)


MAX_UID_BYTES: Final = 1_024
"""The longest UID that a guest may look for. Python reads it, and no deadline interrupts Python."""

MAX_LONG_REASONS: Final = 64
"""Reasons of full length that a call may keep. A list of nodes can have as many reasons, and one for each node."""

REASON_BYTES_PER_NODE: Final = 160
"""Bytes of reasons that a call may keep for each node, beyond room for `MAX_LONG_REASONS`."""


POD_BUFFER_ALIGNMENT: Final = 8
"""What the address of a guest's buffer for pods is a multiple of."""


def max_reason_bytes(nodes: int) -> int:
    """Bytes that the reasons of a call for so many nodes may take."""
    return MAX_LONG_REASONS * REASON_ROOM + REASON_BYTES_PER_NODE * nodes


def max_result_bytes(nodes: Nodes) -> int:
    """Bytes of a result, such as node names, that a guest may hand over: a name and a number for each node.

    Python reads the result, and no deadline interrupts Python. So the limit is what a sensible result needs.
    """
    return 256 * KIBIBYTE + 320 * max(len(nodes), len(nodes.node_table))


def node_buffer_error(address: int, count: int) -> GuestError:
    """The error of a guest whose buffer for `count` nodes is not in its memory."""
    return GuestError(Fault.RESULT, "nodebuffer", f"at {address}, there is no room in memory for {count} nodes")


def check_pod_buffer(address: int, size: int, memory_size: int) -> None:
    """Raises GuestError for a buffer for so many bytes of records that is not aligned, or not in the guest's memory."""
    if address % POD_BUFFER_ALIGNMENT:
        aligned = f"which is no multiple of {POD_BUFFER_ALIGNMENT}"
        cause = f"at {address}, {aligned}, {size} bytes of records cannot be written"
        raise GuestError(Fault.RESULT, "podbuffer", cause)
    if address + size > memory_size:
        raise GuestError(
            Fault.RESULT, "podbuffer", f"at {address}, there is no room in memory for {size} bytes of records"
        )


class Log(NamedTuple):
    """A line that a guest logged by klog."""

    severity: Severity
    message: str
    pairs: tuple[str, ...]
    """Keys and values in turn."""
    node: str = ""
    """The node that the call was about, if it was about one."""


class GuestEvent(NamedTuple):
    """An Event that a guest wants recorded, as JSON (`EventMessage` in the upstream host)."""

    message: bytes


class GuestJournal(NamedTuple):
    """What a guest logged and recorded since its journal was last taken."""

    records: list[Log | GuestEvent]
    dropped: int
    """Records for which there was no room."""


NO_JOURNAL = GuestJournal([], 0)


class Handle(Protocol):
    """What a guest may do beyond answering, as `framework.Handle`: see and reject pods that wait on Permit.

    Called from the thread that the guest runs in.
    """

    def waiting_pod(self, uid: str, /) -> bytes | None:
        """The pod that waits, a protobuf v1.Pod; None if none of that UID does."""

    def reject_waiting_pod(self, uid: str, /) -> bool:
        """Ends a pod's wait with a rejection. False if none of that UID waits."""


class NoHandle:
    """The handle of a host where no pod ever waits."""

    def waiting_pod(self, _: str, /) -> bytes | None:
        """None: no pod waits."""

    def reject_waiting_pod(self, _: str, /) -> bool:
        """False: no pod waits."""
        return False


DocumentFactory = Callable[[], bytes]
"""Makes a document when a guest asks for it."""


_NOTHING: Final = {
    HostDocument.FILTERED_NODES: b"[]",
    HostDocument.NODE_STATUSES: b"{}",
    HostDocument.NODE_SCORES: b"{}",
}
"""The document of a guest that asks for one at an extension point that has none."""


@dataclass(slots=True)
class Call:
    """One call of an extension point: what the guest may ask for and what it handed over."""

    nodes: Nodes
    deadline: float
    """When the guest is interrupted, on the clock of `time.monotonic`."""
    documents: Mapping[HostDocument, DocumentFactory] | None = None
    """Makers of what only this call has."""
    guest_results: dict[GuestResult, bytes] = field(default_factory=dict)
    target: bytes = b""
    """The pod that AddPod or RemovePod is about, a protobuf v1.Pod."""
    sync_seconds: float = 0.0
    """How long the instance took to bring its nodes up to date. The instance adds to it."""

    def document(self, document: HostDocument) -> bytes:
        """Makes what the guest has asked for."""
        if self.documents and document in self.documents:
            return self.documents[document]()
        return self.nodes.node_table.node_list() if document is HostDocument.NODE_LIST else _NOTHING.get(document, b"")


class CallResult(NamedTuple):
    """What an export that is called once returned: the two halves of its result and its reason."""

    low: int
    high: int
    """Signed."""
    reason: str


class Span(NamedTuple):
    """How long a call of an extension point took, in seconds."""

    export: str
    sync_seconds: float
    """Bringing the instance's nodes up to date."""
    run_seconds: float
    """In the guest and its host functions."""


class NodeResults(NamedTuple):
    """What an export that is called for each node returned."""

    called: int
    """How many nodes it was called for: fewer than asked if a code was not tolerated."""
    codes: bytes
    """Status code of each node called, one a byte; empty if all are Success."""
    values: list[int]
    """The signed high half of each result; empty for exports that return a code only."""
    reasons: list[str]
    """The reasons of those nodes whose code is not Success, in their order."""
    refused: int = 0
    """The code that was not tolerated, of which the last node has a byte; 0 if there was none."""


NO_RESULTS: Final = NodeResults(0, b"", [], [])


class ListResults(NamedTuple):
    """What an export that is called for a list of nodes returned."""

    status: CallResult
    """The code for the list as a whole, and the reason handed over last; without a high half."""
    nodes: NodeResults
    """Valid only if the status is Success."""


class Instance(Protocol):
    """A guest that runs. It keeps its memory, and with it a pod's cycle state, from call to call.

    One thread at a time. After a `GuestError` with a fatal fault it must only be closed.
    """

    def begin(self, pod: bytes) -> None:
        """Sets the pod that the following calls are about, a protobuf v1.Pod."""

    def sync_nodes(self, nodes: Nodes, deadline: float, max_nodes: int = ALL_NODES) -> bool:
        """Brings the instance's view of the nodes up to date before a call needs it.

        Announces at most `max_nodes` nodes to a guest that keeps nodes. Once the guest knows all nodes, announces a
        batch of pods if it keeps those. Announces nothing if `max_nodes` is 0. Returns whether the guest knows all.
        Raises GuestError.
        """

    def once(self, export: str, call: Call) -> CallResult:
        """Calls an export once; one that is about a node, for the only one of `call.nodes`. Raises GuestError."""

    def each(self, export: str, call: Call, tolerated: int) -> NodeResults:
        """Calls an export for each of `call.nodes`.

        Stops after a node whose code is not among `tolerated` (bit n for code n). Raises GuestError.
        """

    def at_once(self, export: str, call: Call, tolerated: int) -> ListResults | None:
        """The same by one call of an export of `abi.LISTS`; None if one of the nodes has no object.

        Raises GuestError.
        """

    def collect(self, deadline: float) -> None:
        """Calls the export that collects garbage. Raises GuestError."""

    @property
    def has_left(self) -> bool:
        """Whether its start export left by exit status 0, as commands may."""

    @property
    def memory_size(self) -> int:
        """Bytes of its linear memory."""

    def read(self, at: int, length: int) -> bytes:
        """Bytes of its linear memory, which they must be in."""

    def output(self) -> str:
        """What the guest printed in its last call."""

    def take_journal(self) -> GuestJournal:
        """Takes what the guest logged and recorded since this was last called."""

    def close(self) -> None:
        """Gives back memory and handles. Idempotent."""


class Module(Protocol):
    """Compiled code of a guest, usable by many instances."""

    @property
    def exports(self) -> Mapping[str, FunctionType | str]:
        """Every export by name: the signature of a function, the kind of anything else, as in `memory`."""

    @property
    def imports(self) -> Mapping[Import, FunctionType | str]:
        """Every import."""

    def instantiate(self, settings: Settings, handle: Handle) -> Instance:
        """Makes and starts an instance. Raises GuestError."""


class Engine(Protocol):
    """Compiles modules."""

    def compile(self, module: bytes | Blob) -> Module:
        """Compiles a binary module. Raises ModuleError if it is none."""
