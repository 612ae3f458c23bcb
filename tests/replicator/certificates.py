"""A certificate authority for tests, and what it signs."""

from __future__ import annotations

import datetime
import ipaddress
from dataclasses import dataclass, field
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from replicator.agent.tls import PeerTls

DAY = datetime.timedelta(days=1)


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def _alternative(name: str) -> x509.GeneralName:
    if ":" in name and not name.startswith("["):
        return x509.UniformResourceIdentifier(name)
    try:
        return x509.IPAddress(ipaddress.ip_address(name.strip("[]")))
    except ValueError:
        return x509.DNSName(name)


@dataclass
class Authority:
    """Writes its own certificate to `folder/NAME-ca.pem` and signs agents' certificates."""

    folder: Path
    name: str = "good"
    key: ec.EllipticCurvePrivateKey = field(
        default_factory=lambda: ec.generate_private_key(ec.SECP256R1())
    )

    def __post_init__(self) -> None:
        now = datetime.datetime.now(datetime.UTC)
        subject = _name(f"{self.name} authority")
        self.certificate = (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(subject)
            .public_key(self.key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - 30 * DAY)
            .not_valid_after(now + 30 * DAY)
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .sign(self.key, hashes.SHA256())
        )
        self.path = self.folder / f"{self.name}-ca.pem"
        self.path.write_bytes(self.certificate.public_bytes(serialization.Encoding.PEM))

    def sign(
        self,
        stem: str,
        *names: str,
        days: tuple[int, int] = (-1, 1),
        usages: tuple[x509.ObjectIdentifier, ...] = (
            ExtendedKeyUsageOID.SERVER_AUTH,
            ExtendedKeyUsageOID.CLIENT_AUTH,
        ),
        password: bytes | None = None,
    ) -> tuple[Path, Path]:
        """A certificate for these names, valid between two days from now, and its key."""
        key = ec.generate_private_key(ec.SECP256R1())
        now = datetime.datetime.now(datetime.UTC)
        builder = (
            x509.CertificateBuilder()
            .subject_name(_name(stem))
            .issuer_name(self.certificate.subject)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now + days[0] * DAY)
            .not_valid_after(now + days[1] * DAY)
            .add_extension(x509.ExtendedKeyUsage(usages), critical=False)
        )
        if names:
            shown = [_alternative(name) for name in names]
            builder = builder.add_extension(x509.SubjectAlternativeName(shown), critical=False)
        certificate = builder.sign(self.key, hashes.SHA256())
        lock = serialization.BestAvailableEncryption(password) if password else None
        paths = self.folder / f"{stem}.pem", self.folder / f"{stem}.key"
        paths[0].write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
        paths[1].touch(mode=0o600)
        paths[1].write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.PKCS8,
                lock or serialization.NoEncryption(),
            )
        )
        return paths

    def tls(self, stem: str, *names: str, name: str = "", **more: object) -> PeerTls:
        """What an agent with such a certificate runs with."""
        certificate, key = self.sign(stem, *names, **more)  # type: ignore[arg-type]
        return PeerTls(certificate, key, self.path, name=name)
