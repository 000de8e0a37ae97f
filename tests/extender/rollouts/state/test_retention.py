"""What is kept on disk, in bytes, and that nothing goes that anybody can still go back to."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import msgspec
import pytest

from extender import config
from extender.rollouts.revision import Revision, RolloutStage
from extender.rollouts.state.retention import Served, within
from extender.rollouts.state.store import MAX_REMOVED_S, PluginState, Store
from tests.extender import versions
from tests.extender.kwx import plugin, profile
from tests.extender.rollouts.inside import Inside
from tests.extender.rollouts.test_swaps import put
from wasm_runtime.blob import Blob, digest

SIZE = len(versions.module(10))
"""Bytes of a module of any version."""

UNHURRIED = {"slowdownFloor": "10s"}


def revisions(modules: str) -> list[Revision]:
    """A revision for each letter, which names its module and how large that is: `a` has a byte."""
    return [Revision(f"{at}-{each}", each, {}, "") for at, each in enumerate(modules)]


def size(module: str) -> int:
    return ord(module.lower()) - ord("a") + 1


@pytest.mark.parametrize(
    ("limit", "places", "kept"),
    [
        (6, ["aaa", "bb"], ["aaa", "bb"]),
        (0, ["bcd", "e"], ["bc", "e"]),
        (100, ["bcd", "efg"], ["bcd", "efg"]),
        (18, ["bcd", "eff"], ["bc", "eff"]),
        (15, ["bcda", "efg"], ["bc", "ef"]),
        (17, ["bcda", "ef"], ["bc", "ef"]),
        (20, ["bcda", "ef"], ["bcd", "ef"]),
        (21, ["bcda", "ef"], ["bcda", "ef"]),
        (9, ["bczc", "bc"], ["bcc", "bc"]),
        (9, [], []),
    ],
    ids=[
        "a module is counted once",
        "what is needed stays",
        "all fit",
        "shared",
        "none fits",
        "none of a place comes after one that does not fit",
        "the first that fits",
        "all that fit",
        "what is there anyway costs nothing",
        "nothing",
    ],
)
def test_the_newest_that_fit_are_kept(limit: int, places: Sequence[str], kept: Sequence[str]) -> None:
    """The first two of each place are needed."""
    served = [Served(revisions(modules), frozenset(modules[:2])) for modules in places]
    found = within(limit, served, size)
    assert ["".join(each.module for each in place) for place in found] == list(kept)


# -- beside what serves ----------------------------------------------------------------------------


def start(folder: Path, *plugins: str, limit: int) -> Inside:
    for version, name in zip((10, 40), plugins, strict=True):
        put(folder / f"{name}.wasm", versions.module(version))
    entries = [plugin(name, swap={**UNHURRIED, "rollback": "manual"}) for name in plugins]
    return Inside(folder, profile("default", *entries), server={"stateLimit": limit})


def versions_of(inside: Inside, name: str) -> list[int]:
    """Of the modules on offer, the newest first."""
    numbers = {digest(versions.module(version)): version for version in versions.VERSIONS}
    return [numbers[each.module] for each, _ in inside.rollouts.revisions(inside.slot(name))]


def on_disk(folder: Path) -> set[str]:
    return {f"sha256:{path.stem}" for path in folder.glob("state/*/modules/*")}


def test_what_goes_is_on_offer_no_more_and_what_is_on_offer_is_there(tmp_path: Path) -> None:
    with start(tmp_path, "one", "other", limit=5 * SIZE) as inside:
        for version in range(11, 20):
            inside.over(inside.begin(versions.module(version), plugin="one"))
        assert (versions_of(inside, "one"), versions_of(inside, "other")) == ([19, 18, 17, 16], [40])
        inside.over(inside.begin(versions.module(30), plugin="other"))
        assert (versions_of(inside, "one"), versions_of(inside, "other")) == ([19, 18, 17], [30, 40])
        inside.written()
        assert on_disk(tmp_path) == {digest(versions.module(version)) for version in (19, 18, 17, 30, 40)}
        slot = inside.slot("one")
        for revision in slot.revisions[1:]:
            over = inside.over(inside.rollouts.roll_back(slot, by="ann", to=revision.id))
            assert (over.stage, over.problem) == (RolloutStage.ACTIVE, "")
    with start(tmp_path, "one", "other", limit=1) as again:
        assert (versions_of(again, "one"), versions_of(again, "other")) == ([17], [30, 40])


def test_a_plugin_that_comes_back_finds_what_has_served(tmp_path: Path) -> None:
    with start(tmp_path, "one", "other", limit=100 * SIZE) as inside:
        inside.over(inside.begin(versions.module(11), plugin="one"))
        both = config.read(inside.config).profiles
        inside.rollouts.configuration.apply([both[0].model_copy(update={"plugins": both[0].plugins[1:]})])
        inside.over(inside.begin(versions.module(12), plugin="other"))
        inside.rollouts.configuration.apply(both)
        assert versions_of(inside, "one") == [10, 11]
        slot = inside.slot("one")
        assert inside.over(inside.rollouts.roll_back(slot, by="ann")).problem == ""
        assert versions_of(inside, "one") == [10, 11]
        assert inside.active("one") == slot.revisions[1].id


# -- plugins that were removed ---------------------------------------------------------------------

CONFIG = Path("/etc/kwx/kwx.yaml")


@pytest.fixture
def reopen(tmp_path: Path) -> Iterator[Callable[..., Store]]:
    """Opens the store as a new process would that has these plugins, once the one before has ended."""
    stores: list[Store] = []

    def reopen(*plugins: str, limit: int = 1000) -> Store:
        for store in stores:
            store.close()
        stores.append(Store.open(tmp_path, CONFIG, limit))
        stores[-1].expect([("default", plugin) for plugin in plugins])
        return stores[-1]

    yield reopen
    for store in stores:
        store.close()


def save(store: Store, name: str, letter: bytes = b"") -> None:
    """Keeps a plugin with a module of 100 bytes of its own."""
    wasm = (letter or name.encode()) * 100
    store.keep_module(Blob(wasm))
    store.save("default", name, PluginState(Revision(f"sha256:{name}", digest(wasm), {}, name)))


def kept(store: Store, *names: str) -> list[bool]:
    """Of which plugins something is kept, each with its module."""
    found = [store.load("default", name) for name in names]
    assert all(store.module(each.active.module) for each in found if each)
    return [each is not None for each in found]


def test_what_is_known_of_a_plugin_outlives_its_removal_for_a_while(
    reopen: Callable[..., Store], monkeypatch: pytest.MonkeyPatch
) -> None:
    store = reopen("a", "b")
    for name in ("a", "b"):
        save(store, name)
    save(reopen("a"), "a")
    now = time.time()
    monkeypatch.setattr(time, "time", lambda: now + MAX_REMOVED_S - 10)
    save(store := reopen("a"), "a")
    assert kept(store, "a", "b") == [True, True]
    monkeypatch.setattr(time, "time", lambda: now + MAX_REMOVED_S + 10)
    save(store := reopen("a"), "a")
    assert kept(store, "a", "b") == [True, False]
    assert store.size(digest(b"b" * 100)) == 0


def test_a_plugin_that_comes_back_is_not_removed_any_more(
    reopen: Callable[..., Store], monkeypatch: pytest.MonkeyPatch
) -> None:
    store = reopen("a", "b")
    for name in ("a", "b"):
        save(store, name)
    save(reopen("a"), "a")
    save(reopen("a", "b"), "b")
    now = time.time()
    monkeypatch.setattr(time, "time", lambda: now + MAX_REMOVED_S + 10)
    save(store := reopen("a"), "a")
    assert kept(store, "a", "b") == [True, True]


def test_what_was_removed_first_goes_first_when_room_is_needed(
    reopen: Callable[..., Store], monkeypatch: pytest.MonkeyPatch
) -> None:
    store = reopen(*"abc")
    for name in "abc":
        save(store, name)
    now = time.time()
    for at, left in enumerate(("ac", "a")):
        monkeypatch.setattr(time, "time", lambda at=at: now + at)
        save(reopen(*left), "a")
    save(store := reopen("a", limit=200), "a")
    assert kept(store, *"abc") == [True, False, True]
    save(store := reopen("a", limit=0), "a")
    assert kept(store, *"abc") == [True, False, False]
    assert [store.size(digest(name.encode() * 100)) for name in "abc"] == [100, 0, 0]


def test_a_module_that_something_else_needs_stays(reopen: Callable[..., Store]) -> None:
    store = reopen("a", "b")
    save(store, "a", b"x")
    save(store, "b", b"x")
    save(store := reopen("a", limit=0), "a", b"x")
    assert kept(store, "a") == [True]


def test_an_older_process_reads_what_tells_of_a_removal(reopen: Callable[..., Store], tmp_path: Path) -> None:
    store = reopen("a", "b")
    for name in ("a", "b"):
        save(store, name)
    save(reopen("a"), "a")
    slots = [msgspec.json.decode(path.read_bytes()[65:]) for path in tmp_path.glob("*/slots/*.json")]
    assert sorted((each["plugin"], each["removed"] is None) for each in slots) == [("a", True), ("b", False)]
