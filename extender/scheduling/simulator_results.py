"""What plugins said of a pod, as the annotations that kube-scheduler-simulator shows.

Source of the keys and values: `simulator/scheduler/plugin` and `simulator/scheduler/storereflector` of
https://github.com/kubernetes-sigs/kube-scheduler-simulator
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple

import msgspec

from extender.scheduling.decisions import Attempt
from extender.scheduling.judgements import Judgement, judgements
from wasm_runtime.engine import KIBIBYTE

DOMAIN: Final = "kube-scheduler-simulator.sigs.k8s.io"
PASSED: Final = "passed"
"""What a plugin says of a node that it keeps."""

MAX_BYTES: Final = 128 * KIBIBYTE
"""What they may take, half of all annotations of a pod. Of more nodes those are left out that come last."""

MAX_REASON_CHARS: Final = 256

_ByNode = dict[str, dict[str, str]]
"""By node and plugin."""


class _Node(NamedTuple):
    """What is told of a node, by plugin."""

    filtered: dict[str, str]
    scores: dict[str, str]
    """Before NormalizeScore."""
    final_scores: dict[str, str]
    """After it, times the plugin's weight."""


def result_annotations(attempts: Sequence[Attempt], node: str) -> Mapping[str, str]:
    """Those of a pod that goes to a node, by its attempts, the last of at least one last.

    The nodes of an attempt begin with the one that was chosen, then the best comes. The history has all attempts if
    there is room for that, else the last ones.
    """
    *earlier, last = attempts
    results = _results(last, node)
    left = MAX_BYTES - sum(map(len, results.values()))
    history = [*(_results(each, "") for each in earlier), results]
    while history and len(encoded := _encode(history)) > left:
        del history[0]
    return {**results, f"{DOMAIN}/result-history": encoded} if history else results


def _results(attempt: Attempt, node: str) -> dict[str, str]:
    """The annotations of one attempt; without a node it came to none."""
    filtered, scores, final_scores = _ByNode(), _ByNode(), _ByNode()
    plugins = [each.plugin for each in attempt.filtered if each.plugin]
    left = MAX_BYTES
    for judgement in sorted(judgements(attempt), key=lambda each: each.node != node):
        told = _told(judgement, plugins)
        left -= sum(len(msgspec.json.encode({judgement.node: part})) for part in told)
        if left < 0:
            break
        for results, part in zip((filtered, scores, final_scores), told, strict=True):
            if part:
                results[judgement.node] = part
    named = {"filter-result": filtered, "score-result": scores, "finalscore-result": final_scores}
    return {
        f"{DOMAIN}/selected-node": node,
        **{f"{DOMAIN}/{name}": _encode(results) for name, results in named.items()},
    }


def _encode(value: object) -> str:
    return msgspec.json.encode(value).decode()


def _told(judgement: Judgement, plugins: Sequence[str]) -> _Node:
    return _Node(
        dict(_filtered(judgement, plugins)),
        {each.plugin: str(each.score if each.raw is None else each.raw) for each in judgement.scores},
        {each.plugin: str(each.score * each.weight) for each in judgement.scores},
    )


def _filtered(judgement: Judgement, plugins: Sequence[str]) -> Iterator[tuple[str, str]]:
    """What each plugin said, until one has taken the node out."""
    for plugin in plugins:
        rejection = judgement.rejection
        if rejection and rejection.plugin == plugin:
            yield plugin, rejection.reason[:MAX_REASON_CHARS]
            return
        yield plugin, PASSED
