"""`kwx new` and `kwx build`, as a plugin's author uses them."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Final

import pytest

from extender.commands.build import SDK, BuildError, rust
from extender.commands.build.languages import LANGUAGES
from tests.extender.commands.command import Command

FILES: Final = {
    ".github/workflows/plugin.yaml",
    ".gitignore",
    "README.md",
    "cases.yaml",
    "config.schema.json",
    "extender.yaml",
}
OWN: Final = {
    "go": {"go.mod", "go.sum", "main.go", "main_test.go"},
    "rust": {"Cargo.toml", "src/lib.rs"},
    "typescript": {"assembly/index.ts", "package.json", "tests/plugin.test.mjs", "tsconfig.json"},
}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("language", OWN)
def test_a_new_plugin_has_all_that_it_takes(command: Command, folder: Path, language: str) -> None:
    ended = command("new", language, "tier")
    said = "tier is there. Go on with `kwx build tier`, and `kwx test tier`; its README.md has more.\n"
    assert ended == (0, said, "")
    files = {str(file.relative_to(folder / "tier")) for file in (folder / "tier").rglob("*") if file.is_file()}
    assert {file for file in files if not file.startswith("guest/")} == FILES | OWN[language]
    assert all("PLUGIN_NAME" not in (folder / "tier" / file).read_text() for file in files)
    assert "module: tier.wasm" in (folder / "tier" / "cases.yaml").read_text()


def test_the_library_is_in_the_plugin(command: Command, folder: Path) -> None:
    for language in OWN:
        assert command("new", language, language).status == 0
    assert (folder / "rust/guest/src/lib.rs").read_bytes() == (SDK / "rust/src/lib.rs").read_bytes()
    assert (folder / "go/guest/status.go").read_bytes() == (SDK / "go/status.go").read_bytes()
    assert (folder / "typescript/guest/index.ts").read_bytes() == (SDK / "assemblyscript/guest/index.ts").read_bytes()
    assert (folder / "go/go.mod").read_text().splitlines()[0] == "module go"
    assert (folder / "go/go.mod").read_text().endswith("replace kwx.dev/guest => ./guest\n")


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("Tier", "'Tier' is no name for a plugin: expected up to 63 of a-z, 0-9 and -, a letter first"),
        ("../tier", "'../tier' is no name for a plugin: expected up to 63 of a-z, 0-9 and -, a letter first"),
        ("guest", "'guest' is the name of the library: choose another one"),
        ("there", "there is there already: remove it, or choose another name"),
    ],
)
def test_names_that_cannot_be(command: Command, folder: Path, name: str, problem: str) -> None:
    (folder / "there").mkdir()
    assert command("new", "rust", name) == (1, "", f"kwx: {problem}\n")
    assert [each.name for each in folder.iterdir()] == ["there"]


def test_languages_that_are_not_offered(command: Command, folder: Path) -> None:
    ended = command("new", "zig", "tier")
    assert (ended.status, ended.stdout, list(folder.iterdir())) == (2, "", [])


def has_rust() -> bool:
    try:
        rust.check()
    except BuildError:
        return False
    return True


@pytest.mark.skipif(
    not has_rust(), reason="there is no rustc with the target: apt-get install rustc libstd-rust-dev-wasm32"
)
@pytest.mark.timeout(600)
def test_a_new_plugin_is_built_and_tested_and_everywhere_the_same(command: Command, folder: Path) -> None:
    """In Rust, which is quick to build. The tutorial's test has the others."""
    assert command("new", "rust", "tier").status == 0
    ended = command("build", "tier")
    assert (ended.status, ended.stderr) == (0, "")
    assert ended.stdout.startswith("tier/tier.wasm ")
    tested = command("test", "tier")
    assert (tested.status, tested.stderr) == (0, ""), tested.stdout
    assert command("build", "--test", "tier").status == 0
    elsewhere = folder / "else" / "where" / "tier"
    shutil.copytree(folder / "tier", elsewhere, ignore=shutil.ignore_patterns("*.wasm"))
    assert command("build", elsewhere, "--out", folder).status == 0
    assert (folder / "tier.wasm").read_bytes() == (folder / "tier" / "tier.wasm").read_bytes()


def test_what_cannot_be_built(command: Command, folder: Path) -> None:
    expected = "expected a folder with main.go, src/lib.rs, assembly/index.ts, main.zig"
    expected += ", or a file that ends in .go, .rs, .ts, .zig"
    assert command("build") == (1, "", f"kwx: .: {expected}\n")
    (folder / "plugin.c").touch()
    assert command("build", "plugin.c") == (1, "", f"kwx: plugin.c: {expected}\n")


MISSING: Final = {
    "go": "guests in Go are built with Go 1.26 or newer, and PATH has none: https://go.dev/dl",
    "rust": "guests in Rust are built with rustc 1.63.0 or newer and its target wasm32-unknown-unknown, and PATH has"
    " none: apt-get install rustc libstd-rust-dev-wasm32, or rustup target add wasm32-unknown-unknown",
    "typescript": "guests in AssemblyScript are built with Node.js 20 or newer and its npm, and PATH has none:"
    " https://nodejs.org/en/download",
}


@pytest.mark.parametrize("language", MISSING)
def test_a_compiler_that_is_not_there(
    command: Command, folder: Path, monkeypatch: pytest.MonkeyPatch, language: str
) -> None:
    assert command("new", language, "tier").status == 0
    monkeypatch.setenv("PATH", str(folder))
    assert command("build", "tier") == (1, "", f"kwx: {MISSING[language]}\n")


def test_every_new_plugin_can_be_built() -> None:
    assert OWN.keys() <= LANGUAGES.keys()
