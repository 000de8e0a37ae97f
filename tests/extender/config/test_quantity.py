from __future__ import annotations

import pytest

from extender.config.quantity import seconds, size, size_text


@pytest.mark.parametrize(
    ("text", "expected"),
    [("500ms", 0.5), ("2s", 2.0), ("1.5s", 1.5), ("0.5ms", 0.0005), ("3m", 180.0), ("1h", 3600.0), ("007s", 7.0)],
)
def test_a_duration_is_in_seconds(text: str, expected: float) -> None:
    assert seconds(text) == pytest.approx(expected)


@pytest.mark.parametrize(
    "text", ["", "5", "ms", "0s", "0.0ms", "-1s", "1 s", "1S", "1s ", "1d", "1e3s", ".5s", 5, None, True]
)
def test_what_is_no_duration_is_refused(text: object) -> None:
    with pytest.raises(ValueError, match="expected a duration such as 500ms or 2s, at most 1h, found "):
        seconds(text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [("1", 1), (4096, 4096), ("1k", 1000), ("1Ki", 1024), ("64Mi", 67_108_864), ("2M", 2_000_000), ("1Gi", 1 << 30)],
)
def test_a_size_is_in_bytes(text: object, expected: int) -> None:
    assert size(text) == expected


@pytest.mark.parametrize(
    "text", ["", "Mi", "0", 0, "0Mi", "-1", -1, "1.5Mi", "1 Mi", "1MB", "1mi", "1Ti", None, True, 1.0]
)
def test_what_is_no_size_is_refused(text: object) -> None:
    with pytest.raises(ValueError, match="expected a size such as 256Mi, found "):
        size(text)


@pytest.mark.parametrize(
    ("given", "text"),
    [(0, "0"), (1000, "1000"), (8 * 1024, "8Ki"), (1025, "1025"), (256 * 1024**2, "256Mi"), (1024**4, "1024Gi")],
)
def test_sizes_are_written_in_the_largest_unit(given: int, text: str) -> None:
    assert size_text(given) == text
    assert given == 0 or size(text) == given
