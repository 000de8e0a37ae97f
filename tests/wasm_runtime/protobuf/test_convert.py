"""What the module answers is what `encode` makes of the same JSON; all else it leaves to that."""

from __future__ import annotations

import json
import random
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final

import msgspec
import pytest
import wasmtime
from hypothesis import given
from hypothesis import strategies as st

from tests.patience import Beside, delay
from wasm_runtime.protobuf import EncodeError, convert, encode_node, encode_pod
from wasm_runtime.protobuf.convert import MAX_JSON_BYTES, MODULE, Converter, convert_node, convert_pod
from wasm_runtime.protobuf.schema import MESSAGES

from .converter import build
from .oracle import ENCODERS, GoTypes, Object
from .test_encode import FIXTURES
from .test_encode_error import any_json, fitting

pytestmark = pytest.mark.timeout(600)  # The first time programs in Go are built.

SEED: Final = 36
UNREADABLE: Final = (EncodeError, msgspec.DecodeError, UnicodeDecodeError, RecursionError)
MEBIBYTE: Final = 1 << 20

converter: Final = Converter(MODULE.read_bytes())


def is_taken(kind: str, text: bytes, by: Converter = converter) -> bool:
    """Whether the module answers, which must be right then."""
    answer = by.convert(kind, text)
    if answer is not None:
        assert answer == ENCODERS[kind](msgspec.json.decode(text)), text
    return answer is not None


def outcome(function: Callable[[], bytes]) -> bytes | tuple[type[Exception], str]:
    try:
        return function()
    except UNREADABLE as error:
        return type(error), str(error)


def compact(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()


def metadata(**fields: Any) -> bytes:
    return compact({"metadata": fields})


def with_each(part: str, field: str, *values: Any) -> list[bytes]:
    """Objects of which one field has each of the values."""
    return [compact({part: {field: value}}) for value in values]


def managed(fields: bytes) -> bytes:
    return b'{"metadata":{"managedFields":[{"fieldsV1":%s}]}}' % fields


def quantity(text: str) -> bytes:
    return b'{"spec":{"overhead":{"cpu":%s}}}' % text.encode()


def created(text: str) -> bytes:
    return metadata(creationTimestamp=text)


def fixture(name: str) -> bytes:
    return (FIXTURES / f"{name}.json").read_bytes()


# -- the module ------------------------------------------------------------------------------------


def test_the_shipped_module_is_a_fresh_build_to_the_byte(tmp_path: Path) -> None:
    """Or else: `python -m tests.wasm_runtime.protobuf.converter`."""
    fresh = tmp_path / MODULE.name
    build(fresh)
    assert fresh.read_bytes() == MODULE.read_bytes()


def test_the_table_fits_the_module() -> None:
    """Which fields an object has had already are the bits of one number there."""
    assert max(map(len, MESSAGES.values())) <= 64


def test_the_shipped_module_is_small_and_imports_nothing() -> None:
    assert MODULE.stat().st_size < 32_768
    assert wasmtime.Module(wasmtime.Engine(), MODULE.read_bytes()).imports == []


# -- the other threads -----------------------------------------------------------------------------


@pytest.mark.parametrize(("length", "others_run"), [(1, False), (65_000, False), (MEBIBYTE, True)])
def test_other_threads_run_while_a_long_text_is_converted(length: int, others_run: bool) -> None:
    """For a short one it would take longer to come back. Python itself takes no turn from this thread meanwhile."""
    text = metadata(name="n" * length)
    is_taken("Pod", text)
    turns: list[None] = []
    stop = threading.Event()

    def runs() -> None:
        while not stop.is_set():
            turns.append(None)
            delay(0)

    interval = sys.getswitchinterval()
    beside = Beside(runs)
    sys.setswitchinterval(1_000)
    try:
        delay(0.001)
        turns.clear()
        for _ in range(1_000):
            converter.convert("Pod", text)
            if turns:
                break
        had_turns = bool(turns)
    finally:
        sys.setswitchinterval(interval)
        stop.set()
        beside.end()
    assert had_turns is others_run


# -- what is taken ---------------------------------------------------------------------------------


@pytest.mark.parametrize(("kind", "name"), [("Node", "node"), ("Pod", "pod_containers"), ("Pod", "pod_volumes")])
def test_rich_objects(kind: str, name: str) -> None:
    text = fixture(name)
    assert is_taken(kind, text)
    assert is_taken(kind, compact(json.loads(text)))


def test_random_objects(gotypes: GoTypes) -> None:
    """Over all of the schema, as Go writes them; its random field sets have fractions."""
    objects = [without_managed_fields(each) for each in gotypes.random(SEED, 1000)]
    taken = [is_taken(kind, text.encode()) for kind, text in objects]
    assert sum(taken) > 900


def without_managed_fields(item: Object) -> Object:
    value = json.loads(item.json)
    value["metadata"].pop("managedFields", None)
    return Object(item.kind, json.dumps(value))


@pytest.mark.parametrize(
    "text",
    [
        *(b"{}", b" \t\r\n{ \t\r\n} \t\r\n", b'{"metadata":{}}', b'{"metadata":null}', b'{"future":[{"a":1},null]}'),
        *(b'{"METADATA":1}', b'{"":1,"metadat":2,"metadata2":3}', b'{"a":1,"a":2}', b'{"a":{"b":1,"b":"\\/\\u0022"}}'),
        b'{ "metadata" : { "name" : "a" , "labels" : { "b" : "c" , "d" : null } , "finalizers" : [ "e" , null ] } }',
        *(metadata(annotations=value) for value in ({}, {"": ""}, {"a": "b" * 127}, {"a": "b" * 128, "c" * 128: "d"})),
        *(metadata(name="n" * size) for size in (15, 16, 17, 127, 128, 16_383, 16_384)),
        metadata(name="ASCII \x7f, Ωμέγα, 漢字, 😀, \u07ff\u0800\uffff\U00010000\U0010ffff", uid="é" * 64),
        b'{"metadata":{"name":"\\"\\\\\\/\\b\\f\\n\\r\\t\\u0000\\u001f\\u00e9\\u00E9\\u20ac\\ud7ff\\ue000\\uffff"}}',
        metadata(labels={"a": "b"}, annotations={"a": "b"}),
        metadata(generation=2**63 - 1),
        metadata(generation=-(2**63)),
        compact({"spec": {"priority": 2**31 - 1, "hostNetwork": True, "hostPID": False}}),
        compact({"spec": {"priority": -(2**31), "securityContext": {"supplementalGroups": [0, None, 127, 128]}}}),
        compact({"spec": {"containers": [{}, None], "volumes": [{}, None, {"name": "v", "emptyDir": {}}]}}),
        compact({"spec": {"containers": [{"livenessProbe": {"httpGet": {"port": port}}} for port in (0, -1, "http")]}}),
        *map(quantity, ('"0"', '"100m"', '"1.5Gi"', '"-3"', '"+.5e-3"', '"1E"', '"1Ei"', '"1E6"', '"1."', "0", "-12")),
        *map(created, ("1970-01-01T00:00:00Z", "1969-12-31T23:59:59Z", "2024-02-29T23:59:59Z", "0000-02-29T00:00:00Z")),
        *map(created, ("9999-12-31T23:59:59Z", "1900-02-28T00:00:00Z", "2000-02-29T00:00:00Z", "0001-01-01T00:00:00Z")),
        managed(b'{"f:a":{".":{},"k:{\\"name\\":\\"c\\"}":[1,-2,true,false,null,""]}}'),
        managed(b' { "f:a" : [ ] , "f:b" : { } , "f:c" : [ 1 , { "f:a" : "\\\\\\n\\b\\/\\u003c\\u00e9" } ] } '),
        managed(b'"\\"\\\\\\/\\b\\f\\n\\r\\t\\u0020\\u007f\x7f\\ue000"'),
        *map(managed, (b"1", b'""', b"true", b"null", b"[]", b'[{"a":1},{"a":1}]')),
        b'{"future":' + b"[" * 63 + b"]" * 63 + b"}",
    ],
)  # fmt: skip
def test_takes(text: bytes) -> None:
    assert is_taken("Pod", text)


def test_every_day_of_eight_centuries() -> None:
    for year in range(1600, 2400):
        for month, day in ((1, 1), (2, 28), (2, 29), (3, 1), (4, 30), (4, 31), (12, 31)):
            is_taken("Pod", created(f"{year}-{month:02}-{day:02}T00:00:00Z"))


# -- what is left to the encoder -------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        *(b"", b" ", b"{", b"}", b"{}}", b"{} {}", b"[]", b"null", b'"a"', b"7", b"\xef\xbb\xbf{}", b"{}\0", b"\0"),
        *(b'{"metadata"}', b'{"metadata":}', b'{"metadata":{},}', b"{,}", b'{"metadata":{}"spec":{}}', b"{'a':1}"),
        *(b'{"metadata":nul}', b'{"metadata":nullx}', b'{"a":tru}', b'{"a":[1,]}', b'{"a":[1 2]}', b'{"a":[}'),
        *(b'{"a":01}', b'{"a":-}', b'{"a":+1}', b'{"a":1.5}', b'{"a":1e3}', b'{"a":-0}', b'{"a":9223372036854775808}'),
        *(b'{"metadata":{},"metadata":{}}', b'{"metadata":null,"metadata":{}}'),
        b'{"metadata":{"labels":{"a":"1","b":"2","a":"3"}}}',
        b'{"metadata":{"labels":{"a":"1","\\u0061":"3"}}}',
        b'{"metad\\u0061ta":{}}',
        *(b'{"metadata":{"name":"%s"}}' % each for each in (b"\n", b"\0", b"\x1f", b"\\x", b"\\u12", b"\\u12g4")),
        b'{"metadata":{"name":"\\"}}',
        *(b'{"metadata":{"name":"%s"}}' % each for each in (b"\\ud83d\\ude00", b"\\ud83d", b"\\udfff", b"\\u+123")),
        *(b'{"metadata":{"name":"%s"}}' % each for each in (b"\x80", b"\xc0\x80", b"\xc3", b"\xe0\x80\x80", b"\xff")),
        *(b'{"metadata":{"name":"%s"}}' % each for each in (b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"\xf0\x9f\x98")),
        *(b'{"future":"%s"}' % each for each in (b"\x80", b"\\x", b"\t")),
        *with_each("metadata", "name", 1, True, [], {}),
        *with_each("metadata", "labels", [], "a", {"a": 1}, {"a": {}}),
        *with_each("metadata", "finalizers", {}, "a", [1], [[]]),
        *with_each("metadata", "generation", 2**63, -(2**63) - 1, 10**20, 1.0, "1", True),
        *with_each("spec", "priority", 2**31, -(2**31) - 1),
        *with_each("spec", "hostNetwork", "true", 1, {}),
        *with_each("spec", "containers", {}, [1], ["a"], [[]], [True]),
        compact({"spec": {"containers": [{"livenessProbe": {"httpGet": {"port": True}}}]}}),
        compact({"spec": {"containers": [{"livenessProbe": {"httpGet": {"port": 2**31}}}]}}),
        *map(quantity, ('""', '" 1"', '"1 "', '"m"', '"."', '"-"', '"1K"', '"1Kii"', '"1e"', '"1e+"', '"1.2.3"')),
        *map(quantity, ('"%s"' % ("1" * 33), '"1e%s"' % ("1" * 19), '"1\\u0030"', "true", "[]")),
        *map(quantity, ('"1EE"', '"1mm"', "-0", "1.5")),
        *map(created, ("2026-02-29T00:00:00Z", "1900-02-29T00:00:00Z", "2026-04-31T00:00:00Z", "2026-13-01T00:00:00Z")),
        *map(created, ("2026-00-01T00:00:00Z", "2026-01-00T00:00:00Z", "2026-01-01T24:00:00Z", "2026-01-01T00:60:00Z")),
        *map(created, ("2026-01-01T00:00:60Z", "2026-01-01T00:00:00.5Z", "2026-01-01T00:00:00+01:00", "2026-1-1", "")),
        *map(managed, (b"1.5", b'{"a":1,"a":1}', b'"\\u001f"', b'"\\u0022"', b'"\\u005c"', b"{", b"nul", b'{"a"}')),
        b'{"future":' + b"[" * 65 + b"]" * 65 + b"}",
        b'{"future":' + b'{"a":' * 100_000 + b"1" + b"}" * 100_000 + b"}",
        metadata(labels={f"key-{at}": "" for at in range(3000)}),
        metadata(name="n" * MAX_JSON_BYTES),
    ],
)  # fmt: skip
def test_leaves(text: bytes) -> None:
    assert not is_taken("Pod", text)
    assert outcome(lambda: convert_pod(text)) == outcome(lambda: encode_pod(msgspec.json.decode(text)))


def test_errors_are_those_of_the_encoder() -> None:
    with pytest.raises(EncodeError) as raised:
        convert_pod(b'{"spec":{"containers":[{},{"image":7}]}}')
    assert str(raised.value) == "spec.containers[1].image: expected a string, got 7"
    with pytest.raises(msgspec.DecodeError):
        convert_node(b'{"spec":')
    with pytest.raises(RecursionError):
        convert_node(b"[" * 100_000)


def test_a_node_is_no_pod() -> None:
    text = fixture("node")
    assert convert_node(text) == encode_node(json.loads(text)) != convert_pod(text)


# -- any text --------------------------------------------------------------------------------------


@given(fitting("Pod", 3) | any_json, st.booleans(), st.sampled_from([None, 1]))
def test_any_pod(value: Any, ascii_only: bool, indent: int | None) -> None:
    text = json.dumps(value, ensure_ascii=ascii_only, indent=indent).encode(errors="surrogatepass")
    is_taken_or_left("Pod", text)


@given(fitting("Node", 3) | any_json, st.booleans())
def test_any_node(value: Any, ascii_only: bool) -> None:
    text = json.dumps(value, ensure_ascii=ascii_only).encode(errors="surrogatepass")
    is_taken_or_left("Node", text)


@given(any_json, st.booleans())
def test_any_field_set(value: Any, ascii_only: bool) -> None:
    text = json.dumps(value, ensure_ascii=ascii_only).encode(errors="surrogatepass")
    is_taken_or_left("Pod", managed(text))


def is_taken_or_left(kind: str, text: bytes) -> None:
    """Equal bytes, or an error of the encoder where the module does not answer."""
    answer = converter.convert(kind, text)
    expected = outcome(lambda: ENCODERS[kind](msgspec.json.decode(text)))
    assert answer is None or answer == expected


@pytest.mark.parametrize(("kind", "name"), [("Node", "node"), ("Pod", "pod_volumes")])
def test_cut_anywhere(kind: str, name: str) -> None:
    text = compact(json.loads(fixture(name)))
    assert [size for size in range(len(text)) if converter.convert(kind, text[:size]) is not None] == []


def test_any_bit_flipped() -> None:
    text = fixture("node")
    taken = 0
    for at in range(8 * len(text)):
        flipped = bytearray(text)
        flipped[at // 8] ^= 1 << at % 8
        is_taken_or_left("Node", bytes(flipped))
        taken += converter.convert("Node", bytes(flipped)) is not None
    assert 1000 < taken < 7 * len(text)


PIECES: Final = [
    *(b'"', b"\\", b"{", b"}", b"[", b"]", b",", b":", b"null", b"true", b"false", b'"":', b"{}", b"[]", b'""'),
    *(b"0", b"1", b"-", b".", b"e", b"E", b"i", b"K", b"Z", b" ", b"\n", b"\0", b"9999999999", b"1234567890123456789"),
    *(b"\xc3", b"\xa9", b"\xed\xa0\x80", b"\xf0\x9f\x98\x80", b"\xff", b"\\u00e9", b"\\ud83d", b"\\n", b"\\/"),
]


def test_spliced() -> None:
    chance = random.Random(SEED)
    names = [("Node", "node"), ("Pod", "pod_containers"), ("Pod", "pod_volumes"), ("Pod", "pod_scheduling")]
    texts = [(kind, fixture(name)) for kind, name in names]
    taken = 0
    for _ in range(5000):
        kind, text = chance.choice(texts)
        begin, end = sorted(chance.choices(range(len(text)), k=2))
        middle = chance.choice(PIECES) if chance.random() < 0.7 else text[begin : begin + 30]
        at = chance.choice([begin, end])
        spliced = text[:at] + middle + text[at + chance.randint(0, 3) :]
        is_taken_or_left(kind, spliced)
        taken += converter.convert(kind, spliced) is not None
    assert 500 < taken < 4500


# -- size, time and threads ------------------------------------------------------------------------


def test_large_objects_grow_the_memory() -> None:
    grown = Converter(MODULE.read_bytes())
    for size in (10, 100_000, 2 * MEBIBYTE, 10):
        assert is_taken("Pod", metadata(name="n" * size, annotations={"a": "é" * (size // 4)}), by=grown)
    assert converter.convert("Pod", b" " * MAX_JSON_BYTES + b"{}") is None


@pytest.mark.parametrize(("numbers", "length"), [(100_000, 0), (50_000, 100_000)])
def test_an_answer_much_longer_than_its_text_is_left(numbers: int, length: int) -> None:
    pod = {"spec": {"securityContext": {"supplementalGroups": [-1] * numbers}}, "metadata": {"name": "n" * length}}
    text = compact(pod)
    assert not is_taken("Pod", text, by=Converter(MODULE.read_bytes()))
    assert convert_pod(text) == encode_pod(pod)


def test_memory_that_cannot_grow(monkeypatch: pytest.MonkeyPatch) -> None:
    class SmallStore(wasmtime.Store):
        def __init__(self, engine: wasmtime.Engine) -> None:
            super().__init__(engine)
            self.set_limits(memory_size=MEBIBYTE)

    monkeypatch.setattr(convert, "Store", SmallStore)
    small = Converter(MODULE.read_bytes())
    assert not is_taken("Pod", metadata(name="n" * MEBIBYTE), by=small)
    assert is_taken("Pod", metadata(name="n" * 100_000), by=small)
    assert is_taken("Pod", fixture("pod_volumes"), by=small)


def repeated(begin: bytes, unit: bytes, end: bytes) -> Callable[[int], bytes]:
    return lambda count: begin + b",".join([unit] * count) + end


def distinct(begin: bytes, unit: bytes, end: bytes) -> Callable[[int], bytes]:
    return lambda count: begin + b",".join(unit % at for at in range(count)) + end


@pytest.mark.parametrize(
    "text",
    [
        repeated(b'{"spec":{"volumes":[', b'{"projected":{"sources":[{"configMap":{"name":"a"}}]}}', b"]}}"),
        repeated(b'{"spec":{"volumes":[{"projected":{"sources":[{"configMap":{"items":[', b"{}", b"]}}]}}]}}"),
        repeated(b'{"metadata":{"name":"', b"a\\n\\u00e9\xc3\xa9", b'"}}'),
        repeated(b'{"future":[', b'{"a":[{"b":"c"}]}', b"]}"),
        repeated(b"{", b'"future":[]', b"}"),
        distinct(b'{"metadata":{"labels":{', b'"%d":""', b"}}}"),
        distinct(b'{"metadata":{"managedFields":[{"fieldsV1":{', b'"%d":{}', b"}}]}}"),
        distinct(b'{"metadata":{"labels":{"a', b"%d", b'":""}}}'),
    ],
)
def test_time_is_linear_in_the_text(text: Callable[[int], bytes], monkeypatch: pytest.MonkeyPatch) -> None:
    """In instructions."""
    stores: list[wasmtime.Store] = []
    monkeypatch.setattr(convert, "Engine", lambda: wasmtime.Engine(counting()))
    monkeypatch.setattr(convert, "Store", keeping(stores, fuelled))
    counted = Converter(MODULE.read_bytes())

    def instructions(count: int) -> int:
        before = stores[0].get_fuel()
        assert is_taken("Pod", text(count), by=counted)
        return before - stores[0].get_fuel()

    assert instructions(1000) < 11 * instructions(100)


def counting() -> wasmtime.Config:
    config = wasmtime.Config()
    config.consume_fuel = True
    return config


MakeStore = Callable[[wasmtime.Engine], wasmtime.Store]


def keeping(stores: list[wasmtime.Store], make: MakeStore) -> MakeStore:
    """Makes stores, and keeps them in a list."""

    def make_and_keep(engine: wasmtime.Engine) -> wasmtime.Store:
        stores.append(make(engine))
        return stores[-1]

    return make_and_keep


def fuelled(engine: wasmtime.Engine) -> wasmtime.Store:
    store = wasmtime.Store(engine)
    store.set_fuel(1 << 40)
    return store


def test_its_store_is_closed_with_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """As at the end of the process, when wasmtime could not delete it any more."""
    stores: list[wasmtime.Store] = []
    monkeypatch.setattr(convert, "Store", keeping(stores, wasmtime.Store))
    short_lived = Converter(MODULE.read_bytes())
    assert is_taken("Pod", b"{}", by=short_lived)
    del short_lived
    with pytest.raises(ValueError, match="already closed"):
        stores[0].ptr()


def test_threads_wait_for_each_other() -> None:
    def texts(thread: int) -> Iterator[bytes]:
        for at in range(200):
            yield metadata(name=f"{thread}-{at}", uid="u" * (at * 997 % 100_000))

    def are_taken(thread: int) -> bool:
        return all(is_taken("Pod", text) for text in texts(thread))

    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(are_taken, range(16))) == [True] * 16
