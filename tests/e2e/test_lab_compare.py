"""`pgweir lab compare`: two results side by side, and what it says when they are none."""

from __future__ import annotations

import copy
import json
import subprocess

import pytest
from harness.browser import Browser
from harness.browser import program as browser_program
from harness.pooler import kind, program
from harness.reports import check_report

pytestmark = pytest.mark.skipif(kind() != "pgweir", reason="the lab is pgweir's")


def case(name: str, tps: list[float], failure: str | None = None) -> dict:
    return {
        "name": name,
        "path": "direct",
        "clients": 8,
        "pool_size": None,
        "command": "pgbench -c 8",
        "metrics": {"tps": tps, "latency_p95_ms": [8000 / value for value in tps]},
        "failure": failure,
    }


RESULT = {
    "schema": 1,
    "command": "connections",
    "arguments": ["lab", "connections", "--throwaway"],
    "program": "pgweir 0.1.0",
    "started": "2026-11-21T14:05:00+00:00",
    "seconds": 60.0,
    "machine": {"cpus": 2, "cpu_model": "some", "memory_bytes": 8 << 30, "system": "Linux"},
    "server": {
        "version": "15.18",
        "place": "socket",
        "throwaway": True,
        "local": True,
        "settings": {"shared_buffers": "128MB", "jit": "on"},
    },
    "pgbench": "pgbench (PostgreSQL) 15.18",
    "workload": "tpcb-like, simple protocol, scale 10",
    "rounds": 3,
    "seconds_per_run": 10,
    "cases": [
        case("direct, 8 clients", [990, 1000, 1010]),
        case("direct, 64 clients", [495, 500, 505]),
        case("direct, 100 clients", [100, 100, 100]),
    ],
    "conclusions": [],
    "paste": [],
    "left_out": [],
    "details": {},
}


def changed(**changes) -> dict:
    return {**copy.deepcopy(RESULT), **changes}


@pytest.fixture
def compare(tmp_path):
    """Writes two results, texts as they are, and compares them."""

    def compare(first: dict | str, second: dict | str, *arguments) -> subprocess.CompletedProcess:
        for name, content in (("a", first), ("b", second)):
            (tmp_path / name).mkdir(exist_ok=True)
            text = content if isinstance(content, str) else json.dumps(content)
            (tmp_path / name / "result.json").write_text(text)
        # One as a folder, the other as a file.
        command = [*program(), "lab", "compare", "a", "b/result.json", *arguments]
        return subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=20, check=False)

    return compare


def test_what_differs_and_what_is_noise(compare, tmp_path):
    second = changed(
        cases=[
            case("direct, 8 clients", [1485, 1500, 1515]),
            case("direct, 64 clients", [490, 500, 510]),
            case("direct, 128 clients", [100, 100, 100]),
        ]
    )
    second["server"]["settings"]["shared_buffers"] = "4GB"
    done = compare(RESULT, second, "--output", "page")
    assert done.returncode == 0, done.stderr
    lines = [" ".join(line.split()) for line in done.stdout.splitlines()]
    assert "shared_buffers 128MB 4GB" in lines
    # Geometric means, the rounds from the least to the greatest, and the ratio with its interval.
    row = "direct, 8 clients 1,000 990 to 1,010 1,500 1,485 to 1,515 1.50, between 1.47 and 1.53"
    assert row in lines, lines
    alike = "direct, 64 clients 500 495 to 505 500 490 to 510 1.00, between 0.96 and 1.04: no difference beyond the noise"
    assert alike in lines, lines
    # The verdict comes first, and what is not alike before the figures.
    assert lines.index("shared_buffers 128MB 4GB") < lines.index("transactions per second")
    text = " ".join(done.stdout.split())
    assert text.startswith("Transactions per second: B has more in 1 case, which is better (1.50 times A's, between")
    assert "A and B were not measured alike; what differs: shared_buffers." in text
    assert "no difference beyond the noise in 1 case." in text
    page = (tmp_path / "page" / "report.html").read_text()
    if browser_program():
        with Browser() as browser:
            check_report(browser, tmp_path / "page" / "report.html", figures_min=2)
    assert "<svg" in page and "direct, 100 clients: not in B" in page and "direct, 128 clients: not in A" in page


def test_too_few_rounds_are_told(compare):
    first = changed(cases=[case("one", [17_900, 19_000]), case("two", [100])])
    second = changed(cases=[case("one", [34_600, 44_100]), case("two", [50])])
    text = " ".join(compare(first, second).stdout.split())
    assert "Transactions per second: too few rounds to tell in 2 cases." in text
    assert "two 100 one round 50 one round 0.50: too few rounds to tell" in text, text


def test_a_reader_who_leaves_early(compare, tmp_path):
    """A pipe that is closed is no error: `pgweir lab compare A B | head -1`."""
    compare(RESULT, RESULT)
    for arguments in (["lab", "compare", "a", "b"], ["check", "a/result.json"], ["man", "5"], ["settings"]):
        shell = subprocess.run(
            ["bash", "-c", '"$@" 2>errors | true; echo "${PIPESTATUS[0]}"', "-", *program(), *arguments],
            cwd=tmp_path, capture_output=True, text=True, timeout=20, check=False,
        )
        assert "panicked" not in (tmp_path / "errors").read_text(), shell
        assert shell.stdout.strip() == ("1" if arguments[0] == "check" else "0"), shell


def test_a_folder_that_exists_is_left_alone(compare):
    done = compare(RESULT, RESULT, "--output", "a")
    assert done.returncode == 1
    assert done.stderr.startswith("pgweir: could not make the folder a for the report: File exists")
    assert done.stdout == ""


@pytest.mark.parametrize(
    ("second", "words"),
    [
        (changed(command="idle"), 'the first is a result of "lab connections" and the second of "lab idle"'),
        (changed(schema=2), "b/result.json: the result has schema 2, and this pgweir knows schema 1"),
        (changed(cases=[]), "the two results have no figure in common"),
        ("{", "b/result.json: not a result of pgweir lab: EOF while parsing"),
        ('{"tps": 5}', 'b/result.json: not a result of pgweir lab: there is no number "schema" in it'),
        ('{"schema": 1}', "b/result.json: not a result of pgweir lab: missing field"),
    ],
    ids=["another-command", "another-schema", "nothing-in-common", "no-json", "other-json", "half-a-result"],
)
def test_what_cannot_be_compared(compare, second, words):
    done = compare(RESULT, second)
    assert done.returncode == 1 and done.stdout == ""
    assert words in done.stderr and "hint: " in done.stderr


def test_a_missing_file(tmp_path):
    done = subprocess.run(
        [*program(), "lab", "compare", tmp_path / "nothing", tmp_path], capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert done.stderr == f"pgweir: could not read {tmp_path}/nothing: No such file or directory (os error 2)\n"
