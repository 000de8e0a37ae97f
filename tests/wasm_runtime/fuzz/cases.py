"""The modules of a run: each depends on the seed and its number alone, so that it can be made again."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from random import Random

from tests.wasm_runtime import keeper, moody, pod_keeper
from tests.wasm_runtime.fuzz.invent import invent
from tests.wasm_runtime.fuzz.mutate import PREAMBLE, mutate
from tests.wasm_runtime.guest_modules import binary

EXAMPLES = Path(__file__).parents[3] / "extender" / "examples"
LARGE = 100_000
"""Bytes of a module that takes long to compile, so that it is taken seldom."""


class Cases:
    """Modules by number."""

    def __init__(self, seed: int, directories: Iterable[Path] = ()) -> None:
        """Mutates the example guests and the modules below further directories."""
        self._seed = seed
        paths = sorted({path for each in (EXAMPLES, *directories) for path in each.rglob("*.wasm")})
        self._good = [
            *map(binary, (moody.GUEST, keeper.GUEST, pod_keeper.GUEST)),
            *(path.read_bytes() for path in paths),
        ]
        self._weights = [1.0 if len(wasm) < LARGE else 0.02 for wasm in self._good]

    def __getitem__(self, number: int) -> bytes:
        dice = Random(f"{self._seed} {number}")
        kind = dice.random()
        if kind < 0.01:
            return PREAMBLE[: dice.randrange(9)] + dice.randbytes(dice.randrange(200))
        if kind < 0.45:
            return invent(dice)
        good, other = dice.choices(self._good, self._weights, k=2)
        return mutate(dice, good if kind < 0.85 else invent(dice), other)
