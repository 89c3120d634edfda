"""What every driver program of this folder does alike: where to connect, which checks make sense, the closing line.

The target is in libpq's variables (PGHOST, PGPORT, PGUSER, PGDATABASE); DRIVER_MODE is `direct`, or the pool mode of the
pooler in between. In statement mode there are no transactions, so a check that needs one is left out. DRIVER_SESSIONS is
`yes` where a client has a session of its own from one transaction to the next; else what needs one is left out, too.
"""

from __future__ import annotations

import os
import sys
import traceback

MODE = os.environ.get("DRIVER_MODE", "direct")
TRANSACTIONS = MODE != "statement"
SESSIONS = os.environ.get("DRIVER_SESSIONS", "yes" if MODE in ("direct", "session") else "no") == "yes"


class Report:
    """Runs checks by name, and says at the end how many passed: `name: N passed, N failed`."""

    def __init__(self, name: str):
        self.name = name
        self.passed = 0
        self.failed = 0

    def check(self, name: str, function) -> None:
        try:
            function()
        except Exception:  # noqa: BLE001 - a failed check is what the report is for
            self.failed += 1
            print(f"FAIL {name}\n{traceback.format_exc()}", flush=True)
        else:
            self.passed += 1
            print(f"ok {name}", flush=True)

    def finish(self) -> None:
        print(f"{self.name}: {self.passed} passed, {self.failed} failed", flush=True)
        sys.exit(1 if self.failed or not self.passed else 0)
