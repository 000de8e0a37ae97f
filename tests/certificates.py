"""Certificate authorities for tests and measurements, and the certificates that they sign."""

from __future__ import annotations

import datetime
import ipaddress
import ssl
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

DAY = datetime.timedelta(days=1)
CLIENT, SERVER = ExtendedKeyUsageOID.CLIENT_AUTH, ExtendedKeyUsageOID.SERVER_AUTH


class Issued(NamedTuple):
    """A certificate and its key, a file each."""

    cert: Path
    key: Path

    @property
    def serial(self) -> int:
        """The number of the certificate."""
        return x509.load_pem_x509_certificate(self.cert.read_bytes()).serial_number

    def renew(self, new: Issued) -> None:
        """Replaces both files by those of `new`, one after the other, each by a rename."""
        new.key.rename(self.key)
        new.cert.rename(self.cert)


class Authority:
    """A CA, whose certificate is `file`."""

    def __init__(self, folder: Path, name: str = "ca", days: float = 10) -> None:
        self._folder = folder
        self._key, self._name = ec.generate_private_key(ec.SECP256R1()), _name([f"kwx {name}"])
        usage = x509.KeyUsage(False, False, False, False, False, True, True, False, False)
        identifier = x509.SubjectKeyIdentifier.from_public_key(self._key.public_key())
        certificate = (
            _builder(self._name, self._name, self._key, -DAY, days * DAY)
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(usage, critical=True)
            .add_extension(identifier, critical=False)
            .sign(self._key, hashes.SHA256())
        )
        self.file = folder / f"{name}.crt"
        self.file.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))

    def issue(
        self,
        file: str,
        *common_names: str,
        sans: Sequence[str] = (),
        usage: x509.ObjectIdentifier | None = CLIENT,
        begins: datetime.timedelta = -DAY,
        ends: datetime.timedelta = 5 * DAY,
        folder: Path | None = None,
    ) -> Issued:
        """Signs a certificate for a new key; `sans` as in `DNS:…`, `URI:…` and `IP:…`."""
        key = ec.generate_private_key(ec.SECP256R1())
        builder = _builder(_name(common_names), self._name, key, begins, ends)
        if sans:
            builder = builder.add_extension(x509.SubjectAlternativeName(list(_sans(sans))), critical=False)
        if usage:
            builder = builder.add_extension(x509.ExtendedKeyUsage([usage]), critical=False)
        identifier = x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key())
        signed = builder.add_extension(identifier, critical=False).sign(self._key, hashes.SHA256())
        into = folder or self._folder
        into.mkdir(exist_ok=True)
        issued = Issued(into / f"{file}.crt", into / f"{file}.key")
        issued.cert.write_bytes(signed.public_bytes(serialization.Encoding.PEM))
        issued.key.write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
            )
        )
        issued.key.chmod(0o600)
        return issued

    def server(self, file: str = "server", folder: Path | None = None) -> Issued:
        """A certificate for a server at 127.0.0.1."""
        return self.issue(file, "server", sans=["IP:127.0.0.1", "DNS:localhost"], usage=SERVER, folder=folder)

    def trusting(self, shown: Issued | None = None) -> ssl.SSLContext:
        """A client's context that trusts this CA, and shows a certificate."""
        context = ssl.create_default_context(cafile=str(self.file))
        if shown:
            context.load_cert_chain(shown.cert, shown.key)
        return context


def _builder(
    subject: x509.Name,
    issuer: x509.Name,
    key: ec.EllipticCurvePrivateKey,
    begins: datetime.timedelta,
    ends: datetime.timedelta,
) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.timezone.utc).replace(microsecond=0)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now + begins)
        .not_valid_after(now + ends)
    )


def _name(common_names: Sequence[str]) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, each) for each in common_names])


def _sans(texts: Sequence[str]) -> Iterator[x509.GeneralName]:
    for text in texts:
        kind, _, value = text.partition(":")
        if kind == "IP":
            yield x509.IPAddress(ipaddress.ip_address(value))
        else:
            yield x509.DNSName(value) if kind == "DNS" else x509.UniformResourceIdentifier(value)
