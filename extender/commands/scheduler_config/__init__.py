"""`kwx scheduler-config`: what registers an extender in kube-scheduler."""

from extender.commands.scheduler_config.document import CERTIFICATES, Choices, build

__all__ = ["CERTIFICATES", "Choices", "build"]
