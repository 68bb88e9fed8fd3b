"""Results as text: a line per scenario and target while it runs, and a JSON file at the end."""

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from platform import machine, python_version
from typing import Any

import orjson
import psutil

from benchmarks.clients import Measurement
from benchmarks.runner import Results, Row

HEAD = (
    f"{'scenario':<48} {'cl':>3} {'target':<11} {'median':>9} {'p99':>9} {'per s':>8}"
    f" {'answer':>9} {'srv cpu':>8} {'cli cpu':>8}  errors"
)
UNITS = (
    f"{'':<48} {'':>3} {'':<11} {'ms':>9} {'ms':>9} {'':>8} {'KiB':>9} {'ms/op':>8} {'ms/op':>8}"
)


class Table:
    """Prints rows as they come, with a heading per cloud and the ratio where two targets ran."""

    def __init__(self, write: Callable[[str], None]) -> None:
        self._write = write
        self._cloud = ""

    def row(self, row: Row) -> None:
        """Print one row."""
        if row.cloud != self._cloud:
            self._cloud = row.cloud
            self._write(f"\n{row.cloud}: {row.hosts:,} hosts, {row.ledger:,} allocation rows\n")
            self._write(f"{HEAD}\n{UNITS}\n")
        name = row.scenario
        for target, found in row.by_target.items():
            self._write(f"{name[:48]:<48} {row.clients:>3} {target[:11]:<11} {_figures(found)}\n")
            name = ""
        if len(row.by_target) == 2:
            first, second = row.by_target.values()
            self._write(f"{'':<48} {'':>3} {'second/first':<11} {_ratios(first, second)}\n")

    def note(self, text: str) -> None:
        """Print a line that is not a row."""
        self._write(f"  {text}\n")


def _figures(found: Measurement) -> str:
    server = "-" if found.server_cpu_ms is None else f"{found.server_cpu_ms:.2f}"
    errors = ""
    if found.failures:
        errors = " ".join(f"{status}:{count}" for status, count in found.statuses.items())
    return (
        f"{found.median_ms:>9.2f} {found.p99_ms:>9.2f} {found.per_second:>8.1f}"
        f" {found.answer_bytes / 1024:>9.1f} {server:>8} {found.client_cpu_ms:>8.2f}  {errors}"
    )


def _ratios(first: Measurement, second: Measurement) -> str:
    pairs = (
        (second.median_ms, first.median_ms),
        (second.p99_ms, first.p99_ms),
        (second.per_second, first.per_second),
    )
    ratios = [f"x{over / under:.2f}" if under else "-" for over, under in pairs]
    return f"{ratios[0]:>8} {ratios[1]:>9} {ratios[2]:>8}"


def conditions() -> dict[str, Any]:
    """Return what a reader of the figures has to know about the machine."""
    return {
        "when": datetime.now(UTC).isoformat(timespec="seconds"),
        "python": python_version(),
        "machine": machine(),
        "cores": psutil.cpu_count(),
        "memory_gib": round(psutil.virtual_memory().total / 2**30, 1),
        "load_average": [round(one, 2) for one in psutil.getloadavg()],
    }


def write_json(path: Path, results: Results, arguments: list[str], began: dict[str, Any]) -> None:
    """Write everything that was measured, and how."""
    whole = {
        "arguments": arguments,
        "began": began,
        "ended": conditions(),
        **results.as_dict(),
    }
    path.write_bytes(orjson.dumps(whole, option=orjson.OPT_INDENT_2 | orjson.OPT_SERIALIZE_NUMPY))
