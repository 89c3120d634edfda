"""The ways in: rules of an HBA file, system users, PAM, directories, each with right, wrong, empty and missing secrets."""

import contextlib
import os
import pwd
import signal
import socket
import subprocess
import sys
import threading
import time

import pgthrow
import psycopg
import pytest

from harness import directory as ldap
from harness import pam, wire
from harness.logins import login, refused
from harness.namespaces import alone
from harness.pooler import PASSWORDS, kind, server_uid
from harness.waiting import eventually
from harness.wire import md5_secret, scram_secret

pytestmark = [pytest.mark.skipif(kind() == "direct", reason="there is no pooler"), pytest.mark.beyond_pgbouncer]

INVALID_PASSWORD, INVALID_AUTHORIZATION = "28P01", "28000"

# What a client hears that has sent an empty password in clear text.
EMPTY = "empty password returned by client"


def with_rules(make_pooler, cluster, rules: str, ident: str = "", settings=None, **named):
    """A pooler whose HBA file has these lines."""
    pooler = make_pooler(cluster, start=False, **named)
    hba, maps = os.path.join(pooler.dir, "hba.conf"), os.path.join(pooler.dir, "ident.conf")
    pooler.write_file(hba, rules)
    pooler.write_file(maps, ident)
    pooler.settings.update({"auth_type": "hba", "auth_hba_file": hba, "auth_ident_file": maps, **(settings or {})})
    pooler.write_ini()
    return pooler.start()


METHODS = {"trust": [0], "password": [3, 0], "md5": [5, 0], "scram-sha-256": [10, 11, 12, 0]}


@pytest.mark.parametrize("method", METHODS)
def test_methods(pg, make_pooler, method):
    """Each method with the right, a wrong, an empty and no password, on TCP and on the Unix socket."""
    rules = f"local all all {method}\nhost all all 127.0.0.1/32 {method}\n"
    pooler = with_rules(make_pooler, pg, rules)
    for host in (pooler.host, pooler.dir):
        assert login(pooler, user="alice", password="alice-pw", host=host) == METHODS[method]
        if method == "trust":
            assert login(pooler, user="alice", host=host) == [0]
            assert refused(pooler, user="unknown", host=host).code == INVALID_PASSWORD
            continue
        for user, password in (("alice", "wrong"), ("alice", ""), ("unknown", "alice-pw"), ("unknown", "")):
            error = refused(pooler, user=user, password=password, host=host)
            told = EMPTY if not password and method == "password" else "authentication failed"
            assert error.code == INVALID_PASSWORD and told in str(error), (user, password)
    if method != "trust":
        pooler.wait_log(r"postgres/unknown@127\.0\.0\.1:\d+ login failed: no such user")
        pooler.wait_log(r"postgres/alice@127\.0\.0\.1:\d+ login failed: wrong password")


def test_the_first_rule_decides(pg15, make_pooler):
    rules = (
        "host shop alice 127.0.0.1/32 trust\n"
        "host shop all 127.0.0.1/32 reject\n"
        "host sameuser all 127.0.0.1/32 trust\n"
        "hostssl all all all trust\n"
        'host "/^ware" all samehost scram-sha-256\n'
        "host pgbouncer postgres all trust\n"
    )
    pooler = with_rules(make_pooler, pg15, rules)
    assert login(pooler, user="alice", database="shop") == [0]
    error = refused(pooler, user="bob", database="shop")
    assert (error.code, error.fields["M"]) == (INVALID_AUTHORIZATION, "login rejected")
    pooler.wait_log(r'shop/bob@127\.0\.0\.1:\d+ login failed: rejected by .*hba\.conf:2')
    pooler.wait_log("closing because: login rejected")
    assert login(pooler, user="postgres", database="postgres") == [0]
    assert login(pooler, user="bob", password="bob-pw", database="warehouse") == [10, 11, 12, 0]
    error = refused(pooler, user="bob", database="other", host=pooler.dir)
    assert "No rule of auth_hba_file matches local connection" in error.fields["D"]
    assert pooler.console("show version")


def test_drivers_get_in(pg, make_pooler):
    pooler = with_rules(make_pooler, pg, "host all alice all scram-sha-256\nhost all bob all md5\n")
    for user in ("alice", "bob"):
        with psycopg.connect(pooler.dsn(user=user, password=PASSWORDS[user])) as c:
            assert c.execute("select current_user").fetchone() == (user,)
        with pytest.raises(psycopg.OperationalError, match="authentication failed"):
            psycopg.connect(pooler.dsn(user=user, password="wrong"))


def test_stored_secrets_serve_their_methods(pg15, make_pooler):
    userlist = {"alice": scram_secret("alice-pw"), "bob": md5_secret("bob", "bob-pw")}
    pooler = with_rules(make_pooler, pg15, "host all all all md5\n", userlist=userlist)
    assert login(pooler, user="alice", password="alice-pw") == [10, 11, 12, 0]
    assert login(pooler, user="bob", password="bob-pw") == [5, 0]


@contextlib.contextmanager
def another_machine():
    """The name of a network namespace that is connected with this one, and three addresses. This machine has the first
    and the second, the other one the third."""
    name, net = f"other{os.getpid()}", f"198.18.{os.getpid() % 256}"
    here, there = f"h{os.getpid()}", f"t{os.getpid()}"
    addresses = [f"{net}.{last}" for last in (1, 2, 3)]
    ip = lambda *words: subprocess.run(["ip", *words], check=True, capture_output=True)  # noqa: E731
    try:
        ip("netns", "add", name)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("network namespaces cannot be made here")
    try:
        ip("link", "add", here, "type", "veth", "peer", "name", there, "netns", name)
        for address in addresses[:2]:
            ip("addr", "add", f"{address}/24", "dev", here)
        ip("link", "set", here, "up")
        ip("-n", name, "addr", "add", f"{addresses[2]}/24", "dev", there)
        ip("-n", name, "link", "set", there, "up")

        def move():
            """The second address moves there, and the third one here."""
            ip("addr", "del", f"{addresses[1]}/24", "dev", here)
            # With its first address an interface loses those of the same network.
            ip("-n", name, "addr", "del", f"{addresses[2]}/24", "dev", there)
            ip("-n", name, "addr", "add", f"{addresses[1]}/24", "dev", there)
            ip("addr", "add", f"{addresses[2]}/24", "dev", here)

        yield name, addresses, move
    finally:
        ip("netns", "del", name)


def first_answer(to: tuple[str, int], by: str, namespace: str | None = None) -> str:
    """The type of the first message that a client with this address gets."""
    packet = wire.startup({"user": "alice", "database": "postgres"}).hex()
    code = (
        "import socket; s = socket.socket(); s.settimeout(5); "
        f"s.bind(({by!r}, 0)); s.connect({to!r}); s.sendall(bytes.fromhex({packet!r})); print(s.recv(1).decode())"
    )
    inside = ["ip", "netns", "exec", namespace] if namespace else []
    return subprocess.run([*inside, sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout.strip()


def test_samehost_follows_an_address_that_moves(pg15, make_pooler):
    """An address of this machine that now belongs to another one lets nobody in."""
    with another_machine() as (other, (own, moving, coming), move):
        rules = "host all all samehost trust\n"
        pooler = with_rules(make_pooler, pg15, rules, settings={"listen_addr": f"127.0.0.1,{own}"})
        to = (own, pooler.port)
        assert first_answer(to, moving) == "R"
        assert first_answer(to, coming, other) == "E"
        move()
        assert first_answer(to, moving, other) == "E"
        assert first_answer(to, coming) == "R"


def test_samehost_counts_when_open_files_run_out(pg15, make_pooler):
    """The addresses of the machine cannot be asked for then. A rule that rejects it must not be passed over."""
    rules = "host all all samehost reject\nhost all all all trust\n"
    pooler = with_rules(make_pooler, pg15, rules, settings={"max_client_conn": 500}, open_files_max=60)
    packet = wire.startup({"user": "postgres", "database": "postgres"})
    answers = set()
    with contextlib.ExitStack() as stack:
        crowd = []
        for _ in range(80):
            s = stack.enter_context(socket.create_connection((pooler.host, pooler.port), timeout=10))
            s.sendall(packet[:9])
            crowd.append(s)
        pooler.wait_log("Too many open files")
        for s in crowd:
            with contextlib.suppress(OSError):
                s.sendall(packet[9:])
                answers.add(s.recv(1))
    assert answers <= {b"E", b""}, answers


def test_peer(pg15, make_pooler):
    """The system user at the other end of the Unix socket; over TCP the rule does not count."""
    if os.geteuid() != 0:
        pytest.skip("needs a system user whose name the test knows: root")
    rules = "local all alice peer map=m\nlocal all all peer\n"
    userlist = {**PASSWORDS, "root": "x"}
    pooler = with_rules(make_pooler, pg15, rules, "m root alice\nm postgres bob\n", userlist=userlist)
    assert login(pooler, user="alice", host=pooler.dir) == [0]
    assert refused(pooler, user="bob", host=pooler.dir).fields["M"] == "unix socket login rejected"
    pooler.wait_log('postgres/bob@unix.* login failed: system user "root" may not log in as "bob"')
    assert refused(pooler, user="alice").code == INVALID_AUTHORIZATION


# Logs in over the Unix socket of a directory and port, as `alice`, and prints the first byte of the answer and its kind.
LOG_IN = """
import socket, struct, sys
with socket.socket(socket.AF_UNIX) as s:
    s.connect(f"{sys.argv[1]}/.s.PGSQL.{sys.argv[2]}")
    body = struct.pack("!i", 196608) + b"user\\0alice\\0database\\0postgres\\0\\0"
    s.sendall(struct.pack("!i", len(body) + 4) + body)
    answer = s.recv(9)
    print(answer[:1].decode(), answer[8])
"""


def test_peer_of_another_pid_namespace(pg15, make_pooler):
    """Such a client's process has id 0 here. Its user is known all the same."""
    own = pwd.getpwuid(server_uid()).pw_name
    rules, maps = "local all all peer map=m\n", f"m {own} alice\n"
    pooler = with_rules(make_pooler, pg15, rules, maps, under=alone("--pid", "--fork", "--kill-child"))
    command = pgthrow.as_server_user([sys.executable, "-c", LOG_IN, pooler.dir, str(pooler.port)])
    assert subprocess.run(command, check=True, capture_output=True, text=True).stdout.split() == ["R", "0"]
    with open(f"/proc/{pooler.process.pid}/task/{pooler.process.pid}/children", encoding="ascii") as file:
        (child,) = map(int, file.read().split())
    os.kill(child, signal.SIGTERM)
    assert pooler.wait_exit() == 0


BAD_FILES = {
    "nonsense": ("auth_hba_file", "host all all all trust\nhost all all nowhere trust\n", r"could not parse hba config line 2: expected an IP address.* \(\S*hba\.conf:2\)"),
    "list-of-users": ("auth_hba_file", "host all @nowhere all trust\nhost all all all trust\n", r"could not parse hba config line 1: .*nowhere"),
    "list-of-databases": ("auth_hba_file", "host all all all trust\nhost @nowhere all all trust\n", r"could not parse hba config line 2: .*nowhere"),
    "missing": ("auth_hba_file", None, "could not open hba config file "),
    "empty": ("auth_hba_file", "", r"hba\.conf: the file contains no entries"),
    "comments": ("auth_hba_file", "# host all all all trust\n", r"hba\.conf: the file contains no entries"),
    "no-maps": ("auth_ident_file", "", 'map "m" is not in auth_ident_file'),
}


@pytest.mark.parametrize("wrong", BAD_FILES)
def test_a_reload_with_a_bad_file_keeps_the_rules(pg15, make_pooler, wrong):
    """Guards against an editor, or a full disk, that leaves an empty file: it would lock out everybody."""
    rules = "host all alice all trust\nhost pgbouncer postgres all trust\nlocal all all peer map=m\n"
    pooler = with_rules(make_pooler, pg15, rules, "m root bob\n")
    setting, content, why = BAD_FILES[wrong]
    hba, bad = str(pooler.settings["auth_hba_file"]), str(pooler.settings[setting])
    if content is None:
        os.unlink(bad)
    else:
        pooler.write_file(bad, content)
    with pytest.raises(wire.ServerError, match="RELOAD failed"):
        pooler.console("reload")
    pooler.wait_log(why)
    assert login(pooler, user="alice") == [0]
    assert refused(pooler, user="bob").code == INVALID_AUTHORIZATION
    pooler.write_file(hba, "host all bob all trust\nhost pgbouncer postgres all trust\n")
    pooler.console("reload")
    assert login(pooler, user="bob") == [0]
    assert refused(pooler, user="alice").code == INVALID_AUTHORIZATION


# ---- PAM

@pytest.fixture
def pam_service():
    """A service of the tests; its name and its log."""
    if os.geteuid() != 0:
        pytest.skip("only root may write to /etc/pam.d")
    name = f"pgweir-test-{os.getpid()}"
    with pam.service(name) as log:
        yield name, log


def test_pam(pg15, make_pooler, pam_service):
    """The modules judge; users need not be in auth_file; the password logs in to the server."""
    service, log = pam_service
    pooler = with_rules(make_pooler, pg15, f"host all all all pam pamservice={service}\n", userlist={"other": "x"})
    assert login(pooler, user="alice", password="alice-pw") == [3, 0]
    assert "alice from 127.0.0.1" in log.read_text()
    for user, password in (("alice", "wrong"), ("nobody", "alice-pw"), ("alice", "")):
        error = refused(pooler, user=user, password=password)
        told = "PAM authentication failed" if password else EMPTY
        assert (error.code, error.fields["M"]) == (INVALID_PASSWORD, told)
    pooler.wait_log(r"postgres/alice@127\.0\.0\.1:\d+ login failed: pam_authenticate\(\) failed: ")
    pooler.wait_log("login failed: empty password returned by client")
    assert log.read_text().count("\n") == 3, "an empty password reaches no module"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may write to /etc/pam.d")
@pytest.mark.parametrize(
    ("styles", "answers"),
    [
        ((1,), "0 sesame"),
        ((4, 1, 3, 1, 1), "0 - sesame - sesame sesame"),
        ((1, 2), "19"),
        ((2,), "19"),
        ((1,) * 33, "19"),
        ((), "19"),
    ],
    ids=["one", "three and two texts", "one that is shown, too", "one that is shown", "too many", "none"],
)
def test_modules_that_ask_several_questions(pg15, make_pooler, styles, answers):
    """The password answers what must not be shown. Nobody is there to answer anything else, so that such a login fails."""
    name = f"pgweir-test-asking-{os.getpid()}"
    with pam.asking_service(name, *styles) as log:
        pooler = with_rules(make_pooler, pg15, f"host all alice all pam pamservice={name}\nhost all all all trust\n")
        if answers.startswith("0"):
            assert login(pooler, user="alice", password="sesame") == [3, 0]
        else:
            error = refused(pooler, user="alice", password="sesame")
            assert (error.code, error.fields["M"]) == (INVALID_PASSWORD, "PAM authentication failed")
        assert log.read_text() == answers + "\n"
        assert login(pooler, user="bob") == [0]


def test_pam_keeps_nobody_else_waiting(pg15, make_pooler, pam_service):
    """While modules sleep, others work and log in; clients that leave cost nothing."""
    service, log = pam_service
    rules = f"host all slow all pam pamservice={service}\nhost all all all trust\n"
    pooler = with_rules(make_pooler, pg15, rules)
    waiting = [pooler.connect(user="slow", password="x", login=False) for _ in range(24)]
    with pooler.connect(user="alice") as worker:
        for c in waiting:
            c.socket.sendall(wire.startup({"user": "slow", "database": "postgres"}))
        for c in waiting:
            assert c.read().tag == "R"
            c.socket.sendall(wire.password_message("slow-pw"))
        started = time.monotonic()
        assert worker.value("select 1") == "1"
        assert login(pooler, user="bob") == [0]
        assert time.monotonic() - started < 3, "the modules still sleep"
        for c in waiting:
            c.drop()
        eventually(lambda: log.read_text().count("slow") >= 4, timeout=15, what="the modules that were asked")
        assert login(pooler, user="alice") == [0]
    assert log.read_text().count("slow") == 4, "modules are not asked about clients that have left"


@pytest.mark.beyond_pgbouncer
def test_guesses_of_one_address_keep_nobody_out(pg15, make_pooler, pam_service):
    """The modules sleep after each of 60 guesses; a client from another address gets in before the second of them."""
    service, log = pam_service
    pooler = with_rules(make_pooler, pg15, f"host all all all pam pamservice={service}\n", userlist={})
    startup = wire.startup({"user": "slow", "database": "postgres"})
    with contextlib.ExitStack() as stack:
        guesses = []
        for _ in range(60):
            s = socket.create_connection((pooler.host, pooler.port), 30, source_address=("127.0.0.2", 0))
            guesses.append(stack.enter_context(s))
            s.sendall(startup)
        for s in guesses:
            assert s.recv(1) == b"R"
            s.sendall(wire.password_message("wrong"))
        assert login(pooler, user="alice", password="alice-pw") == [3, 0]
        asked = log.read_text().splitlines()
        assert asked.count("slow from 127.0.0.2") <= 4, asked
        eventually(lambda: log.read_text().count("slow") > 4, timeout=15, what="the other guesses")


def test_a_module_that_hangs_locks_nobody_out(pg15, make_pooler, pam_service):
    """Its questions have all places of their address until client_login_timeout; then others get them."""
    service, log = pam_service
    rules = f"host all all all pam pamservice={service}\n"
    pooler = with_rules(make_pooler, pg15, rules, settings={"client_login_timeout": 2}, userlist={"other": "x"})
    with contextlib.ExitStack() as stack:
        for _ in range(4):
            c = stack.enter_context(contextlib.closing(pooler.connect(user="hang", login=False)))
            c.socket.sendall(wire.startup({"user": "hang", "database": "postgres"}))
            assert c.read().tag == "R"
            c.socket.sendall(wire.password_message("x"))
        eventually(lambda: log.read_text().count("hang") == 4, what="the modules to hang")
        pooler.wait_log("a question to PAM has not been answered in time; 4 such threads are left, 64 may be", timeout=10)
        assert login(pooler, user="alice", password="alice-pw") == [3, 0]


# ---- LDAP


def with_ldap(make_pooler, cluster, options: str, **named):
    """Users are in the directory only, and the servers let everybody in."""
    settings = {"auth_type": "ldap", "auth_ldap_options": options, "auth_file": None}
    return make_pooler(cluster, settings=settings, **named)


def ldap_refused(pooler, user, password):
    error = refused(pooler, user=user, password=password)
    told = "LDAP authentication failed" if password else EMPTY
    assert (error.code, error.fields["M"]) == (INVALID_PASSWORD, told), (user, password)


def endless_directory(listener: socket.socket, sent: list[int]) -> None:
    """Answers a bind with success, and a search with entries without end, whose sizes go to `sent`."""

    def element(tag: int, content: bytes) -> bytes:
        return bytes([tag, 0x84]) + len(content).to_bytes(4, "big") + content

    result = element(10, b"\0") + element(4, b"") + element(4, b"")
    with contextlib.suppress(OSError):
        while True:
            c, _ = listener.accept()
            with contextlib.suppress(OSError), c:
                c.settimeout(30)
                while request := c.recv(65536):
                    header = 2 if request[1] < 128 else 2 + request[1] - 128
                    number, operation = request[header + 2], request[header + 3]
                    if operation == 0x60:
                        c.sendall(element(0x30, element(2, bytes([number])) + element(0x61, result)))
                    elif operation == 0x63:
                        entry = element(0x64, element(4, b"cn=" + b"a" * 60000) + element(0x30, b""))
                        while True:
                            c.sendall(element(0x30, element(2, bytes([number])) + entry))
                            sent.append(len(entry))


def test_a_directory_that_sends_entries_without_end(pg15, make_pooler):
    """The second entry ends the search: the user is not unique."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        sent: list[int] = []
        threading.Thread(target=endless_directory, args=(listener, sent), daemon=True).start()
        port = listener.getsockname()[1]
        pooler = with_ldap(make_pooler, pg15, f"ldapserver=127.0.0.1 ldapport={port} ldapbasedn=dc=x ldapbinddn=cn=s ldapbindpasswd=p")
        ldap_refused(pooler, "alice", "x")
        pooler.wait_log("is not unique")
        assert sum(sent) < 100_000_000


SIMPLE = f'ldapprefix="cn=" ldapsuffix=",{ldap.PEOPLE}"'
SEARCH = f'ldapbasedn="{ldap.SUFFIX}" ldapbinddn="{ldap.SEARCHER}" ldapbindpasswd=searcher-ldap'
WAYS = {
    "simple": f"ldapserver=127.0.0.1 ldapport=PORT {SIMPLE}",
    "second server": f'ldapserver="127.0.0.1:1 127.0.0.1:PORT" {SIMPLE}',
    "search": f"ldapserver=127.0.0.1 ldapport=PORT {SEARCH}",
    "filter": f"ldapserver=127.0.0.1 ldapport=PORT {SEARCH} ldapsearchfilter=(&(uid=$username)(!(title=leaver)))",
    "url": f'ldapurl="ldap://127.0.0.1:PORT/{ldap.SUFFIX}?uid?sub" ldapbinddn="{ldap.SEARCHER}" ldapbindpasswd=searcher-ldap',
    "starttls": f"ldapserver=localhost ldapport=PORT ldaptls=1 {SIMPLE}",
    "ldaps": f"ldapserver=localhost ldapport=TLS ldapscheme=ldaps {SEARCH}",
}


@pytest.mark.parametrize("way", WAYS)
def test_ldap(pg15, make_pooler, directory, monkeypatch, way):
    monkeypatch.setenv("LDAPTLS_CACERT", directory.authority)
    options = WAYS[way].replace("PORT", str(directory.port)).replace("TLS", str(directory.tls_port))
    pooler = with_ldap(make_pooler, pg15, options)
    assert login(pooler, user="alice", password="alice-ldap") == [3, 0]
    for user, password in (
        ("alice", "wrong"),
        ("alice", ""),
        ("alice", "bob-ldap"),
        ("nobody", "alice-ldap"),
        ("*", "alice-ldap"),
        ("alice*", "alice-ldap"),
        ("alice)(uid=*", "alice-ldap"),
        ("alice,ou=people", "alice-ldap"),
        ("alice\\2a", "alice-ldap"),
    ):
        ldap_refused(pooler, user, password)
    if way == "filter":
        ldap_refused(pooler, "bob", "bob-ldap")
        pooler.wait_log('LDAP user "bob" does not exist')
    else:
        assert login(pooler, user="bob", password="bob-ldap") == [3, 0]
    if way in ("search", "url", "ldaps"):
        ldap_refused(pooler, "twin", "twin-ldap")
        pooler.wait_log('user "twin" is not unique')
    pooler.wait_log(r"postgres/alice@127\.0\.0\.1:\d+ login failed: LDAP login failed for user .* on server .*: Invalid credentials")


@pytest.mark.parametrize("way", ("simple", "search", "filter"))
def test_ldap_is_asked_alike_about_users_that_do_not_exist(pg15, make_pooler, directory, way):
    """A refusal takes as many questions for a name that nobody has as for a wrong password, or its time would tell."""
    relay = ldap.Overhearing(directory)
    relay.start()
    pooler = with_ldap(make_pooler, pg15, WAYS[way].replace("PORT", str(relay.port)))
    for user in ("alice", "nobody", "bob", "twin", "*"):
        ldap_refused(pooler, user, "wrong")
    # The client may hear of the refusal before the directory is told goodbye.
    questions = [tuple(tag for tag in asked if tag != relay.UNBIND) for asked in relay.asked]
    assert len(questions) == 5 and questions[0].count(relay.BIND) == (1 if way == "simple" else 2), questions
    assert set(questions) == {questions[0]}
    relay.listener.close()


@pytest.mark.parametrize("way", ("starttls", "ldaps"))
def test_ldap_checks_certificates(pg15, make_pooler, directory, way):
    """A directory with a certificate of nobody we know hears no password."""
    options = WAYS[way].replace("PORT", str(directory.port)).replace("TLS", str(directory.tls_port))
    pooler = with_ldap(make_pooler, pg15, options)
    ldap_refused(pooler, "alice", "alice-ldap")
    pooler.wait_log("login failed: LDAP login failed for user alice: no LDAP server can be reached: localhost")


def test_ldap_by_a_rule_and_a_directory_that_hangs(pg15, make_pooler):
    """A directory that takes connections and says nothing keeps nobody else from logging in."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        rules = f"host all alice all ldap ldapserver=127.0.0.1 ldapport={port} {SIMPLE}\nhost all all all trust\n"
        pooler = with_rules(make_pooler, pg15, rules, settings={"client_login_timeout": 2})
        outcome = []
        thread = threading.Thread(target=lambda: outcome.append(refused(pooler, user="alice", password="alice-ldap")))
        thread.start()
        taken = silent.accept()[0]
        taken.recv(1000)
        assert login(pooler, user="bob") == [0]
        thread.join(10)
        taken.close()
        assert "client_login_timeout" in str(outcome[0])
