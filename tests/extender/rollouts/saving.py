"""Processes that save as fast as they can, one after the other, until they are killed."""

import os
import sys
from itertools import count
from pathlib import Path

from extender.rollouts.revision import Revision
from extender.rollouts.rollout import Rollout
from extender.rollouts.state.store import PluginState, Store
from wasm_runtime.blob import Blob, digest

MODULES = 4
"""Revisions that are kept at a time."""


def module(number: int) -> bytes:
    """The module of a revision, some of them longer than what is written at once."""
    return b"%d " % number * (1 + number % 7 * 10_000)


def revision(number: int) -> Revision:
    return Revision(f"sha256:{number}", digest(module(number)), {"guestConfig": "x" * 5000}, f"number {number}")


def kept(number: int) -> PluginState:
    revisions = [revision(each) for each in range(number, max(-1, number - MODULES), -1)]
    return PluginState(revisions[0], revisions[0].id, revisions)


def save(store: Store, number: int) -> None:
    store.keep_module(Blob(module(number)))
    store.save("default", "plugin", kept(number))
    store.append(
        Rollout(
            id=store.next_id(),
            profile="default",
            plugin="plugin",
            by="source",
            why="y" * 50_000,
            origin=str(number),
        )
    )


def main(directory: Path, config_file: Path) -> None:
    """For each line of input, the first number to save, a process; tells its id, what it has saved, and its end."""
    for line in sys.stdin:
        child = os.fork()
        if not child:
            say(os.getpid())
            store = Store.open(directory, config_file)
            for number in count(int(line)):
                save(store, number)
                say(number)
        os.waitpid(child, 0)
        say("killed")


def say(word: object) -> None:
    """Writes a line in one call, so that no half of it is ever read."""
    os.write(1, f"{word}\n".encode())


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
