"""Whether kube-scheduler asks for the verbs that plugins have a say in, and lets the extender bind where it has to."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from extender.commands.doctor.check import Check, Problem, Severity
from extender.commands.doctor.facts import Entry
from extender.commands.doctor.scheduler import SchedulerConfig
from extender.rollouts.registration import Registration


def _missing(entry: Entry, extender: Registration) -> Iterator[Problem]:
    asked = entry.extender.verbs
    for verb in extender.verbs:
        profiles = [profile.name for profile in extender.profiles if verb in profile.verbs]
        if verb not in asked and profiles:
            yield Problem(
                f"{entry.key()} has no {verb}Verb, and plugins of profile {', '.join(profiles)} have a say in {verb}",
                f"add {verb}Verb: {verb}",
            )


def _needless(entry: Entry, extender: Registration) -> Iterator[Problem]:
    for verb in entry.extender.verbs:
        if verb not in extender.verbs and (verb != "bind" or extender.is_connected):
            yield Problem(
                f"{entry.key(f'{verb}Verb')} is set, and no plugin has a say in {verb}: each call is in vain",
                f"leave out {verb}Verb, unless a swap may bring a plugin that needs it",
            )


def _ignorable(entry: Entry) -> Iterator[Problem]:
    if entry.binding.extender.ignorable and entry.extender.bind_verb:
        yield Problem(
            f"{entry.binding.key()} has ignorable: true and a bindVerb: kube-scheduler binds by itself what the"
            " extender refuses to bind",
            "set ignorable to false, or leave out bindVerb",
        )


def _unfiltered(entry: Entry) -> Iterator[Problem]:
    if entry.extender.bind_verb and not entry.extender.filter_verb:
        yield Problem(
            f"{entry.key()} has a bindVerb and no filterVerb: the extender binds only what filter has answered, and"
            " refuses all else",
            "add filterVerb: filter",
        )
    if entry.binder and entry.extender.managed_resources:
        yield Problem(
            f"{entry.key()} has managedResources, and {entry.binding.key()} binds pods that use none of them as well:"
            " the extender binds only what filter has answered, and refuses all else",
            f"move bindVerb to {entry.key()}, and raise its httpTimeout: no two extenders may manage one resource",
        )


def _binders(scheduler: SchedulerConfig) -> Iterator[Problem]:
    binders = [f"extenders[{at}]" for at, each in enumerate(scheduler.extenders) if each.bind_verb]
    if len(binders) > 1:
        yield Problem(
            f"{' and '.join(binders)} have a bindVerb; kube-scheduler does not start with more than one",
            "leave bindVerb to one of them",
        )


def _mode(entry: Entry, extender: Registration) -> Iterator[Problem]:
    outcomes = {"none": "every bind fails", "dry-run": "pods are taken for bound and never are"}
    if entry.extender.bind_verb and not extender.is_connected:
        yield Problem(
            f"{entry.key()} has a bindVerb, and cluster.mode is {extender.cluster_mode}:"
            f" {outcomes.get(extender.cluster_mode, 'nothing is bound')}",
            "set cluster.mode to in-cluster or kubeconfig, or leave out bindVerb",
        )


def _refused(entry: Entry, extender: Registration) -> Iterator[Problem]:
    if entry.extender.bind_verb and not extender.may_bind:
        yield Problem(
            f"{entry.key()} has a bindVerb, and the extender listens on {extender.host} without client certificates:"
            " every bind is refused",
            "set server.tls.clientCAFile, or leave out bindVerb",
        )


CHECKS: Final = (
    Check(
        "verb-missing", Severity.ERROR, "kube-scheduler does not ask for a verb that a plugin has a say in.", _missing
    ),
    Check("verb-needless", Severity.INFO, "kube-scheduler asks for a verb that no plugin has a say in.", _needless),
    Check("bind-ignorable", Severity.ERROR, "The extender is ignorable and has a `bindVerb`.", _ignorable),
    Check("bind-without-filter", Severity.ERROR, "The extender has a `bindVerb` and no `filterVerb`.", _unfiltered),
    Check("bind-twice", Severity.ERROR, "Several extenders have a `bindVerb`.", _binders),
    Check("bind-refused", Severity.ERROR, "The extender refuses every bind.", _refused),
    Check("bind-without-cluster", Severity.ERROR, "The extender is to bind, and knows no API server.", _mode),
)
