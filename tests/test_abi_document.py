"""sdk-guest/ABI.md says what wasm_runtime does."""

from __future__ import annotations

import re
import struct
from pathlib import Path

from extender.scheduling.planning import MAX_JUDGED
from wasm_runtime import NodeTable, abi
from wasm_runtime.abi import GroupSource, PodState
from wasm_runtime.driver import layout
from wasm_runtime.engine import KIBIBYTE, MAX_LONG_REASONS, POD_BUFFER_ALIGNMENT, Settings
from wasm_runtime.engines.wasmtime.limits import MAX_TABLES
from wasm_runtime.guests.binding_annotations import MAX_ANNOTATIONS, MAX_BYTES, MAX_NAME_CHARS
from wasm_runtime.guests.guest import name
from wasm_runtime.guests.guest_place import CYCLE_TIMEOUT_S
from wasm_runtime.nodes.node_feed import MAX_NODES_PER_BATCH
from wasm_runtime.nodes.node_table import SLACK
from wasm_runtime.pods.group_feed import GroupFeed
from wasm_runtime.pods.group_table import Group, GroupKey, GroupTable
from wasm_runtime.pods.pod_feed import MemberFeed, PodFeed
from wasm_runtime.pods.pod_table import ResidentPod
from wasm_runtime.pods.record_feed import MAX_BATCH_BYTES, MAX_RECORDS_PER_BATCH, RecordBatch
from wasm_runtime.protobuf.annotate import MAX_ANNOTATIONS_BYTES

DOCUMENT = (Path(__file__).parents[1] / "sdk-guest" / "ABI.md").read_text(encoding="utf-8")
TEXT = " ".join(DOCUMENT.split())
KEPT = ("Resident nodes", "Resident pods", "Resident groups")


def table(heading: str) -> list[list[str]]:
    """The rows of the first table behind a heading, without its head."""
    lines = DOCUMENT.partition(f"# {heading}\n")[2].splitlines()
    start = next(at for at, line in enumerate(lines) if line.startswith("|"))
    rows = []
    for line in lines[start + 2 :]:
        if not line.startswith("|"):
            break
        cells = re.split(r"(?<!\\)\|", line.strip("|"))
        first, *others = (cell.strip().replace("\\|", "|") for cell in cells)
        rows.append([first.strip("`"), *others])
    return rows


def test_exports() -> None:
    assert table("Exports") == [
        [export, entry.extension_point, str(entry.signature), entry.result] for export, entry in abi.EXPORTS.items()
    ]


def test_exports_of_guests_that_keep_nodes_pods_and_groups() -> None:
    assert [row[:2] for heading in KEPT for row in table(heading)] == [
        [export, str(signature)] for export, signature in abi.RESIDENT.items()
    ]
    needs = DOCUMENT.partition("Each export is optional, with these rules: ")[2].partition(".")[0]
    assert " ".join(needs.split()) == (
        "`nodechanged` and `noderemoved` come together, `filternodes` and `scorenodes` need both of them,"
        " `nodebuffer`, and `filter` or `score` respectively"
    )


def test_what_exports_for_pods_need() -> None:
    needs = {
        stream: " and ".join(f"`{need}`" for need in abi.RESIDENT_NEEDS[stream][::-1]) for stream in abi.POD_STREAMS
    }
    said = ", ".join(f"`{stream}` needs {need}" for stream, need in needs.items())
    assert f"Each of them is optional: {said}." in TEXT
    assert abi.RESIDENT_NEEDS["groupschanged"] == ("podbuffer",)
    assert abi.RESIDENT_NEEDS["memberschanged"] == ("groupschanged",)
    assert "`groupschanged` needs `podbuffer`, and `memberschanged` needs `groupschanged`." in TEXT


def test_records_of_pods() -> None:
    rows = {field: (int(offset), kind, meaning) for offset, kind, field, meaning in table("Records of pods")}
    batch = _batch(ResidentPod("a", b"object", is_tentative=True))
    fields = struct.unpack_from("<4I", batch.records)
    assert [(offset, kind) for offset, kind, _ in rows.values()] == [
        *((4 * at, "u32") for at in range(4)),
        (16, "bytes"),
    ]
    assert dict(zip(rows, fields, strict=False)) == {"pod": 0, "node": 0, "state": PodState.TENTATIVE, "length": 6}
    assert batch.records[rows["object"][0] :] == b"object\0\0"
    states = ", ".join(f"{state.value} {state.name.lower()}" for state in PodState if state is not PodState.BINDING)
    assert rows["state"][-1].startswith(f"{states}: ")
    assert f"0x{abi.NO_NODE:X}" in rows["node"][-1]
    assert f"at most {MAX_RECORDS_PER_BATCH} records and {MAX_BATCH_BYTES:,} bytes a call" in TEXT
    assert f"no multiple of {POD_BUFFER_ALIGNMENT}, or" in TEXT


def _batch(pod: ResidentPod) -> RecordBatch:
    """What is told of the first pod of all."""
    node_table, feed = NodeTable(), PodFeed("podschanged")
    node_table.pods.put([("uid", pod)])
    changes = node_table.pods.changes(0)
    assert changes is not None
    feed.add(changes, 0)
    return feed.take()


def test_records_of_groups() -> None:
    rows = {field: (int(offset), kind, meaning) for offset, kind, field, meaning in table("Records of groups")}
    key = GroupKey(GroupSource.LABEL, "default", "train")
    table_, feed = GroupTable(), GroupFeed()
    table_.put(key, Group(4, 60, -7, 1_700_000_000))
    changes = table_.changes(0)
    assert changes is not None
    feed.add(changes)
    batch = feed.take()
    fields = struct.unpack_from("<5IiQ2I", batch.records)
    assert [(offset, kind) for offset, kind, _ in rows.values()] == [
        *((4 * at, "i32" if at == 5 else "u32") for at in range(6)),
        *((24, "u64"), (32, "u32"), (36, "u32"), (40, "bytes")),
    ]
    assert dict(zip(rows, fields, strict=False)) == {
        "group": 0,
        "state": PodState.THERE,
        "source": GroupSource.LABEL,
        "minimum": 4,
        "timeout": 60,
        "priority": -7,
        "created": 1_700_000_000,
        "namespace length": 7,
        "name length": 5,
    }
    assert batch.records[rows["names"][0] :] == b"defaulttrain".ljust(16, b"\0")
    assert rows["state"][-1].startswith(f"{PodState.GONE.value} gone, {PodState.THERE.value} there; ")


def test_records_of_members() -> None:
    rows = {field: (int(offset), kind, meaning) for offset, kind, field, meaning in table("Records of members")}
    node_table, feed = NodeTable(), MemberFeed()
    pods = node_table.pods
    key = GroupKey(GroupSource.LABEL, "default", "train")
    pods.put([("uid", ResidentPod("a", b"object", is_tentative=True, group=key, is_binding=True))])
    changes = pods.changes(0)
    assert changes is not None
    feed.add(changes, 0)
    fields = struct.unpack("<4I", feed.take().records)
    assert [(offset, kind) for offset, kind, _ in rows.values()] == [(4 * at, "u32") for at in range(4)]
    assert dict(zip(rows, fields, strict=True)) == {"pod": 0, "node": 0, "state": PodState.BINDING, "group": 0}
    assert f", {PodState.BINDING.value} binding: " in rows["state"][-1]
    assert f"0x{abi.NO_NODE:X}" in rows["node"][-1]
    assert f"0x{abi.NO_GROUP:X}" in rows["group"][-1]


def test_imports() -> None:
    assert [row[:2] for row in table("Imports")] == [
        [str(function), str(signature)] for function, signature in abi.IMPORTS.items()
    ]


def test_status_codes() -> None:
    assert [row[:2] for row in table("Status codes")] == [[str(code.value), name(code)] for code in abi.Code]


def test_limits() -> None:
    assert f"cut to {layout.REASON_LIMIT:,} bytes" in TEXT
    assert f"`outputLimit` ({Settings('plugin').output_limit // KIBIBYTE} KiB) a call" in TEXT
    assert f"after {CYCLE_TIMEOUT_S:.0f} seconds" in TEXT
    assert f"{MAX_TABLES} tables |" in TEXT
    assert f"most nodes there were at once, or that pods were on, plus {SLACK:,} and the names" in TEXT
    assert f"Reasons beyond {MAX_LONG_REASONS} and one for each node" in TEXT
    assert f"| time of announcing {MAX_NODES_PER_BATCH} nodes, " in TEXT
    assert (
        f" nodes, and with them {MAX_RECORDS_PER_BATCH} pods of each kind, groups and members, between requests |"
        in TEXT
    )
    each = f"{MAX_NODES_PER_BATCH} nodes, or {MAX_RECORDS_PER_BATCH} pods, groups or members"
    assert f"| time of announcing {each}, ahead of a verb |" in TEXT
    assert f"| the verb fails after the {MAX_NODES_PER_BATCH} or {MAX_RECORDS_PER_BATCH} at hand; " in TEXT
    assert f"must be in {abi.MIN_NODE_SCORE}..{abi.MAX_NODE_SCORE}" in TEXT


def test_annotations_at_the_bind() -> None:
    said = table("Limits")
    assert ["annotations at the bind", f"{MAX_ANNOTATIONS}, of {MAX_BYTES:,} bytes", "the call fails"] in said
    assert f"At most {MAX_ANNOTATIONS} annotations in {MAX_BYTES:,} bytes." in TEXT
    assert f"a name of at most {MAX_NAME_CHARS} letters, digits, `-`, `_` and `.`," in TEXT
    assert f"together, with those that the pod has, may take {MAX_ANNOTATIONS_BYTES:,} bytes." in TEXT
    assert (MAX_JUDGED, "up to eight times in all" in TEXT) == (8, True)
