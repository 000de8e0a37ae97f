"""Waits until nothing happens any more by itself."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from tests.e2e.stack import Stack
from tests.e2e.witness import Pods, has_node
from tests.patience import wait_until

AT_WORK = {"active", "backoff"}
"""The queues whose pods kube-scheduler tries without any event."""
QUIET_S = 180.0
"""Far more than many pods take on a busy machine, of which kube-scheduler tries none again before 10 s at most."""
LOOK_INTERVAL_S = 0.1
"""Seconds between two looks, each of which takes some of the processor from those who are looked at."""


def wait_until_quiet(stack: Stack, condition: Callable[[Pods], object], what: Callable[[Pods], str]) -> Pods:
    """The pods, once a condition holds for them while all is quiet. `what` says how things stand when none does.

    Where pods wait that the extender has yet to wake, all is quiet for a second at most: a condition may then come
    true after it was false. Raises AssertionError after QUIET_S, and what `condition` raises.
    """

    def found() -> Pods:
        pods = stack.pods()
        return pods if not unrest(stack, pods) and condition(pods) else {}

    def report() -> str:
        pods = stack.pods()
        return f"{what(pods)}; {'; '.join(unrest(stack, pods)) or 'all is quiet'}"

    return wait_until(found, report, QUIET_S, LOOK_INTERVAL_S)


def unrest(stack: Stack, pods: Pods) -> list[str]:
    """What still goes on by itself, a few words each; nothing if all is quiet. `pods` are all that were there just now.

    When all is quiet, each pod without a node is in a queue of kube-scheduler that waits for events, so that none is
    being scheduled or bound; no pod waits on Permit; the extender expects no pod on a node but those that are there;
    and nothing has moved while all this was read.
    """
    moves = stack.moves()
    found = list(_unrest(stack, pods))
    return found if found or (stack.moves(), stack.pods()) == (moves, pods) else ["pods move"]


def _unrest(stack: Stack, pods: Pods) -> Iterator[str]:
    queued, waits, ledger = stack.queued(), stack.waits(), stack.ledger()
    bound = {name for name, pod in pods.items() if has_node(pod)}
    if (at_rest := sum(count for queue, count in queued.items() if queue not in AT_WORK)) != len(pods) - len(bound):
        yield f"{at_rest} of {len(pods) - len(bound)} pods without a node wait for an event"
    if at_work := {queue: count for queue, count in queued.items() if queue in AT_WORK and count}:
        yield f"kube-scheduler is to try pods: {at_work}"
    if waits:
        yield f"pods wait on Permit: {sorted(waits)}"
    if expected := {name: state for name, state in ledger.items() if state != "observed" or name not in bound}:
        yield f"the extender expects pods: {expected}"
    if unknown := bound - set(ledger):
        yield f"the extender does not know pods that have nodes: {sorted(unknown)}"
