"""The admin address: health, what is live, and the orders of operators."""

from extender.admin.access import Access
from extender.admin.app import create_app
from extender.admin.health import Check, Health
from extender.admin.protocol import AdminConnection
from extender.admin.recorders import Recorders
from extender.admin.tokens import TokensError

__all__ = ["Access", "AdminConnection", "Check", "Health", "Recorders", "TokensError", "create_app"]
