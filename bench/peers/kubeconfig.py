"""Kubeconfig files."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml


def write_kubeconfig(path: Path, cluster: Mapping[str, Any], user: Mapping[str, Any] | None = None) -> Path:
    """Write a kubeconfig with one context, named `here`."""
    content = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "here", "cluster": dict(cluster)}],
        "users": [{"name": "me", "user": dict(user or {})}],
        "contexts": [{"name": "here", "context": {"cluster": "here", "user": "me"}}],
        "current-context": "here",
    }
    path.write_text(yaml.safe_dump(content))
    return path
