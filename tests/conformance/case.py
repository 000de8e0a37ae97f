"""A case of the suite: a guest, what is done with it, and what comes of it as a whole."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from tests.conformance.calls import Does, attempt
from tests.wasm_runtime.guest_modules import binary
from wasm_runtime import NodeTable, Plugin, Settings
from wasm_runtime.engine import Engine, GuestEvent, GuestJournal, Handle, Log, NoHandle
from wasm_runtime.pods.pod_table import ResidentPod


@dataclass(frozen=True)
class Case:
    """What a guest does, by the name of the case, and the outcome that is expected."""

    name: str
    guest: str | bytes
    """The module, as text or binary."""
    does: Does
    value: object
    """What `does` returns; Failed or Refused for an error of the guest or of its module."""
    journal: Sequence[Log | GuestEvent] = ()
    """What the guest logs and records."""
    dropped: int = 0
    """How many records were dropped for want of room."""
    settings: Mapping[str, Any] = field(default_factory=dict)
    handle: Callable[[], Handle] = NoHandle
    extension_points: Sequence[str] | None = None
    nodes: Mapping[str, str] | None = None
    """The nodes by name that the plugin is told of when it is made; None for none."""
    pods: Mapping[str, ResidentPod] = field(default_factory=dict)
    """The pods by UID that it is told of then, if it is told of nodes."""


class Outcome(NamedTuple):
    """The outcome of a case."""

    value: object
    journal: list[Log | GuestEvent]
    dropped: int


def run(engine: Engine, case: Case) -> Outcome:
    """Makes a plugin of the guest and does with it what the case wants. There is time enough for any machine."""
    journals: list[GuestJournal] = []

    def do() -> object:
        settings = Settings("plugin", **{"timeout": 30.0, **case.settings})
        wasm = binary(case.guest) if isinstance(case.guest, str) else case.guest
        plugin = Plugin(
            engine,
            wasm,
            settings,
            extension_points=case.extension_points,
            sink=lambda *record: journals.append(record[-1]),
            handle=case.handle(),
            nodes=None if case.nodes is None else _node_table(case.nodes, case.pods),
        )
        with closing(plugin):
            return case.does(plugin)

    value = attempt(do)
    records = [record for journal in journals for record in journal.records]
    return Outcome(value, records, sum(journal.dropped for journal in journals))


def _node_table(objects: Mapping[str, str], pods: Mapping[str, ResidentPod]) -> NodeTable:
    node_table = NodeTable()
    node_table.put((name, text.encode()) for name, text in objects.items())
    node_table.pods.put(pods.items())
    return node_table
