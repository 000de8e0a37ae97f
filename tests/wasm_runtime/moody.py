"""A guest that tells what it sees in every way there is, and does what its pod says."""

from __future__ import annotations

from tests.wasm_runtime.guest_modules import EXIT, LOG, NODE_NAME, POD, REASON, SPIN, WRITE, call, export, module
from wasm_runtime.abi import EXPORTS

TAG = 8
"""Characters that no other pod has."""
CONFIG = "k8s.io/scheduler/get_config"
TARGET = "k8s.io/scheduler/targetPod"
EVENT = "k8s.io/scheduler/handle.eventrecorder.eventf"
SCORES = "k8s.io/scheduler/nodeScoreList"
NAMES = "k8s.io/scheduler/result.node_names"
NOMINATED = "k8s.io/scheduler/result.nominated_node_name"
NORMALIZED = "k8s.io/scheduler/result.normalized_score_list"

MOOD, POINT, NUMBER, WHO, SAID = 0, 1, 2, 3, 4
"""Where in the pod, and in the guest's memory, is: what the guest does, at which of the exports, a number, its
configuration of one character (which the guest fills in) and the tag, which the guest puts the node's name behind."""
NODE_AT = SAID + TAG
PLACES = {name: at for at, name in enumerate(EXPORTS)}

NUMBER_64 = f"(i64.load8_u (i32.const {NUMBER}))"


def acts(name: str, *after: str, normal: str = "(i32.const 0)", value: str = "(i64.const 0)") -> str:
    """An export that tells what it sees in every way there is, then does what the pod says, then answers."""
    code = f"(call $code (i32.const {PLACES[name]}) {normal})"
    wide = f"(i64.extend_i32_u {code})"
    high, low = (wide, value) if name == "permit" else (value, wide)
    packed = f"(i64.or (i64.shl {high} (i64.const 32)) {low})"
    answer = {(): "", ("i32",): code, ("i64",): packed}[EXPORTS[name].signature.results]
    return export(name, f"(global.set $name (call $act (i32.const {PLACES[name]})))", *after, answer)


def mixed() -> str:
    """The number and the last character of the node's name, added: differs from node to node and from pod to pod."""
    last = f"(i32.load8_u (i32.add (i32.const {NODE_AT - 1}) (global.get $name)))"
    return f"(i32.add (i32.load8_u (i32.const {NUMBER})) {last})"


def when(mood: str, *body: str) -> str:
    return f"(if (i32.eq (local.get $mood) (i32.const {ord(mood)})) (then {' '.join(body)}))"


GUEST = module(
    "(global $name (mut i32) (i32.const 0))",
    "(func $deep (param $n i64) (result i64) (i64.add (i64.const 1) (call $deep (local.get $n))))",
    "(func $act (param $point i32) (result i32) (local $name i32) (local $said i32) (local $mood i32)",
    f"(drop {call(POD, 0, NODE_AT)})",
    f"(drop {call(CONFIG, WHO, 1)})",
    f"(local.set $name {call(NODE_NAME, NODE_AT, 64)})",
    f"(local.set $said (i32.add (local.get $name) (i32.const {1 + TAG})))",
    call(REASON, WHO, "(local.get $said)"),
    call(LOG, 0, WHO, "(local.get $said)"),
    call(EVENT, WHO, 1 + TAG),
    f"(i32.store (i32.const 256) (i32.const {WHO})) (i32.store (i32.const 260) (local.get $said))",
    f"(drop {call(WRITE, 1, 256, 1, 264)})",
    f"(if (i32.eq (local.get $point) (i32.load8_u (i32.const {POINT}))) (then",
    f"(local.set $mood (i32.load8_u (i32.const {MOOD})))",
    when("t", "unreachable"),
    when("x", call(EXIT, f"(i32.load8_u (i32.const {NUMBER}))")),
    when("d", "(drop (call $deep (i64.const 0)))"),
    when("s", SPIN),
    ")) (local.get $name))",
    "(func $code (param $point i32) (param $normal i32) (result i32) (local $mood i32)",
    f"(if (i32.eq (local.get $point) (i32.load8_u (i32.const {POINT}))) (then",
    f"(local.set $mood (i32.load8_u (i32.const {MOOD})))",
    when("e", "(return (i32.const 1))"),
    when("w", "(return (i32.const 9))"),
    ")) (local.get $normal))",
    acts("prefilter", f"(i32.store8 (i32.const {NODE_AT}) (i32.const 0))", call(NAMES, WHO, 2 + TAG)),
    acts("addpod", call(LOG, 0, 512, call(TARGET, 512, 64))),
    acts("removepod", call(LOG, 0, 512, call(TARGET, 512, 64))),
    acts("filter", normal=f"(i32.and (i32.const 2) {mixed()})"),
    acts("postfilter", call(NOMINATED, WHO, 1 + TAG), value=NUMBER_64),
    acts("prescore"),
    acts("score", value=f"(i64.extend_i32_u (i32.rem_u {mixed()} (i32.const 101)))"),
    acts("normalizescore", call(NORMALIZED, 512, call(SCORES, 512, 4096))),
    acts("reserve", normal="(i32.const 2)"),
    acts("unreserve"),
    acts("permit", normal="(i32.const 4)", value=NUMBER_64),
    acts("prebind"),
    acts("bind", normal="(i32.const 5)"),
    acts("postbind"),
    uses=[POD, CONFIG, TARGET, NODE_NAME, REASON, LOG, EVENT, WRITE, EXIT, SCORES, NAMES, NOMINATED, NORMALIZED],
)


def pod(mood: str, point: str, number: int, tag: str) -> bytes:
    """The object of a pod that the guest has that mood for, at an export, and calm otherwise."""
    return bytes([ord(mood), PLACES[point], number, 0]) + tag.encode()
