"""The table, what it means, and how to connect."""

from __future__ import annotations

import os
import re
import shutil
import textwrap
from typing import TextIO

import machine
import targets
from measure import DIRECT, POOLED, ROWS, DemoRow, Figures

# By row's name and path: figures, or why there are none.
Results = dict[tuple[str, str], Figures | str]

WIDTH_MAX = 88
# Nearer to 1 than this, runs of a few seconds do not differ.
SAME = 0.05

COLUMNS = ("TPS", "average", "99 %", "server processes")


class Style:
    """Colour where a person sees it, unless NO_COLOR is set (https://no-color.org)."""

    def __init__(self, out: TextIO) -> None:
        self.colour = out.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"

    def bold(self, text: str) -> str:
        return self._paint("1", text)

    def faint(self, text: str) -> str:
        return self._paint("2", text)

    def good(self, text: str) -> str:
        return self._paint("32", text)

    def bad(self, text: str) -> str:
        return self._paint("31", text)

    def command(self, text: str) -> str:
        return self._paint("36", text)

    def _paint(self, code: str, text: str) -> str:
        return f"\x1b[{code}m{text}\x1b[0m" if self.colour else text


def say(text: str = "") -> None:
    print(text, flush=True)


def print_table(results: Results, style: Style) -> None:
    tps, average, p99, processes = COLUMNS
    say(style.bold(f"{'':18}{tps:>10}{average:>12}{p99:>12}   {processes}"))
    for row in ROWS:
        say(style.bold(_capital(row.load.says)))
        direct = results[row.name, DIRECT]
        for path in (DIRECT, POOLED):
            figures = results[row.name, path]
            if isinstance(figures, str):
                say(f"  {path:16}{style.bad('FAILED'.rjust(10))}")
                _wrapped(figures, "    ", "    ")
                continue
            text = f"  {path:16}{figures.tps:>10,.0f}{_ms(figures.average_ms):>12}{_ms(figures.p99_ms):>12}"
            text += f"   {_processes(figures):16}"
            if path == POOLED and isinstance(direct, Figures):
                ratio = figures.tps / direct.tps
                paint = style.good if ratio > 1 + SAME else style.bad if ratio < 1 - SAME else style.faint
                text += "  " + paint(f"{ratio:.2f} x TPS" if ratio < 10 else f"{ratio:.0f} x TPS")
            say(text.rstrip())
    say(style.faint("average, 99 %: what a client waits for its next result, and what 99 of 100 wait at most"))
    say()


def print_meanings(results: Results, style: Style, rough: bool) -> None:
    say(style.bold("What this means"))
    for row in ROWS:
        direct, pooled = results[row.name, DIRECT], results[row.name, POOLED]
        if isinstance(direct, str) or isinstance(pooled, str):
            failed = " and ".join(path for path, it in ((DIRECT, direct), (POOLED, pooled)) if isinstance(it, str))
            text = f"no comparison, because the run {failed} failed."
        else:
            text = MEANINGS[row.name](row, direct, pooled)
        _wrapped(f"{_capital(row.short)}: {text}", "  ", "    ")
    shared = (
        f"pgbench, PostgreSQL and pgweir share the {machine.cpus()} CPUs of this machine, and each query is a moment's"
    )
    shared += (
        " work in memory, so this shows mostly the way to the server. The longer queries take, the less the way counts."
    )
    _wrapped(shared + (" Runs were short, so take the figures as rough." if rough else ""), "  ", "  ")
    say()


def print_laboratory(found: tuple[list[str], str] | str, style: Style, rough: bool) -> None:
    say()
    say(style.bold("How many connections this server is fastest with (pgweir lab connections)"))
    if isinstance(found, str):
        say(f"  {style.bad('FAILED')}")
        _wrapped(found, "    ", "    ")
        say()
        return
    conclusions, path = found
    for conclusion in conclusions:
        _wrapped(conclusion.replace("`", ""), "  ", "    ")
    runs = "one short run each" if rough else "two short runs each"
    say(style.faint(f"  From {runs}, to show what it does; its defaults measure properly."))
    say(f"  report   {style.command(path)}")
    say()


def print_how_to_connect(bench: targets.Bench, style: Style) -> None:
    def psql(port: int, database: str) -> str:
        return f'psql "host={targets.HOST} port={port} user={targets.USER} dbname={database}"'

    say(style.bold("How to connect"))
    say(f"  pooled   {style.command(psql(bench.pooler_port, targets.DATABASE))}")
    console = psql(bench.pooler_port, "pgbouncer") + ' -c "SHOW POOLS"'
    say(f"  console  {style.command(console)}")
    say(f"  direct   {style.command(psql(bench.server_port, targets.DATABASE))}")
    say()


def _short(_row: DemoRow, direct: Figures, pooled: Figures) -> str:
    ratio = pooled.tps / direct.tps
    if ratio > 1 + SAME:
        return (
            f"{_compared(ratio)} through pgweir. PostgreSQL starts a process for each login; pgweir has servers"
            f" connected already, so that a login and its query take {_ms(pooled.average_ms)}"
            f" instead of {_ms(direct.average_ms)}."
        )
    return (
        f"{_compared(ratio)} through pgweir: on this machine a login to pgweir is not cheaper than a new process of"
        f" PostgreSQL ({_ms(pooled.average_ms)} against {_ms(direct.average_ms)})."
    )


def _moderate(row: DemoRow, direct: Figures, pooled: Figures) -> str:
    ratio = pooled.tps / direct.tps
    servers = f"{row.clients} server processes are {pooled.processes or targets.POOL_SIZE} now"
    if ratio < 1 - SAME:
        return (
            f"{_compared(ratio)} through pgweir, which is one more stop on the way: {_ms(pooled.average_ms)} instead of"
            f" {_ms(direct.average_ms)} on average. So few clients PostgreSQL serves well alone. {servers}."
        )
    if ratio > 1 + SAME:
        return f"{_compared(ratio)} through pgweir: {servers}, and get in each other's way less."
    return f"{_compared(ratio)} through pgweir: the way is longer by one stop, and {servers}."


def _many(row: DemoRow, direct: Figures, pooled: Figures) -> str:
    ratio = pooled.tps / direct.tps
    text = f"{_compared(ratio)} through pgweir. "
    if direct.processes and pooled.processes:
        text += f"Direct takes {direct.processes:,} server processes"
        text += f" with {_bytes(direct.processes_bytes)} of their own" if direct.processes_bytes else ""
        text += f"; through pgweir {pooled.processes:,}"
        text += f" with {_bytes(pooled.processes_bytes)}" if pooled.processes_bytes else ""
        text += f", and pgweir itself uses {_bytes(pooled.pooler_bytes)}. " if pooled.pooler_bytes else ". "
    if direct.connected_ms and pooled.connected_ms:
        text += (
            f"All {row.clients:,} were connected after {_seconds(pooled.connected_ms)}"
            f" instead of {_seconds(direct.connected_ms)}."
        )
    return text.rstrip()


MEANINGS = {"short": _short, "64": _moderate, "1000": _many}


def _compared(ratio: float) -> str:
    if ratio >= 1.95:
        return f"{ratio:.1f} times as many queries per second"
    if ratio > 1 + SAME:
        return f"{(ratio - 1) * 100:.0f} % more queries per second"
    if ratio >= 1 - SAME:
        return "as many queries per second"
    return f"{(1 - ratio) * 100:.0f} % fewer queries per second"


def _processes(figures: Figures) -> str:
    if figures.processes is None:
        return "-"
    own = f" ({_bytes(figures.processes_bytes)})" if figures.processes_bytes else ""
    return f"{figures.processes:,}{own}"


def _ms(ms: float | None) -> str:
    if ms is None:
        return "-"
    return f"{ms:.2f} ms" if ms < 10 else f"{ms:.1f} ms" if ms < 100 else f"{ms:,.0f} ms"


def _seconds(ms: float) -> str:
    return f"{ms / 1000:.1f} s" if ms >= 1000 else f"{ms / 1000:.2f} s"


def _bytes(count: int) -> str:
    mega = count / 2**20
    return f"{mega / 1024:.1f} GB" if mega >= 1000 else f"{mega:.0f} MB" if mega >= 1 else "under 1 MB"


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def _wrapped(text: str, first: str, rest: str) -> None:
    width = min(WIDTH_MAX, shutil.get_terminal_size((80, 24)).columns)
    # A number stays with its unit.
    text = re.sub(r"(\d) (ms|s|MB|GB|%)(?!\w)", "\\1\u00a0\\2", text)
    lines = textwrap.fill(text, width, initial_indent=first, subsequent_indent=rest, break_long_words=False)
    say(lines.replace("\u00a0", " "))
