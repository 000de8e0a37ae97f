"""Finds waits that have no bound, and sleeps in an event's place: both make a run hang, or red by chance."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Final

HELPERS: Final = "tests/patience.py"
"""The module whose functions wait with a bound and say what has not come."""

UNBOUNDED: Final = {
    "join": "give it a timeout, or use tests.patience.Beside",
    "wait": "give it a timeout, and assert what it returns",
    "get": "give it a timeout",
    "result": "give it a timeout",
    "acquire": "give it a timeout, and assert what it returns",
    "communicate": "give it a timeout",
}
"""Methods that wait for ever when they are called without arguments, and what to do."""

PROCESSES: Final = {"run", "call", "check_call", "check_output"}
"""Functions of subprocess that wait for ever without `timeout`."""

PIPES: Final = {"stdout", "stderr"}
READS: Final = {"read", "read1", "readline", "readlines"}
"""Methods of a process's pipes, which know no timeout."""


def findings(file: Path, *, may_sleep: bool = False) -> Iterator[str]:
    """What waits for ever, or for time to pass, in a file: where, and what to do instead.

    Coroutines are left out, and executors that are left: the end of a test's own time gets them out (`timeouts`).
    So are loops over the lines of a pipe, which is what a thread beside does.
    """
    tree = ast.parse(file.read_text(encoding="utf-8"))
    bounded = {id(each) for node in ast.walk(tree) for each in _bounded(node)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and id(node) not in bounded and (mend := _mend(node, may_sleep=may_sleep)):
            yield f"{file}:{node.lineno}: {ast.unparse(node.func)} {mend}"


def _bounded(node: ast.AST) -> list[ast.expr]:
    """What is a coroutine, or has its bound from the call around it."""
    match node:
        case ast.Await(call):
            return [call]
        case ast.Call(ast.Attribute(ast.Name("asyncio"), "wait_for"), [call, *_]):
            return [call]
    return []


def _mend(call: ast.Call, *, may_sleep: bool) -> str | None:
    """What to do about a call that waits without bound; None if it does not."""
    named = {keyword.arg for keyword in call.keywords}
    match call.func:
        case ast.Attribute(ast.Name("time"), "sleep") if not may_sleep:
            return "waits for time to pass: use tests.patience.wait_until for an event, or delay to play what is slow"
        case ast.Attribute(ast.Name("subprocess"), name) if name in PROCESSES and "timeout" not in named:
            return "waits for ever: give it a timeout"
        case ast.Attribute(_, "communicate") if "timeout" not in named:
            return f"waits for ever: {UNBOUNDED['communicate']}"
        case ast.Attribute(ast.Attribute(_, pipe), name) if pipe in PIPES and name in READS:
            return f"waits for ever: use tests.patience.Beside({ast.unparse(call.func)}).end()"
        case ast.Attribute(_, name) if name in UNBOUNDED and not call.args and not call.keywords:
            return f"waits for ever: {UNBOUNDED[name]}"
    return None
