"""What the attacks on other clients' sessions have in common: a pool of one server, and a victim that looks around."""

from harness import wire

# Of query_wait_timeout: after this time it is certain that another client keeps the only server.
KEPT_SECONDS = 0.75


def one_server(make_pooler, cluster, **settings):
    """A pooler with one server. A client that waits longer for it than KEPT_SECONDS is refused."""
    return make_pooler(cluster, mode="transaction",
                       settings={"default_pool_size": 1, "query_wait_timeout": KEPT_SECONDS, **settings})


def looks_fresh(victim, questions) -> None:
    """What the victim must see; nothing at all while the attacker keeps the server."""
    for question, answer in questions.items():
        try:
            found = victim.value(question)
        except wire.Closed:
            # query_wait_timeout: the attacker keeps its server.
            return
        assert found == answer, question
