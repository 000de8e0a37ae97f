"""Every case on every engine, and a case for everything in the ABI."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.conformance.calls import STEPS
from tests.conformance.case import Case, Outcome, run
from tests.conformance.cases import (
    binding_annotations,
    buffers,
    carried,
    cycle,
    endings,
    groups,
    journal,
    limits,
    lists,
    modules,
    names,
    pods,
    residents,
    status,
    surroundings,
    waiting,
)
from tests.conformance.engines import ENGINES
from wasm_runtime import abi
from wasm_runtime.engine import Engine

THEMES = {
    "status": status.CASES,
    "limits": limits.CASES,
    "endings": endings.CASES,
    "buffers": buffers.CASES,
    "names": names.CASES,
    "cycle": cycle.CASES,
    "carried": carried.CASES,
    "journal": journal.CASES,
    "waiting": waiting.CASES,
    "surroundings": surroundings.CASES,
    "modules": modules.CASES,
    "residents": residents.CASES,
    "lists": lists.CASES,
    "pods": pods.CASES,
    "groups": groups.CASES,
    "binding annotations": binding_annotations.CASES,
}


@pytest.fixture(scope="session", params=[make for _, make in ENGINES], ids=[name for name, _ in ENGINES])
def engine(request: pytest.FixtureRequest) -> Engine:
    made: Engine = request.param()
    return made


@pytest.mark.parametrize(
    "case", [pytest.param(case, id=f"{theme}: {case.name}") for theme, cases in THEMES.items() for case in cases]
)
def test_conforms(engine: Engine, case: Case) -> None:
    assert run(engine, case) == Outcome(case.value, list(case.journal), case.dropped)


@pytest.mark.parametrize("theme", THEMES)
def test_each_case_of_a_theme_has_a_name_of_its_own(theme: str) -> None:
    """Two of one name would be one case that is written twice, or a loop that does not vary."""
    counted = Counter(case.name for case in THEMES[theme])
    assert [name for name, count in counted.items() if count > 1] == []


def test_every_export_has_its_cases() -> None:
    """Themes that go over `abi.EXPORTS` have them by themselves."""
    assert STEPS.keys() | {"enqueue"} == abi.EXPORTS.keys()
    assert status.MEANINGS.keys() | status.SILENT.keys() == abi.EXPORTS.keys()
    returning = {name for name, export in abi.EXPORTS.items() if "code" in export.result}
    assert status.MEANINGS.keys() == returning


def test_every_export_of_guests_that_keep_nodes_pods_and_groups_has_its_cases() -> None:
    assert {*residents.FAILING, "nodebuffer", *lists.STEPS, *pods.FAILING, *groups.FAILING} == abi.RESIDENT.keys()
    assert {*lists.STEPS} == {*abi.LISTS.values()}


def test_every_import_has_its_cases() -> None:
    reading = {takes.function for takes in buffers.TAKES}
    assert buffers.GIVES.keys() | reading | buffers.POINTERLESS == set(map(str, abi.IMPORTS))
    assert cycle.DEFAULTS.keys() == buffers.GIVES.keys()


def test_every_code_severity_and_start_has_its_cases() -> None:
    assert set(abi.Code) <= status.CODES.keys()
    assert set(abi.Severity) <= journal.SEVERITIES.keys()
