"""Runs a program under a seccomp filter for io_uring_setup().

usage: under_seccomp.py refuse|kill PROGRAM [ARGUMENT...]
"""

import ctypes
import os
import struct
import sys

IO_URING_SETUP = 425
# PR_SET_NO_NEW_PRIVS, PR_SET_SECCOMP, SECCOMP_MODE_FILTER
NO_NEW_PRIVILEGES, SET_SECCOMP, MODE_FILTER = 38, 22, 2
# SECCOMP_RET_ERRNO with EPERM, SECCOMP_RET_KILL_PROCESS, SECCOMP_RET_ALLOW
ANSWERS = {"refuse": 0x00050001, "kill": 0x80000000}
ALLOW = 0x7FFF0000


def main() -> None:
    answer, program = ANSWERS[sys.argv[1]], sys.argv[2:]
    # Load the number of the system call. If it is the one, return the answer, otherwise allow it.
    steps = [(0x20, 0, 0, 0), (0x15, 0, 1, IO_URING_SETUP), (0x06, 0, 0, answer), (0x06, 0, 0, ALLOW)]
    code = ctypes.create_string_buffer(b"".join(struct.pack("=HBBI", *step) for step in steps))
    filter_program = ctypes.create_string_buffer(struct.pack("@HP", len(steps), ctypes.addressof(code)))
    libc = ctypes.CDLL(None, use_errno=True)
    for call in [(NO_NEW_PRIVILEGES, 1, 0, 0, 0), (SET_SECCOMP, MODE_FILTER, filter_program, 0, 0)]:
        if libc.prctl(*call) != 0:
            sys.exit(f"prctl: {os.strerror(ctypes.get_errno())}")
    os.execvp(program[0], program)


main()
