"""The files of a new plugin, made of templates and of the library of its language."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Mapping
from enum import Enum
from importlib import metadata
from pathlib import Path
from typing import Final

from extender.commands.build import SDK
from extender.commands.build.metadata import VERSION

TEMPLATES: Final = Path(__file__).parent / "templates"
ALL: Final = "all"
"""The folder of the templates that all languages share."""

LIBRARY: Final = "guest"
"""The folder of a plugin with a copy of the library, so that a new release of kwx does not change what is built."""

NAME: Final = re.compile(r"[a-z]([a-z0-9-]{0,61}[a-z0-9])?")
"""Names that a plugin, a Go module and a crate may have."""

GO_PATH: Final = "kwx.dev/guest"
"""The path of the library as a Go module."""

PLACEHOLDER: Final = "PLUGIN_NAME"
DOT: Final = "dot."
"""The prefix of templates whose files have names that begin with a dot."""


class ProjectError(Exception):
    """A plugin cannot be made. `str()` says why."""


def create(language: str, name: str, parent: Path) -> Path:
    """Makes a folder `name` in `parent`, and returns it. Raises ProjectError and OSError."""
    if not NAME.fullmatch(name):
        raise ProjectError(f"{name!r} is no name for a plugin: expected up to 63 of a-z, 0-9 and -, a letter first")
    if name == LIBRARY:
        raise ProjectError(f"{name!r} is the name of the library: choose another one")
    folder = parent / name
    if folder.exists():
        raise ProjectError(f"{folder} is there already: remove it, or choose another name")
    for templates in (ALL, language):
        _copy(TEMPLATES / templates, folder, name)
    _LIBRARIES[language](folder, name)
    (folder / LIBRARY / VERSION).write_text(f"{_version()}\n", encoding="utf-8")
    return folder


def _version() -> str:
    return metadata.version("kube-wasm-extender")


def _copy(templates: Path, folder: Path, name: str) -> None:
    for template in sorted(each for each in templates.rglob("*") if each.is_file()):
        path = "/".join(part.replace(DOT, ".", 1) for part in template.relative_to(templates).parts)
        file = folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        text = template.read_text(encoding="utf-8").replace(PLACEHOLDER, name)
        before = file.read_text(encoding="utf-8") if file.exists() else ""
        file.write_text(before + text, encoding="utf-8")


def _go(folder: Path, name: str) -> None:
    """Puts the library into the folder as a Go module of its own; the plugin's module requires what it requires."""
    sources = SDK / "go"
    shutil.copytree(sources, folder / LIBRARY, ignore=shutil.ignore_patterns("examples", "*_test.go"))
    shutil.copy(sources / "go.sum", folder / "go.sum")
    required = (sources / "go.mod").read_text(encoding="utf-8").partition("\n")[2]
    own = f"require {GO_PATH} v{_version()}\n\nreplace {GO_PATH} => ./{LIBRARY}\n"
    (folder / "go.mod").write_text(f"module {name}\n{required}\n{own}", encoding="utf-8")


def _rust(folder: Path, name: str) -> None:
    """Makes the library and the plugin crates of their own. `kwx build` does without Cargo; editors do not."""
    shutil.copytree(SDK / "rust" / "src", folder / LIBRARY / "src")
    shutil.copy(SDK / "rust" / "Cargo.toml", folder / LIBRARY)
    (folder / "Cargo.toml").write_text(f'[package]\nname = "{name}"\n{_CARGO}', encoding="utf-8")


def _typescript(folder: Path, _name: str) -> None:
    """Makes the library an npm package. `kwx build` does without npm's folders; editors do not."""
    shutil.copytree(SDK / "assemblyscript" / "guest", folder / LIBRARY, ignore=shutil.ignore_patterns("node_modules"))


_CARGO: Final = f"""\
version = "0.1.0"
edition = "2021"

[lib]
crate-type = ["cdylib"]

[dependencies]
kwx-guest = {{ path = "{LIBRARY}" }}
"""

_LIBRARIES: Final[Mapping[str, Callable[[Path, str], None]]] = {
    "go": _go,
    "rust": _rust,
    "typescript": _typescript,
}
"""Functions that put the library into the folder of a plugin with a name, by language."""

LANGUAGES = Enum("LANGUAGES", {name: name for name in _LIBRARIES}, type=str)  # type: ignore[misc]
"""The languages that a new plugin may be written in."""
