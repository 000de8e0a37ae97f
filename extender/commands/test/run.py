"""Runs files of cases on engines."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from extender.commands.call.options import OptionError
from extender.commands.terminal import compiling
from extender.commands.test import cases
from extender.commands.test.cases import FILE_NAME, Case, Cases
from extender.commands.test.compare import Difference, differences
from extender.commands.test.document import DocumentError
from extender.commands.test.play import Answer, CaseError, Stage
from extender.commands.test.update import update
from extender.config import RuntimeConfig
from extender.rollouts.engines import EngineError, Engines
from extender.rollouts.plugin_factory import LoadError
from extender.sources import SourceError
from extender.sources.download import Limit
from extender.sources.file import read
from wasm_runtime.compile.cache import CacheError

ENGINES: Final = ("wasmtime", "wasmer")
"""The engines, in the order in which they run. `--update` writes the answers of the first one."""


class TestError(Exception):
    """Cases cannot be run. `str()` says why."""

    __test__ = False  # It is no test, whatever its name.


class Result(NamedTuple):
    """The result of a case on an engine."""

    file: Path
    case: Case
    engine: str
    answers: Sequence[Answer]
    differences: Sequence[Difference]
    seconds: float


def run(
    paths: Sequence[Path],
    *,
    module: Path | None = None,
    engine: str | None = None,
    name: str = "",
    is_update: bool = False,
) -> list[Result]:
    """Runs the cases whose name has `name` in it, on one engine or on all that are there.

    `module` is in the place of those that the files name. Raises TestError.
    """
    results: list[Result] = []
    try:
        engines = _engines(engine)
        for file in _files(paths):
            found = _chosen(cases.read(file), name)
            of_file = list(_run(found, module, engines)) if found.cases else []
            results += _updated(found, of_file) if is_update else of_file
    except LoadError as error:
        raise TestError("\n".join(error.problems)) from error
    except (CacheError, DocumentError, EngineError, OptionError, SourceError) as error:
        raise TestError(str(error)) from error
    if not results:
        raise TestError(f"no case has {name!r} in its name" if name else "there are no cases")
    return results


def _files(paths: Sequence[Path]) -> Iterator[Path]:
    for path in paths:
        if not path.is_dir():
            yield path
            continue
        files = sorted(path.rglob(FILE_NAME))
        if not files:
            raise TestError(f"there is no {FILE_NAME} in {path}")
        yield from files


def _engines(wanted: str | None) -> list[str]:
    """The engine that is wanted, or all that are installed. Raises CacheError and EngineError."""
    engines, found = Engines(RuntimeConfig()), []
    if wanted:
        engines.get(wanted)
        return [wanted]
    for name in ENGINES:
        try:
            engines.get(name)
        except EngineError:
            continue
        found.append(name)
    return found


def _chosen(found: Cases, name: str) -> Cases:
    return found._replace(cases=[case for case in found.cases if name in case.name])


def _run(found: Cases, module: Path | None, engines: Iterable[str]) -> Iterator[Result]:
    path = module or found.module
    if path is None:
        raise TestError(f"{found.file}: which module? Name it by the key module, or by --module")
    wasm = read(path, Limit(RuntimeConfig().module_limit, "runtime.moduleLimit"))
    for engine in engines:
        stage = Stage(path, wasm, engine)
        with compiling(path, len(wasm)):
            stage.compile()
        for case in found.cases:
            try:
                played = stage.play(case)
            except CaseError as error:
                raise TestError(f"{found.file}:{case.line}: {case.name}: {error}") from error
            differing = differences(case.steps, played.answers)
            yield Result(found.file, case, engine, played.answers, differing, played.seconds)


def _updated(found: Cases, results: Sequence[Result]) -> list[Result]:
    """The results beside a file that has the answers of the first engine in it. Raises DocumentError."""
    first = [each for each in results if each.differences and each.engine == results[0].engine]
    if not first:
        return list(results)
    try:
        update(found.file, [pair for each in first for pair in zip(each.case.steps, each.answers, strict=False)])
    except DocumentError as error:
        error.file = found.file
        raise
    again = {case.name: case for case in cases.read(found.file).cases}
    return [
        each._replace(case=again[each.case.name], differences=differences(again[each.case.name].steps, each.answers))
        for each in results
    ]
