"""Pods that wait on Permit, as guests see and reject them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Final

from tests.conformance.calls import NODE, calls, failed
from tests.conformance.case import Case
from tests.conformance.cases.status import DONE, where
from tests.conformance.guests import BUFFER, PAGE, TEXT, guest, only, size, tells, told
from wasm_runtime import Fault, abi
from wasm_runtime.engine import GuestEvent, Handle, Log, NoHandle

GET: Final = "k8s.io/scheduler/handle.get_waiting_pod"
REJECT: Final = "k8s.io/scheduler/handle.reject_waiting_pod"

UID: Final = "pod-1"
POD: Final = "THE POD THAT WAITS"
YES: Final = "\1" + "\0" * 7
NO: Final = "\0" * 8
SHOWN: Final = 24
BLANK: Final = "*" * SHOWN


class Waiting:
    """A handle that knows which pods wait."""

    def __init__(self, pods: dict[str, bytes]) -> None:
        self._pods = pods

    def waiting_pod(self, uid: str, /) -> bytes | None:
        return self._pods.get(uid)

    def reject_waiting_pod(self, uid: str, /) -> bool:
        return self._pods.pop(uid, None) is not None


def one_waits(uid: str = UID, pod: str = POD) -> Waiting:
    """A handle for which one pod waits."""
    return Waiting({uid: pod.encode()})


def _asking(
    name: str,
    function: str,
    uid: str | bytes,
    written: str | None,
    *,
    buffer: int = BUFFER,
    limit: int = SHOWN,
    shown: int = BUFFER,
    handle: Callable[[], Handle] = one_waits,
) -> Case:
    """A filter that asks for a UID and tells what was written, from `shown` on; a trap if that is None."""
    outside = f"{where('filter')}: trap: memory out of bounds in {function} < filter"
    return Case(
        name,
        guest(
            only("filter", tells(function, TEXT, size(uid), buffer, limit, buffer=shown, shown=SHOWN)),
            uses=[function],
            data={TEXT: uid},
        ),
        calls("filter"),
        failed(Fault.TRAP, outside) if written is None else DONE["filter"],
        [] if written is None else [told(0, written.ljust(SHOWN, "*"), NODE)],
        handle=handle,
    )


LAST: Final = PAGE - SHOWN


def _sizes() -> Iterator[Case]:
    length = len(POD)
    for limit in (0, 1, 7, 8, length - 1):
        yield _asking(f"a pod that waits is not written to a buffer of {limit}", GET, UID, BLANK, limit=limit)
    for limit in (length, length + 1, 2**31, 2**32 - 1):
        yield _asking(f"a pod that waits is written to a buffer of {limit}", GET, UID, POD, limit=limit)
    last = POD.rjust(SHOWN, "*")
    what = "a pod that waits is written to the end of memory"
    yield _asking(what, GET, UID, last, buffer=PAGE - length, limit=length, shown=LAST)
    for buffer in (PAGE - length + 1, PAGE, 2**32 - 1):
        yield _asking(
            f"a pod that waits is written out of memory, at {buffer}", GET, UID, None, buffer=buffer, limit=length
        )
        yield _asking(
            f"a pod that waits is not written out of memory, at {buffer}, where it does not fit anyway",
            GET,
            UID,
            BLANK,
            buffer=buffer,
            limit=length - 1,
        )
    yield _asking("a pod that waits is empty", GET, UID, BLANK, handle=lambda: one_waits(pod=""))


def _numbers() -> Iterator[Case]:
    for what, function, uid, number in (
        ("get a pod that does not wait", GET, "pod-2", NO),
        ("reject a pod that does not wait", REJECT, "pod-2", NO),
        ("reject a pod that waits", REJECT, UID, YES),
    ):
        for limit in (0, 7, 8, 2**32 - 1):
            yield _asking(
                f"{what}, with a buffer of {limit}: all of the number is written", function, uid, number, limit=limit
            )
        last = number.rjust(SHOWN, "*")
        yield _asking(f"{what}, with a buffer at the end of memory", function, uid, last, buffer=PAGE - 8, shown=LAST)
        for buffer in (PAGE - 7, PAGE, 2**32 - 8, 2**32 - 1):
            yield _asking(f"{what}, with a buffer out of memory, at {buffer}", function, uid, None, buffer=buffer)


UIDS: Final[dict[str | bytes, str]] = {
    "": "",
    "0b5cf4ff-5bd2-4b2c-8b7f-2f8a3f6b8b5e": "0b5cf4ff-5bd2-4b2c-8b7f-2f8a3f6b8b5e",
    "größe ☃": "größe ☃",
    "a\0b": "a\0b",
    " pod-1 ": " pod-1 ",
    "POD-1": "POD-1",
    "x" * 1000: "x" * 1000,
    b"pod-\xff": "pod-\ufffd",
}
"""UIDs that a guest may ask for, and how the host reads them."""


def _uids() -> Iterator[Case]:
    for uid, read in UIDS.items():
        short = repr(uid[:20])
        yield _asking(f"get a pod by the UID {short}", GET, uid, POD, handle=partial(one_waits, read))
        yield _asking(
            f"get a pod by the UID {short}, which no pod has", GET, uid, NO, handle=partial(one_waits, f"{read}.")
        )
        yield _asking(f"reject a pod by the UID {short}", REJECT, uid, YES, handle=partial(one_waits, read))


def _everywhere() -> Iterator[Case]:
    for name, entry in abi.EXPORTS.items():
        if name == "enqueue":
            continue
        node = NODE if entry.on_node else ""
        body = " ".join(
            tells(function, TEXT, len(UID), BUFFER, SHOWN, shown=SHOWN) for function in (GET, REJECT, REJECT, GET)
        )
        journal: list[Log | GuestEvent] = [told(0, text.ljust(SHOWN, "*"), node) for text in (POD, YES, NO, NO)]
        yield Case(
            f"{name} gets a pod, rejects it twice, and does not get it any more",
            guest(only(name, body, "unreachable"), uses=[GET, REJECT], data={TEXT: UID}),
            calls(name),
            failed(Fault.TRAP, f"{where(name)}: trap: unreachable in {name}"),
            journal,
            handle=one_waits,
        )
    for function in (GET, REJECT):
        yield _asking(f"{function} where no pod ever waits", function, UID, NO, handle=NoHandle)


CASES = [*_sizes(), *_numbers(), *_uids(), *_everywhere()]
