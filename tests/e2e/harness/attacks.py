"""What the attacks on other clients' sessions have in common: a pool of one server, and a victim that looks around."""

from contextlib import contextmanager

from harness import wire
from harness.waiting import eventually

# Of query_wait_timeout: after this time it is certain that another client keeps the only server.
KEPT_SECONDS = 1.5


@contextmanager
def database(cluster, name, schema):
    """The cluster with a database that has this schema."""
    cluster.psql(f"create database {name}")
    try:
        cluster.psql(schema, dbname=name)
        yield cluster
    finally:
        cluster.psql(f"drop database {name} with (force)")


def one_server(make_pooler, cluster, **settings):
    """A pooler with one server. A client that waits longer for it than KEPT_SECONDS is refused."""
    return make_pooler(cluster, mode="transaction",
                       settings={"default_pool_size": 1, "query_wait_timeout": KEPT_SECONDS, **settings})


def keeps_its_server(pooler, cluster, text, dbname) -> bool:
    """Whether a client of its own keeps its server for this text."""
    with pooler.connect(user=cluster.superuser, database=dbname) as client:
        client.query(text)
        return bool(pooler.console("show pins"))


def looks_fresh(victim, questions) -> bool:
    """What a victim must see while the attacker is there. False if it saw nothing, because the attacker keeps the server: then
    the test must let another victim look when the attacker has left (`next_one_finds`)."""
    for question, answer in questions.items():
        try:
            found = victim.value(question)
        except wire.Closed:
            # query_wait_timeout.
            return False
        assert found == answer, question
    return True


def next_one_finds(connect, questions) -> None:
    """What the next client must see when the attacker has left. Nobody keeps the server, so it must see something; a client
    that is refused all the same, because the server's replacement logs in slowly, comes again."""
    def looks():
        with connect() as victim:
            return looks_fresh(victim, questions)

    eventually(looks, timeout=15, what="a server for the client after the attacker")
