"""`kwx inspect`, as users and scripts see it."""

from __future__ import annotations

import hashlib
import os
import re
from pathlib import Path
from typing import Any

import msgspec
import pytest
import wasmtime

from extender.commands.inspect.table import MAX_ROWS
from extender.config import RuntimeConfig
from tests.extender import guests
from tests.extender.commands.command import Command, Ended
from tests.extender.guests import example
from tests.wasm_runtime.custom import custom
from wasm_runtime import abi
from wasm_runtime.module import metadata

MEMORY = '(memory (export "memory") 1)'
FILTER = '(func (export "filter") (result i32) (i32.const 0))'
TIME = r"(?<=in )\d+\.\d(?= ms)"
CODE = r"\d+\.\d(?= KiB)"


@pytest.fixture
def module(tmp_path: Path) -> Path:
    return tmp_path / "guest.wasm"


def build(module: Path, *fields: str, behind: bytes = b"") -> Path:
    module.write_bytes(wasmtime.wat2wasm(f"(module {' '.join(fields)})") + behind)
    return module


def digest(module: Path) -> str:
    return f"sha256:{hashlib.sha256(module.read_bytes()).hexdigest()}"


def report(ended: Ended) -> dict[str, Any]:
    """The report, but for how long compiling took and to how much: that is the machine's."""
    assert ended.stderr == ""
    found: dict[str, Any] = msgspec.json.decode(ended.stdout)
    assert found["compilation"].pop("milliseconds") > 0
    assert found["compilation"].pop("code_bytes") > 1_000
    return found


def table(ended: Ended) -> list[str]:
    """The lines of a table; numbers of the machine are `N`."""
    assert ended.stderr == ""
    return re.sub(f"{TIME}|{CODE}", "N", ended.stdout).splitlines()


def expected(module: Path, **facts: Any) -> dict[str, Any]:
    """The report of a module that has a page of memory and starts."""
    return {
        "module": str(module),
        "digest": digest(module),
        "size": module.stat().st_size,
        "language": "unknown",
        "tools": [],
        "sdk": "",
        "extension_points": {"filter": ["filter"]},
        "resident_exports": [],
        "ignored_exports": [],
        "imports": {},
        "node_data": [],
        "cluster_events": [],
        "config_schema": None,
        "portable": not facts.get("obstacles"),
        "obstacles": [],
        "memory": {"minimum_pages": 1, "maximum_pages": None, "started_pages": 1},
        "compilation": {"from_cache": False},
        "problems": [],
        **facts,
    }


def test_an_example_as_json(command: Command) -> None:
    module = example("accelerator")
    ended = command("inspect", module, "--output", "json")
    assert ended.status == 0
    assert report(ended) == expected(
        module,
        extension_points={"preFilter": ["prefilter"], "filter": ["filter"]},
        imports={
            "k8s.io/scheduler": ["get_config", "currentPod", "result.status_reason", "currentNodeName"],
            "k8s.io/api": ["node"],
        },
        node_data=["k8s.io/api/node"],
        memory={"minimum_pages": 2, "maximum_pages": None, "started_pages": 2},
    )


def test_an_example_as_a_table_and_then_from_the_compile_cache(command: Command) -> None:
    module = example("nodenumber")
    lines = [
        f"Module            {module}",
        f"Digest            {digest(module)}",
        f"Size              {module.stat().st_size} bytes",
        "Language          unknown",
        "Made with         unknown",
        "Library           unknown",
        "Extension points  preScore: prescore",
        "                  score: score",
        "Learns of changes none",
        "Ignored exports   none",
        "Imports           k8s.io/scheduler: get_config, currentPod, result.status_reason, currentNodeName",
        "Node data         none: names are enough",
        "Cluster events    all, as it names none",
        "guestConfig       not known, as the module has no schema of it",
        "Portable          yes, to the upstream host (kube-scheduler-wasm-extension)",
        "Memory            minimum 2 pages (0.125 MiB), after its start 2 pages (0.125 MiB)",
        "Code              N KiB, compiled in N ms",
        "Problems          none",
    ]
    assert table(command("inspect", module)) == lines
    lines[-2] = "Code              N KiB, from the compile cache in N ms"
    assert table(command("inspect", module)) == lines


TINYGO = """
  (@producers (language "C11" "") (processed-by "clang" "19.1.2 (https://x)") (processed-by "TinyGo" "0.39.0"))
  (import "wasi_snapshot_preview1" "proc_exit" (func $exit (param i32)))
  (import "k8s.io/scheduler" "result.cluster_events" (func $events (param i32 i32)))
  (memory (export "memory") 2 64)
  (data (i32.const 0) "\\01\\00\\00\\00\\05\\00\\00\\00")
  (data (i32.const 8) "\\0a\\00\\00\\00\\7a\\00\\00\\00")
  (data (i32.const 16) "\\63\\00\\00\\00\\01\\08\\00\\80")
  (func (export "malloc") (param i32) (result i32) (i32.const 0))
  (func (export "_start") (drop (memory.grow (i32.const 3))) (call $exit (i32.const 0)))
  (func (export "enqueue") (call $events (i32.const 0) (i32.const 24)))
  (func (export "score") (result i64) (i64.const 0))
  (func (export "normalizescore") (result i32) (i32.const 0))"""


def test_a_guest_of_tinygo_that_leaves_at_its_start(command: Command, module: Path) -> None:
    build(module, TINYGO)
    facts = expected(
        module,
        language="Go",
        tools=["clang 19.1.2", "TinyGo 0.39.0"],
        extension_points={"enqueue": ["enqueue"], "score": ["score", "normalizescore"]},
        ignored_exports=[{"name": "malloc", "did_you_mean": None}],
        imports={"wasi_snapshot_preview1": ["proc_exit"], "k8s.io/scheduler": ["result.cluster_events"]},
        cluster_events=[
            {"resource": "Node", "actions": ["Add", "UpdateNodeAllocatable"]},
            {
                "resource": "*",
                "actions": [
                    "Delete",
                    "UpdateNodeLabel",
                    "UpdateNodeTaint",
                    "UpdateNodeCondition",
                    "UpdateNodeAnnotation",
                ],
            },
            {"resource": "99", "actions": ["Add", "0x80000800"]},
        ],
        obstacles=["leaves by exit status 0 in _start, after which the upstream host cannot call it"],
        memory={"minimum_pages": 2, "maximum_pages": 64, "started_pages": 5},
    )
    assert report(command("inspect", module, "--output", "json")) == facts
    assert table(command("inspect", module)) == [
        f"Module            {module}",
        f"Digest            {digest(module)}",
        f"Size              {module.stat().st_size} bytes",
        "Language          Go",
        "Made with         clang 19.1.2",
        "                  TinyGo 0.39.0",
        "Library           unknown",
        "Extension points  enqueue: enqueue",
        "                  score: score, normalizescore",
        "Learns of changes none",
        "Ignored exports   malloc",
        "Imports           wasi_snapshot_preview1: proc_exit",
        "                  k8s.io/scheduler: result.cluster_events",
        "Node data         none: names are enough",
        "Cluster events    Node: Add, UpdateNodeAllocatable",
        "                  *: Delete, UpdateNodeLabel, UpdateNodeTaint, UpdateNodeCondition, UpdateNodeAnnotation",
        "                  99: Add, 0x80000800",
        "guestConfig       not known, as the module has no schema of it",
        "Portable          no, the upstream host (kube-scheduler-wasm-extension) would not run it as it runs here:",
        "                  leaves by exit status 0 in _start, after which the upstream host cannot call it",
        "Memory            minimum 2 pages (0.125 MiB), maximum 64 pages (4 MiB), after its start 5 pages (0.3125 MiB)",
        "Code              N KiB, from the compile cache in N ms",
        "Problems          none",
    ]


def test_a_module_with_problems_is_shown_all_the_same(command: Command, module: Path) -> None:
    build(
        module,
        '(import "k8s.io/scheduler" "currentNodeNames" (func))',
        '(import "k8s.io/api" "nodeList" (func (param i32 i32) (result i32)))',
        '(memory (export "Memory") 1)',
        '(func (export "preFilter") (result i32) (i32.const 0))',
        '(func (export "filter") (result i64) (i64.const 0))',
    )
    no_memory = "exports no memory named 'memory'"
    ended = command("inspect", module, "--output", "json")
    assert ended.status == 1
    assert report(ended) == expected(
        module,
        ignored_exports=[
            {"name": "Memory", "did_you_mean": "memory"},
            {"name": "preFilter", "did_you_mean": "prefilter"},
        ],
        imports={"k8s.io/scheduler": ["currentNodeNames"], "k8s.io/api": ["nodeList"]},
        node_data=["k8s.io/api/nodeList"],
        cluster_events=None,
        obstacles=[
            no_memory,
            "exports filter as () -> (i64), the upstream host has () -> (i32)",
            "imports k8s.io/scheduler/currentNodeNames, which the upstream host does not have",
        ],
        memory=None,
        problems=[
            f"{no_memory}: the host hands everything to a guest through it",
            "exports filter as () -> (i64), the ABI has () -> (i32)",
            "imports k8s.io/scheduler/currentNodeNames, which the host does not have;"
            " the nearest that it has is k8s.io/scheduler/currentNodeName",
        ],
    )
    ended = command("inspect", module)
    assert ended.status == 1
    assert table(ended)[6:] == [
        "Extension points  filter: filter",
        "Learns of changes none",
        "Ignored exports   Memory; did you mean memory?",
        "                  preFilter; did you mean prefilter?",
        "Imports           k8s.io/scheduler: currentNodeNames",
        "                  k8s.io/api: nodeList",
        "Node data         k8s.io/api/nodeList: it may need whole nodes, not only names",
        "Cluster events    not known",
        "guestConfig       not known, as the module has no schema of it",
        "Portable          no, the upstream host (kube-scheduler-wasm-extension) would not run it as it runs here:",
        "                  exports no memory named 'memory'",
        "                  exports filter as () -> (i64), the upstream host has () -> (i32)",
        "                  imports k8s.io/scheduler/currentNodeNames, which the upstream host does not have",
        "Memory            none",
        "Code              N KiB, from the compile cache in N ms",
        "Problems          exports no memory named 'memory': the host hands everything to a guest through it",
        "                  exports filter as () -> (i64), the ABI has () -> (i32)",
        "                  imports k8s.io/scheduler/currentNodeNames, which the host does not have;"
        " the nearest that it has is k8s.io/scheduler/currentNodeName",
    ]


UNKNOWN_START = "does not start here, so it is not known whether it would there"


@pytest.mark.parametrize(
    ("fields", "started_pages", "problem", "obstacles"),
    [
        (
            '(func $give_up unreachable) (func (export "_start") (call $give_up))',
            None,
            "does not start: _start: trap: unreachable in give_up < func[1]",
            [UNKNOWN_START],
        ),
        (
            '(func (export "_initialize") (loop $again (br $again)))',
            None,
            "does not start: _initialize: interrupted at its timeout of 500 ms;"
            " mend the guest, or raise the plugin's timeout",
            [
                "exports _initialize without _start, which alone the upstream host calls; export it as _start, too",
                UNKNOWN_START,
            ],
        ),
        (
            '(func (export "enqueue") unreachable)',
            1,
            "does not start: enqueue: trap: unreachable in func[0]",
            [UNKNOWN_START],
        ),
        (
            '(func (export "enqueue") (loop $again (br $again)))',
            1,
            "does not start: enqueue: interrupted at its timeout of 500 ms;"
            " mend the guest, or raise the plugin's timeout",
            [UNKNOWN_START],
        ),
    ],
)
def test_a_guest_that_does_not_start(
    command: Command, module: Path, fields: str, started_pages: int | None, problem: str, obstacles: list[str]
) -> None:
    build(module, fields, MEMORY, FILTER)
    ended = command("inspect", module, "--output", "json")
    assert ended.status == 1
    found = report(ended)
    points = {"enqueue": ["enqueue"], "filter": ["filter"]} if "enqueue" in fields else {"filter": ["filter"]}
    assert found == expected(
        module,
        extension_points=points,
        cluster_events=None,
        obstacles=obstacles,
        memory={"minimum_pages": 1, "maximum_pages": None, "started_pages": started_pages},
        problems=[problem],
    )


def test_nothing_but_start_and_enqueue_is_run(command: Command, module: Path) -> None:
    every = [f'(func (export "{name}") (result i32) unreachable)' for name in ("prefilter", "addpod", "removepod")]
    build(module, MEMORY, *every, '(func (export "filter") (result i32) unreachable)', '(func (export "enqueue"))')
    assert command("inspect", module).status == 0


def test_names_that_were_meant(command: Command, module: Path) -> None:
    slips = {
        "Filter": "filter",
        "preFilter": "prefilter",
        "pre_filter": "prefilter",
        "PRE-FILTER": "prefilter",
        "filterr": "filter",
        "normalize_score": "normalizescore",
        "normalize": "normalizescore",
        "preScorePlugin": None,
        "scoring": None,
        "add_pod": "addpod",
        "initialize": "_initialize",
        "start": "_start",
        "malloc": None,
        "free": None,
        "calloc": None,
        "realloc": None,
        "__new": None,
        "__heap_base": None,
        "": None,
        "größe": None,
    }
    build(module, MEMORY, FILTER, *(f'(func (export "{name}"))' for name in slips))
    found = report(command("inspect", module, "--output", "json"))
    assert {each["name"]: each["did_you_mean"] for each in found["ignored_exports"]} == slips


def test_long_lists_are_cut_and_what_could_move_the_cursor_is_replaced(command: Command, module: Path) -> None:
    names = [r"\1b[2J\r\n\t\c2\9b", "x" * 2_000, *(f"export{at}" for at in range(29))]
    build(module, MEMORY, FILTER, *(f'(func (export "{name}"))' for name in names))
    shown = table(command("inspect", module))
    assert len(shown) == 17 + MAX_ROWS
    assert shown[7:11] == [
        "Learns of changes none",
        "Ignored exports   �[2J   �",
        f"                  {'x' * 498} … {'x' * 498}",
        "                  export0",
    ]
    assert shown[7 + MAX_ROWS : 9 + MAX_ROWS] == [
        "                  export17",
        "                  and 11 more; --output json shows them all",
    ]
    found = report(command("inspect", module, "--output", "json"))
    assert [len(each["name"]) for each in found["ignored_exports"]] == [8, *map(len, names[1:])]


def test_malformed_custom_sections_do_no_harm(command: Command, module: Path) -> None:
    sections = {"producers": b"\x80" * 100_000, "name": b"\x01\xff\xff\xff\xff\x0f\xff", ".debug_str": b"zig \xff\xfe"}
    build(module, MEMORY, FILTER, behind=b"".join(custom(*section) for section in sections.items()))
    assert report(command("inspect", module, "--output", "json")) == expected(module)


def test_what_takes_long_is_said_before(command: Command, module: Path) -> None:
    build(module, MEMORY, FILTER, behind=custom("padding", bytes(300_000)))
    ended = command("inspect", module, "--output", "json")
    assert (ended.status, ended.stderr) == (0, f"Compiling {module} …\n")
    assert msgspec.json.decode(ended.stdout)["size"] > 300_000


VALID = wasmtime.wat2wasm(f"(module {MEMORY} {FILTER})")


@pytest.mark.parametrize(
    ("wasm", "problem"),
    [
        (b"", "begins with b'', not with b'\\x00asm'"),
        (b"#!/bin/sh\n", "begins with b'#!/b', not with b'\\x00asm'"),
        (
            VALID[:-1],
            "unexpected end-of-file (at offset 0x31)",
        ),
        (
            VALID + b"\0\xff",
            "unexpected end-of-file (at offset 0x37)",
        ),
    ],
)
def test_a_file_that_is_no_module(command: Command, module: Path, wasm: bytes, problem: str) -> None:
    module.write_bytes(wasm)
    for output in ("table", "json"):
        ended = command("inspect", module, "--output", output)
        assert ended == (1, "", f"kwx: {module} is no valid WebAssembly module: {problem}\n")


@pytest.mark.parametrize(
    "component",
    [b"\0asm\x0d\0\1\0", b"\0asm\x0a\0\1\0" + bytes(300_000)],
    ids=["empty", "of an older version, and large"],
)
def test_a_component_is_told_from_a_module(command: Command, module: Path, component: bytes) -> None:
    module.write_bytes(component)
    ended = command("inspect", module, "--output", "json")
    assert (ended.status, ended.stdout) == (1, "")
    assert ended.stderr.splitlines()[-1] == (
        f"kwx: {module} is a WebAssembly component, not a core module: build it for wasm32-wasip1 or"
        " wasm32-unknown-unknown, not for wasip2, and leave out `wasm-tools component new`"
    )


def test_exports_by_which_a_guest_keeps_nodes_are_not_ignored(command: Command, tmp_path: Path) -> None:
    module = tmp_path / "keep_nodes.wasm"
    module.write_bytes(guests.module("keep_nodes"))
    found = msgspec.json.decode(command("inspect", module, "--output", "json").stdout)
    exports = [name for name in abi.RESIDENT if name in found["resident_exports"]]
    assert {"nodechanged", "noderemoved"} <= set(exports)
    assert (found["resident_exports"], found["ignored_exports"]) == (exports, [])
    shown = table(command("inspect", module))
    assert f"Learns of changes by {', '.join(exports)}" in shown
    assert "Ignored exports   none" in shown


def test_a_guest_that_keeps_pods_needs_an_api_server(command: Command, tmp_path: Path) -> None:
    module = tmp_path / "packs_two.wasm"
    module.write_bytes(guests.module("packs_two"))
    shown = table(command("inspect", module))
    at = next(at for at, line in enumerate(shown) if line.startswith("Learns of changes by "))
    assert shown[at + 1].strip() == (
        "of pods only where the extender has an API server (cluster.mode kubeconfig or in-cluster)"
    )


def test_a_file_name_that_is_no_utf_8(command: Command, tmp_path: Path) -> None:
    module = build(tmp_path / os.fsdecode(b"guest\xff.wasm"), MEMORY, FILTER)
    shown = f"{tmp_path}/guest�.wasm"
    assert msgspec.json.decode(command("inspect", module, "--output", "json").stdout)["module"] == shown
    assert table(command("inspect", module))[0] == f"Module            {shown}"
    module.write_bytes(b"")
    problem = "is no valid WebAssembly module: begins with b'', not with b'\\x00asm'"
    assert command("inspect", module) == (1, "", f"kwx: {shown} {problem}\n")


def test_files_that_cannot_be_read(command: Command, tmp_path: Path) -> None:
    missing = tmp_path / "missing.wasm"
    problem = f"kwx: {missing} cannot be read: No such file or directory; build it or mend the path\n"
    assert command("inspect", missing) == (1, "", problem)
    problem = "kwx: oci:/registry.example/tier:v1 cannot be read: No such file or directory; fetch it by kwx pull\n"
    assert command("inspect", "oci://registry.example/tier:v1") == (1, "", problem)
    assert command("inspect", tmp_path) == (1, "", f"kwx: {tmp_path} is no regular file; name a .wasm file\n")
    large = tmp_path / "large.wasm"
    limit = RuntimeConfig().module_limit
    with large.open("wb") as file:
        file.truncate(limit + 1)
    problem = f"kwx: {large} has {limit + 1} bytes, runtime.moduleLimit allows {limit}\n"
    assert command("inspect", large) == (1, "", problem)


def test_a_cache_that_others_can_write_to_is_not_used(
    command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("wasm_runtime.compile.cache.default_directory", lambda: tmp_path)
    tmp_path.chmod(0o777)
    assert command("inspect", example("nodenumber")) == (
        1,
        "",
        f"kwx: {tmp_path} can be written by others (mode 777), and the code kept there is run; chmod 700 it\n",
    )


SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "tier": {"type": "string", "default": "spot", "description": "Tier of the best nodes."},
        "mode": {"enum": ["pack", "spread"]},
        "share": {"type": ["number", "null"]},
    },
    "required": ["mode"],
}


def with_schema(module: Path, schema: object) -> Path:
    told = metadata.Metadata("go 0.1.0", msgspec.Raw(msgspec.json.encode(schema)))
    module.write_bytes(metadata.embed(build(module, MEMORY, FILTER).read_bytes(), told))
    return module


def test_what_a_module_says_of_itself_is_shown(command: Command, module: Path) -> None:
    with_schema(module, SCHEMA)
    facts = report(command("inspect", module, "--output", "json"))
    assert facts == expected(module, language="Go", sdk="go 0.1.0", config_schema=SCHEMA)
    lines = table(command("inspect", module))
    at = lines.index("Library           go 0.1.0")
    assert lines[at + 7 : at + 10] == [
        "guestConfig       tier (string, by default spot): Tier of the best nodes.",
        "                  mode (one of pack, spread, required)",
        "                  share (number or null)",
    ]


@pytest.mark.parametrize(
    ("schema", "shown"),
    [({}, "what its schema allows; --output json shows it"), ({"properties": {"any": True}}, "any (any)")],
)
def test_schemas_of_any_form_are_shown(command: Command, module: Path, schema: object, shown: str) -> None:
    assert f"guestConfig       {shown}" in table(command("inspect", with_schema(module, schema)))


def test_a_configuration_is_checked_by_the_modules_schema(command: Command, module: Path) -> None:
    with_schema(module, SCHEMA)
    assert command("inspect", module, "--guest-config", '{"mode": "pack"}').status == 0
    ended = command("inspect", module, "--guest-config", '{"mode": "pakc"}', "--output", "json")
    assert ended.status == 1
    refused = 'does not accept this guestConfig: mode: "pakc" is not one of "pack" or "spread"'
    assert msgspec.json.decode(ended.stdout)["problems"] == [refused]


def test_a_schema_that_cannot_be_used_is_a_problem(command: Command, module: Path) -> None:
    ended = command("inspect", with_schema(module, {"$ref": "#"}), "--output", "json")
    used = "has $ref, which no schema of a guestConfig may have: write in its place what is meant"
    assert ended.status == 1
    refused = f"has a schema of its guestConfig that cannot be used: {used}"
    assert msgspec.json.decode(ended.stdout)["problems"] == [refused]
