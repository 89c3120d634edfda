"""Who gets in, before a real PgBouncer 1.26 and before pgweir: every way to log in, with each kind of secret and password.

The servers are logged in to as one user, so that the outcome is the pooler's own. Certificates, directories, PAM and system users
are in test_pgbouncer_ways.py.
"""

from __future__ import annotations

import contextlib

import pytest

from harness import wire
from harness.pooler import kind
from harness.side_by_side import IN, tried

pytestmark = pytest.mark.skipif(kind() != "pgweir", reason="the poolers are named by the tests themselves")

PASSWORD = "right"

# Users by the kind of secret that auth_file has for them. `missing` is not in it.
SECRETS = {
    "plain": PASSWORD,
    "md5": wire.md5_secret("md5", PASSWORD),
    "scram": wire.scram_secret(PASSWORD),
    "empty": "",
    "garbage": "SCRAM-SHA-256$nonsense",
}
USERS = [*SECRETS, "missing"]

# Passwords a client may have.
GIVEN = {"right": PASSWORD, "wrong": "wrong", "empty": "", "the secret itself": None}

HBA = "host all plain,md5,scram 127.0.0.1/32 {}\nhost all all 127.0.0.1/32 reject\n"

WAYS = {
    "any": {"auth_type": "any"},
    "trust": {"auth_type": "trust"},
    "plain": {"auth_type": "plain"},
    "md5": {"auth_type": "md5"},
    "scram-sha-256": {"auth_type": "scram-sha-256"},
    "hba trust": {"auth_type": "hba"},
    "hba reject": {"auth_type": "hba"},
    "hba password": {"auth_type": "hba"},
    "hba md5": {"auth_type": "hba"},
    "hba scram-sha-256": {"auth_type": "hba"},
    "md5 and auth_query": {"auth_type": "md5", "auth_user": "postgres"},
    "scram-sha-256 and auth_query": {"auth_type": "scram-sha-256", "auth_user": "postgres"},
    "without auth_file": {"auth_type": "md5", "auth_file": None},
}


def meant(way: str, user: str, name: str, theirs: str) -> str | None:
    """Our outcome where it is another, on purpose; `None` where it is PgBouncer's."""
    if user == "empty" and name in ("empty", "the secret itself") and theirs == IN and "trust" not in way and way != "any":
        # An empty secret lets nobody in, as in PostgreSQL.
        return "refused"
    if user == "garbage" and theirs == IN and way != "any":
        # What begins like a SCRAM secret and is none is not taken for a password: its user is not known.
        return "refused"
    return None


def outcomes(pooler) -> dict[tuple[str, str], tuple[str, str, list[str]]]:
    """What every user hears with every password, the end of the connection in the log, and the log's other lines about it."""
    tries = [(user, name) for user in [*USERS, "alice"] for name in GIVEN]
    given = lambda user, name: SECRETS.get(user, "") if GIVEN[name] is None else GIVEN[name]  # noqa: E731
    attempts = {(user, name): (user, given(user, name)) for user, name in tries}
    attempts["alice", "her own"] = ("alice", "alice-pw")
    return {k: tried(pooler, lambda p: p.connect(user=user, password=word)) for k, (user, word) in attempts.items()}  # noqa: B023


# PgBouncer's line where ours is not the same behind `login failed: `.
LOGGED = {
    "login failed: db=": "no such user: ",
    "SCRAM authentication failed: user has MD5 secret": "method scram-sha-256 needs a plain text or SCRAM secret",
}

# What the log says of a refusal for which PgBouncer has no words but those of the end.
OWN_REASONS = (
    "wrong password",
    "user has no password",
    "empty password returned by client",
    "rejected by hba.conf:",
    "no such user: garbage",
)


def is_logged(theirs: list[str], ours: list[str]) -> bool:
    """Whether our line about a refusal has the words of one of theirs, or the reason that they do not name."""
    if len(ours) != 1 or not ours[0].startswith("login failed: "):
        return False
    words = [next((own for begins, own in LOGGED.items() if line.startswith(begins)), line) for line in theirs]
    return ours[0].removeprefix("login failed: ").startswith((*words, *OWN_REASONS))


def check_logs(theirs: dict, ours: dict) -> None:
    """Both name the end in the words that the client hears. Ours has a line with the reason besides."""
    for outcomes in (theirs, ours):
        ends = {k: (heard, end) for k, (heard, end, _) in outcomes.items()}
        assert not {k: v for k, v in ends.items() if v[1] != ("client close request" if v[0] == IN else v[0])}
    lines = {k: (theirs[k][2], ours[k][2]) for k in theirs}
    assert not {k: v for k, v in lines.items() if not (v == ([], []) if theirs[k][0] == IN else is_logged(*v))}
    unknown = {k: ours[k][2] for k in ours if k[0] == "missing" and ours[k][0] not in (IN, "login rejected")}
    reasons = ("login failed: no such user: missing", "login failed: empty password returned by client")
    assert not {k: v for k, v in unknown.items() if not v[0].startswith(reasons)}


@pytest.mark.parametrize("way", WAYS)
def test_who_gets_in(pg15, make_pooler, way):
    found = []
    for which in ("pgbouncer", "pgweir"):
        settings = {**WAYS[way], "server_login_retry": 1}
        if settings["auth_type"] == "hba":
            settings["auth_hba_file"] = "hba.conf"
        userlist = {**SECRETS, "postgres": "postgres-pw"}
        pooler = make_pooler(pg15, start=False, which=which, settings=settings, userlist=userlist)
        pooler.write_file(f"{pooler.dir}/hba.conf", HBA.format(way.removeprefix("hba ")))
        pooler.databases = {"postgres": pooler.server(user="postgres")}
        pooler.write_ini()
        pooler.start()
        found.append(outcomes(pooler))
    theirs, ours = ({k: heard for k, (heard, _, _) in some.items()} for some in found)
    others = {k: meant(way, *k, theirs[k]) for k in theirs}
    assert not {k: ours[k] for k, outcome in others.items() if outcome and ours[k] == IN}
    compared = [k for k in theirs if not others[k]]
    assert not {k: (theirs[k], ours[k]) for k in compared if (theirs[k] == IN) != (ours[k] == IN)}
    # What a user without a secret hears is what known ones hear, whose secrets may be of another kind: nobody can tell who exists.
    known = [k for k in compared if k[0] not in ("missing", "garbage", "empty")]
    assert not {k: (theirs[k], ours[k]) for k in known if not ours[k].startswith(theirs[k])}
    check_logs(*({k: some[k] for k in compared} for some in found))


# Lines of auth_file, and who gets in by them with which password.
LINES = r'''; a comment
"plain" "right" and the rest
  "indented" "right"
"quoted""name" "ri""ght"

"tab"	"right"
"two" "right" "wrong"
"twice" "wrong"
"twice" "right"
"empty" ""
'''
BY_LINES = [
    ("plain", "right"), ("indented", "right"), ('quoted"name', 'ri"ght'), ("tab", "right"), ("two", "right"),
    ("two", "wrong"), ("twice", "right"), ("twice", "wrong"), ("empty", ""), ("missing", "right"),
]  # fmt: skip


def those_who_get_in(pooler, logins) -> list[str]:
    """Users of these. The servers are logged in to as one user."""
    found = []
    for user, password in logins:
        with contextlib.suppress(wire.ServerError), pooler.connect(user=user, password=password):
            found.append(f"{user}/{password}")
    return found


def with_lines(make_pooler, cluster, which, lines):
    pooler = make_pooler(cluster, start=False, which=which, settings={"auth_type": "plain"})
    pooler.databases = {"postgres": pooler.server(user="postgres", password="postgres-pw")}
    pooler.write_ini()
    pooler.write_file(pooler.userlist_path, lines)
    return pooler.start()


def test_lines_of_auth_file(pg15, make_pooler):
    found = []
    for which in ("pgbouncer", "pgweir"):
        pooler = with_lines(make_pooler, pg15, which, LINES)
        found.append(those_who_get_in(pooler, BY_LINES))
    assert found[0] and found[1] == found[0]


def test_lines_of_auth_file_that_are_none(pg15, make_pooler):
    """Ours skips the line and says so; PgBouncer forgets all behind it. Users whose line is gone are gone after RELOAD."""
    logins = [("first", "right"), ("second", "right"), ("removed", "right")]
    found = []
    for which in ("pgbouncer", "pgweir"):
        pooler = with_lines(make_pooler, pg15, which, '"postgres" "right"\n"removed" "right"\n')
        assert those_who_get_in(pooler, logins) == ["removed/right"]
        pooler.write_file(pooler.userlist_path, '"postgres" "right"\n"first" "right"\n# no comment\n"second" "right"\n')
        with pooler.connect(user="postgres", password="right", database="pgbouncer") as c:
            c.query("reload")
        found.append(those_who_get_in(pooler, logins))
    assert found == [["first/right"], ["first/right", "second/right"]]
    pooler.wait_log("userlist.txt:3: line of the auth_file is ignored")
