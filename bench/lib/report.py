"""From runs to one table: medians, spread, and ratios round by round."""

from __future__ import annotations

import statistics
from dataclasses import asdict

from idle import IdleResult
from load import LoadResult
from rows import IdleRow, LoadRow

Round = int
# Every run that went well, by row name, target name and round.
LoadRuns = dict[tuple[str, str, Round], LoadResult]
IdleRuns = dict[tuple[str, str, Round], IdleResult]


class Results:
    """What was measured, and which runs failed."""

    def __init__(self) -> None:
        self.load: LoadRuns = {}
        self.idle: IdleRuns = {}
        self.failures: list[tuple[str, str, Round, str]] = []
        # Not failed, and not counted either.
        self.skipped: list[tuple[str, str, Round, str]] = []

    def failed(self, row: str, target: str) -> str | None:
        for failed_row, failed_target, _round, why in self.failures:
            if (failed_row, failed_target) == (row, target):
                return why
        return None

    def values(self, row: str, target: str, field: str) -> dict[Round, float]:
        """That field of every round that has it."""
        runs = {**self.load, **self.idle}
        found = {}
        for (run_row, run_target, number), result in runs.items():
            if (run_row, run_target) == (row, target):
                value = getattr(result, field)
                if value is not None:
                    found[number] = value
        return found

    def median(self, row: str, target: str, field: str) -> float | None:
        values = self.values(row, target, field)
        return statistics.median(values.values()) if values else None

    def spread(self, row: str, target: str, field: str) -> float | None:
        """Largest distance of a round from the median, as a share of the median."""
        values = self.values(row, target, field).values()
        middle = statistics.median(values) if values else 0
        return max(abs(value - middle) for value in values) / middle if middle else None

    def ratio(self, row: str, target: str, other: str, field: str) -> float | None:
        """Median over rounds of target / other: both ran within the same minute, so a drift of the machine cancels."""
        ours, theirs = self.values(row, target, field), self.values(row, other, field)
        ratios = [ours[number] / theirs[number] for number in ours if theirs.get(number)]
        return statistics.median(ratios) if ratios else None

    def as_json(self) -> dict:
        return {
            "load": [dict(row=r, target=t, round=n, **asdict(result)) for (r, t, n), result in self.load.items()],
            "idle": [dict(row=r, target=t, round=n, **asdict(result)) for (r, t, n), result in self.idle.items()],
            "failures": [dict(row=r, target=t, round=n, why=why) for r, t, n, why in self.failures],
            "skipped": [dict(row=r, target=t, round=n, why=why) for r, t, n, why in self.skipped],
        }


def load_table(results: Results, rows: list[LoadRow], targets: list[str]) -> list[list[str]]:
    table = [
        ["row", "through", "TPS", "±", "p50 ms", "p99 ms", "CPU µs/txn", "±", "user", "sys"]
        + ["CPU/PgBouncer", "CPU/relay", "TPS/PgBouncer", "TPS/direct"]
    ]
    for row in rows:
        for target in targets:
            why = results.failed(row.name, target)
            if why is not None:
                table.append([row.name, target, f"FAILED: {why}"[:100]])
                continue
            if results.median(row.name, target, "tps") is None:
                continue

            def median(field: str, row: str = row.name, target: str = target) -> float | None:
                return results.median(row, target, field)

            def ratio(other: str, field: str, row: str = row.name, target: str = target) -> str:
                if other == target or results.failed(row, other) is not None:
                    return ""
                return _number(results.ratio(row, target, other, field), 2)

            table.append(
                [
                    row.name,
                    target,
                    _number(median("tps"), 0),
                    _percent(results.spread(row.name, target, "tps")),
                    _number(_scaled(median("p50_us"), 1e-3), 2),
                    _number(_scaled(median("p99_us"), 1e-3), 2),
                    _number(median("cpu_us"), 1),
                    _percent(results.spread(row.name, target, "cpu_us")),
                    _number(median("cpu_user_us"), 1),
                    _number(median("cpu_system_us"), 1),
                    ratio("pgbouncer", "cpu_us"),
                    ratio("relay", "cpu_us"),
                    ratio("pgbouncer", "tps"),
                    ratio("direct", "tps"),
                ]
            )
    return table


def idle_table(results: Results, row: IdleRow, targets: list[str]) -> list[list[str]]:
    table = [
        ["row", "through", "clients", "bytes/client", "±", "PSS bytes/client", "base MB"]
        + ["CPU µs/login", "idle CPU ms/s", "bytes/PgBouncer"]
    ]
    for target in targets:
        why = results.failed(row.name, target)
        if why is not None:
            table.append([row.name, target, f"FAILED: {why}"[:100]])
            continue
        if results.median(row.name, target, "rss_bytes_per_client") is None:
            continue
        table.append(
            [
                row.name,
                target,
                f"{row.clients:,}",
                _number(results.median(row.name, target, "rss_bytes_per_client"), 0),
                _percent(results.spread(row.name, target, "rss_bytes_per_client")),
                _number(results.median(row.name, target, "pss_bytes_per_client"), 0),
                _number(_scaled(results.median(row.name, target, "base_rss"), 1e-6), 1),
                _number(results.median(row.name, target, "login_cpu_us"), 0),
                _number(results.median(row.name, target, "idle_cpu_ms_per_second"), 2),
                _number(results.ratio(row.name, target, "pgbouncer", "rss_bytes_per_client"), 2)
                if target != "pgbouncer"
                else "",
            ]
        )
    return table


def as_markdown(table: list[list[str]], words: int = 2) -> str:
    """A table that is aligned as plain text, too. The first columns are words, the others numbers."""
    columns = len(table[0])
    full = [line for line in table if len(line) == columns]
    widths = [max(len(line[i]) for line in full) for i in range(columns)]
    lines = []
    for number, line in enumerate(table):
        cells = [cell.ljust(widths[i]) if i < words else cell.rjust(widths[i]) for i, cell in enumerate(line)]
        lines.append("| " + " | ".join(cells) + " |" + " |" * (columns - len(line)))
        if number == 0:
            rules = ["-" * (width + 2) if i < words else "-" * (width + 1) + ":" for i, width in enumerate(widths)]
            lines.append("|" + "|".join(rules) + "|")
    return "\n".join(lines)


def _number(value: float | None, digits: int) -> str:
    return "" if value is None else f"{value:,.{digits}f}"


def _percent(share: float | None) -> str:
    return "" if share is None else f"{share * 100:.0f}%"


def _scaled(value: float | None, factor: float) -> float | None:
    return None if value is None else value * factor
