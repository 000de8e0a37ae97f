"""How tests make plugins of guests, and what those answer."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from tests.sdk_guest import policy
from tests.wasm_runtime.world import World, filter_nodes, score, world
from wasm_runtime import Plugin
from wasm_runtime.protobuf import encode_node, encode_pod

MakePlugin = Callable[..., Plugin]
"""Makes a plugin as `Plugin` does. It is closed after the test."""


def without(wasm: bytes, *exports: str) -> bytes:
    """A module as a host sees it that does not know some of its exports: they have names that none knows."""
    for export in exports:
        wasm = wasm.replace(export.encode(), export.upper().encode())
    return wasm


def about(nodes: Mapping[str, policy.Object], pod: policy.Object) -> World:
    """A request about a pod on nodes by name."""
    return world({name: encode_node(node) for name, node in nodes.items()}, pod=encode_pod(pod))


def answers(plugin: Plugin, at: World) -> list[policy.Answer]:
    """What Filter and Score say of each node."""
    filtered = filter_nodes(plugin, at)
    reasons = iter(filtered.reasons)
    scores = score(plugin, at) or [0] * len(at.nodes)
    codes = filtered.codes or bytes(len(at.nodes))
    return [
        policy.Answer(code, next(reasons) if code else "", value) for code, value in zip(codes, scores, strict=True)
    ]
