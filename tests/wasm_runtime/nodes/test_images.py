"""Image states from the nodes' objects, and which of them are made anew when nodes change."""

from __future__ import annotations

import json
import tracemalloc
from collections import Counter
from collections.abc import Mapping, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.wasm_runtime.protobuf_bytes import field, image, node_with_images
from wasm_runtime.nodes.images import ImageStates
from wasm_runtime.nodes.node_table import ABSENT

Listing = Sequence[tuple[Sequence[str], int]]
"""The images of a node as it lists them: names and size."""


@pytest.fixture
def states() -> ImageStates:
    return ImageStates()


def listing(*images: tuple[Sequence[str], int]) -> bytes:
    return node_with_images(image(names, size) for names, size in images)


def test_names_are_sorted_and_nothing_is_spaced(states: ImageStates) -> None:
    node = listing((["redis:7", "größe"], 100), (["nginx:1"], 2**40))
    text = '{"größe":{"Size":100,"NumNodes":1},"nginx:1":{"Size":1099511627776,"NumNodes":1},"redis:7":{"Size":100,'
    assert states.update([(3, node)]) == {3: f'{text}"NumNodes":1}}}}'.encode()}


def test_sizes_are_the_nodes_own_and_counts_are_of_all(states: ImageStates) -> None:
    assert states.update([(0, listing((["a"], 1))), (1, listing((["a"], 2), (["b"], 0)))]) == {
        0: b'{"a":{"Size":1,"NumNodes":2}}',
        1: b'{"a":{"Size":2,"NumNodes":2},"b":{"Size":0,"NumNodes":1}}',
    }


def test_a_name_listed_twice_counts_once_with_its_last_size(states: ImageStates) -> None:
    assert states.update([(0, listing((["a", "a"], 1), (["a"], 2)))]) == {0: b'{"a":{"Size":2,"NumNodes":1}}'}


@pytest.mark.parametrize(
    "node",
    [
        ABSENT,
        node_with_images([]),
        listing(([], 1)),
        b"\xff\xff\xff",
        listing((["a"], 1)) + b"\xff",
        node_with_images([image(["a"], 1), b"\xff"]),
        field(3, 8),
        field(3, field(8, 8)),
    ],
)
def test_nodes_without_images(states: ImageStates, node: bytes) -> None:
    assert states.update([(0, node), (1, listing((["a"], 1)))]) == {0: b"{}", 1: b'{"a":{"Size":1,"NumNodes":1}}'}


@pytest.mark.parametrize("size", [b"", field(2, b"12"), field(2, b"many")])
def test_an_image_whose_size_is_no_number(states: ImageStates, size: bytes) -> None:
    node = node_with_images([field(1, b"a") + size])
    assert states.update([(0, node)]) == {0: b'{"a":{"Size":0,"NumNodes":1}}'}


def test_a_name_that_is_no_text(states: ImageStates) -> None:
    node = node_with_images([field(1, b"a\xff")])
    assert states.update([(0, node)]) == {0: '{"a\ufffd":{"Size":0,"NumNodes":1}}'.encode()}


def test_other_changes_of_a_node_change_no_states(states: ImageStates) -> None:
    node = listing((["a"], 1), (["b"], 2))
    states.update([(0, node), (1, node)])
    assert states.update([(0, node + field(4, b"a heartbeat")), (1, listing((["b"], 2), (["a"], 1)))]) == {}


def test_a_new_size_is_the_nodes_own_affair(states: ImageStates) -> None:
    states.update([(0, listing((["a"], 1))), (1, listing((["a"], 1)))])
    assert states.update([(0, listing((["a"], 9)))]) == {0: b'{"a":{"Size":9,"NumNodes":2}}'}


def test_only_holders_of_what_was_gained_or_lost_are_concerned(states: ImageStates) -> None:
    states.update([(at, listing(([name], 1))) for at, name in enumerate("abc")])
    assert states.update([(0, listing((["b"], 5)))]) == {
        0: b'{"b":{"Size":5,"NumNodes":2}}',
        1: b'{"b":{"Size":1,"NumNodes":2}}',
    }
    assert states.update([(1, ABSENT)]) == {0: b'{"b":{"Size":5,"NumNodes":1}}', 1: b"{}"}


def test_an_image_that_moves_between_nodes_concerns_no_third(states: ImageStates) -> None:
    states.update([(0, listing((["a"], 1))), (1, ABSENT), (2, listing((["a"], 3)))])
    assert states.update([(0, ABSENT), (1, listing((["a"], 2)))]) == {0: b"{}", 1: b'{"a":{"Size":2,"NumNodes":2}}'}


def test_what_is_very_long_is_kept_no_longer_than_its_node(states: ImageStates) -> None:
    tracemalloc.start()
    try:
        states.update([(0, listing((["a" * 5_000_000], 1)))])
        states.update([(0, ABSENT)])
        kept, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert kept < 1_000_000


def from_scratch(nodes: Mapping[int, Listing]) -> dict[int, bytes]:
    sizes = {at: {name: size for names, size in images for name in names} for at, images in nodes.items()}
    counts = Counter(name for each in sizes.values() for name in each)
    return {
        at: json.dumps(
            {name: {"Size": each[name], "NumNodes": counts[name]} for name in sorted(each)},
            separators=(",", ":"),
        ).encode()
        for at, each in sizes.items()
    }


LISTING = st.lists(st.tuples(st.lists(st.sampled_from("abcdef"), max_size=3), st.integers(0, 3)), max_size=4)
CHANGES = st.dictionaries(st.integers(0, 6), st.none() | LISTING, max_size=4)


@given(steps=st.lists(CHANGES, max_size=12))
def test_what_changes_is_all_that_differs_from_scratch(steps: list[dict[int, Listing | None]]) -> None:
    states = ImageStates()
    nodes: dict[int, Listing] = {}
    known: dict[int, bytes] = {}
    for step in steps:
        nodes |= {at: images or [] for at, images in step.items()}
        expected = from_scratch(nodes)
        changed = states.update(
            (at, ABSENT if images is None else listing(*images) + field(4, b"more")) for at, images in step.items()
        )
        assert changed == {at: text for at, text in expected.items() if known.get(at) != text}
        known |= changed
