"""What a verb is called with: the files that the user names."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO, Final, NamedTuple, TypeVar

import msgspec
from msgspec import Raw, Struct

from extender.config import ServerConfig
from extender.scheduling.node_source import NodeSource
from extender.scheduling.requests import PodRequest, RequestError
from extender.webhook.decoding import RequestDecoder
from wasm_runtime.nodes.node_table import NodeTable
from wasm_runtime.pods.pod_table import ResidentPod

T = TypeVar("T")

STANDARD_INPUT: Final = Path("-")


class CallError(Exception):
    """The call cannot be made. `str()` names the file and says why."""


_FINISHED: Final = frozenset({"Succeeded", "Failed"})
"""Phases of a pod that uses nothing of its node any more."""


class _PodList(Struct):
    items: list[Raw]


class _PodSpec(Struct):
    nodeName: str = ""  # noqa: N815 - the API's name


class _PodStatus(Struct):
    phase: str = ""


class _Placed(Struct):
    """Where a pod is."""

    spec: _PodSpec = msgspec.field(default_factory=_PodSpec)
    status: _PodStatus = msgspec.field(default_factory=_PodStatus)


class CallInput(NamedTuple):
    """A request, and the objects that it only names."""

    file: Path
    body: bytes
    nodes: NodeSource
    pod: PodRequest | None
    """The pod of a bind request."""


def read(file: Path, nodes: Path | None, pod: Path | None, pods: Path | None) -> CallInput:
    """Reads a request; `nodes`, `pod` and `pods` are files as `kubectl get -o json` prints them.

    Guests are told of those of `pods` that are on nodes and have not finished. Raises CallError.
    """
    source = NodeSource(None, NodeTable())
    if nodes:
        _decode(nodes, lambda text: _put(text, source))
    if pods:
        source.current.pods.put(_decode(pods, _on_nodes))
    return CallInput(file, _contents(file), source, _decode(pod, _pod) if pod else None)


def _put(text: bytes, source: NodeSource) -> None:
    _, candidates = RequestDecoder().decode_args(b'{"Pod":{"metadata":{}},"Nodes":%s}' % text)
    if not candidates.names:
        raise RequestError("there is no node in it; expected a list as kubectl get nodes -o json prints it")
    source.find(candidates, wants_objects=True)


def _on_nodes(text: bytes) -> list[tuple[str, ResidentPod]]:
    """The pods of a list that are on nodes, by UID."""
    found = []
    for at, item in enumerate(msgspec.json.decode(text, type=_PodList).items):
        try:
            place, pod = msgspec.json.decode(item, type=_Placed), _pod(bytes(item)).pod
        except (RequestError, msgspec.DecodeError) as error:
            raise RequestError(f"pod {at} of the list: {error}") from error
        if place.spec.nodeName and place.status.phase not in _FINISHED:
            found.append((pod.uid, ResidentPod(place.spec.nodeName, pod.object)))
    return found


def _pod(text: bytes) -> PodRequest:
    return RequestDecoder().decode_args(b'{"Pod":%s,"NodeNames":[]}' % text)[0]


def _decode(file: Path, decode: Callable[[bytes], T]) -> T:
    """Makes something of a JSON object."""
    text = _contents(file)
    try:
        msgspec.json.decode(text, type=dict[str, Raw])
        return decode(text)
    except (RequestError, msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise CallError(f"{file}: {error}") from error


def _contents(file: Path) -> bytes:
    try:
        if file == STANDARD_INPUT:
            return _bounded(file, sys.stdin.buffer)
        with file.open("rb") as stream:
            return _bounded(file, stream)
    except ValueError as error:
        raise CallError(f"{str(file)!r} is no path: it holds a NUL") from error
    except OSError as error:
        raise CallError(f"{file} cannot be read: {error.strerror}") from error


def _bounded(file: Path, stream: BinaryIO) -> bytes:
    """What is in a stream, if it is not longer than a request may be."""
    limit = ServerConfig().max_request_bytes
    contents = stream.read(limit + 1)
    if len(contents) > limit:
        raise CallError(f"{file} is longer than the {limit} bytes that a request may have")
    return contents
