"""What the author of a plugin is told when it fails: the file and the line."""

from __future__ import annotations

from pathlib import Path
from typing import Final, NamedTuple

import pytest
import yaml

from extender.commands.build import LANGUAGES, BuildError
from tests.extender import objects
from tests.extender.commands.command import Command, command

__all__ = ["command"]


class Fault(NamedTuple):
    """A plugin that fails."""

    language: str
    source: str
    before: str
    """A line of it."""
    fails: str
    """One in its place that fails."""
    told: str
    """What is told, but for the column."""
    trap: str
    """What a module tells without that."""


FAULTS: Final = {
    "rust": Fault(
        language="rust",
        source="src/lib.rs",
        before="        if node.is_retired {\n",
        fails='        if node.is_retired && ["worn", "out"][self.tier.len()].is_empty() {\n',
        told="panicked at 'index out of bounds: the len is 2 but the index is 4', src/lib.rs:{line}:",
        trap="trap: unreachable in func[",
    ),
    "typescript": Fault(
        language="typescript",
        source="assembly/index.ts",
        before="    const labels = node(name).metadata.labels;\n",
        fails='    const labels = node(name).metadata.labels; assert(!labels.has("example.com/retired"), "worn");\n',
        told="worn, assembly/index.ts:{line}:",
        trap="trap: unreachable in func[",
    ),
    "typescript, in its library": Fault(
        language="typescript",
        source="assembly/index.ts",
        before='    return node.isRetired ? Status.unresolvable("node is retired") : Status.SUCCESS;\n',
        fails='    return Status.unresolvable(["worn", "out"][this.tier.length]);\n',
        told="Index out of range, ~lib/array.ts:114:42, after assembly/index.ts:{line}",
        trap="trap: unreachable in func[",
    ),
}
"""By what fails, of the languages that have `--small`."""

GO: Final = Fault(
    language="go",
    source="main.go",
    before="\tif node.isRetired {\n",
    fails='\tif node.isRetired && []string{"worn", "out"}[len(config.Tier)] == "" {\n',
    told="panic: runtime error: index out of range [4] with length 2",
    trap="",
)


ZIG: Final = """
const guest = @import("guest");

pub const panic = guest.panic;

const Config = struct { tier: []const u8 = "spot" };

const Tier = struct {
    pub fn filter() !guest.Status {
        const config = try guest.config(Config);
        const words = [_]u8{ 0, 1 };
        return if (words[config.tier.len] == 0) .success else .skip;
    }
};

comptime {
    guest.exportPlugin(Tier);
}
"""
"""A plugin that panics."""


def built(command: Command, folder: Path, fault: Fault, *options: str) -> tuple[Path, int]:
    """The module of a plugin that fails, and at which line."""
    try:
        LANGUAGES[fault.language].builder.check()
    except BuildError as error:
        pytest.skip(str(error))
    assert command("new", fault.language, "tier").status == 0
    source = folder / "tier" / fault.source
    text = source.read_text()
    source.write_text(text.replace(fault.before, fault.fails))
    assert command("build", "tier", *options).status == 0
    return folder / "tier" / "tier.wasm", text[: text.index(fault.before)].count("\n") + 1


def failure(command: Command, module: Path, folder: Path) -> str:
    """What filter of a retired node says."""
    nodes = {"kind": "List", "items": [objects.node("old", labels={"example.com/retired": ""})]}
    pod = {"kind": "Pod", **objects.pod("web")}
    for name, content in {"pod": pod, "nodes": nodes}.items():
        (folder / f"{name}.yaml").write_text(yaml.safe_dump(content))
    ended = command("call", "filter", module, folder / "pod.yaml", "--nodes", folder / "nodes.yaml")
    assert (ended.status, ended.stdout) == (1, "")
    return ended.stderr


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


faults = pytest.mark.parametrize("fault", FAULTS.values(), ids=FAULTS)


@faults
@pytest.mark.timeout(600)  # The compiler's.
def test_a_fault_tells_its_file_and_line(command: Command, folder: Path, fault: Fault) -> None:
    module, line = built(command, folder, fault)
    assert f"the guest printed: {fault.told.format(line=line)}" in failure(command, module, folder)


@pytest.mark.timeout(600)
def test_a_panic_in_go_tells_its_file_and_line(command: Command, folder: Path) -> None:
    module, line = built(command, folder, GO)
    said = failure(command, module, folder)
    assert f"the guest printed: {GO.told}" in said
    assert f"tier/main.go:{line} " in said


@pytest.mark.timeout(600)
def test_a_panic_in_zig_tells_what_was_wrong(command: Command, folder: Path) -> None:
    try:
        LANGUAGES["zig"].builder.check()
    except BuildError as error:
        pytest.skip(str(error))
    (folder / "tier.zig").write_text(ZIG)
    ended = command("build", "tier.zig")
    assert (ended.status, ended.stderr) == (0, "")
    assert "the guest printed: index out of bounds: index 4, len 2" in failure(command, folder / "tier.wasm", folder)


@faults
@pytest.mark.timeout(600)
def test_a_small_module_has_no_names_and_tells_nothing_of_a_fault(command: Command, folder: Path, fault: Fault) -> None:
    module, _ = built(command, folder, fault, "--small")
    said = failure(command, module, folder)
    assert fault.trap in said
    assert Path(fault.source).suffix not in said
