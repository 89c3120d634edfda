"""Attacks by connections that have not proven who they are, and by those who may only look."""

from __future__ import annotations

import concurrent.futures
import contextlib
import os
import time

import pytest

from harness import wire
from harness.logins import refused
from harness.pooler import PASSWORDS, kind
from harness.waiting import Stopwatch, eventually

pytestmark = [
    pytest.mark.skipif(kind() == "direct", reason="there is no pooler"),
    pytest.mark.beyond_pgbouncer,
]


@pytest.mark.parametrize("begun", [b"", b"\0\0", wire.startup({"user": "postgres", "database": "postgres"})[:20]])
def test_connections_that_never_log_in_count_and_keep_nobody_out(pg15, make_pooler, begun):
    """300 connections at max_client_conn = 20: a few remain; clients, administrators and cancel requests get in."""
    pooler = make_pooler(pg15, settings={"max_client_conn": 20})
    with contextlib.ExitStack() as stack:
        silent = [stack.enter_context(pooler.connect(login=False)) for _ in range(300)]
        for c in silent:
            with contextlib.suppress(OSError):
                c.send(begun)
        descriptors = lambda: len(os.listdir(f"/proc/{pooler.process.pid}/fd"))  # noqa: E731
        eventually(lambda: descriptors() < 150, what=lambda: f"{descriptors()} descriptors")
        clients = [stack.enter_context(pooler.connect()) for _ in range(20)]
        assert all(c.value("select 1") == "1" for c in clients)
        with pytest.raises(wire.ServerError) as refused:
            pooler.connect()
        assert "max_client_conn" in str(refused.value)
        assert pooler.console("show version")
        clients[0].send(wire.query("select pg_sleep(20)"))
        time.sleep(0.2)
        watch = Stopwatch()
        clients[0].cancel()
        assert wire.error_codes(clients[0].read_ready()) == ["57014"]
        assert watch.seconds < 5


def test_databases_that_do_not_exist_cost_one_server_login_each(pg15, make_pooler, own_cluster):
    """With `*` and auth_query, each name that a stranger makes up is tried at a server: once, and only some at a time."""
    cluster = own_cluster(settings={"max_connections": "50"})
    pooler = make_pooler(
        cluster,
        settings={"auth_type": "scram-sha-256", "auth_user": "postgres", "server_login_retry": 60},
        userlist={"postgres": PASSWORDS["postgres"]},
    )
    for _ in range(2):
        with contextlib.ExitStack() as stack:
            for n in range(150):
                c = stack.enter_context(pooler.connect(user="alice", database=f"nowhere{n}", login=False))
                c.send(wire.startup({"user": "alice", "database": f"nowhere{n}"}))
            # A known database is served meanwhile.
            with pooler.connect(user="postgres", password=PASSWORDS["postgres"]) as c:
                assert c.value("select 1") == "1"
            time.sleep(1.5)
        with open(cluster.log_path, encoding="utf-8", errors="replace") as log:
            text = log.read()
        assert text.count('database "nowhere') == 150
        assert "too many clients" not in text
        assert len(pooler.console("show pools", password=PASSWORDS["postgres"])) < 40


def first_question(pooler, user: str) -> tuple:
    """What somebody who names this user is asked, and how a wrong answer is refused."""
    with pooler.connect(user=user, password="wrong", login=False) as c:
        with pytest.raises(wire.ServerError) as refused:
            c.login()
        error = wire.first_error(c.login_messages).fields
        return c.authentication[:1], error["C"], error["M"].replace(user, "USER"), str(type(refused.value))


def test_who_is_in_auth_file_is_not_told_while_auth_query_has_no_server(pg15, make_pooler, own_cluster):
    cluster = own_cluster()
    pooler = make_pooler(
        cluster,
        settings={"auth_type": "scram-sha-256", "auth_user": "postgres"},
        userlist={"postgres": PASSWORDS["postgres"], "bob": PASSWORDS["bob"]},
    )
    cluster.stop()
    assert first_question(pooler, "bob") == first_question(pooler, "alice") == first_question(pooler, "nobody")
    watch = Stopwatch()
    first_question(pooler, "alice")
    assert watch.seconds < 1


def test_under_md5_unknown_users_seem_to_have_what_real_ones_have(pg15, make_pooler):
    """Half of the users have SCRAM verifiers and half MD5 hashes: so it seems of those who do not exist."""
    verifier = pg15.psql("select rolpassword from pg_authid where rolname = 'alice'").strip()
    assert verifier.startswith("SCRAM-SHA-256$")
    users = {f"scram{n}": verifier for n in range(8)} | {f"md5{n}": "md5" + "0" * 32 for n in range(8)}
    pooler = make_pooler(pg15, settings={"auth_type": "md5"}, userlist=users)
    asked = [first_question(pooler, f"nobody{n}")[0] for n in range(40)]
    assert asked.count([5]) > 5 and asked.count([10]) > 5
    assert asked == [first_question(pooler, f"nobody{n}")[0] for n in range(40)], "always the same for a name"


def test_invented_databases_lock_nobody_out_and_reveal_nobody(pg15, make_pooler):
    """Under `*`, with auth_query: each name that somebody invents costs a connection, and no other client its login."""
    pg15.psql("drop database if exists real; create database real")
    settings = {"auth_type": "scram-sha-256", "auth_user": "postgres", "server_login_retry": 60}
    pooler = make_pooler(pg15, settings=settings, userlist={"postgres": PASSWORDS["postgres"], "bob": PASSWORDS["bob"]})
    with contextlib.ExitStack() as stack:
        for n in range(60):
            c = stack.enter_context(pooler.connect(user="nobody", login=False))
            c.send(wire.startup({"user": "nobody", "database": f"invented{n}"}))
        with pooler.connect(user="alice", password=PASSWORDS["alice"], database="real") as c:
            assert c.value("select current_database()") == "real"
    # A user of auth_file, one of the database, and one who does not exist, with one more invented name.
    asked = []
    for user in ("bob", "alice", "nobody"):
        with pooler.connect(user=user, login=False) as c:
            c.send(wire.startup({"user": user, "database": f"invented-by-{user}"}))
            asked.append([(m.tag, len(m.body)) for m in c.read_until("R")])
    assert asked[0] == asked[1] == asked[2], asked
    pg15.psql("drop database real with (force)")


def test_passwords_in_clear_text_do_not_stall_others(pg15, make_pooler):
    """Each wrong one costs thousands of hashes; others' statements go on meanwhile."""
    pg15.psql("set scram_iterations = 4096") if pg15.version >= 16 else None
    verifier = pg15.psql("select rolpassword from pg_authid where rolname = 'alice'").strip()
    pooler = make_pooler(
        pg15,
        settings={"auth_type": "plain"},
        userlist={"alice": verifier, "postgres": PASSWORDS["postgres"]},
    )
    with contextlib.ExitStack() as stack:
        worker = stack.enter_context(pooler.connect(password=PASSWORDS["postgres"]))
        worker.value("select 1")
        attackers = []
        for _ in range(100):
            c = stack.enter_context(pooler.connect(user="alice", login=False))
            c.send(wire.startup({"user": "alice", "database": "postgres"}))
            attackers.append(c)
        for c in attackers:
            c.read_until("R")
        for c in attackers:
            c.send(wire.password_message("wrong"))
        slowest = 0.0
        for _ in range(40):
            watch = Stopwatch()
            worker.value("select 1")
            slowest = max(slowest, watch.seconds)
        assert slowest < 0.15, slowest
        for c in attackers:
            assert wire.first_error(c.read_to_end(10)).fields["C"] == "28P01"
        with pooler.connect(user="alice", password=PASSWORDS["alice"]) as c:
            assert c.value("select 1") == "1"


def test_passwords_in_settings_are_for_administrators(pg15, make_pooler):
    options = "ldapserver=127.0.0.1 ldapbasedn=b ldapbinddn=c ldapbindpasswd=geheim4"
    pooler = make_pooler(pg15, settings={"auth_ldap_options": options})
    pooler.console(f"set auth_ldap_options = '{options} ldaptls=1'")
    assert "geheim4" in str(pooler.console("show config"))
    assert "geheim4" not in str(pooler.console("show config", user="stats"))
    assert "SET auth_ldap_options=" in pooler.log() and "geheim" not in pooler.log()


def test_a_verifier_of_many_iterations_does_not_stall_others(make_pooler, own_cluster):
    """Every role may give itself one by ALTER ROLE; the pooler logs in with it, and others' statements go on."""
    cluster = own_cluster(hba="local all all trust\nhost all all 127.0.0.1/32 scram-sha-256\n")
    roles = ("alice", "bob", "stats")
    for role in roles:
        verifier = wire.scram_secret(PASSWORDS[role], iterations=1_000_000)
        cluster.psql(f"alter role {role} password '{verifier}'")
    pooler = make_pooler(cluster)
    with pooler.connect() as worker, concurrent.futures.ThreadPoolExecutor() as threads:
        worker.value("select 1")

        def attack(role: str) -> str:
            with pooler.connect(user=role) as c:
                return c.value("select 1")

        attackers = [threads.submit(attack, role) for role in roles]
        slowest = 0.0
        while not all(attacker.done() for attacker in attackers):
            watch = Stopwatch()
            worker.value("select 1")
            slowest = max(slowest, watch.seconds)
        assert [attacker.result() for attacker in attackers] == ["1", "1", "1"]
        assert slowest < 0.4, slowest


SCRAM_FIRST = b"SCRAM-SHA-256\0\0\0\0\x18n,,n=,r=abcdefghijklmnop"


def test_strangers_that_begin_scram_do_not_stall_others(pg15, make_pooler):
    """For the answer to a client's first message no keys are needed, although the passwords are plain text."""
    users = {f"user{number}": f"password{number}" for number in range(12)}
    settings = {"auth_type": "scram-sha-256", "scram_iterations": 1_000_000}
    verifier = wire.scram_secret(PASSWORDS["postgres"])
    pooler = make_pooler(pg15, settings=settings, userlist={"postgres": verifier, **users})
    with pooler.connect(password=PASSWORDS["postgres"]) as worker, contextlib.ExitStack() as stack:
        worker.value("select 1")
        watch = Stopwatch()
        for user in users:
            stranger = stack.enter_context(pooler.connect(login=False))
            stranger.send(wire.startup({"user": user, "database": "postgres"}))
            stranger.read_until("R")
            stranger.send(wire.message("p", SCRAM_FIRST))
            assert b"i=1000000" in stranger.read_until("R")[-1].body
            assert worker.value("select 2") == "2"
        # Each of them would be a derivation of half a second.
        assert watch.seconds < 3, watch.seconds


def test_proofs_are_judged_whether_keys_are_known_or_not(pg15, make_pooler):
    """Keys of a plain-text password are derived at its first login. Whoever fails waits as long, and is refused alike."""
    secrets = {"alice": PASSWORDS["alice"], "bob": wire.scram_secret(PASSWORDS["bob"])}
    settings = {"auth_type": "scram-sha-256", "scram_iterations": 200_000}
    pooler = make_pooler(pg15, settings=settings, userlist=secrets)
    for _ in range(2):
        for user in ("alice", "bob", "nobody"):
            assert "SASL authentication failed" in str(refused(pooler, user=user, password="guess"))
        for user in ("alice", "bob"):
            with pooler.connect(user=user, password=PASSWORDS[user]) as c:
                assert c.value("select current_user") == user
        pooler.settings["scram_iterations"] = 100_000
        pooler.write_ini()
        pooler.reload()


def test_names_that_the_server_would_cut_pass_no_rule(pg15, make_pooler):
    """PostgreSQL up to 16 takes the first 63 bytes for the name, pg_hba.conf included."""
    database = "d" * 63
    pg15.psql(f"create database {database}")
    try:
        pooler = make_pooler(pg15, settings={"auth_type": "hba", "auth_hba_file": "hba"}, start=False)
        pooler.write_file(f"{pooler.dir}/hba", f"host {database} all all reject\nhost all all all trust\nlocal all all trust\n")
        pooler.settings["auth_hba_file"] = f"{pooler.dir}/hba"
        pooler.write_ini()
        pooler.start()
        for name, code in ((database, "28000"), (database + "x", "3D000"), ("d" * 200, "3D000")):
            assert refused(pooler, database=name).code == code
    finally:
        pg15.psql(f"drop database {database} with (force)")


def test_stats_users_see_names_and_reasons_but_no_values_and_no_statements(pg15, make_pooler):
    pooler = make_pooler(pg15)
    with pooler.connect() as c:
        c.query("set app.token = 'geheim1'")
        c.query("create temp table attack_pin as select 'geheim2' as token")
        c.send(wire.parse("s", "select 'geheim3'"), wire.sync())
        c.read_ready()
        number = next(row["id"] for row in pooler.console("show clients") if row["database"] == "postgres")
        for command in (f"show session {number}", "show pins"):
            for user, sees in (("postgres", True), ("stats", False)):
                rows = str(pooler.console(command, user=user))
                assert ("geheim" in rows) == sees, (command, user, rows)
        assert "temporary objects" in str(pooler.console("show pins", user="stats"))
        assert "app.token" in str(pooler.console(f"show session {number}", user="stats"))
        for command in ("clients", "servers", "sockets", "pools", "databases", "users", "config", "lists", "mem"):
            assert "geheim" not in str(pooler.console(f"show {command}", user="stats"))
