from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.controlplane.ports import free_port
from tests.extender import guests
from tests.extender.kwx import Extender, client, plugin, profile
from tests.extender.objects import filter_error, filtered, names_args, pod
from wasm_runtime.plugin import digest

SPINNING_S = 1.5


@pytest.fixture(scope="module")
def extender(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Extender]:
    profiles = [
        profile("default", plugin("accelerator"), plugin("nodenumber", weight=3, extensionPoints=["score"])),
        profile("everything", plugin("every_export")),
        profile("some", plugin("every_export", extensionPoints=["filter", "permit"])),
        profile("spin", plugin("spin", timeout=f"{SPINNING_S}s")),
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
    assert text(extender, "/readyz?verbose") == (200, PLAIN, "readyz check passed\n")
    assert text(extender, "/readyz?verbose=1") == (200, PLAIN, "readyz check passed\n")


def test_plugins_are_listed_in_their_order_with_what_is_called_and_what_is_not(extender: Extender) -> None:
    not_run = ["enqueue", "addpod", "removepod", "reserve", "unreserve", "permit", "prebind", "bind", "postbind"]
    every = digest((extender.folder / "every_export.wasm").read_bytes())
    assert extender.admin.get("/api/v1/plugins").json() == [
        {
            "name": "accelerator",
            "profile": "default",
            "digest": digest(guests.example("accelerator").read_bytes()),
            "source": "file://./accelerator.wasm",
            "weight": 1,
            "exports": ["prefilter", "filter"],
            "not_run": [],
        },
        {
            "name": "nodenumber",
            "profile": "default",
            "digest": digest(guests.example("nodenumber").read_bytes()),
            "source": "file://./nodenumber.wasm",
            "weight": 3,
            "exports": ["prescore", "score"],
            "not_run": [],
        },
        {
            "name": "every_export",
            "profile": "everything",
            "digest": every,
            "source": "file://./every_export.wasm",
            "weight": 1,
            "exports": ["prefilter", "filter", "postfilter", "prescore", "score", "normalizescore"],
            "not_run": not_run,
        },
        {
            "name": "every_export",
            "profile": "some",
            "digest": every,
            "source": "file://./every_export.wasm",
            "weight": 1,
            "exports": ["prefilter", "filter"],
            "not_run": not_run,
        },
        {
            "name": "spin",
            "profile": "spin",
            "digest": digest((extender.folder / "spin.wasm").read_bytes()),
            "source": "file://./spin.wasm",
            "weight": 1,
            "exports": ["filter", "score"],
            "not_run": [],
        },
    ]


def test_the_start_warns_of_exports_that_are_not_run(extender: Extender) -> None:
    lines = extender.events("the guest exports what this version does not run")
    not_run = ["enqueue", "addpod", "removepod", "reserve", "unreserve", "permit", "prebind", "bind", "postbind"]
    assert [(line["level"], line["profile"], line["plugin"], line["not_run"]) for line in lines] == [
        ("warning", "everything", "every_export", not_run),
        ("warning", "some", "every_export", not_run),
    ]


def test_the_api_describes_itself(extender: Extender) -> None:
    api = extender.admin.get("/openapi.json").json()
    assert api["info"]["title"] == "kube-wasm-extender"
    assert sorted(api["paths"]) == ["/api/v1/plugins", "/livez", "/readyz"]


@pytest.mark.parametrize(
    ("method", "path", "status"), [("GET", "/nope", 404), ("GET", "/filter", 404), ("POST", "/livez", 405)]
)
def test_what_is_not_there_is_not_found(extender: Extender, method: str, path: str, status: int) -> None:
    assert extender.admin.request(method, path).status_code == status


def test_a_guest_that_spins_stops_neither_health_nor_the_list_of_plugins(extender: Extender) -> None:
    answers: list[object] = []
    asking = threading.Thread(target=lambda: answers.append(extender.post("/profiles/spin/filter", names_args())))
    asking.start()
    started = time.monotonic()
    slowest = 0.0
    polled = 0
    while asking.is_alive():
        before = time.monotonic()
        for path in ("/livez", "/readyz", "/api/v1/plugins"):
            assert extender.admin.get(path).status_code == httpx.codes.OK
        slowest = max(slowest, time.monotonic() - before)
        polled += 1
    asking.join()
    spun = time.monotonic() - started
    assert answers == [
        filter_error(f"plugin spin: filter of node node-0: interrupted at its timeout of {SPINNING_S * 1000:.0f} ms")
    ]
    assert spun >= SPINNING_S
    assert slowest < SPINNING_S / 2
    assert polled > 5


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
            assert report.startswith(f"[-]nodes failed: {problem}")
            assert report.endswith(" s)\nreadyz check failed\n")

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
