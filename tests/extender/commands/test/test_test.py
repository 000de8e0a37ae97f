"""`kwx test`, as users and scripts see it."""

from __future__ import annotations

import re
import stat
import sys
from pathlib import Path
from typing import Final
from xml.etree import ElementTree

import msgspec
import pytest

from tests.extender import guests
from tests.extender.commands.command import Command, Ended

RIGHT: Final = """\
# Two devices a node.
module: guest.wasm
nodes: [node-1]
cases:
- name: Right   # as it is
  pod: a
  expect: {node-1: passes}
"""

WRONG: Final = """\
- name: Wrong
  pod: b
  expect: {node-1: 7}
"""

WASMTIME_ALONE: Final = sys.version_info >= (3, 11)
"""wasmer is there for CPython 3.10 alone."""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory, with a module that puts two pods on a node, and scores 50 for each that is there."""
    guests.build("packs_two", tmp_path).rename(tmp_path / "guest.wasm")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def shown(ended: Ended) -> list[str]:
    """The lines, without the time that it took."""
    assert ended.stderr == ""
    return re.sub(r"in \d+\.\d\d s", "in N s", ended.stdout).splitlines()


def test_cases_that_pass(command: Command, folder: Path) -> None:
    (folder / "cases.yaml").write_text(RIGHT)
    ended = command("test", "--engine", "wasmtime")
    assert (ended.status, shown(ended)) == (0, ["ok    cases.yaml: 1 case", "1 case passed on wasmtime in N s"])


def test_a_case_that_fails_shows_what_differs(command: Command, folder: Path) -> None:
    (folder / "cases.yaml").write_text(RIGHT + WRONG)
    ended = command("test", "--engine", "wasmtime")
    assert (ended.status, shown(ended)) == (
        1,
        [
            "FAIL  cases.yaml:8: Wrong (wasmtime)",
            "What           Expected  Answered",
            "expect node-1  7         0",
            "1 of 2 cases failed on wasmtime in N s",
        ],
    )


def test_all_that_was_answered(command: Command, folder: Path) -> None:
    story = "- name: Story\n  steps: [{pod: x, bind: node-1}, {pod: y, bind: node-1}, {pod: z, expect: {}}]\n"
    (folder / "cases.yaml").write_text(RIGHT + story)
    ended = command("test", "--engine", "wasmtime", "-v", "--case", "Story")
    assert (ended.status, shown(ended)) == (
        1,
        [
            "FAIL  cases.yaml:8: Story (wasmtime)",
            "step 1: pod x",
            "Node    Verdict  Score of 100  Reason",
            "node-1  passes              0",
            "bind: node: node-1",
            "step 2: pod y",
            "Node    Verdict  Score of 100  Reason",
            "node-1  passes             50",
            "bind: node: node-1",
            "step 3: pod z",
            "Node    Verdict   Score of 100  Reason",
            "node-1  rejected                2 pods are there",
            "What                   Expected  Answered",
            "step 3: expect node-1  nothing   2 pods are there",
            "1 of 1 case failed on wasmtime in N s",
        ],
    )


def test_each_engine_that_is_there(command: Command, folder: Path) -> None:
    (folder / "cases.yaml").write_text(RIGHT)
    everywhere, wasmer = shown(command("test"))[-1], command("test", "--engine", "wasmer")
    if WASMTIME_ALONE:
        assert everywhere == "1 case passed on wasmtime in N s"
        assert (wasmer.status, wasmer.stdout) == (1, "")
        assert wasmer.stderr.startswith("kwx: engine wasmer needs CPython 3.10 ")
    else:
        assert everywhere == "2 cases passed on wasmtime and wasmer in N s"
        assert shown(wasmer)[-1] == "1 case passed on wasmer in N s"


def test_json(command: Command, folder: Path) -> None:
    (folder / "cases.yaml").write_text(RIGHT + WRONG)
    ended = command("test", "--engine", "wasmtime", "--output", "json")
    assert (ended.status, ended.stderr) == (1, "")
    right, wrong = msgspec.json.decode(ended.stdout)
    assert right.pop("seconds") > 0 < wrong.pop("seconds")
    answers = [{"expect": {"node-1": 0}, "waited": {}, "events": [], "logs": []}]
    assert right == {
        "file": "cases.yaml",
        "line": 5,
        "case": "Right",
        "engine": "wasmtime",
        "passed": True,
        "differences": [],
        "answers": answers,
    }
    assert wrong == {
        **right,
        "line": 8,
        "case": "Wrong",
        "passed": False,
        "differences": [{"step": 1, "key": "expect", "where": "node-1", "expected": "7", "answered": "0"}],
    }


def test_junit(command: Command, folder: Path) -> None:
    (folder / "cases.yaml").write_text(RIGHT + WRONG)
    assert command("test", "--engine", "wasmtime", "--junit", "out.xml").status == 1
    (suite,) = ElementTree.parse(folder / "out.xml").getroot()
    assert {key: value for key, value in suite.attrib.items() if key != "time"} == {
        "name": "cases.yaml (wasmtime)",
        "tests": "2",
        "failures": "1",
    }
    right, wrong = suite
    assert (right.attrib["name"], wrong.attrib["name"], list(right)) == ("Right", "Wrong", [])
    (failure,) = wrong
    assert failure.attrib["message"] == failure.text == "expect node-1: expected 7, answered 0"
    ended = command("test", "--junit", folder / "lost" / "out.xml")
    assert ended == (1, "", f"kwx: {folder / 'lost' / 'out.xml'} cannot be written: No such file or directory\n")


def test_files_and_folders(command: Command, folder: Path) -> None:
    for name in ("a", "b/c"):
        (folder / name).mkdir(parents=True)
        text = RIGHT.replace("module: ", f"module: {'../' * len(name.split('/'))}")
        (folder / name / "cases.yaml").write_text(text)
    lone = folder / "lone.yaml"
    lone.write_text(RIGHT)
    ended = command("test", "--engine", "wasmtime", ".", lone)
    assert shown(ended) == [
        "ok    a/cases.yaml: 1 case",
        "ok    b/c/cases.yaml: 1 case",
        f"ok    {lone}: 1 case",
        "3 cases passed on wasmtime in N s",
    ]


@pytest.mark.parametrize(
    ("text", "options", "problem"),
    [
        (None, (), "there is no cases.yaml in ."),
        (None, ("lost.yaml",), "lost.yaml: cannot be read: No such file or directory"),
        ("cases: []", (), "there are no cases"),
        (RIGHT, ("--case", "lost"), "no case has 'lost' in its name"),
        (RIGHT.replace("module: guest.wasm", ""), (),
         "cases.yaml: which module? Name it by the key module, or by --module"),
        (RIGHT, ("--module", "lost.wasm"),
         "lost.wasm cannot be read: No such file or directory; build it or mend the path"),
    ],
)  # fmt: skip
def test_what_cannot_be_run(
    command: Command, folder: Path, text: str | None, options: tuple[str, ...], problem: str
) -> None:
    if text is not None:
        (folder / "cases.yaml").write_text(text)
    assert command("test", *options) == (1, "", f"kwx: {problem}\n")


def test_a_module_that_is_no_guest(command: Command, folder: Path) -> None:
    (folder / "guest.wasm").write_bytes(b"no wasm")
    (folder / "cases.yaml").write_text(RIGHT)
    problem = r"guest.wasm is no valid WebAssembly module: begins with b'no w', not with b'\x00asm'"
    assert command("test", "--engine", "wasmtime") == (1, "", f"kwx: {problem}\n")


def test_a_module_that_does_not_start_fails_its_cases(command: Command, folder: Path) -> None:
    guests.build("trap_at_start", folder).replace("guest.wasm")
    (folder / "cases.yaml").write_text(RIGHT)
    ended = command("test", "--engine", "wasmtime")
    assert ended.status == 1
    assert shown(ended)[2].startswith("error  nothing   guest.wasm does not start: ")


# -- update ----------------------------------------------------------------------------------------


UPDATES: Final = {
    "a value in a line": ("  expect: {node-1: 7}   # why\n", "  expect: {node-1: 0}   # why\n"),
    "a value in a block": (
        "  expect:\n    # why\n    node-1: 7 # so\n",
        "  expect:\n    # why\n    node-1: 0 # so\n",
    ),
    "other keys in a line": ("  expect: {lost: 7}\n", "  expect: {node-1: 0}\n"),
    "other keys in a block": (
        "  expect:\n    lost: 7\n    gone: 8\n# after\n",
        "  expect:\n    node-1: 0\n# after\n",
    ),
    "no expectation": ("", "  expect: {node-1: 0}\n"),
    "a bind": ("  bind: {node: node-1, waits: true}\n", "  bind: node-1\n"),
    "an error that is none": ("  expect: {node-1: 1}\n  logs: [a, b]\n", "  expect: {node-1: 0}\n  logs: []\n"),
}


@pytest.mark.parametrize("change", UPDATES)
def test_an_update_changes_nothing_else(command: Command, folder: Path, change: str) -> None:
    before, after = UPDATES[change]
    file = folder / "cases.yaml"
    end = "\n- name: Other\n  pod: {name: c}\n  # as it is\n  expect:   {node-1:   passes}\n"
    file.write_text(f"{RIGHT}\n- name: Changed\n  pod: b\n{before}{end}")
    file.chmod(0o640)
    ended = command("test", "--update", "--engine", "wasmtime")
    assert (ended.status, shown(ended)[-1]) == (0, "3 cases passed on wasmtime in N s")
    assert file.read_text() == f"{RIGHT}\n- name: Changed\n  pod: b\n{after}{end}"
    assert stat.S_IMODE(file.stat().st_mode) == 0o640
    assert sorted(each.name for each in folder.iterdir()) == ["cases.yaml", "guest.wasm"]
    changed = file.stat().st_mtime_ns
    assert command("test", "--update", "--engine", "wasmtime").status == 0
    assert file.stat().st_mtime_ns == changed


def test_steps_in_a_line_and_line_ends_of_windows_are_updated(command: Command, folder: Path) -> None:
    story = "- name: Story\n  steps: [{pod: x, bind: node-1}, {pod: y}]\n"
    (folder / "cases.yaml").write_bytes((RIGHT + story).replace("\n", "\r\n").encode())
    assert command("test", "--update").status == 0
    after = story.replace("{pod: y}", "{pod: y, expect: {node-1: 50}}")
    assert (folder / "cases.yaml").read_bytes() == (RIGHT + after).replace("\n", "\r\n").encode()


def test_what_is_an_alias_is_not_updated(command: Command, folder: Path) -> None:
    text = RIGHT.replace("expect: {", "expect: &all {") + "- {name: Full, pod: b, expect: *all, pods: [a-1, a-2]}\n"
    text = text.replace("pods: [a-1, a-2]", "pods: [{name: a-1, node: node-1}, {name: a-2, node: node-1}]")
    (folder / "cases.yaml").write_text(text)
    problem = "expect is an alias of what others use, too; write it out"
    assert command("test", "--update") == (1, "", f"kwx: cases.yaml:8: {problem}\n")
    assert (folder / "cases.yaml").read_text() == text


def test_an_update_that_makes_another_case_wrong_says_so(command: Command, folder: Path) -> None:
    text = RIGHT.replace("expect: {node-1: passes", "expect: &all {node-1: 1")
    text += "- {name: Full, pod: b, expect: *all, pods: [{name: x, node: node-1}, {name: y, node: node-1}]}\n"
    (folder / "cases.yaml").write_text(text.replace("node-1: 1", "node-1: 2 pods are there"))
    ended = command("test", "--update", "--engine", "wasmtime")
    assert (ended.status, shown(ended)[0]) == (1, "FAIL  cases.yaml:8: Full (wasmtime)")
