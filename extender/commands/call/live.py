"""A what-if that a running extender is asked: what its plugins, or a candidate among them, would say of a pod now."""

from __future__ import annotations

import base64
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec
from rich.text import Text

from extender.admin.api.decision_views import WhatIfView
from extender.commands.call.call import Verb
from extender.commands.call.request import STANDARD_INPUT, CallError, contents, printed_pod
from extender.commands.explain import report
from extender.commands.plugin.commands import read_signature
from extender.commands.plugin.remote import read as read_file
from extender.commands.terminal import MORE, Part
from extender.telemetry.printable import printable

ACTIVE: Final = Path("active")
"""The argument MODULE that means the module that serves."""

REVISION: Final = "sha256:"
"""The beginning of an argument MODULE that is the id of a revision, not a file."""

VERBS: Final = frozenset({"filter", "prioritize"})
"""The verbs that a what-if can be about."""

MAX_SHOWN: Final = 50
"""Nodes, and reasons of plugins, that are shown; the JSON has all."""


class Place(NamedTuple):
    """Which plugin a candidate replaces."""

    plugin: str | None
    """The plugin's name; None if it is the name of the candidate's file."""
    profile: str | None
    """The plugin's profile; None if it is that of the pod's schedulerName."""
    signature: Path | None
    """The file with the signature of the candidate's module."""


class WhatIfRequest(NamedTuple):
    """A request for a what-if, and how the answer names it."""

    profile: str | None
    """The profile that judges; None if it is that of the pod's schedulerName."""
    body: Mapping[str, Any]
    """The body of the request: a JudgeRequest of the admin API."""
    suffix: str
    """What a table says of the candidate behind the name of the profile; empty without a candidate."""


def read(
    verb: Verb, module: Path, request: Path, nodes: Path | None, place: Place, settings: Mapping[str, object]
) -> WhatIfRequest:
    """The request that files and options ask for; `settings` as in the configuration file. Raises CallError."""
    if verb.value not in VERBS:
        raise CallError(f"--live is for {' and '.join(sorted(VERBS))}: {verb.value} needs more than a pod and nodes")
    body = {**_pod(request), "nodes": None if nodes is None else _items(nodes)}
    if module == ACTIVE and not settings:
        return WhatIfRequest(place.profile, body, "")
    candidate = {**_candidate(module, place), "settings": dict(settings)}
    suffix = _suffix(module, str(candidate["plugin"]), settings)
    return WhatIfRequest(place.profile, body | {"candidate": candidate}, suffix)


def _candidate(module: Path, place: Place) -> dict[str, str]:
    """The candidate of a request without its settings. Raises CallError."""
    is_revision = str(module).startswith(REVISION)
    if place.plugin is None and (is_revision or module == ACTIVE):
        raise CallError("it is not known whose other settings or earlier revision that is; name the plugin by --plugin")
    plugin = {"plugin": place.plugin or module.stem}
    if is_revision:
        return plugin | {"revision": str(module)}
    if module == ACTIVE:
        return plugin
    signature = {"signature": read_signature(place.signature)} if place.signature else {}
    return plugin | signature | {"module": base64.b64encode(read_file(module, "'MODULE'")).decode()}


def table(verb: Verb, asked: WhatIfRequest, found: WhatIfView) -> Iterator[Part]:
    """A line on the answer, the nodes that each plugin rejected, and for prioritize the scores of the others."""
    what = f"{verb.value} of pod {found.namespace}/{found.name} by profile {found.profile}{asked.suffix}"
    yield Text(printable(f"{what}: {found.nodes_answered} of {found.nodes_asked} nodes pass"))
    if found.rejections:
        yield report.rejections(found, MAX_SHOWN)
    scored = [each for each in found.nodes if each.total is not None]
    if verb.value == "prioritize" and scored:
        yield report.scores(found, scored, MAX_SHOWN)
        if len(scored) > MAX_SHOWN:
            yield Text(MORE.format(len(scored) - MAX_SHOWN))
    yield Text("kube-scheduler's own filters and scores have no part in this.")


def _suffix(module: Path, plugin: str, settings: Mapping[str, object]) -> str:
    other = f"other settings ({', '.join(settings)})"
    if module == ACTIVE:
        return f" with {other} of {plugin}"
    return f" with {module} as {plugin}" + (f", {other}" if settings else "")


def _pod(request: Path) -> dict[str, Any]:
    """The pod of a request: of a file, or the NAMESPACE/NAME of one in the cluster where there is no such file.

    Raises CallError.
    """
    if request != STANDARD_INPUT and not request.exists() and str(request).count("/") == 1:
        return {"podName": str(request)}
    found = printed_pod(contents(request))
    if found is None:
        raise CallError(f"{request}: expected a pod as kubectl prints it, or the NAMESPACE/NAME of one in the cluster")
    return {"pod": found}


def _items(file: Path) -> list[Any]:
    """The v1.Nodes of a file, which has a list or a single one. Raises CallError."""
    try:
        found = msgspec.json.decode(contents(file))
        nodes = [found] if found.get("kind") == "Node" else found["items"]
        if isinstance(nodes, list) and nodes:
            return nodes
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, AttributeError, KeyError):
        pass
    raise CallError(f"{file}: there is no node in it; expected a list as kubectl get nodes -o json prints it")
