"""The admin address: health, and what is live."""

from extender.admin.app import create_app
from extender.admin.health import Check, Health

__all__ = ["Check", "Health", "create_app"]
