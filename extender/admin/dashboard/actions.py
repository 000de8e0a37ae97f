"""What the forms of the dashboard do: swap, upload, dry run, rollback, signing in and out."""

from __future__ import annotations

from functools import partial
from http import HTTPStatus
from typing import Annotated, Any, Final
from urllib.parse import parse_qsl

from anyio.to_thread import run_sync
from fastapi import APIRouter, Depends, HTTPException, Query, Request, Response
from fastapi.responses import RedirectResponse

from extender.admin.api.context import AccessDep, ContextDep, CurrentUser, find_slot
from extender.admin.api.requests import Reason, RevisionName, RollbackRequest, SwapRequest, expectation
from extender.admin.api.routes import WASM
from extender.admin.api.uploads import SignatureHeader, read_upload, uploaded
from extender.admin.auth.access import DeniedError, check_form, session_cookie, session_of
from extender.admin.auth.middleware import visitor_of
from extender.admin.dashboard.rendering import link, render
from extender.rollouts.rollout import Rollout
from extender.rollouts.swap_command import SwapCommand

FORM: Final = "application/x-www-form-urlencoded"
MAX_FIELDS: Final = 20
"""Fields of a form."""

router = APIRouter()


async def _fields(request: Request) -> dict[str, str]:
    """The fields of a form that are not empty, by name.

    Raises HTTPException with status 415 or 400 for a body that is no form.
    """
    if request.headers.get("content-type", "").partition(";")[0] != FORM:
        raise HTTPException(415, f"expected a form, as Content-Type: {FORM}")
    try:
        return dict(parse_qsl((await request.body()).decode(), max_num_fields=MAX_FIELDS))
    except ValueError as error:
        raise HTTPException(400, f"the form cannot be read: {error}") from error


Fields = Annotated[dict[str, str], Depends(_fields)]


def _chosen(fields: dict[str, str], *names: str) -> dict[str, Any]:
    """The fields with these names, without surrounding blanks."""
    return {name: fields[name].strip() for name in names if name in fields}


def _to_rollout(rollout: Rollout) -> Response:
    return RedirectResponse(link("rollout", id=rollout.id), HTTPStatus.SEE_OTHER)


@router.post("/swap")
async def swap(context: ContextDep, user: CurrentUser, fields: Fields) -> Response:
    """Brings the module of a URL, an earlier revision or what the source gives live; as a dry run only tries it."""
    slot = find_slot(context, fields.get("name", ""), fields.get("profile"))
    asked = _chosen(fields, "url", "revision", "expectedRevision", "reason") | {"dryRun": "dryRun" in fields}
    command = SwapRequest.model_validate(asked).command(slot, user, None)
    return _to_rollout(await run_sync(context.rollouts.begin, slot, command))


@router.post("/module")
async def upload_module(
    context: ContextDep,
    user: CurrentUser,
    request: Request,
    name: Annotated[str, Query()],
    profile: Annotated[str, Query()],
    expected_revision: Annotated[RevisionName | None, Query(alias="expectedRevision")] = None,
    reason: Annotated[Reason, Query()] = "",
    dry_run: Annotated[str, Query(alias="dryRun")] = "",
    x_signature: SignatureHeader = None,
) -> Response:
    """Brings the module in the body live; as a dry run only tries it."""
    slot = find_slot(context, name, profile)
    if request.headers.get("content-type") != WASM:
        raise HTTPException(415, f"expected a module, as Content-Type: {WASM}")
    async with context.uploads:
        module = await read_upload(request, "the module")

        def begin() -> Rollout:
            expected = expectation(slot, expected_revision, None)
            command = SwapCommand(uploaded(module, x_signature), user.name, reason.strip(), {}, bool(dry_run), expected)
            return context.rollouts.begin(slot, command)

        return _to_rollout(await run_sync(begin))


@router.post("/rollback")
async def roll_back(context: ContextDep, user: CurrentUser, fields: Fields) -> Response:
    """Brings back the last good revision before the active one."""
    slot = find_slot(context, fields.get("name", ""), fields.get("profile"))
    asked = RollbackRequest.model_validate(_chosen(fields, "expectedRevision", "reason"))
    expected = expectation(slot, asked.expected_revision, None)
    begin = partial(context.rollouts.roll_back, slot, by=user.name, why=asked.reason, expected=expected)
    return _to_rollout(await run_sync(begin))


@router.get("/sign-in")
async def show_sign_in(request: Request, access: AccessDep) -> Response:
    """The form to sign in with; without tokens, where nobody has to sign in, the first page."""
    return render(request, "sign_in.html", problem="") if access.sessions else _home()


@router.post("/sign-in")
async def sign_in(request: Request, access: AccessDep, fields: Fields) -> Response:
    """Begins a session of the user whose token the form has."""
    _check_form(request)
    if access.sessions is None:
        return _home()
    session = access.sessions.begin(fields.get("token", "").strip())
    if session is None:
        problem = "This is not one of the tokens of server.adminTokens."
        return render(request, "sign_in.html", HTTPStatus.FORBIDDEN, problem=problem)
    answer = _home()
    scheme = request.url.scheme
    answer.set_cookie(
        session_cookie(scheme), session, path="/", secure=scheme == "https", httponly=True, samesite="strict"
    )
    return answer


@router.post("/sign-out")
async def sign_out(request: Request, access: AccessDep) -> Response:
    """Ends the session of the browser that asks."""
    _check_form(request)
    if access.sessions:
        access.sessions.end(session_of(visitor_of(request.scope)))
    return _home()


def _home() -> Response:
    """A redirection to the first page."""
    return RedirectResponse(link(""), HTTPStatus.SEE_OTHER)


def _check_form(request: Request) -> None:
    """Raises HTTPException for a form that a page of another origin sent."""
    try:
        check_form(visitor_of(request.scope))
    except DeniedError as error:
        raise HTTPException(error.status, str(error)) from None
