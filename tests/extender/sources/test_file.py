"""Modules in files, while they are exchanged and written."""

from __future__ import annotations

import base64
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from extender.sources.download import Limit
from extender.sources.file import FileSource
from extender.sources.source import Fetched, Signature, SourceError
from tests.patience import Beside
from wasm_runtime.blob import Blob

LIMIT = Limit(1000, "runtime.moduleLimit")
NOBODY = 65_534
"""The number of a user without rights."""


@pytest.fixture
def module(tmp_path: Path) -> Path:
    path = tmp_path / "m.wasm"
    path.write_bytes(b"one")
    return path


def fetch(source: FileSource, known: str | None = None) -> Fetched:
    fetched = source.fetch(known)
    assert fetched
    return fetched


def rename(path: Path, wasm: bytes) -> None:
    """Writes another file and moves it there, as editors do."""
    beside = path.with_suffix(".new")
    beside.write_bytes(wasm)
    beside.rename(path)


def test_a_file_is_read_at_once_when_nothing_is_known(module: Path) -> None:
    source = FileSource(module, LIMIT)
    fetched = fetch(source)
    assert fetched == Fetched(Blob(b"one"), str(module), fetched.version)
    assert (source.interval, source.is_remote) == (0.5, False)


def test_a_file_that_stays_is_no_news(module: Path) -> None:
    source = FileSource(module, LIMIT)
    version = fetch(source).version
    assert [source.fetch(version) for _ in range(3)] == [None, None, None]


def test_another_source_knows_the_version_too(module: Path) -> None:
    version = fetch(FileSource(module, LIMIT)).version
    source = FileSource(module, LIMIT)
    assert [source.fetch(version) for _ in range(2)] == [None, None]


def write(path: Path, wasm: bytes) -> None:
    path.write_bytes(wasm)


@pytest.mark.parametrize("change", [write, rename])
def test_a_change_is_read_once_it_looks_the_same_twice(module: Path, change: Callable[[Path, bytes], None]) -> None:
    source = FileSource(module, LIMIT)
    version = fetch(source).version
    change(module, b"second")
    assert source.fetch(version) is None
    fetched = fetch(source, version)
    assert fetched.module.content == b"second"
    assert source.fetch(fetched.version) is None


def copy_preserving(path: Path, wasm: bytes) -> None:
    """Writes over a file and gives it the time that it had, as `cp -p` of another one of that time does."""
    before = path.stat()
    while path.stat().st_ctime_ns == before.st_ctime_ns:  # The clock of the file system has a few milliseconds.
        path.write_bytes(wasm)
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    after = path.stat()
    assert (after.st_ino, after.st_size, after.st_mtime_ns) == (before.st_ino, before.st_size, before.st_mtime_ns)


def test_a_file_of_the_same_size_and_time_is_a_change(module: Path) -> None:
    source = FileSource(module, LIMIT)
    version = fetch(source).version
    assert not source.has_changed(version)
    copy_preserving(module, b"two")
    assert source.has_changed(version)
    assert source.fetch(version) is None
    assert fetch(source, version).module.content == b"two"


def test_a_file_that_grows_is_left_alone_until_it_stays(module: Path) -> None:
    source = FileSource(module, LIMIT)
    version = fetch(source).version
    for _ in range(5):
        with module.open("ab") as file:
            file.write(b"+")
        assert source.fetch(version) is None
    assert fetch(source, version).module.content == b"one+++++"


def test_a_file_that_is_read_but_not_known_is_read_again(module: Path) -> None:
    source = FileSource(module, LIMIT)
    version = fetch(source).version
    rename(module, b"second")
    assert source.fetch(version) is None
    assert fetch(source, version) == fetch(source, version)


def test_the_exchanged_link_of_a_mounted_configmap_is_seen(tmp_path: Path) -> None:
    """`m.wasm` is a link to `..data/m.wasm`, and `..data` one to a folder of each version."""
    for version in ("one", "second"):
        (tmp_path / f"..{version}").mkdir()
        (tmp_path / f"..{version}" / "m.wasm").write_bytes(version.encode())
    (tmp_path / "..data").symlink_to("..one")
    (tmp_path / "m.wasm").symlink_to("..data/m.wasm")
    source = FileSource(tmp_path / "m.wasm", LIMIT)
    first = fetch(source)
    (tmp_path / "..data_tmp").symlink_to("..second")
    (tmp_path / "..data_tmp").rename(tmp_path / "..data")
    assert source.fetch(first.version) is None
    assert (first.module.content, fetch(source, first.version).module.content) == (b"one", b"second")


def test_a_file_that_is_gone_for_a_moment_is_no_error(module: Path) -> None:
    source = FileSource(module, LIMIT)
    version = fetch(source).version
    module.unlink()
    assert source.fetch(version) is None
    module.write_bytes(b"second")
    assert source.fetch(version) is None
    assert fetch(source, version).module.content == b"second"


def test_a_file_that_stays_away_is_an_error(module: Path) -> None:
    source = FileSource(module, LIMIT)
    version = fetch(source).version
    module.unlink()
    assert source.fetch(version) is None
    problem = f"{module} cannot be read: No such file or directory; build it or mend the path"
    for _ in range(2):
        with pytest.raises(SourceError) as refused:
            source.fetch(version)
        assert str(refused.value) == problem


def test_what_changes_while_it_is_read_is_not_taken(module: Path) -> None:
    """The file is large enough to be written to while it is read."""
    os.truncate(module, 64 << 20)
    stopped = threading.Event()

    def grow() -> None:
        with module.open("ab", buffering=0) as file:
            while not stopped.is_set():
                file.write(b"+")

    source = FileSource(module, Limit(1 << 30))
    writer = Beside(grow)
    try:
        with pytest.raises(SourceError) as refused:
            source.fetch()
    finally:
        stopped.set()
        writer.end()
    assert str(refused.value) == (
        f"{module} changes while it is read; wait until it is written, or rename it into its place"
    )


# -- what is no module -----------------------------------------------------------------------------


def test_an_empty_file_is_for_others_to_judge(module: Path) -> None:
    module.write_bytes(b"")
    assert fetch(FileSource(module, LIMIT)).module.content == b""


def test_a_file_of_the_largest_size_is_read(module: Path) -> None:
    module.write_bytes(b"x" * LIMIT.size)
    assert fetch(FileSource(module, LIMIT)).module.content == b"x" * LIMIT.size


def enlarge(path: Path) -> None:
    os.truncate(path, LIMIT.size + 1)


def replace_by_pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def replace_by_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


def replace_by_circle(path: Path) -> None:
    path.unlink()
    path.symlink_to(path)


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (Path.unlink, "cannot be read: No such file or directory; build it or mend the path"),
        (enlarge, "has 1001 bytes, runtime.moduleLimit allows 1000"),
        (replace_by_pipe, "is no regular file; name a .wasm file"),
        (replace_by_folder, "is no regular file; name a .wasm file"),
        (replace_by_circle, "cannot be read: Too many levels of symbolic links"),
    ],
)
def test_what_is_no_module_is_refused_at_first_and_later(
    module: Path, change: Callable[[Path], object], problem: str
) -> None:
    source = FileSource(module, LIMIT)
    version = fetch(source).version
    change(module)
    with pytest.raises(SourceError) as first:
        FileSource(module, LIMIT).fetch()
    assert source.fetch(version) is None
    with pytest.raises(SourceError) as later:
        source.fetch(version)
    assert {str(first.value), str(later.value)} == {f"{module} {problem}"}


@pytest.mark.parametrize(
    ("path", "problem"),
    [
        ("/proc/self/mem", "/proc/self/mem cannot be read: Input/output error"),
        ("/dev/zero", "/dev/zero is no regular file; name a .wasm file"),
        ("/a\0b", "'/a\\x00b' is no path: it holds a NUL"),
        ("/dev/null/x", "/dev/null/x cannot be read: Not a directory"),
        (os.fsdecode(b"/none/\xff"), "/none/? cannot be read: No such file or directory; build it or mend the path"),
    ],
)
def test_a_path_that_cannot_be_read_is_named_with_the_cause(path: str, problem: str) -> None:
    with pytest.raises(SourceError) as refused:
        FileSource(Path(path), LIMIT).fetch()
    assert str(refused.value) == problem


@contextmanager
def without_privileges() -> Iterator[None]:
    """As a user that is not root, who may read everything."""
    user = os.geteuid()
    os.seteuid(user or NOBODY)
    try:
        yield
    finally:
        os.seteuid(user)


def test_a_file_that_may_not_be_read_is_refused(module: Path) -> None:
    module.chmod(0)
    with without_privileges(), pytest.raises(SourceError) as refused:
        FileSource(module, LIMIT).fetch()
    assert str(refused.value) == f"{module} cannot be read: Permission denied"


# -- signatures ------------------------------------------------------------------------------------


def sign(module: Path, value: bytes) -> None:
    Path(f"{module}.sig").write_bytes(base64.b64encode(value))


def test_the_signature_is_beside_the_module(module: Path) -> None:
    sign(module, b"signature")
    assert fetch(FileSource(module, LIMIT)).signatures == ()
    assert fetch(FileSource(module, LIMIT, signed=True)).signatures == (Signature(b"one", b"signature"),)


def test_a_signature_that_comes_after_its_module_is_a_change(module: Path) -> None:
    source = FileSource(module, LIMIT, signed=True)
    first = fetch(source)
    sign(module, b"signature")
    assert source.fetch(first.version) is None
    second = fetch(source, first.version)
    assert (first.signatures, second.signatures) == ((), (Signature(b"one", b"signature"),))


def test_a_signature_of_a_file_without_one_required_is_not_looked_at(module: Path) -> None:
    source = FileSource(module, LIMIT)
    version = fetch(source).version
    sign(module, b"signature")
    assert [source.fetch(version) for _ in range(2)] == [None, None]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (b"no signature", ": expected a signature in base64 or a bundle, as cosign writes them, found neither"),
        (b"x" * 100_000, " has 100000 bytes, kwx allows 16384"),
    ],
    ids=["text", "long"],
)
def test_what_is_no_signature_is_refused_by_its_name(module: Path, text: bytes, problem: str) -> None:
    signature = Path(f"{module}.sig")
    signature.write_bytes(text)
    with pytest.raises(SourceError) as refused:
        FileSource(module, LIMIT, signed=True).fetch()
    assert str(refused.value) == f"{signature}{problem}"
