"""The annotations that a guest gives a pod at its bind."""

from __future__ import annotations

import re
from typing import Final

from wasm_runtime.engine import KIBIBYTE
from wasm_runtime.errors import shorten

MAX_BYTES: Final = 64 * KIBIBYTE
"""Bytes of keys and values with their NULs. All annotations of a pod may take 256 KiB."""

MAX_ANNOTATIONS: Final = 64

MAX_SHOWN_CHARS: Final = 100
"""Characters of a key that a message quotes."""

_NAME: Final = re.compile(r"[a-z0-9]([-a-z0-9_.]*[a-z0-9])?", re.ASCII | re.IGNORECASE)
_DOMAIN: Final = re.compile(
    r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*", re.ASCII | re.IGNORECASE
)
MAX_NAME_CHARS: Final = 63
MAX_DOMAIN_CHARS: Final = 253
"""The two parts of a key, `domain/name`, of which the first may be left out.

Source: `IsQualifiedName` in k8s.io/apimachinery/pkg/util/validation. The API server takes a binding with any keys, and
refuses each later change of the pod if one of them is wrong (`setPodNodeAndMetadata` in
https://github.com/kubernetes/kubernetes/blob/v1.36.3/pkg/registry/core/pod/storage/storage.go): kubelet could not even
tell the pod's status. So nobody but the host can refuse them in time.
"""


def parse(data: bytes) -> dict[str, str]:
    """Annotations, of NUL-terminated keys and values in turn. Raises ValueError, which says what is wrong with them."""
    if not data:
        return {}
    *texts, rest = data.split(b"\0")
    if rest:
        raise ValueError("the last text does not end with NUL")
    if len(texts) % 2:
        raise ValueError(f"{len(texts)} texts are no pairs of a key and a value")
    if len(texts) > 2 * MAX_ANNOTATIONS:
        raise ValueError(f"{len(texts) // 2} annotations were handed over, at most {MAX_ANNOTATIONS} are taken")
    annotations: dict[str, str] = {}
    for key, value in zip(map(_decoded, texts[::2]), map(_decoded, texts[1::2]), strict=True):
        if not _is_key(key):
            raise ValueError(
                f"{_quoted(key)} is no key of an annotation, which is a name of at most {MAX_NAME_CHARS} letters,"
                " digits, '-', '_' and '.', with a domain and '/' before it or not"
            )
        if key in annotations:
            raise ValueError(f"the key {_quoted(key)} is there twice")
        annotations[key] = value
    return annotations


def _decoded(text: bytes) -> str:
    try:
        return text.decode()
    except UnicodeDecodeError:
        raise ValueError(f"the text {_quoted(text)} is no UTF-8") from None


def _is_key(text: str) -> bool:
    *domain, name = text.split("/")
    return (
        len(domain) <= 1
        and len(name) <= MAX_NAME_CHARS
        and _NAME.fullmatch(name) is not None
        and all(len(each) <= MAX_DOMAIN_CHARS and _DOMAIN.fullmatch(each) for each in domain)
    )


def _quoted(text: str | bytes) -> str:
    return shorten(repr(text), MAX_SHOWN_CHARS)
