"""The section of the configuration file about the servers."""

from __future__ import annotations

from enum import Enum
from pathlib import Path
from typing import Annotated, Final

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from extender.config.fields import Address, Model, expand, parse_address
from extender.config.quantity import Bytes, Seconds
from extender.config.urls import is_loopback
from wasm_runtime.engine import MEBIBYTE

DEFAULT_STATE_BYTES: Final = 256 * MEBIBYTE


class Replicas(str, Enum):
    """Which other extenders decide about the same pods."""

    NONE = "none"
    STANDBY = "standby"
    SHARED = "shared"


class TlsConfig(Model):
    """TLS of one address. The files are read again when they change."""

    cert_file: Annotated[Path, AfterValidator(expand)]
    """Certificate in PEM, with the intermediate ones behind it."""
    key_file: Annotated[Path, AfterValidator(expand)]
    """Private key of the certificate in PEM, without a password."""
    client_ca_file: Annotated[Path, AfterValidator(expand)] | None = Field(default=None, alias="clientCAFile")
    """CA certificates in PEM. With it every client needs a certificate that one of them has signed."""
    client_names: tuple[Annotated[str, Field(pattern=r"^(CN|DNS|URI):.+$")], ...] = ()
    """Names of which a client's certificate must have one, exactly: `CN:` and the common name of its subject, `DNS:` or
    `URI:` and an alternative name. By default every client of the CA is let in."""

    @model_validator(mode="after")
    def _check_names(self) -> TlsConfig:
        if self.client_names and not self.client_ca_file:
            raise ValueError("clientNames needs clientCAFile: only a certificate that a CA has signed names anybody")
        return self


class ServerConfig(Model):
    """The servers of the extender, and what it keeps on disk."""

    address: Annotated[Address, BeforeValidator(parse_address)] = Address("127.0.0.1", 8888)
    """Address of the verbs, for kube-scheduler. Port 0 takes a free port."""
    admin_address: Annotated[Address, BeforeValidator(parse_address)] = Address("127.0.0.1", 8889)
    """Address of health, metrics and the admin API."""
    max_request_bytes: Bytes = 64 * MEBIBYTE
    """Longest body of a request. A longer one is refused unread with status 413."""
    bind_timeout: Seconds = 4.0
    """Time of the bind verb, including a wait on Permit. Keep it below the extender's httpTimeout in kube-scheduler."""
    replicas: Replicas = Replicas.NONE
    """Which other extenders decide about the same pods. none: there are none. standby: each kube-scheduler has an
    extender of its own, and asks it while it is the leader. shared: several extenders are behind one address, so no
    plugin may rely on an earlier verb. With standby and shared, modules and settings come from the sources and this
    file alone: uploads, other swaps and rollbacks by the admin API are refused."""
    state_directory: Annotated[Path, AfterValidator(expand)] | None = None
    """Directory that keeps revisions and their history. The default is `$XDG_STATE_HOME/kwx`, else
    `~/.local/state/kwx`."""
    state_limit: Bytes = DEFAULT_STATE_BYTES
    """Size of all modules in the state directory. Above it the oldest are deleted, except those that serve or that a
    rollback leads to."""
    admin_tokens: Annotated[Path, AfterValidator(expand)] | None = None
    """File with the bearer tokens of the admin API, read again when it changes. Without it the admin API answers only
    clients on the same machine."""
    decisions: Annotated[int, Field(strict=True, ge=0, le=100_000)] = 1000
    """Pods of which it is kept what each plugin said of each node, for `kwx explain`. They take 64 MiB of memory at
    most. With 0 none is kept."""
    tls: TlsConfig | None = None
    """TLS of the verbs. Off loopback the verbs need it."""
    admin_tls: TlsConfig | None = Field(default=None, alias="adminTLS")
    """TLS of the admin address."""
    allow_unencrypted: Annotated[bool, Field(strict=True)] = False
    """Whether the verbs are served off loopback without TLS. Whoever reaches the port then decides for every pod, and
    bind is refused."""

    @property
    def may_bind(self) -> bool:
        """Whether only kube-scheduler can ask for a bind: on loopback, or by a client certificate."""
        return is_loopback(self.address.host) or (self.tls is not None and self.tls.client_ca_file is not None)

    @model_validator(mode="after")
    def _check_exposure(self) -> ServerConfig:
        is_exposed = not (is_loopback(self.address.host) or self.tls)
        if is_exposed and not self.allow_unencrypted:
            raise ValueError(
                f"address {self.address} is off loopback, where whoever reaches it decides for every pod: set tls, or"
                " accept that by allowUnencrypted: true"
            )
        if self.allow_unencrypted and not is_exposed:
            raise ValueError("allowUnencrypted is for an address off loopback without tls; leave it out")
        return self
