"""How many moves until large servers fit again: plans beside two ways without them.

    python -m benchmarks.making_room --deadline 30 --picture docs/images/making-room

A simulated day: servers of 0, 1, 2, 4 and 8 GPUs come and go at random, each on a host drawn from those
that have room, as the service draws; some four fifths of the GPUs are in use. Every few hours each way
makes room for so many servers of 8 GPUs, on a copy. *Fewest*: the host with the fewest servers is drained,
then the next, to hosts drawn at random. *What-if*: of all hosts the one that is drained with the fewest
moves and without anybody homeless, as ``POST /-/what-if`` tells, then the next. *Plan*: one plan. The core
is called in this process: no service, no database.
"""

import argparse
import os
import statistics
import sys
import time
from collections import defaultdict
from dataclasses import dataclass, field
from heapq import heappop, heappush
from pathlib import Path
from random import Random

import numpy as np

from benchmarks.clouds import uuid_of
from placement.extensions.plans.planning.plan import make_plan
from placement.extensions.plans.planning.values import Costs, Fit, Limits, Occupant, Plan
from placement.inventory_record import InventoryRecord
from placement.placing.members import Members
from placement.search.cloud import Cloud
from placement.search.records import ProviderRecord, UsedInventory
from placement.search.request import CandidateRequest, Group
from placement.search.work import Work

CLASSES = ("VCPU", "MEMORY_MB", "VGPU")
HOST = np.array([96, 1024 * 1024, 8])
FLAVORS = np.array(
    [(4, 16, 0), (8, 32, 0), (8, 64, 1), (16, 128, 2), (32, 256, 4), (64, 512, 8)]
) * (1, 1024, 1)
WEIGHTS = (40, 15, 20, 15, 7, 3)
LARGE = FLAVORS[-1]
WAYS = ("fewest", "what-if", "plan")
LIFE_H = 8.0


@dataclass
class Room:
    """Hosts with what is free of them, and servers: host and flavor by number."""

    free: np.ndarray
    servers: dict[int, tuple[int, int]] = field(default_factory=dict)

    def copy(self) -> "Room":
        """Return one that changes by itself."""
        return Room(self.free.copy(), dict(self.servers))

    def fitting(self, flavor: int) -> np.ndarray:
        """Return the hosts that have room."""
        return np.flatnonzero((self.free >= FLAVORS[flavor]).all(axis=1))

    def add(self, server: int, flavor: int, host: int) -> None:
        """Place a server."""
        self.servers[server] = host, flavor
        self.free[host] -= FLAVORS[flavor]

    def remove(self, server: int) -> int:
        """End a server; return its flavor."""
        host, flavor = self.servers.pop(server)
        self.free[host] += FLAVORS[flavor]
        return flavor

    def large(self) -> int:
        """Return how many large servers fit: a host has room for one at the most."""
        return int((self.free >= LARGE).all(axis=1).sum())

    def by_host(self) -> dict[int, list[int]]:
        """Return the servers of each host that has any."""
        found: dict[int, list[int]] = defaultdict(list)
        for server, (host, _) in self.servers.items():
            found[host].append(server)
        return found


def live(hosts: int, load: float, hours: float, every_h: float, draw: Random) -> list[Room]:
    """Return what the hosts are like every few hours of a day."""
    room = Room(np.tile(HOST, (hosts, 1)))
    mean = sum(int(f[2]) * w for f, w in zip(FLAVORS, WEIGHTS, strict=True)) / sum(WEIGHTS)
    arrivals_h = hosts * HOST[2] * load / mean / LIFE_H
    now, number, ends, found = -3 * LIFE_H, 0, list[tuple[float, int]](), []
    look_at = every_h
    while now < hours:
        now += draw.expovariate(arrivals_h)
        while ends and ends[0][0] <= now:
            room.remove(heappop(ends)[1])
        if now >= look_at:
            found.append(room.copy())
            look_at += every_h
        (flavor,) = draw.choices(range(len(FLAVORS)), WEIGHTS)
        fitting = room.fitting(flavor)
        if len(fitting):
            number += 1
            room.add(number, flavor, int(draw.choice(fitting)))
            heappush(ends, (now + draw.expovariate(1 / LIFE_H), number))
    return found


# -- the ways ------------------------------------------------------------------------------------


def drain_fewest(room: Room, wanted: int, draw: Random) -> int | None:
    """Drain the host with the fewest servers, then the next; return the moves, None if hosts are too few."""
    room, moves, drained = room.copy(), 0, np.zeros(len(room.free), bool)
    drained |= (room.free >= LARGE).all(axis=1)
    while room.large() < wanted:
        held = {host: servers for host, servers in room.by_host().items() if not drained[host]}
        if not held:
            return None
        host = min(held, key=lambda each: (len(held[each]), each))
        drained[host] = True
        for server in held[host]:
            flavor = room.servers[server][1]
            targets = [int(each) for each in room.fitting(flavor) if not drained[each]]
            if targets:
                room.add(server, room.remove(server), draw.choice(targets))
                moves += 1
    return moves


def drain_by_what_if(room: Room, wanted: int) -> int | None:
    """Drain the host that what-if says is the cheapest without anybody homeless, then the next."""
    room, moves = room.copy(), 0
    kept = set(np.flatnonzero((room.free >= LARGE).all(axis=1)).tolist())
    while len(kept) < wanted:
        held = {host: servers for host, servers in room.by_host().items() if host not in kept}
        for host in sorted(held, key=lambda each: (len(held[each]), each)):
            tried = _drain(room, host, held[host], kept)
            if tried is not None:
                room, moves = tried, moves + len(held[host])
                kept.add(host)
                break
        else:
            return None
    return moves


def _drain(room: Room, host: int, servers: list[int], kept: set[int]) -> Room | None:
    """Return what comes of it, each server at the first host with room; None if one is homeless."""
    room = room.copy()
    for server in sorted(servers, key=lambda each: -room.servers[each][1]):
        targets = (
            int(each)
            for each in room.fitting(room.servers[server][1])
            if each != host and each not in kept
        )
        target = next(targets, None)
        if target is None:
            return None
        room.add(server, room.remove(server), target)
    return room


def plan_room(room: Room, wanted: int, deadline_s: float) -> tuple[Plan | None, float]:
    """Return a plan, and the seconds of the processor that it took."""
    cloud = _make_cloud(room)
    index = [cloud.index_of[host + 1] for host in range(len(room.free))]
    occupants = [
        Occupant(uuid_of("server", server), {index[host]: {index[host]: _amounts(FLAVORS[flavor])}})
        for server, (host, flavor) in room.servers.items()
    ]
    goal = Fit(CandidateRequest((Group("", _amounts(LARGE)),)), wanted)
    began, processor_s = time.perf_counter(), time.process_time()
    work = Work(remaining_s=lambda: deadline_s - (time.perf_counter() - began))
    plan = make_plan(cloud, None, occupants, Members(), goal, Costs(), Limits(), (), work)
    return plan if isinstance(plan, Plan) else None, time.process_time() - processor_s


def _make_cloud(room: Room) -> Cloud:
    cloud = Cloud()
    cloud.replace(
        ProviderRecord(
            provider_id=host + 1,
            uuid=uuid_of("host", host),
            revision=1,
            parent_id=None,
            root_id=host + 1,
            inventories={
                name: UsedInventory(
                    InventoryRecord(int(total), 0, 1, int(total), 1, 1.0), int(total - free)
                )
                for name, total, free in zip(CLASSES, HOST, room.free[host], strict=True)
            },
            traits=frozenset(),
            aggregates=frozenset(),
        )
        for host in range(len(room.free))
    )
    return cloud


def _amounts(flavor: np.ndarray) -> dict[str, int]:
    return {name: int(amount) for name, amount in zip(CLASSES, flavor, strict=True) if amount}


# -- what comes of it ----------------------------------------------------------------------------


def main() -> int:
    """Live the day, make room in each way, and print the medians."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.making_room", description=__doc__.splitlines()[0]
    )
    parser.add_argument("--hosts", type=int, default=1000)
    parser.add_argument("--load", type=float, default=0.8, help="of the GPUs, on average")
    parser.add_argument("--hours", type=float, default=24)
    parser.add_argument("--every", type=float, default=6, help="hours between two looks")
    parser.add_argument(
        "--more",
        type=int,
        nargs="+",
        default=[1, 5, 10, 20, 40],
        help="large servers that are to fit besides",
    )
    parser.add_argument(
        "--deadline", type=float, default=5.0, help="seconds for a plan, by the clock"
    )
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--picture", type=Path, help="write it as SVG")
    given = parser.parse_args()
    draw = Random(given.seed)
    rooms = live(given.hosts, given.load, given.hours, given.every, draw)
    told = ", ".join(f"{len(room.servers)} servers, {room.large()} large fit" for room in rooms)
    print(
        f"{given.hosts} hosts, seed {given.seed}, load of the machine {os.getloadavg()[0]:.0f}: {told}",
        flush=True,
    )
    # What is loaded with the first plan is not counted.
    plan_room(rooms[0], rooms[0].large() + 1, given.deadline)
    medians: dict[str, list[float]] = {way: [] for way in WAYS}
    for more in given.more:
        moves: dict[str, list[float]] = {way: [] for way in WAYS}
        plans = []
        for room in rooms:
            wanted = room.large() + more
            plan, seconds = plan_room(room, wanted, given.deadline)
            plans.append((plan, seconds))
            for way, count in (
                ("fewest", drain_fewest(room, wanted, draw)),
                ("what-if", drain_by_what_if(room, wanted)),
                ("plan", None if plan is None else len(plan.steps)),
            ):
                moves[way].append(float("nan") if count is None else count)
        for way in WAYS:
            # Of those that were found: how many, the line says.
            known = [each for each in moves[way] if each == each]
            medians[way].append(statistics.median(known) if known else float("nan"))
        found, took = [plan for plan, _ in plans if plan is not None], [seconds for _, seconds in plans]
        off = max((plan.cost - plan.lower_bound for plan in found), default=float("nan"))
        print(
            f"{more:3} more: "
            + ", ".join(f"{way} {medians[way][-1]:.0f}" for way in WAYS)
            + f"; minimal {sum(plan.minimal for plan in found)} of {len(plans)}, {off:.1f} off at the most,"
            f" processor {statistics.median(took):.2f} s (at most {max(took):.2f})",
            flush=True,
        )
    if given.picture:
        draw_picture(given.picture, given.more, medians)
    return 0


def draw_picture(base: Path, more: list[int], medians: dict[str, list[float]]) -> None:
    """Write moves against servers as SVG, a line for each way."""
    labels = {
        "fewest": "drain the host with the fewest servers",
        "what-if": "drain what what-if says is the cheapest",
        "plan": "a plan",
    }
    colours = {"fewest": "#c2410c", "what-if": "#8a6d00", "plan": "#235a97"}
    most = max(each for values in medians.values() for each in values if each == each)
    (left, top, width, height), step = (60, 20, 460, 240), _round_step(most / 5)

    def at(x: float, y: float) -> tuple[float, float]:
        return left + width * x / max(more), top + height * (1 - y / most)

    parts = []
    for number in range(int(most // step) + 1):
        x, y = at(0, number * step)
        parts.append(f'<path d="M {x} {y:.1f} h {width}" stroke="#e1e6eb"/>')
        parts.append(f'<text x="{x - 8}" y="{y + 4:.1f}" text-anchor="end">{number * step}</text>')
    for each in more:
        x, y = at(each, 0)
        parts.append(f'<text x="{x:.1f}" y="{y + 18}" text-anchor="middle">{each}</text>')
    parts.append(f'<text x="{left}" y="{top + height + 40}">servers of 8 GPUs that are to fit besides</text>')
    parts.append(f'<text x="{left}" y="{top - 6}">moves, median</text>')
    for way in WAYS:
        found = [(x, y) for x, y in zip(more, medians[way], strict=True) if y == y]
        points = [at(x, y) for x, y in found]
        line = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        parts.append(f'<polyline points="{line}" fill="none" stroke="{colours[way]}" stroke-width="2"/>')
        parts += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3.5" fill="{colours[way]}"/>' for x, y in points]
        x, y = points[-1]
        parts.append(f'<text x="{x + 8:.1f}" y="{y + 4:.1f}" fill="{colours[way]}">{labels[way]}</text>')
    shape = 'viewBox="0 0 840 310" font-family="sans-serif" font-size="13"'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" {shape}>'
    white = '<rect width="840" height="310" fill="#ffffff"/>'
    base.with_suffix(".svg").write_text("\n".join([head, white, *parts, "</svg>"]) + "\n")


def _round_step(least: float) -> int:
    return next(step for step in (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000) if step >= least)


if __name__ == "__main__":
    sys.exit(main())
