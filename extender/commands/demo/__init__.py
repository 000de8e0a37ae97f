"""`kwx run`: the product at work, without a cluster."""

from extender.commands.demo.demo import DemoError, run

__all__ = ["DemoError", "run"]
