"""Fixtures of the tests of artifacts."""

from tests.extender.commands.command import command
from tests.extender.sources.oci.conftest import logins, registry, repository

__all__ = ["command", "logins", "registry", "repository"]
