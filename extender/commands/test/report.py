"""The results of cases: for people, for programs, and for the test reports of CI systems."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any, Final
from xml.etree import ElementTree

from rich.text import Text

from extender.commands.terminal import Part, Table
from extender.commands.test.compare import Difference, words
from extender.commands.test.play import PASSES, Answer
from extender.commands.test.run import Result
from extender.telemetry.printable import printable

MAX_SCORE: Final = 100
"""The largest score of a plugin."""

_STYLES: Final = {"passes": "green", "rejected": "red", "unresolvable": "red", "FAIL": "red"}


def parts(results: Sequence[Result], *, is_verbose: bool) -> Iterator[Part]:
    """The differences, or with `is_verbose` all answers, and how many cases succeeded."""
    for file, of_file in groupby(results, key=lambda each: each.file):
        ran = list(of_file)
        for each in ran:
            if is_verbose or each.differences:
                yield from _case(each, is_verbose=is_verbose)
        if not is_verbose and not any(each.differences for each in ran):
            yield Text(f"ok    {printable(str(file))}: {_count(len(ran), 'case')}", "green")
    failed = sum(bool(each.differences) for each in results)
    engines = " and ".join(dict.fromkeys(each.engine for each in results))
    seconds = sum(each.seconds for each in results)
    went = f"{failed} of {_count(len(results), 'case')} failed" if failed else f"{_count(len(results), 'case')} passed"
    yield Text(f"{went} on {engines} in {seconds:.2f} s")


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def _case(result: Result, *, is_verbose: bool) -> Iterator[Part]:
    where = printable(f"{result.file}:{result.case.line}: {result.case.name} ({result.engine})")
    yield Text.assemble(("FAIL  ", "red") if result.differences else ("ok    ", "green"), where)
    for at, answer in enumerate(result.answers, 1):
        if is_verbose:
            yield from _answer(at, answer, is_only=len(result.answers) == 1, result=result)
        elif answer.get("logs") and any(each.step == at for each in result.differences):
            yield from (Text(f"guest {printable(line)}") for line in answer["logs"])
    if result.differences:
        rows = [
            (_what(each, result), printable(each.expected), printable(each.answered)) for each in result.differences
        ]
        yield Table(("What", "Expected", "Answered"), rows)


def _what(difference: Difference, result: Result) -> str:
    step = f"step {difference.step}: " if len(result.case.steps) > 1 else ""
    return printable(f"{step}{difference.key} {difference.where}".strip())


def _answer(at: int, answer: Answer, *, is_only: bool, result: Result) -> Iterator[Part]:
    """All that was answered in a step."""
    pod = result.case.steps[at - 1].pod
    if not is_only:
        yield Text(f"step {at}{f': pod {printable(pod.name)}' if pod else ''}")
    if "expect" in answer:
        rows = [(name, *_verdict(found)) for name, found in answer["expect"].items()]
        yield Table(("Node", "Verdict", f"Score of {MAX_SCORE}", "Reason"), rows, {f"Score of {MAX_SCORE}"}, _STYLES)
    for key in ("preempt", "bind", "waited", "error"):
        if answer.get(key):
            yield Text(f"{key}: {printable(words(answer[key]))}")
    yield from (Text(f"Event: {printable(words(each))}") for each in answer.get("events", ()))
    yield from (Text(f"guest {printable(line)}") for line in answer.get("logs", ()))


def _verdict(found: Any) -> tuple[str, str, str]:
    """Verdict, score and reason."""
    if isinstance(found, dict):
        return "unresolvable", "", found["unresolvable"]
    if isinstance(found, int) or found == PASSES:
        return "passes", "" if found == PASSES else str(found), ""
    return "rejected", "", found


def as_json(results: Sequence[Result]) -> list[dict[str, Any]]:
    """The results as JSON output has them, one for each case and engine."""
    return [
        {
            "file": str(each.file),
            "line": each.case.line,
            "case": each.case.name,
            "engine": each.engine,
            "passed": not each.differences,
            "seconds": round(each.seconds, 6),
            "differences": [difference._asdict() for difference in each.differences],
            "answers": each.answers,
        }
        for each in results
    ]


def write_junit(file: Path, results: Sequence[Result]) -> None:
    """Writes the results as JUnit's XML, which GitLab, Jenkins and others read. Raises OSError."""
    root = ElementTree.Element("testsuites")
    for (path, engine), ran in groupby(results, key=lambda each: (each.file, each.engine)):
        cases = list(ran)
        suite = ElementTree.SubElement(
            root,
            "testsuite",
            name=f"{path} ({engine})",
            tests=str(len(cases)),
            failures=str(sum(bool(each.differences) for each in cases)),
            time=f"{sum(each.seconds for each in cases):.6f}",
        )
        for each in cases:
            _add_junit(suite, each)
    ElementTree.indent(root)
    ElementTree.ElementTree(root).write(file, encoding="utf-8", xml_declaration=True)


def _add_junit(suite: ElementTree.Element, result: Result) -> None:
    case = ElementTree.SubElement(
        suite,
        "testcase",
        classname=f"{result.file} ({result.engine})",
        name=printable(result.case.name),
        file=str(result.file),
        line=str(result.case.line),
        time=f"{result.seconds:.6f}",
    )
    if result.differences:
        lines = [
            f"{_what(each, result)}: expected {each.expected}, answered {each.answered}" for each in result.differences
        ]
        failure = ElementTree.SubElement(case, "failure", message=printable(lines[0]))
        failure.text = "\n".join(map(printable, lines))
