"""Logins that succeed and logins that fail."""

import pytest

from harness import wire


def login(pooler, **named):
    """Connects and runs a statement; returns the authentication requests that were met."""
    with pooler.connect(**named) as c:
        assert c.value("select 1") == "1"
        return c.authentication


def refused(pooler, **named):
    """The error of a login that must fail."""
    with pytest.raises(wire.ServerError) as error:
        pooler.connect(**named)
    return error.value


def is_served(pooler):
    """Whether a client gets in, and gets an answer."""
    try:
        with pooler.connect() as c:
            return c.value("select 1") == "1"
    except (wire.ServerError, wire.Closed):
        return False
