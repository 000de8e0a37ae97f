"""How many functions a request passes on its way: who reads them has to know as many."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

import extender
from extender.scheduling.inline_policy import MIN_QUICK_CALLS
from tests.extender.kwx import plugin, profile
from tests.extender.objects import NODE_NAMES, names_args, pod
from tests.extender.rollouts.inside import Inside

MAX_FUNCTIONS = 30
MAX_CALLS = 50 * MIN_QUICK_CALLS
"""By then a plugin has been quick often enough in a row."""
PACKAGE = Path(extender.__file__).parent


@contextmanager
def passing() -> Iterator[list[str]]:
    """The functions of the extender that are called while the context lasts, each once, in their order."""
    seen: dict[str, None] = {}

    def see(frame: FrameType, event: str, _: Any) -> None:
        code = frame.f_code
        if event == "call" and Path(code.co_filename).is_relative_to(PACKAGE):
            seen[f"{Path(code.co_filename).relative_to(PACKAGE)}:{code.co_firstlineno} {code.co_name}"] = None

    functions: list[str] = []
    sys.setprofile(see)
    try:
        yield functions
    finally:
        sys.setprofile(None)
        functions += seen


@pytest.mark.parametrize("verb", ["filter", "prioritize"])
def test_a_request_passes_few_functions(tmp_path: Path, verb: str) -> None:
    with Inside(tmp_path, profile("default", plugin("nodenumber"))) as inside:

        def request(name: str) -> Mapping[str, Any]:
            return names_args(NODE_NAMES, pod(name))

        (judge,) = inside.live.profiles.of_scheduler("").plugins
        for at in range(MAX_CALLS):  # On a busy machine now and then one is not quick.
            if judge.inline_policies[verb].may_run_inline:
                break
            inside.ask(f"/{verb}", request(f"web-{at}"))

        async def ask() -> list[str]:
            with passing() as functions:
                inside.begin_to_ask(f"/{verb}", request("last"))
            return functions

        functions = inside.run(ask())
        assert len(functions) <= MAX_FUNCTIONS, "\n".join(functions)
