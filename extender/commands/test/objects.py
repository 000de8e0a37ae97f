"""Pods, nodes and PodGroups: as kubectl prints them, or as short as a person writes them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeVar

import msgspec
import yaml

from extender.cluster import GROUP_APIS, GroupObject
from extender.commands.test import document
from extender.commands.test.document import Reader, refuse
from extender.commands.test.schema import read_field
from wasm_runtime.abi import GroupSource
from wasm_runtime.pods.group_table import GroupKey
from wasm_runtime.protobuf import EncodeError, encode_node, encode_pod
from wasm_runtime.protobuf.schema import MESSAGES

T = TypeVar("T")

Object = dict[str, Any]

_FINISHED: Final = frozenset({"Succeeded", "Failed"})
"""Phases in which a pod no longer uses resources of its node."""

_API: Final = ("apiVersion", "kind")
"""Keys of objects as kubectl prints them. Objects that have them may have further keys of a newer Kubernetes."""

_CONTAINER: Final = "c"
"""The name of a container that has none."""

Way = tuple[str, ...]
"""A path of keys, from the object inwards."""

_METADATA: Final[Mapping[str, Way]] = {key: ("metadata", key) for key in ("name", "labels", "annotations")}

_SHORT: Final[Mapping[str, Mapping[str, Way]]] = {
    "Node": {
        **_METADATA,
        "taints": ("spec", "taints"),
        "unschedulable": ("spec", "unschedulable"),
        "allocatable": ("status", "allocatable"),
    },
    "Pod": {
        **_METADATA,
        "namespace": ("metadata", "namespace"),
        "uid": ("metadata", "uid"),
        "node": ("spec", "nodeName"),
        "priority": ("spec", "priority"),
        "nodeSelector": ("spec", "nodeSelector"),
        "tolerations": ("spec", "tolerations"),
        "requests": ("spec", "containers", "resources", "requests"),
    },
}
"""The path of each short key that may be written at the top of an object. A list on the path gets one item."""


class PodObject(NamedTuple):
    """A pod."""

    name: str
    namespace: str
    uid: str
    node: str
    """The name of the node; empty if the pod has none."""
    is_finished: bool
    object: bytes
    """Protobuf v1.Pod."""


class NodeObject(NamedTuple):
    """A node."""

    name: str
    object: bytes
    """Protobuf v1.Node."""


class PodGroup(NamedTuple):
    """A group of pods, as its object has it."""

    key: GroupKey
    object: GroupObject


def pod(default_name: str) -> Reader[PodObject]:
    """A reader of pods, which may be names alone. A pod without a name gets `default_name`, unless that is empty."""

    def read(node: yaml.Node) -> PodObject:
        found = _object(node, "Pod")
        if default_name:
            found.setdefault("metadata", {}).setdefault("name", default_name)
        return _made(node, lambda: pod_object(found))

    return read


def node(item: yaml.Node) -> NodeObject:
    """Reads a node, which may be a name alone."""
    return _made(item, lambda: node_object(_object(item, "Node")))


def pod_object(pod: Object) -> PodObject:
    """The pod of a v1.Pod in JSON. Namespace, UID and container are made up if they are missing.

    Raises ValueError.
    """
    metadata = {"namespace": "default", **_metadata(pod)}
    metadata.setdefault("uid", f"{metadata['namespace']}/{metadata['name']}")
    spec = {"containers": [{"name": _CONTAINER}], **(pod.get("spec") or {})}
    encoded = encode_pod({**pod, "metadata": metadata, "spec": spec})
    phase = (pod.get("status") or {}).get("phase")
    name, namespace, uid = (metadata[key] for key in ("name", "namespace", "uid"))
    return PodObject(name, namespace, uid, spec.get("nodeName") or "", phase in _FINISHED, encoded)


def node_object(node: Object) -> NodeObject:
    """The node of a v1.Node in JSON. Raises ValueError."""
    return NodeObject(_metadata(node)["name"], encode_node(node))


def group(item: yaml.Node) -> PodGroup:
    """Reads a PodGroup, or the keys of one: those of its metadata and spec together.

    Without an API, `minCount` tells one of scheduling.k8s.io; all others are of scheduling.x-k8s.io.
    """
    content = document.plain(item) if isinstance(item, yaml.MappingNode) else {}
    if any(key in content for key in _API):
        metadata, api_group = content.get("metadata") or {}, str(content.get("apiVersion")).partition("/")[0]
        source = {api.group: api.source for api in GROUP_APIS}.get(api_group)
        if source is None:
            refuse(item, f"apiVersion: expected one of {', '.join(api.group for api in GROUP_APIS)}")
    else:
        metadata = document.keys(item, _GROUP_KEYS, ("name",))
        source = GroupSource.SCHEDULING_GROUP if "minCount" in metadata else GroupSource.LABEL
        gang = {"schedulingPolicy": {"gang": {"minCount": metadata.get("minCount", 0)}}}
        content = {"spec": {**metadata, **gang}}
    (api,) = (api for api in GROUP_APIS if api.source is source)
    found = api.decode(msgspec.json.encode(content))
    if found.problem:
        refuse(item, found.problem)
    return PodGroup(GroupKey(source, metadata.get("namespace", "default"), metadata.get("name", "")), found)


_GROUP_KEYS: Final[Mapping[str, Reader[Any]]] = {
    "name": document.text,
    "namespace": document.text,
    "minMember": document.number,
    "minCount": document.number,
    "scheduleTimeoutSeconds": document.number,
    "priority": document.number,
}


def several(read: Reader[Any], make: Callable[[Object], Any], kind: str, folder: Path) -> Reader[list[Any]]:
    """A reader of a list of objects, also as kubectl prints it, or of the name of a file in `folder` that has one."""

    def read_several(item: yaml.Node) -> list[Any]:
        if isinstance(item, yaml.ScalarNode):
            return read_file(folder / document.text(item), read, make, kind)
        if isinstance(item, yaml.MappingNode):
            named = {name.value: value for name, value in document.pairs(item)}
            if "items" in named:
                return document.under("items", document.items(read), named["items"])
            refuse(item, f"expected a list of {kind}, or a file that has one")
        return document.items(read)(item)

    return read_several


def read_file(file: Path, read: Reader[Any], make: Callable[[Object], Any], kind: str) -> list[Any]:
    """The objects of a file, in JSON or YAML. Raises DocumentError, which names the file."""
    try:
        contents = file.read_bytes()
    except (OSError, ValueError) as error:
        raise document.unreadable(file, error) from error
    if not contents.lstrip().startswith(b"{"):
        return document.read_file(file, several(read, make, kind, file.parent))
    try:
        found = msgspec.json.decode(contents, type=Object)
        items: Sequence[Object] = found.get("items", [found])
        return [_item(make, at, item) for at, item in enumerate(items)]
    except (ValueError, TypeError, AttributeError, RecursionError) as error:
        found_wrong = document.DocumentError(str(error))
        found_wrong.file = file
        raise found_wrong from error


def _item(make: Callable[[Object], Any], at: int, item: Object) -> Any:
    try:
        return make(item)
    except ValueError as error:
        raise ValueError(f"items[{at}]: {error}") from error


def _metadata(item: Object) -> Object:
    metadata: Object = item.get("metadata") or {}
    if not isinstance(metadata.get("name"), str) or not metadata["name"]:
        raise ValueError("metadata.name: is required")
    return metadata


def _made(item: yaml.Node, make: Callable[[], T]) -> T:
    try:
        return make()
    except EncodeError as error:
        refuse(item, str(error))
    except ValueError as error:
        refuse(item, str(error).replace("metadata.name:", "name"))


def _object(item: yaml.Node, message: str) -> Object:
    """An object by the schema of the API, with the values of short keys at their paths."""
    if isinstance(item, yaml.ScalarNode):
        return {"metadata": {"name": document.text(item)}}
    entries = document.pairs(item)
    is_printed = any(name.value in _API for name, _ in entries)
    found: Object = {}
    for name, value in entries:
        key = name.value
        if document.is_null(value):
            continue
        if path := _SHORT[message].get(key):
            _merge(found, document.under(key, partial(_placed, message, path), value), name)
        elif key in MESSAGES[message]:
            _merge(
                found, {key: document.under(key, partial(read_field, MESSAGES[message][key], is_printed), value)}, name
            )
        elif key == "kind" and document.text(value) != message:
            refuse(value, f"kind: expected {message}, found {document.text(value)}")
        elif not is_printed:
            refuse(name, document.unknown(key, [*_SHORT[message], *MESSAGES[message]]))
    return found


def _placed(message: str, path: Way, value: yaml.Node) -> Object:
    """An object that has nothing but a value at the end of a path."""
    row = MESSAGES[message][path[0]]
    if len(path) == 1:
        return {path[0]: read_field(row, False, value)}
    content = _placed(row[3], path[1:], value)
    return {path[0]: [{"name": _CONTAINER, **content}] if row[1] == "list" else content}


def _merge(found: Object, more: Object, name: yaml.Node) -> None:
    """Merges `more` into `found`. Raises DocumentError for a value that is given twice."""
    for key, value in more.items():
        if key not in found:
            found[key] = value
        elif isinstance(value, dict) and isinstance(found[key], dict):
            _merge(found[key], value, name)
        else:
            refuse(name, f"{key}: is given twice")
