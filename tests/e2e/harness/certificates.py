"""Certificates for tests of TLS, made by the program openssl.

    files = Certificates(folder)
    files.server         # Pair(certificate, key): for localhost and 127.0.0.1
    files.ca             # the authority that has signed it
"""

from __future__ import annotations

import os
import ssl
import subprocess
from typing import NamedTuple

import pgthrow


class Pair(NamedTuple):
    """The file of a certificate and that of its key."""

    certificate: str
    key: str

    def der(self) -> bytes:
        """The certificate as TLS carries it."""
        with open(self.certificate, encoding="ascii") as file:
            return ssl.PEM_cert_to_DER_cert(file.read())


class Certificates:
    """An authority, another one that nobody trusts, and what they have signed."""

    def __init__(self, folder: str):
        self.folder = folder
        ours, foreign = self._authority("ca"), self._authority("foreign-ca")
        self.authority, self.foreign_authority = ours, foreign
        self.ca, self.foreign_ca = ours.certificate, foreign.certificate
        names = "subjectAltName=DNS:localhost,IP:127.0.0.1"
        self.server = self.signed("server", ours, "/CN=pooler", names)
        self.second = self.signed("second", ours, "/CN=second", names)
        # As the PostgreSQL manual makes it: no extensions, so version 1, and only a common name.
        self.old_style = self.signed("old-style", ours, "/CN=localhost")
        self.elsewhere = self.signed("elsewhere", ours, "/CN=elsewhere", "subjectAltName=DNS:elsewhere.example")
        self.expired = self.signed("expired", ours, "/CN=localhost", names, days="-1")
        self.alice = self.signed("alice", ours, "/CN=alice", "extendedKeyUsage=clientAuth")
        self.foreign = self.signed("foreign", foreign, "/CN=alice", "extendedKeyUsage=clientAuth")
        self.self_signed = self._authority("self-signed", "/CN=localhost")
        # It is no authority, so what its holder signs counts for nothing.
        self.pinned = self._authority("pinned", "/CN=localhost", "basicConstraints=critical,CA:FALSE")
        self.by_pinned = self.signed("by-pinned", self.pinned, "/CN=localhost", names)
        self.old_by_pinned = self.signed("old-by-pinned", self.pinned, "/CN=localhost")

    def signed(self, name: str, by: Pair, subject: str, extension: str | None = None, days: str = "30") -> Pair:
        """A certificate with a new key."""
        pair = self._pair(name)
        request = self._path(f"{name}.csr")
        self._openssl(
            "req", "-new", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
            "-subj", subject, "-keyout", pair.key, "-out", request,
        )  # fmt: skip
        more = []
        if extension:
            extensions = self._path(f"{name}.ext")
            with open(extensions, "w", encoding="utf-8") as file:
                file.write(extension + "\n")
            more = ["-extfile", extensions]
        self._openssl(
            "x509", "-req", "-in", request, "-CA", by.certificate, "-CAkey", by.key, "-CAcreateserial",
            "-days", days, "-out", pair.certificate, *more,
        )  # fmt: skip
        return self._give(pair)

    def copy(self, pair: Pair, name: str) -> Pair:
        """The same certificate and key under other names, for tests that replace files."""
        to = self._pair(name)
        for source, target in zip(pair, to):
            with open(source, "rb") as file:
                content = file.read()
            with open(target, "wb") as file:
                file.write(content)
        return self._give(to)

    def self_made(self, name: str, *key: str) -> Pair:
        """A certificate that is signed by its own key. `key`: its kind for openssl, and more options, such as `-sha384`."""
        pair = self._pair(name)
        self._openssl(
            "req", "-x509", "-newkey", *key, "-nodes", "-days", "30",
            "-subj", "/CN=localhost", "-keyout", pair.key, "-out", pair.certificate,
        )  # fmt: skip
        return self._give(pair)

    def _authority(self, name: str, subject: str | None = None, extension: str | None = None) -> Pair:
        pair = self._pair(name)
        more = ["-addext", extension] if extension else []
        self._openssl(
            "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "30",
            "-subj", subject or f"/CN={name}", "-keyout", pair.key, "-out", pair.certificate, *more,
        )  # fmt: skip
        return self._give(pair)

    def _path(self, name: str) -> str:
        return os.path.join(self.folder, name)

    def _pair(self, name: str) -> Pair:
        return Pair(self._path(f"{name}.crt"), self._path(f"{name}.key"))

    def _give(self, pair: Pair) -> Pair:
        os.chmod(pair.key, 0o600)
        for file in pair:
            pgthrow.give_to_server_user(file)
        return pair

    def _openssl(self, *arguments: str) -> None:
        subprocess.run(["openssl", *arguments], check=True, capture_output=True)
