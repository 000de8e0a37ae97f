"""The admin API: profiles, plugins, revisions and rollouts. Other subjects have routers of their own."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import suppress
from functools import partial
from http import HTTPStatus
from typing import Annotated, Any, Final

from anyio.to_thread import run_sync
from fastapi import APIRouter, Depends, FastAPI, Header, HTTPException, Path, Query, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.security import HTTPBearer
from fastapi.sse import EventSourceResponse, ServerSentEvent
from pydantic import TypeAdapter
from starlette.exceptions import HTTPException as StarletteHTTPException

from extender.admin.api import decisions, groups, judge, ledger, waits
from extender.admin.api.context import (
    AdminContext,
    ContextDep,
    CurrentUser,
    DryRun,
    EndingDep,
    FollowedDep,
    IfMatch,
    IntentRequired,
    IntentRequiredToWait,
    RolloutDep,
    SlotDep,
    StepsDep,
    Wait,
)
from extender.admin.api.event_stream import RolloutStep, TooManyListenersError
from extender.admin.api.requests import (
    Reason,
    RevisionName,
    RollbackRequest,
    SwapRequest,
    decode_settings,
    expectation,
    with_algorithm,
)
from extender.admin.api.uploads import SignatureHeader, read_upload, uploaded
from extender.admin.api.views import PluginView, ProfileView, RevisionView, RolloutView
from extender.admin.auth.followers import Ending
from extender.admin.paths import PREFIX
from extender.admin.recording import routes
from extender.admin.status import Cause, FailureResponse, FailureStatus
from extender.rollouts.registration import Registration
from extender.rollouts.rollout import Rollout
from extender.rollouts.slot import Slot
from extender.rollouts.swap_command import ConflictError, ReplicatedError, SwapCommand, SwapRefusedError
from extender.sources import SourceError

MAX_HISTORY_ENTRIES: Final = 1000
"""Rollouts of the history that an answer may have."""

WASM: Final = "application/wasm"

REFUSED: Final[dict[type[Exception], HTTPStatus]] = {
    ReplicatedError: HTTPStatus.CONFLICT,
    ConflictError: HTTPStatus.CONFLICT,
    SwapRefusedError: HTTPStatus.UNPROCESSABLE_ENTITY,
    SourceError: HTTPStatus.UNPROCESSABLE_ENTITY,
    TooManyListenersError: HTTPStatus.SERVICE_UNAVAILABLE,
}
"""Exceptions that refuse a request, and the status of the answer; `str()` of each is the message."""

_HISTORY: Final = TypeAdapter(Iterable[RolloutView])

_REFUSALS: Final = {400: "malformed", 401: "no valid token", 403: "not allowed", 404: "not found", 422: "invalid"}
_CONFLICT: Final[dict[int | str, dict[str, Any]]] = {
    202: {"model": RolloutView, "description": "Begun; Location is the rollout's URL"},
    200: {"description": "Over already: done, rehearsed, refused, or nothing was to be done"},
    409: {
        "model": FailureStatus,
        "description": "Another revision is active than expected, or other replicas would not get this",
    },
    412: {"model": FailureStatus, "description": "Another revision is active than If-Match names"},
}

_BEARER: Final = HTTPBearer(auto_error=False, description="A token of server.adminTokens, where that is set.")
"""Only describes the API: AuthMiddleware has checked the token before."""

router = APIRouter(
    prefix=PREFIX,
    dependencies=[Depends(_BEARER)],
    responses={status: {"model": FailureStatus, "description": why} for status, why in _REFUSALS.items()},
)


@router.get("/profiles")
async def list_profiles(context: ContextDep) -> list[ProfileView]:
    """The profiles, in the order of the configuration."""
    return [ProfileView.of(profile, context.live.slots) for profile in context.live.profiles]


@router.get("/registration")
async def show_registration(context: ContextDep) -> Registration:
    """What kube-scheduler's configuration of extenders must fit, for `kwx scheduler-config` and `kwx doctor`."""
    return context.registration()


@router.get("/plugins")
async def list_plugins(context: ContextDep) -> list[PluginView]:
    """The plugins of all profiles, in the order of the configuration."""
    under_way = context.under_way()
    return [PluginView.of(slot, under_way.get((slot.profile, slot.name))) for slot in context.live.slots]


@router.get("/plugins/{plugin}")
async def show_plugin(context: ContextDep, slot: SlotDep, response: Response) -> PluginView:
    """A plugin; ETag is the id of its active revision."""
    if slot.live:
        response.headers["ETag"] = f'"{slot.live.revision.id}"'
    return PluginView.of(slot, context.under_way().get((slot.profile, slot.name)))


@router.get("/plugins/{plugin}/revisions")
async def list_revisions(context: ContextDep, slot: SlotDep) -> list[RevisionView]:
    """The active revision and those that a rollback can lead to, the newest first."""
    return [RevisionView.of(revision, stage) for revision, stage in context.rollouts.revisions(slot)]


@router.get("/plugins/{plugin}/revisions/{revision}")
async def show_revision(
    context: ContextDep, slot: SlotDep, revision: Annotated[RevisionName, Path(description="Its id, or a beginning.")]
) -> RevisionView:
    """A revision, by its id or a beginning of the id that is unique."""
    whole = with_algorithm(revision)
    found = [view for view in await list_revisions(context, slot) if view.id.startswith(whole)]
    if len(found) != 1:
        how_many = "no revision" if not found else "more than one revision"
        raise HTTPException(404, f"{how_many} of plugin {slot.name!r} begins with {whole}")
    return found[0]


@router.post("/plugins/{plugin}/swap", responses=_CONFLICT)
async def swap(
    context: ContextDep,
    slot: SlotDep,
    user: CurrentUser,
    request: SwapRequest,
    response: Response,
    ending: EndingDep,
    wait: Wait = None,
    if_match: IfMatch = None,
) -> RolloutView:
    """Brings another module, other settings or an earlier revision live."""
    command = request.command(slot, user, if_match)
    rollout = await _try(partial(context.rollouts.begin, slot, command), slot, if_match)
    return await _answer(context, rollout, wait, ending, response)


@router.put(
    "/plugins/{plugin}/module",
    responses=_CONFLICT,
    openapi_extra={
        "requestBody": {
            "required": True,
            "content": {WASM: {"schema": {"type": "string", "format": "binary"}}},
        }
    },
)
async def upload_module(
    context: ContextDep,
    slot: SlotDep,
    user: CurrentUser,
    request: Request,
    response: Response,
    ending: EndingDep,
    dry_run: DryRun = False,
    reason: Annotated[Reason, Query(description="Why, for the history.")] = "",
    settings: Annotated[str, Query(description="As in swap, as JSON.", examples=['{"weight": 2}'])] = "{}",
    x_signature: SignatureHeader = None,
    expected_revision: Annotated[
        RevisionName | None, Query(alias="expectedRevision", description="As If-Match; a beginning will do.")
    ] = None,
    wait: Wait = None,
    if_match: IfMatch = None,
) -> RolloutView:
    """Brings the module in the body live."""
    if request.headers.get("content-type") != WASM:
        raise HTTPException(415, f"expected a module, and Content-Type: {WASM}")
    async with context.uploads:
        module = await read_upload(request, "the module")
        expected = expectation(slot, expected_revision, if_match)
        values = decode_settings(settings)

        def begin() -> Rollout:
            command = SwapCommand(uploaded(module, x_signature), user.name, reason, values, dry_run, expected)
            return context.rollouts.begin(slot, command)

        rollout = await _try(begin, slot, if_match)
    return await _answer(context, rollout, wait, ending, response)


@router.post("/plugins/{plugin}/rollback", responses=_CONFLICT)
async def roll_back(
    context: ContextDep,
    slot: SlotDep,
    user: CurrentUser,
    response: Response,
    ending: EndingDep,
    request: RollbackRequest | None = None,
    wait: Wait = None,
    if_match: IfMatch = None,
) -> RolloutView:
    """Brings back the last good revision before the active one, or the revision that is named; it is not probed."""
    request = request or RollbackRequest()
    expected = expectation(slot, request.expected_revision, if_match)
    begin = partial(
        context.rollouts.roll_back, slot, by=user.name, why=request.reason, to=request.revision, expected=expected
    )
    return await _answer(context, await _try(begin, slot, if_match), wait, ending, response)


@router.get("/rollouts/{rollout}", dependencies=[IntentRequiredToWait])
async def show_rollout(context: ContextDep, rollout: RolloutDep, ending: EndingDep, wait: Wait = None) -> RolloutView:
    """A rollout. With `wait`, the answer comes when the rollout or the time is over, or when the token has changed."""
    return RolloutView.of(await context.event_stream.end_of(rollout, wait, ending) if wait else rollout)


@router.get("/history", response_model=list[RolloutView])
async def list_history(
    context: ContextDep,
    profile: Annotated[str | None, Query(description="Only of plugins of this profile.")] = None,
    plugin: Annotated[str | None, Query(description="Only of plugins of this name.")] = None,
    limit: Annotated[int, Query(ge=1, le=MAX_HISTORY_ENTRIES, description="How many.")] = 100,
) -> Response:
    """The rollouts that have ended, the newest first."""

    def read() -> bytes:
        views = map(RolloutView.of, context.rollouts.history(limit, profile, plugin))  # One at a time: they are large.
        return _HISTORY.dump_json(views, by_alias=True)

    return Response(await run_sync(read, limiter=context.disk), media_type="application/json")


@router.get("/events", response_class=EventSourceResponse, dependencies=[IntentRequired])
async def stream_events(
    context: ContextDep,
    rollout: FollowedDep,
    steps: StepsDep,
    last_event_id: Annotated[int | None, Header(description="Begins after this event, if it is still known.")] = None,
) -> AsyncIterator[ServerSentEvent]:
    """Each step of each rollout as it happens: the stage as the event's name, the rollout as its data.

    Without tokens the request needs the header X-Requested-With with any value, or has to come from a page of the
    extender itself. So no foreign web page can occupy the places of listeners.

    A comment line is sent after 15 silent seconds. A client that reads too slowly is cut off, and can resume with
    Last-Event-ID.
    """
    if rollout is None:
        async for step in context.event_stream.steps(steps, last_event_id):
            yield _event(step)
    elif context.rollouts.journal.get(rollout.id) is None:
        yield _event(RolloutStep(0, rollout))
    else:
        async for step in context.event_stream.until_over(steps, rollout.id, last_event_id or 0):
            yield _event(step)


def _event(step: RolloutStep) -> ServerSentEvent:
    data = RolloutView.of(step.rollout).model_dump_json(by_alias=True)
    return ServerSentEvent(raw_data=data, event=step.rollout.stage.value, id=str(step.number))


async def _try(begin: Callable[[], Rollout], slot: Slot, tag: str | None) -> Rollout:
    """Begins a rollout in a thread, since a digest over a whole module would hold the event loop up.

    Raises HTTPException if another revision is active than expected: with status 412 if `tag`, the header If-Match,
    names another one than is active, else with 409.
    """
    try:
        return await run_sync(begin)
    except ConflictError as error:
        active = slot.live.revision.id if slot.live else None
        failed_tag = tag is not None and tag != f'"{active}"'
        raise HTTPException(412 if failed_tag else 409, str(error)) from error


async def _answer(
    context: AdminContext, rollout: Rollout, wait: float | None, ending: Ending | None, response: Response
) -> RolloutView:
    if wait:
        with suppress(TooManyListenersError):  # The rollout has begun all the same: the answer says so without a wait.
            rollout = await context.event_stream.end_of(rollout, wait, ending)
    response.headers["Location"] = f"{PREFIX}/rollouts/{rollout.id}"
    response.status_code = HTTPStatus.OK if rollout.is_over else HTTPStatus.ACCEPTED
    return RolloutView.of(rollout)


router.include_router(routes.router)
router.include_router(decisions.router)
router.include_router(judge.router)
router.include_router(ledger.router)
router.include_router(groups.router)
router.include_router(waits.router)


def add_api(app: FastAPI, context: AdminContext) -> None:
    """Adds the admin API to an application: its routes, and how they answer exceptions."""
    app.state.context = context
    app.include_router(router)
    app.add_exception_handler(StarletteHTTPException, _refuse_as_told)
    app.add_exception_handler(RequestValidationError, _refuse_malformed)
    for error, status in REFUSED.items():
        app.add_exception_handler(error, _refuse(status))


def _refuse(status: int) -> Any:
    async def refuse(_: Request, error: Exception) -> FailureResponse:
        return FailureResponse(status, str(error))

    return refuse


async def _refuse_as_told(_: Request, error: Any) -> FailureResponse:
    return FailureResponse(error.status_code, error.detail, error.headers)


async def _refuse_malformed(_: Request, error: Any) -> FailureResponse:
    """Says what is wrong with a request without quoting it: what was sent may be long or secret."""
    causes = [
        Cause(field=".".join(map(str, each["loc"][1:])), message=each["msg"].removeprefix("Value error, "))
        for each in error.errors()
    ]
    message = "; ".join(f"{each.field}: {each.message}" if each.field else each.message for each in causes)
    return FailureResponse(422, message, causes=causes)
