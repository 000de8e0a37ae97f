"""What a module says of itself: written and read."""

from __future__ import annotations

import msgspec
import pytest

from tests.wasm_runtime.custom import custom
from wasm_runtime.errors import ModuleError
from wasm_runtime.module import metadata
from wasm_runtime.module.binary import EMPTY
from wasm_runtime.module.metadata import MAX_METADATA_BYTES, SECTION, Metadata

TOLD = Metadata("go 0.1.0", msgspec.Raw(b'{"type":"object"}'))


def test_what_is_embedded_is_read() -> None:
    wasm = EMPTY + custom("name", b"any")
    told = metadata.embed(wasm, TOLD)
    assert told == wasm + custom(SECTION, b'{"sdk":"go 0.1.0","configSchema":{"type":"object"}}')
    read = metadata.read(told)
    assert (read.sdk, bytes(read.config_schema)) == ("go 0.1.0", b'{"type":"object"}')


def test_what_a_module_said_before_is_replaced() -> None:
    before = EMPTY + custom(SECTION, b"{}") + custom("name", b"any")
    assert metadata.embed(before, Metadata()) == EMPTY + custom("name", b"any") + custom(SECTION, b"{}")


def test_a_module_without_the_section_says_nothing() -> None:
    assert metadata.read(EMPTY) == Metadata()
    assert not metadata.read(EMPTY).config_schema


def test_what_a_later_version_says_is_left_alone() -> None:
    assert metadata.read(EMPTY + custom(SECTION, b'{"sdk":"go 9","more":[]}')).sdk == "go 9"


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"{", "that cannot be read: Input data was truncated; build it by `kwx build`"),
        (b'{"sdk":5}', "that cannot be read: Expected `str`, got `int` - at `$.sdk`; build it by `kwx build`"),
    ],
)
def test_a_section_that_cannot_be_read_is_refused(content: bytes, problem: str) -> None:
    with pytest.raises(ModuleError) as refused:
        metadata.read(EMPTY + custom(SECTION, content))
    assert refused.value.problems == [f"has a section kwx.plugin {problem}"]


def test_a_section_that_is_too_long_is_refused() -> None:
    with pytest.raises(ModuleError) as refused:
        metadata.read(EMPTY + custom(SECTION, bytes(MAX_METADATA_BYTES + 1)))
    assert refused.value.problems == ["has 131073 bytes in its section kwx.plugin, the limit is 131072"]
