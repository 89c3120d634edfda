"""A directory: OpenLDAP's slapd as an own process on loopback, with a configuration and data of its own.

    with Directory() as directory:
        directory.port, directory.tls_port, directory.authority

It has users below ou=people,dc=example,dc=com, each with the password `NAME-ldap`, and an administrator of the searches,
cn=searcher,dc=example,dc=com.
"""

from __future__ import annotations

import contextlib
import os
import select
import shutil
import socket
import subprocess
import tempfile
import threading

from . import ports, wire
from .waiting import eventually

SLAPD = "/usr/sbin/slapd"
SUFFIX = "dc=example,dc=com"
PEOPLE = f"ou=people,{SUFFIX}"
SEARCHER = f"cn=searcher,{SUFFIX}"

CONFIGURATION = """\
include /etc/ldap/schema/core.schema
include /etc/ldap/schema/cosine.schema
include /etc/ldap/schema/inetorgperson.schema
modulepath /usr/lib/ldap
moduleload back_mdb
TLSCertificateFile {dir}/server.pem
TLSCertificateKeyFile {dir}/server.key
allow bind_anon_cred bind_anon_dn
database mdb
maxsize 10485760
suffix "{suffix}"
rootdn "cn=root,{suffix}"
rootpw root-ldap
directory {dir}/data
access to attrs=userPassword by anonymous auth by * none
access to * by dn.exact="{searcher}" read by self read by * none
"""


def entry(dn: str, **attributes: str | list[str]) -> str:
    lines = [f"dn: {dn}"]
    for name, values in attributes.items():
        lines += [f"{name}: {value}" for value in ([values] if isinstance(values, str) else values)]
    return "\n".join(lines) + "\n\n"


def person(uid: str, where: str = PEOPLE, **more: str) -> str:
    named = {"objectClass": "inetOrgPerson", "uid": uid, "cn": uid, "sn": uid, "userPassword": f"{uid}-ldap", **more}
    return entry(f"cn={more.get('cn', uid)},{where}", **named)


DATA = (
    entry(SUFFIX, objectClass=["dcObject", "organization"], dc="example", o="Example")
    + entry(PEOPLE, objectClass="organizationalUnit", ou="people")
    + entry(f"ou=others,{SUFFIX}", objectClass="organizationalUnit", ou="others")
    + entry(SEARCHER, objectClass=["organizationalRole", "simpleSecurityObject"], cn="searcher", userPassword="searcher-ldap")
    + person("alice")
    + person("bob", title="leaver")
    + person("twin")
    + person("twin", where=f"ou=others,{SUFFIX}")
)


class Directory:
    def __init__(self):
        self.dir = tempfile.mkdtemp(prefix="slapd-")
        os.chmod(self.dir, 0o755)
        self.port, self.tls_port = ports.take(), ports.take()
        self.authority = os.path.join(self.dir, "server.pem")
        self.process: subprocess.Popen | None = None

    def __enter__(self) -> Directory:
        try:
            self.make()
            self.start()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_exc) -> None:
        self.stop()
        shutil.rmtree(self.dir, ignore_errors=True)

    def path(self, name: str) -> str:
        return os.path.join(self.dir, name)

    def make(self) -> None:
        os.mkdir(self.path("data"))
        subprocess.run(
            ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2"]
            + ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"]
            + ["-addext", "basicConstraints=critical,CA:FALSE"]
            + ["-keyout", self.path("server.key"), "-out", self.authority],
            check=True,
            capture_output=True,
        )
        with open(self.path("slapd.conf"), "w", encoding="utf-8") as file:
            file.write(CONFIGURATION.format(dir=self.dir, suffix=SUFFIX, searcher=SEARCHER))
        with open(self.path("data.ldif"), "w", encoding="utf-8") as file:
            file.write(DATA)
        loaded = subprocess.run(
            ["/usr/sbin/slapadd", "-q", "-f", self.path("slapd.conf"), "-l", self.path("data.ldif")],
            capture_output=True,
            text=True,
        )
        assert loaded.returncode == 0, loaded.stderr

    def start(self) -> None:
        urls = f"ldap://127.0.0.1:{self.port} ldaps://127.0.0.1:{self.tls_port}"
        with open(self.path("log"), "ab") as log:
            self.process = subprocess.Popen(
                [SLAPD, "-h", urls, "-f", self.path("slapd.conf"), "-d", "0"], stdout=log, stderr=log
            )

        def ready():
            assert self.process.poll() is None, open(self.path("log"), encoding="utf-8").read()
            try:
                wire.open_socket("127.0.0.1", self.tls_port).close()
            except OSError:
                return False
            return True

        eventually(ready, timeout=20, what="slapd's port")

    def stop(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None


class Overhearing(threading.Thread):
    """Stands between a pooler and a directory, and notes what is asked on each connection: the tags of LDAP's requests."""

    BIND, SEARCH, UNBIND = 0x60, 0x63, 0x42

    def __init__(self, directory: Directory):
        super().__init__(daemon=True)
        self.directory = directory
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.asked: list[list[int]] = []

    def run(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                pooler, _ = self.listener.accept()
                with pooler, socket.create_connection(("127.0.0.1", self.directory.port)) as slapd:
                    self.asked.append([])
                    self.carry(pooler, slapd)

    def carry(self, pooler: socket.socket, slapd: socket.socket) -> None:
        """One connection at a time, to its end."""
        while True:
            for ready in select.select([pooler, slapd], [], [])[0]:
                data = ready.recv(1 << 16)
                if not data:
                    return
                if ready is pooler:
                    self.asked[-1] += requests(data)
                (slapd if ready is pooler else pooler).sendall(data)


def requests(data: bytes) -> list[int]:
    """The tags of the requests in these messages, each of which is complete and shorter than 64 kB."""
    tags = []
    while data:
        # SEQUENCE { messageID INTEGER, protocolOp }, in BER (RFC 4511, section 4.2).
        head, length = (2, data[1]) if data[1] < 0x80 else (2 + data[1] - 0x80, int.from_bytes(data[2 : 2 + data[1] - 0x80]))
        tags.append(data[head + 2 + data[head + 1]])
        data = data[head + length :]
    return tags
