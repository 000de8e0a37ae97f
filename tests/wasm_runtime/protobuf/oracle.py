"""The Go types of the API: the commands of tests/gotypes, and our answers beside Go's."""

import base64
import json
import subprocess
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec

from tests.patience import PATIENCE_S
from wasm_runtime.protobuf import EncodeError, encode_node, encode_pod

ENCODERS = {"Pod": encode_pod, "Node": encode_node}


class Object(NamedTuple):
    """A Pod or Node as JSON text."""

    kind: str
    json: str


class Answer(NamedTuple):
    """What became of an object on both sides."""

    ours: str
    """The text of our EncodeError; empty where there was none."""
    go: str
    """`OK`; `REJECT reason` if Go refuses the JSON; `DIFFERENT diff` if our bytes say something else."""


class GoTypes:
    """The commands of tests/gotypes (see there)."""

    def __init__(self, binary: Path) -> None:
        self._binary = binary

    def schema(self) -> str:
        """The text of `schema.py` by the Go types."""
        return self._run(["schema"])

    def random(self, seed: int, count: int) -> list[Object]:
        """Random objects, the same for the same seed."""
        lines = self._run(["random", "-seed", str(seed), "-count", str(count)]).splitlines()
        return [Object(line["kind"], line["json"]) for line in map(json.loads, lines)]

    def compare(self, objects: Iterable[Object]) -> list[Answer]:
        """Encode each object here and let Go compare the bytes with the JSON."""
        objects = list(objects)
        encoded = [_encode(item) for item in objects]
        verdicts = self.check(objects, [None if isinstance(data, str) else data for data in encoded])
        return [
            Answer(data if isinstance(data, str) else "", verdict)
            for data, verdict in zip(encoded, verdicts, strict=True)
        ]

    def check(self, objects: Sequence[Object], encoded: Sequence[bytes | None]) -> list[str]:
        """Go's verdict on each object with its protobuf; with None it judges the JSON alone."""
        questions = [
            {
                "kind": kind,
                "json": text,
                "protobuf": None if data is None else base64.b64encode(data).decode(),
            }
            for (kind, text), data in zip(objects, encoded, strict=True)
        ]
        verdicts = self._run(["check"], "\n".join(map(json.dumps, questions))).splitlines()
        assert len(verdicts) == len(questions)
        return verdicts

    def _run(self, arguments: list[str], stdin: str = "") -> str:
        command = [str(self._binary), *arguments]
        done = subprocess.run(
            command, input=stdin, capture_output=True, encoding="utf-8", check=False, timeout=PATIENCE_S
        )
        assert done.returncode == 0, done.stderr
        return done.stdout


def _encode(item: Object) -> bytes | str:
    """Our bytes, or the text of our error."""
    try:
        return ENCODERS[item.kind](msgspec.json.decode(item.json))
    except EncodeError as error:
        return str(error)
