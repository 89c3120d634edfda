"""A RELOAD refuses a configuration one of whose files cannot be used, and everything stays as it was; likewise a start says
what does not fit."""

from __future__ import annotations

import os

import pytest

from harness import wire
from harness.pooler import kind

pytestmark = pytest.mark.skipif(kind() != "pgweir", reason="pgweir's own")


def included_is_missing(pooler) -> str:
    text = open(pooler.ini_path, encoding="utf-8").read()
    pooler.write_file(pooler.ini_path, text + "%include /no/such/file.ini\n")
    return "/no/such/file.ini"


def configuration_is_missing(pooler) -> str:
    os.remove(pooler.ini_path)
    return pooler.ini_path


def configuration_is_empty(pooler) -> str:
    pooler.write_file(pooler.ini_path, "")
    return "main section missing from config file"


def configuration_is_cut_off(pooler) -> str:
    """Nobody could log in, administrators included."""
    text = open(pooler.ini_path, encoding="utf-8").read()
    pooler.write_file(pooler.ini_path, text[: text.index("auth_file")])
    return "auth_file is not set, so that there is no user, but the running configuration has 4"


def configuration_is_unreadable(pooler) -> str:
    os.chmod(pooler.ini_path, 0)
    os.chown(pooler.ini_path, 0, 0)
    return pooler.ini_path


def with_setting(name: str, value: str, **more: str):
    def change(pooler) -> str:
        pooler.settings.update({name: value, **more})
        pooler.settings["default_pool_size"] = 3
        pooler.write_ini()
        return value

    change.__name__ = name
    return change


@pytest.mark.parametrize(
    "harm",
    [
        included_is_missing,
        configuration_is_missing,
        configuration_is_empty,
        configuration_is_cut_off,
        configuration_is_unreadable,
        with_setting("server_tls_ca_file", "/no/such/ca", server_tls_sslmode="verify-ca"),
        with_setting("server_tls_cert_file", "/no/such/cert", server_tls_key_file="/no/such/key", server_tls_sslmode="prefer"),
        with_setting("server_tls_ca_file", "/no/such/ca", server_tls_sslmode="prefer"),
        with_setting("client_tls_ca_file", "/no/such/ca", client_tls_sslmode="disable"),
        with_setting("auth_hba_file", "/no/such/hba"),
        with_setting("auth_ident_file", "/no/such/ident"),
    ],
    ids=lambda harm: harm.__name__,
)
def test_a_reload_is_refused(pg15, make_pooler, harm):
    settings = {"default_pool_size": 2}
    if harm.__name__.startswith(("auth_hba", "auth_ident")):
        settings["auth_type"] = "hba"
    pooler = make_pooler(pg15, start=False, settings=settings)
    if "auth_type" in settings:
        pooler.settings["auth_hba_file"] = os.path.join(pooler.dir, "hba")
        pooler.write_file(pooler.settings["auth_hba_file"], "host all all all trust\nlocal all all trust\n")
        pooler.write_ini()
    pooler.start()
    with pooler.connect() as c:
        c.query("begin; select 1")
        said = harm(pooler)
        with pytest.raises(wire.ServerError, match="RELOAD failed"):
            pooler.console("reload")
        pooler.wait_log(f"ERROR .*{said}")
        assert c.value("select 2") == "2"
    values = {row["key"]: row["value"] for row in pooler.console("show config")}
    assert values["default_pool_size"] == "2"
    with pooler.connect() as c:
        assert c.value("select 3") == "3"


def test_a_log_file_that_cannot_be_opened_is_a_warning(pg15, make_pooler):
    """The old file stays in use, and the RELOAD counts: it takes nothing from anybody."""
    pooler = make_pooler(pg15, settings={"default_pool_size": 2})
    assert with_setting("logfile", "/no/such/folder/log")(pooler)
    assert pooler.console("reload") == []
    pooler.wait_log("WARNING Cannot open logfile: '/no/such/folder/log'")
    values = {row["key"]: row["value"] for row in pooler.console("show config")}
    assert values["default_pool_size"] == "3"
    pooler.wait_log("closing because: client close request")


def test_too_few_files_for_its_clients_are_told_with_numbers(pg15, make_pooler):
    pooler = make_pooler(pg15, open_files_max=150, settings={"max_client_conn": 200})
    line = pooler.wait_log("WARNING max_client_conn and pool sizes allow")
    assert "allow 300 connections, but only 150 files may be open" in line, line


@pytest.mark.parametrize("user", ("nobody", "alice"))
def test_a_failed_login_is_logged_with_its_names_and_its_reason(pg15, make_pooler, user):
    pooler = make_pooler(pg15, settings={"auth_type": "scram-sha-256"})
    with pytest.raises(wire.ServerError):
        pooler.connect(user=user, database="shop", password="wrong")
    reason = "wrong password" if user == "alice" else "no such user"
    pooler.wait_log(rf"LOG C-\w+: shop/{user}@127\.0\.0\.1:\d+ login failed: {reason}")
