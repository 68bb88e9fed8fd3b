"""Plots of the results: latency against size and ledger, throughput against clients."""

from collections import defaultdict
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from benchmarks.runner import Row

FORMATS = ("svg", "png")
LINES = ("-", "--", ":", "-.")
Series = dict[tuple[str, str], list[tuple[float, float]]]


def draw(directory: Path, rows: list[Row]) -> list[Path]:
    """Draw what the rows allow; return the files. Nothing without matplotlib."""
    try:
        import matplotlib
    except ImportError:
        return []
    matplotlib.use("Agg")
    written: list[Path] = []
    by_size = [row for row in rows if row.clients == 1 and row.group != "load"]
    for group, chosen in _grouped(by_size, lambda row: row.group).items():
        for name, axis, points in (
            ("size", "hosts", _series(chosen, lambda row: row.hosts)),
            ("ledger", "allocation rows", _series(chosen, lambda row: row.ledger)),
        ):
            written += _latency(directory / f"{group}-by-{name}", group, axis, points)
    crowds = [row for row in rows if row.group in ("claims", "swaps", "deletes", "boots")]
    for cloud, chosen in _grouped(crowds, lambda row: row.cloud).items():
        points = _series(chosen, lambda row: row.clients, lambda found: found.per_second)
        written += _throughput(directory / f"throughput-{cloud}", cloud, points)
    return written


def _grouped(rows: Iterable[Row], key: Callable[[Row], str]) -> dict[str, list[Row]]:
    groups: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        groups[key(row)].append(row)
    return groups


def _series(
    rows: list[Row],
    x: Callable[[Row], float],
    y: Callable[[Any], float] = lambda found: found.median_ms,
) -> Series:
    """Return the points of each scenario on each target that has at least two of them."""
    found: dict[tuple[str, str], dict[float, float]] = defaultdict(dict)
    for row in rows:
        for target, measured in row.by_target.items():
            found[row.scenario, target][x(row)] = y(measured)
    return {name: sorted(points.items()) for name, points in found.items() if len(points) > 1}


def _latency(base: Path, group: str, axis: str, points: Series) -> list[Path]:
    return _plot(base, f"{group}: median latency", axis, "milliseconds", points, log=True)


def _throughput(base: Path, cloud: str, points: Series) -> list[Path]:
    title = f"{cloud}: throughput"
    return _plot(base, title, "clients", "operations per second", points, log=False)


def _plot(base: Path, title: str, x: str, y: str, points: Series, *, log: bool) -> list[Path]:
    if not points:
        return []
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(10, 6))
    # A colour for each scenario, a kind of line for each target.
    scenarios = list(dict.fromkeys(scenario for scenario, _ in points))
    targets = list(dict.fromkeys(target for _, target in points))
    colours = pyplot.get_cmap("tab20" if len(scenarios) > 10 else "tab10")
    for (scenario, target), series in points.items():
        axes.plot(
            *zip(*series, strict=True),
            marker="o",
            markersize=4,
            color=colours(scenarios.index(scenario)),
            linestyle=LINES[targets.index(target) % len(LINES)],
            label=f"{scenario} ({target})",
        )
    if log:
        axes.set_xscale("symlog" if any(series[0][0] == 0 for series in points.values()) else "log")
        axes.set_yscale("log")
    else:
        axes.set_ylim(bottom=0)
    axes.set(title=title, xlabel=x, ylabel=y)
    axes.grid(True, which="both", alpha=0.3)
    axes.legend(fontsize=7, loc="center left", bbox_to_anchor=(1.0, 0.5))
    written = [base.with_name(f"{base.name}.{kind}") for kind in FORMATS]
    for path in written:
        figure.savefig(path, bbox_inches="tight")
    pyplot.close(figure)
    return written
