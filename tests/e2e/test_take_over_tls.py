"""-R with some hundred clients by TLS, servers by TLS: idle clients, clients in transactions, and clients at work all the
time. No client sees an error."""

from __future__ import annotations

import contextlib
import threading

import psycopg
import pytest

from harness.pooler import kind
from harness.waiting import eventually
from test_attack_take_over import tls_pg15  # noqa: F401
from test_tls import client_leg

pytestmark = [
    pytest.mark.beyond_pgbouncer,
    pytest.mark.skipif(kind() != "pgweir", reason="only pgweir does this"),
]

IDLE, WITHIN, BUSY, SERVERS, TAKE_OVERS = 200, 20, 60, 40, 3


class Busy(threading.Thread):
    """A client that runs short transactions, each checked, until it is told to end."""

    def __init__(self, connection, number: int, ends: threading.Event):
        super().__init__(daemon=True)
        self.connection, self.number, self.ends = connection, number, ends
        self.count, self.error = 0, None

    def run(self):
        try:
            while not self.ends.is_set():
                with self.connection.transaction():
                    for step in range(2):
                        (got,) = self.connection.execute("select %s::int + %s", (self.number, step)).fetchone()
                        assert got == self.number + step
                self.count += 1
        except Exception as error:  # noqa: BLE001 - any error is the failure that this test is about
            self.error = error


@pytest.mark.slow
def test_hundreds_of_tls_clients_notice_nothing(tls_pg15, certificates, make_pooler):  # noqa: F811
    settings = client_leg(certificates, "require", server_tls_sslmode="require", default_pool_size=SERVERS)
    pooler = make_pooler(tls_pg15, settings={**settings, "max_client_conn": 500, "server_lifetime": 3600})
    with contextlib.ExitStack() as stack:

        def connect():
            return stack.enter_context(psycopg.connect(pooler.dsn(sslmode="require"), autocommit=True))

        idle = [connect() for _ in range(IDLE)]
        for number, c in enumerate(idle):
            c.execute(f"set application_name = 'idle {number}'")
        within = [connect() for _ in range(WITHIN)]
        for number, c in enumerate(within):
            c.execute("begin")
            c.execute(f"create temp table t on commit drop as select {number} as a")
        ends = threading.Event()
        busy = [Busy(connect(), number, ends) for number in range(BUSY)]
        for thread in busy:
            thread.start()
        for _ in range(TAKE_OVERS):
            before = [thread.count for thread in busy]
            eventually(
                lambda: all(t.error or t.count >= n + 3 for t, n in zip(busy, before)), timeout=60, what="all to be at work"
            )
            pooler.take_over()
        before = [thread.count for thread in busy]
        eventually(lambda: all(t.error or t.count >= n + 3 for t, n in zip(busy, before)), timeout=60, what="all to go on")
        for number, c in enumerate(within):
            assert c.execute("select a from t").fetchone() == (number,)
            c.execute("commit")
        for number, c in enumerate(idle):
            assert c.execute("show application_name").fetchone() == (f"idle {number}",)
        ends.set()
        for thread in busy:
            thread.join(30)
        assert [thread.error for thread in busy if thread.error] == []
        (ssl,) = idle[0].execute("select ssl from pg_stat_ssl where pid = pg_backend_pid()").fetchone()
        assert ssl, "the servers have TLS, too"
