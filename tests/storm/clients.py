"""The clients of the extender in a storm: schedulers, an operator, health checks, and bad clients."""

from __future__ import annotations

import http.client
import json
import random
import socket
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing, suppress
from itertools import count
from pathlib import Path
from threading import Event
from typing import Any, Final, NamedTuple

from bench.controlplane.ports import LOOPBACK
from tests.extender.objects import binding_args, meta_victims, names_args, pod, preemption_args
from tests.extender.versions import VERSIONS, module
from tests.storm.apiserver import StandIn

ANSWER_TIMEOUT_S: Final = 30.0
"""Seconds after which a well-behaved client takes a missing answer for a hang."""
MODULES: Final = [module(version) for version in VERSIONS[:4]]


class Place(NamedTuple):
    """Where an extender listens."""

    verbs: int
    admin: int


class Answer(NamedTuple):
    """An answer of the extender."""

    status: int
    body: bytes
    seconds: float

    def json(self) -> Any:
        """The body."""
        return json.loads(self.body)


class Asker:
    """A connection that is kept, as kube-scheduler keeps its own."""

    def __init__(self, port: int) -> None:
        self._connection = http.client.HTTPConnection(LOOPBACK, port, timeout=ANSWER_TIMEOUT_S)

    def ask(self, method: str, path: str, body: bytes | None = None, kind: str = "application/json") -> Answer:
        """A whole answer. Raises OSError or HTTPException."""
        begun = time.monotonic()
        self.asked = f"{method} {path}"
        try:
            self._connection.request(method, path, body, {"Content-Type": kind} if body else {})
            answer = self._connection.getresponse()
            return Answer(answer.status, answer.read(), time.monotonic() - begun)
        except BaseException:
            self._connection.close()
            raise

    def close(self) -> None:
        """Closes the connection."""
        self._connection.close()


class Client(ABC):
    """Acts again and again, until the storm is over."""

    pause_s = 0.02
    """Mean seconds between two acts."""

    def __init__(self, place: Place, seed: object) -> None:
        self.place = place
        self.random = random.Random(str(seed))
        self.wrong: list[str] = []
        """Sentences on what must never happen and has."""
        self.acts = 0
        self.askers: list[Asker] = []

    def keep(self, port: int) -> Asker:
        """A connection that is kept until the client is closed."""
        self.askers.append(Asker(port))
        return self.askers[-1]

    def run(self, over: Event) -> None:
        """Acts until `over` is set."""
        while not over.wait(self.random.uniform(0, 2 * self.pause_s)):
            self.act()
            self.acts += 1

    @abstractmethod
    def act(self) -> None:
        """Does one thing."""

    def close(self) -> None:
        """Closes what it keeps."""
        for asker in self.askers:
            asker.close()


class Scheduler(Client):
    """Asks as kube-scheduler does: filter, prioritize, now and then preempt, bind. Looks at each answer."""

    numbers = count()

    def __init__(self, place: Place, seed: object, profile: str, nodes: Sequence[str], cluster: StandIn) -> None:
        super().__init__(place, f"{seed} {profile}")
        self.profile = profile
        self._nodes = nodes
        self._cluster = cluster
        self._asker = self.keep(place.verbs)
        self.failures: dict[str, int] = {}
        """Pods that were not scheduled, counted by reason; harmless while faults last."""
        self.slowest_s = 0.0
        """Seconds of the slowest filter."""

    def act(self) -> None:
        """A pod's cycle."""
        if problem := self.cycle():
            self.failures[problem] = self.failures.get(problem, 0) + 1

    def cycle(self) -> str:
        """Schedules a pod; why it could not be, or nothing."""
        name = f"{self.profile}-{next(self.numbers)}"
        asked = self.random.sample(self._nodes, self.random.randint(1, len(self._nodes)))
        filtered = self._ask("filter", names_args(asked, pod(name)))
        if filtered is None or filtered["Error"]:
            return "filter: " + (filtered["Error"] if filtered else "500")
        kept, failed = filtered["NodeNames"], filtered["FailedNodes"].keys()
        failed |= filtered["FailedAndUnresolvableNodes"].keys()
        self._expect(sorted([*kept, *failed]) == sorted(asked), "filter", asked, filtered)
        if not kept:
            return self._preempt(name, asked)
        scores = self._ask("prioritize", names_args(kept, pod(name)))
        if scores is None:
            return "prioritize: 500"
        self._expect({each["Host"] for each in scores} <= set(kept), "prioritize", kept, scores)
        return self._bind(name, self.random.choice(kept))

    def _preempt(self, name: str, asked: Sequence[str]) -> str:
        candidates = preemption_args({node: meta_victims(f"victim-on-{node}") for node in asked}, pod(name))
        result = self._ask("preempt", candidates)
        if result is None:
            return "preempt: 500"
        self._expect(result["NodeNameToMetaVictims"].keys() <= set(asked), "preempt", asked, result)
        return ""

    def _bind(self, name: str, node: str) -> str:
        bound = self._ask("bind", binding_args(node, name))
        if bound is None:
            return "bind: 500"
        if not bound["Error"]:
            at = self._cluster.bound.get(f"uid-of-{name}", "no node")
            self._expect(at == node, "bind", f"{name} to {node}", f"bound, but it is on {at}")
        return bound["Error"] and f"bind: {bound['Error']}"

    def _ask(self, verb: str, body: Mapping[str, Any]) -> Any:
        """The answer of a verb; None for a fault of the extender's own."""
        try:
            answer = self._asker.ask("POST", f"/profiles/{self.profile}/{verb}", json.dumps(body).encode())
        except (OSError, http.client.HTTPException) as error:
            self.wrong.append(f"{self.profile}: {verb}: no answer: {error!r}")
            return None
        if verb == "filter":
            self.slowest_s = max(self.slowest_s, answer.seconds)
        if answer.status == 500:
            return None
        self._expect(answer.status == 200, verb, body, answer)
        return answer.json()

    def _expect(self, holds: bool, verb: str, asked: object, answered: object) -> None:
        if not holds:
            self.wrong.append(f"{self.profile}: {verb}: asked {asked}, answered {answered}")


class Health(Client):
    """Looks at /livez all the time, and beside it at a server that does nothing else."""

    def __init__(self, place: Place, seed: object, idle: int) -> None:
        super().__init__(place, f"{seed} health")
        self._askers = {"/livez": self.keep(place.admin), "an idle server": self.keep(idle)}
        self.slowest_s = dict.fromkeys(self._askers, 0.0)

    def act(self) -> None:
        """Asks both."""
        for name, asker in self._askers.items():
            try:
                answer = asker.ask("GET", "/livez")
            except (OSError, http.client.HTTPException) as error:
                self.wrong.append(f"{name}: no answer: {error!r}")
            else:
                self.slowest_s[name] = max(self.slowest_s[name], answer.seconds)
                if answer.status != 200:
                    self.wrong.append(f"{name}: {answer}")


class Operator(Client):
    """Swaps modules and settings, goes back, looks, changes the files: right and wrong."""

    pause_s = 0.15
    plugin = "/api/v1/plugins/versions"

    def __init__(self, place: Place, seed: object, config: Path) -> None:
        super().__init__(place, f"{seed} operator")
        self._config = config
        self._text = config.read_text()
        self._asker = self.keep(place.admin)
        self._acts: Sequence[Callable[[], Answer | None]] = (
            lambda: self._try(self.random.choice(MODULES)),
            lambda: self._try(module(self.random.choice(VERSIONS), str(self.random.random()))),
            lambda: self._try(self.random.randbytes(self.random.randint(0, 1000))),
            lambda: self._ask(
                "POST", f"{self.plugin}/swap?wait=5s", {"settings": {"weight": self.random.randint(1, 9)}}
            ),
            lambda: self._ask("POST", f"{self.plugin}/swap?wait=5s", {"settings": {"weight": "heavy"}}),
            lambda: self._ask("POST", f"{self.plugin}/rollback?wait=5s", {}),
            self._change_file,
            self._change_config,
            *(lambda path=path: self._ask("GET", path) for path in LOOKS),
        )

    def act(self) -> None:
        """Does one thing, whatever comes of it."""
        try:
            answer = self.random.choice(self._acts)()
            if answer and answer.status == 500:
                self._asker.close()  # So does uvicorn, and does not say so before.
        except (OSError, http.client.HTTPException) as error:
            self.wrong.append(f"operator: no answer to {self._asker.asked}: {error!r}")

    def settle(self) -> None:
        """Restores the configuration file."""
        self._replace(self._config, self._text.encode())

    def swap(self) -> str:
        """Brings a new module live. Returns why that failed; empty if it succeeded."""
        answer = self._upload(module(self.random.choice(VERSIONS), str(self.random.random())), "")
        return "" if answer.status == 200 and answer.json()["stage"] == "active" else str(answer)

    def _try(self, wasm: bytes) -> Answer:
        return self._upload(wasm, self.random.choice(["", "&dryRun=true"]))

    def _upload(self, wasm: bytes, more: str) -> Answer:
        return self._asker.ask("PUT", f"{self.plugin}/module?wait=5s{more}", wasm or b"\0", "application/wasm")

    def _ask(self, method: str, path: str, body: object = None) -> Answer:
        return self._asker.ask(method, path, None if body is None else json.dumps(body).encode())

    def _change_file(self) -> None:
        self._replace(self._config.with_name("versions.wasm"), self.random.choice(MODULES))

    def _change_config(self) -> None:
        changed = self._text.replace("weight: 1", f"weight: {self.random.randint(1, 9)}")
        self._replace(self._config, self.random.choice([self._text, changed, "profiles: ["]).encode())

    def _replace(self, file: Path, content: bytes) -> None:
        beside = file.with_suffix(".new")
        beside.write_bytes(content)
        beside.replace(file)


LOOKS: Final = (
    "/readyz?verbose",
    "/metrics",
    "/openapi.json",
    "/api/v1/plugins",
    "/api/v1/profiles",
    "/api/v1/history",
    "/api/v1/plugins/versions/revisions",
    "/api/v1/nothing",
)


class Rude(Client):
    """Begins and does not end, sends all at once, sends rubbish, and listens without reading."""

    pause_s = 0.05

    def __init__(self, place: Place, seed: object) -> None:
        super().__init__(place, f"{seed} rude")
        self._acts = (self._abort, self._be_half, self._pipeline, self._talk_rubbish, self._listen)

    def act(self) -> None:
        """Does one bad thing; what is answered does not matter."""
        port = self.random.choice(self.place)
        with suppress(OSError), closing(socket.create_connection((LOOPBACK, port), timeout=5)) as connection:
            self.random.choice(self._acts)(connection)

    def _abort(self, connection: socket.socket) -> None:
        promised = self.random.randint(1, 4 << 20)
        connection.sendall(b"POST /filter HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % promised)
        connection.sendall(b"{" * self.random.randint(0, promised - 1))

    def _be_half(self, connection: socket.socket) -> None:
        connection.sendall(b"GET /livez HTTP/1.1\r\nHost: x\r\nX-Half: "[: self.random.randint(1, 40)])
        connection.settimeout(self.random.uniform(0, 1))
        connection.recv(1000)

    def _pipeline(self, connection: socket.socket) -> None:
        connection.sendall(b"GET /livez HTTP/1.1\r\nHost: x\r\n\r\n" * self.random.randint(1, 2000))

    def _talk_rubbish(self, connection: socket.socket) -> None:
        connection.sendall(self.random.randbytes(self.random.randint(1, 100_000)))

    def _listen(self, connection: socket.socket) -> None:
        connection.sendall(b"GET /api/v1/events HTTP/1.1\r\nHost: x\r\n\r\n")
        connection.settimeout(self.random.uniform(0, 1))
        while connection.recv(10_000):
            pass
