"""One client's channels must not keep notifications from others, and end when PostgreSQL ends them."""

import itertools

import pytest

from harness.pooler import kind
from harness.wire import Connection, bind, command_tags, error_codes, execute, parse, query, sync

pytestmark = pytest.mark.skipif(kind() != "pgweir", reason="other poolers have no listeners")


def test_a_neighbour_with_many_channels_stops_nobody(pg15, make_pooler):
    """With more than 256 kB of LISTEN waiting for the listener, the pooler did not read its replies, and PostgreSQL then
    read no more."""
    pooler = make_pooler(pg15, mode="transaction", settings={"default_pool_size": 4})
    with pooler.connect() as hearer, pooler.connect() as many, pooler.connect() as sender:
        hearer.query("listen news")
        for number in range(1500):
            many.query(f"listen ch{number}")
        sender.query("notify news, 'only'")
        assert hearer.read(30).tag == "A"


# What ends the block, or a part of it, what follows in front of the end of the pipeline, and what fails or ends it.
ENDS = ("select 1", "commit", "rollback", "commit and chain", "rollback and chain", "rollback to s")
CHANGES = (
    ("unlisten a",),
    ("unlisten *",),
    ("unlisten a", "listen a"),
    ("unlisten a", "commit", "unlisten b"),
    ("unlisten a", "rollback", "unlisten b"),
)
LASTS = ((), ("select 1/0",), ("commit",), ("rollback",))


def in_a_pipeline(texts):
    return b"".join(parse("", text) + bind() + execute() for text in texts) + sync()


def in_portals_bound_before(texts):
    """Each portal is bound, and one of UNLISTEN that never runs, when the first one runs."""
    bound = b"".join(parse("", text) + bind(f"p{number}") for number, text in enumerate(texts))
    never = parse("", "unlisten b") + bind("never")
    return never + bound + b"".join(execute(f"p{number}") for number in range(len(texts))) + sync()


def in_a_query(texts):
    return query("; ".join(texts))


def told(c, block, sent):
    """The replies to what is sent in a block, and the channels after it."""
    for text in block:
        c.query(text)
    c.send(sent)
    replies = c.read_ready()
    return command_tags(replies), error_codes(replies), c.query("commit")[-1].body, channels(c)


def channels(c):
    return c.rows("select * from pg_listening_channels() order by 1")


@pytest.mark.parametrize("sends", [in_a_pipeline, in_portals_bound_before, in_a_query])
@pytest.mark.parametrize("tracked", [200, 0])
def test_an_unlisten_takes_effect_with_its_own_transaction(pg, make_pooler, sends, tracked):
    """Not with one that ends before it, although it is sent before the answer to that end."""
    pooler = make_pooler(pg, settings={"default_pool_size": 1, "max_prepared_statements": tracked})
    differ = []
    with pooler.connect() as other:
        for end, changes, last in itertools.product(ENDS, CHANGES, LASTS):
            sent = sends((end, *changes, *last))
            answers = []
            for port in (pg.port, pooler.port):
                with Connection(port=port) as c:
                    c.query("listen a; listen b")
                    if port == pooler.port:
                        other.query("select 1")
                    answers.append(told(c, ("begin", "savepoint s"), sent))
            if answers[0] != answers[1]:
                differ.append(((end, *changes, *last), answers))
    assert not differ, f"{len(differ)} differ; the first: {differ[0]}"
