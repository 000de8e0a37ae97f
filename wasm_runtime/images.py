"""Image states: which images the nodes hold, how large they are and on how many nodes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Final

import msgspec

from wasm_runtime.protobuf import DecodeError, fields

_NODE_STATUS: Final = 3
_STATUS_IMAGES: Final = 8
_IMAGE_NAMES: Final = 1
_IMAGE_SIZE: Final = 2


def image_states(nodes: Sequence[bytes]) -> list[bytes]:
    """For each v1.Node, a JSON object: image name to `{"Size": bytes, "NumNodes": count}`.

    A name that a node lists twice counts once. Names are sorted, as Go's encoder does.
    Source: `ImageStateSummary` and `Cache.addNodeImageStates` of kube-scheduler.
    """
    images = [_sizes(node) for node in nodes]
    counts = Counter(name for sizes in images for name in sizes)
    return [
        msgspec.json.encode({name: {"Size": size, "NumNodes": counts[name]} for name, size in sorted(sizes.items())})
        for sizes in images
    ]


def _sizes(node: bytes) -> dict[str, int]:
    try:
        return dict(_named_sizes(node))
    except DecodeError:
        return {}


def _named_sizes(node: bytes) -> Iterable[tuple[str, int]]:
    for status in _messages(node, _NODE_STATUS):
        for image in _messages(status, _STATUS_IMAGES):
            size = next((value for number, _, value in fields(image) if number == _IMAGE_SIZE), 0)
            for name in _messages(image, _IMAGE_NAMES):
                yield name.decode(errors="replace"), int(size)


def _messages(data: bytes, number: int) -> Iterable[bytes]:
    for found, _, value in fields(data):
        if found == number and isinstance(value, bytes):
            yield value
