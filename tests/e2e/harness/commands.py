"""pgweir's commands, run to their end."""

import os
import subprocess

from harness.pooler import program


def run(*arguments, check=True, **environment):
    """`pgweir ARGUMENTS` without standard input. It must not panic, and must succeed if `check` says so."""
    result = subprocess.run(
        [*program(), *arguments],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env={**os.environ, **environment},
    )
    if check:
        assert result.returncode == 0, result.stderr
    assert "panicked" not in result.stderr
    return result
