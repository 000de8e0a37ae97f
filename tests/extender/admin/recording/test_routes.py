"""The admin API's recordings of `kwx serve`: who may make them, how they begin and end."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import httpx
import msgspec
import pytest

from extender.admin.recording.file_format import GZIP, BegunRecord, CycleRecord, EndedRecord, NodeRecord, Record
from extender.admin.recording.recorders import MAX_PODS, MAX_RECORDINGS
from extender.admin.recording.routes import MEDIA_TYPE
from extender.admin.status import Cause, failure_status
from tests.extender.kwx import ON_PURPOSE, Extender, plugin, profile
from tests.extender.objects import filtered, names_args, node, nodes_args, pod
from wasm_runtime.protobuf import encode_node, encode_pod

TRAFFIC = "/api/v1/traffic"
WRITER, READER = "a-token-that-writes", "a-token-that-reads-only"


@pytest.fixture(scope="module")
def extender(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Extender]:
    profiles = [profile("default", plugin("nodenumber")), profile("batch", plugin("nodenumber"))]
    with Extender(tmp_path_factory.mktemp("traffic"), *profiles) as extender:
        yield extender


@contextmanager
def recording(extender: Extender, **query: str | int | float) -> Iterator[Iterator[bytes]]:
    """The pieces of a recording that has begun, without the first one; closes the connection."""
    url = extender.admin_url + TRAFFIC
    with httpx.stream("GET", url, params=query, headers=ON_PURPOSE, trust_env=False, timeout=30) as answer:
        assert (answer.status_code, answer.headers["content-type"]) == (200, MEDIA_TYPE)
        pieces = answer.iter_raw()
        first = next(pieces)
        assert zlib.decompressobj(GZIP).decompress(first)
        yield (piece for part in ([first], pieces) for piece in part)


def read(pieces: Iterator[bytes]) -> list[Record]:
    rest = gzip.decompress(b"".join(pieces))
    records = []
    while rest:
        end = 4 + int.from_bytes(rest[:4], "big")
        records.append(msgspec.msgpack.decode(rest[4:end], type=Record))
        rest = rest[end:]
    return records


def refused(extender: Extender, token: str = "", **query: str | int | float) -> tuple[int, str]:
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    answer = extender.admin.get(TRAFFIC, params=query, headers=headers)
    message = answer.json()["message"]
    assert answer.json() == failure_status(answer.status_code, message)
    return answer.status_code, message


def ask(extender: Extender, name: str, path: str = "/filter") -> None:
    assert extender.post(path, names_args(["node-1", "node-2"], pod(name))) == filtered(["node-1", "node-2"])


def cycles(records: list[Record]) -> list[str]:
    return [record.name for record in records if isinstance(record, CycleRecord)]


def test_it_ends_when_enough_pods_have_come(extender: Extender) -> None:
    with recording(extender, pods=3) as pieces:
        for name in "abcd":
            ask(extender, name)
        begun, *records, ended = read(pieces)
    assert isinstance(begun, BegunRecord)
    assert begun.profile == "default"
    assert records[:2] == [NodeRecord("node-1", b""), NodeRecord("node-2", b"")]
    assert [(each.uid, each.pod, each.nodes) for each in records[2:] if isinstance(each, CycleRecord)] == [
        (f"uid-of-{name}", encode_pod(pod(name)), [0, 1]) for name in "abc"
    ]
    assert cycles(records) == ["default/a", "default/b", "default/c"]
    assert ended == EndedRecord("pods", 0)


def test_it_ends_when_the_time_is_up_and_has_the_profile_that_was_asked_for(extender: Extender) -> None:
    with recording(extender, duration="3s", profile="batch") as pieces:
        ask(extender, "a")
        ask(extender, "b", "/profiles/batch/filter")
        begun, *records, ended = read(pieces)
    assert isinstance(begun, BegunRecord)
    assert begun.profile == "batch"
    assert (cycles(records), ended) == (["default/b"], EndedRecord("time", 0))


def test_what_the_verbs_answer_is_the_same_while_it_is_recorded(extender: Extender) -> None:
    """Also where what is recorded finds a mistake that the plugins do not."""
    broken = {**node("node-2", version="2"), "spec": 5}
    requests = [names_args(), nodes_args([node("node-1"), node("node-2")]), nodes_args([node("node-1"), broken])]
    quiet = [extender.post(verb, each) for each in requests for verb in ("/filter", "/prioritize")]
    with recording(extender, pods=3) as pieces:
        assert [extender.post(verb, each) for each in requests for verb in ("/filter", "/prioritize")] == quiet
        *records, ended = read(pieces)
    assert [each for each in records if isinstance(each, NodeRecord) and each.object] == [
        NodeRecord(name, encode_node(node(name))) for name in ("node-1", "node-2")
    ]
    assert (len(cycles(records)), ended) == (2, EndedRecord("pods", 1))


def test_so_many_at_a_time_and_who_leaves_makes_room(extender: Extender) -> None:
    def begins() -> bool:
        url = extender.admin_url + TRAFFIC
        with httpx.stream("GET", url, params={"duration": "60s"}, headers=ON_PURPOSE, trust_env=False) as answer:
            return answer.status_code == httpx.codes.OK

    with ExitStack() as open_ones:
        for _ in range(MAX_RECORDINGS):
            open_ones.enter_context(recording(extender, duration="60s"))
        assert refused(extender) == (
            429,
            f"{MAX_RECORDINGS} recordings are being made already; end one of them or ask again later",
        )
    extender.wait_until(begins)
    for _ in range(2 * MAX_RECORDINGS):
        extender.wait_until(begins)
    ask(extender, "a")
    assert [line for line in extender.log() if line["level"] != "info"] == []


@pytest.mark.parametrize(
    ("query", "problem"),
    [
        ({"pods": 0}, "Input should be greater than or equal to 1"),
        ({"pods": MAX_PODS + 1}, f"Input should be less than or equal to {MAX_PODS}"),
        ({"duration": "601s"}, "expected a duration of 600s at most, found '601s'"),
        ({"duration": "60"}, "expected a duration such as 500ms or 2s, at most 1h, found '60'"),
    ],
)
def test_pods_and_duration_have_limits(extender: Extender, query: dict[str, int | str], problem: str) -> None:
    answer = extender.admin.get(TRAFFIC, params=query)
    (field,) = query
    assert (answer.status_code, answer.json()) == (
        422,
        failure_status(422, f"{field}: {problem}", [Cause(field=field, message=problem)]),
    )


def test_a_profile_that_is_not_there_is_not_found(extender: Extender) -> None:
    assert refused(extender, profile="nope") == (404, "no profile is named 'nope'; there are: default, batch")


def test_who_records_and_how_it_ended_is_logged(tmp_path: Path) -> None:
    """Also where the client leaves."""
    with Extender(tmp_path, profile("default", plugin("nodenumber"))) as extender:

        def over() -> list[tuple[str, str, int, str]]:
            lines = extender.events("the recording is over")
            return [(line["profile"], line["requested_by"], line["pods"], line["why"]) for line in lines]

        with recording(extender, pods=2) as pieces:
            for name in "abc":
                ask(extender, name)
            list(pieces)
        extender.wait_until(lambda: over() == [("default", "local", 2, "pods")])
        with recording(extender, pods=2) as pieces:
            ask(extender, "a")
            next(pieces)
            next(pieces)
        extender.wait_until(lambda: over()[1:] == [("default", "local", 1, "cut off")])
        begun = [(line["profile"], line["requested_by"]) for line in extender.events("traffic is recorded")]
        assert begun == [("default", "local")] * 2


def test_only_who_may_change_things_may_record(tmp_path: Path) -> None:
    tokens = tmp_path / "tokens"
    tokens.write_text(f"{WRITER},alice,write\n{READER},bob,read\n")
    tokens.chmod(0o600)
    server = {"adminTokens": str(tokens)}
    with Extender(tmp_path, profile("default", plugin("nodenumber")), server=server) as extender:
        assert refused(extender, READER) == (
            403,
            "the token of bob has the role read, which does not show pods; use one with the role write",
        )
        assert refused(extender) == (401, "a bearer token of server.adminTokens is needed")
        headers = {"Authorization": f"Bearer {WRITER}"}
        url = f"{extender.admin_url}{TRAFFIC}?duration=100ms"
        assert len(read(iter([httpx.get(url, headers=headers, trust_env=False).content]))) == 2
        (line,) = extender.events("traffic is recorded")
        assert (line["profile"], line["requested_by"]) == ("default", "alice")


def test_the_end_of_the_process_does_not_wait_for_it(tmp_path: Path) -> None:
    with Extender(tmp_path, profile("default", plugin("nodenumber"))) as extender:
        with recording(extender, duration="60s") as pieces:
            assert extender.stop() == 0
            with pytest.raises(httpx.RemoteProtocolError):
                list(pieces)
        assert [line for line in extender.log() if line["level"] != "info"] == []


def test_nothing_of_a_pod_is_logged(extender: Extender) -> None:
    hidden = pod("web")
    hidden["spec"]["containers"][0]["env"] = [{"name": "KEY", "value": "hidden"}]
    with recording(extender, pods=1) as pieces:
        extender.post("/filter", names_args(["node-1"], hidden))
        content = gzip.decompress(b"".join(pieces))
    assert (content.count(b"hidden"), content.count(b"xxxxxx")) == (0, 1)
    assert "hidden" not in (extender.folder / "extender.log").read_text()
