"""The URLs that name modules."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

import httpx

FILE_SCHEME: Final = "file://"

_FOLDER: Final = r"[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*"
_PATTERN: Final = re.compile(
    r"oci://(?P<registry>(?:[A-Za-z0-9.-]+|\[[0-9a-fA-F:]+\])(?::\d{1,5})?)"
    rf"/(?P<repository>{_FOLDER}(?:/{_FOLDER})*)"
    r"(?::(?P<tag>\w[\w.-]{0,127}))?(?:@(?P<digest>sha256:[0-9a-f]{64}))?",
    re.ASCII,
)
"""The URL of an artifact; names and tags are as the OCI distribution specification allows."""


class Reference(NamedTuple):
    """The address of an artifact: its registry, its repository, and a tag or the digest of its manifest."""

    registry: str
    repository: str
    tag: str
    """The tag that is followed, `latest` by default. A digest makes it irrelevant."""
    digest: str | None
    """The digest of the manifest, if the URL has one."""

    @classmethod
    def parse(cls, url: str) -> Reference:
        """Reads `oci://REGISTRY/REPOSITORY[:TAG][@DIGEST]`. Raises ValueError."""
        match = _PATTERN.fullmatch(url)
        if not match:
            raise ValueError(
                "expected oci://REGISTRY/REPOSITORY with :TAG or @sha256:DIGEST, such as"
                f" oci://registry.example/policies/spread:v2, found {url.partition('?')[0]!r}"
            )
        return cls(match["registry"], match["repository"], match["tag"] or "latest", match["digest"])


def _check_file(url: str) -> None:
    if url == FILE_SCHEME:
        raise ValueError(f"expected file:// and a path, such as file://./plugin.wasm, found {url!r}")


def _check_web(url: str) -> None:
    _check_login(url, "put it into a netrc file")
    if not _is_clean_web(url):
        raise ValueError(
            "expected a URL such as https://modules.example/plugin.wasm, without blanks and #fragment, found"
            f" {url.partition('?')[0]!r}"
        )


def _check_artifact(url: str) -> None:
    _check_login(url, "docker login keeps it")
    Reference.parse(url)


def _check_login(url: str, mend: str) -> None:
    authority = re.split(r"[/?#]", url.partition("://")[2], maxsplit=1)[0]
    if "@" in authority:
        raise ValueError(f"a URL must not hold a login, which would be logged; {mend}")


def is_web(url: httpx.URL) -> bool:
    """Whether a URL is one of http or https, with a host and a valid port."""
    return url.scheme in {"http", "https"} and bool(url.raw_host) and (url.port is None or 0 < url.port < 65_536)


def _is_clean_web(url: str) -> bool:
    try:
        parsed = httpx.URL(url)
        return is_web(parsed) and bool(parsed.host) and not parsed.fragment and url.isprintable() and " " not in url
    except (httpx.InvalidURL, UnicodeError):
        return False


_CHECKS: Final[Mapping[str, Callable[[str], object]]] = {
    "file": _check_file,
    "http": _check_web,
    "https": _check_web,
    "oci": _check_artifact,
}


def check_url(url: str) -> None:
    """Raises ValueError for a URL that names no source."""
    scheme, separator, _ = url.partition("://")
    check = _CHECKS.get(scheme)
    if not separator or check is None:
        schemes = ", ".join(f"{name}://" for name in _CHECKS)
        raise ValueError(f"expected a URL that begins with one of {schemes}, found {quoted(url)!r}")
    check(url)


def public(url: str) -> str:
    """The URL of a source that may be shown to everybody: without the query, which may hold a token."""
    return url.partition("?")[0] if url.startswith(("http://", "https://")) else url


def quoted(url: str) -> str:
    """A text that may be a malformed URL, without what may be a login or a token."""
    return re.sub(r"^([^/@]*//)?[^/]*@", r"\1", url.partition("?")[0])


def is_loopback(host: str) -> bool:
    """Whether a host is this machine: `localhost`, or a loopback address, also an IPv4 address mapped to IPv6."""
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return host == "localhost"
    mapped = getattr(address, "ipv4_mapped", None)
    return (mapped or address).is_loopback
