"""All checks, in the order of their documentation."""

from __future__ import annotations

from typing import Final

from extender.commands.doctor.check import Check
from extender.commands.doctor.checks import (
    addresses,
    binding,
    calls,
    nodes,
    pods,
    resources,
    rights,
    schedulers,
    scores,
    timeouts,
    tls,
    workloads,
)

CHECKS: Final[tuple[Check, ...]] = (
    *schedulers.CHECKS,
    *addresses.CHECKS,
    *tls.CHECKS,
    *binding.CHECKS,
    *timeouts.CHECKS,
    *scores.CHECKS,
    *nodes.CHECKS,
    *resources.CHECKS,
    *pods.CHECKS,
    *workloads.CHECKS,
    *rights.CHECKS,
    *calls.CHECKS,
)
