"""The worst modules in the world are pushed at once while requests come: each is refused, and nothing else happens."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import pytest
import wasmtime

from extender.sources.oci.manifest import MANIFEST
from extender.sources.signing import PublicKey
from tests.extender import guests, versions
from tests.extender.kwx import Extender, plugin, profile
from tests.extender.sources import web
from tests.extender.sources.oci import registry
from tests.extender.sources.signer import Signer
from tests.extender.sources.web import Conversation, Script, Web
from wasm_runtime.blob import digest
from wasm_runtime.module import metadata

GOOD = versions.module(10)
NEXT = versions.module(11)
"""It would be as good, if it came as it should."""

LARGEST = 64 * 1024
CHUNK = bytes(LARGEST)
GIGABYTES_10 = 10_000_000_000
LATE = "interrupted at its timeout of 1000 ms; mend the guest, or raise the plugin's timeout"
FULL = "its memory has grown to 16 of 16 MiB; mend the guest, or raise the plugin's memoryLimit"


def text(content: str) -> bytes:
    return bytes(wasmtime.wat2wasm(content))


def filtering(body: str, before: str = "") -> bytes:
    """A module that does something in Filter."""
    function = f'(func $filter (export "filter") (result i32) {body})'
    return text(f'(module {before} (memory (export "memory") 1) {function})')


def on_requests(cause: str) -> str:
    return f"filter of pod default/POD fails, where the active revision has an answer: filter of node node-0: {cause}"


FILES: dict[str, tuple[bytes, str]] = {
    "truncated": (GOOD[:-16], "{path} is no valid WebAssembly module: unexpected end-of-file (at offset 0xd9)"),
    "not-wasm": (b"#!/bin/sh\n", "{path} is no valid WebAssembly module: begins with b'#!/b', not with b'\\x00asm'"),
    "other-configuration": (
        metadata.embed(NEXT, metadata.Metadata(config_schema=msgspec.Raw(b'{"required":["tier"]}'))),
        '{path} does not accept this guestConfig: "tier" is a required property',
    ),
    "empty": (b"", "{path} is no valid WebAssembly module: begins with b'', not with b'\\x00asm'"),
    "component": (
        b"\0asm\x0d\0\1\0",
        "{path} is a WebAssembly component, not a core module: build it for wasm32-wasip1 or wasm32-unknown-unknown,"
        " not for wasip2, and leave out `wasm-tools component new`",
    ),
    "wrong-abi": (
        guests.module("wrong_signature"),
        "{path} exports filter as () -> (i64), the ABI has () -> (i32);"
        " {path} exports score as () -> (i32), the ABI has () -> (i64)",
    ),
    "unknown-import": (
        guests.module("unknown_import"),
        "{path} imports k8s.io/scheduler/currentPodName, which the host does not have; the nearest that it has is"
        " k8s.io/scheduler/currentNodeName; {path} imports k8s.io/klog/severity as () -> (i64), the host has"
        " () -> (i32)",
    ),
    "no-memory": (
        guests.module("no_memory"),
        "{path} exports no memory named 'memory': the host hands everything to a guest through it",
    ),
    "does-nothing": (
        guests.module("no_extension_point"),
        "{path} exports no extension point; it needs at least one of enqueue, prefilter, addpod, removepod, filter,"
        " postfilter, prescore, score, normalizescore, reserve, bindingannotations, unreserve, permit,"
        " prebind, bind, postbind",
    ),
    "too-large": (GOOD + bytes(LARGEST), f"{{path}} has {len(GOOD) + LARGEST} bytes, runtime.moduleLimit allows 65536"),
    "traps-at-start": (
        guests.module("trap_at_start"),
        "{path} does not start: _initialize: trap: unreachable in func[0]",
    ),
    "exits-at-start": (
        guests.failing_at_start("exit_at_start", 0),
        "{path} does not start: _initialize: the guest left by exit status 3",
    ),
    "grows-at-start": (
        guests.failing_at_start("grow_at_start", 0),
        f"{{path}} does not start: _initialize: trap: unreachable in grow < initialize; {FULL}",
    ),
    "spins-at-start": (
        text(
            '(module (memory (export "memory") 1) (func (export "filter") (result i32) (i32.const 0))'
            ' (func (export "_start") (loop $again (br $again))))'
        ),
        f"{{path}} does not start: _start: {LATE}",
    ),
    "begins-too-large": (
        text('(module (memory (export "memory") 257) (func (export "filter") (result i32) (i32.const 0)))'),
        "{path} does not start: instantiate: memory minimum size of 257 pages exceeds memory limits; mend the guest, or"
        " raise the plugin's memoryLimit",
    ),
    "traps": (filtering("unreachable"), on_requests("trap: unreachable in filter")),
    "exits": (
        filtering(
            "(call $exit (i32.const 3)) unreachable",
            '(import "wasi_snapshot_preview1" "proc_exit" (func $exit (param i32)))',
        ),
        on_requests("the guest left by exit status 3"),
    ),
    "spins": (filtering("(loop $again (br $again)) unreachable"), on_requests(LATE)),
    "recurses": (
        filtering("(i32.add (i32.const 1) (call $filter))"),
        on_requests(
            f"trap: stack overflow in {' < '.join(['filter'] * 12)} < …; mend the guest, or raise runtime.stackLimit"
        ),
    ),
    "grows": (
        filtering("(loop $more (br_if $more (i32.ne (memory.grow (i32.const 1)) (i32.const -1)))) unreachable"),
        on_requests(f"trap: unreachable in filter; {FULL}"),
    ),
    "answers-no-status": (
        filtering("(i32.const 42)"),
        on_requests(
            "status code 42 is none of 0 Success, 1 Error, 2 Unschedulable, 3 UnschedulableAndUnresolvable, 6 Pending"
        ),
    ),
    "answers-no-score": (
        text('(module (memory (export "memory") 1) (func (export "score") (result i64) (i64.const 0x6500000000)))'),
        "prioritize of pod default/POD fails, where the active revision has an answer: score of node node-1: score 101"
        " is outside 0..100",
    ),
    "slow": (
        guests.module("slow"),
        "filter takes N ms where the active revision takes N ms (median of N requests), more than swap.slowdownFactor"
        " 3 and swap.slowdownFloor 1 ms allow; mend the guest or raise them",
    ),
    "not-the-pinned": (NEXT, f"{{path}} has digest {digest(NEXT)}, the configuration allows only {digest(GOOD)}"),
    "unsigned": (NEXT, "{path} is not signed; expected a signature by {key}"),
    "signed-before": (NEXT, "{path} is signed, but its signature is not by this key; expected a signature by {key}"),
    "signed-by-others": (NEXT, "{path} is signed, but its signature is not by this key; expected a signature by {key}"),
}
"""What comes into the place of a file, and why it is refused."""


def cut(conversation: Conversation) -> None:
    """Is gone in the middle of what it has announced."""
    conversation.send(web.head(200, Content_Length="200") + bytes(100))


def stalled(conversation: Conversation) -> None:
    conversation.send(web.head(200, Content_Length="200") + bytes(100))
    conversation.stall()


def gigabytes(conversation: Conversation, **headers: str) -> None:
    conversation.send(web.head(200, **headers))
    for _ in range(0, GIGABYTES_10, len(CHUNK)):
        conversation.send(CHUNK)


LONG = "{url} has more than the 65536 bytes that runtime.moduleLimit allows"
LATE_ANSWER = "does not answer in time; see to the server or raise source.timeout (4 s)"
GONE = (
    "cannot be fetched: peer closed connection without sending complete message body (received 100 bytes, expected"
    " 200); see to the server or mend the URL"
)

WEB: dict[str, tuple[Script, str]] = {
    "not-found": (web.answer(404), "{url} answers 404 Not Found; put it there or mend the URL"),
    "a-page": (
        web.answer(200, b"<html>"),
        "{url} is no valid WebAssembly module: begins with b'<htm', not with b'\\x00asm'",
    ),
    "stalls": (Conversation.stall, f"{{url}} {LATE_ANSWER}"),
    "stalls-midway": (stalled, f"{{url}} {LATE_ANSWER}"),
    "gone-midway": (cut, f"{{url}} {GONE}"),
    "10-gigabytes": (partial(gigabytes, Content_Length=str(GIGABYTES_10)), LONG),
    "10-gigabytes-unsaid": (gigabytes, LONG),
    "another-scheme": (
        web.answer(302, Location="ftp://modules.example/policy.wasm"),
        "{url} redirects to ftp://modules.example/policy.wasm, which has another scheme and is not followed; name"
        " the URL that is meant",
    ),
}
"""What a web server does all at once, and why that is refused."""

OTHER = GOOD[:-1] + b"!"
OCI: dict[str, tuple[Script, str]] = {
    "registry-has-no-blob": (web.answer(404), "{artifact} is not there; push it or mend guestURL"),
    "registry-gone-midway": (cut, f"{{blob}} {GONE}"),
    "registry-stalls": (Conversation.stall, f"{{blob}} {LATE_ANSWER}"),
    "registry-has-other-bytes": (
        web.answer(200, OTHER),
        f"{{artifact}} has come with other bytes: expected the digest {digest(NEXT)}, found {digest(OTHER)}; push it"
        " anew",
    ),
}
"""What a registry has all at once for the blob that a tag points to, and why that is refused."""

SETTINGS: Mapping[str, dict[str, Any]] = {
    "slow": {"guestConfig": "2000"},
    "not-the-pinned": {"digest": digest(GOOD)},
    **{name: {"source": {"publicKey": "cosign.pub"}} for name in ("unsigned", "signed-before", "signed-by-others")},
}
"""What plugins are configured beside their limits."""

LIMITS: dict[str, Any] = {"timeout": "1s", "memoryLimit": "16Mi"}
QUESTIONS = {name: versions.Questions(10, name) for name in (*FILES, *WEB, *OCI)}


class Outcome(NamedTuple):
    """What became of the candidates."""

    names: Mapping[str, str]
    """What reasons name: `url`, `key`, `folder`."""
    history: list[dict[str, Any]]
    plugins: dict[str, dict[str, Any]]
    answered: versions.Answered
    """From before the first candidate came until the last one was refused."""


@pytest.fixture(scope="module")
def outcome(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Outcome]:
    folder = tmp_path_factory.mktemp("candidates")
    sign, others = Signer(folder), Signer(tmp_path_factory.mktemp("others"))
    for name in FILES:
        put(folder / f"{name}.wasm", GOOD)
        if "source" in SETTINGS.get(name, {}):
            put(folder / f"{name}.wasm.sig", base64.b64encode(sign(GOOD)))
    with web.serving() as server:
        server.pages.update({f"/{name}.wasm": web.answer(200, GOOD) for name in WEB})
        for name in OCI:
            server.pages.update(artifact(name, GOOD, web.answer(200, GOOD)))
        with Extender(folder, *profiles(server), runtime={"moduleLimit": LARGEST}) as extender:
            with versions.asking(extender.address[1], list(QUESTIONS.values())) as answered:
                extender.wait_until(lambda: all(answered.cycles.values()))
                for name, (module, _) in FILES.items():
                    put(folder / f"{name}.wasm", module)
                (folder / "unsigned.wasm.sig").unlink()
                put(folder / "signed-by-others.wasm.sig", base64.b64encode(others(NEXT)))
                server.pages.update({f"/{name}.wasm": script for name, (script, _) in WEB.items()})
                for name, (script, _) in OCI.items():
                    server.pages.update(artifact(name, NEXT, script))
                extender.wait_until(lambda: refused(extender) >= set(QUESTIONS), 120)
            history = extender.admin.get("/api/v1/history", params={"limit": 1000}).json()
            plugins = {each["name"]: each for each in extender.admin.get("/api/v1/plugins").json()}
        names = {
            "folder": str(folder),
            "web": server.url(""),
            "key": f"{sign.public_key} ({PublicKey.read(sign.public_key).fingerprint})",
        }
        yield Outcome(names, history, plugins, answered)


def artifact(name: str, module: bytes, blob: Script) -> dict[str, Script]:
    """The pages of a registry whose tag `v1` points to a module, and what it has in its place."""
    empty = registry.descriptor(b"{}", registry.EMPTY)
    layer = registry.descriptor(module, "application/wasm")
    manifest = {"schemaVersion": 2, "mediaType": MANIFEST, "config": empty, "layers": [layer]}
    return {
        f"/v2/{name}/blobs/{layer['digest']}": blob,
        f"/v2/{name}/manifests/v1": web.answer(200, json.dumps(manifest).encode(), Content_Type=MANIFEST),
    }


def put(path: Path, content: bytes) -> None:
    """Replaces a file at once."""
    beside = path.with_name(f"{path.name}.new")
    beside.write_bytes(content)
    beside.replace(path)


def profiles(server: Web) -> Iterator[dict[str, Any]]:
    for name in FILES:
        yield profile(name, plugin(name, **LIMITS | SETTINGS.get(name, {})), scoreRange=100)
    urls = {name: server.url(f"/{name}.wasm") for name in WEB}
    urls |= {name: server.url(f"/{name}:v1").replace("http:", "oci:") for name in OCI}
    for name, url in urls.items():
        source = {"interval": "100ms", "timeout": "4s" if "stalls" in name else "30s"}
        yield profile(name, plugin(name, guestURL=url, source=source, **LIMITS), scoreRange=100)


def refused(extender: Extender) -> set[str]:
    history = extender.admin.get("/api/v1/history", params={"limit": 1000}).json()
    return {each["profile"] for each in history if each["stage"] == "failed"}


def expected(outcome: Outcome, name: str) -> str:
    _, reason = {**FILES, **WEB, **OCI}[name]
    places = {
        "{path}": f"{outcome.names['folder']}/{name}.wasm",
        "{key}": outcome.names["key"],
        "{url}": f"{outcome.names['web']}/{name}.wasm",
        "{artifact}": f"{outcome.names['web'].replace('http', 'oci')}/{name}@{digest(NEXT)}",
        "{blob}": f"{outcome.names['web']}/v2/{name}/blobs/{digest(NEXT)}",
    }
    for place, found in places.items():
        reason = reason.replace(place, found)
    return reason


def steady(problem: str) -> str:
    """Without what is another one each time."""
    return re.sub(
        r"default/pod-\d+", "default/POD", re.sub(r"\d+(?:\.\d+)?(?= ms where| ms \(median| requests\))", "N", problem)
    )


@pytest.mark.parametrize("name", QUESTIONS)
def test_a_bad_candidate_is_refused_with_its_true_reason_and_what_serves_goes_on(outcome: Outcome, name: str) -> None:
    refusal, start = [each for each in outcome.history if each["profile"] == name]
    assert steady(refusal["message"]) == expected(outcome, name)
    assert [(each["stage"], each["requestedBy"]) for each in (refusal, start)] == [
        ("failed", "source"),
        ("active", "start"),
    ]
    assert outcome.plugins[name]["digest"] == digest(GOOD)


def test_every_request_meanwhile_was_answered_by_what_served(outcome: Outcome) -> None:
    cycles = outcome.answered.cycles.values()
    assert outcome.answered.failures == []
    assert {cycle.versions for each in cycles for cycle in each} == {(10, 10)}
    assert min(map(len, cycles)) > 1
