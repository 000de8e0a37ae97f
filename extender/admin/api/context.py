"""What the routes of the admin API work with, and how they find what a request names."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Annotated, Final

from anyio import CapacityLimiter
from anyio.streams.memory import MemoryObjectReceiveStream
from anyio.to_thread import run_sync
from fastapi import Depends, Header, HTTPException, Path, Query, Request
from pydantic import BeforeValidator

from extender.admin.api.event_stream import EventStream, RolloutStep
from extender.admin.auth.access import DeniedError, TokenAccess, check_intent
from extender.admin.auth.followers import Ending
from extender.admin.auth.middleware import visitor_of
from extender.admin.auth.tokens import User
from extender.admin.recording.recorders import Recorders
from extender.cluster import PodKey
from extender.config import quantity
from extender.rollouts.controller import RolloutController
from extender.rollouts.registration import Registration
from extender.rollouts.rollout import Rollout
from extender.rollouts.slot import Slot
from extender.rollouts.what_if import WhatIf
from extender.scheduling.decisions import Decisions
from extender.scheduling.groups import Groups
from extender.scheduling.ledger import Ledger
from extender.scheduling.profile import Profile
from extender.scheduling.waiting_pods import WaitingPods

MAX_UPLOADS: Final = 2
"""Uploads of modules that are received at a time; further ones wait."""

MAX_JUDGED: Final = 1
"""What-ifs that are judged at a time, each by guests of its own; further ones wait."""

MAX_DISK_READERS: Final = 4
"""Threads that read the history at a time. While the disk hangs, other requests still get threads."""


class AdminContext:
    """The parts of the extender that the routes of the admin API and of the dashboard read and command."""

    def __init__(
        self,
        rollouts: RolloutController,
        what_if: WhatIf,
        recorders: Recorders,
        waiting: WaitingPods,
        ledger: Ledger | None,
        groups: Groups | None,
        registration: Callable[[], Registration],
        decisions: Decisions,
        read_pod: Callable[[PodKey], Awaitable[bytes]] | None,
    ) -> None:
        """`ledger`, `groups` and `read_pod`, which raises ClusterError, are None without a cluster."""
        self.read_pod = read_pod
        self.decisions = decisions
        self.registration = registration
        self.rollouts = rollouts
        self.what_if = what_if
        self.waiting = waiting
        self.ledger = ledger
        self.groups = groups
        self.recorders = recorders
        self.live = rollouts.live
        self.event_stream = EventStream(rollouts.journal)
        self.uploads = asyncio.Semaphore(MAX_UPLOADS)
        self.disk = CapacityLimiter(MAX_DISK_READERS)
        """Bounds the threads that read the state directory."""
        self.judging = asyncio.Semaphore(MAX_JUDGED)

    def under_way(self) -> dict[tuple[str, str], Rollout]:
        """The rollouts that are not over, by the names of profile and plugin."""
        return {(each.profile, each.plugin): each for each in self.rollouts.journal.under_way()}


def _context(request: Request) -> AdminContext:
    context: AdminContext = request.app.state.context
    return context


def _user(request: Request) -> User:
    user: User = request.state.user
    return user


def _access(request: Request) -> TokenAccess:
    access: TokenAccess = request.app.state.access
    return access


ContextDep = Annotated[AdminContext, Depends(_context)]
CurrentUser = Annotated[User, Depends(_user)]
AccessDep = Annotated[TokenAccess, Depends(_access)]
Wait = Annotated[
    float | None,
    BeforeValidator(lambda text: text if text is None else quantity.seconds(text), json_schema_input_type=str | None),
    Query(description="How long the answer may wait for the end of the rollout, at most 1h.", examples=["30s"]),
]
IfMatch = Annotated[
    str | None, Header(description="The id of the revision that must be active, in quotes; otherwise nothing is done.")
]
DryRun = Annotated[
    bool, Query(alias="dryRun", description="Whether it ends when the candidate has judged recorded requests.")
]
ProfileName = Annotated[
    str | None, Query(description="The plugin's profile; needed where several have a plugin of that name.")
]
PluginName = Annotated[str, Path(description="The plugin's name.", examples=["nodenumber"])]


def find_slot(context: ContextDep, plugin: PluginName, profile: ProfileName = None) -> Slot:
    """The slot of a plugin, by its name; `profile` is needed where several profiles have a plugin of that name.

    Raises HTTPException with status 404 if there is none, and 409 if several are meant.
    """
    named = [slot for slot in context.live.slots if slot.name == plugin]
    found = [slot for slot in named if profile in {None, slot.profile}]
    if not named:
        names = ", ".join(sorted({slot.name for slot in context.live.slots}))
        raise HTTPException(404, f"there is no plugin {plugin!r}; there are {names}")
    profiles = ", ".join(slot.profile for slot in named)
    if not found:
        raise HTTPException(404, f"profile {profile!r} has no plugin {plugin!r}; it is in {profiles}")
    if len(found) > 1:
        raise HTTPException(409, f"plugin {plugin!r} is in the profiles {profiles}; name one of them (profile)")
    return found[0]


SlotDep = Annotated[Slot, Depends(find_slot)]


def find_profile(context: AdminContext, name: str | None, scheduler: str = "") -> Profile:
    """A profile by its name; without one, the profile for the pods of `scheduler`, a `spec.schedulerName`.

    Raises HTTPException with status 404 if there is none.
    """
    profiles = context.live.profiles
    found = profiles.of_scheduler(scheduler) if name is None else profiles.named(name)
    if found is None:
        known = ", ".join(each.name for each in profiles)
        raise HTTPException(404, f"no profile is named {name!r}; there are: {known}")
    return found


async def _rollout(context: ContextDep, rollout: Annotated[int, Path(description="The rollout's id.")]) -> Rollout:
    return await find_rollout(context, rollout)


async def _followed(
    context: ContextDep, rollout: Annotated[int | None, Query(description="Only this one, until it is over.")] = None
) -> Rollout | None:
    return None if rollout is None else await find_rollout(context, rollout)


async def find_rollout(context: AdminContext, number: int) -> Rollout:
    """A rollout by its id, from memory or from the history on disk.

    Raises HTTPException with status 404 if neither has it.
    """
    found = context.rollouts.get(number)
    if found is None:
        found = await run_sync(context.rollouts.find, number, limiter=context.disk)
    if found is None:
        raise HTTPException(404, f"there is no rollout {number}, or it is long over")
    return found


def _intent(request: Request, user: CurrentUser) -> None:
    try:
        check_intent(user, request.headers)
    except DeniedError as error:
        raise HTTPException(error.status, str(error)) from None


async def _intent_to_wait(request: Request, user: CurrentUser, wait: Wait = None) -> None:
    if wait:
        _intent(request, user)


IntentRequired = Depends(_intent)
"""Refuses a GET that a foreign web page may have caused; needed where requests share a few places."""
IntentRequiredToWait = Depends(_intent_to_wait)
"""The same for a request with `wait`, which occupies a place; one without `wait` is let in."""


def _ending(request: Request, access: AccessDep) -> Ending | None:
    return access.ending(visitor_of(request.scope))


EndingDep = Annotated[Ending | None, Depends(_ending)]
"""Ends a long answer once the client's token is removed or gets another role; None without tokens."""


async def _steps(
    context: ContextDep, ending: EndingDep, wait: Wait = None
) -> AsyncIterator[MemoryObjectReceiveStream[RolloutStep]]:
    with context.event_stream.listen(wait, ending) as stream:
        yield stream


RolloutDep = Annotated[Rollout, Depends(_rollout)]
FollowedDep = Annotated[Rollout | None, Depends(_followed)]
StepsDep = Annotated[MemoryObjectReceiveStream[RolloutStep], Depends(_steps)]
