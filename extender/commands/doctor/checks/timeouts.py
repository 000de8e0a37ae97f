"""Whether whoever asks waits longer than whoever answers may take."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from extender.commands.doctor.check import Check, Problem, Severity
from extender.commands.doctor.facts import Entry
from extender.rollouts.registration import GROUP_BIND_S, Registration

LONG_FACTOR: Final = 4
"""An httpTimeout is too long if it is more than this factor times the time that the extender needs."""


def _judging(entry: Entry, extender: Registration) -> Iterator[Problem]:
    waits = entry.extender.seconds
    for profile in extender.profiles:
        if waits <= profile.seconds:
            yield Problem(
                f"{_waits(entry)}, and the plugins of profile {profile.name} may take {profile.seconds:g} s for"
                " preempt, which asks them in two halves: kube-scheduler gives up before a plugin's own timeout"
                " tells what is wrong",
                f"set httpTimeout to {_needed(entry, extender):g}s, or lower the plugins' timeouts",
            )


def _binding(entry: Entry, extender: Registration) -> Iterator[Problem]:
    if entry.extender.bind_verb and entry.binding.extender.seconds <= extender.bind_timeout_seconds:
        yield Problem(
            f"{_waits(entry.binding)}, and server.bindTimeout is {extender.bind_timeout_seconds:g} s: kube-scheduler"
            " gives up while pods are being bound or wait on Permit",
            f"set httpTimeout to {extender.timeout:g}s, or lower server.bindTimeout",
        )


def _long(entry: Entry, extender: Registration) -> Iterator[Problem]:
    needed = _needed(entry, extender)
    if entry.extender.seconds > LONG_FACTOR * needed:
        yield Problem(
            f"{_waits(entry)}, and the extender needs {needed:g} s at most: kube-scheduler judges no other"
            " pod while it waits for an extender that hangs",
            f"set httpTimeout to {needed:g}s",
        )


def _within_bind(entry: Entry, extender: Registration) -> Iterator[Problem]:
    for profile in extender.profiles:
        binders = [plugin for plugin in profile.plugins if plugin.binding_points]
        longest = sum(plugin.timeout_seconds for plugin in binders)
        if entry.extender.bind_verb and longest > extender.bind_timeout_seconds:
            yield Problem(
                f"plugins {', '.join(plugin.name for plugin in binders)} of profile {profile.name} may take"
                f" {longest:g} s for bind, and server.bindTimeout is {extender.bind_timeout_seconds:g} s: a bind can"
                " end before the plugins' own timeouts",
                "raise server.bindTimeout, and httpTimeout with it, or lower the plugins' timeouts",
            )


def _groups(entry: Entry, extender: Registration) -> Iterator[Problem]:
    seconds = extender.bind_timeout_seconds
    gathering = [plugin.name for plugin in extender.plugins if plugin.gathers_groups]
    if entry.extender.bind_verb and gathering and seconds < GROUP_BIND_S:
        yield Problem(
            f"plugins {', '.join(gathering)} may have pods of a group wait in bind for each other, and"
            f" server.bindTimeout is {seconds:g} s: the first of a large group let go before kube-scheduler comes to"
            " the last",
            f"set server.bindTimeout to 2m, at least {GROUP_BIND_S:g}s, and print kube-scheduler's configuration anew"
            " by kwx scheduler-config",
        )


def _needed(entry: Entry, extender: Registration) -> float:
    return extender.judging_timeout if entry.binder else extender.timeout


def _waits(entry: Entry) -> str:
    return f"kube-scheduler waits {entry.extender.seconds:g} s for an answer ({entry.key('httpTimeout')})"


CHECKS: Final = (
    Check("timeout-verbs", Severity.ERROR, "`httpTimeout` is shorter than plugins may take.", _judging),
    Check("timeout-bind", Severity.ERROR, "`httpTimeout` is shorter than `server.bindTimeout`.", _binding),
    Check("timeout-long", Severity.WARNING, "`httpTimeout` is far longer than the extender needs.", _long),
    Check("timeout-plugins", Severity.WARNING, "Plugins may take longer than `server.bindTimeout`.", _within_bind),
    Check("timeout-groups", Severity.WARNING, "`server.bindTimeout` is short where groups wait in bind.", _groups),
)
