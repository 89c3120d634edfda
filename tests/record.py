#!/usr/bin/env python3
"""Records conversations with PostgreSQL 15 and 18, and compares the simulation's model of PostgreSQL with them.

    tests/record.py record     runs the scripts in tests/transcripts and writes pg15 and pg18 there anew
    tests/record.py compare    runs random scripts on the model and on the real servers; any difference fails

docs/recordings.md says what each recording shows.
"""

import os
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib"))
from pgthrow import Cluster  # noqa: E402

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
TRANSCRIPTS = os.path.join(ROOT, "tests", "transcripts")
# The recordings show time zones, encodings and defaults; these are the same on every machine.
PORTS = {15: 24331, 18: 24332}


def record() -> int:
    for version, port in PORTS.items():
        with Cluster(version=version, port=port):
            command = ["cargo", "run", "-q", "-p", "pgweir-sim", "--bin", "record", "--", "--port", str(port)]
            command += ["--scripts", TRANSCRIPTS, "--out", os.path.join(TRANSCRIPTS, f"pg{version}")]
            if subprocess.run(command, cwd=ROOT, check=False).returncode != 0:
                return 1
    return 0


def compare() -> int:
    with Cluster(version=15, port=PORTS[15]), Cluster(version=18, port=PORTS[18]):
        environment = {
            **os.environ,
            "PGWEIR_TEST_PG_PORT": str(PORTS[15]),
            "PGWEIR_TEST_PG18_PORT": str(PORTS[18]),
        }
        command = ["cargo", "test", "-q", "-p", "pgweir-sim", "--test", "model_and_postgresql"]
        return subprocess.run(command, cwd=ROOT, env=environment, check=False).returncode


if __name__ == "__main__":
    actions = {"record": record, "compare": compare}
    if len(sys.argv) != 2 or sys.argv[1] not in actions:
        sys.exit(__doc__)
    sys.exit(actions[sys.argv[1]]())
