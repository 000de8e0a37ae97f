"""What is there after a restart, what is not believed, and what becomes of a process that cannot keep anything."""

import errno
import logging
import os
import pwd
import random
import resource
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from functools import partial
from pathlib import Path

import msgspec
import pytest

from extender.rollouts.revision import Revision
from extender.rollouts.state.store import MAX_REVISIONS, PluginState, Store, default_directory
from tests.extender.rollouts import saving
from tests.patience import PATIENCE_S, Beside, delay
from wasm_runtime.blob import Blob, digest

CONFIG = Path("/etc/kwx/kwx.yaml")
WASM = b"\0asm" + bytes(range(256)) * 40
MODULE = digest(WASM)
REVISION = Revision(
    "sha256:one", MODULE, {"guestConfig": "{}", "timeout": 0.5, "args": ["ä"]}, "file:///one.wasm", "key"
)
KEPT = PluginState(REVISION, "sha256:two", [REVISION])
MEND = "name a server.stateDirectory that can be read and written and has room"


def warning(problem: str | None) -> str:
    return f"a restart will not know what is live now, nor the history: {problem}"


@pytest.fixture
def warnings(caplog: pytest.LogCaptureFixture) -> Callable[[], list[str]]:
    """What has been logged since this was last asked, with the path that it names if it is one."""

    def read() -> list[str]:
        messages = [
            " ".join(filter(None, (record.getMessage(), getattr(record, "path", ""))))
            for record in caplog.records
            if record.levelno >= logging.WARNING
        ]
        caplog.clear()
        return messages

    return read


@pytest.fixture
def reopen(tmp_path: Path) -> Iterator[Callable[[], Store]]:
    """Opens the store as a new process would, once the one before has ended."""
    stores: list[Store] = []

    def reopen() -> Store:
        for store in stores:
            store.close()
        stores.append(Store.open(tmp_path, CONFIG))
        return stores[-1]

    yield reopen
    for store in stores:
        store.close()


@pytest.fixture
def store(reopen: Callable[[], Store]) -> Store:
    return reopen()


@pytest.fixture
def folder(store: Store, tmp_path: Path) -> Path:  # noqa: ARG001 - makes it
    """The store's own."""
    (folder,) = tmp_path.iterdir()
    return folder


def fill(store: Store) -> None:
    store.keep_module(Blob(WASM))
    store.save("default", "plugin", KEPT)


def files(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


def modules(folder: Path) -> set[str]:
    return {f"sha256:{path.stem}" for path in (folder / "modules").iterdir()}


def only(folder: Path, pattern: str) -> Path:
    (path,) = folder.glob(pattern)
    return path


def test_what_is_kept_is_there_after_a_restart(reopen: Callable[[], Store], warnings: Callable[[], list[str]]) -> None:
    fill(reopen())
    store = reopen()
    assert store.load("default", "plugin") == KEPT
    assert store.module(MODULE) == Blob(WASM)
    assert (store.problem, warnings()) == (None, [])


def test_what_was_never_kept(store: Store, warnings: Callable[[], list[str]]) -> None:
    fill(store)
    assert store.load("default", "other") is None
    assert store.load("other", "plugin") is None
    assert store.module(digest(b"other")) is None
    assert (store.problem, warnings()) == (None, [])


def test_what_is_saved_last_holds(reopen: Callable[[], Store]) -> None:
    store = reopen()
    fill(store)
    later = PluginState(REVISION, None, [])
    store.save("default", "plugin", later)
    assert reopen().load("default", "plugin") == later


NAMES = ["..", ".", "a", "A", "a.b", "a-b", "con", "x" * 253]


def test_names_of_any_kind_keep_apart(store: Store, folder: Path) -> None:
    store.keep_module(Blob(WASM))
    slots = [(profile, plugin) for profile in NAMES for plugin in ("a", "A", "x" * 63)]
    for at, slot in enumerate(slots):
        store.save(*slot, PluginState(REVISION, str(at)))
    assert [(kept := store.load(*slot)) and kept.offered for slot in slots] == [str(at) for at in range(len(slots))]
    assert {path.parent.name for path in folder.rglob("*.json")} == {"slots", folder.name}
    assert len({path.name.lower() for path in folder.glob("slots/*")}) == len(slots)


def test_the_oldest_beyond_the_bounds_are_dropped(reopen: Callable[[], Store]) -> None:
    revisions = [saving.revision(number) for number in range(MAX_REVISIONS + 2)]
    store = reopen()
    for number in range(len(revisions)):
        store.keep_module(Blob(saving.module(number)))
    store.save("default", "plugin", PluginState(revisions[0], None, revisions))
    kept = reopen().load("default", "plugin")
    assert kept
    assert kept.revisions == revisions[:MAX_REVISIONS]


def test_only_the_user_can_read_it(tmp_path: Path) -> None:
    base = tmp_path / "base"
    umask = os.umask(0)
    try:
        with closing(Store.open(base, CONFIG)) as store:
            saving.save(store, 1)
    finally:
        os.umask(umask)
    folder = only(base, "*")
    directories = {base, folder, folder / "modules", folder / "slots"}
    assert {path for path in (base, *base.rglob("*")) if path.is_dir()} == directories
    assert {path.stat().st_mode & 0o777 for path in directories} == {0o700}
    assert {path.stat().st_mode & 0o777 for path in base.rglob("*") if path.is_file()} == {0o600}


class TestModules:
    def test_that_nobody_names_any_more_are_removed(self, store: Store, folder: Path) -> None:
        numbers = [saving.revision(number) for number in range(4)]
        for number in range(4):
            store.keep_module(Blob(saving.module(number)))
        store.save("default", "a", PluginState(numbers[0], None, [numbers[0], numbers[1]]))
        store.save("default", "b", PluginState(numbers[1], None, [numbers[1], numbers[2]]))
        assert modules(folder) == {each.module for each in numbers}, "the last is about to be named"
        store.save("default", "a", PluginState(numbers[3], None, []))
        assert modules(folder) == {each.module for each in numbers[1:]}
        store.save("default", "b", PluginState(numbers[3], None, []))
        assert modules(folder) == {numbers[3].module}

    def test_that_a_process_which_died_has_left_are_removed(self, reopen: Callable[[], Store], folder: Path) -> None:
        store = reopen()
        fill(store)
        store.keep_module(Blob(b"other"))
        (folder / "unfinished").write_bytes(bytes(1000))
        store = reopen()
        fill(store)
        assert files(folder) == sorted(
            ["format.json", "lock", f"modules/{MODULE.removeprefix('sha256:')}.wasm", str(slot(folder, "json"))]
        )

    def test_that_are_there_are_not_written_again(self, store: Store, folder: Path) -> None:
        fill(store)
        before = only(folder, "modules/*").stat()
        store.keep_module(Blob(WASM))
        after = only(folder, "modules/*").stat()
        assert (after.st_ino, after.st_mtime_ns) == (before.st_ino, before.st_mtime_ns)

    @pytest.mark.parametrize("content", [b"", WASM[:-1], WASM + b"\0", b"x" + WASM[1:]])
    def test_that_are_damaged_are_removed(
        self, store: Store, folder: Path, warnings: Callable[[], list[str]], content: bytes
    ) -> None:
        fill(store)
        path = only(folder, "modules/*")
        path.write_bytes(content)
        assert store.module(MODULE) is None
        assert warnings() == [f"a module that was kept is removed: its digest is wrong {path}"]
        assert not path.exists()
        assert store.module(MODULE) is None
        fill(store)
        assert store.module(MODULE) == Blob(WASM)
        assert (store.problem, warnings()) == (None, [])

    def test_that_are_damaged_are_mended_when_they_come_again(
        self, store: Store, folder: Path, warnings: Callable[[], list[str]]
    ) -> None:
        fill(store)
        path = only(folder, "modules/*")
        path.write_bytes(b"")
        store.keep_module(Blob(WASM))
        assert store.module(MODULE) == Blob(WASM)
        assert warnings() == [f"a module that was kept is removed: its digest is wrong {path}"]

    def test_without_its_module_nothing_is_saved(
        self, store: Store, folder: Path, warnings: Callable[[], list[str]]
    ) -> None:
        fill(store)
        other = Revision("sha256:other", digest(b"other"), {}, "somewhere")
        for _ in range(2):
            store.save("default", "plugin", PluginState(other))
        path = folder / "modules" / f"{other.module.removeprefix('sha256:')}.wasm"
        assert store.problem == f"{path} is gone; leave the files of a kwx that runs alone"
        assert warnings() == [warning(store.problem)]
        assert store.load("default", "plugin") == KEPT
        store.keep_module(Blob(b"other"))
        store.save("default", "plugin", PluginState(other))
        assert store.load("default", "plugin") == PluginState(other)
        assert store.problem is None


def slot(folder: Path, suffix: str) -> Path:
    return only(folder, f"slots/*.{suffix}").relative_to(folder)


def cut(size: int) -> Callable[[bytes], bytes]:
    return lambda content: content[:size]


def flip(at: int) -> Callable[[bytes], bytes]:
    def damage(content: bytes) -> bytes:
        damaged = bytearray(content)
        damaged[at] ^= 1
        return bytes(damaged)

    return damage


DAMAGES = [
    *map(cut, (0, 1, 64, 65, 66, 200, -1)),
    *map(flip, (0, 63, 64, 65, 100, -20, -1)),
    lambda content: content + b"\0",
    lambda _: bytes(4096),
    lambda _: b"[" * 200_000,
]


class TestDamage:
    @pytest.mark.parametrize("damage", DAMAGES)
    def test_a_damaged_slot_is_set_aside(
        self,
        reopen: Callable[[], Store],
        folder: Path,
        warnings: Callable[[], list[str]],
        damage: Callable[[bytes], bytes],
    ) -> None:
        fill(reopen())
        path = folder / slot(folder, "json")
        content = damage(path.read_bytes())
        path.write_bytes(content)
        store = reopen()
        assert store.load("default", "plugin") is None
        assert warnings() == [f"a damaged file is set aside: its checksum is wrong {path}"]
        assert (folder / slot(folder, "damaged")).read_bytes() == content
        assert store.load("default", "plugin") is None
        fill(store)
        assert store.load("default", "plugin") == KEPT
        assert (store.problem, warnings()) == (None, [])

    def test_a_slot_in_the_place_of_another_is_set_aside(
        self, store: Store, folder: Path, warnings: Callable[[], list[str]]
    ) -> None:
        fill(store)
        path = folder / slot(folder, "json")
        store.save("default", "other", KEPT)
        (other,) = set(folder.glob("slots/*")) - {path}
        other.write_bytes(path.read_bytes())
        assert store.load("default", "other") is None
        assert warnings() == [f"a damaged file is set aside: its checksum is wrong {other}"]
        assert store.load("default", "plugin") == KEPT

    def test_another_slots_damage_does_not_keep_one_from_being_saved(
        self, store: Store, folder: Path, warnings: Callable[[], list[str]]
    ) -> None:
        fill(store)
        path = folder / slot(folder, "json")
        path.write_bytes(b"")
        store.keep_module(Blob(b"other"))
        store.save("default", "other", PluginState(Revision("sha256:other", digest(b"other"), {}, "somewhere")))
        assert warnings() == [f"a damaged file is set aside: its checksum is wrong {path}"]
        assert modules(folder) == {digest(b"other")}

    @pytest.mark.parametrize(
        ("content", "reason"),
        [
            (b"", "Input data was truncated"),
            (b"\0\0\0\0", "JSON is malformed: invalid character (byte 0)"),
            (b'{"version": "1"}', "Expected `int`, got `str` - at `$.version`"),
            (b'{"configFile": "\xff"}', "'utf-8' codec can't decode byte 0xff in position 0: invalid start byte"),
            (b'{"version": ' + b"[" * 200_000, "Expected `int`, got `array` - at `$.version`"),
            (b'{"x": ' + b"[" * 200_000, "maximum recursion depth exceeded while deserializing an object"),
        ],
    )
    def test_a_damaged_format_is_set_aside(
        self,
        reopen: Callable[[], Store],
        folder: Path,
        warnings: Callable[[], list[str]],
        content: bytes,
        reason: str,
    ) -> None:
        fill(reopen())
        path = folder / "format.json"
        path.write_bytes(content)
        store = reopen()
        assert warnings() == [f"a damaged file is set aside: {reason} {path}"]
        assert (folder / "format.damaged").read_bytes() == content
        assert (store.load("default", "plugin"), store.problem) == (KEPT, None)


def test_the_folder_of_a_newer_version_is_left_alone(
    reopen: Callable[[], Store], folder: Path, warnings: Callable[[], list[str]]
) -> None:
    fill(reopen())
    (folder / "format.json").write_text('{"version": 2, "other": []}')
    before = {path: (folder / path).read_bytes() for path in files(folder)}
    store = reopen()
    saving.save(store, 1)
    assert (store.load("default", "plugin"), store.module(MODULE), store.history()) == (None, None, [])
    assert {path: (folder / path).read_bytes() for path in files(folder)} == before
    assert store.problem == (
        f"{folder} was written by a newer kwx (format 2, this one knows 1);"
        " run that one, or name another server.stateDirectory"
    )
    assert warnings() == [warning(store.problem)]


def test_a_folder_says_whose_it_is(tmp_path: Path) -> None:
    Store.open(tmp_path, Path("/a\udcff.yaml")).close()
    assert msgspec.json.decode(only(tmp_path, "*/format.json").read_bytes()) == {
        "version": 1,
        "configFile": "/a\N{REPLACEMENT CHARACTER}.yaml",
    }


class TestProcesses:
    def test_a_second_one_keeps_nothing(
        self, store: Store, tmp_path: Path, folder: Path, warnings: Callable[[], list[str]]
    ) -> None:
        fill(store)
        before = {path: (folder / path).read_bytes() for path in files(folder)}
        with closing(Store.open(tmp_path, CONFIG)) as second:
            saving.save(second, 1)
            assert (second.load("default", "plugin"), second.module(MODULE), second.history()) == (None, None, [])
            assert second.problem == (
                f"{folder} is in use by another kwx with this configuration file;"
                " end that one, or name another server.stateDirectory"
            )
            assert warnings() == [warning(second.problem)]
        assert {path: (folder / path).read_bytes() for path in files(folder)} == before
        store.close()
        with closing(Store.open(tmp_path, CONFIG)) as third:
            assert (third.load("default", "plugin"), third.problem) == (KEPT, None)

    def test_other_configuration_files_never_meet(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.chdir(tmp_path)
        paths = [Path("kwx.yaml"), Path("other.yaml"), Path("/kwx.yaml"), Path("/KWX.yaml"), Path("/kwx\udcff.yaml")]
        stores = [Store.open(tmp_path / "base", path) for path in paths]
        for at, store in enumerate(stores):
            store.keep_module(Blob(WASM))
            store.save("default", "plugin", PluginState(REVISION, str(at)))
        kept = [store.load("default", "plugin") for store in stores]
        for store in stores:
            store.close()
        assert kept == [PluginState(REVISION, str(at)) for at in range(len(paths))]

    def test_a_configuration_file_may_be_named_in_several_ways(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Its links are followed by none of them, as that of a mounted ConfigMap is exchanged."""
        monkeypatch.chdir(tmp_path)
        (tmp_path / "kwx.yaml").symlink_to("v1.yaml")
        for path in (Path("kwx.yaml"), tmp_path / "kwx.yaml", Path("../") / tmp_path.name / "kwx.yaml"):
            with closing(Store.open(tmp_path / "base", path)) as store:
                assert store.load("default", "plugin") == (None if path.name == str(path) else KEPT)
                fill(store)

    def test_a_store_that_is_closed_keeps_nothing(self, store: Store, folder: Path) -> None:
        fill(store)
        store.close()
        before = files(folder)
        saving.save(store, 1)
        assert (store.load("default", "plugin"), store.module(MODULE), store.history()) == (None, None, [])
        assert files(folder) == before
        store.close()

    def test_threads_do_not_remove_each_others_modules(
        self, store: Store, folder: Path, warnings: Callable[[], list[str]]
    ) -> None:
        def work(plugin: int) -> None:
            for number in range(plugin * 100, plugin * 100 + 10):
                store.keep_module(Blob(saving.module(number)))
                store.save("default", str(plugin), PluginState(saving.revision(number)))

        for beside in [Beside(partial(work, plugin)) for plugin in range(4)]:
            beside.end()
        last = [saving.revision(plugin * 100 + 9) for plugin in range(4)]
        assert [store.load("default", str(plugin)) for plugin in range(4)] == [
            PluginState(revision) for revision in last
        ]
        assert modules(folder) == {revision.module for revision in last}
        assert (store.problem, warnings()) == (None, [])


class TestDirectory:
    @pytest.mark.parametrize(
        ("environment", "directory"),
        [
            ({"XDG_STATE_HOME": "/state", "HOME": "/home/a"}, "/state/kwx"),
            ({"XDG_STATE_HOME": "relative", "HOME": "/home/a"}, "/home/a/.local/state/kwx"),
            ({"HOME": "/home/a"}, "/home/a/.local/state/kwx"),
        ],
    )
    def test_of_the_user(self, monkeypatch: pytest.MonkeyPatch, environment: dict[str, str], directory: str) -> None:
        monkeypatch.delenv("XDG_STATE_HOME", raising=False)
        for name, value in environment.items():
            monkeypatch.setenv(name, value)
        assert default_directory() == Path(directory)

    def test_by_default(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
        with closing(Store.open(None, CONFIG)) as store:
            fill(store)
        with closing(Store.open(tmp_path / "kwx", CONFIG)) as store:
            assert store.load("default", "plugin") == KEPT

    @pytest.mark.parametrize("mode", [0o770, 0o707, 0o1777])
    def test_that_others_can_write_to_is_not_used(
        self, reopen: Callable[[], Store], folder: Path, warnings: Callable[[], list[str]], mode: int
    ) -> None:
        fill(reopen())
        folder.chmod(mode)
        store = reopen()
        assert store.load("default", "plugin") is None
        assert store.problem == (
            f"{folder} can be written by others (mode {mode:o}), and the code kept there is run; chmod 700 it"
        )
        assert warnings() == [warning(store.problem)]

    def test_whose_parent_others_can_write_to_is(self, tmp_path: Path) -> None:
        """As a volume is that is mounted into a pod."""
        tmp_path.chmod(0o777)
        with closing(Store.open(tmp_path, CONFIG)) as store:
            fill(store)
            assert (store.load("default", "plugin"), store.problem) == (KEPT, None)

    @pytest.mark.parametrize(
        ("directory", "problem"),
        [
            ("file", "{tmp_path}/file: File exists"),
            ("file/below", "{tmp_path}/file/below: Not a directory"),
            ("\0", "'{tmp_path}/\\x00' is no path: it holds a NUL"),
            ("x" * 300, "{tmp_path}/" + "x" * 300 + ": File name too long"),
        ],
    )
    def test_that_cannot_be_made(
        self, tmp_path: Path, warnings: Callable[[], list[str]], directory: str, problem: str
    ) -> None:
        (tmp_path / "file").touch()
        store = Store.open(tmp_path / directory, CONFIG)
        saving.save(store, 1)
        assert (store.load("default", "plugin"), store.module(MODULE), store.history()) == (None, None, [])
        assert store.problem == f"{problem.format(tmp_path=tmp_path)}; {MEND}"
        assert warnings() == [warning(store.problem)]
        store.close()

    def test_of_a_user_without_a_home(self, monkeypatch: pytest.MonkeyPatch, warnings: Callable[[], list[str]]) -> None:
        monkeypatch.delenv("XDG_STATE_HOME", raising=False)
        monkeypatch.delenv("HOME")
        monkeypatch.setattr(pwd, "getpwuid", {}.__getitem__)
        store = Store.open(None, CONFIG)
        assert store.problem
        assert "home" in store.problem
        assert store.problem.endswith(MEND)
        assert warnings() == [warning(store.problem)]


@contextmanager
def largest_file(size: int) -> Iterator[None]:
    """Lets no file grow beyond that: a disk that is full."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of half a MiB."""
    path = tmp_path / "disk"
    path.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=512k", "kwx", str(path)]
    if os.geteuid() or subprocess.run(mount, check=False, timeout=PATIENCE_S).returncode:
        pytest.skip("no file system may be mounted here: run the tests as root with CAP_SYS_ADMIN")
    yield path
    subprocess.run(["umount", path], check=True, timeout=PATIENCE_S)


class TestWhatTheDiskRefuses:
    def test_a_file_that_grows_too_large(self, store: Store, folder: Path, warnings: Callable[[], list[str]]) -> None:
        fill(store)
        before = files(folder)
        with largest_file(1000):
            for number in (1, 2):
                saving.save(store, number)
                assert store.problem == f"{folder}: File too large; {MEND}"
                assert store.load("default", "plugin") == KEPT
        assert warnings() == [warning(store.problem)]
        assert files(folder) == sorted([*before, "rollouts.jsonl"])
        assert store.history() == []
        saving.save(store, 3)
        assert (store.load("default", "plugin"), store.problem) == (saving.kept(3), None)
        assert len(store.history()) == 1
        assert warnings() == []

    def test_a_full_disk(self, disk: Path, warnings: Callable[[], list[str]]) -> None:
        with closing(Store.open(disk, CONFIG)) as store:
            fill(store)
            folder = only(disk, "*")
            with suppress(OSError), (disk / "ballast").open("wb") as ballast:
                ballast.write(bytes(1 << 20))
            for number in (1, 2):
                saving.save(store, number)
                assert store.problem == f"{folder}: {os.strerror(errno.ENOSPC)}; {MEND}"
            assert warnings() == [warning(store.problem)]
        with closing(Store.open(disk, CONFIG)) as store:
            problem = f"{folder}: {os.strerror(errno.ENOSPC)}; {MEND}"
            assert (store.problem, warnings()) == (problem, [warning(problem)])
            assert (store.load("default", "plugin"), store.module(MODULE)) == (KEPT, Blob(WASM))
            (disk / "ballast").unlink()
            saving.save(store, 3)
            assert (store.load("default", "plugin"), store.problem) == (saving.kept(3), None)

    def test_a_file_system_that_can_only_be_read(self, disk: Path, warnings: Callable[[], list[str]]) -> None:
        with closing(Store.open(disk, CONFIG)) as store:
            fill(store)
        subprocess.run(["mount", "-o", "remount,ro", disk], check=True, timeout=PATIENCE_S)
        with closing(Store.open(disk, CONFIG)) as store:
            saving.save(store, 1)
            assert (store.load("default", "plugin"), store.module(MODULE)) == (KEPT, Blob(WASM))
            assert store.problem == f"{only(disk, '*')}: Read-only file system; {MEND}"
            assert warnings() == [warning(store.problem)]

    def test_a_new_folder_on_a_file_system_that_can_only_be_read(
        self, disk: Path, warnings: Callable[[], list[str]]
    ) -> None:
        subprocess.run(["mount", "-o", "remount,ro", disk], check=True, timeout=PATIENCE_S)
        store = Store.open(disk / "base", CONFIG)
        assert store.problem == f"{disk / 'base'}: Read-only file system; {MEND}"
        assert warnings() == [warning(store.problem)]

    @pytest.mark.parametrize("name", ["slots", "modules"])
    def test_a_file_in_the_place_of_a_directory(
        self, store: Store, folder: Path, warnings: Callable[[], list[str]], name: str
    ) -> None:
        (folder / name).touch()
        for number in (1, 2):
            saving.save(store, number)
            assert store.load("default", "plugin") is None
        assert store.problem == f"{folder}: Not a directory; {MEND}"
        assert warnings() == [warning(store.problem)]

    def test_a_folder_that_is_gone_later(self, store: Store, folder: Path, warnings: Callable[[], list[str]]) -> None:
        fill(store)
        folder.rename(folder.with_name("gone"))
        for number in (1, 2):
            saving.save(store, number)
            assert (store.load("default", "plugin"), store.module(MODULE), store.history()) == (None, None, [])
        assert store.problem == f"{folder}: No such file or directory; {MEND}"
        assert warnings() == [warning(store.problem)]


KILLS = 50


def test_a_kill_at_any_moment_leaves_something_whole(tmp_path: Path, warnings: Callable[[], list[str]]) -> None:
    moments = random.Random(4711)
    with closing(Store.open(tmp_path, CONFIG)) as store:
        saving.save(store, 0)
    told = [0]
    number, last_id = 0, 0
    command = [sys.executable, "-m", "tests.extender.rollouts.saving", str(tmp_path), str(CONFIG)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as savers:
        assert savers.stdin
        assert savers.stdout
        read = savers.stdout.readline
        for _ in range(KILLS):
            print(number + 1, file=savers.stdin, flush=True)
            saver = int(Beside(read).end())
            said = [int(Beside(read).end()) for _ in range(moments.randrange(3))]
            delay(moments.uniform(0.0, 0.05))
            os.kill(saver, signal.SIGKILL)
            said += [int(line) for line in iter(lambda: Beside(read).end(), "killed\n")]
            with closing(Store.open(tmp_path, CONFIG)) as store:
                kept = store.load("default", "plugin")
                assert kept
                saved = int(kept.active.id.removeprefix("sha256:"))
                assert saved - (said[-1] if said else number) in {0, 1}
                number = saved
                told += said
                assert kept == saving.kept(number)
                assert [store.module(each.module) for each in kept.revisions] == [
                    Blob(saving.module(each)) for each in range(number, number - len(kept.revisions), -1)
                ]
                rollouts = store.history(1000)
                assert {rollout.origin for rollout in rollouts} >= set(map(str, told[-50:]))
                assert rollouts[0].id > last_id or not said
                assert store.next_id() > rollouts[0].id
                last_id = rollouts[0].id
    assert warnings() == []
