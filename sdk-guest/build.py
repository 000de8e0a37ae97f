"""Builds guests: examples and policies of every language whose compiler is there, or the sources that are given."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from builders import POLICIES, SOURCES

from extender.commands.build import LANGUAGES, BuildError, describe, find
from extender.commands.build.metadata import describe_plugin
from wasm_runtime.module.metadata import Metadata, embed


def main() -> int:
    """Builds or tests what the command line names, and returns the exit status."""
    arguments = parse_arguments()
    try:
        for name, sources in chosen(arguments.sources, arguments.language).items():
            if arguments.test:
                LANGUAGES[name].builder.test(sources or SOURCES[name].tests)
            else:
                build(name, sources, arguments.out)
    except BuildError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


def parse_arguments() -> argparse.Namespace:
    """Reads the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    suffixes = ", ".join(language.suffix for language in LANGUAGES.values())
    parser.add_argument("sources", nargs="*", type=Path, metavar="SOURCE", help=f"a plugin's root file ({suffixes})")
    parser.add_argument("--language", choices=LANGUAGES, help="of what to build (default: any)")
    parser.add_argument(
        "--out",
        type=Path,
        metavar="DIR",
        help="where the modules go (default: for a SOURCE the current directory, for examples their language's)",
    )
    parser.add_argument("--test", action="store_true", help="run the unit tests natively instead of building")
    arguments = parser.parse_args()
    if arguments.out and not (arguments.sources or arguments.language):
        parser.error("the examples of all languages have the same names: --out needs --language")
    return arguments


def chosen(sources: Sequence[Path], language: str | None) -> Mapping[str, Sequence[Path]]:
    """The languages to build, each with its sources, or with none for its examples. Raises BuildError."""
    if not sources:
        return dict.fromkeys([language] if language else those_there(), ())
    names = {each.suffix: name for name, each in LANGUAGES.items() if language in {None, name}}
    found: dict[str, list[Path]] = {}
    for source in sources:
        if source.suffix not in names:
            raise BuildError(f"{source}: expected a file that ends in {', '.join(names)}")
        found.setdefault(names[source.suffix], []).append(source)
    return found


def those_there() -> list[str]:
    """The languages whose compiler is there; says which are left out. Raises BuildError if all are."""
    there = []
    for name, language in LANGUAGES.items():
        try:
            language.builder.check()
        except BuildError as error:
            print(f"*** LEFT OUT {name}: {error} ***", file=sys.stderr)
        else:
            there.append(name)
    if not there:
        raise BuildError("there is no compiler of any language")
    return there


def build(language: str, sources: Sequence[Path], out: Path | None) -> None:
    """Builds sources of one language; without any, its examples and policies."""
    LANGUAGES[language].builder.check()
    if sources:
        build_all(language, {source.stem: source for source in sources}, out or Path())
    else:
        build_all(language, SOURCES[language].examples, out or SOURCES[language].modules)
        build_all(language, SOURCES[language].policies, out or POLICIES)


def build_all(language: str, plugins: Mapping[str, Path], directory: Path) -> None:
    """Builds plugins by name into a directory."""
    directory.mkdir(parents=True, exist_ok=True)
    for name, source in plugins.items():
        module = LANGUAGES[language].builder.build(source, directory / f"{name}.wasm")
        told = describe_plugin(find(source))
        if told.config_schema:  # The library's version is not told: the bytes are to be those of the sources alone.
            module.write_bytes(embed(module.read_bytes(), Metadata(config_schema=told.config_schema)))
        print(describe(module), flush=True)


if __name__ == "__main__":
    sys.exit(main())
