"""RELOAD with new content of TLS files under the same names: whom it concerns, and whom it leaves alone."""

from __future__ import annotations

import os
import shutil

import pytest
from harness import wire
from harness.pooler import kind

from test_tls import client_leg, cluster_with, log_in, show

pytestmark = pytest.mark.skipif(kind() == "direct", reason="there is no pooler")

ONE_SERVER = {"default_pool_size": 1, "server_login_retry": 1, "query_wait_timeout": 8}


@pytest.fixture(scope="module")
def tls_pg15(certificates):
    cluster = cluster_with(15, certificates.server)
    yield cluster
    cluster.remove()


def changing_ca(certificates, name: str) -> str:
    """A file with the authority of the certificates, under a name of its own."""
    path = os.path.join(certificates.folder, name)
    shutil.copyfile(certificates.ca, path)
    return path


def reload(pooler) -> None:
    """By the console, whose answer says that all is in use; over the Unix-domain socket, which needs no TLS."""
    pooler.write_ini()
    with wire.Connection(host=pooler.dir, port=pooler.port, user="postgres", database="pgbouncer") as c:
        c.query("reload")


def backend(pooler, **named) -> str:
    """The server that a client gets, by its number."""
    with pooler.connect(host=pooler.dir, **named) as c:
        return c.value("select pg_backend_pid()")


def test_a_new_authority_for_clients(pg15, certificates, make_pooler):
    ca = changing_ca(certificates, "changing-for-clients.crt")
    pooler = make_pooler(pg15, settings=client_leg(certificates, "verify-ca", client_tls_ca_file=ca))

    def get_in() -> list[bool]:
        pairs = (certificates.alice, certificates.foreign)
        return [log_in(pooler, sslmode="require", sslcert=p.certificate, sslkey=p.key) == "in" for p in pairs]

    assert get_in() == [True, False]
    server = backend(pooler)
    shutil.copyfile(certificates.foreign_ca, ca)
    assert get_in() == [True, False], "nothing has been reloaded"
    reload(pooler)
    assert get_in() == [False, True]
    assert backend(pooler) == server


def test_a_new_authority_for_servers(tls_pg15, certificates, make_pooler):
    """The server that is there stays, because no setting has changed; another is not to be had."""
    ca = changing_ca(certificates, "changing-for-servers.crt")
    verified = {"server_tls_sslmode": "verify-ca", "server_tls_ca_file": ca}
    pooler = make_pooler(tls_pg15, settings={**ONE_SERVER, **verified})
    server = backend(pooler)
    shutil.copyfile(certificates.foreign_ca, ca)
    reload(pooler)
    assert backend(pooler) == server
    with pytest.raises(wire.ServerError):
        backend(pooler, user="alice")
    shutil.copyfile(certificates.ca, ca)
    reload(pooler)
    assert backend(pooler, user="alice") != server
    assert backend(pooler) == server
    assert all(row["tls"] for row in show(pooler, "show servers"))


def test_settings_for_clients_leave_servers_alone(tls_pg15, certificates, make_pooler):
    settings = {**ONE_SERVER, "server_tls_sslmode": "require", **client_leg(certificates, "allow")}
    pooler = make_pooler(tls_pg15, settings=settings)
    server = backend(pooler)
    for changed in (
        {"client_tls_sslmode": "require"},
        {"client_tls_ca_file": certificates.foreign_ca},
        {"client_tls_cert_file": certificates.second.certificate, "client_tls_key_file": certificates.second.key},
        {"client_tls_protocols": "tlsv1.3"},
        {"client_tls_sslmode": "disable"},
    ):
        pooler.settings.update(changed)
        reload(pooler)
        assert backend(pooler) == server, changed
    # A setting for servers, to compare.
    pooler.settings["server_tls_protocols"] = "tlsv1.3"
    reload(pooler)
    assert backend(pooler) != server
