"""The admin address: health, what is live, and the orders of operators."""

from extender.admin.api.context import AdminContext
from extender.admin.app import create_app
from extender.admin.auth.access import TokenAccess
from extender.admin.auth.tokens import TokensError
from extender.admin.health import Check, Health
from extender.admin.protocol import AdminConnection
from extender.admin.recording.recorders import Recorders

__all__ = [
    "AdminConnection",
    "AdminContext",
    "Check",
    "Health",
    "Recorders",
    "TokenAccess",
    "TokensError",
    "create_app",
]
