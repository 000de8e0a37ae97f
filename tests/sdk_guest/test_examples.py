"""The example guests are what their sources build."""

from __future__ import annotations

from pathlib import Path

from tests.sdk_guest.builds import SDK, built, require_same

SHIPPED = SDK.parent / "extender" / "examples"


def test_the_shipped_modules_are_a_fresh_build_to_the_byte(tmp_path: Path) -> None:
    built("--language", "zig", "--out", tmp_path)
    assert {each.name for each in tmp_path.glob("*.wasm")} == {each.name for each in SHIPPED.glob("*.wasm")}
    for module in tmp_path.glob("*.wasm"):
        require_same(module, SHIPPED / module.name)


def test_the_shipped_modules_are_small() -> None:
    assert [module.name for module in SHIPPED.glob("*.wasm") if module.stat().st_size > 1_000_000] == []


def test_the_tests_of_library_and_examples_pass() -> None:
    built("--language", "zig", "--test")
