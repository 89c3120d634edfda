"""A service of PAM whose module takes the password NAME-pw. Only root can make one."""

from __future__ import annotations

import contextlib
import fcntl
import os
import pathlib
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator

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


# A module that asks, in one go, the questions whose styles its arguments are, logs the answers, and lets the user in. Styles:
# 1 is a question whose answer is not shown, 2 one whose answer is, 3 an error, 4 a text.
ASKING = """\
#include <stdio.h>
#include <stdlib.h>
struct message { int style; const char *text; };
struct response { char *text; int code; };
struct conversation { int (*ask)(int, const struct message **, struct response **, void *); void *data; };
int pam_get_item(const void *, int, const void **);
int pam_sm_authenticate(void *handle, int flags, int count, const char **arguments) {
    struct message messages[64];
    const struct message *asked[64];
    struct response *answers = NULL;
    const struct conversation *conversation;
    pam_get_item(handle, 5, (const void **)&conversation);
    for (int i = 1; i < count; i++) {
        messages[i - 1] = (struct message){atoi(arguments[i]), "Question: "};
        asked[i - 1] = &messages[i - 1];
    }
    int status = conversation->ask(count - 1, asked, &answers, conversation->data);
    FILE *log = fopen(arguments[0], "a");
    fprintf(log, "%d", status);
    for (int i = 1; answers && i < count; i++) fprintf(log, " %s", answers[i - 1].text ? answers[i - 1].text : "-");
    fprintf(log, "\\n");
    fclose(log);
    return status;
}
int pam_sm_setcred(void *handle, int flags, int count, const char **arguments) { return 0; }
"""


@contextlib.contextmanager
def module_of(name: str, make_module: Callable[[pathlib.Path, pathlib.Path], str]) -> Iterator[pathlib.Path]:
    """A service of this name in /etc/pam.d, whose module is made in a folder; the log that the module writes."""
    # Not a folder of pytest's, into which only root may look: the modules run as the pooler's user.
    folder = pathlib.Path(tempfile.mkdtemp(prefix="pam-"))
    folder.chmod(0o755)
    log = folder / "log"
    log.touch()
    log.chmod(0o666)
    module = make_module(folder, log)
    file = SERVICES / name
    file.write_text(f"{MARK}auth required {module}\naccount required pam_permit.so\n")
    try:
        yield log
    finally:
        file.unlink()
        shutil.rmtree(folder)


def asking_service(name: str, *styles: int) -> contextlib.AbstractContextManager[pathlib.Path]:
    """A service of this name whose module asks questions of these styles; the log of the answers."""
    if not shutil.which("cc"):
        pytest.skip("there is no C compiler")

    def make_module(folder: pathlib.Path, log: pathlib.Path) -> str:
        source, module = folder / "asking.c", folder / "asking.so"
        source.write_text(ASKING)
        subprocess.run(["cc", "-shared", "-fPIC", "-w", "-o", module, source], check=True)
        module.chmod(0o755)
        return f"{module} {log} {' '.join(map(str, styles))}"

    return module_of(name, make_module)


def service(name: str) -> contextlib.AbstractContextManager[pathlib.Path]:
    """A service of this name in /etc/pam.d; the log of what its module was asked."""

    def make_module(folder: pathlib.Path, log: pathlib.Path) -> str:
        check = folder / "check"
        check.write_text(CHECK.format(log=log))
        check.chmod(0o755)
        return f"pam_exec.so expose_authtok quiet {check}"

    return module_of(name, make_module)


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
