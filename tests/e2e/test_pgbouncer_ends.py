"""The same ends of connections before a real PgBouncer 1.26 and before pgweir: servers, cancel requests, bad messages.

See test_pgbouncer_texts.py, which compares what is told and logged.
"""

from __future__ import annotations

import functools
import re
import struct
import time

import pytest

from harness import wire
from harness.odd_server import OddServer
from harness.pooler import kind
from harness.side_by_side import first_text, read_some
from harness.waiting import eventually
from test_pgbouncer_texts import answer, compare, last_words, situation

pytestmark = pytest.mark.skipif(kind() != "pgweir", reason="the poolers are named by the tests themselves")

ENDS = {}
end = functools.partial(situation, into=ENDS)

TWO = {"a": "{server} dbname=postgres", "b": "{server} dbname=postgres"}
MD5 = {"settings": {"auth_type": "md5"}, "userlist": {"alice": "secret", "postgres": "x"}}
SSL_REQUEST, GSS_REQUEST = struct.pack("!ii", 8, 80877103), struct.pack("!ii", 8, 80877104)


def line(pooler, pattern: str) -> str:
    """The first match in the log."""
    return eventually(lambda: re.search(pattern, pooler.log()), what=lambda: f"{pattern} in {pooler.log()}")[0]


# -- servers that are closed


def one_makes_way(p) -> str:
    """Both databases have one place for a server."""
    with p.connect(database="a") as first, p.connect(database="b") as second:
        first.query("select 1")
        return second.value("select 'served'") + line(p, "closing because: evicted[^(]*")


@end(databases=TWO, settings={"max_user_connections": 1})
def a_server_that_makes_way_for_another_database(p):
    return one_makes_way(p)


@end(settings={"max_db_connections": 1})
def a_server_that_makes_way_for_another_user(p):
    with p.connect(user="alice") as first, p.connect(user="bob") as second:
        first.query("select 1")
        return second.value("select 'served'") + line(p, "closing because: evicted[^(]*")


@end(settings={"default_pool_size": 3})
def a_pool_that_is_made_smaller(p):
    with p.connect() as a, p.connect() as b:
        for c in (a, b):
            c.query("begin; select 1")
        for c in (a, b):
            c.query("commit")
        p.console("set default_pool_size = 1")
        return line(p, "closing because: too many servers[^(]*")


def after_reconnect(p, *, idle: bool) -> str:
    """What a client hears after RECONNECT, between its transactions or behind a COMMIT."""
    with p.connect() as c:
        c.query("select 1" if idle else "begin; select 1")
        p.console("reconnect")
        if not idle:
            c.query("commit")
        reason = line(p, "closing because: (close_needed|database configuration changed)")
        return reason + answer(c, "select 1")


@end(settings={"server_fast_close": 1})
def reconnect_between_transactions(p):
    return after_reconnect(p, idle=True)


@end(settings={"server_fast_close": 1})
def reconnect_in_a_transaction(p):
    return after_reconnect(p, idle=False)


@end(mode="session", settings={"server_fast_close": 1})
def reconnect_in_a_session_with_server_fast_close(p):
    with p.connect() as c:
        c.query("select 1")
        p.console("reconnect")
        return last_words(c)


@end(mode="session", settings={"server_fast_close": 1})
def reconnect_in_a_transaction_of_a_session_with_server_fast_close(p):
    with p.connect() as c:
        c.query("begin; select 1")
        p.console("reconnect")
        time.sleep(0.7)
        assert c.value("select 1") == "1"
        c.send(wire.query("commit"))
        c.read_ready()
        return last_words(c)


@end(mode="session")
def reconnect_in_a_session_without_server_fast_close(p):
    with p.connect() as c:
        c.query("select 1")
        p.console("reconnect")
        time.sleep(0.7)
        served = c.value("select 'served'")
    return served + line(p, "closing because: close_needed")


@end(
    ours="server login has been failing, cached error: cannot connect to the server: server refused SSL",
    log=False,
    settings={"server_tls_sslmode": "require", "server_down_wait": 0, "client_login_timeout": 2},
)
def a_server_without_tls(p):
    with pytest.raises(wire.ServerError) as error:
        p.connect().close()
    return error.value.fields["M"]


@end(ours="must be superuser or replication role to start walsender", log=False)
def a_server_that_refuses_replication(p):
    with pytest.raises(wire.ServerError) as error:
        p.connect(user="alice", options={"replication": "database"}).close()
    return error.value.fields["M"]


@end()
def a_server_that_ends_between_transactions(p):
    with p.connect() as c:
        p.cluster.psql(f"select pg_terminate_backend({c.value('select pg_backend_pid()')})")
        line(p, "closing because: server conn crashed")
        return c.value("select 'served'")


# -- logins that wait for a server


def hears_at_login(p, **named) -> str:
    with pytest.raises(wire.ServerError) as error:
        p.connect(**named).close()
    return error.value.fields["M"]


@end(settings={"client_login_timeout": 1})
def a_login_to_a_server_that_says_nothing(p):
    with OddServer(b"") as server:
        p.databases["silent"] = f"host=127.0.0.1 port={server.port}"
        p.reload()
        return hears_at_login(p, database="silent")


@end(settings={"client_login_timeout": 1})
def a_login_to_a_pool_that_is_paused(p):
    p.console("pause")
    return hears_at_login(p)


@end(settings={"client_login_timeout": 1, "query_wait_timeout": 2})
def a_login_to_a_pool_that_is_paused_and_had_a_server(p):
    with p.connect() as c:
        c.query("select 1")
    p.console("pause")
    with p.connect() as c:
        c.send(wire.query("select 1"))
        return last_words(c)


# -- cancel requests


@end(settings={"client_tls_sslmode": "disable"})
def a_cancel_request_for_a_query(p):
    with p.connect() as c:
        c.send(wire.query("select pg_sleep(9)"))
        time.sleep(0.3)
        c.cancel()
        return first_text(c.read_ready())


@end(settings={"client_tls_sslmode": "disable"})
def a_cancel_request_for_a_client_without_a_query(p):
    with p.connect() as c:
        c.query("select 1")
        c.cancel()
        return line(p, "closing because: cancel request for[^(]*")


@end(settings={"client_tls_sslmode": "disable"})
def a_cancel_request_for_the_console(p):
    with p.connect(database="pgbouncer") as c:
        c.cancel()
        return line(p, "closing because: cancel request for[^(]*")


# -- messages that break the protocol


def says(p, *messages: bytes, login: bool = True, user: str = "alice") -> str:
    """What a client hears that sends a startup packet, if `login`, is asked for something, and sends these messages."""
    with p.connect(login=False) as c:
        if login:
            c.send(wire.startup({"user": user, "database": "postgres"}))
            c.read()
        c.send(*messages)
        return last_words(c)


@end(**MD5)
def an_empty_password(p):
    return says(p, wire.password_message(""))


@end(**MD5)
def a_second_startup_packet(p):
    return says(p, wire.startup({"user": "alice"}))


@end(ours="bad packet", log=False, **MD5)
def a_query_instead_of_the_password(p):
    heard = says(p, wire.query("select 1"))
    line(p, r"closing because: bad packet \(age=")
    return heard


@end()
def a_password_before_the_startup_packet(p):
    return says(p, wire.password_message("secret"), login=False)


@end()
def a_password_in_a_session(p):
    with p.connect() as c:
        c.send(wire.password_message("secret"))
        return last_words(c)


def console_says(p, message: bytes) -> str:
    """The error about a message to the console, after which PgBouncer closes the connection."""
    with p.connect(database="pgbouncer") as c:
        c.send(message)
        return first_text(read_some(c))


@end()
def a_message_of_no_known_type_to_the_console(p):
    return console_says(p, wire.message("?", b"nonsense"))


@end(log=False)
def a_function_call_to_the_console(p):
    return console_says(p, wire.function_call(1))


@end(log=False)
def a_query_to_the_console_without_its_end(p):
    return console_says(p, wire.message("Q", b"show version"))


@end(settings={"auth_type": "scram-sha-256"}, userlist={"alice": "secret", "postgres": "x"})
def a_mechanism_that_was_not_offered(p):
    return says(p, wire.message("p", b"OTHER\0" + struct.pack("!i", 3) + b"abc"))


@end(ours="bad packet header: '00000003'", log=False)
def a_first_packet_that_is_none(p):
    return says(p, b"\0\0\0\x03abcdefgh", login=False)


@end(ours="bad packet header: '5100000001'", log=False)
def a_message_with_a_length_that_is_none(p):
    with p.connect() as c:
        c.send(b"Q\0\0\0\x01select 1")
        return last_words(c)


@end()
def a_startup_packet_without_its_end(p):
    return says(p, struct.pack("!ii", 17, 196608) + b"user\0alic", login=False)


@end()
def bytes_behind_an_ssl_request(p):
    return says(p, SSL_REQUEST + b"more", login=False)


@end()
def bytes_behind_a_gss_request(p):
    return says(p, GSS_REQUEST + b"more", login=False)


# -- what is not allowed, and who is who


@end(ours='prepared statement "s" already exists', log=False, settings={"max_prepared_statements": 10})
def a_name_of_a_statement_that_is_in_use(p):
    with p.connect() as c:
        c.send(wire.parse("s", "select 1"), wire.parse("s", "select 2"), wire.sync())
        return first_text(read_some(c))


@end(settings={"disable_pqexec": 1})
def a_query_with_disable_pqexec(p):
    with p.connect() as c:
        c.send(wire.query("select 1"))
        return last_words(c) + line(p, 'ERROR C-.* (client used "Query" packet type)').partition(" client")[2]


@end(ours="(none)", log=False, settings={"disable_pqexec": 1})
def the_console_with_disable_pqexec(p):
    with p.connect(database="pgbouncer") as c:
        c.send(wire.query("show version"))
        return first_text([m for m in read_some(c) if m.tag == "E"])


@end(settings={"login_notify_message": "hello"})
def the_notice_at_a_login_to_the_console(p):
    with p.connect(database="pgbouncer", login=False) as c:
        c.send(wire.startup({"user": "postgres", "database": "pgbouncer"}))
        return first_text(c.read_ready())


@end(settings={"application_name_add_host": 1})
def the_name_of_a_client_of_a_unix_socket(p):
    with wire.Connection(host=p.dir, port=p.port, user="postgres", database="postgres") as c:
        name = c.value("show application_name")
        pid = next(row["remote_pid"] for row in p.console("show clients") if row["database"] == "postgres")
        label = line(p, r"@unix\(\d+\):\d+ login attempt")
        return f"{name} {pid} {label}".replace(str(p.port), "PORT")


@pytest.mark.parametrize("name", ENDS)
def test_how_a_connection_ends(pg15, make_pooler, name):
    compare(pg15, make_pooler, name, ENDS[name])
