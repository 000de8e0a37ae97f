"""The dashboard: the state of the extender as pages for people."""

from extender.admin.dashboard.app import create_dashboard

__all__ = ["create_dashboard"]
