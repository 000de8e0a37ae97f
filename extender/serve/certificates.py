"""The certificates of the two servers, and who is told of them."""

from __future__ import annotations

from pathlib import Path
from typing import Final, NamedTuple

from extender.admin.health import Check, Health
from extender.config import ConfigError, ServerConfig
from extender.http.certificates import CertificateError, ServerCertificates
from extender.http.handshakes import HandshakeEnd
from extender.serve.background import Background
from extender.telemetry.metrics import Metrics

KEYS: Final = {"verbs": "tls", "admin": "adminTLS"}
"""The key of each server's certificates below `server`."""


class Certificates(NamedTuple):
    """Those of each server, where it has TLS."""

    verbs: ServerCertificates | None
    admin: ServerCertificates | None

    @classmethod
    def open(cls, file: Path, server: ServerConfig) -> Certificates:
        """Reads the files that a configuration file names. Raises ConfigError with all that is wrong with them."""
        problems: list[str] = []
        opened: list[ServerCertificates | None] = []
        for key, config in zip(KEYS.values(), (server.tls, server.admin_tls), strict=True):
            try:
                opened.append(ServerCertificates(f"server.{key}", config, file.absolute().parent) if config else None)
            except CertificateError as error:
                problems += (f"server.{key}.{problem}" for problem in error.problems)
        if problems:
            raise ConfigError(file, problems)
        return cls(*opened)

    def start(self, health: Health, metrics: Metrics, background: Background) -> None:
        """Has the files followed, and told of what is wrong with them and for how long they are valid."""
        for name, certificates in self._asdict().items():
            if certificates:
                health.add(Check(KEYS[name], warning=certificates.warning))
                metrics.add_certificate_gauges(name, certificates.days_left, certificates.is_outdated)
                metrics.expect_handshakes(name, [end.value for end in HandshakeEnd])
                background.spawn(certificates.follow, f"certificates of {name}")
