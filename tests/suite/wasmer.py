"""An environment of CPython 3.10 for the tests that need wasmer, in .venv; wasmer has no release for a newer Python."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]
ENVIRONMENT: Final = ROOT / ".venv" / "wasmer-3.10"
PROJECT: Final = ROOT / "pyproject.toml"
TESTS: Final = (
    "tests/conformance",
    "tests/extender/commands/test",
    "tests/wasm_runtime/engines",
    "tests/extender/webhook/test_wasmer.py",
    "tests/sdk_guest/test_answers.py",
    "tests/sdk_guest/test_nodeinfo.py",
    "tests/sdk_guest/test_nodenumber.py",
    "tests/sdk_guest/test_policies.py",
    "tests/sdk_guest/test_points.py",
    "tests/sdk_guest/test_groups.py",
)

INSTALL_TIMEOUT_S: Final = 900.0

_IS_FIT: Final = (
    "import ensurepip, sys, venv; sys.exit(sys.version_info[:2] != (3, 10) or sys.implementation.name != 'cpython')"
)


def python() -> Path | None:
    """The interpreter of an environment that has wasmer, made or made anew if need be; None without a CPython 3.10."""
    if base := next(filter(_is_fit, _candidates()), None):
        _provide(base)
        return ENVIRONMENT / "bin" / "python"
    return None


def _candidates() -> Iterator[str]:
    """Programs that may be a CPython 3.10. pyenv's in PATH is a shim, which works only if that version is chosen."""
    if found := shutil.which("python3.10"):
        yield found
    pyenv = Path(os.environ.get("PYENV_ROOT") or "~/.pyenv").expanduser()
    yield from map(str, pyenv.glob("versions/3.10.*/bin/python"))
    if uv := shutil.which("uv"):
        find = [uv, "python", "find", "3.10"]
        yield subprocess.run(
            find, check=False, timeout=INSTALL_TIMEOUT_S, capture_output=True, text=True
        ).stdout.strip()


def _is_fit(python: str) -> bool:
    """Whether an environment can be made of it."""
    try:
        return (
            subprocess.run(
                [python, "-I", "-c", _IS_FIT], check=False, timeout=INSTALL_TIMEOUT_S, capture_output=True
            ).returncode
            == 0
        )
    except OSError:
        return False


def _provide(python: str) -> None:
    """Makes the environment, again when what it is made by has changed."""
    stamp = ENVIRONMENT / ".installed"
    if stamp.exists() and stamp.stat().st_mtime > PROJECT.stat().st_mtime:
        return
    subprocess.run([python, "-m", "venv", "--clear", ENVIRONMENT], check=True, timeout=INSTALL_TIMEOUT_S)
    pip: list[str | Path] = [
        ENVIRONMENT / "bin" / "python",
        "-m",
        "pip",
        "install",
        "--quiet",
        "--disable-pip-version-check",
    ]
    subprocess.run([*pip, "--editable", ".[wasmer,test]"], check=True, timeout=INSTALL_TIMEOUT_S, cwd=ROOT)
    stamp.touch()
