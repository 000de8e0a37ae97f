"""A decision about GPUs, on nodes with pods on them: what is asked, what is free, who wins and why."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from importlib import resources
from pathlib import Path
from typing import Any, Final

import msgspec
from rich.text import Text

from extender.commands.call.request import read
from extender.commands.terminal import Part, Table
from extender.scheduling import filter as filter_verb
from extender.scheduling import prioritize
from extender.scheduling.profile import Profile, ProfilePlugin
from extender.webhook.decoding import RequestDecoder
from wasm_runtime import Plugin, Settings, WasmtimeEngine

GPU: Final = "nvidia.com/gpu"
DEVICES: Final = "gpu-pack.kwx.dev/devices"
FRACTION: Final = "gpu-fraction"

ASKED: Final[Mapping[str, tuple[str, str]]] = {
    "half": ("half a GPU", "the share fits on a GPU that is shared already, so no other one has to be opened"),
    "two": ("2 GPUs", "it is the fullest node that has two free ones"),
    "eight": ("8 GPUs", "the pods before were kept off it, so all of its GPUs are free"),
}
"""What a pod asks for, and why the node that wins is the right one, by the name of the file with the pod."""


class GpuVerdict(msgspec.Struct):
    """What gpu-pack says of one node for one pod."""

    node: str
    reason: str
    """Why the node does not take the pod; empty if it does."""
    score: int | None
    """From 0 to 100; None where the node does not take the pod."""
    wins: bool


class GpuDecision(msgspec.Struct):
    """Where one pod goes."""

    asks: str
    nodes: list[GpuVerdict]
    because: str


class GpuReport(msgspec.Struct):
    """The decisions about several pods on the same nodes."""

    used: dict[str, list[float]]
    """How much of each GPU of a node pods use, from 0 to 1, by the node's name."""
    decisions: list[GpuDecision]


def decide() -> GpuReport:
    """Judges each pod of `ASKED` on the nodes and pods of `extender/examples/gpus`, by the shipped module."""
    wasm = Path(str(resources.files("extender") / "policies" / "gpu_pack.wasm")).read_bytes()
    with closing(Plugin(WasmtimeEngine(), wasm, Settings("gpu-pack"))) as plugin:
        profile = Profile("gpus", [ProfilePlugin(plugin)])
        return GpuReport(_used(), [_decide(profile, name) for name in ASKED])


def parts(report: GpuReport) -> Iterator[Part]:
    """The report for people."""
    yield Text(
        "Three pods ask for GPUs, and gpu-pack knows the pods that run: ■ taken, ◧ half of it, □ free\n", "italic"
    )
    rows = [
        (
            decision.asks if at == 0 else "",
            f"{verdict.node} ←" if verdict.wins else verdict.node,
            "".join(map(_symbol, report.used[verdict.node])),
            "rejected" if verdict.reason else "passes",
            "" if verdict.score is None else str(verdict.score),
            decision.because if verdict.wins else verdict.reason,
        )
        for decision in report.decisions
        for at, verdict in enumerate(decision.nodes)
    ]
    headings = ("Asked", "Node", "GPUs", "Filter", "Score of 100", "Why")
    yield Table(headings, rows, {"Score of 100"}, {"passes": "green", "rejected": "red"})


def _decide(profile: Profile, name: str) -> GpuDecision:
    asked = read("filter", _file(name), _file("nodes"), None, _file("pods"))
    request, candidates = RequestDecoder().decode_args(asked.body)
    nodes = asked.nodes.find(candidates, wants_objects=True)
    verdict = filter_verb.run(profile, request.pod, nodes)
    reasons = {**verdict.failed, **verdict.unresolvable}
    scores = dict(zip(verdict.kept.names, prioritize.run(profile, request.pod, verdict.kept).scores, strict=True))
    winner = max(scores, key=scores.__getitem__)
    asks, because = ASKED[name]
    verdicts = [GpuVerdict(node, reasons.get(node, ""), scores.get(node), node == winner) for node in nodes.names]
    return GpuDecision(asks, verdicts, because)


def _used() -> dict[str, list[float]]:
    used = {node["metadata"]["name"]: [0.0] * int(node["status"]["allocatable"][GPU]) for node in _items("nodes")}
    for pod in _items("pods"):
        annotations = pod["metadata"]["annotations"]
        for device in annotations[DEVICES].split(","):
            used[pod["spec"]["nodeName"]][int(device)] += float(annotations.get(FRACTION, "1"))
    return used


def _items(name: str) -> Sequence[Any]:
    items: Sequence[Any] = msgspec.json.decode(_file(name).read_bytes())["items"]
    return items


def _file(name: str) -> Path:
    return Path(str(resources.files("extender") / "examples" / "gpus" / f"{name}.json"))


def _symbol(used: float) -> str:
    return "□" if used == 0 else "■" if used >= 1 else "◧"
