"""What-ifs, as the admin API answers them: what plugins would say of a pod, and that nobody notices."""

from __future__ import annotations

import asyncio
import base64
import json
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx
import msgspec
import pytest
from fastapi import FastAPI
from prometheus_client import generate_latest

from extender.admin.api.context import _user
from extender.admin.api.routes import add_api
from extender.admin.auth.access import LOCAL
from extender.cluster import ClusterError, PodGoneError, PodKey
from extender.rollouts import what_if
from tests.extender import guests
from tests.extender.kwx import failure, plugin, profile
from tests.extender.objects import NODE_NAMES, node, pod
from tests.extender.rollouts.inside import Inside
from tests.extender.sources.signer import Signer
from wasm_runtime.blob import digest
from wasm_runtime.protobuf.encode import encode_node, encode_pod

SEVENS = plugin("filter_by_digit", "72no sevens", name="sevens")
DIGIT = plugin("score_by_digit", weight=3)
PROFILES = [
    profile("default", SEVENS, DIGIT),
    profile("top", DIGIT, topNodes=1),
    profile("packs", plugin("packs_two")),
    profile("traps", plugin("trap")),
    profile("leaves-out", plugin("trap", name="trapping", failurePolicy="Ignore"), DIGIT),
    profile("spins", plugin("spin", timeout="50ms")),
    profile("signed", plugin("score_by_digit", name="signed", source={"publicKey": "cosign.pub"})),
]
FIFTY = guests.constant_score(50)


class Page:
    """An extender, and its admin API."""

    def __init__(self, inside: Inside) -> None:
        self.inside = inside
        self.pods: dict[str, bytes | ClusterError] = {}
        """What the API server has, by the pod's name."""
        app = FastAPI()
        self.context = SimpleNamespace(
            what_if=inside.service.what_if,
            live=inside.live,
            ledger=inside.ledger,
            decisions=inside.decisions,
            judging=asyncio.Semaphore(1),
            read_pod=self._read,
        )
        add_api(app, self.context)  # type: ignore[arg-type]
        app.dependency_overrides[_user] = lambda: LOCAL
        self._transport = httpx.ASGITransport(app)

    async def _read(self, key: PodKey) -> bytes:
        found = self.pods.get(key.name, PodGoneError("the pod is gone"))
        if isinstance(found, ClusterError):
            raise found
        return found

    def ask(self, body: Any, **query: str | int) -> tuple[int, Any]:
        """The status, and the answer or the message of a refusal."""

        async def ask() -> httpx.Response:
            async with httpx.AsyncClient(transport=self._transport, base_url="http://admin") as client:
                content = body if isinstance(body, bytes) else msgspec.json.encode(body)
                return await client.post("/api/v1/judge", content=content, params=query)

        answer = asyncio.run(ask())
        found = answer.json()
        return answer.status_code, found if answer.is_success else found["message"]

    def judge(self, the_pod: Any = None, /, *, profile: str = "default", **more: Any) -> Any:
        """What is said of a pod."""
        status, found = self.ask({"pod": the_pod or pod(), **more}, profile=profile)
        assert status == 200, found
        return found

    def traces(self) -> Any:
        """All that a verb would leave."""
        inside = self.inside
        inside.written()
        return (
            inside.decisions.latest(),
            inside.ledger.entries(),
            [each for name in ("default", "packs") for each in inside.samples.last(name)],
            inside.rollouts.journal.since(0),
            inside.rollouts.history(100),
            [line for line in generate_latest(inside.context.metrics.registry).decode().splitlines() if "kwx" in line],
            [vars(slot.live.profile_plugin.stats) for slot in inside.live.slots if slot.live],
            [slot.outcomes.total_failures for slot in inside.live.slots],
        )


@pytest.fixture(scope="module")
def signer(tmp_path_factory: pytest.TempPathFactory) -> Signer:
    return Signer(tmp_path_factory.mktemp("what-if"))


@pytest.fixture(scope="module")
def page(signer: Signer) -> Iterator[Page]:
    folder = signer.public_key.parent
    (folder / "score_by_digit.wasm.sig").write_bytes(base64.b64encode(signer(guests.module("score_by_digit"))))
    with Inside(folder, *PROFILES) as inside:
        inside.nodes.put((name, encode_node(node(name))) for name in NODE_NAMES)
        inside.ledger.is_followed = True
        yield Page(inside)


def passing(found: Mapping[str, Any]) -> dict[str, float | None]:
    """The total of each node that passes."""
    return {each["name"]: each["total"] for each in found["nodes"] if not each["rejection"]}


def candidate(name: str, module: bytes | None = None, **more: Any) -> dict[str, Any]:
    upload = {} if module is None else {"module": base64.b64encode(module).decode()}
    return {"plugin": name, **upload, **more}


TENS = {f"node-{at}": 10.0 * at for at in range(10)}
ALL_BUT_SEVENS = {name: total for name, total in TENS.items() if name != "node-7"}


def test_the_plugins_that_serve_judge_all_nodes_and_nothing_is_left_of_it(page: Page) -> None:
    before = page.traces()
    found = page.judge()
    assert page.traces() == before
    calls = [(each["plugin"], each["point"], each["digest"]) for each in found.pop("calls")]
    assert calls == [
        ("sevens", "filter", digest(guests.module("filter_by_digit"))),
        ("score_by_digit", "score", digest(guests.module("score_by_digit"))),
    ]
    assert passing(found) == ALL_BUT_SEVENS
    assert [each["name"] for each in found.pop("nodes")] == [*sorted(ALL_BUT_SEVENS, reverse=True), "node-7"]
    del found["time"]
    assert found == {
        "namespace": "default",
        "name": "web-7",
        "uid": "uid-of-web-7",
        "profile": "default",
        "outcome": "answered",
        "node": "",
        "message": "",
        "schedulerMessage": "",
        "nodesKnown": 10,
        "nodesAsked": 10,
        "nodesAnswered": 9,
        "rejections": [{"plugin": "sevens", "reason": "no sevens", "isFinal": False, "nodes": 1}],
        "preemption": None,
        "permit": None,
        "bind": None,
        "nodesLeftOut": 0,
        "ignored": [],
    }


def test_a_module_takes_a_plugins_place_and_what_serves_goes_on(page: Page) -> None:
    before = page.traces()
    found = page.judge(candidate=candidate("score_by_digit", FIFTY))
    assert passing(found) == dict.fromkeys(ALL_BUT_SEVENS, 50.0)
    assert page.traces() == before
    assert passing(page.judge()) == ALL_BUT_SEVENS


def test_so_do_other_settings_and_earlier_revisions(page: Page) -> None:
    settings = {"guestConfig": "22no twos"}
    found = page.judge(candidate=candidate("sevens", settings=settings))
    assert passing(found) == {name: total for name, total in TENS.items() if name != "node-2"}
    slot = page.inside.slot("score_by_digit")
    first = page.inside.active("score_by_digit")
    second = page.inside.upload(FIFTY, plugin="score_by_digit")
    assert {each.id for each in slot.revisions} == {first, second}
    found = page.judge(candidate=candidate("score_by_digit", revision=first[:20]))
    assert passing(found) == ALL_BUT_SEVENS
    page.inside.over(page.inside.rollouts.roll_back(slot, by="ann", to=first))
    assert passing(page.judge()) == ALL_BUT_SEVENS


def test_the_profile_is_that_of_the_scheduler_or_the_one_that_is_named(page: Page) -> None:
    assert page.ask({"pod": pod(scheduler="top")})[1]["profile"] == "top"
    assert page.ask({"pod": pod(scheduler="other")})[1]["profile"] == "default"
    found = page.judge(pod(scheduler="other"), profile="top")
    assert (found["profile"], passing(found)) == ("top", TENS)


def test_nodes_may_come_with_the_pod(page: Page) -> None:
    found = page.judge(nodes=[node("new-4"), node("new-7"), node("new-8")])
    assert (found["nodesKnown"], passing(found)) == (3, {"new-8": 80.0, "new-4": 40.0})
    assert page.inside.nodes.names() == NODE_NAMES


def test_a_pod_that_was_never_created_is_known_by_its_name(page: Page) -> None:
    found = page.judge({"metadata": {"name": "wish"}, "spec": {"containers": []}})
    assert (found["namespace"], found["name"], found["uid"]) == ("default", "wish", "default/wish")


def test_the_pods_and_what_is_reserved_for_them_count(page: Page) -> None:
    for at in range(2):
        page.inside.ledger.observe(f"there-{at}", "node-1", b"\x0a\x00")
    before = page.traces()
    found = page.judge(profile="packs")
    assert page.traces() == before
    assert found["rejections"] == [{"plugin": "packs_two", "reason": "2 pods are there", "isFinal": False, "nodes": 1}]
    assert set(passing(found)) == {*NODE_NAMES} - {"node-1"}
    assert len(passing(page.judge(profile="packs", nodes=[node("node-1")]))) == 1


def test_a_pod_that_has_a_node_does_not_count_itself(page: Page) -> None:
    """Neither one that runs there nor one that is expected there; all others do."""

    def on(node: str, name: str) -> Any:
        the_pod = pod(name)
        return {**the_pod, "spec": {**the_pod["spec"], "nodeName": node}}

    there = {"full-0": "node-3", "full-1": "node-3", "beside": "node-4"}
    try:
        for name, node in there.items():
            page.inside.ledger.observe(f"uid-of-{name}", node, encode_pod(on(node, name)))
        page.inside.ledger.plan("uid-of-planned", "node-4", encode_pod(pod("planned")), sys.maxsize)
        before = page.traces()
        for the_pod, full in (
            (pod("new"), {"node-3", "node-4"}),
            (on("node-3", "full-1"), {"node-4"}),
            (pod("planned"), {"node-3"}),
        ):
            found = page.judge(the_pod, profile="packs")
            assert {*NODE_NAMES} - passing(found).keys() - {"node-1"} == full, the_pod
        assert page.traces() == before
    finally:
        for name in (*there, "planned"):
            page.inside.ledger.delete(f"uid-of-{name}")


def test_who_wants_to_know_pods_waits_for_them_but_not_for_long(page: Page, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(what_if, "MAX_PODS_S", 0.0)
    monkeypatch.setattr(page.inside, "pods_problem", "they are being listed")
    problem = "plugin packs_two wants to know pods: they are being listed"
    assert page.ask({"pod": pod()}, profile="packs") == (422, problem)


def test_a_pod_of_the_cluster_is_judged_by_its_name(page: Page) -> None:
    page.pods["there"] = encode_pod(pod("there", scheduler="top"))
    status, found = page.ask({"podName": "default/there"})
    assert (status, found["name"], found["uid"], found["profile"]) == (200, "there", "uid-of-there", "top")
    page.pods["hidden"] = ClusterError("the API server answers with status 403")
    assert page.ask({"podName": "default/hidden"}) == (
        503,
        "pod default/hidden cannot be read: the API server answers with status 403",
    )
    assert page.ask({"podName": "default/nobody"}) == (404, "pod default/nobody is not in the cluster")


def test_a_plugin_that_fails_is_told_of_and_what_serves_is_none_the_worse(page: Page) -> None:
    before = page.traces()
    found = page.judge(profile="traps")
    assert (found["outcome"], found["nodes"], found["ignored"]) == (
        "failed",
        [
            {"name": name, "rejection": None, "scores": [], "total": None, "answer": None, "isAnswered": False}
            for name in NODE_NAMES
        ],
        [],
    )
    assert found["message"].startswith("filter: " + failure(plugin("trap"), "filter of node node-0: "))
    found = page.judge(profile="leaves-out")
    assert passing(found) == TENS
    for verb, ignored in zip(("filter", "score"), found["ignored"], strict=True):
        assert ignored.startswith(failure(plugin("trap", name="trapping"), f"{verb} of node node-0: "))
    assert page.traces() == before


def test_a_guest_that_spins_is_interrupted(page: Page) -> None:
    found = page.judge(profile="spins")
    assert (found["outcome"], found["message"]) == (
        "failed",
        "filter: "
        + failure(
            plugin("spin"),
            "filter of node node-0: interrupted at its timeout of 50 ms; mend the guest, or raise the plugin's timeout",
        ),
    )


def test_a_module_has_to_be_signed_where_it_would_have_to_be_to_go_live(page: Page, signer: Signer) -> None:
    status, problem = page.ask({"pod": pod(), "candidate": candidate("signed", FIFTY)}, profile="signed")
    assert (status, problem.startswith("upload by local is not signed")) == (422, True), problem
    signature = base64.b64encode(signer(FIFTY)).decode()
    found = page.judge(profile="signed", candidate=candidate("signed", FIFTY, signature=signature))
    assert passing(found) == dict.fromkeys(NODE_NAMES, 50.0)


def test_no_more_nodes_are_shown_than_were_asked_for(page: Page) -> None:
    _, found = page.ask({"pod": pod()}, limit=2)
    assert ([each["name"] for each in found["nodes"]], found["nodesLeftOut"]) == (["node-9", "node-8"], 8)


KEYS = "guestConfig, args, logSeverity, weight, engine, allowUnlimited, failurePolicy, timeout, memoryLimit, tableLimit"
REFUSED: dict[str, tuple[Any, int, str]] = {
    "no JSON": (b"{", 422, "the body: Input data was truncated"),
    "a field that is not known": (
        {"pod": pod(), "node": "node-1"},
        422,
        "the body: Object contains unknown field `node`",
    ),
    "no pod": ({}, 422, "expected either pod, as kubectl prints it, or podName, as NAMESPACE/NAME"),
    "two pods": (
        {"pod": pod(), "podName": "default/web"},
        422,
        "expected either pod, as kubectl prints it, or podName, as NAMESPACE/NAME",
    ),
    "a name without a namespace": ({"podName": "web"}, 422, "podName: expected NAMESPACE/NAME, found 'web'"),
    "a pod without a name": ({"pod": {"metadata": {}}}, 422, "pod: metadata.name is missing"),
    "a pod of another kind": ({"pod": []}, 422, "pod: Expected `object`, got `array`"),
    "a node without a name": (
        {"pod": pod(), "nodes": [node("node-1"), {"metadata": {}}]},
        422,
        "nodes: 1: metadata.name is missing",
    ),
    "a node with a long name": (
        {"pod": pod(), "nodes": [node("n" * 254)]},
        422,
        "nodes: 0: Expected `str` of length <= 253 - at `$.metadata.name`",
    ),
    "no nodes": (
        {"pod": pod(), "nodes": []},
        422,
        "no node is known here yet, see /readyz?verbose; or give the nodes",
    ),
    "a plugin that is not there": (
        {"pod": pod(), "candidate": candidate("twos", FIFTY)},
        404,
        "there is no plugin 'twos'; there are packs_two, score_by_digit, sevens, signed, spin, trap, trapping",
    ),
    "a plugin of another profile": (
        {"pod": pod(), "candidate": candidate("trap", FIFTY)},
        404,
        "profile 'default' has no plugin 'trap'; it is in traps",
    ),
    "a candidate that is what serves": (
        {"pod": pod(), "candidate": candidate("sevens")},
        422,
        "candidate: expected a module, a revision or settings",
    ),
    "two candidates": (
        {"pod": pod(), "candidate": candidate("sevens", FIFTY, revision="sha256:12345678")},
        422,
        "candidate: module and revision exclude each other",
    ),
    "a module that is no base64": (
        {"pod": pod(), "candidate": {"plugin": "sevens", "module": "?"}},
        422,
        "the body: Invalid base64 encoded string - at `$.candidate.module`",
    ),
    "a module that is none": (
        {"pod": pod(), "candidate": candidate("sevens", b"no wasm")},
        422,
        "upload by local is no valid WebAssembly module: begins with b'no w', not with b'\\x00asm'",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_judged_is_refused_with_the_reason(page: Page, case: str) -> None:
    body, status, message = REFUSED[case]
    assert page.ask(body) == (status, message)


def test_a_profile_or_setting_that_is_not_there_is_refused(page: Page) -> None:
    names = ", ".join(each["name"] for each in PROFILES)
    assert page.ask({"pod": pod()}, profile="nope") == (404, f"no profile is named 'nope'; there are: {names}")
    status, problem = page.ask({"pod": pod(), "candidate": candidate("sevens", settings={"name": "x"})})
    assert (status, problem.startswith(f"name: cannot be set; expected some of {KEYS}")) == (422, True), problem


def test_without_a_cluster_there_are_the_pods_that_come_and_the_nodes_of_requests(tmp_path: Path) -> None:
    with Inside(tmp_path, profile("default", DIGIT)) as inside:
        page = Page(inside)
        page.context.read_pod = None
        assert page.ask({"podName": "default/web"}) == (
            422,
            "podName: there is no API server to read it from (cluster.mode); give the pod itself",
        )
        problem = "no node is known here yet, see /readyz?verbose; or give the nodes"
        assert page.ask({"pod": pod()}) == (422, problem)


def test_secrets_of_a_pod_are_not_in_the_answer(page: Page) -> None:
    secret = pod("secret", annotations={"token": "hunter2"})
    secret["spec"]["containers"][0]["env"] = [{"name": "PASSWORD", "value": "hunter2"}]
    assert "hunter2" not in json.dumps(page.judge(secret))
