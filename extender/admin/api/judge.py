"""The admin API's part for what-ifs: what the plugins, or another module among them, would say of a pod now."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from functools import partial
from typing import Annotated, Any, Final, NamedTuple

import msgspec
from anyio.to_thread import run_sync
from fastapi import APIRouter, HTTPException, Query, Request
from msgspec import Raw, Struct

from extender.admin.api.context import AdminContext, ContextDep, CurrentUser, find_profile, find_slot
from extender.admin.api.decision_views import MAX_NODES_SHOWN, WhatIfView
from extender.admin.api.decisions import decision_view
from extender.admin.api.uploads import read_upload, uploaded
from extender.admin.auth.tokens import User
from extender.cluster import ClusterError, PodGoneError, PodKey
from extender.rollouts.slot import Slot
from extender.rollouts.swap_command import FromRevision, FromSource, SwapCommand
from extender.rollouts.what_if import Supposed, Supposition, WhatIfError
from extender.scheduling.profile import Profile
from extender.scheduling.requests import UNREADABLE, Name, PodRequest
from wasm_runtime.guests.guest import Pod
from wasm_runtime.protobuf import identity, scheduler_name
from wasm_runtime.protobuf.convert import convert_node, convert_pod

logger = logging.getLogger(__name__)

router = APIRouter(prefix="/judge")

NAMESPACE: Final = "default"
"""The namespace of a pod that names none, as in kubectl."""


class Candidate(Struct, forbid_unknown_fields=True):
    """The module and the settings that take a plugin's place in a what-if."""

    plugin: str
    """The name of the plugin."""
    module: bytes | None = None
    """The module, in base64. Without `module` and `revision`, the module that serves is taken."""
    signature: str = ""
    """What `cosign sign-blob` writes for the module: its signature, or a bundle."""
    revision: str = ""
    """The id of a revision that has served before, or a beginning of the id that is unique."""
    settings: dict[str, Any] = {}
    """Keys of the plugin in the configuration file that get other values, as in SwapRequest."""

    def command(self, user: User) -> SwapCommand:
        """The command that would bring the candidate live.

        Raises HTTPException with status 422 for a candidate without content or with two modules, and SourceError for a
        signature that cannot be read.
        """
        if self.module is not None and self.revision:
            raise HTTPException(422, "candidate: module and revision exclude each other")
        if self.module is not None:
            return SwapCommand(uploaded(self.module, self.signature), user.name, settings=self.settings)
        if not (self.revision or self.settings):
            raise HTTPException(422, "candidate: expected a module, a revision or settings")
        what = FromRevision(self.revision) if self.revision else FromSource()
        return SwapCommand(what, user.name, settings=self.settings)


class JudgeRequest(Struct, forbid_unknown_fields=True, rename="camel"):
    """The body of a what-if: a pod, and what is to be different. Exactly one of `pod` and `pod_name` is given."""

    pod: Raw = Raw()
    """A v1.Pod in JSON, as kubectl prints it."""
    pod_name: str = ""
    """A pod of the cluster, as `NAMESPACE/NAME`."""
    nodes: list[Raw] | None = None
    """v1.Nodes in JSON in the place of the cluster's; then no pods are on them."""
    candidate: Candidate | None = None
    """What takes a plugin's place; without it the plugins that serve judge."""


_TEXT: Final = {"type": "string"}
_OBJECT: Final = {"type": "object"}
_SCHEMA: Final = {
    "type": "object",
    "properties": {
        "pod": {**_OBJECT, "description": "A v1.Pod as kubectl prints it."},
        "podName": {**_TEXT, "description": "In its place a pod of the cluster, as NAMESPACE/NAME."},
        "nodes": {"type": "array", "items": _OBJECT, "description": "v1.Nodes in the place of the cluster's."},
        "candidate": {
            **_OBJECT,
            "description": "What takes a plugin's place.",
            "required": ["plugin"],
            "properties": {
                "plugin": {**_TEXT, "description": "Whose place it takes."},
                "module": {**_TEXT, "format": "byte", "description": "By default the module that serves."},
                "signature": {**_TEXT, "description": "What `cosign sign-blob` writes of the module."},
                "revision": {**_TEXT, "description": "One that has served before, by the beginning of its id."},
                "settings": {**_OBJECT, "description": "As in swap."},
            },
        },
    },
}
"""The JSON Schema of JudgeRequest, which only describes the API."""


class _ObjectMeta(Struct):
    name: Name = ""
    namespace: Name = NAMESPACE
    uid: Name = ""


class _Object(Struct):
    metadata: _ObjectMeta


class _Objects(NamedTuple):
    pod: PodRequest | None
    nodes: Mapping[str, bytes] | None


@router.post(
    "",
    openapi_extra={
        "requestBody": {"required": True, "content": {"application/json": {"schema": _SCHEMA}}},
    },
)
async def judge(
    context: ContextDep,
    user: CurrentUser,
    request: Request,
    profile: Annotated[
        str | None, Query(description="The profile that judges; by default that of the pod's schedulerName.")
    ] = None,
    limit: Annotated[int, Query(ge=0, le=MAX_NODES_SHOWN, description="How many nodes.")] = 100,
) -> WhatIfView:
    """Lets the plugins judge a pod on all nodes, by guests made for this request. Nothing is remembered or reserved.

    The body has the pod as `pod`, as kubectl prints it, or the name of a pod of the cluster as `podName`. It may have
    `nodes`, and a `candidate` with the name of the `plugin` whose place it takes: a `module` in base64 with its
    `signature`, or a `revision` that has served before, and `settings`.
    """
    async with context.judging:
        body = await read_upload(request, "the request")
        asked = await run_sync(_decode, body)
        objects = await run_sync(_convert, asked)
        pod = objects.pod or await _read(context, asked.pod_name)
        chosen = find_profile(context, profile, pod.scheduler_name)
        slot = find_slot(context, asked.candidate.plugin, chosen.name) if asked.candidate else None
        command = await run_sync(asked.candidate.command, user) if asked.candidate else None
        supposition = Supposition(pod, chosen, slot, command, objects.nodes)
        logger.info("a pod is judged as a trial", extra=_fields(pod, chosen, slot, user))
        try:
            found = await run_sync(context.what_if.judge, supposition)
        except WhatIfError as error:
            raise HTTPException(422, str(error)) from error
        return await run_sync(partial(_view, context, found, limit))


def _decode(body: bytes) -> JudgeRequest:
    """Raises HTTPException for a body that is no JudgeRequest."""
    try:
        asked = msgspec.json.decode(body, type=JudgeRequest)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise HTTPException(422, f"the body: {error}") from error
    if bool(asked.pod) == bool(asked.pod_name):
        raise HTTPException(422, "expected either pod, as kubectl prints it, or podName, as NAMESPACE/NAME")
    return asked


def _convert(asked: JudgeRequest) -> _Objects:
    """The objects of a request in protobuf. Raises HTTPException for one that cannot be converted."""
    pod = _pod(asked.pod) if asked.pod else None
    return _Objects(pod, None if asked.nodes is None else dict(map(_node, range(len(asked.nodes)), asked.nodes)))


def _pod(json: Raw) -> PodRequest:
    """The pod of a request. A pod that was never created has `namespace/name` in the place of a UID.

    Raises HTTPException for a pod that cannot be converted.
    """
    try:
        metadata = msgspec.json.decode(json, type=_Object).metadata
        if not metadata.name:
            raise HTTPException(422, "pod: metadata.name is missing")
        found = convert_pod(bytes(json))
    except UNREADABLE as error:
        raise HTTPException(422, f"pod: {error}") from error
    name = f"{metadata.namespace}/{metadata.name}"
    return PodRequest(Pod(metadata.uid or name, name, found), scheduler_name(found))


def _node(at: int, json: Raw) -> tuple[str, bytes]:
    """The name and the protobuf of node number `at` of a request. Raises HTTPException for one without either."""
    try:
        name = msgspec.json.decode(json, type=_Object).metadata.name
        if not name:
            raise HTTPException(422, f"nodes: {at}: metadata.name is missing")
        return name, convert_node(bytes(json))
    except UNREADABLE as error:
        raise HTTPException(422, f"nodes: {at}: {error}") from error


async def _read(context: AdminContext, pod: str) -> PodRequest:
    """The pod `NAMESPACE/NAME` of the cluster. Raises HTTPException if it cannot be read."""
    namespace, _, name = pod.partition("/")
    if not (namespace and name) or "/" in name:
        raise HTTPException(422, f"podName: expected NAMESPACE/NAME, found {pod[:100]!r}")
    if context.read_pod is None:
        raise HTTPException(422, "podName: there is no API server to read it from (cluster.mode); give the pod itself")
    try:
        found = await context.read_pod(PodKey(namespace, name, ""))
    except PodGoneError as error:
        raise HTTPException(404, f"pod {pod} is not in the cluster") from error
    except ClusterError as error:
        raise HTTPException(503, f"pod {pod} cannot be read: {error}") from error
    return PodRequest(Pod(identity(found).uid, pod, found), scheduler_name(found))


def _fields(pod: PodRequest, profile: Profile, slot: Slot | None, user: User) -> dict[str, str]:
    candidate = {"plugin": slot.name} if slot else {}
    return {"pod": pod.pod.name, "profile": profile.name, **candidate, "requested_by": user.name}


def _view(context: AdminContext, found: Supposed, limit: int) -> WhatIfView:
    left_out = max(0, len(found.nodes) - limit)
    decision = decision_view(context, found.attempt, found.nodes[:limit], left_out)
    return WhatIfView(**dict(decision) | {"node": "", "ignored": list(found.ignored)})
