"""Compiling in a child process: what comes back, what stops it, and what is kept."""

import json
import logging
import os
import pickle
import resource
import signal
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, cast

import pytest

from tests.patience import PATIENCE_S, wait_until
from tests.wasm_runtime.conftest import Loader
from tests.wasm_runtime.guest_modules import REASON, binary, call, export, module
from tests.wasm_runtime.world import filter_nodes, world
from wasm_runtime import Fault, GuestError, ModuleError, WasmtimeEngine
from wasm_runtime.blob import Blob
from wasm_runtime.compile.cache import FORMAT, SUFFIX, CompileCache, Entry
from wasm_runtime.compile.child import MAX_CODE_BYTES, NICENESS
from wasm_runtime.compile.compiler import (
    HOST_RESERVE_BYTES,
    MAX_CHILD_MEMORY_BYTES,
    MIN_CHILD_MEMORY_BYTES,
    Compiled,
    Compiler,
)
from wasm_runtime.engine import DEFAULT_STACK_BYTES, MAX_STACK_BYTES, MEBIBYTE, Engine, Module, NodeResults
from wasm_runtime.module.binary import Interface

GUEST = module(export("filter", call(REASON, 1024, 5), "(i32.const 2)"), uses=[REASON], text="hello")
SMALL = binary(GUEST)
ANSWER = NodeResults(1, b"\x02", [], ["hello"])
ONE = world({"node-a": b"A"})

LONG = 300.0
"""Seconds for what must not run into its limit on the busiest machine."""

MEND = "; make the module smaller or give this process more memory"


def slow(blocks: int = 4000, variables: int = 1000) -> bytes:
    """A small module that takes minutes to compile: every variable may come from every block."""
    ends = (
        f"end local.get {7 * at % variables} local.get {13 * at % variables} i32.add local.set {at % variables}"
        for at in range(blocks)
    )
    jump = f"local.get 0 br_table {' '.join(map(str, range(blocks)))}"
    body = f"loop {'block ' * blocks} {jump} {' '.join(ends)} br 0 end"
    return binary(f"(module (func (local {'i32 ' * variables}) {body}))")


def child_niceness() -> int:
    """That of a process that compiles for this one, or for one that this one has started."""
    return min(os.getpriority(os.PRIO_PROCESS, 0) + NICENESS, 19)


def stat(process: int) -> list[str]:
    """What the kernel tells of a process, after its name: its state, its parent …"""
    return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()


def children(parent: int) -> list[int]:
    """The processes that a process has started to compile and that still run; it may have others."""
    found = []
    for process in [int(path.name) for path in Path("/proc").glob("[0-9]*")]:
        with suppress(OSError):
            state, of = stat(process)[:2]
            command = Path(f"/proc/{process}/cmdline").read_bytes()
            if int(of) == parent and state != "Z" and b"wasm_runtime.compile.child" in command:
                found.append(process)
    return found


def is_alive(process: int) -> bool:
    try:
        return stat(process)[0] != "Z"
    except OSError:
        return False


def wait_for(condition: Callable[[], Any]) -> Any:
    """What the condition gives once it is true."""
    return wait_until(condition, "what the compiler does", LONG)


def problems(compiler: Engine, wasm: bytes) -> list[str]:
    with pytest.raises(ModuleError) as caught:
        compiler.compile(wasm)
    return caught.value.problems


@pytest.fixture
def compiler(engine: WasmtimeEngine) -> Compiler:
    return Compiler(engine, None, LONG)


@pytest.fixture
def cache(tmp_path: Path) -> CompileCache:
    return CompileCache(tmp_path)


@pytest.fixture
def warnings(caplog: pytest.LogCaptureFixture) -> Callable[[], list[str]]:
    """What has been logged since this was last asked."""

    def read() -> list[str]:
        messages = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
        caplog.clear()
        return messages

    return read


def answer(compiler: Compiler, text: str = GUEST) -> NodeResults:
    """What a guest says of a node, compiled by that compiler."""
    load = Loader(compiler)
    try:
        return filter_nodes(load.plugin(text), ONE)
    finally:
        load.close()


class TestTheChild:
    def test_compiles(self, compiler: Compiler, engine: WasmtimeEngine) -> None:
        wasm = binary(GUEST)
        here, there = engine.compile(wasm), compiler.compile(wasm)
        assert (there.exports, there.imports) == (here.exports, here.imports)
        assert answer(compiler) == ANSWER

    def test_is_given_large_modules(self, compiler: Compiler, engine: WasmtimeEngine) -> None:
        wasm = binary(GUEST)
        custom = b"\0\xf7\xff\xff\x1f\x01x" + bytes((64 << 20) - 11)
        assert compiler.compile(wasm + custom).exports == engine.compile(wasm).exports

    @pytest.mark.parametrize(
        "wasm",
        [b"", b"hello", b"(module)", b"\0asm\x01\0\0\0\x01\x05", b"\0asm\x01\0\0\0\x07\x81\x80\x40" + bytes(1 << 20)],
    )
    def test_finds_the_problems_that_the_engine_finds(
        self, compiler: Compiler, engine: WasmtimeEngine, wasm: bytes
    ) -> None:
        assert problems(compiler, wasm) == problems(engine, wasm)

    def test_names_survive(self, compiler: Compiler) -> None:
        with pytest.raises(GuestError, match=r"^filter of node node-a: trap: unreachable in inner < filter$"):
            answer(compiler, module("(func $inner unreachable)", export("filter", "(call $inner)", "(i32.const 0)")))

    def test_is_stopped_at_the_limit(self, engine: WasmtimeEngine) -> None:
        assert problems(Compiler(engine, None, 1.25), slow()) == [
            "takes longer to compile than its limit of 1.25 s; make it smaller or raise runtime.compileTimeout"
        ]
        assert children(os.getpid()) == []

    def test_is_one_at_a_time_and_stopped_when_the_compiler_is_closed(self, compiler: Compiler) -> None:
        with ThreadPoolExecutor(2) as threads:
            futures = [threads.submit(problems, compiler, slow()) for _ in range(2)]
            wait_for(lambda: children(os.getpid()))
            assert len(children(os.getpid())) == 1
            compiler.close()
            found = [future.result(PATIENCE_S) for future in futures]
            assert found == [["is not compiled: the compiler was closed"]] * 2
        assert children(os.getpid()) == []
        assert problems(compiler, binary(GUEST)) == ["is not compiled: the compiler was closed"]

    def test_ends_with_its_parent(self, tmp_path: Path) -> None:
        script = (
            "import sys; from wasm_runtime import WasmtimeEngine; from wasm_runtime.compile.compiler import Compiler;"
            "Compiler(WasmtimeEngine(), None, 600).compile(sys.stdin.buffer.read())"
        )
        (tmp_path / "wasm").write_bytes(slow())
        with (
            (tmp_path / "wasm").open("rb") as wasm,
            subprocess.Popen([sys.executable, "-c", script], stdin=wasm) as parent,
        ):
            (child,) = wait_for(lambda: children(parent.pid))
            wait_for(lambda: os.getpriority(os.PRIO_PROCESS, child) == child_niceness())
            parent.kill()
        wait_for(lambda: not is_alive(child))

    def test_that_cannot_be_started(self, compiler: Compiler, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(sys, "executable", "/python")
        assert problems(compiler, binary(GUEST)) == [
            "cannot be compiled: no process can be started for it: [Errno 2] No such file or directory: '/python'"
        ]


@dataclass(frozen=True)
class Done:
    """What an engine that `Acts` loads."""

    code: bytes


@dataclass(frozen=True)
class Acts:
    """An engine that does something else in the child than to compile, and loads what that returned."""

    action: Callable[[], bytes]
    name = "acts"
    version = "1"

    def precompile(self, _: bytes) -> Compiled:
        return Compiled(Interface({}, {}), self.action())

    def load(self, compiled: Compiled) -> Any:
        return Done(compiled.read())


def surroundings() -> bytes:
    found = {
        "memory": [resource.getrlimit(limit)[0] for limit in (resource.RLIMIT_AS, resource.RLIMIT_DATA)],
        "core": resource.getrlimit(resource.RLIMIT_CORE)[0],
        "niceness": os.getpriority(os.PRIO_PROCESS, 0),
        "first to go": Path("/proc/self/oom_score_adj").read_text(),
        "environment": dict(os.environ),
        "isolated": sys.flags.isolated,
        "path": sys.path,
    }
    return json.dumps(found).encode()


def starve() -> bytes:
    engine, wasm = WasmtimeEngine(), slow(1000, 200)
    resource.setrlimit(resource.RLIMIT_AS, (1 << 20, 1 << 20))
    return engine.precompile(wasm).read()


def say_and_abort(text: str) -> bytes:
    print(text, file=sys.stderr)
    os.abort()


def test_the_childs_surroundings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOKEN", "secret")
    monkeypatch.setenv("PYTHONPATH", "/tmp")
    monkeypatch.setenv("LD_LIBRARY_PATH", "/nowhere/lib")
    core = resource.getrlimit(resource.RLIMIT_CORE)
    resource.setrlimit(resource.RLIMIT_CORE, (core[1], core[1]))
    left = 300 * MEBIBYTE
    try:
        done = cast(Done, Compiler(Acts(surroundings), None, LONG, lambda: left).compile(b""))
        found = json.loads(done.code)
    finally:
        resource.setrlimit(resource.RLIMIT_CORE, core)
    found["environment"].pop("LC_CTYPE", None)  # Python's own addition.
    assert found == {
        "memory": [MAX_CHILD_MEMORY_BYTES, left - HOST_RESERVE_BYTES],
        "core": 0,
        "niceness": child_niceness(),
        "first to go": "1000\n",
        "environment": {
            "LD_LIBRARY_PATH": "/nowhere/lib",
            "RAYON_NUM_THREADS": str(max(1, len(os.sched_getaffinity(0)) // 2)),
        },
        "isolated": 1,
        "path": sys.path,
    }


class TestMemoryOfAChild:
    """A kill of the whole control group would take the verbs with it."""

    def test_is_what_the_container_leaves(self, engine: WasmtimeEngine) -> None:
        left = 200 * MEBIBYTE
        compiler = Compiler(engine, None, LONG, lambda: left)
        (problem,) = problems(compiler, slow(2000, 200))
        assert problem.startswith("cannot be compiled: the compiler ended by signal SIGABRT: memory allocation of ")
        assert problem.endswith(
            "; it could take 136 MiB, which the memory limit of this container leaves;"
            " make the module smaller or raise that limit"
        )
        assert "filter" in compiler.compile(SMALL).exports

    def test_is_at_least_what_the_smallest_module_takes(self, engine: WasmtimeEngine) -> None:
        least = MIN_CHILD_MEMORY_BYTES + HOST_RESERVE_BYTES
        assert "filter" in Compiler(engine, None, LONG, lambda: least).compile(SMALL).exports
        assert problems(Compiler(engine, None, LONG, lambda: least - 1), SMALL) == [
            "cannot be compiled: the memory limit of this container leaves 127 MiB, which takes 128 MiB at least;"
            " raise that limit"
        ]

    def test_has_a_bound_where_the_container_has_none(self, engine: WasmtimeEngine) -> None:
        assert Compiler(engine, None, LONG, lambda: None)._memory() == MAX_CHILD_MEMORY_BYTES


def test_a_child_without_memory() -> None:
    (problem,) = problems(Compiler(Acts(starve), None, LONG), b"")
    assert problem.startswith("cannot be compiled: the compiler ended by signal SIGABRT: memory allocation of ")
    assert problem.endswith(MEND)


@pytest.mark.parametrize(
    ("action", "problem"),
    [
        (
            partial(signal.raise_signal, signal.SIGKILL),
            f"cannot be compiled: the compiler ended by signal SIGKILL{MEND}",
        ),
        (
            partial(signal.raise_signal, signal.SIGSEGV),
            f"cannot be compiled: the compiler ended by signal SIGSEGV{MEND}",
        ),
        (partial(signal.raise_signal, signal.SIGINT), f"cannot be compiled: the compiler ended by signal SIGINT{MEND}"),
        (partial(signal.raise_signal, 40), f"cannot be compiled: the compiler ended by signal 40{MEND}"),
        (partial(os._exit, 3), f"cannot be compiled: the compiler ended by exit status 3{MEND}"),
        (
            partial(say_and_abort, "no memory\n for it"),
            f"cannot be compiled: the compiler ended by signal SIGABRT: no memory for it{MEND}",
        ),
        (
            partial(say_and_abort, "x" * 100_000),
            f"cannot be compiled: the compiler ended by signal SIGABRT: {'x' * 248} … {'x' * 248}{MEND}",
        ),
        (
            partial(bytes, MAX_CODE_BYTES + 1),
            f"compiles to {MAX_CODE_BYTES + 1} bytes of code, the limit is {MAX_CODE_BYTES}",
        ),
    ],
)
def test_a_child_that_fails(action: Callable[[], bytes], problem: str) -> None:
    assert problems(Compiler(Acts(action), None, LONG), b"") == [problem]


class TestTheCache:
    @pytest.fixture
    def kept(self, engine: WasmtimeEngine, cache: CompileCache, tmp_path: Path) -> Path:
        """The file of a guest that was compiled."""
        assert answer(Compiler(engine, cache, LONG)) == ANSWER
        (path,) = tmp_path.iterdir()
        return path

    @pytest.fixture
    def from_cache(self, engine: WasmtimeEngine, cache: CompileCache) -> Compiler:
        """One that can compile nothing."""
        compiler = Compiler(engine, cache, LONG)
        compiler.close()
        return compiler

    @pytest.mark.usefixtures("kept")
    def test_a_module_is_compiled_once(self, from_cache: Compiler, engine: WasmtimeEngine) -> None:
        assert answer(from_cache) == ANSWER
        here, there = engine.compile(binary(GUEST)), from_cache.compile(binary(GUEST))
        assert (there.exports, there.imports) == (here.exports, here.imports)
        assert problems(from_cache, binary(module())) == ["is not compiled: the compiler was closed"]

    def test_a_mapped_module_outlives_its_file(self, from_cache: Compiler, kept: Path) -> None:
        load = Loader(from_cache)
        plugin = load.plugin(GUEST)
        assert str(kept) in Path("/proc/self/maps").read_text()
        kept.unlink()
        assert filter_nodes(plugin, ONE) == ANSWER
        load.close()

    def test_another_version_has_entries_of_its_own(self, cache: CompileCache, kept: Path) -> None:
        other = WasmtimeEngine()
        other.version += "-other"
        assert answer(Compiler(other, cache, LONG)) == ANSWER
        assert len(list(kept.parent.iterdir())) == 2

    def test_a_damaged_entry_is_compiled_again(
        self, engine: WasmtimeEngine, cache: CompileCache, kept: Path, warnings: Callable[[], list[str]]
    ) -> None:
        good = kept.read_bytes()
        kept.write_bytes(good[:5000] + b"?" + good[5001:])
        assert answer(Compiler(engine, cache, LONG)) == ANSWER
        assert warnings() == ["compiled code is thrown away: its checksum is wrong"]
        assert kept.read_bytes() == good

    def test_code_that_the_engine_refuses_is_compiled_again(
        self, engine: WasmtimeEngine, cache: CompileCache, kept: Path, warnings: Callable[[], list[str]]
    ) -> None:
        good = kept.read_bytes()
        key = kept.name.removesuffix(f"-{FORMAT}{SUFFIX}")
        entry = cache.get(key)
        assert entry
        cache.put(key, entry.interface, b"no code")
        assert answer(Compiler(engine, cache, LONG)) == ANSWER
        (warning,) = warnings()
        assert warning.startswith("compiled code is thrown away: is no code for this engine: ")
        assert kept.read_bytes() == good

    def test_an_entry_that_goes_before_it_is_loaded(
        self, engine: WasmtimeEngine, tmp_path: Path, warnings: Callable[[], list[str]]
    ) -> None:
        class Evicted(CompileCache):
            def get(self, key: str) -> Entry | None:
                entry = super().get(key)
                if entry:
                    entry.code.path.unlink()
                return entry

        assert answer(Compiler(engine, Evicted(tmp_path), LONG)) == ANSWER
        (warning,) = warnings()
        assert warning.startswith("compiled code is thrown away: is no code for this engine: ")

    def test_a_directory_that_cannot_be_written(
        self, engine: WasmtimeEngine, warnings: Callable[[], list[str]]
    ) -> None:
        compiler = Compiler(engine, CompileCache(Path("/proc/kwx")), LONG)
        assert [answer(compiler), answer(compiler)] == [ANSWER, ANSWER]
        (warning,) = warnings()
        assert warning.startswith("compiled code cannot be kept")

    def test_a_directory_whose_name_is_no_text(self, engine: WasmtimeEngine, tmp_path: Path) -> None:
        cache = CompileCache(Path(os.fsdecode(bytes(tmp_path) + b"/\xff")))
        assert answer(Compiler(engine, cache, LONG)) == ANSWER

    def test_several_processes_at_once(self, tmp_path: Path) -> None:
        script = (
            "import sys; from pathlib import Path; from wasm_runtime import WasmtimeEngine;"
            "from wasm_runtime.compile.cache import CompileCache; from wasm_runtime.compile.compiler import Compiler;"
            "compiler = Compiler(WasmtimeEngine(), CompileCache(Path(sys.argv[1])), 300);"
            "print(sorted(compiler.compile(sys.stdin.buffer.read()).exports))"
        )
        command = [sys.executable, "-c", script, str(tmp_path / "cache")]
        pipe = subprocess.PIPE
        processes = [subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe) for _ in range(2)]
        with ThreadPoolExecutor(2) as threads:
            results = threads.map(lambda process: process.communicate(binary(GUEST), timeout=LONG), processes)
            assert list(results) == [(b"['filter', 'memory']\n", b"")] * 2
        assert len(list((tmp_path / "cache").iterdir())) == 1


class TestTheEngine:
    def test_code_in_memory_and_in_a_file(self, engine: WasmtimeEngine, cache: CompileCache) -> None:
        compiled = engine.precompile(binary(GUEST))
        cache.put("key", compiled.interface.to_json(), compiled.read())
        entry = cache.get("key")
        assert entry
        kept = Compiled(Interface.from_json(entry.interface), entry.code)
        assert (kept.interface, kept.read()) == (compiled.interface, compiled.read())
        for each in (compiled, kept):
            loaded = engine.load(each)
            assert (loaded.exports, loaded.imports) == tuple(compiled.interface)

    @pytest.mark.parametrize("limit", [0, -1, MAX_STACK_BYTES + 1])
    def test_a_stack_limit_that_cannot_be(self, limit: int) -> None:
        with pytest.raises(ValueError, match=f"^wasmtime takes a stack limit of 1 to 2097152 bytes, not of {limit}$"):
            WasmtimeEngine(stack_limit=limit)

    def test_the_stack_limit_is_not_in_the_code(self, engine: WasmtimeEngine) -> None:
        deep = module(
            "(func $deep (param i32) (if (local.get 0) (then (call $deep (i32.sub (local.get 0) (i32.const 1))))))",
            export("filter", "(call $deep (i32.const 3000))", "(i32.const 0)"),
        )
        compiled = engine.precompile(binary(deep))

        def fault_with(limit: int) -> Fault | None:
            other = pickle.loads(pickle.dumps(WasmtimeEngine(stack_limit=limit)))
            assert other.version == engine.version
            load = Loader(Loads(other, compiled))
            try:
                filter_nodes(load.plugin(deep), ONE)
            except GuestError as error:
                return error.fault
            finally:
                load.close()
            return None

        assert [fault_with(limit) for limit in (64 << 10, DEFAULT_STACK_BYTES, MAX_STACK_BYTES)] == [
            Fault.STACK,
            None,
            None,
        ]


def test_a_module_that_is_in_use_is_not_compiled_again(engine: WasmtimeEngine) -> None:
    compiler = Compiler(engine, None, LONG)
    first = compiler.compile(binary(GUEST))
    compiler.close()  # It can compile nothing more.
    assert compiler.compile(binary(GUEST)) is first
    del first
    assert problems(compiler, binary(GUEST)) == ["is not compiled: the compiler was closed"]


@dataclass
class Loads:
    """An engine that loads what another one has compiled."""

    engine: WasmtimeEngine
    compiled: Compiled

    def compile(self, module: bytes | Blob) -> Module:  # noqa: ARG002 (it was compiled by the other one)
        return self.engine.load(self.compiled)
