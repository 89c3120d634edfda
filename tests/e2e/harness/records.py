"""Records of TLS 1.3 that no TLS library sends: encrypted here, with the keys of a handshake that Python's ssl has made.

    context.set_ciphers and the like cannot choose the suite of TLS 1.3, so the pooler must allow only SUITE.
"""

from __future__ import annotations

import hashlib
import hmac
import struct

SUITE = "TLS_CHACHA20_POLY1305_SHA256"

HANDSHAKE, APPLICATION_DATA = 22, 23


def record(key_log: str, number: int, kind: int, content: bytes) -> bytes:
    """The client's record of this number behind its handshake. `key_log` is the text of `SSLContext.keylog_filename`."""
    lines = [line.split() for line in key_log.splitlines()]
    secret = next(bytes.fromhex(words[2]) for words in lines if words[0] == "CLIENT_TRAFFIC_SECRET_0")
    key, iv = _expand(secret, b"key", 32), _expand(secret, b"iv", 12)
    nonce = (int.from_bytes(iv, "big") ^ number).to_bytes(12, "big")
    inner = content + bytes([kind])
    header = struct.pack("!BHH", APPLICATION_DATA, 0x0303, len(inner) + 16)
    stream = b"".join(_block(key, n, nonce) for n in range(1, len(inner) // 64 + 2))
    sealed = bytes(a ^ b for a, b in zip(inner, stream))
    return header + sealed + _tag(_block(key, 0, nonce)[:32], header, sealed)


def _expand(secret: bytes, label: bytes, length: int) -> bytes:
    """HKDF-Expand-Label of RFC 8446, for up to 32 bytes."""
    label = b"tls13 " + label
    info = struct.pack("!HB", length, len(label)) + label + b"\0"
    return hmac.new(secret, info + b"\1", hashlib.sha256).digest()[:length]


def _block(key: bytes, number: int, nonce: bytes) -> bytes:
    """A block of ChaCha20 (RFC 8439)."""
    start = list(struct.unpack("<16I", b"expand 32-byte k" + key + struct.pack("<I", number) + nonce))
    x = start[:]

    def quarter(a, b, c, d):
        for to, by, turned, bits in ((a, b, d, 16), (c, d, b, 12), (a, b, d, 8), (c, d, b, 7)):
            x[to] = (x[to] + x[by]) & 0xFFFFFFFF
            mixed = x[turned] ^ x[to]
            x[turned] = (mixed << bits | mixed >> (32 - bits)) & 0xFFFFFFFF

    for _ in range(10):
        for at in range(4):
            quarter(at, 4 + at, 8 + at, 12 + at)
        for at in range(4):
            quarter(at, 4 + (at + 1) % 4, 8 + (at + 2) % 4, 12 + (at + 3) % 4)
    return struct.pack("<16I", *((a + b) & 0xFFFFFFFF for a, b in zip(x, start)))


def _tag(key: bytes, header: bytes, sealed: bytes) -> bytes:
    """Poly1305 over both (RFC 8439, section 2.8)."""
    padded = lambda data: data + bytes(-len(data) % 16)  # noqa: E731
    text = padded(header) + padded(sealed) + struct.pack("<QQ", len(header), len(sealed))
    r = int.from_bytes(key[:16], "little") & 0x0FFFFFFC0FFFFFFC0FFFFFFC0FFFFFFF
    total = 0
    for at in range(0, len(text), 16):
        total = (total + int.from_bytes(text[at : at + 16] + b"\1", "little")) * r % ((1 << 130) - 5)
    return ((total + int.from_bytes(key[16:], "little")) % (1 << 128)).to_bytes(16, "little")
