"""Image states: which images the nodes hold, how large they are and on how many nodes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import Final, TypeAlias

import msgspec

from wasm_runtime.protobuf import DecodeError, fields

_NODE_STATUS: Final = 3
_STATUS_IMAGES: Final = 8
_IMAGE_NAMES: Final = 1
_IMAGE_SIZE: Final = 2

_Image: TypeAlias = tuple[str, int]
"""A name of an image, and the image's size in bytes."""

_MAX_CACHED_IMAGES: Final = 16_384
"""Images that are kept once they were read: those of a cluster are few, and most are on many nodes."""

_MAX_CACHED_IMAGE_BYTES: Final = 1024
"""Bytes of such an image; a name with its digest takes some 150."""


class ImageStates:
    """The image states of all nodes of a node table, each a JSON object.

    It maps the name of each image on the node to `{"Size": bytes, "NumNodes": count}`. A name that a node
    lists twice counts once. Names are sorted, as Go's encoder does.
    Source: `ImageStateSummary` and `Cache.addNodeImageStates` of kube-scheduler.
    """

    def __init__(self) -> None:
        self._images: dict[int, tuple[_Image, ...]] = {}
        self._holders: dict[str, set[int]] = {}

    def update(self, nodes: Iterable[tuple[int, bytes]]) -> dict[int, bytes]:
        """Takes in nodes: index and v1.Node, `ABSENT` for one that holds nothing.

        Returns the states by index of each node that is new or whose states changed, also through the
        images of others.
        """
        listed = ((at, _images(node)) for at, node in nodes)
        changed = {at: images for at, images in listed if images != self._images.get(at)}
        stale = set(changed).union(*map(self._holders.__getitem__, self._take(changed)))
        return self._encode(sorted(stale))

    def _take(self, changed: dict[int, tuple[_Image, ...]]) -> list[str]:
        """Replaces the images of nodes. Returns the names that more or fewer nodes hold now, but not none."""
        gains: Counter[str] = Counter()
        for at, images in changed.items():
            for name, _ in self._images.get(at, ()):
                self._holders[name].remove(at)
                gains[name] -= 1
            for name, _ in images:
                self._holders.setdefault(name, set()).add(at)
                gains[name] += 1
            self._images[at] = images
        for name in gains:
            if not self._holders[name]:
                del self._holders[name]
        return [name for name, gain in gains.items() if gain and name in self._holders]

    def _encode(self, nodes: Iterable[int]) -> dict[int, bytes]:
        members = _Members(self._holders)
        return {at: b"{%b}" % b",".join(map(members.__getitem__, self._images[at])) for at in nodes}


class _Members(dict[_Image, bytes]):
    """Members of the JSON objects by image, each encoded once however many nodes hold it."""

    def __init__(self, holders: dict[str, set[int]]) -> None:
        super().__init__()
        self._holders = holders

    def __missing__(self, image: _Image) -> bytes:
        name, size = image
        state = {"Size": size, "NumNodes": len(self._holders[name])}
        member = self[image] = msgspec.json.encode({name: state})[1:-1]
        return member


def _images(node: bytes) -> tuple[_Image, ...]:
    """The images of a v1.Node by name, sorted; none if it is no message."""
    try:
        images = {image[0]: image for data in _image_messages(node) for image in _named(data)}
    except DecodeError:
        return ()
    return tuple(sorted(images.values()))


def _image_messages(node: bytes) -> Iterator[bytes]:
    for status in _messages(node, _NODE_STATUS):
        yield from _messages(status, _STATUS_IMAGES)


def _named(image: bytes) -> tuple[_Image, ...]:
    """The names of a v1.ContainerImage, each with its size."""
    return _read_once(image) if len(image) <= _MAX_CACHED_IMAGE_BYTES else _read(image)


def _read(image: bytes) -> tuple[_Image, ...]:
    sizes = (value for number, _, value in fields(image) if number == _IMAGE_SIZE and isinstance(value, int))
    size = next(sizes, 0)
    return tuple((name.decode(errors="replace"), size) for name in _messages(image, _IMAGE_NAMES))


_read_once = lru_cache(_MAX_CACHED_IMAGES)(_read)


def _messages(data: bytes, number: int) -> Iterator[bytes]:
    for found, _, value in fields(data):
        if found == number and isinstance(value, bytes):
            yield value
