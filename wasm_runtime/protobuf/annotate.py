"""Annotations that are put into a pod."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from wasm_runtime.protobuf.read import fields
from wasm_runtime.protobuf.varint import BYTES
from wasm_runtime.protobuf.write import field

MAX_ANNOTATIONS_BYTES: Final = 256 * 1024
"""What the annotations of an object may take (`TotalAnnotationSizeLimitB` in k8s.io/apimachinery/pkg/api/validation).

The API server does not look at it when a pod is bound, and refuses each later change of the pod.
"""

_METADATA: Final = 1
_ANNOTATIONS: Final = 12
"""Field numbers of an object, and of ObjectMeta (k8s.io/apimachinery/pkg/apis/meta/v1/generated.proto)."""

_KEY: Final = 1
_VALUE: Final = 2
"""Field numbers of an entry of a map."""


def annotated(pod: bytes, annotations: Mapping[str, str]) -> bytes:
    """A v1.Pod, given as a bare message, with annotations in the place of those of the same keys.

    There is one ObjectMeta afterwards, and it comes first. Raises ValueError if the annotations are too long for an
    object, and DecodeError if `pod` is no message.
    """
    added = {key.encode(): value.encode() for key, value in annotations.items()}
    size = sum(len(key) + len(value) for key, value in added.items())
    metadata, others = [], []
    for each in fields(pod):
        if each[0] != _METADATA:
            others.append(field(*each))
            continue
        for inner in fields(_message(each[2])):
            if inner[0] == _ANNOTATIONS:
                key, value = _entry(_message(inner[2]))
                if key in added:
                    continue
                size += len(key) + len(value)
            metadata.append(field(*inner))
    if size > MAX_ANNOTATIONS_BYTES:
        raise ValueError(f"its annotations would take {size} bytes, at most {MAX_ANNOTATIONS_BYTES} are allowed")
    metadata += [
        field(_ANNOTATIONS, BYTES, field(_KEY, BYTES, key) + field(_VALUE, BYTES, value))
        for key, value in added.items()
    ]
    return field(_METADATA, BYTES, b"".join(metadata)) + b"".join(others)


def _entry(data: bytes) -> tuple[bytes, bytes]:
    found = {number: value for number, _, value in fields(data)}
    return _message(found.get(_KEY, b"")), _message(found.get(_VALUE, b""))


def _message(value: int | bytes) -> bytes:
    """The bytes of a field, none where it has another type."""
    return value if isinstance(value, bytes) else b""
