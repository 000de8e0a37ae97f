"""Who looks for gangs that are half finds them."""

from __future__ import annotations

from typing import Any

import pytest

from tests.e2e.gangs import Gang, crowded, draw, told

GANG = Gang("ring", 4, 3)


def pods(*nodes: str) -> dict[str, Any]:
    """Pods of the gang, each on a node or, with an empty name, on none; and one of another gang."""
    placed = {name: {"nodeName": node} if node else {} for name, node in zip(GANG.members, nodes, strict=False)}
    return {name: {"spec": spec} for name, spec in {**placed, "ring-a-0": {"nodeName": "a"}}.items()}


@pytest.mark.parametrize(
    ("nodes", "bound", "is_half", "runs"),
    [
        ([], 0, False, False),
        (["", "", "", ""], 0, False, False),
        (["", "a"], 1, True, False),
        (["a", "a", "", ""], 2, True, False),
        (["a", "", "b", "c"], 3, False, True),
        (["a", "a", "b", "c"], 4, False, True),
    ],
)
def test_a_gang_is_half_with_fewer_pods_on_nodes_than_it_needs(
    nodes: list[str], bound: int, is_half: bool, runs: bool
) -> None:
    found = pods(*nodes)
    assert (GANG.bound(found), GANG.is_half(found), GANG.runs(found)) == (bound, is_half, runs)
    assert told([GANG], found) == f"ring: {bound} of 4, 3 needed"


def test_a_node_with_more_pods_than_it_has_room_for_is_told() -> None:
    assert crowded(pods("a", "b", "b", ""), 2) == []
    assert crowded(pods("a", "b", "b", "a"), 2) == ["a has 3 pods and room for 2"]


def test_gangs_are_drawn_the_same_again_with_all_sizes() -> None:
    gangs = draw(200, range(2, 5), seed=1)
    assert gangs == draw(200, range(2, 5), seed=1)
    assert {gang.size for gang in gangs} == {2, 3, 4}
    assert {gang.size - gang.minimum for gang in gangs} == {0, 1}
