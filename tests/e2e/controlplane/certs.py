"""Certificates of one control plane: a throw-away authority and one key pair for every server."""

from __future__ import annotations

import datetime
import ipaddress
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

LIFETIME = datetime.timedelta(days=2)


@dataclass(frozen=True)
class Certificates:
    """Files of one plane.

    ``serving`` holds ``tls.crt`` and ``tls.key``, good for a server on loopback and for a client
    of etcd; ``service_account_key`` signs service account tokens.
    """

    authority: Path
    serving: Path
    service_account_key: Path

    @property
    def certificate(self) -> Path:
        return self.serving / "tls.crt"

    @property
    def key(self) -> Path:
        return self.serving / "tls.key"


def issue(folder: Path) -> Certificates:
    """Make an authority, a serving certificate for 127.0.0.1 and a signing key in ``folder``."""
    serving = folder / "serving"
    serving.mkdir(parents=True)
    authority_key = ec.generate_private_key(ec.SECP256R1())
    authority_name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "stowplan e2e authority")])
    authority = (
        _builder(authority_name, authority_name, authority_key.public_key())
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(authority_key, hashes.SHA256())
    )
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "stowplan e2e")])
    names = x509.SubjectAlternativeName(
        [x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
    )
    usage = x509.ExtendedKeyUsage(
        [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
    )
    certificate = (
        _builder(name, authority_name, key.public_key())
        .add_extension(names, critical=False)
        .add_extension(usage, critical=False)
        .sign(authority_key, hashes.SHA256())
    )
    result = Certificates(folder / "ca.crt", serving, folder / "service-account.key")
    result.authority.write_bytes(authority.public_bytes(serialization.Encoding.PEM))
    result.certificate.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    _write_key(result.key, key)
    _write_key(result.service_account_key, rsa.generate_private_key(65537, 2048))
    return result


def _builder(
    subject: x509.Name, issuer: x509.Name, public_key: ec.EllipticCurvePublicKey
) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(public_key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(minutes=5))
        .not_valid_after(now + LIFETIME)
    )


def _write_key(path: Path, key: ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey) -> None:
    path.touch(mode=0o600)
    path.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.TraditionalOpenSSL,
            serialization.NoEncryption(),
        )
    )
