"""What guests log by klog, record as Events, and print."""

import pytest

from tests.wasm_runtime.conftest import Loader
from tests.wasm_runtime.guest_modules import LOG, POD, REASON, SPIN, TEXT, WRITE, call, export, module, result
from tests.wasm_runtime.world import each, filter_nodes, once, pre_filter, whole_code, world
from wasm_runtime import Fault, GuestError, Nodes
from wasm_runtime.abi import Severity
from wasm_runtime.engine import KIBIBYTE, NO_JOURNAL, CallResult, GuestEvent, GuestJournal, Log
from wasm_runtime.errors import MAX_OUTPUT_CHARS

LOGS = "k8s.io/klog/logs"
SEVERITY = "k8s.io/klog/severity"
EVENT = "k8s.io/scheduler/handle.eventrecorder.eventf"

INFO, WARNING, ERROR, FATAL = Severity


def logs_all_severities() -> str:
    calls = [call(LOG, severity, TEXT, 5) for severity in (-1, 0, 1, 2, 3, 4, 1000)]
    return module(export("prefilter", *calls, f"(call ${SEVERITY})"), uses=[LOG, SEVERITY], text="hello")


@pytest.mark.parametrize(
    ("configured", "logged"),
    [
        (INFO, [INFO, WARNING, ERROR, FATAL, FATAL, FATAL]),
        (WARNING, [WARNING, ERROR, FATAL, FATAL, FATAL]),
        (ERROR, [ERROR, FATAL, FATAL, FATAL]),
        (FATAL, [FATAL, FATAL, FATAL]),
    ],
)
def test_messages_below_the_severity_are_dropped(load: Loader, configured: Severity, logged: list[Severity]) -> None:
    instance = load.instance(logs_all_severities(), log_severity=configured)
    assert once(instance, world()) == CallResult(configured, 0, "")
    assert instance.take_journal() == GuestJournal([Log(severity, "hello", ()) for severity in logged], 0)
    assert instance.take_journal() == NO_JOURNAL


@pytest.mark.parametrize(
    ("pairs", "read"),
    [
        ("", ()),
        ("key\0value\0", ("key", "value")),
        ("err\0unhandled\0node\0größe\0", ("err", "unhandled", "node", "größe")),
        ("odd\0", ("odd",)),
        ("cut", ()),
        ("key\0\0more\0value\0", ("key", "more", "value")),
        ("\0\0\0", ()),
    ],
)
def test_keys_and_values(load: Loader, pairs: str, read: tuple[str, ...]) -> None:
    log = call(LOGS, 0, TEXT, 5, TEXT + 5, len(pairs.encode()))
    instance = load.instance(module(export("prefilter", log, "(i32.const 0)"), uses=[LOGS], text="hello" + pairs))
    once(instance, world())
    assert instance.take_journal() == GuestJournal([Log(INFO, "hello", read)], 0)


@pytest.mark.parametrize(
    ("message", "pairs", "logged"),
    [
        ((TEXT, 0), (0, 0), [Log(INFO, "", ())]),
        ((65531, 5), (65536, 0), [Log(INFO, "\0" * 5, ())]),
        ((65532, 5), (0, 0), []),
        ((0xFFFFFFFF, 1), (0, 0), []),
        ((0x80000000, 0x80000000), (0, 0), []),
        ((1, 0xFFFFFFFF), (0, 0), []),
        ((TEXT, 5), (65536, 1), []),
        ((TEXT, 5), (0xFFFFFFFF, 0xFFFFFFFF), []),
        ((TEXT, 5), (0, 65537), []),
    ],
)
def test_an_unreadable_message_is_dropped_and_no_trap(
    load: Loader, message: tuple[int, int], pairs: tuple[int, int], logged: list[Log | GuestEvent]
) -> None:
    log = call(LOGS, 0, *message, *pairs)
    instance = load.instance(module(export("prefilter", log, "(i32.const 7)"), uses=[LOGS], text="hello"))
    assert once(instance, world()) == CallResult(7, 0, "")
    assert instance.take_journal() == GuestJournal(logged, 0)


def test_a_message_that_is_no_text(load: Loader) -> None:
    guest = module(
        '(data (i32.const 64) "a\\ff\\00b")', export("prefilter", call(LOG, 0, 64, 4), "(i32.const 0)"), uses=[LOG]
    )
    instance = load.instance(guest)
    once(instance, world())
    assert instance.take_journal() == GuestJournal([Log(INFO, "a\N{REPLACEMENT CHARACTER}\0b", ())], 0)


def test_events_and_logs_stay_in_order(load: Loader) -> None:
    calls = [call(EVENT, TEXT, 7), call(LOG, 2, TEXT, 1), call(EVENT, TEXT + 1, 0)]
    instance = load.instance(module(export("prefilter", *calls, "(i32.const 0)"), uses=[EVENT, LOG], text='{"a":1}'))
    once(instance, world())
    assert instance.take_journal() == GuestJournal([GuestEvent(b'{"a":1}'), Log(ERROR, "{", ()), GuestEvent(b"")], 0)


@pytest.mark.parametrize("place", [(65536, 1), (0xFFFFFFFF, 0xFFFFFFFF), (0x80000000, 0x80000000)])
def test_an_unreadable_event_is_a_trap(load: Loader, place: tuple[int, int]) -> None:
    instance = load.instance(module(export("prefilter", call(EVENT, *place), "(i32.const 0)"), uses=[EVENT]))
    with pytest.raises(GuestError) as caught:
        once(instance, world())
    assert str(caught.value) == f"prefilter: trap: memory out of bounds in {EVENT} < prefilter"


ROOM = 8 * KIBIBYTE
HEAD = 20


@pytest.mark.parametrize(
    ("length", "kept", "dropped"),
    [
        (ROOM - HEAD, 1, 2),
        (ROOM - HEAD + 1, 0, 3),
        (ROOM // 2 - HEAD, 2, 1),
        (ROOM // 2 - HEAD + 1, 1, 2),
        (ROOM // 3 - HEAD, 3, 0),
        (100_000, 0, 3),
    ],
)
@pytest.mark.parametrize("function", [LOG, EVENT])
def test_records_without_room_are_counted(load: Loader, function: str, length: int, kept: int, dropped: int) -> None:
    arguments = (0, 0, length) if function == LOG else (0, length)
    body = " ".join([call(function, *arguments)] * 3)
    guest = module(export("prefilter", body, "(i32.const 0)"), uses=[function], pages="2")
    instance = load.instance(guest, output_limit=ROOM)
    for _ in range(2):
        once(instance, world())
        records, missing = instance.take_journal()
        assert (len(records), missing) == (kept, dropped)


def test_a_short_record_still_fits_behind_a_dropped_one(load: Loader) -> None:
    calls = [call(LOG, 0, 0, ROOM), call(LOG, 0, TEXT, 5)]
    instance = load.instance(module(export("prefilter", *calls, "(i32.const 0)"), uses=[LOG], pages="2", text="hello"))
    once(instance, world())
    assert instance.take_journal() == GuestJournal([Log(INFO, "hello", ())], 1)


@pytest.mark.parametrize(
    ("limit", "kept", "dropped"), [(0, 0, 3), (24, 0, 3), (25, 1, 2), (50, 2, 1), (75, 3, 0), (1 << 20, 3, 0)]
)
def test_the_room_is_a_setting(load: Loader, limit: int, kept: int, dropped: int) -> None:
    """Five bytes and their head are a record."""
    logs = [call(LOG, 0, TEXT, 5)] * 3
    guest = module(export("prefilter", *logs, "(i32.const 0)"), uses=[LOG], text="hello")
    instance = load.instance(guest, output_limit=limit)
    once(instance, world())
    assert instance.take_journal() == GuestJournal([Log(INFO, "hello", ())] * kept, dropped)


LOGS_NODES = module(export("filter", call(LOG, 0, TEXT, 5), "(i32.const 0)"), uses=[LOG], text="hello")


def test_a_record_of_a_call_about_a_node_names_it(load: Loader) -> None:
    instance = load.instance(LOGS_NODES)
    each(instance, world({"node-a": b"A", "größe": b"B"}, names=["größe", "unknown", "node-a"]))
    assert instance.take_journal() == GuestJournal(
        [Log(INFO, "hello", (), node) for node in ("größe", "unknown", "node-a")], 0
    )


@pytest.mark.parametrize(
    "name", ["addpod", "removepod", "reserve", "unreserve", "permit", "prebind", "bind", "postbind"]
)
def test_so_does_one_of_an_export_that_is_called_once_for_a_node(load: Loader, name: str) -> None:
    guest = module(export(name, call(LOG, 0, TEXT, 5), result(name, 0)), uses=[LOG], text="hello")
    instance = load.instance(guest)
    once(instance, world(names=["node-b"]), name)
    assert instance.take_journal() == GuestJournal([Log(INFO, "hello", (), "node-b")], 0)


@pytest.mark.parametrize("name", ["prefilter", "postfilter", "prescore", "normalizescore", "enqueue"])
def test_one_of_a_call_about_no_node_names_none(load: Loader, name: str) -> None:
    guest = module(export(name, call(LOG, 0, TEXT, 5), result(name, 0)), uses=[LOG], text="hello")
    instance = load.instance(guest)
    once(instance, world(), name)
    assert instance.take_journal() == GuestJournal([Log(INFO, "hello", ())], 0)


def test_the_name_of_a_node_takes_room(load: Loader) -> None:
    instance = load.instance(LOGS_NODES, output_limit=HEAD + 5 + 6)
    at = world({"node-a": b"A", "node-ab": b"B", "n": b"N"})
    for node, journal in (
        ("node-a", GuestJournal([Log(INFO, "hello", (), "node-a")], 0)),
        ("node-ab", GuestJournal([], 1)),
        ("n", GuestJournal([Log(INFO, "hello", (), "n")], 0)),
    ):
        each(instance, at._replace(nodes=Nodes(at.node_table, [node])))
        assert instance.take_journal() == journal


def test_a_record_names_its_node_also_when_that_is_forgotten(load: Loader, monkeypatch: pytest.MonkeyPatch) -> None:
    """The nodes may change between two calls of a verb, and their places with them; the journal is read at its end."""
    monkeypatch.setattr("wasm_runtime.nodes.node_table.SLACK", 0)
    many = {f"node-{at}": b"N" for at in range(2_000)}
    few = {f"other-{at}": b"\xff" * 10_000 for at in range(10)}
    instance = load.instance(LOGS_NODES)
    at = world(many, names=["node-1999"])
    each(instance, at)
    at.node_table.replace({})
    at.node_table.replace(few)
    each(instance, at._replace(nodes=Nodes(at.node_table, ["other-9"])))
    assert instance.take_journal() == GuestJournal(
        [Log(INFO, "hello", (), "node-1999"), Log(INFO, "hello", (), "other-9")], 0
    )


def test_what_start_logs_is_there(load: Loader) -> None:
    start = f'(func (export "_start") {call(LOG, 0, TEXT, 5)})'
    instance = load.instance(module(start, export("filter", "(i32.const 0)"), uses=[LOG], text="hello"))
    assert instance.take_journal() == GuestJournal([Log(INFO, "hello", ())], 0)


@pytest.mark.parametrize(
    ("ending", "fault"),
    [
        ("(i32.const 0)", None),
        ("(i32.const 1)", Fault.STATUS),
        ("(i32.const 9)", Fault.RESULT),
        ("unreachable", Fault.TRAP),
        (f"{SPIN} (i32.const 0)", Fault.DEADLINE),
    ],
)
def test_the_sink_gets_what_was_logged_however_the_call_ends(load: Loader, ending: str, fault: Fault | None) -> None:
    plugin = load.plugin(
        module(export("filter", call(LOG, 1, TEXT, 5), ending), uses=[LOG], text="hello"),
        timeout=0.05 if fault is Fault.DEADLINE else 10,
    )
    at = world({"node-a": b"A"})
    try:
        filter_nodes(plugin, at)
        ended = None
    except GuestError as error:
        ended = error.fault
    assert ended is fault
    assert load.journals == [("plugin", at.pod, GuestJournal([Log(WARNING, "hello", (), "node-a")], 0))]


def test_the_sink_is_not_called_for_nothing(load: Loader) -> None:
    plugin = load.plugin(module(export("filter", "(i32.const 0)")))
    filter_nodes(plugin, world())
    assert load.journals == []


def test_the_sink_hears_of_dropped_records_alone(load: Loader) -> None:
    guest = module(export("filter", call(LOG, 0, 0, 100_000), "(i32.const 0)"), uses=[LOG], pages="2")
    at = world({"node-a": b"A"})
    filter_nodes(load.plugin(guest), at)
    assert load.journals == [("plugin", at.pod, GuestJournal([], 1))]


# ---- standard output


def prints(
    fd: int, vectors: list[tuple[int, int]], ending: str = "unreachable", text: str = "", pages: str = "1"
) -> str:
    """A filter that writes those parts of its memory; returns errno + 100 * what was written, if it returns."""
    stores = [
        f"(i32.store (i32.const {8 * at}) (i32.const {ptr})) (i32.store (i32.const {8 * at + 4}) (i32.const {length}))"
        for at, (ptr, length) in enumerate(vectors)
    ]
    return module(
        export(
            "filter",
            *stores,
            f"(local.set $errno {call(WRITE, fd, 0, len(vectors), 512)})",
            ending,
            "(i32.add (local.get $errno) (i32.mul (i32.const 100) (i32.load (i32.const 512))))",
            local="(local $errno i32)",
        ),
        uses=[WRITE],
        pages=pages,
        text=text,
    )


def printed(load: Loader, guest: str) -> str:
    """What the error of a guest quotes that traps in its filter."""
    with pytest.raises(GuestError) as caught:
        filter_nodes(load.plugin(guest), world())
    message = "filter of node node-a: trap: unreachable in filter"
    assert str(caught.value).startswith(message)
    return str(caught.value).removeprefix(message)


@pytest.mark.parametrize("fd", [1, 2])
def test_a_trap_quotes_what_was_printed(load: Loader, fd: int) -> None:
    assert printed(load, prints(fd, [(TEXT, 6)], text="panic!")) == "; the guest printed: panic!"


@pytest.mark.parametrize(
    ("vectors", "quoted"),
    [
        ([], ""),
        ([(TEXT, 0)], ""),
        ([(TEXT, 5), (TEXT + 5, 1), (TEXT + 6, 6)], "; the guest printed: panic: green"),
        ([(TEXT, 5), (0xFFFF, 0), (TEXT + 7, 4)], "; the guest printed: panicgree"),
        ([(TEXT + 6, 1)], ""),
    ],
)
def test_several_vectors(load: Loader, vectors: list[tuple[int, int]], quoted: str) -> None:
    assert printed(load, prints(1, vectors, text="panic: green")).rstrip() == quoted


@pytest.mark.parametrize("limit", [0, 1, 1_000, 8 * KIBIBYTE, 20_000])
@pytest.mark.parametrize("beyond", [-1, 0, 1, 30_000])
def test_output_is_cut(load: Loader, limit: int, beyond: int) -> None:
    length = max(limit + beyond, 0)
    guest = prints(1, [(TEXT, length)], ending="", text="x" * length)
    instance = load.instance(guest, output_limit=limit)
    assert whole_code(each(instance, world({"node-a": b"A"}))) == 100 * length
    assert instance.output() == "x" * min(length, limit)


@pytest.mark.parametrize(
    ("length", "quoted"),
    [
        (MAX_OUTPUT_CHARS, "-" * MAX_OUTPUT_CHARS),
        (MAX_OUTPUT_CHARS + 1, f"{'-' * 510} … {'-' * 510}"),
        (8_000, f"{'-' * 510} … {'-' * 510}"),
    ],
)
def test_a_message_quotes_head_and_tail_of_the_output(load: Loader, length: int, quoted: str) -> None:
    """The error has all that was kept."""
    with pytest.raises(GuestError) as caught:
        filter_nodes(load.plugin(prints(1, [(TEXT, length)], text="-" * length)), world())
    assert str(caught.value) == f"filter of node node-a: trap: unreachable in filter; the guest printed: {quoted}"
    assert caught.value.output == "-" * length


def test_output_beyond_the_limit_is_said_to_be_written(load: Loader) -> None:
    """Or a guest would try for ever to print the rest."""
    vectors = [(0, 60_000), (0, 60_000), (0, 5)]
    results = each(load.instance(prints(1, vectors, ending="")), world({"node-a": b"A"}))
    assert whole_code(results) == 100 * 120_005


@pytest.mark.parametrize("fd", [0, 3, 4, 100, -1])
def test_other_descriptors_are_bad(load: Loader, fd: int) -> None:
    assert each(load.instance(prints(fd, [(TEXT, 5)], ending="", text="hello")), world({"a": b"A"})).codes == b"\x08"


@pytest.mark.parametrize("vector", [(65536, 1), (0xFFFFFFFF, 1), (TEXT, 0xFFFFFFFF), (0xFFFFFFFF, 0xFFFFFFFF)])
def test_output_outside_of_memory_is_a_trap(load: Loader, vector: tuple[int, int]) -> None:
    with pytest.raises(GuestError) as caught:
        filter_nodes(load.plugin(prints(1, [vector])), world())
    assert str(caught.value) == f"filter of node node-a: trap: memory out of bounds in {WRITE} < filter"


@pytest.mark.parametrize("vectors", [0xFFFFFFFF, 65532, 65536])
def test_vectors_outside_of_memory_are_a_trap(load: Loader, vectors: int) -> None:
    guest = module(export("filter", call(WRITE, 1, vectors, 1, 0)), uses=[WRITE])
    with pytest.raises(GuestError) as caught:
        filter_nodes(load.plugin(guest), world())
    assert str(caught.value) == f"filter of node node-a: trap: memory out of bounds in {WRITE} < filter"


def test_more_vectors_than_memory_are_a_trap(load: Loader) -> None:
    guest = module(export("filter", call(WRITE, 1, 0, -1, 0)), uses=[WRITE])
    with pytest.raises(GuestError) as caught:
        filter_nodes(load.plugin(guest), world())
    assert str(caught.value) == f"filter of node node-a: trap: memory out of bounds in {WRITE} < filter"


def test_output_of_one_node_is_not_quoted_for_the_next(load: Loader) -> None:
    """Nor that of the last pod."""
    guest = module(
        "(global $calls (mut i32) (i32.const 0))",
        '(data (i32.const 0) "\\00\\04\\00\\00\\05\\00\\00\\00")',
        export(
            "filter",
            "(global.set $calls (i32.add (global.get $calls) (i32.const 1)))",
            "(if (i32.eq (global.get $calls) (i32.const 3)) (then unreachable))",
            call(WRITE, 1, 0, 1, 512),
        ),
        uses=[WRITE],
        text="noisy",
    )
    plugin = load.plugin(guest)
    filter_nodes(plugin, world())
    with pytest.raises(GuestError) as caught:
        filter_nodes(plugin, world())
    assert str(caught.value) == "filter of node node-a: trap: unreachable in filter"


def test_output_is_quoted_beside_an_error_status(load: Loader) -> None:
    with pytest.raises(GuestError) as caught:
        filter_nodes(load.plugin(prints(1, [(TEXT, 5)], ending="(return (i32.const 1))", text="noisy")), world())
    assert str(caught.value) == "filter of node node-a: Error without a reason; the guest printed: noisy"


def test_output_of_start_is_quoted_when_it_fails(load: Loader) -> None:
    start = f'(func $_start (export "_start") (drop {call(WRITE, 2, 0, 1, 512)}) unreachable)'
    vector = '(data (i32.const 0) "\\00\\04\\00\\00\\08\\00\\00\\00")'
    with pytest.raises(GuestError) as caught:
        load.plugin(module(vector, start, export("filter", "(i32.const 0)"), uses=[WRITE], text="no disk\n"))
    assert str(caught.value) == "_start: trap: unreachable in _start; the guest printed: no disk"


def test_config_reaches_the_output(load: Loader) -> None:
    """The way by which upstream's own test proves that a configuration arrives."""
    guest = module(
        export(
            "prefilter",
            "(i32.store (i32.const 0) (i32.const 64))",
            "(i32.store (i32.const 4) (call $k8s.io/scheduler/get_config (i32.const 64) (i32.const 1024)))",
            f"(drop {call(WRITE, 1, 0, 1, 16)}) unreachable",
        ),
        uses=[WRITE, "k8s.io/scheduler/get_config"],
    )
    with pytest.raises(GuestError) as caught:
        pre_filter(load.plugin(guest, config="hello"), world())
    assert str(caught.value) == "prefilter: trap: unreachable in prefilter; the guest printed: hello"


def test_the_pod_does_not_leak_into_another_guests_output(load: Loader) -> None:
    """Two instances of one module share code only."""
    guest = module(export("filter", call(REASON, 4096, call(POD, 4096, 64)), "(i32.const 2)"), uses=[POD, REASON])
    one, other = load.instance(guest), load.instance(guest)
    assert each(one, world(pod=b"secret")).reasons == ["secret", "secret"]
    assert each(other, world(pod=b"")).reasons == ["", ""]
