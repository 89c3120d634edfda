"""Directories that mean harm: what they answer ends neither the process nor its memory, and lets nobody in."""

import itertools
import os

import pytest

from harness.false_directory import ANSWERS, BIND, EXTENDED, SEARCH, FalseDirectory, element, entry, message, nested, result
from harness.logins import login
from harness.pooler import kind, resident_bytes
from harness.wire import ServerError

pytestmark = [pytest.mark.skipif(kind() == "direct", reason="there is no pooler"), pytest.mark.beyond_pgbouncer]

SIMPLE = 'ldapprefix="cn=" ldapsuffix=",dc=x"'
SEARCHING = "ldapbasedn=dc=x ldapbinddn=cn=s ldapbindpasswd=p"

# The operation whose answer does harm, and the options with which it is asked for.
PLACES = {
    "bind": (BIND, SIMPLE),
    "search": (SEARCH, SEARCHING),
    "starttls": (EXTENDED, f"ldaptls=1 {SIMPLE}"),
}

ZEROS = bytes(1 << 20)
TOO_LONG = "an answer of the directory is longer than 65536 bytes"
TOO_DEEP = "an answer of the directory is nested deeper than 16 levels"
TOO_MANY = "the directory has sent more than 32 messages for one login"
INVALID = "an answer of the directory is not a valid message of LDAP"


def within(number: int, content: bytes) -> bytes:
    """A message whose operation has this content."""
    return message(number, element(0x78, content))


# What is sent, and what the log says.
HARM = {
    "deep": (lambda n: [within(n, nested(10_000))], TOO_DEEP),
    "deep and long": (lambda n: [nested(30_000)], TOO_LONG),
    "2 GB": (lambda n: itertools.chain([b"\x30\x84\x7f\xff\xff\xff"], itertools.repeat(ZEROS, 300)), TOO_LONG),
    "64 kB and a byte": (lambda n: [b"\x30\x83" + (65536 - 5 + 1).to_bytes(3, "big"), ZEROS[:65532]], TOO_LONG),
    "long length": (lambda n: [b"\x30\x88" + b"\xff" * 8, ZEROS], TOO_LONG),
    "no length": (lambda n: [b"\x30\x80\x02\x01" + bytes([n]) + b"\x61\x80", ZEROS], INVALID),
    "beyond its end": (lambda n: itertools.chain([b"\x30\x08\x02\x01\x01\x61\x84\x7f\xff\xff"], [ZEROS] * 100), INVALID),
    "other language": (lambda n: [b"HTTP/1.1 400 Bad Request\r\n\r\n"], INVALID),
    "notices": (lambda n: itertools.repeat(within(0, b"\x0a\x01\x34\x04\x00\x04\x00"), 1_000_000), TOO_MANY),
}


def with_directory(make_pooler, cluster, directory, options: str):
    """A rule asks the directory about alice; everybody else is trusted."""
    pooler = make_pooler(cluster, start=False)
    hba = os.path.join(pooler.dir, "hba.conf")
    rule = f"host all alice all ldap ldapserver=localhost ldapport={directory.port} {options}"
    pooler.write_file(hba, f"{rule}\nhost all all all trust\n")
    pooler.settings.update({"auth_type": "hba", "auth_hba_file": hba})
    pooler.write_ini()
    return pooler.start()


def is_refused(pooler, why: str) -> None:
    """The login is refused as if the directory were down, and the log tells why; the others are served."""
    with pytest.raises(ServerError) as error:
        pooler.connect(user="alice", password="x")
    assert (error.value.code, error.value.fields["M"]) == ("28P01", "LDAP authentication failed")
    pooler.wait_log(f"login failed: .*(?:{why})")
    assert login(pooler, user="bob") == [0]


@pytest.mark.parametrize("harm", HARM)
@pytest.mark.parametrize("place", PLACES)
def test_a_directory_that_means_harm(pg15, make_pooler, place, harm):
    operation, options = PLACES[place]
    sent, why = HARM[harm]
    if (place, harm) == ("starttls", "notices"):
        # It depends on how many arrive at once.
        why = f"more than its answer to StartTLS|invalid answer to StartTLS|unavailable|{TOO_MANY}"
    with FalseDirectory({operation: sent}) as directory:
        pooler = with_directory(make_pooler, pg15, directory, options)
        before = resident_bytes(pooler)
        is_refused(pooler, why)
        assert resident_bytes(pooler) < before + (32 << 20)


@pytest.mark.parametrize("way", ("starttls", "ldaps"))
@pytest.mark.parametrize("harm", ("deep", "2 GB", "notices"))
def test_a_directory_that_means_harm_behind_tls(pg15, make_pooler, certificates, monkeypatch, way, harm):
    """What is encrypted is no better."""
    monkeypatch.setenv("LDAPTLS_CACERT", certificates.ca)
    sent, why = HARM[harm]
    options = {"starttls": "ldaptls=1", "ldaps": "ldapscheme=ldaps"}[way]
    pair = (certificates.server.certificate, certificates.server.key)
    with FalseDirectory({SEARCH: sent}, pair, tls_first=way == "ldaps") as directory:
        pooler = with_directory(make_pooler, pg15, directory, f"{options} {SEARCHING}")
        is_refused(pooler, why)
        assert directory.asked[:1] == [EXTENDED] if way == "starttls" else [BIND]
        assert SEARCH in directory.asked


def test_nothing_of_before_tls_counts_as_encrypted(pg15, make_pooler, certificates, monkeypatch):
    """Somebody in between sends the answer to the bind in advance, in clear text."""
    monkeypatch.setenv("LDAPTLS_CACERT", certificates.ca)
    pair = (certificates.server.certificate, certificates.server.key)
    sent = {EXTENDED: lambda n: [result(n, EXTENDED) + result(n, BIND) + result(n + 1, BIND)]}
    with FalseDirectory(sent, pair) as directory:
        pooler = with_directory(make_pooler, pg15, directory, f"ldaptls=1 {SIMPLE}")
        is_refused(pooler, "more than its answer to StartTLS before TLS began")
        assert directory.asked == [EXTENDED]


def test_a_fault_behind_a_sound_answer(pg15, make_pooler):
    """Success and harm arrive together."""
    with FalseDirectory({BIND: lambda n: [result(n, BIND) + within(n, nested(10_000))]}) as directory:
        pooler = with_directory(make_pooler, pg15, directory, SIMPLE)
        is_refused(pooler, f"LDAP login failed for user cn=alice,dc=x on server localhost:[0-9]+: {TOO_DEEP}")


def test_a_directory_that_refuses_starttls(pg15, make_pooler):
    with FalseDirectory({EXTENDED: lambda n: [result(n, EXTENDED, 52)]}) as directory:
        pooler = with_directory(make_pooler, pg15, directory, f"ldaptls=1 {SIMPLE}")
        is_refused(pooler, r"no LDAP server can be reached: localhost:[0-9]+: LDAP operation result: rc=52 \(unavailable\)")


def test_a_slow_directory_and_long_names(pg15, make_pooler):
    """Answers that arrive byte by byte, and one that is nearly as long as it may be."""

    def bytewise(data: bytes):
        return (data[at : at + 1] for at in range(len(data)))

    name = b"cn=" + b"a" * 60_000
    answers = {
        BIND: lambda n: bytewise(result(n, BIND)),
        SEARCH: lambda n: itertools.chain(bytewise(within(0, b"\x0a\x01\x34\x04\x00\x04\x00")), [entry(n, name), result(n, SEARCH)]),
    }
    with FalseDirectory(answers) as directory:
        pooler = with_directory(make_pooler, pg15, directory, SEARCHING)
        assert login(pooler, user="alice", password="x") == [3, 0]
        assert directory.asked == [BIND, SEARCH, BIND]


# Sound messages with results that are none.
SHORT = {
    "empty": lambda tag: element(tag, b""),
    "code alone": lambda tag: element(tag, element(10, b"\0")),
    "one text": lambda tag: element(tag, element(10, b"\0") + element(4, b"")),
    "no code": lambda tag: element(tag, element(4, b"") * 3),
    "empty code": lambda tag: element(tag, element(10, b"") + element(4, b"") * 2),
    "long code": lambda tag: element(tag, element(10, b"\x7f" * 9) + element(4, b"") * 2),
    "no elements": lambda tag: element(tag & ~0x20, b"x"),
    "texts that are none": lambda tag: element(tag, element(10, b"\0") + element(0x30, b"") * 2),
    "not UTF-8": lambda tag: element(tag, element(10, b"\x31") + element(4, b"\xff\xfe") * 2),
}
ENTRIES = {
    "empty entry": element(0x64, b""),
    "entry without attributes": element(0x64, element(4, b"cn=alice,dc=x")),
    "entry that is no sequence": element(0x44, b"x"),
    "name that is no text": element(0x64, element(0x30, b"") + element(0x30, b"")),
    "name that is not UTF-8": element(0x64, element(4, b"\xff") + element(0x30, b"")),
    "attributes that are none": element(0x64, element(4, b"cn=alice,dc=x") + element(0x30, element(4, b"x"))),
}


@pytest.mark.parametrize("place", PLACES)
def test_results_that_are_too_short(pg15, make_pooler, place):
    """Each is asked about more often than there are threads for questions, and then a sound directory lets alice in."""
    operation, options = PLACES[place]
    tag = ANSWERS[operation]
    answers = {name: (lambda number, made=made: [message(number, made(tag))]) for name, made in SHORT.items()}
    if operation == SEARCH:
        for name, made in ENTRIES.items():
            answers[name] = lambda number, made=made: [message(number, made), result(number, SEARCH)]
    with FalseDirectory({}) as directory:
        pooler = with_directory(make_pooler, pg15, directory, options)
        for name, answer in answers.items():
            directory.answers[operation] = answer
            for _ in range(3):
                with pytest.raises(ServerError) as error:
                    pooler.connect(user="alice", password="x")
                told = (error.value.code, error.value.fields["M"])
                assert told == ("28P01", "LDAP authentication failed"), name
            assert login(pooler, user="bob") == [0], name
        directory.answers.clear()
        if operation == SEARCH:
            directory.answers[operation] = lambda number: [entry(number), result(number, SEARCH)]
        if operation != EXTENDED:
            assert login(pooler, user="alice", password="x") == [3, 0]
