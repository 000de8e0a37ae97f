"""nodenumber says the same in every language, on every engine and in upstream's host: by one file of cases."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import pytest

from bench.peers import gopeer
from bench.peers.nodelist import node_list
from bench.plugin.subject import Answer, Subject, SubjectError
from bench.plugin.workload import Cycle
from extender.commands.test import cases
from extender.commands.test.cases import Case, Step
from extender.commands.test.play import PASSES
from tests.extender.commands.command import Command
from tests.sdk_guest.builds import SDK, built_module
from tests.upstream.checkout import CHECKOUT, with_checkout

pytestmark = pytest.mark.timeout(600)  # The first time a program in Go is built.

CASES: Final = SDK / "examples" / "nodenumber" / "cases.yaml"

ALL: Final = cases.read(CASES).cases
CONFIGS: Final = sorted({case.settings.guest_config or "" for case in ALL})

MODULES: Final[Mapping[str, Path]] = {
    "zig": SDK.parent / "extender" / "examples" / "nodenumber.wasm",
    "rust": SDK / "rust" / "modules" / "nodenumber.wasm",
    "typescript": SDK / "assemblyscript" / "modules" / "nodenumber.wasm",
}
"""Those that are committed, by language."""


@pytest.fixture(scope="module", params=[*MODULES, "go"])
def module(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The module in a language."""
    if request.param in MODULES:
        return MODULES[request.param]
    file = tmp_path_factory.mktemp("go") / "nodenumber.wasm"
    file.write_bytes(built_module(SDK / "go" / "examples" / "nodenumber" / "main.go", file.parent))
    return file


def test_it_says_what_its_cases_have(command: Command, module: Path) -> None:
    """On each engine that is there."""
    ended = command("test", "--module", module, CASES)
    assert (ended.status, ended.stdout.splitlines()[:-1]) == (0, [ended.stdout.splitlines()[0]]), ended.stdout


@with_checkout
@pytest.mark.parametrize("config", CONFIGS)
def test_it_says_so_in_upstreams_host(module: Path, config: str, tmp_path: Path) -> None:
    chosen = [case for case in ALL if (case.settings.guest_config or "") == config]
    steps = [(step, names(case, at)) for case in chosen for at, step in enumerate(case.steps)]
    nodes = [*chosen[0].nodes, *(node for step, _ in steps for node in step.put.nodes)]
    file = tmp_path / "nodes.pb"
    file.write_bytes(node_list(node.object for node in nodes))
    program = gopeer.build_upstream_player(CHECKOUT)
    with Subject("upstream", [program, "-nodes", file, "-guest", module, f"-config={config}"]) as subject:
        if "error" in steps[0][0].expected:
            with pytest.raises(SubjectError) as caught:
                subject.ready()
                ask(subject, *steps[0])
            assert steps[0][0].expected["error"] in str(caught.value)
            return
        subject.ready()
        for step, asked in steps:
            assert ask(subject, step, asked) == Answer("", {}, scores(step.expected["expect"]))


def names(case: Case, at: int) -> list[str]:
    """The nodes that a step is about."""
    return [node.name for node in (*case.nodes, *(node for step in case.steps[: at + 1] for node in step.put.nodes))]


def ask(subject: Subject, step: Step, asked: Sequence[str]) -> Answer | None:
    assert step.pod is not None
    return subject.ask(Cycle(step.pod.object, names=asked), answer=True).answer


def scores(expected: Mapping[str, int | str]) -> dict[str, int]:
    """As the player of that host tells them: a plugin that skips the pod has the score 0."""
    return {name: 0 if value == PASSES else int(value) for name, value in expected.items()}
