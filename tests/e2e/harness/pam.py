"""A service of PAM whose module takes the password NAME-pw. Only root can make one."""

from __future__ import annotations

import contextlib
import fcntl
import os
import pathlib
import shutil
import tempfile
from collections.abc import Iterator

import pytest

SERVICES = pathlib.Path("/etc/pam.d")

# The first line of a service of the tests.
MARK = "# of pgweir's tests\n"

# The user `slow` waits for three seconds; a question about `hang` is not answered.
CHECK = """\
#!/bin/sh
password=$(tr -d '\\000')
[ "$PAM_USER" != slow ] || sleep 3
echo "$PAM_USER from $PAM_RHOST" >>"{log}"
[ "$PAM_USER" != hang ] || exec sleep 20
[ "$password" = "$PAM_USER-pw" ]
"""


@contextlib.contextmanager
def service(name: str) -> Iterator[pathlib.Path]:
    """A service of this name in /etc/pam.d; the log of what its module was asked."""
    # Not a folder of pytest's, into which only root may look: the modules run as the pooler's user.
    folder = pathlib.Path(tempfile.mkdtemp(prefix="pam-"))
    folder.chmod(0o755)
    log, check = folder / "log", folder / "check"
    log.touch()
    log.chmod(0o666)
    check.write_text(CHECK.format(log=log))
    check.chmod(0o755)
    file = SERVICES / name
    file.write_text(f"{MARK}auth required pam_exec.so expose_authtok quiet {check}\naccount required pam_permit.so\n")
    try:
        yield log
    finally:
        file.unlink()
        shutil.rmtree(folder)


@contextlib.contextmanager
def pgbouncers_service() -> Iterator[pathlib.Path]:
    """The service `pgbouncer`: PgBouncer asks no other. One run of the tests at a time has it."""
    folder = os.open(SERVICES, os.O_RDONLY)
    try:
        fcntl.flock(folder, fcntl.LOCK_EX)
        file = SERVICES / "pgbouncer"
        # What a run that was killed has left is not the machine's own.
        if file.exists() and not file.read_text().startswith(MARK):
            pytest.skip("this machine has a service of this name")
        with service("pgbouncer") as log:
            yield log
    finally:
        os.close(folder)
