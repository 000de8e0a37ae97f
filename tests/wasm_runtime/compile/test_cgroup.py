"""How much memory is left, as the files of control groups tell it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from wasm_runtime.compile.cgroup import memory_left

MIB = 1024 * 1024
UNLIMITED = 0x7FFF_FFFF_FFFF_F000
"""What v1 says where there is no limit."""


def v2(limit: str, usage: int = 0, inactive: int = 0) -> dict[str, str]:
    stat = f"anon 5\ninactive_file {inactive}\n"
    return {"memory.max": f"{limit}\n", "memory.current": f"{usage}\n", "memory.stat": stat}


def v1(limit: int, usage: int = 0, inactive: int = 0) -> dict[str, str]:
    stat = f"inactive_file 7\ntotal_inactive_file {inactive}\n"
    return {"memory.limit_in_bytes": f"{limit}\n", "memory.usage_in_bytes": f"{usage}\n", "memory.stat": stat}


def written(root: Path, groups: str, files: Mapping[str, Mapping[str, str]]) -> Path:
    for folder, texts in {"proc/self": {"cgroup": groups}, **files}.items():
        (root / folder).mkdir(parents=True, exist_ok=True)
        for name, text in texts.items():
            (root / folder / name).write_text(text)
    return root


V2 = "sys/fs/cgroup"
V1 = "sys/fs/cgroup/memory"


@pytest.mark.parametrize(
    ("groups", "files", "left"),
    [
        ("0::/pods/kwx\n", {f"{V2}/pods/kwx": v2("1000", 300)}, 700),
        ("0::/pods/kwx\n", {f"{V2}/pods/kwx": v2("1000", 300, inactive=100)}, 800),
        ("0::/pods/kwx\n", {f"{V2}/pods/kwx": v2("1000", 300), f"{V2}/pods": v2("900", 500)}, 400),
        ("0::/pods/kwx\n", {f"{V2}/pods/kwx": v2("max", 300), f"{V2}/pods": v2("900", 500)}, 400),
        ("0::/pods/kwx\n", {f"{V2}/pods/kwx": v2("max", 300)}, None),
        ("0::/pods/kwx\n", {f"{V2}/pods/kwx": v2("1000", 1200)}, 0),
        ("0::/\n", {V2: v2("1000", 300)}, 700),
        ("4:memory:/kubepods/kwx\n1:cpu:/\n", {f"{V1}/kubepods/kwx": v1(1000, 300, 50)}, 750),
        ("4:memory:/kubepods/kwx\n", {V1: v1(1000, 300)}, 700),
        ("4:cpu,memory:/kwx\n0::/\n", {f"{V1}/kwx": v1(1000, 300), V1: v1(UNLIMITED, 400)}, 700),
        ("1:cpu:/kwx\n0::/\n", {}, None),
        ("", {}, None),
    ],
)
def test_the_tightest_group_counts(
    tmp_path: Path, groups: str, files: Mapping[str, Mapping[str, str]], left: int | None
) -> None:
    assert memory_left(written(tmp_path, groups, files)) == left


def test_files_that_cannot_be_read_are_no_limit(tmp_path: Path) -> None:
    assert memory_left(tmp_path) is None


@pytest.fixture
def group() -> Iterator[Path]:
    """A real control group of 250 MiB, where this process may make one."""
    path = Path("/sys/fs/cgroup/memory") / f"kwx-test-{os.getpid()}"
    try:
        path.mkdir()
        (path / "memory.limit_in_bytes").write_text(str(250 * MIB))
    except OSError as error:
        pytest.skip(
            f"no control group can be made ({error}): run the tests as root, with cgroup v1's memory controller"
        )
    yield path
    path.rmdir()


COMPILES = """
import os, sys
from pathlib import Path
Path(sys.argv[1], "cgroup.procs").write_text(str(os.getpid()))
from tests.wasm_runtime.compile.test_compiler import LONG, slow
from wasm_runtime import ModuleError, WasmtimeEngine
from wasm_runtime.compile.compiler import Compiler
try:
    Compiler(WasmtimeEngine(), None, LONG).compile(slow(2000, 200))
except ModuleError as error:
    print(error)
"""


def test_a_module_that_takes_more_is_refused_and_the_process_lives(group: Path) -> None:
    ended = subprocess.run(
        [sys.executable, "-c", COMPILES, str(group)], capture_output=True, text=True, timeout=300, check=False
    )
    assert (ended.returncode, ended.stderr) == (0, "")
    assert "memory allocation of " in ended.stdout
    assert (
        "which the memory limit of this container leaves; make the module smaller or raise that limit" in ended.stdout
    )
    assert int((group / "memory.failcnt").read_text()) == 0, "the kernel had to look for memory"
