"""A CA without a key identifier, and a server certificate that it signs."""

from __future__ import annotations

import datetime
import ipaddress
import ssl
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

DAY = datetime.timedelta(days=1)


def authority(folder: Path) -> tuple[Path, ssl.SSLContext]:
    """A new CA's certificate, and what a server at 127.0.0.1 needs that it has signed.

    The CA has no key identifier, as many that people make themselves have none.
    """
    key, name = ec.generate_private_key(ec.SECP256R1()), _name("CA")
    usage = x509.BasicConstraints(ca=True, path_length=0)
    ca = _certificate(name, key).add_extension(usage, critical=True).issuer_name(name).sign(key, hashes.SHA256())
    server_key = ec.generate_private_key(ec.SECP256R1())
    address = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])
    server = _certificate(_name("server"), server_key).add_extension(address, critical=False).issuer_name(name)
    (folder / "ca.pem").write_bytes(ca.public_bytes(serialization.Encoding.PEM))
    chain = folder / "server.pem"
    chain.write_bytes(
        server_key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        + server.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)
    )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(chain)
    return folder / "ca.pem", context


def _name(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])


def _certificate(name: x509.Name, key: ec.EllipticCurvePrivateKey) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.timezone.utc)
    return (
        x509.CertificateBuilder()
        .subject_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - DAY)
        .not_valid_after(now + DAY)
    )
