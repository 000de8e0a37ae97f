"""`kwx explain` against `kwx serve`."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator

import pytest
import yaml

from tests.extender.commands.command import Command
from tests.extender.kwx import Extender, failure, plugin, profile
from tests.extender.objects import NODE_NAMES, binding_args, meta_victims, names_args, pod, preemption_args
from tests.patience import Beside

DIGIT = plugin("score_by_digit", weight=3)
TRAP = plugin("trap")
EVEN = json.dumps(dict.fromkeys(NODE_NAMES, 10) | {"node-3": 100})
PROFILES = [
    profile(
        "default",
        plugin("filter_by_digit", "72no sevens", name="sevens"),
        plugin("filter_by_digit", "23", name="twos"),
        plugin("normalize_from_config", EVEN, name="relative"),
        DIGIT,
    ),
    profile("none", plugin("filter_by_digit", "*2full", name="all")),
    profile("traps", TRAP),
    profile("top", plugin("filter_by_digit", "92no nines", name="nines"), DIGIT, topNodes=2),
    profile("one", DIGIT, topNodes=1),
    profile("unscored", plugin("trap", extensionPoints=["score"])),
    profile("scored", DIGIT),
    profile("waits", DIGIT, plugin("binding_from_config", "aaaeaaa30000", name="patient"), topNodes=2),
    profile("refuses", DIGIT, plugin("binding_from_config", "aaa2aaa", name="strict"), topNodes=2),
    profile("plain", plugin("filter_by_digit", "72no sevens", name="sevens")),
]
HOSTILE = "x\x1b[2J\u202e<script>"
SIGHT = "kube-scheduler's own filters had taken {} out, or it had found enough nodes before"
TAKEN_OUT = """\
Nodes  Taken out by  Preemption   Reason
    1  sevens        may help     no sevens
    1  twos          cannot help  node(s) rejected by plugin twos without a reason
"""
SCORES = """\
Node    Total  Answer   relative x1  score_by_digit x3
node-9   70.0       7   10 of raw 7                 90{nine}
node-8   62.5       6   10 of raw 7                 80
node-3   47.5       5  100 of raw 7                 30{three}
node-6   47.5       5   10 of raw 7                 60
node-5   40.0       4   10 of raw 7                 50
"""
CALLS = "sevens filter # ms, twos filter # ms, relative score # ms, score_by_digit score # ms"


@pytest.fixture(scope="module")
def extender(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Extender]:
    with Extender(tmp_path_factory.mktemp("explain"), *PROFILES, cluster={"mode": "dry-run"}) as extender:
        kept = [name for name in NODE_NAMES if name not in {"node-2", "node-7"}]
        for name, node in (("web", "node-9"), ("other", "node-3")):
            extender.post("/filter", names_args(NODE_NAMES, pod(name)))
            extender.post("/prioritize", names_args(kept, pod(name)))
            extender.post("/bind", binding_args(node, name))
        for name in ("pending", HOSTILE):
            extender.post("/profiles/none/filter", names_args(NODE_NAMES, pod(name)))
        candidates = {"node-1": meta_victims("uid-of-a")}
        for name in ("pending", "preemptor"):
            extender.post("/profiles/none/preempt", preemption_args(candidates, pod(name)))
        for name in ("unscored", "scored"):
            extender.post(f"/profiles/{name}/prioritize", names_args(NODE_NAMES, pod(name)))
        for name in ("refuses", "waits"):
            extender.post(f"/profiles/{name}/filter", names_args(NODE_NAMES, pod(name)))
        extender.post("/profiles/refuses/bind", binding_args("node-8", "refuses"))
        extender.post("/bind", binding_args("node-8", "stranger"))
        for name in ("traps", "top", "one", "plain"):
            extender.post(f"/profiles/{name}/filter", names_args(NODE_NAMES, pod(name)))
        yield extender


def explained(command: Command, extender: Extender, *arguments: str) -> str:
    """What is said, without times, and how it ended if not well."""
    status, stdout, stderr = command("explain", *arguments, "--server", extender.admin_url)
    told = re.sub(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC", "TIME", stdout)
    told = re.sub(r"[\d.]+ ms", "# ms", told)
    return told if (status, stderr) == (0, "") else f"{status}: {stderr}"


def test_a_bound_pod_has_its_node_the_next_ones_and_what_would_have_to_differ(
    command: Command, extender: Extender
) -> None:
    scores = SCORES.format(nine="  bound", three="")
    assert explained(command, extender, "pod", "default/web") == (
        "Pod default/web of profile default: bound to node-9\n"
        "Tried     TIME\n"
        "Nodes     10 asked about, 8 answered\n"
        f"Plugins   {CALLS}\n"
        f"\n{TAKEN_OUT}\n{scores}\n"
        "node-9 has the best total; node-8 comes next, 7.5 behind.\n"
        "node-8 would win if relative gave node-8 41 in place of 10 or score_by_digit gave node-9 79 in place of 90,"
        " with all other scores as they are.\n"
    )


def test_where_kube_scheduler_preferred_another_node_that_is_said(command: Command, extender: Extender) -> None:
    scores = SCORES.format(nine="", three="  bound")
    assert explained(command, extender, "pod", "default/other").endswith(
        f"\n{scores}\n"
        "node-9 has a better total than node-3, by 22.5.\n"
        "kube-scheduler's own scores, which the extender does not see, outweigh that.\n"
    )


def test_a_pending_pod_has_the_nodes_that_each_plugin_took_out_by_reason(command: Command, extender: Extender) -> None:
    assert explained(command, extender, "pod", "default/pending") == (
        "Pod default/pending of profile none: no node passed\n"
        "Tried     TIME\n"
        "Nodes     10 asked about, 0 answered\n"
        "Plugins   all filter # ms\n"
        "Preempt   1 candidates; without the victims pass: none\n"
        "\n"
        "Nodes  Taken out by  Preemption  Reason\n"
        "   10  all           may help    full\n"
        "\n"
        "The plugins took out all 10 nodes that they were asked about.\n"
    )


def test_a_pod_that_was_not_judged_says_why(command: Command, extender: Extender) -> None:
    error = f"filter: {failure(TRAP, 'filter of node node-0: trap: unreachable in func[0]')}"
    assert explained(command, extender, "pod", "default/traps") == (
        "Pod default/traps of profile traps: not judged\n"
        "Tried     TIME\n"
        f"Error     {error}\n"
        "\n"
        "kube-scheduler tries the pod again.\n"
    )


def test_a_pod_without_scores_is_said_to_go_on(command: Command, extender: Extender) -> None:
    told = explained(command, extender, "pod", "default/unscored")
    assert told.startswith("Pod default/unscored of profile unscored: not judged\n")
    assert told.endswith("\n\nkube-scheduler goes on without these scores.\n")


def test_where_filter_is_not_asked_the_nodes_were_scored(command: Command, extender: Extender) -> None:
    assert explained(command, extender, "pod", "default/scored") == (
        "Pod default/scored of profile scored: nodes were scored\n"
        "Tried     TIME\n"
        "Nodes     10 scored; filter was not asked\n"
        "Plugins   score_by_digit score # ms\n"
        "\n"
        "Node    Total  Answer  score_by_digit x3\n"
        "node-9   90.0       9                 90\n"
        "node-8   80.0       8                 80\n"
        "node-7   70.0       7                 70\n"
        "node-6   60.0       6                 60\n"
        "node-5   50.0       5                 50\n"
        "\n"
        "kube-scheduler chooses one of the nodes that were scored, by its own scores and these."
        " It has not asked the extender to bind the pod.\n"
    )


def test_of_a_pod_that_preempt_alone_was_asked_about_that_is_said(command: Command, extender: Extender) -> None:
    assert explained(command, extender, "pod", "default/preemptor") == (
        "Pod default/preemptor of profile none: asked about preemption alone\n"
        "Tried     TIME\n"
        "Preempt   1 candidates; without the victims pass: none\n"
        "\n"
        "Neither filter nor prioritize was asked in this attempt.\n"
    )


BEST = (
    "Node    Total  Answer  score_by_digit x3\n"
    "node-9   90.0       9                 90\n"
    "node-8   80.0       8                 80  {}\n"
    "node-7   70.0       7                 70  not answered\n"
    "node-6   60.0       6                 60  not answered\n"
    "node-5   50.0       5                 50  not answered\n"
    "\n"
    "node-9 has a better total than node-8, by 10.0.\n"
    "kube-scheduler's own scores, which the extender does not see, outweigh that.\n"
)


def test_a_pod_whose_bind_failed_has_its_node_and_is_tried_again(command: Command, extender: Extender) -> None:
    assert explained(command, extender, "pod", "default/refuses") == (
        "Pod default/refuses of profile refuses: the bind to node-8 failed\n"
        "Tried     TIME\n"
        "Nodes     10 asked about, 2 answered\n"
        "Plugins   strict filter # ms, score_by_digit score # ms\n"
        "Error     plugin strict: permit: Unschedulable: not today\n"
        f"\n{BEST.format('bind failed')}"
        "kube-scheduler tries the pod again.\n"
    )


def test_of_a_pod_that_filter_was_not_asked_about_the_bind_alone_is_told(command: Command, extender: Extender) -> None:
    reason = "bind refused: no filter of pod default/stranger was answered here in the last 30 minutes"
    mend = "kube-scheduler tries the pod again, and filters first if its extender has filterVerb beside bindVerb"
    assert explained(command, extender, "pod", "default/stranger") == (
        "Pod default/stranger: the bind to node-8 failed\n"
        f"Tried     TIME\nError     {reason}; {mend}\n\nkube-scheduler tries the pod again.\n"
    )


def test_a_pod_that_waits_on_permit_is_not_called_bound(command: Command, extender: Extender) -> None:
    bind = Beside(lambda: extender.post("/profiles/waits/bind", binding_args("node-8", "waits")))
    extender.wait_until(lambda: extender.admin.get("/api/v1/waits").json())
    told = explained(command, extender, "pod", "default/waits")
    extender.admin.post("/api/v1/waits/uid-of-waits/allow").raise_for_status()
    assert told == (
        "Pod default/waits of profile waits: waits on Permit for node-8\n"
        "Tried     TIME\n"
        "Nodes     10 asked about, 2 answered\n"
        "Plugins   patient filter # ms, score_by_digit score # ms\n"
        "Permit    had to wait for patient (at most 30 s), from TIME\n"
        f"\n{BEST.format('waits on Permit')}"
    )
    assert bind.end() == {"Error": ""}


ASKED_NO_MORE = (
    "kube-scheduler chooses one of the {} nodes that were answered by its own scores and these."
    " It has not asked the extender to bind the pod.\n"
)


@pytest.mark.parametrize(
    ("name", "ends"),
    [
        (
            "top",
            "node-7   70.0       7                 70\n"
            "node-6   60.0       6                 60  not answered\n"
            "node-5   50.0       5                 50  not answered\n"
            "node-4   40.0       4                 40  not answered\n"
            f"\n{ASKED_NO_MORE.format(2)}",
        ),
        (
            "one",
            "\nnode-9 has the best total; node-8 comes next, 10.0 behind.\n"
            "node-8 would win if score_by_digit gave node-9 79 in place of 90, with all other scores as they are.\n",
        ),
        ("plain", f"    1  sevens        may help    no sevens\n\n{ASKED_NO_MORE.format(9)}"),
    ],
)
def test_with_top_nodes_and_without_scores(command: Command, extender: Extender, name: str, ends: str) -> None:
    told = explained(command, extender, "pod", f"default/{name}")
    assert told.endswith(ends), told


def test_a_node_can_be_asked_about(command: Command, extender: Extender) -> None:
    reason = "taken out by twos: node(s) rejected by plugin twos without a reason"
    told = explained(command, extender, "pod", "default/web", "--node", "node-2").splitlines()
    assert told[0] == "Pod default/web on node node-2; bound to node-9"
    assert cells(told[1:]) == [["Tried", "Pod", "Node"], ["TIME", "bound", reason]]
    ghost = explained(command, extender, "pod", "default/web", "--node", "ghost")
    assert ghost.endswith(f"  not asked about: {SIGHT.format('it')}\n")
    rows = cells(explained(command, extender, "node", "node-3").splitlines())
    passed = "passed, total 47.5 (relative 100 x1, score_by_digit 30 x3)"
    assert [rows[0], *rows[-3:]] == [
        ["Tried", "Pod", "Became", "Node node-3"],
        ["TIME", "default/other", "bound here", passed],
        ["TIME", "default/web", "bound to node-9", passed],
        ["Where kube-scheduler binds a pod by itself, kwx explain pod says on which node it is."],
    ]
    nothing = f"Of the pods that are remembered, none was asked about for node ghost: {SIGHT.format('it')}\n"
    assert explained(command, extender, "node", "ghost") == nothing


def cells(lines: Iterable[str]) -> list[list[str]]:
    return [re.split(" {2,}", line) for line in lines]


def test_wide_shows_all_nodes(command: Command, extender: Extender) -> None:
    told = explained(command, extender, "pod", "default/web", "-o", "wide").splitlines()
    nodes = [
        line.split()[0] for line in told if line.startswith("node-") and " has " not in line and "would" not in line
    ]
    assert nodes == [f"node-{at}" for at in (9, 8, 3, 6, 5, 4, 1, 0)]


def test_as_json_it_is_what_the_api_answers(command: Command, extender: Extender) -> None:
    pod = command("explain", "pod", "default/web", "--output", "json", "--server", extender.admin_url)
    assert json.loads(pod.stdout) == extender.admin.get("/api/v1/decisions/default/web").json()
    as_yaml = command("explain", "pod", "default/web", "--output", "yaml", "--server", extender.admin_url)
    assert yaml.safe_load(as_yaml.stdout) == json.loads(pod.stdout)
    node = command("explain", "node", "node-3", "--output", "json", "--server", extender.admin_url)
    assert json.loads(node.stdout) == extender.admin.get("/api/v1/decisions", params={"node": "node-3"}).json()


@pytest.mark.parametrize("output", ["table", "wide", "json", "yaml"])
def test_hostile_names_do_not_move_the_cursor(command: Command, extender: Extender, output: str) -> None:
    answer = command("explain", "pod", f"default/{HOSTILE}", "--output", output, "--server", extender.admin_url)
    assert (answer.status, answer.stderr) == (0, "")
    assert not {character for character in answer.stdout if not character.isprintable()} - {"\n"}


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (
            ["pod", "default/nobody"],
            "1: kwx: nothing is known of pod default/nobody: it was not asked about here: kube-scheduler's own filters"
            " may have left no node for it, which kubectl describe pod tells; the last 1000 pods since the extender has"
            " started are remembered\n",
        ),
        (["pod", "nobody"], "2: Usage: kwx explain pod [OPTIONS] {NAMESPACE/NAME}"),
    ],
)
def test_what_cannot_be_explained_is_said(
    command: Command, extender: Extender, arguments: list[str], problem: str
) -> None:
    told = explained(command, extender, *arguments)
    assert problem in told
