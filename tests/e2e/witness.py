"""Watches the pods at the API server beside a test, and judges where they are."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import httpx

from bench.controlplane import ControlPlane
from tests.patience import Beside, delay, wait_until

PODS = "/api/v1/namespaces/default/pods"
WATCH_S = 1
"""Seconds after which the API server ends a watch, and another goes on behind it."""

PAUSE_S = 0.2
"""Seconds between two attempts to reach the API server."""

Pods = Mapping[str, dict[str, Any]]
"""v1.Pods by name."""


class Witness:
    """Sees each change of a pod of namespace default, in the API server's order, and judges each bind."""

    def __init__(self, control_plane: ControlPlane, violations: Callable[[Pods], list[str]]) -> None:
        """`violations` says what is wrong with the pods as they are at one moment."""
        self._client = control_plane.client
        self._violations = violations
        self._pods: Pods = {}
        self._is_leaving = False
        self.judged = 0
        """How often a pod got a node, or other annotations there."""

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Watches until the end. Raises AssertionError if something was wrong meanwhile."""
        listed = self._client.get(PODS).raise_for_status().json()
        self._pods = {pod["metadata"]["name"]: pod for pod in listed["items"]}
        self._beside = Beside(lambda: self._watch(listed["metadata"]["resourceVersion"]))
        try:
            yield
        finally:
            self._is_leaving = True
            self._beside.end()

    @property
    def pods(self) -> Pods:
        """The pods as they were seen last."""
        return self._pods

    def check(self) -> None:
        """Raises AssertionError if something was wrong until now."""
        if self._beside.is_over:
            self._beside.end()

    def wait_until(self, condition: Callable[[Pods], object], what: str, timeout_s: float) -> None:
        """Waits until the pods are as wanted, or something is wrong. Raises AssertionError."""
        looked_at: Pods | None = None

        def is_over() -> bool:
            nonlocal looked_at
            if self._beside.is_over:
                return True
            before, looked_at = looked_at, self._pods
            return looked_at is not before and bool(condition(looked_at))

        wait_until(is_over, lambda: f"{what}; {self._count()}", timeout_s)
        self.check()

    def _watch(self, version: str) -> None:
        while not self._is_leaving:
            try:
                version = self._follow(version) if version else self._list()
            except httpx.HTTPError:  # The API server is being started anew.
                version = ""
                delay(PAUSE_S)

    def _follow(self, version: str) -> str:
        """Takes what happens for a while. Returns the version of what was last; nothing if that is not to be had."""
        query = {"watch": "1", "resourceVersion": version, "timeoutSeconds": str(WATCH_S)}
        with self._client.stream("GET", PODS, params=query) as answer:
            answer.raise_for_status()
            for line in answer.iter_lines():
                event = json.loads(line)
                if event["type"] == "ERROR" and event["object"]["code"] == httpx.codes.GONE:
                    return ""
                version = self._take(event)
        return version

    def _list(self) -> str:
        """Takes all pods as they are. Returns the list's version."""
        listed = self._client.get(PODS).raise_for_status().json()
        for gone in self._pods.keys() - {pod["metadata"]["name"] for pod in listed["items"]}:
            self._take({"type": "DELETED", "object": self._pods[gone]})
        for pod in listed["items"]:
            self._take({"type": "MODIFIED", "object": pod})
        version: str = listed["metadata"]["resourceVersion"]
        return version

    def _take(self, event: dict[str, Any]) -> str:
        """Takes a change, and judges the pods if it is about where one of them is. Returns the change's version."""
        pod = event["object"]
        assert event["type"] in {"ADDED", "MODIFIED", "DELETED"}, event
        name = pod["metadata"]["name"]
        before, pods = self._pods.get(name), {**self._pods, name: pod}
        if before and has_node(before) and before["metadata"]["uid"] == pod["metadata"]["uid"]:
            assert before["spec"]["nodeName"] == pod["spec"].get("nodeName"), f"{name} was bound twice"
        if event["type"] == "DELETED":
            del pods[name]
        self._pods = pods
        if has_node(pod) and _place(pod) != (before and _place(before)):
            self.judged += 1
            assert not (wrong := self._violations(pods)), "\n".join(wrong)
        version: str = pod["metadata"]["resourceVersion"]
        return version

    def _count(self) -> str:
        return f"{sum(map(has_node, self._pods.values()))} of {len(self._pods)} pods have a node"


def _place(pod: Mapping[str, Any]) -> tuple[object, object]:
    return pod["spec"].get("nodeName"), pod["metadata"].get("annotations")


def has_node(pod: Mapping[str, Any]) -> bool:
    """Whether a pod is bound."""
    return "nodeName" in pod["spec"]
