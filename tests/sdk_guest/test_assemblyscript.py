"""The guests in AssemblyScript: what their sources build, and the plugins of the README."""

from __future__ import annotations

import importlib
import json
import re
from pathlib import Path
from types import ModuleType
from typing import Final

import pytest

from extender.commands.build import SDK, BuildError, assemblyscript
from extender.commands.new.project import create
from tests.sdk_guest import builds

FOLDER: Final = SDK / "assemblyscript"
MODULES: Final = FOLDER / "modules"


def has_compiler() -> bool:
    try:
        assemblyscript.check()
    except BuildError:
        return False
    return True


with_compiler = pytest.mark.skipif(
    not has_compiler(), reason="there is no Node.js with npm: https://nodejs.org/en/download"
)


@pytest.fixture
def sources(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """Those of the checkout."""
    monkeypatch.syspath_prepend(SDK)
    return importlib.import_module("builders.assemblyscript")


def test_there_is_a_module_of_each_example(sources: ModuleType) -> None:
    assert set(sources.EXAMPLES) == {path.stem for path in MODULES.glob("*.wasm")}


@with_compiler
def test_the_modules_are_a_fresh_build_to_the_byte(sources: ModuleType, tmp_path: Path) -> None:
    for name, source in sources.EXAMPLES.items():
        builds.require_same(assemblyscript.build(source, tmp_path / name), MODULES / f"{name}.wasm")


@with_compiler
def test_the_tests_of_library_and_examples_pass(sources: ModuleType) -> None:
    assemblyscript.test(sources.TESTS)


def test_the_modules_are_small() -> None:
    assert {path.stem: size for path in MODULES.glob("*.wasm") if (size := path.stat().st_size) > 50_000} == {}


def test_what_is_generated_is_of_the_hosts_table(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(FOLDER)
    generate = importlib.import_module("generate")
    for file, text in generate.files().items():
        assert (assemblyscript.LIBRARY / file).read_text(encoding="utf-8") == text, file


def test_the_lock_file_names_no_registry() -> None:
    lock = json.loads((assemblyscript.LIBRARY / "package-lock.json").read_text(encoding="utf-8"))
    assert [name for name, package in lock["packages"].items() if "resolved" in package] == []


def test_what_to_do_without_a_compiler(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    wanted = "guests in AssemblyScript are built with Node.js 20 or newer and its npm"
    mend = "https://nodejs.org/en/download"
    for programs, found in [
        ({}, "none"),
        ({"node": "v18.20.4", "npm": ""}, "Node.js 18"),
        ({"node": "v20.1.0"}, "no npm"),
    ]:
        for program, version in programs.items():
            (tmp_path / program).write_text(f"#!/bin/sh\necho {version}\n")
            (tmp_path / program).chmod(0o755)
        with pytest.raises(BuildError) as caught:
            assemblyscript.check()
        assert str(caught.value) == f"{wanted}, and PATH has {found}: {mend}"
        for program in programs:
            (tmp_path / program).unlink()


# -- What README.md shows ----------------------------------------------------------------------------


@with_compiler
def test_the_plugin_of_the_readme_is_the_one_that_is_new(tmp_path: Path) -> None:
    shown = re.search(r"```ts\n(.*?)```", (SDK / "README.md").read_text(encoding="utf-8"), re.DOTALL)
    assert shown
    plugin = create("typescript", "tier", tmp_path)
    made = (plugin / "assembly" / "index.ts").read_text(encoding="utf-8")
    assert shown[1].partition("\n")[2] == made.partition("\n")[2]


SPREAD_TEST: Final = """
import assert from "node:assert/strict";
import { test } from "node:test";

import { Guest } from "LIBRARY/testing/index.mjs";

const nodes = ["a", "b", "c"].map((name) => ({ metadata: { name }, status: { allocatable: { "nvidia.com/gpu": 4 } } }));

const pod = (name, job, gpus) => ({
  metadata: { name, namespace: "ns", labels: { "batch.kubernetes.io/job-name": job } },
  spec: { containers: [{ name: "c", resources: { requests: { "nvidia.com/gpu": gpus } } }] },
});

test("pods of a job keep apart", () => {
  const guest = new Guest({ nodes });
  guest.addPod(pod("1", "x", 1), "a");
  guest.addPod(pod("2", "y", 3), "b");
  guest.addPod(pod("3", "y", 2), "c", { isTentative: true });
  const reasons = () => Object.values(guest.cycle(pod("new", "x", 2)).filterNodes()).map(({ reason }) => reason);
  assert.deepEqual(reasons(), ["a pod of the job is there", "too few GPUs are free", ""]);
  guest.addPod(pod("2", "y", 3), "c");
  guest.removePod("ns/1");
  assert.deepEqual(reasons(), ["", "", "too few GPUs are free"]);
  assert.deepEqual(guest.logs, []);
});
"""


@with_compiler
def test_the_plugin_of_the_readme_that_knows_pods(tmp_path: Path) -> None:
    """By the host for unit tests, too."""
    shown = re.findall(r"```ts\n(.*?)```", (SDK / "README.md").read_text(encoding="utf-8"), re.DOTALL)
    source = tmp_path / "spread.ts"
    source.write_text(shown[1], encoding="utf-8")
    tests = SPREAD_TEST.replace("LIBRARY", assemblyscript.LIBRARY.as_uri())
    source.with_suffix(".test.mjs").write_text(tests, encoding="utf-8")
    assemblyscript.test([source])
