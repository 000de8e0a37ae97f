"""Having kube-scheduler try rejected pods again."""

from __future__ import annotations

import asyncio
import json
import logging
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime, timezone
from functools import partial
from http import HTTPStatus
from typing import Final, Literal
from urllib.parse import quote

from extender.cluster.client.api import ApiRequest, ApiServer
from extender.cluster.client.backoff import pauses
from extender.cluster.client.errors import ClusterError, RefusedError
from extender.cluster.client.status import is_object

logger = logging.getLogger(__name__)

NAMESPACE: Final = "kwx-system"
"""Of the manifests."""
NAME: Final = "kwx-wake"
ANNOTATION: Final = "kwx.dev/woken-at"
"""Holds when the last write was; schedulers take a change of anything for an update."""
COMPONENT: Final = "manifests/components/wake-pods"

WAKE_INTERVAL_S: Final = 1.0
"""Seconds after a write before the next one. The first one is made at once: a gang may wait for it."""
CALL_TIMEOUT_S: Final = 5.0
"""Seconds for one write."""
FIRST_PAUSE_S: Final = 1.0
MAX_PAUSE_S: Final = 15.0
"""Seconds before a write is tried again."""
WAKE_TIMEOUT_S: Final = 60.0
"""Seconds after which a write is given up. After five minutes kube-scheduler tries the pods again by itself."""

WakeEnd = Literal["done", "failed"]
"""How a write ended, with all attempts at it."""


class Waker:
    """Has every kube-scheduler of the cluster try the pods again that an extender rejected, by one small write.

    kube-scheduler cannot ask an extender what may change its mind. So it tries a pod that one has rejected again after
    an update of anything that it watches, and otherwise after five minutes. Of what it watches, a CSIStorageCapacity
    is watched by next to nobody else, concerns no other pods if only an annotation changes, and can be written by who
    has no right to nodes or pods. The object is there for this alone: its storage class does not exist.

    Needs the right to patch that one object; it and the right are in COMPONENT.

    https://github.com/kubernetes/kubernetes/blob/v1.36.3/pkg/scheduler/schedule_one.go (ExtenderName)
    https://github.com/kubernetes/kubernetes/blob/v1.36.3/pkg/scheduler/framework/types.go (UnrollWildCardResource)
    """

    def __init__(
        self, api: ApiServer, namespace: str = NAMESPACE, count: Callable[[WakeEnd], object] = lambda _: None
    ) -> None:
        """`namespace` is where the object is: that of the pod that we run in, if we run in one.

        `count` counts a write that has ended.
        """
        self._api = api
        self._namespace = namespace
        self._count = count
        self._wanted = threading.Event()
        self._due: Callable[[], object] = lambda: None
        """Has `run` go on, from any thread."""
        self._trouble = ""
        """What has kept the last write from being made; empty if it was made."""

    def wake(self) -> None:
        """Puts down that pods are to be tried again. From any thread; never waits and never raises.

        Of several within WAKE_INTERVAL_S all but one cost nothing.
        """
        if not self._wanted.is_set():
            self._wanted.set()
            self._due()

    async def run(self) -> None:
        """Write what was asked for until cancelled. What cannot be written is logged."""
        loop, due = asyncio.get_running_loop(), asyncio.Event()
        self._due = partial(_call_in, loop, due.set)
        while True:
            while not self._wanted.is_set():
                await due.wait()
                due.clear()
            self._wanted.clear()  # Before the write: what is asked for meanwhile may come after what it wakes.
            await self._try_to_write()
            await asyncio.sleep(WAKE_INTERVAL_S)

    async def _try_to_write(self) -> None:
        fields = {"object": f"{self._namespace}/{NAME}"}
        end: WakeEnd = "failed"
        try:
            await self._write()
        except ClusterError as error:
            trouble = _explain(error)
            if error.may_pass or trouble != self._trouble:  # What somebody has to mend is told once.
                logger.warning(
                    "rejected pods were not woken; kube-scheduler tries them after an event in the cluster or five"
                    " minutes",
                    extra={**fields, "error": trouble},
                )
            self._trouble = trouble
        except Exception:  # A waker that ended would wake nobody ever again.
            logger.exception("rejected pods were not woken for a fault of our own", extra=fields)
        else:
            end, self._trouble = "done", ""
            logger.debug("rejected pods were woken", extra=fields)
        self._count(end)

    async def _write(self) -> None:
        """Raises ClusterError."""
        deadline = time.monotonic() + WAKE_TIMEOUT_S
        for pause in pauses(FIRST_PAUSE_S, MAX_PAUSE_S):
            try:
                await self._api.write(_touch(self._namespace), CALL_TIMEOUT_S, partial(is_object, "CSIStorageCapacity"))
                return
            except ClusterError as error:
                if not error.may_pass or time.monotonic() + pause > deadline:
                    raise
            await asyncio.sleep(pause)


def _call_in(loop: asyncio.AbstractEventLoop, action: Callable[[], object]) -> None:
    with suppress(RuntimeError):  # The loop has ended: the process does.
        loop.call_soon_threadsafe(action)


def _touch(namespace: str) -> ApiRequest:
    path = f"/apis/storage.k8s.io/v1/namespaces/{quote(namespace, safe='')}/csistoragecapacities/{NAME}"
    body = {"metadata": {"annotations": {ANNOTATION: datetime.now(timezone.utc).isoformat()}}}
    return ApiRequest("patch", "csistoragecapacities.storage.k8s.io", path, body=json.dumps(body).encode())


def _explain(error: ClusterError) -> str:
    codes = HTTPStatus.NOT_FOUND, HTTPStatus.FORBIDDEN
    missing = isinstance(error, RefusedError) and any(map(error.means, codes))
    return f"{error}; {COMPONENT} has the object and the right to patch it" if missing else str(error)
