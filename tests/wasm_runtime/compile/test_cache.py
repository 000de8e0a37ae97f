"""What is kept on disk, what is not believed, and what goes when there is no room."""

import logging
import os
import pwd
import resource
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.patience import PATIENCE_S
from wasm_runtime.compile.cache import FORMAT, SUFFIX, CacheError, CodeFile, CompileCache, default_directory

INTERFACE = b'[[],{"memory":0},[]]'
CODE = b"\x7fELF" + bytes(range(256)) * 20


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


def names(directory: Path) -> set[str]:
    return {path.name for path in directory.iterdir()}


def file(directory: Path, key: str) -> Path:
    return directory / f"{key}-{FORMAT}{SUFFIX}"


@contextmanager
def largest_file(size: int) -> Iterator[None]:
    """Lets no file grow beyond that: a disk that is full."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)


@pytest.mark.parametrize(("interface", "code"), [(INTERFACE, CODE), (b"", b""), (b"{}", bytes(3 << 20))])
def test_an_entry_outlives_the_process(tmp_path: Path, interface: bytes, code: bytes) -> None:
    CompileCache(tmp_path).put("key", interface, code)
    entry = CompileCache(tmp_path).get("key")
    assert entry == (interface, CodeFile(file(tmp_path, "key"), len(code)))
    assert entry.code.read() == code
    assert entry.code.path.read_bytes().startswith(code)
    assert entry.code.path.stat().st_mode & 0o777 == 0o600


def test_a_key_that_nothing_was_put_under(cache: CompileCache, warnings: Callable[[], list[str]]) -> None:
    cache.put("key", INTERFACE, CODE)
    assert cache.get("other") is None
    assert warnings() == []


def test_what_is_put_again_takes_the_place(cache: CompileCache, tmp_path: Path) -> None:
    cache.put("key", INTERFACE, CODE)
    before = cache.get("key")
    assert before
    with before.code.path.open("rb") as old:
        cache.put("key", b"{}", b"other")
        after = cache.get("key")
        assert after
        assert (after.interface, after.code.read()) == (b"{}", b"other")
        assert old.read().startswith(CODE)
    assert names(tmp_path) == {file(tmp_path, "key").name}


def cut(size: int) -> Callable[[Path], object]:
    return lambda path: path.write_bytes(path.read_bytes()[:size])


def flip(at: int) -> Callable[[Path], object]:
    def damage(path: Path) -> None:
        content = bytearray(path.read_bytes())
        content[at] ^= 1
        path.write_bytes(content)

    return damage


@pytest.mark.parametrize(
    "damage",
    [
        *map(cut, (0, 1, 31, 32, 40, 1000, -1)),
        *map(flip, (0, len(CODE) - 1, len(CODE), len(CODE) + len(INTERFACE), -33, -32, -1)),
        lambda path: path.write_bytes(path.read_bytes() + b"\0"),
        lambda path: path.write_bytes(bytes(100)),
        lambda path: file(path.parent, "of another version").replace(path),
    ],
)
def test_a_damaged_entry_is_deleted(
    cache: CompileCache, tmp_path: Path, warnings: Callable[[], list[str]], damage: Callable[[Path], object]
) -> None:
    cache.put("of another version", INTERFACE, CODE)
    cache.put("key", INTERFACE, CODE)
    damage(file(tmp_path, "key"))
    assert cache.get("key") is None
    assert warnings() == ["compiled code is thrown away: its checksum is wrong"]
    assert not file(tmp_path, "key").exists()
    assert cache.get("key") is None
    assert warnings() == []


def test_what_is_no_file_is_no_entry(cache: CompileCache, tmp_path: Path, warnings: Callable[[], list[str]]) -> None:
    path = file(tmp_path, "key")
    path.mkdir()
    assert cache.get("key") is None
    assert warnings() == [f"compiled code is thrown away: [Errno 21] Is a directory: '{path}'"]


def test_an_entry_may_be_gone_when_it_is_discarded(cache: CompileCache, warnings: Callable[[], list[str]]) -> None:
    cache.discard("key", "no reason")
    assert warnings() == ["compiled code is thrown away: no reason"]


class TestDirectory:
    @pytest.mark.parametrize(
        ("environment", "directory"),
        [
            ({"XDG_CACHE_HOME": "/caches", "HOME": "/home/a"}, "/caches/kwx/compiled"),
            ({"XDG_CACHE_HOME": "", "HOME": "/home/a"}, "/home/a/.cache/kwx/compiled"),
            ({"XDG_CACHE_HOME": "relative", "HOME": "/home/a"}, "/home/a/.cache/kwx/compiled"),
            ({"HOME": "/home/a"}, "/home/a/.cache/kwx/compiled"),
        ],
    )
    def test_of_the_user(self, monkeypatch: pytest.MonkeyPatch, environment: dict[str, str], directory: str) -> None:
        monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
        for name, value in environment.items():
            monkeypatch.setenv(name, value)
        assert default_directory() == Path(directory)

    def test_is_made_for_its_user_alone(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
        umask = os.umask(0)
        try:
            CompileCache().put("key", INTERFACE, CODE)
        finally:
            os.umask(umask)
        assert (tmp_path / "kwx/compiled").stat().st_mode & 0o777 == 0o700
        assert names(tmp_path / "kwx/compiled") == {f"key-{FORMAT}{SUFFIX}"}

    @pytest.mark.parametrize("mode", [0o770, 0o707, 0o1777, 0o722])
    @pytest.mark.parametrize("linked", [False, True])
    def test_that_others_can_write_to_is_refused(self, tmp_path: Path, mode: int, linked: bool) -> None:
        directory, link = tmp_path / "open", tmp_path / "link"
        directory.mkdir()
        directory.chmod(mode)
        link.symlink_to(directory)
        with pytest.raises(CacheError) as caught:
            CompileCache(link if linked else directory)
        cause = f"can be written by others (mode {mode:o}), and the code kept there is run"
        assert str(caught.value) == f"{directory} {cause}; chmod 700 it"

    @pytest.mark.parametrize("linked", [False, True])
    def test_of_somebody_else_is_refused(self, tmp_path: Path, linked: bool) -> None:
        directory, link = Path("/usr"), tmp_path / "link"
        if not os.geteuid():
            directory = tmp_path / "foreign"
            directory.mkdir(mode=0o700)
            os.chown(directory, 4711, -1)
        link.symlink_to(directory)
        with pytest.raises(CacheError) as caught:
            CompileCache(link if linked else directory)
        cause = f"belongs to user {directory.stat().st_uid}, not to user {os.geteuid()} that runs the code kept there"
        assert str(caught.value) == f"{directory} {cause}; name a directory of that user's own"

    def test_that_others_can_read_will_do(self, tmp_path: Path) -> None:
        tmp_path.chmod(0o755)
        (tmp_path / "link").symlink_to(tmp_path)
        cache = CompileCache(tmp_path / "link")
        cache.put("key", INTERFACE, CODE)
        (tmp_path / "link").unlink()
        entry = cache.get("key")
        assert entry
        assert entry.code.path.parent == tmp_path


COMPLAINT = (
    "compiled code cannot be kept, so modules are compiled again after a restart: {};"
    " name a directory that can be written and has room"
)


class TestWhatTheDiskRefuses:
    def test_a_directory_that_cannot_be_made(self, warnings: Callable[[], list[str]]) -> None:
        cache = CompileCache(Path("/proc/kwx"))
        assert warnings() == [COMPLAINT.format("[Errno 2] No such file or directory: '/proc/kwx'")]
        cache.put("key", INTERFACE, CODE)
        assert cache.get("key") is None
        cache.discard("key", "no reason")
        assert warnings() == []

    def test_a_file_in_the_place_of_the_directory(self, tmp_path: Path, warnings: Callable[[], list[str]]) -> None:
        (tmp_path / "file").touch()
        CompileCache(tmp_path / "file")
        assert warnings() == [COMPLAINT.format(f"[Errno 17] File exists: '{tmp_path / 'file'}'")]

    def test_a_user_without_a_home(self, monkeypatch: pytest.MonkeyPatch, warnings: Callable[[], list[str]]) -> None:
        monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
        monkeypatch.delenv("HOME")
        monkeypatch.setattr(pwd, "getpwuid", {}.__getitem__)
        assert CompileCache().get("key") is None
        (warning,) = warnings()
        assert warning.startswith("compiled code cannot be kept")
        assert "home" in warning.lower()

    def test_a_directory_that_is_gone_later(self, tmp_path: Path, warnings: Callable[[], list[str]]) -> None:
        cache = CompileCache(tmp_path / "cache")
        (tmp_path / "cache").rmdir()
        for _ in range(3):
            cache.put("key", INTERFACE, CODE)
            assert cache.get("key") is None
        (warning,) = warnings()
        assert warning.startswith("compiled code cannot be kept")

    def test_a_full_disk(self, cache: CompileCache, tmp_path: Path, warnings: Callable[[], list[str]]) -> None:
        cache.put("before", INTERFACE, CODE)
        with largest_file(1000):
            for _ in range(3):
                cache.put("key", INTERFACE, CODE)
        assert warnings() == [COMPLAINT.format("[Errno 27] File too large")]
        assert names(tmp_path) == {file(tmp_path, "before").name}
        cache.put("key", INTERFACE, CODE)
        assert cache.get("key")
        assert warnings() == []


class TestRoom:
    SIZE = len(CODE) + len(INTERFACE) + 40

    def keys(self, cache: CompileCache) -> list[str]:
        return [key for key in "abcde" if cache.get(key)]

    def age(self, directory: Path, *keys: str) -> None:
        """Makes it long ago that the entries were used, the first of them first."""
        for at, key in enumerate(keys):
            os.utime(file(directory, key), (at, at))

    def test_the_least_recently_used_go(self, tmp_path: Path) -> None:
        cache = CompileCache(tmp_path, 3 * self.SIZE)
        for key in "abc":
            cache.put(key, INTERFACE, CODE)
        self.age(tmp_path, *"abc")
        assert cache.get("a")
        cache.put("d", INTERFACE, CODE)
        assert self.keys(cache) == ["a", "c", "d"]

    def test_as_many_go_as_are_needed(self, tmp_path: Path) -> None:
        cache = CompileCache(tmp_path, 3 * self.SIZE)
        for key in "abc":
            cache.put(key, INTERFACE, CODE)
        self.age(tmp_path, *"bca")
        cache.put("d", INTERFACE, CODE + CODE)
        assert self.keys(cache) == ["a", "d"]

    def test_the_newest_stays_whatever_its_size(self, tmp_path: Path) -> None:
        cache = CompileCache(tmp_path, 1)
        cache.put("a", INTERFACE, CODE)
        assert self.keys(cache) == ["a"]
        cache.put("b", INTERFACE, CODE)
        assert self.keys(cache) == ["b"]

    def test_what_a_writer_that_died_has_left_goes_too(self, tmp_path: Path) -> None:
        left = tmp_path / f"tmp1234{SUFFIX}"
        left.write_bytes(bytes(self.SIZE))
        os.utime(left, (0, 0))
        CompileCache(tmp_path, self.SIZE).put("a", INTERFACE, CODE)
        assert names(tmp_path) == {file(tmp_path, "a").name}

    def test_files_of_others_stay(self, tmp_path: Path) -> None:
        (tmp_path / "thesis.tex").write_bytes(bytes(10 * self.SIZE))
        cache = CompileCache(tmp_path, 2 * self.SIZE)
        for key in "ab":
            cache.put(key, INTERFACE, CODE)
        assert names(tmp_path) == {"thesis.tex", file(tmp_path, "a").name, file(tmp_path, "b").name}


WORKER = """
import random, sys
from pathlib import Path
from wasm_runtime.compile.cache import CompileCache

def content(key):
    return b"interface %d" % key, bytes([key]) * 5000 * key

cache = CompileCache(Path(sys.argv[1]), 200_000)
found = 0
for turn in range(300):
    key = random.randrange(10)
    entry = cache.get(f"key-{key}")
    if entry is None:
        cache.put(f"key-{key}", *content(key))
    else:
        found += 1
        try:
            assert (entry.interface, entry.code.read()) == content(key)
        except FileNotFoundError:
            pass
print(found > 0)
"""


def test_processes_share_a_directory(tmp_path: Path) -> None:
    """There is no room for all entries."""
    command = [sys.executable, "-c", WORKER, str(tmp_path)]
    workers = [
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=Path.cwd())
        for _ in range(3)
    ]
    assert [worker.communicate(timeout=PATIENCE_S) for worker in workers] == [("True\n", "")] * 3
    assert sum(path.stat().st_size for path in tmp_path.iterdir()) <= 200_000
