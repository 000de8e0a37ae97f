"""`python -m bench.plugin.worker`: our runtime in-process, as a subject. What is behind the webhook, without it.

As in the extender a thread brings guests up to date between cycles, and Python seldom looks for garbage.
"""

from __future__ import annotations

import argparse
import sys
import time
from base64 import b64decode
from collections.abc import Sequence
from pathlib import Path

import msgspec

from bench.peers.nodelist import read_nodes
from bench.plugin.subject import Answer, Question, Ready, Reply, Status, Took
from extender.config import RuntimeConfig
from extender.rollouts.engines import Engines
from extender.scheduling import filter as filter_verb
from extender.scheduling import prioritize
from extender.scheduling.profile import PluginFailedError, Profile, ProfilePlugin
from extender.serve import gc_tuning
from wasm_runtime.abi import Code
from wasm_runtime.engine import Settings, Span
from wasm_runtime.guests.guest import Pod
from wasm_runtime.guests.maintenance import GuestMaintenance
from wasm_runtime.guests.plugin import Plugin
from wasm_runtime.nodes.node_table import Nodes, NodeTable
from wasm_runtime.protobuf.read import identity


class Clock:
    """Measures how long a verb takes, and how much of that guests take."""

    def __init__(self) -> None:
        self._guest = 0.0
        self._begun = 0.0

    def observe(self, _: str, __: float, spans: Sequence[Span]) -> None:
        """Takes the calls of a plugin."""
        self._guest += sum(span.run_seconds for span in spans)

    def begin(self) -> None:
        """Notes that a verb begins."""
        self._guest, self._begun = 0.0, time.perf_counter()

    def end(self) -> Took:
        """Notes that the verb is over, and returns how long it took."""
        seconds = time.perf_counter() - self._begun
        return Took(seconds, {"map": seconds - self._guest, "guest": self._guest})


class RuntimeSubject:
    """Puts pods through the cycles of a profile."""

    def __init__(self, profile: Profile, node_table: NodeTable, names: list[str], clock: Clock) -> None:
        self._profile = profile
        self._node_table = node_table
        self._names = names
        self._clock = clock

    def ask(self, question: Question) -> Reply:
        """Puts a pod through a cycle. Decoding the question is not a part of what is measured."""
        pod = pod_of(b64decode(question.pod))
        names = question.names
        if names is None:
            names = self._names[question.start :] + self._names[: question.start]
        asked = _fresh(names)
        self._clock.begin()
        try:
            verdict = filter_verb.run(self._profile, pod, Nodes(self._node_table, asked))
            reply = Reply(self._clock.end())
            scores: Sequence[int] = [0] * len(verdict.kept.names)
            if len(scores) > 1:  # kube-scheduler takes the only one.
                asked = _fresh(verdict.kept.names)
                self._clock.begin()
                totals = prioritize.run(self._profile, pod, Nodes(self._node_table, asked))
                scores = totals.means()
                reply.prioritize = self._clock.end()
        except PluginFailedError as error:
            return Reply(Took(0.0), answer=Answer(str(error)))
        if question.answer:
            reply.answer = Answer("", _rejected(verdict), dict(zip(verdict.kept.names, scores, strict=True)))
        return reply

    def update(self, nodes: bytes) -> None:
        """Takes nodes that have changed, a protobuf v1.NodeList."""
        self._node_table.put(read_nodes(nodes).items())


def _fresh(names: Sequence[str]) -> list[str]:
    """The names as decoding a request makes them: strings of their own, whose hashes nobody has asked for."""
    return msgspec.json.decode(msgspec.json.encode(names), type=list[str])


def _rejected(verdict: filter_verb.Verdict) -> dict[str, Status]:
    failed = {name: Status(Code.UNSCHEDULABLE, reason) for name, reason in verdict.failed.items()}
    code = Code.UNSCHEDULABLE_AND_UNRESOLVABLE
    return failed | {name: Status(code, reason) for name, reason in verdict.unresolvable.items()}


def pod_of(data: bytes) -> Pod:
    """A pod as the runtime takes it, of protobuf v1.Pod."""
    found = identity(data)
    return Pod(found.uid, f"{found.namespace}/{found.name}", data)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.plugin.worker", description=__doc__)
    parser.add_argument("--engine", choices=["wasmtime", "wasmer"], default="wasmtime")
    parser.add_argument("--module", type=Path, required=True)
    parser.add_argument("--nodes", type=Path, required=True, help="a protobuf v1.NodeList")
    parser.add_argument("--plugins", type=int, default=1)
    parser.add_argument("--timeout", type=float, required=True, help="seconds that a plugin may take in a verb")
    parser.add_argument("--config", default="")
    parser.add_argument("--arg", dest="args", action="append", default=[])
    return parser.parse_args()


def main() -> None:
    """Answers the questions of standard input until its end."""
    options = _options()
    plugins: list[Plugin] = []
    maintenance = GuestMaintenance(lambda: plugins, lambda: node_table, _report)
    node_table = NodeTable(maintenance.wake)
    nodes = read_nodes(options.nodes.read_bytes())
    node_table.put(nodes.items())
    clock = Clock()
    begun = time.perf_counter()
    engine, wasm = Engines(RuntimeConfig()).get(options.engine), options.module.read_bytes()
    plugins += [
        Plugin(
            engine,
            wasm,
            Settings(f"{options.module.stem}-{at}", options.config, tuple(options.args), timeout=options.timeout),
            observer=clock.observe,
            nodes=node_table,
        )
        for at in range(options.plugins)
    ]
    write(Ready(time.perf_counter() - begun))
    host = RuntimeSubject(
        Profile("default", [ProfilePlugin(each) for each in plugins], score_range=100), node_table, list(nodes), clock
    )
    maintenance.start()
    gc_tuning.freeze_startup_objects()
    read = msgspec.json.Decoder(Question).decode
    for line in sys.stdin.buffer:
        question = read(line)
        if question.nodes:
            host.update(b64decode(question.nodes))
        else:
            write(host.ask(question))


def _report(plugin: Plugin, error: Exception) -> None:
    print(f"{plugin.name}: {error}", file=sys.stderr)


def write(message: Ready | Reply) -> None:
    """Writes a message as a line of JSON to standard output."""
    sys.stdout.buffer.write(msgspec.json.encode(message) + b"\n")
    sys.stdout.buffer.flush()


if __name__ == "__main__":
    main()
