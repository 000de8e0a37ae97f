"""The configuration file: its models, and how it is read."""

from extender.config.fields import Address
from extender.config.loader import ConfigError, describe, guest_path, key, read
from extender.config.models import (
    ClusterConfig,
    ExtenderConfiguration,
    FailurePolicy,
    PluginConfig,
    ProfileConfig,
    RuntimeConfig,
    SourceConfig,
    SwapConfig,
)
from extender.config.server import Replicas, ServerConfig, TlsConfig

__all__ = [
    "Address",
    "ClusterConfig",
    "ConfigError",
    "ExtenderConfiguration",
    "FailurePolicy",
    "PluginConfig",
    "ProfileConfig",
    "Replicas",
    "RuntimeConfig",
    "ServerConfig",
    "SourceConfig",
    "SwapConfig",
    "TlsConfig",
    "describe",
    "guest_path",
    "key",
    "read",
]
