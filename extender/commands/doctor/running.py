"""Reads the facts that checks need from a running extender, at its admin address."""

from __future__ import annotations

import ssl
from collections import Counter
from datetime import datetime, timezone
from typing import Final

import httpx
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.samples import Sample

from extender.commands.doctor.facts import Activity, Readiness
from extender.commands.plugin.client import AdminClient, RemoteError
from extender.rollouts.registration import Registration

TIMEOUT_S: Final = 10.0
MAX_CHARACTERS: Final = 300
"""Characters that are taken of a line of /readyz."""

_CALLS: Final = "kwx_verb_phase_seconds_count"
_FIRST_PHASE: Final = "decode"
_START: Final = "process_start_time_seconds"


class Running:
    """An extender at a URL. Each call raises RemoteError."""

    def __init__(self, server: str, token: str | None, tls: ssl.SSLContext) -> None:
        self._server = server
        self._tls = tls
        self._token = token

    def registration(self) -> Registration:
        """What kube-scheduler's configuration of extenders must fit."""
        with AdminClient(self._server, self._token, self._tls) as client:
            return client.get("/registration", Registration)

    def activity(self) -> Activity:
        """How often the extender was asked since it started."""
        verbs: Counter[str] = Counter()
        started = 0.0
        for sample in self.samples():
            if sample.name == _START:
                started = sample.value
            if sample.name == _CALLS and sample.labels.get("phase") == _FIRST_PHASE:
                verbs[sample.labels.get("verb", "")] = int(sample.value)
        if not started:
            raise RemoteError(f"{self._server}/metrics does not tell when the extender started")
        return Activity(datetime.fromtimestamp(started, timezone.utc), verbs)

    def samples(self) -> list[Sample]:
        """The samples of all metrics."""
        try:
            families = list(text_string_to_metric_families(self._text("/metrics")))
        except (ValueError, KeyError) as error:
            raise RemoteError(f"{self._server}/metrics has no metrics of an extender: {error}") from error
        return [sample for family in families for sample in family.samples]

    def readiness(self) -> Readiness:
        """What /readyz says."""
        lines = [line[:MAX_CHARACTERS] for line in self._text("/readyz?verbose").splitlines()]
        failed = [line.removeprefix("[-]") for line in lines if line.startswith("[-]")]
        return Readiness(failed, [line.removeprefix("[+]") for line in lines if " ok, but " in line])

    def _text(self, path: str) -> str:
        try:
            answer = httpx.get(
                f"{self._server.rstrip('/')}{path}", timeout=TIMEOUT_S, trust_env=False, verify=self._tls
            )
        except httpx.HTTPError as error:
            raise RemoteError(f"no extender answers at {self._server}: {error}") from error
        if answer.status_code not in {httpx.codes.OK, httpx.codes.SERVICE_UNAVAILABLE}:
            raise RemoteError(f"{self._server}{path} answers with status {answer.status_code}")
        return answer.text
