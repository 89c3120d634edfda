"""The syntax of configuration files, before a real PgBouncer 1.26 and before pgweir: the same text means the same settings."""

from __future__ import annotations

import os

import pytest

from harness.pooler import kind
from harness.waiting import eventually
from test_pgbouncer_limits import both

pytestmark = pytest.mark.skipif(kind() != "pgweir", reason="the poolers are named by the tests themselves")

# Lines behind those that every file needs, which end in section [pgbouncer].
TEXTS = {
    "nothing": "",
    "comments": "; default_pool_size = 1\n# default_pool_size = 2\n\n  ; default_pool_size = 3\n\t# default_pool_size = 4\n",
    "a comment behind a value": "default_pool_size = 7 ; seven\n",
    "a comment behind a text": "server_reset_query = DISCARD ALL ; all # all\n",
    "blanks": "  default_pool_size\t=  7  \n\treserve_pool_size=3\t\n",
    "no blanks": "default_pool_size=7\n",
    "twice": "default_pool_size = 7\ndefault_pool_size = 8\n",
    "numbers": "default_pool_size = 0x0b\nreserve_pool_size = 010\nmin_pool_size = +1\n",
    "fractions": "server_idle_timeout = 1.5\nquery_wait_timeout = .25\nserver_lifetime = 1e3\n",
    "a fraction of a number": "default_pool_size = 1.5\n",
    "words for numbers": "default_pool_size = ten\n",
    "nothing for a number": "default_pool_size =\n",
    "nothing for a time": "server_idle_timeout =\n",
    "nothing for a text": "server_reset_query =\n",
    "a value in quotes": "server_reset_query = 'DISCARD PLANS'\n",
    "a value in double quotes": 'server_reset_query = "DISCARD PLANS"\n',
    "capital letters of a name": "DEFAULT_POOL_SIZE = 7\n",
    "capital letters of a word": "pool_mode = SESSION\n",
    "no equals sign": "default_pool_size 7\n",
    "no name": "= 7\n",
    "a line that goes on": "server_reset_query = DISCARD \\\nALL\n",
    "a form feed": "default_pool_size = 7\f\n",
    "ends of lines of Windows": "default_pool_size = 7\r\nreserve_pool_size = 3\r\n",
    "no last end of line": "default_pool_size = 7",
    "capital letters of a section": "[PGBOUNCER]\ndefault_pool_size = 7\n",
    "blanks in a section": "[ pgbouncer ]\ndefault_pool_size = 7\n",
    "words behind a section": "[pgbouncer] x\ndefault_pool_size = 7\n",
    "sections in another order": "[databases]\nmore = host=127.0.0.1\n[users]\nalice = pool_mode=session\n[databases]\nlast = host=127.0.0.1\n",
    "an unknown section": "[others]\nx = y\n",
    "databases": "[databases]\none=host=127.0.0.1 port=5 dbname=x\n two  =  host=127.0.0.1   port = 6\n",
    "a database twice": "[databases]\none = host=127.0.0.1 port=5\none = host=127.0.0.1 port=6\n",
    "a database in quotes": '[databases]\n"a b" = host=127.0.0.1\n',
    "a quote in the name of a database": '[databases]\n"a""b" = host=127.0.0.1\n',
    "values of a database in quotes": "[databases]\none = host='127.0.0.1' dbname='it''s a b'\n",
    "a value that is not closed": "[databases]\none = host='127.0.0.1\n",
    "a key of a database twice": "[databases]\none = host=127.0.0.1 port=5 port=6\n",
    "an unknown key of a database": "[databases]\none = host=127.0.0.1 nosuch=1\n",
    "a database of no keys": "[databases]\none =\n",
    "the name of the console": "[databases]\npgbouncer = host=127.0.0.1\n",
    "users": "[users]\nalice = pool_mode=session pool_size=3\n",
    "an included file": "%include more.ini\nreserve_pool_size = 3\n",
    "an included section": "%include databases.ini\n",
    "an included file that is missing": "%include missing.ini\n",
    "an unknown directive": "%nosuch x\n",
}  # fmt: skip
INCLUDED = {"more.ini": "default_pool_size = 7\n", "databases.ini": "[databases]\nincluded = host=127.0.0.1\n"}

# What pgweir takes, and PgBouncer refuses.
ONLY_OURS = {"a database in quotes", "a quote in the name of a database"}

# Names that differ between any two, and settings whose default differs.
OWN = (
    "listen_port", "unix_socket_dir", "logfile", "pidfile", "auth_file", "conffile", "auth_query", "track_extra_parameters",
    "verbose",
)  # fmt: skip


def meaning(pooler, text: str):
    """SHOW CONFIG, DATABASES and USERS; nothing, if the file is refused."""
    for name, content in INCLUDED.items():
        pooler.write_file(os.path.join(pooler.dir, name), content)
    with open(pooler.ini_path, encoding="utf-8") as file:
        pooler.write_file(pooler.ini_path, file.read().rstrip("\n") + "\n" + text)
    pooler.spawn()
    eventually(lambda: "process up" in pooler.log() or not pooler.running, what="its start")
    if not pooler.running:
        assert pooler.wait_exit() != 0
        return None
    config = {row["key"]: row["value"] for row in pooler.console("show config") if row["key"] not in OWN}
    databases = [row for row in pooler.console("show databases") if row["name"] != "pgbouncer"]
    # PgBouncer writes blanks in front of numbers.
    users = [{key: value and value.strip() for key, value in row.items()} for row in pooler.console("show users")]
    return config, databases, users


@pytest.mark.parametrize("what", TEXTS)
def test_what_a_file_means(make_pooler, what):
    databases = {"postgres": "host=127.0.0.1"}
    theirs, ours = (meaning(p, TEXTS[what]) for p in both(make_pooler, None, databases=databases, start=False))
    if what in ONLY_OURS:
        assert theirs is None and ours is not None
        return
    assert (ours is None) == (theirs is None)
    if theirs is not None:
        shared = theirs[0].keys() & ours[0].keys()
        assert {key: ours[0][key] for key in shared} == {key: theirs[0][key] for key in shared}
        assert ours[1:] == theirs[1:]


def test_a_second_section_of_settings(make_pooler):
    """With pgweir it adds to the first; PgBouncer forgets the first."""
    sizes = []
    for p in both(make_pooler, None, databases={"postgres": "host=127.0.0.1"}, start=False):
        with open(p.ini_path, encoding="utf-8") as file:
            text = file.read()
        p.write_file(p.ini_path, "[pgbouncer]\ndefault_pool_size = 7\n" + text + "[pgbouncer]\n" + text.split("[pgbouncer]\n")[1])
        p.start()
        sizes.append(next(row["value"] for row in p.console("show config") if row["key"] == "default_pool_size"))
    assert sizes == ["20", "7"]
