"""Runs what needs wasmer, in an environment of CPython 3.10 that it makes in .venv.

wasmer has no release for a newer Python. On CPython 3.10 there is nothing to do: the main run has it all.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[1]
ENVIRONMENT: Final = ROOT / ".venv" / "wasmer-3.10"
PROJECT: Final = ROOT / "pyproject.toml"
TESTS: Final = ("tests/conformance", "tests/wasm_runtime/engines", "tests/extender/test_wasmer.py")

_IS_FIT: Final = (
    "import ensurepip, sys, venv; sys.exit(sys.version_info[:2] != (3, 10) or sys.implementation.name != 'cpython')"
)


def main() -> int:
    """Returns the exit status of pytest; 0 where there is no CPython 3.10, which is said."""
    if sys.version_info < (3, 11):
        return 0
    python = next(filter(_is_fit, _candidates()), None)
    if python is None:
        print("*** THE WASMER ENGINE WAS NOT TESTED: no CPython 3.10 in PATH, pyenv or uv ***", file=sys.stderr)
        return 0
    _provide(python)
    pytest = [ENVIRONMENT / "bin" / "python", "-m", "pytest", *TESTS, *sys.argv[1:]]
    return subprocess.run(pytest, check=False, cwd=ROOT).returncode


def _candidates() -> Iterator[str]:
    """Where a CPython 3.10 may be. One of pyenv's in PATH is a shim, which works where that version is chosen."""
    if found := shutil.which("python3.10"):
        yield found
    pyenv = Path(os.environ.get("PYENV_ROOT") or "~/.pyenv").expanduser()
    yield from map(str, pyenv.glob("versions/3.10.*/bin/python"))
    if uv := shutil.which("uv"):
        find = [uv, "python", "find", "3.10"]
        yield subprocess.run(find, check=False, capture_output=True, text=True).stdout.strip()


def _is_fit(python: str) -> bool:
    """Whether an environment can be made of it."""
    try:
        return subprocess.run([python, "-I", "-c", _IS_FIT], check=False, capture_output=True).returncode == 0
    except OSError:
        return False


def _provide(python: str) -> None:
    """Makes the environment, again when what it is made by has changed."""
    stamp = ENVIRONMENT / ".installed"
    if stamp.exists() and stamp.stat().st_mtime > PROJECT.stat().st_mtime:
        return
    subprocess.run([python, "-m", "venv", "--clear", ENVIRONMENT], check=True)
    pip = [ENVIRONMENT / "bin" / "python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*pip, "--editable", ".[wasmer,test]"], check=True, cwd=ROOT)
    stamp.touch()


if __name__ == "__main__":
    sys.exit(main())
