"""Reads the request of a call, and the objects that it names, from files."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, BinaryIO, Final, NamedTuple, TypeVar

import msgspec
import yaml
from msgspec import Raw, Struct

from extender.config import ServerConfig
from extender.config.yaml_loader import BoundedLoader
from extender.scheduling.node_source import NodeSource
from extender.scheduling.requests import PodRequest, RequestError
from extender.webhook.decoding import RequestDecoder
from wasm_runtime.nodes.node_table import NodeTable
from wasm_runtime.pods.pod_table import ResidentPod

T = TypeVar("T")

STANDARD_INPUT: Final = Path("-")


class CallError(Exception):
    """The call cannot be made. `str()` names the file and says why."""


_JSON: Final = (b"", b"{", b"[")
"""First characters of a file that is read as JSON; an empty one is, too."""

_FINISHED: Final = frozenset({"Succeeded", "Failed"})
"""Phases in which a pod no longer uses resources of its node."""


class _Kind(Struct):
    kind: str = ""


class _PodList(Struct):
    items: list[Raw]


class _PodSpec(Struct):
    nodeName: str = ""  # noqa: N815 - the API's name


class _PodStatus(Struct):
    phase: str = ""


class _Placed(Struct):
    """The part of a v1.Pod that says on which node the pod runs, and whether it still does."""

    spec: _PodSpec = msgspec.field(default_factory=_PodSpec)
    status: _PodStatus = msgspec.field(default_factory=_PodStatus)


class CallInput(NamedTuple):
    """A request, and the objects that the request only names."""

    file: Path
    """Where the request is from, for messages."""
    body: bytes
    """The JSON that kube-scheduler would send."""
    nodes: NodeSource
    """The nodes that `--nodes` gives, with the pods on them."""
    pod: PodRequest | None
    """The pod that a bind request names, if a file gives it."""


def read(verb: str, file: Path, nodes: Path | None, pod: Path | None, pods: Path | None) -> CallInput:
    """Reads a request for a verb, or a pod of which a request is made.

    `nodes`, `pod` and `pods` are files of objects as kubectl prints them. Guests see the pods of `pods` that are on
    nodes and have not finished. Raises CallError, which names the file.
    """
    source = NodeSource(None, NodeTable())
    names = _decode(nodes, lambda text: _put(text, source)) if nodes else []
    if pods:
        source.current.pods.put(_decode(pods, _on_nodes))
        source.current.pods.complete()
    body = contents(file)
    if whole := printed_pod(body):
        try:
            return CallInput(file, _request(verb, whole, names), source, _pod(msgspec.json.encode(whole)))
        except RequestError as error:
            raise CallError(f"{file}: {error}") from error
    if kind := _kind(body):
        what = f"{kind} without a name" if kind == "Pod" else kind
        wanted = "one pod as kubectl get pod NAME -o json prints it, or a request as kube-scheduler sends it"
        raise CallError(f"{file}: it is a {what}; give {wanted}")
    return CallInput(file, body, source, _decode(pod, _pod) if pod else None)


def printed_pod(body: bytes) -> dict[str, Any] | None:
    """The v1.Pod of a body that is one, or a list of one; None for a body that may be a request.

    A pod that was never created gets the namespace `default`, and `namespace/name` as its UID.
    """
    try:
        found = msgspec.json.decode(body)
        if found.get("kind") in {"List", "PodList"} and len(found["items"]) == 1:
            (found,) = found["items"]
        if found.get("kind") != "Pod":
            return None
        metadata = {"namespace": "default", **found["metadata"]}
        metadata.setdefault("uid", f"{metadata['namespace']}/{metadata['name']}")
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, AttributeError, KeyError, TypeError):
        return None
    return {**found, "metadata": metadata}


def _kind(body: bytes) -> str:
    """The kind of a body that is an object of Kubernetes; empty for any other body, such as a request."""
    try:
        return msgspec.json.decode(body, type=_Kind).kind
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return ""


def _request(verb: str, pod: dict[str, Any], names: Sequence[str]) -> bytes:
    """The request that kube-scheduler would send for a verb, about a pod and the nodes with these names.

    Raises RequestError.
    """
    if verb == "preempt":
        raise RequestError("preempt needs the victims, too; give a request with NodeNameToVictims, not a pod")
    if not names:
        raise RequestError("it is a pod; give the nodes by --nodes, as kubectl get nodes -o json prints them")
    if verb != "bind":
        return msgspec.json.encode({"Pod": pod, "NodeNames": names})
    if len(names) > 1:
        raise RequestError(f"bind is about one node, and --nodes has {len(names)}; as in kubectl get node NAME -o json")
    keys = {f"Pod{key}": pod["metadata"][name] for key, name in _BINDING.items()}
    return msgspec.json.encode({**keys, "Node": names[0]})


_BINDING: Final = {"Name": "name", "Namespace": "namespace", "UID": "uid"}


def _put(text: bytes, source: NodeSource) -> list[str]:
    """Puts a list of v1.Nodes, or a single one, into a source. Returns their names. Raises RequestError."""
    if msgspec.json.decode(text, type=_Kind).kind == "Node":
        text = b'{"items":[%s]}' % text
    _, candidates = RequestDecoder().decode_args(b'{"Pod":{"metadata":{}},"Nodes":%s}' % text)
    if not candidates.names:
        raise RequestError("there is no node in it; expected a list as kubectl get nodes -o json prints it")
    source.find(candidates, wants_objects=True)
    return candidates.names


def _on_nodes(text: bytes) -> list[tuple[str, ResidentPod]]:
    """The pods of a list that are on nodes and have not finished, with their UIDs. Raises RequestError."""
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
    """What `decode` makes of the JSON object in a file. Raises CallError."""
    text = contents(file)
    try:
        msgspec.json.decode(text, type=dict[str, Raw])
        return decode(text)
    except (RequestError, msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise CallError(f"{file}: {error}") from error


def contents(file: Path) -> bytes:
    """JSON or YAML of a file, as JSON. Raises CallError."""
    try:
        if file == STANDARD_INPUT:
            return _as_json(file, _bounded(file, sys.stdin.buffer))
        with file.open("rb") as stream:
            return _as_json(file, _bounded(file, stream))
    except ValueError as error:
        raise CallError(f"{str(file)!r} is no path: it holds a NUL") from error
    except OSError as error:
        raise CallError(f"{file} cannot be read: {error.strerror}") from error


def _as_json(file: Path, contents: bytes) -> bytes:
    """The contents of a file in JSON. Only contents that do not begin as JSON are read as YAML. Raises CallError."""
    if contents.lstrip()[:1] in _JSON or contents.lstrip()[:1] > b"~":
        return contents
    try:
        return msgspec.json.encode(yaml.load(contents, BoundedLoader))
    except (yaml.YAMLError, ValueError, TypeError, RecursionError) as error:
        raise CallError(f"{file}: is neither JSON nor YAML: {' '.join(str(error).split())}") from error


def _bounded(file: Path, stream: BinaryIO) -> bytes:
    """The bytes of a stream. Raises CallError if they are more than a request may have."""
    limit = ServerConfig().max_request_bytes
    contents = stream.read(limit + 1)
    if len(contents) > limit:
        raise CallError(f"{file} is longer than the {limit} bytes that a request may have")
    return contents
