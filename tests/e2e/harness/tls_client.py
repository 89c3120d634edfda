"""Clients of messages that connect by TLS, with or without a certificate."""

from __future__ import annotations

import ssl
import struct

from . import wire


def context_for(pair=None, version: ssl.TLSVersion | None = None) -> ssl.SSLContext:
    """A context that checks nothing, and shows this certificate."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    if version:
        context.minimum_version = context.maximum_version = version
    if pair:
        context.load_cert_chain(pair.certificate, pair.key)
    return context


def secured(pooler, context: ssl.SSLContext, session=None, user: str = "alice", **named) -> wire.Connection:
    """A client by TLS that resumes this session if the pooler lets it."""
    c = pooler.connect(user=user, login=False, **named)
    c.socket.sendall(struct.pack("!ii", 8, wire.SSL_REQUEST))
    assert c.socket.recv(1) == b"S"
    c.socket = context.wrap_socket(c.socket, session=session)
    c.login()
    return c
