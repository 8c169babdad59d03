#!/usr/bin/env python3
"""What two ranks of one model reach, against two copies of one rank that run beside each other.

  ranks.py DRIVER [--deck DECK] [--batch N ...] [--rounds R] [--epochs E] [--ranks P]
           [--set BLOCK/KEY=VALUE ...] [--launcher WORD ...]

A round is, in random order: P copies of the deck at the same time, each alone on one rank and
one thread, and one run of P ranks with one thread each. Rates are samples per second of the
report (everything between the first step and the last). The ratio is formed inside each round;
its median and the order-statistic interval of the median are printed, and where the time of the
P ranks went. The launcher is mpirun -n P unless given.
"""
import argparse
import json
import pathlib
import random
import statistics
import subprocess
import sys
import tempfile

TOP = pathlib.Path(__file__).resolve().parents[2]
# Ranks of the order statistics that hold the median in at least 95 % (of 7: 98.4 %).
INTERVAL = {6: (1, 6), 7: (1, 7), 8: (1, 8), 9: (2, 8), 10: (2, 9), 11: (2, 10), 12: (3, 10)}


def start(command, directory):
    return subprocess.Popen([*command, "-q", "--force", "-d", directory], cwd=TOP,
                            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)


def report(process, directory):
    _, errors = process.communicate()
    if process.returncode != 0:
        sys.exit(f"ranks.py: {errors.decode()[-500:]}")
    return json.loads(next(pathlib.Path(directory).glob("*.report.json")).read_text())


def main():
    parse = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parse.add_argument("driver")
    parse.add_argument("--deck", default="inputs/reference.deck")
    parse.add_argument("--batch", type=int, nargs="+", default=[8192, 512])
    parse.add_argument("--rounds", type=int, default=9)
    parse.add_argument("--epochs", type=int, default=400)
    parse.add_argument("--ranks", type=int, default=2)
    # A checkpoint every 10 epochs, 0.1 s of this deck, would be a test of the disk.
    parse.add_argument("--set", nargs="*", default=["output2/enabled=false"],
                       help="overrides of the deck")
    parse.add_argument("--launcher", nargs="+")
    a = parse.parse_args()
    launcher = a.launcher or ["mpirun", "-n", str(a.ranks)]
    common = [a.deck, "run/threads=1", f"run/epochs={a.epochs}", *a.set]
    for batch in a.batch:
        words = [a.driver, *common, f"optimizer/batch={batch}"]
        ratios, together, alone, last = [], [], [], None
        with tempfile.TemporaryDirectory() as place:
            paths = [f"{place}/{n}" for n in range(a.ranks)]

            def copies():
                running = [start(words, path) for path in paths]
                return sum(report(p, path)["samples_per_second"]
                           for p, path in zip(running, paths))

            def one_model():
                nonlocal last
                path = f"{place}/all"
                last = report(start([*launcher, *words], path), path)
                return last["samples_per_second"]

            for _ in range(a.rounds):
                found = {}
                for case in random.sample([copies, one_model], 2):
                    found[case] = case()
                ratios.append(found[one_model] / found[copies])
                together.append(found[one_model])
                alone.append(found[copies])
        low, high = INTERVAL.get(a.rounds, (1, a.rounds))
        ordered = sorted(ratios)
        print(f"batch {batch}: {a.ranks} ranks {statistics.median(together):.4g} samples/s, "
              f"{a.ranks} copies {statistics.median(alone):.4g}; ratio "
              f"{statistics.median(ratios):.3f} [{ordered[low - 1]:.3f}, {ordered[high - 1]:.3f}] "
              f"of {a.rounds} rounds")
        print("  last run: " + ", ".join(
            f"{name} {100 * times['mean'] / last['wall_seconds']:.1f} %"
            for name, times in last["phases"].items()))


if __name__ == "__main__":
    main()
