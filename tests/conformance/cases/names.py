"""Node names of any bytes, on every way between host and guest."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Final

from tests.conformance.calls import NODE, ONE_NODE, calls
from tests.conformance.case import Case
from tests.conformance.cases.status import DONE
from tests.conformance.guests import BUFFER, NODE_NAME, NODE_OBJECT, TEXT, guest, only, size, tell, tells, told
from tests.wasm_runtime.guest_modules import call
from tests.wasm_runtime.world import World, world
from wasm_runtime.abi import Code, NominatingMode
from wasm_runtime.guests.guest import Nomination, PreFilter, Status

NAMES: Final = {
    "empty": "",
    "one letter": "n",
    "253 characters": "n" * 253,
    "253 characters of two bytes": "é" * 253,
    "253 characters of four bytes": "🚀" * 253,
    "several scripts": "größe-ノード-узел",
    "a letter and its accent apart": "nod\u0065\u0301",
    "a cyrillic look-alike": "node-\u0430",
    "an invisible character": "node\u200b-a",
    "right to left": "\u202enode-a",
    "upper case": "NODE-A",
    "a space": "node a",
    "spaces around": " node-a ",
    "a newline": "node\n-a",
    "a NUL": "node\0-a",
    "a NUL at the end": "node-a\0",
    "only a NUL": "\0",
    "control characters": "\x01\x1f\x7f\u0085",
    "quotes": "\"node-a'`",
    "a backslash": "node\\-a\\n\\u0041",
    "JSON": '{"node-a":1}',
    "markup": "<b>&amp;</b>",
    "line separators of JavaScript": "a\u2028b\u2029c",
    "a byte order mark": "\ufeffnode-a",
    "the replacement character": "node-\ufffd",
    "a private character": "\ue000\U0010ffff",
    "a path": "../../etc/passwd",
}
"""Names by what is odd about them. Kubernetes allows few of them; a guest may still be asked about any."""

BESIDE: Final = "node-a"
"""The name of the other node, which most of the names look like."""

FILTERED: Final = "k8s.io/scheduler/filteredNodeList"
STATUSES: Final = "k8s.io/scheduler/nodeToStatusMap"
SCORES: Final = "k8s.io/scheduler/nodeScoreList"
NODE_NAMES: Final = "k8s.io/scheduler/result.node_names"
NOMINATED: Final = "k8s.io/scheduler/result.nominated_node_name"
NORMALIZED: Final = "k8s.io/scheduler/result.normalized_score_list"


ROOM: Final = 2048
"""Bytes of a guest's buffer."""


def _nodes(name: str) -> World:
    return world({name: b"odd", BESIDE: b"plain"})


def _json(value: object) -> str:
    """JSON that escapes nothing that it need not."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _written(what: str, function: str, export: str, text: str, *, at: World, node: str = "") -> Case:
    """A guest that tells all that the host has written."""
    body = tell(call(function, BUFFER, ROOM), BUFFER, size(text))
    value = [0] * len(at.nodes) if export in {"prescore", "normalizescore"} else DONE[export]
    return Case(
        what, guest(only(export, body), uses=[function]), calls(export, at=at), value, [told(size(text), text, node)]
    )


def _to_guests(odd: str, name: str) -> Iterator[Case]:
    at = _nodes(name)
    only_one = world({name: b"odd"})
    yield _written(f"currentNodeName is a name with {odd}", NODE_NAME, "filter", name, at=only_one, node=name)
    for export, function, document in (
        ("prescore", FILTERED, [name, BESIDE]),
        ("postfilter", STATUSES, {name: 2, BESIDE: 2}),
        ("normalizescore", SCORES, {name: 0, BESIDE: 0}),
    ):
        yield _written(f"{function} has a name with {odd}", function, export, _json(document), at=at)


def _asked(what: str, name: str | bytes, known: Mapping[str, bytes], answer: str) -> Case:
    """A guest that asks for the object of a node by name."""
    body = tells(NODE_OBJECT, TEXT, size(name), BUFFER, ROOM, shown=8)
    return Case(
        f"node is asked for by {what}",
        guest(only("prefilter", body), uses=[NODE_OBJECT], data={TEXT: name}),
        calls("prefilter", at=world(known)),
        DONE["prefilter"],
        [told(len(answer), answer.ljust(8, "*"))],
    )


def _handed(what: str, function: str, export: str, text: str | bytes, value: object, at: World = ONE_NODE) -> Case:
    """A guest that hands over a text. PostFilter nominates."""
    body = only(export, call(function, TEXT, size(text)), value=int(export == "postfilter"))
    return Case(
        f"{function} is {what}", guest(body, uses=[function], data={TEXT: text}, pages=2), calls(export, at=at), value
    )


def _nominated(name: str) -> Nomination:
    return Nomination(Status(Code.SUCCESS), NominatingMode.OVERRIDE, name)


def _from_guests(odd: str, name: str) -> Iterator[Case]:
    yield _asked(f"a name with {odd}", name, {name: b"odd", BESIDE: b"plain"}, "odd")
    others = {f"{name}.": b"A", "node-b": b"B", f"{name}{name}.": b"C"}
    yield _asked(f"a name with {odd} that no node has", name, others, "")
    listed = frozenset(name.split("\0")) - {""}
    yield _handed(f"a name with {odd}", NODE_NAMES, "prefilter", f"{name}\0", PreFilter(names=listed or None))
    yield _handed(f"a name with {odd}", NOMINATED, "postfilter", name, _nominated(name))
    scores = {name: 3, BESIDE: 4}
    for how, text in (("as it is", _json(scores)), ("in escapes", json.dumps(scores))):
        yield _handed(f"a name with {odd}, {how}", NORMALIZED, "normalizescore", text, [3, 4], _nodes(name))


NO_TEXT: Final = {
    b"node-\xff": "node-\ufffd",
    b"\xc3": "\ufffd",
    b"\xe2\x98": "\ufffd",
    b"\xed\xa0\x80": "\ufffd\ufffd\ufffd",
    b"\xc0\x80": "\ufffd\ufffd",
    b"\xf4\x90\x80\x80": "\ufffd\ufffd\ufffd\ufffd",
}
"""Bytes that are no UTF-8: cut characters, a surrogate, one that is too long, one beyond Unicode."""


def _no_text(name: bytes, read: str) -> Iterator[Case]:
    yield _asked(f"{name!r}, which is no name", name, {read: b"A", name.decode("latin-1"): b"B"}, "")
    names = frozenset([read, NODE])
    yield _handed(f"{name!r} and a name", NODE_NAMES, "prefilter", name + b"\0node-a\0", PreFilter(names=names))
    yield _handed(repr(name), NOMINATED, "postfilter", name, _nominated(read))


LISTS: Final = {
    "": None,
    "\0": None,
    "\0\0\0": None,
    "node-a": None,
    "node-a\0": {"node-a"},
    "node-a\0node-b": {"node-a"},
    "node-a\0node-b\0": {"node-a", "node-b"},
    "\0node-a\0\0node-b\0\0": {"node-a", "node-b"},
    "node-a\0node-a\0": {"node-a"},
    "nobody\0": {"nobody"},
    "node-a,node-b\0": {"node-a,node-b"},
}
"""What prefilter may hand over, and the names that it comes to."""


def _lists() -> Iterator[Case]:
    for text, names in LISTS.items():
        listed = PreFilter(names=frozenset(names) if names else None)
        yield _handed(f"the list {text!r}", NODE_NAMES, "prefilter", text, listed)
    yield Case(
        f"{NODE_NAMES} is given twice, and the last counts",
        guest(
            only("prefilter", call(NODE_NAMES, TEXT, 2), call(NODE_NAMES, TEXT + 2, 2)),
            uses=[NODE_NAMES],
            data={TEXT: "a\0b\0"},
        ),
        calls("prefilter"),
        PreFilter(names=frozenset("b")),
    )


CASES = [
    *(case for odd, name in NAMES.items() for case in _to_guests(odd, name)),
    *(case for odd, name in NAMES.items() for case in _from_guests(odd, name)),
    *(case for name, read in NO_TEXT.items() for case in _no_text(name, read)),
    *_lists(),
]
