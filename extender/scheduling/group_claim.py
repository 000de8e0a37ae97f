"""Which group a pod says that it is of, and what it says of that group."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from wasm_runtime.abi import GroupSource
from wasm_runtime.pods.group_table import GroupKey
from wasm_runtime.protobuf.read import fields

LABEL: Final = "scheduling.x-k8s.io/pod-group"
"""The label by which scheduler-plugins' coscheduling has pods name their PodGroup."""
OLD_LABEL: Final = "pod-group.scheduling.sigs.k8s.io/name"
"""The label of the coscheduling before there was such a PodGroup; others have taken it over."""
MINIMUM: Final = "pod-group.scheduling.sigs.k8s.io/min-available"
"""The label or annotation that came with it: how many pods have to have a node before any may run."""
TIMEOUT: Final = "kwx.dev/schedule-timeout-seconds"
"""The label or annotation that says for how many seconds a pod may wait for the others. No other project has one."""

MAX_NUMBER: Final = (1 << 31) - 1
"""What Kubernetes' own counts are at most (int32)."""
MAX_NAME_CHARS: Final = 253
"""Characters of a group's name (a DNS subdomain, RFC 1123). A pod that names a longer one is of none."""

MAX_SECONDS: Final = (1 << 62) - 1
"""The largest number of seconds that is taken as a time. Go's zero time is negative, which is a larger number as a
varint."""

# Field numbers of Pod, ObjectMeta, Time, PodSpec, PodSchedulingGroup and of the entries of a map (k8s.io/api and
# apimachinery).
_METADATA, _SPEC = 1, 2
_NAMESPACE, _CREATED, _LABELS, _ANNOTATIONS = 3, 8, 11, 12
_SECONDS = 1
_PRIORITY, _SCHEDULING_GROUP = 25, 43
_GROUP_NAME = 1
_KEY, _VALUE = 1, 2

_TAG: Final = b"\xda\x02"
"""How the field `spec.schedulingGroup` begins in the bytes of a pod."""
_MARKS: Final = (_TAG, LABEL.encode(), OLD_LABEL.encode())
"""Bytes without which a pod is of no group: most pods need no further look."""


class Claim(NamedTuple):
    """What a pod says of its group."""

    key: GroupKey
    minimum: int = 0
    """0 where it says nothing, or nothing that can be read."""
    timeout: int = 0
    """The same, in seconds."""
    priority: int = 0
    """The pod's own."""
    created: int = 0
    """When the pod was created, in seconds of Unix time; 0 where it does not say."""
    problem: str = ""
    """What of it cannot be read, and what it should be."""


def claim(pod: bytes) -> Claim | None:
    """What a protobuf v1.Pod says of its group; None if it is of none. Raises DecodeError."""
    if not any(mark in pod for mark in _MARKS):
        return None
    metadata, spec = _message(pod, _METADATA), _message(pod, _SPEC)
    name, source = _text(_message(spec, _SCHEDULING_GROUP), _GROUP_NAME), GroupSource.SCHEDULING_GROUP
    labels = dict(_entries(metadata, _LABELS))
    if not name:
        name, source = labels.get(LABEL) or labels.get(OLD_LABEL, ""), GroupSource.LABEL
    if not 0 < len(name) <= MAX_NAME_CHARS:
        return None
    said = {**dict(_entries(metadata, _ANNOTATIONS)), **labels}
    wanted = {MINIMUM: source is GroupSource.LABEL, TIMEOUT: True}
    numbers = {key: _number(said, key) if counts else 0 for key, counts in wanted.items()}
    return Claim(
        GroupKey(source, _text(metadata, _NAMESPACE), name),
        numbers[MINIMUM] or 0,
        numbers[TIMEOUT] or 0,
        _priority(spec),
        _created(metadata),
        "; ".join(_wrong(key, said[key]) for key, number in numbers.items() if number is None),
    )


def _number(said: Mapping[str, str], key: str) -> int | None:
    """A number from 1 on; 0 where there is none, None where it is something else."""
    text = said.get(key)
    if text is None:
        return 0
    number = int(text) if text.isascii() and text.isdigit() and len(text) <= len(str(MAX_NUMBER)) else 0
    return number if 0 < number <= MAX_NUMBER else None


def _wrong(key: str, text: str) -> str:
    shown = f"{text[:40]} …" if len(text) > 40 else text
    return f"{key} of a pod is {shown!r}; make it a whole number from 1 to {MAX_NUMBER}"


def _priority(spec: bytes) -> int:
    found = [value for number, _, value in fields(spec) if number == _PRIORITY and isinstance(value, int)]
    number = found[-1] & 0xFFFF_FFFF if found else 0
    return number - (1 << 32) if number > MAX_NUMBER else number


def _created(metadata: bytes) -> int:
    """The seconds of a Time, which is a message."""
    seconds = [value for number, _, value in fields(_message(metadata, _CREATED)) if number == _SECONDS]
    return seconds[-1] if seconds and isinstance(seconds[-1], int) and seconds[-1] <= MAX_SECONDS else 0


def _message(message: bytes, wanted: int) -> bytes:
    """The message or text in a field; empty where it is absent."""
    return next(_all(message, wanted), b"")


def _text(message: bytes, wanted: int) -> str:
    return _message(message, wanted).decode(errors="replace")


def _entries(metadata: bytes, wanted: int) -> Iterator[tuple[str, str]]:
    """Keys and values of a map."""
    return ((_text(entry, _KEY), _text(entry, _VALUE)) for entry in _all(metadata, wanted))


def _all(message: bytes, wanted: int) -> Iterator[bytes]:
    return (value for number, _, value in fields(message) if number == wanted and isinstance(value, bytes))
