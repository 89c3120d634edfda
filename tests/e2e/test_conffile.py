"""The setting `conffile` names the file that the next RELOAD reads, as in PgBouncer."""

from __future__ import annotations

import os

import pytest


def other_file(pooler, name: str, **settings: object) -> str:
    """A copy of the configuration in another file, with other settings."""
    own, path = pooler.ini_path, os.path.join(pooler.dir, name)
    kept = dict(pooler.settings)
    pooler.settings.update(settings)
    pooler.ini_path = path
    pooler.write_ini()
    pooler.ini_path, pooler.settings = own, kept
    return path


def values(pooler) -> tuple[str, str]:
    rows = {row["key"]: row["value"] for row in pooler.console("show config")}
    return os.path.basename(rows["conffile"]), rows["default_pool_size"]


@pytest.mark.parametrize("which", ["pgbouncer", "pgweir"])
def test_conffile_names_the_file_of_the_next_reload(pg15, make_pooler, which):
    pooler = make_pooler(pg15, which=which, settings={"default_pool_size": 1})
    second = other_file(pooler, "second.ini", default_pool_size=2)
    pooler.settings["conffile"] = second
    pooler.write_ini()
    pooler.console("reload")
    assert values(pooler) == ("second.ini", "1"), "the first file was read, which names the second one"
    pooler.console("reload")
    assert values(pooler) == ("second.ini", "2"), "the second one names no file, so that it stays the one to read"
    third = other_file(pooler, "third.ini", default_pool_size=3, conffile=second)
    pooler.console(f"set conffile = '{third}'")
    assert values(pooler) == ("third.ini", "2")
    pooler.console("reload")
    assert values(pooler) == ("second.ini", "3")
    with pooler.connect() as c:
        assert c.value("select 1") == "1"
