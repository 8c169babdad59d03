#!/usr/bin/env python3
"""What two threads of one model reach, against two copies of one thread and against one thread.

  threads.py [--bin FOLDER] [--cases NAME ...] [--rounds R] [--seconds S]

A round is, in random order: two threads of one kan_bench process; two processes of one thread at
the same time, each pinned to a core of its own; and one of these alone. Ratios are formed inside
each round; their medians are printed with the order-statistic interval of the median. Both kinds
run on the last two cores of this process's affinity. It wants a quiet machine: the load is
printed, and the cores that others used meanwhile.
"""

import argparse
import os
import random
import tempfile
from pathlib import Path
from statistics import median

from peerbench import machine, process
from ranks import INTERVAL

CASES = [
    f"{widths}_G5_k3_b{batch}_f32"
    for widths in ("2-64-1", "64-64-64")
    for batch in (16384, 256)
]


def rate(results):
    """Samples per second of processes that ran at the same time."""
    return sum(result["rows"] / result["wall"] for result in results)


def interval(ratios):
    low, high = INTERVAL.get(len(ratios), (1, len(ratios)))
    ordered = sorted(ratios)
    return f"{median(ratios):.3f} [{ordered[low - 1]:.3f}, {ordered[high - 1]:.3f}]"


def compare(program, case, cores, rounds, seconds):
    with tempfile.TemporaryDirectory() as folder:
        copies = [process.kan_bench(program, case, {core}, folder) for core in cores]
        pair = process.kan_bench(program, case, set(cores), folder)
        for contestant in [*copies, pair]:
            contestant.calibrate(seconds)
        count = copies[0].count

        def together():
            return [pair.steps(2 * count)]

        def side_by_side():
            for copy in copies:
                copy.ask(count)
            return [copy.answer() for copy in copies]

        def alone():
            return [copies[0].steps(count)]

        found = {together: [], side_by_side: [], alone: []}
        others, own = machine.Others(), 0.0
        for _ in range(rounds):
            for measure in random.sample(list(found), 3):
                results = measure()
                found[measure].append(rate(results))
                own += sum(result["cpu"] for result in results)
        other_cores = others.cores(own)
        for contestant in [*copies, pair]:
            contestant.close()
    two, both, one = (found[measure] for measure in (together, side_by_side, alone))
    print(
        f"{case}: 2 threads {median(two):.4g} samples/s, 2 copies {median(both):.4g}, 1 thread"
        f" {median(one):.4g}\n  2 threads / 2 copies"
        f" {interval([a / b for a, b in zip(two, both)])}, 2 threads / 1 thread"
        f" {interval([a / b for a, b in zip(two, one)])} of {rounds} rounds, {other_cores:.2f}"
        " cores used by others",
        flush=True,
    )


def main():
    parse = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parse.add_argument("--bin", default=process.ROOT / "build/openmp/bin")
    parse.add_argument("--cases", nargs="+", default=CASES, help="as kan_bench --list has them")
    parse.add_argument("--rounds", type=int, default=9)
    parse.add_argument("--seconds", type=float, default=0.3, help="of each measurement")
    a = parse.parse_args()
    cores = sorted(os.sched_getaffinity(0))[-2:]
    if len(cores) < 2:
        parse.error("this process may use one core only")
    print(f"cores {cores}, load averages {machine.load()}", flush=True)
    for case in a.cases:
        compare(Path(a.bin, "kan_bench"), case, cores, a.rounds, a.seconds)
    print(f"load averages {machine.load()}")


if __name__ == "__main__":
    main()
