"""The configuration file: its models, and how it is read."""

from extender.config.loader import ConfigError, describe, guest_path, key, read
from extender.config.models import (
    Address,
    ClusterConfig,
    ExtenderConfiguration,
    FailurePolicy,
    PluginConfig,
    ProfileConfig,
    RuntimeConfig,
    ServerConfig,
    SourceConfig,
    SwapConfig,
)

__all__ = [
    "Address",
    "ClusterConfig",
    "ConfigError",
    "ExtenderConfiguration",
    "FailurePolicy",
    "PluginConfig",
    "ProfileConfig",
    "RuntimeConfig",
    "ServerConfig",
    "SourceConfig",
    "SwapConfig",
    "describe",
    "guest_path",
    "key",
    "read",
]
