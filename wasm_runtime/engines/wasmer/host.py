"""What a guest asks of its host: the functions of `abi.IMPORTS`, with the semantics of the driver's text."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, TypeVar

from wasm_runtime import abi
from wasm_runtime.abi import GuestResult, HostDocument, Import, Severity
from wasm_runtime.driver.layout import REASON_LIMIT
from wasm_runtime.engine import MAX_UID_BYTES, Call, GuestEvent, Handle, Log, Settings, max_result_bytes
from wasm_runtime.engines.wasmer.memory import GuestMemory
from wasm_runtime.engines.wasmer.node_snapshot import NodeSnapshot
from wasm_runtime.engines.wasmer.records import PrintedOutput, Reasons, Records

T = TypeVar("T")

HostFunction = Callable[..., int | None]
"""Takes unsigned numbers, one a parameter, and returns the result where there is one. OutOfBoundsError is a trap."""

UNREADABLE: Final = b"BUG: out of memory reading message"
"""The reason of a guest that names bytes which are not in its memory."""

NO_STATES: Final = b"null"
"""The image states of a node that is not known, or there for one call only: the JSON of Go's nil map."""

_API: Final = "k8s.io/api"
_KLOG: Final = "k8s.io/klog"
_SCHEDULER: Final = "k8s.io/scheduler"
_SIGN: Final = 0x8000_0000


class Host:
    """What one guest may see and say, from call to call."""

    def __init__(self, settings: Settings, handle: Handle, nodes: NodeSnapshot) -> None:
        self._settings = settings
        self._config = settings.config.encode()
        self._handle = handle
        self._call: Call | None = None
        self._documents: dict[HostDocument, bytes] = {}
        self.is_linked = False
        """Whether the guest's start section is over."""
        self.memory = GuestMemory()
        self.nodes = nodes
        self.reasons = Reasons()
        self.records = Records(settings.output_limit)
        self.output = PrintedOutput(settings.output_limit)
        self.pod = self.target = b""
        self.current: int | None = None
        """The node that the call is about."""
        self.is_data_absent = False
        """Whether the guest wanted the object of a node while no node's object is known."""
        self.error: Exception | None = None
        """What a callback has raised: the guest goes on, and the call fails when it is over."""

    def begin(self, call: Call | None = None, room: int = 0) -> None:
        """Forgets the last call. Without one, the guest can hand over nothing. `room` is for reasons, in bytes."""
        self._call = call
        self._documents.clear()
        self.reasons.begin(room)
        self.target = b""
        self.current, self.is_data_absent, self.error = None, False, None

    def enter(self) -> None:
        """Begins a call of the guest: there may be many in one of the host."""
        self.reasons.expect()
        self.output.clear()

    def end(self) -> None:
        """Ends the call."""
        self._call = None
        self.nodes.take_back()

    @property
    def node(self) -> bytes:
        """The name of the current node, empty if there is none."""
        return b"" if self.current is None else self.nodes.names[self.current]

    def functions(self) -> Mapping[Import, HostFunction]:
        """Every function of `abi.IMPORTS`."""
        return {
            Import(_API, "node"): self._node,
            Import(_API, "nodeList"): self._node_list,
            Import(_KLOG, "log"): self._log,
            Import(_KLOG, "logs"): self._log,
            Import(_KLOG, "severity"): lambda: self._settings.log_severity,
            Import(_SCHEDULER, "currentPod"): lambda buf, limit: self._give(self.pod, buf, limit),
            Import(_SCHEDULER, "currentNodeName"): lambda buf, limit: self._give(self.node, buf, limit),
            Import(_SCHEDULER, "targetPod"): lambda buf, limit: self._give(self.target, buf, limit),
            Import(_SCHEDULER, "filteredNodeList"): self._gives(HostDocument.FILTERED_NODES),
            Import(_SCHEDULER, "nodeToStatusMap"): self._gives(HostDocument.NODE_STATUSES),
            Import(_SCHEDULER, "nodeScoreList"): self._gives(HostDocument.NODE_SCORES),
            Import(_SCHEDULER, "nodeImageStates"): self._image_states,
            Import(_SCHEDULER, "get_config"): lambda buf, limit: self._give(self._config, buf, limit),
            Import(_SCHEDULER, "result.cluster_events"): self._takes(GuestResult.CLUSTER_EVENTS),
            Import(_SCHEDULER, "result.node_names"): self._takes(GuestResult.NODE_NAMES),
            Import(_SCHEDULER, "result.nominated_node_name"): self._takes(GuestResult.NOMINATED_NODE_NAME),
            Import(_SCHEDULER, "result.status_reason"): self._status_reason,
            Import(_SCHEDULER, "result.normalized_score_list"): self._takes(GuestResult.NORMALIZED_SCORES),
            Import(_SCHEDULER, "handle.eventrecorder.eventf"): self._event,
            Import(_SCHEDULER, "handle.reject_waiting_pod"): self._reject_waiting_pod,
            Import(_SCHEDULER, "handle.get_waiting_pod"): self._get_waiting_pod,
        }

    def _give(self, data: bytes, buf: int, limit: int) -> int:
        """Hands bytes to the guest. When they do not fit nothing is written; an empty answer touches no buffer."""
        if 0 < len(data) <= limit:
            self.memory.write(buf, data)
        return len(data)

    def _give_document(self, document: HostDocument, buf: int, limit: int) -> int:
        """Hands over a document that is made when it is first asked for in a call."""
        if document not in self._documents:
            self._attempt(lambda: self._keep(document, self._make(document)))
        return self._give(self._documents.get(document, b""), buf, limit)

    def _make(self, document: HostDocument) -> bytes:
        return self._call.document(document) if self._call else b""

    def _keep(self, document: HostDocument, data: bytes) -> None:
        if len(data) > self._settings.memory_limit:
            raise MemoryError(f"{len(data)} bytes are more than its memory limit")
        self._documents[document] = data

    def _attempt(self, callback: Callable[[], T]) -> T | None:
        """What a callback returns; None if it raises, of which the guest learns nothing."""
        try:
            return callback()
        except Exception as error:
            self.error = error
            return None

    def _gives(self, document: HostDocument) -> HostFunction:
        return lambda buf, limit: self._give_document(document, buf, limit)

    def _takes(self, kind: GuestResult) -> HostFunction:
        return lambda at, length: self._take(kind, at, length)

    def _take(self, kind: GuestResult, at: int, length: int) -> None:
        self.memory.require(at, length)
        if self._call is None:
            return
        most = max_result_bytes(self._call.nodes)
        if length > most:
            self.error = MemoryError(f"a result of {length} bytes, at most {most} are taken")
        else:
            self._call.guest_results[kind] = self.memory.read(at, length)

    def _find(self, name: int, length: int) -> int | None:
        """The node of a name, if its object is known."""
        node = self.nodes.find(self.memory.read(name, length))
        return node if node is not None and self.nodes.objects[node] else None

    def _note_absent_data(self) -> None:
        if self._call and not self.nodes.has_objects:
            self.is_data_absent = True

    def _node(self, name: int, length: int, buf: int, limit: int) -> int:
        node = self._find(name, length)
        if node is None:
            self._note_absent_data()
            return 0
        return self._give(self.nodes.objects[node], buf, limit)

    def _node_list(self, buf: int, limit: int) -> int:
        self._note_absent_data()
        return self._give_document(HostDocument.NODE_LIST, buf, limit)

    def _image_states(self, name: int, length: int, buf: int, limit: int) -> int:
        self._note_absent_data()
        node = self._find(name, length)
        return self._give(NO_STATES if node is None else self.nodes.states.get(node, NO_STATES), buf, limit)

    def _status_reason(self, at: int, length: int) -> None:
        """An unreadable reason is no trap."""
        readable = self.memory.has(at, length)
        self.reasons.give(self.memory.read(at, min(length, REASON_LIMIT)) if readable else UNREADABLE)

    def _log(self, severity: int, at: int, length: int, pairs: int = 0, pairs_length: int = 0) -> None:
        """A message that cannot be read is dropped, it is no trap."""
        level = (severity ^ _SIGN) - _SIGN
        readable = self.memory.has(at, length) and self.memory.has(pairs, pairs_length)
        if level < self._settings.log_severity or not readable:
            return
        node = self.node
        if self.records.claim(len(node) + length + pairs_length):
            message = self.memory.read(at, length).decode(errors="replace")
            keys_and_values = tuple(abi.split_names(self.memory.read(pairs, pairs_length)))
            self.records.add(Log(Severity(min(level, Severity.FATAL)), message, keys_and_values, node.decode()))

    def _event(self, at: int, length: int) -> None:
        self.memory.require(at, length)
        if self.records.claim(len(self.node) + length):
            self.records.add(GuestEvent(self.memory.read(at, length)))

    def _get_waiting_pod(self, uid: int, length: int, buf: int, limit: int) -> None:
        """Hands over the pod that waits on Permit, or a u64 of 0. Its length is not told."""
        if self._waiting(self._keep_waiting_pod, uid, length):
            self._give_document(HostDocument.WAITING_POD, buf, limit)
        else:
            self.memory.write_u64(buf, 0)

    def _keep_waiting_pod(self, uid: str) -> bool:
        pod = self._handle.waiting_pod(uid)
        if pod is not None:
            self._keep(HostDocument.WAITING_POD, pod)
        return pod is not None

    def _reject_waiting_pod(self, uid: int, length: int, buf: int, _: int) -> None:
        self.memory.write_u64(buf, self._waiting(self._handle.reject_waiting_pod, uid, length))

    def _waiting(self, ask: Callable[[str], bool], at: int, length: int) -> bool:
        self.memory.require(at, length)
        if self._call is None or length > MAX_UID_BYTES:
            return False
        uid = self.memory.read(at, length).decode(errors="replace")
        return bool(self._attempt(lambda: ask(uid)))
