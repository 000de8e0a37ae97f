"""Pods without what may be secret in them."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import lru_cache, partial
from typing import Final

from wasm_runtime.protobuf.read import fields
from wasm_runtime.protobuf.varint import BYTES, tag, varint

_Rule = Callable[[bytes], bytes]
"""Turns the value of a protobuf field into another value of the same size."""

_SECRETIVE: Final = re.compile(
    rb"kubectl\.kubernetes\.io/last-applied-configuration|token|secret|passw|credential|private-?key|api-?key",
    re.IGNORECASE,
)
"""Matches the names of annotations whose values are secret; `kubectl apply` keeps the whole pod in the first one."""


def redact(pod: bytes) -> bytes:
    """A protobuf v1.Pod of the same size, in which x's replace what may be secret and no policy should depend on.

    - of all containers: `command`, `args` and the values of `env`;
    - of their probes and hooks: `exec.command`, `httpGet.host`, `httpGet.path`, the values of `httpGet.httpHeaders`,
      `tcpSocket.host`;
    - annotations whose names say that they are secret, such as `example.com/api-token`, and
      `kubectl.kubernetes.io/last-applied-configuration`, which repeats the pod.

    All else stays, also other annotations, since policies use them. Raises DecodeError if `pod` is no protobuf message.

    The field numbers are those of k8s.io/api/core/v1/generated.proto, and of ObjectMeta in apimachinery's.
    """
    return _POD(pod)


def _blank(value: bytes) -> bytes:
    return b"x" * len(value)


def _rewrite(rules: Mapping[int, _Rule], message: bytes) -> bytes:
    """A protobuf message whose fields were changed by the rules for their numbers; fields without a rule stay."""
    parts: list[bytes] = []
    for number, wire_type, value in fields(message):
        if isinstance(value, int):
            parts += tag(number, wire_type), varint(value)
        elif wire_type == BYTES:
            rule = rules.get(number)
            parts += _head(number, len(value)), rule(value) if rule else value
        else:
            parts += tag(number, wire_type), value
    return b"".join(parts)


@lru_cache(maxsize=1024)
def _head(number: int, size: int) -> bytes:
    """The tag and the length that precede a value of `size` bytes in field `number`."""
    return tag(number, BYTES) + varint(size)


def _within(rules: Mapping[int, _Rule]) -> _Rule:
    return partial(_rewrite, rules)


def _annotation(entry: bytes) -> bytes:
    """An entry of the map of annotations, whose value is blank if its name says that it is secret."""
    key = next((value for number, _, value in fields(entry) if number == 1), b"")
    return _within({2: _blank})(entry) if isinstance(key, bytes) and _SECRETIVE.search(key) else entry


_HEADER: Final = _within({2: _blank})
_HANDLER: Final = _within(
    {1: _within({1: _blank}), 2: _within({1: _blank, 3: _blank, 5: _HEADER}), 3: _within({2: _blank})}
)
_PROBE: Final = _within({1: _HANDLER})
_HOOKS: Final = _within({1: _HANDLER, 2: _HANDLER})
_CONTAINER: Final = _within(
    {3: _blank, 4: _blank, 7: _within({2: _blank}), 10: _PROBE, 11: _PROBE, 12: _HOOKS, 22: _PROBE}
)
_SPEC: Final = _within({2: _CONTAINER, 20: _CONTAINER, 34: _within({1: _CONTAINER})})
_POD: Final = _within({1: _within({12: _annotation}), 2: _SPEC})
