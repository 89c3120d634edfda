"""Settings that only a new connection can have: clients that ask for them get servers that were started with them."""

import pytest
from harness import wire
from harness.pooler import kind

pytestmark = pytest.mark.skipif(kind() != "pgweir", reason="others refuse such settings or take any server")


def test_clients_that_ask_for_the_same_share_servers(pg, make_pooler):
    pooler = make_pooler(pg, settings={"default_pool_size": 1})
    asked = {"post_auth_delay": "0", "Ignore_System_Indexes": "on"}
    with pooler.connect() as plain, pooler.connect(options=asked) as one, pooler.connect(options=asked) as two:
        for _ in range(3):
            assert plain.value("show ignore_system_indexes") == "off"
            assert one.value("show ignore_system_indexes") == "on"
            assert two.value("show ignore_system_indexes") == "on"
        assert one.value("select pg_backend_pid()") == two.value("select pg_backend_pid()")
        one.query("reset all")
        assert one.value("show ignore_system_indexes") == "on"


def test_what_the_server_refuses_is_the_clients_error(pg, make_pooler):
    """And it is nobody else's: others log in and work."""
    pooler = make_pooler(pg)
    for user, asked in (("postgres", "log_disconnections=perhaps"), ("alice", "log_disconnections=on")):
        with pytest.raises(wire.ServerError) as refusal:
            pooler.connect(user=user, options=dict([asked.split("=")]))
        assert "log_disconnections" in str(refusal.value)
    with pooler.connect(user="alice") as c:
        assert c.value("select 1") == "1"


def test_the_number_of_such_pools_has_a_limit(pg15, make_pooler):
    pooler = make_pooler(pg15, settings={"max_db_connections": 4, "default_pool_size": 1})
    for n in range(16):
        # A list without names, which SHOW gives back as it was written.
        with pooler.connect(options={"local_preload_libraries": " " * n}) as c:
            assert c.value("show local_preload_libraries") == " " * n
    with pytest.raises(wire.ServerError) as refusal:
        pooler.connect(options={"local_preload_libraries": " " * 16})
    assert refusal.value.code == "22023"
    with pooler.connect() as c:
        assert c.value("select 1") == "1"


def test_equal_spellings_are_one_value(pg15, make_pooler):
    """They have one pool, so also one server."""
    pooler = make_pooler(pg15, settings={"max_db_connections": 4, "default_pool_size": 1})
    pids = set()
    for n, spelling in enumerate(["0", "00", "0s", "0 min", "0x0", "0.2", "+0", "100ms"] * 3):
        with pooler.connect(options={"post_auth_delay": spelling + " " * n}) as c:
            assert c.value("show post_auth_delay") == "0"
            pids.add(c.value("select pg_backend_pid()"))
    assert len(pids) == 1
