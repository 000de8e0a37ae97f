from __future__ import annotations

import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from http import HTTPStatus
from pathlib import Path

import httpx
import pytest

from bench.controlplane.ports import free_port
from extender.admin.status import failure_status
from tests.extender import guests
from tests.extender.kwx import ON_PURPOSE, Extender, client, failure, plugin, profile
from tests.extender.objects import filter_error, filtered, names_args, pod
from tests.patience import PATIENCE_S
from wasm_runtime.blob import digest


@pytest.fixture(scope="module")
def extender(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Extender]:
    profiles = [
        profile("default", plugin("accelerator"), plugin("nodenumber", weight=3, extensionPoints=["score"])),
        profile("everything", plugin("every_export")),
        profile("some", plugin("every_export", extensionPoints=["filter", "permit"])),
        profile("spin", plugin("spin", timeout="3s")),
    ]
    with Extender(tmp_path_factory.mktemp("admin"), *profiles) as extender:
        yield extender


def text(extender: Extender, path: str) -> tuple[int, str, str]:
    answer = extender.admin.get(path)
    return answer.status_code, answer.headers["content-type"], answer.text


PLAIN = "text/plain; charset=utf-8"


def test_the_process_lives_and_is_ready(extender: Extender) -> None:
    assert text(extender, "/livez") == (200, PLAIN, "ok")
    assert text(extender, "/readyz") == (200, PLAIN, "ok")
    assert text(extender, "/readyz?verbose") == (
        200,
        PLAIN,
        "[+]plugins ok\n[+]threads ok\n[+]verbs ok\nreadyz check passed\n",
    )
    assert text(extender, "/readyz?verbose=1") == (
        200,
        PLAIN,
        "[+]plugins ok\n[+]threads ok\n[+]verbs ok\nreadyz check passed\n",
    )


PREFILTER = ["prefilter", "addpod", "removepod"]
BIND_CYCLE = ["reserve", "bindingannotations", "unreserve", "permit", "prebind", "bind", "postbind"]
SCORE = ["prescore", "score", "normalizescore"]


def live(guest: str, profile: str, **more: object) -> dict[str, object]:
    """A plugin as the API shows it, without what tells how it came to be live."""
    return {
        "name": guest,
        "profile": profile,
        "digest": digest(guests.module(guest)),
        "source": f"file://./{guest}.wasm",
        "weight": 1,
        "exports": ["filter", "score"],
        "notRun": [],
        "clusterEvents": [],
        "failures": 0,
        "lastFailure": "",
        "standby": None,
    } | more


def test_plugins_are_listed_in_their_order_with_what_is_called_and_what_is_left_out(extender: Extender) -> None:
    plugins = extender.admin.get("/api/v1/plugins").json()
    for shown in plugins:
        revision, rollout, conditions = (shown.pop(each) for each in ("revision", "rollout", "conditions"))
        assert [(each["type"], each["status"], each["reason"], each["message"]) for each in conditions] == [
            ("Ready", "True", "Serving", ""),
            ("SourceReady", "True", "SourceAvailable", ""),
            ("SourceInSync", "True", "SameRevision", ""),
            ("RequirementsMet", "True", "Verified", ""),
        ]
        assert (revision["id"], revision["module"]) == (rollout["revision"], shown["digest"])
        assert (rollout["stage"], rollout["requestedBy"], rollout["plugin"]) == ("active", "start", shown["name"])
    assert plugins == [
        live("accelerator", "default", exports=["prefilter", "filter"]),
        live("nodenumber", "default", weight=3, exports=["prescore", "score"]),
        live(
            "every_export",
            "everything",
            exports=["enqueue", *PREFILTER, "filter", "postfilter", *SCORE, *BIND_CYCLE],
            clusterEvents=[
                {"resource": "Node", "actionType": 8},
                {"resource": "Pod", "actionType": 2},
                {"resource": "99", "actionType": 511},
            ],
        ),
        live(
            "every_export",
            "some",
            exports=[*PREFILTER, "filter", "permit"],
            notRun=["enqueue", "postfilter", *SCORE, *(name for name in BIND_CYCLE if name != "permit")],
        ),
        live("spin", "spin"),
    ]


def test_nothing_is_logged_of_what_the_configuration_leaves_out(extender: Extender) -> None:
    assert [line["event"] for line in extender.log() if "plugin" in line] == []


@pytest.mark.parametrize(
    ("method", "path", "status"), [("GET", "/nope", 404), ("GET", "/filter", 404), ("POST", "/livez", 405)]
)
def test_what_is_not_there_is_not_found(extender: Extender, method: str, path: str, status: int) -> None:
    answer = extender.admin.request(method, path)
    assert (answer.status_code, answer.json()) == (status, failure_status(status, HTTPStatus(status).phrase))


SPINNING_CPU_S = 0.5
"""More than the extender takes for anything else that it is asked in this test."""


def cpu_seconds(extender: Extender) -> float:
    (line,) = re.findall(r"^process_cpu_seconds_total (.+)$", extender.admin.get("/metrics").text, re.MULTILINE)
    return float(line)


def test_a_guest_that_spins_stops_neither_health_nor_the_list_of_plugins(extender: Extender) -> None:
    with ThreadPoolExecutor() as threads:
        before = cpu_seconds(extender)
        asked = threads.submit(extender.post, "/profiles/spin/filter", names_args())
        extender.wait_until(lambda: cpu_seconds(extender) > before + SPINNING_CPU_S)
        for path in ("/livez", "/readyz", "/api/v1/plugins"):
            assert extender.admin.get(path).status_code == httpx.codes.OK
        assert not asked.done()
        assert asked.result(PATIENCE_S) == filter_error(
            failure(
                plugin("spin"),
                "filter of node node-0: interrupted at its timeout of 3000 ms;"
                " mend the guest, or raise the plugin's timeout",
            )
        )


KUBECONFIG = """
apiVersion: v1
kind: Config
current-context: c
clusters: [{{name: a, cluster: {{server: "http://127.0.0.1:{port}"}}}}]
users: [{{name: u, user: {{token: "{token}"}}}}]
contexts: [{{name: c, context: {{cluster: a, user: u}}}}]
"""
TOKEN = "a-token-that-nobody-may-see"


def test_without_the_nodes_of_the_cluster_the_process_is_alive_but_not_ready(tmp_path: Path) -> None:
    port = free_port()
    (tmp_path / "kubeconfig").write_text(KUBECONFIG.format(port=port, token=TOKEN))
    cluster = {"mode": "kubeconfig", "kubeconfig": str(tmp_path / "kubeconfig")}
    profiles = [profile("default", plugin("accelerator")), profile("names", plugin("nodenumber"))]
    with Extender(tmp_path, *profiles, cluster=cluster) as extender:
        problem = f"list nodes: http://127.0.0.1:{port} cannot be reached: "
        extender.wait_until(lambda: problem in text(extender, "/readyz")[2])
        assert text(extender, "/livez") == (200, PLAIN, "ok")
        for path in ("/readyz", "/readyz?verbose"):
            status, kind, report = text(extender, path)
            assert (status, kind) == (503, PLAIN)
            assert report.startswith(f"[-]nodes failed: the nodes of the cluster are not known yet: {problem}")
            assert report.endswith(" s)\n[+]plugins ok\n[+]threads ok\n[+]verbs ok\nreadyz check failed\n")

        wants = names_args(["node-0"], pod(annotations={"kwx.dev/accelerator": "h100"}))
        answer = extender.post("/filter", wants)
        assert answer["Error"].startswith(f"the nodes of the cluster are not known yet: {problem}")
        assert answer == filter_error(answer["Error"])
        assert extender.post("/profiles/names/filter", wants) == filtered(["node-0"])
        assert extender.post("/prioritize", wants) == []
        log = extender.log()
    assert [line["level"] for line in log if line["event"] == "the nodes are not current"] == ["warning"]
    assert TOKEN not in (tmp_path / "extender.log").read_text()


def test_both_addresses_may_be_of_ip_version_6(tmp_path: Path) -> None:
    server = {"address": "[::1]:0", "adminAddress": "[::1]:0"}
    with Extender(tmp_path, profile("default", plugin("nodenumber")), server=server) as extender:
        assert extender.url.startswith("http://[::1]:")
        assert extender.post("/filter", names_args(["node-7"])) == filtered(["node-7"])
        with client(extender.admin_url) as admin:
            assert admin.get("/livez").text == "ok"


def test_who_listens_to_events_does_not_keep_the_process_from_ending(tmp_path: Path) -> None:
    with Extender(tmp_path, profile("default", plugin("nodenumber"))) as extender:
        with httpx.stream("GET", f"{extender.admin_url}/api/v1/events", headers=ON_PURPOSE, trust_env=False) as answer:
            assert answer.status_code == httpx.codes.OK
            assert extender.stop() == 0
            with pytest.raises(httpx.RemoteProtocolError):
                answer.read()
        assert [line for line in extender.log() if line["level"] != "info"] == []
