"""Programs in namespaces of their own: a network, a tree of files, or a tree of processes that nobody else sees."""

from __future__ import annotations

import subprocess

import pgthrow
import pytest


def alone(*kinds: str) -> tuple[str, ...]:
    """The command that runs another one there, as the server's user; `kinds` are options of unshare(1). Skips the test where
    the system does not let this user make them."""
    command = ("unshare", "--map-current-user", "--keep-caps", *kinds)
    tried = subprocess.run(pgthrow.as_server_user([*command, "true"]), check=False, capture_output=True, text=True)
    if tried.returncode != 0:
        pytest.skip(f"no namespaces of one's own: {tried.stderr.strip()}")
    return command
