"""`kubectl kwx`: the commands of `kwx` that ask a running extender, which they find in the cluster."""

from extender.commands.kubectl.cli import main

__all__ = ["main"]
