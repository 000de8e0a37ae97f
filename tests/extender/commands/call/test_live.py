"""`kwx call --live` against `kwx serve`."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.extender import guests
from tests.extender.commands.command import Command
from tests.extender.kwx import Extender, failure, plugin, profile
from tests.extender.objects import NODE_NAMES, node, nodes_args, pod

TRAP = plugin("trap")
LABEL = "kwx.dev/accelerator"
NODES = [node(name, labels={LABEL: "h100"} if int(name[-1]) < 8 else {}) for name in NODE_NAMES]
PROFILES = [
    profile("default", plugin("accelerator"), plugin("score_by_digit", weight=3), plugin("nodenumber")),
    profile("traps", TRAP),
    profile("leaves-out", plugin("trap", name="trapping", failurePolicy="Ignore"), plugin("accelerator", name="other")),
]
WISH = pod("web-5", annotations={LABEL: "h100"})
NO_PART = "kube-scheduler's own filters and scores have no part in this.\n"
REJECTED = f"""\
Nodes  Taken out by  Preemption   Reason
    2  accelerator   cannot help  node has no label {LABEL}=h100
"""


@pytest.fixture(scope="module")
def extender(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Extender]:
    with Extender(tmp_path_factory.mktemp("live"), *PROFILES) as extender:
        extender.post("/filter", nodes_args(NODES))
        yield extender


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("files")
    write(folder / "pod.json", json.dumps({"kind": "Pod", **WISH}))
    write(folder / "pod.yaml", yaml.safe_dump({"kind": "Pod", "metadata": {"name": "new"}, "spec": {"containers": []}}))
    write(folder / "nodes.json", json.dumps({"kind": "List", "items": NODES[:3]}))
    write(folder / "node.json", json.dumps({"kind": "Node", **NODES[4]}))
    write(folder / "fifty.wasm", guests.constant_score(50))
    write(folder / "score_by_digit.wasm", guests.constant_score(50))
    return folder


def write(file: Path, content: str | bytes) -> None:
    file.write_bytes(content.encode() if isinstance(content, str) else content)


class Asking:
    """`kwx call --live` in a folder of files."""

    def __init__(self, command: Command, extender: Extender, folder: Path) -> None:
        self._command = command
        self._extender = extender
        self.folder = folder

    def __call__(self, *arguments: str, **more: Any) -> tuple[int, str, str]:
        """How it ended."""
        files = [str(self.folder / each) if (self.folder / each).exists() else each for each in arguments]
        return self._command("call", *files, "--live", "--server", self._extender.admin_url, **more)

    def table(self, *arguments: str, **more: Any) -> str:
        """What is shown, without the folder."""
        status, stdout, stderr = self(*arguments, **more)
        assert (status, stderr) == (0, ""), (stdout, stderr)
        return stdout.replace(f"{self.folder}/", "")

    def totals(self, *arguments: str) -> dict[str, float]:
        """The totals of the nodes that pass, by the JSON."""
        status, stdout, stderr = self(*arguments, "--output", "json")
        assert (status, stderr) == (0, ""), (stdout, stderr)
        return {each["name"]: each["total"] for each in json.loads(stdout)["nodes"] if not each["rejection"]}


@pytest.fixture
def ask(command: Command, extender: Extender, folder: Path) -> Asking:
    return Asking(command, extender, folder)


def test_filter_shows_what_each_plugin_that_serves_takes_out(ask: Asking) -> None:
    expected = f"filter of pod default/web-5 by profile default: 8 of 10 nodes pass\n{REJECTED}{NO_PART}"
    assert ask.table("filter", "active", "pod.json") == expected
    assert ask.table("filter", "active", "-", stdin=(ask.folder / "pod.json").read_bytes()) == expected


def test_prioritize_shows_the_scores_of_those_that_pass(ask: Asking) -> None:
    shown = ask.table("prioritize", "active", "pod.json")
    assert shown.startswith(
        "prioritize of pod default/web-5 by profile default: 8 of 10 nodes pass\n"
        f"{REJECTED}"
        "Node    Total  Answer  score_by_digit x3  nodenumber x1\n"
        "node-5   62.5       6                 50            100\n"
        "node-7   52.5       5                 70              0\n"
    )
    assert shown.endswith(NO_PART)


def test_a_module_takes_the_place_of_the_plugin_of_its_name_or_of_the_one_that_is_named(ask: Asking) -> None:
    fifties = {name: 37.5 + (25.0 if name == "node-5" else 0) for name in NODE_NAMES[:8]}
    assert ask.totals("prioritize", "score_by_digit.wasm", "pod.json") == fifties
    assert ask.totals("prioritize", "fifty.wasm", "pod.json", "--plugin", "score_by_digit") == fifties
    assert ask.table("filter", "fifty.wasm", "pod.json", "--plugin", "accelerator") == (
        f"filter of pod default/web-5 by profile default with fifty.wasm as accelerator: 10 of 10 nodes pass\n{NO_PART}"
    )


def test_so_do_other_settings_of_what_serves_and_earlier_revisions(ask: Asking, extender: Extender) -> None:
    config = ("--plugin", "nodenumber", "--guest-config", '{"reverse": true}')
    reverse = ask.totals("prioritize", "active", "pod.json", *config)
    assert (reverse["node-5"], reverse["node-7"]) == (37.5, 77.5)
    assert ask.table("filter", "active", "pod.yaml", *config).startswith(
        "filter of pod default/new by profile default with other settings (guestConfig) of nodenumber: 10"
    )
    revision = extender.admin.get("/api/v1/plugins/accelerator").json()["revision"]["id"]
    assert len(ask.totals("filter", revision, "pod.json", "--plugin", "accelerator")) == 8


def test_nodes_may_come_from_a_file(ask: Asking) -> None:
    assert list(ask.totals("filter", "active", "pod.json", "--nodes", "nodes.json")) == ["node-2", "node-1", "node-0"]
    assert ask.totals("filter", "active", "pod.json", "--nodes", "node.json") == {"node-4": 30.0}


def test_of_many_nodes_the_first_are_shown(ask: Asking, tmp_path: Path) -> None:
    nodes = tmp_path / "nodes.json"
    write(nodes, json.dumps({"items": [node(f"new-{at}") for at in range(60)]}))
    module = ("fifty.wasm", "pod.yaml", "--plugin", "accelerator", "--nodes", str(nodes))
    shown = ask.table("prioritize", *module).splitlines()
    assert (len(shown), shown[-2:]) == (54, ["and 10 more; --output json shows them all", NO_PART.strip()])


def test_a_plugin_that_fails_is_the_commands_failure_unless_it_is_ignored(ask: Asking) -> None:
    status, stdout, stderr = ask("filter", "active", "pod.json", "--profile", "traps")
    cause = failure(TRAP, "filter of node node-0: ")
    assert (status, stdout, stderr.startswith(f"kwx: filter: {cause}")) == (1, "", True), stderr
    status, stdout, stderr = ask("filter", "active", "pod.json", "--profile", "leaves-out")
    cause = failure(plugin("trap", name="trapping"), "filter of node node-0: ")
    assert (status, "8 of 10 nodes pass" in stdout, stderr.startswith(f"kwx: left out: {cause}")) == (0, True, True)


def test_a_pod_may_be_named_where_there_is_a_cluster(ask: Asking) -> None:
    problem = "podName: there is no API server to read it from (cluster.mode); give the pod itself"
    assert ask("filter", "active", "default/web-5") == (1, "", f"kwx: {problem}\n")


NO_PLUGIN = "it is not known whose other settings or earlier revision that is; name the plugin by --plugin"
WRONG: dict[str, tuple[list[str], int, str]] = {
    "bind": (["bind", "active", "pod.json"], 1, "--live is for filter and prioritize: bind needs more than a pod"),
    "no pod": (["filter", "active", "nodes.json"], 1, "expected a pod as kubectl prints it, or the NAMESPACE/NAME of"),
    "no file": (["filter", "active", "nothing.json"], 1, "nothing.json cannot be read: No such file or directory"),
    "no nodes": (["filter", "active", "pod.json", "--nodes", "pod.json"], 1, "there is no node in it; expected a list"),
    "whose settings": (["filter", "active", "pod.json", "--guest-config", "x"], 1, NO_PLUGIN),
    "whose revision": (["filter", "sha256:12345678", "pod.json"], 1, NO_PLUGIN),
    "no module": (["filter", "nothing.wasm", "pod.json"], 2, "nothing.wasm cannot be read: No such file or directory"),
    "another plugin": (["filter", "fifty.wasm", "pod.json"], 1, "there is no plugin 'fifty'; there are accelerator,"),
    "pods": (["filter", "active", "pod.json", "--pods", "pods.json"], 2, "is not for --live: the extender knows"),
}


@pytest.mark.parametrize("case", WRONG)
def test_what_cannot_be_asked_is_told(ask: Asking, case: str) -> None:
    arguments, status, message = WRONG[case]
    ended = ask(*arguments)
    told = " ".join(ended[2].replace("│", " ").split())
    assert (ended[0], ended[1], message in told) == (status, "", True), ended


@pytest.mark.parametrize(("option", "value"), [("--plugin", "x"), ("--profile", "x"), ("--signature", "x.sig")])
def test_options_of_live_are_refused_without_it(command: Command, folder: Path, option: str, value: str) -> None:
    ended = command("call", "filter", folder / "fifty.wasm", folder / "pod.json", option, value)
    assert (ended.status, "is for --live" in ended.stderr) == (2, True), ended
