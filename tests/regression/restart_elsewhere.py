"""A run that is restarted elsewhere goes on as if nothing had happened.

  restart_elsewhere.py ranks  DRIVER        LAUNCHER FLAG [MORE...]
  restart_elsewhere.py table  DRIVER        LAUNCHER FLAG [MORE...]
  restart_elsewhere.py builds DRIVER DRIVER LAUNCHER FLAG [MORE...]

  ranks   reproducible: 4, then 2, 3 and 1 ranks have the bits of one rank that never stopped,
          parameters, moments and history; float and double, host and team kernels
  table   reproducible: 200 updates on 1, 2, 3, 4, 5 and 8 ranks of 1 and 2 threads, likewise
  builds  a checkpoint of one build goes on in the other, and back: as far from a straight run
          as rounding takes it
"""

import os
import pathlib
import subprocess
import sys
import tempfile

import h5py
import numpy

DECK = """<job>
name = run
<run>
threads = 1
steps = 40
<data>
source = function
rows = 1003
expressions = "x^2 + sin(3*y)"
validation = 0.1
<network>
widths = 2, 12, 1
<optimizer>
batch = 512
learning_rate = 1e-2
"""
STOPS = (13, 21, 32, 40)  # two updates an epoch: three of these stand within one
# In double; Adam's first updates make rounding of small gradients as large as a rate.
TOLERANCE = 1e-9


def launch(driver, launcher, ranks, directory, *arguments):
    start = [launcher[0], launcher[1], str(ranks), *launcher[2:]] if ranks > 1 else []
    (directory / "deck").write_text(DECK)
    done = subprocess.run([*start, driver, "-q", "-d", directory, directory / "deck", "-r",
                           "auto", *arguments], capture_output=True, text=True, check=False,
                          # Threads beyond the cores would spin.
                          env=dict(os.environ, OMP_WAIT_POLICY="passive"))
    if done.returncode != 0:
        sys.exit(f"FAILED: {ranks} ranks {arguments}: {done.returncode}: {done.stderr[-800:]}")


def state(directory, step=40):
    """Parameters and moments of the last checkpoint, and the losses of all steps."""
    found = {}
    with h5py.File(directory / f"run.{step:08d}.rst.h5") as file:
        for group in ("network", "optimizer"):
            file[group].visititems(
                lambda name, item, group=group: found.update(
                    {f"{group}/{name}": item[()]} if isinstance(item, h5py.Dataset) else {}))
    with h5py.File(directory / "run.hst.h5") as file:
        for name in ("loss", "gradient_norm", "epoch/train_loss", "epoch/validation_loss"):
            found[name] = file[name][()]
    return found


def distance(a, b):
    if a.keys() != b.keys() or any(a[name].shape != b[name].shape for name in a):
        sys.exit("FAILED: other arrays")
    return max((float(numpy.max(numpy.abs(a[name] - b[name]))), name) for name in a)


def chain(scratch, name, stages, launcher, *options):
    """stages: (driver, ranks) of each launch."""
    directory = pathlib.Path(scratch) / name
    directory.mkdir()
    for stop, (driver, ranks) in zip(STOPS, stages):
        launch(driver, launcher, ranks, directory, f"run/steps={stop}", *options)
    return state(directory)


def over_ranks(scratch, driver, *launcher):
    for precision in ("float", "double"):
        for kernels in ("host", "team"):
            options = ("parallel/reproducible=true", f"run/precision={precision}",
                       f"network/kernels={kernels}")
            name = f"{precision}_{kernels}"
            wandering = chain(scratch, name, [(driver, n) for n in (4, 2, 3, 1)], launcher,
                              *options)
            straight = pathlib.Path(scratch) / f"{name}_straight"
            straight.mkdir()
            launch(driver, launcher, 1, straight, *options)
            worst = distance(state(straight), wandering)
            if worst[0] != 0:
                sys.exit(f"FAILED: {name}: differs: {worst}")
    print("4 -> 2 -> 3 -> 1 ranks: the bits of one rank")


def over_the_table(scratch, driver, *launcher):
    runs = 0
    for precision in ("float", "double"):
        for kernels in ("host", "team"):
            first = None
            for ranks in (1, 2, 3, 4, 5, 8):
                for threads in (1, 2):
                    directory = pathlib.Path(scratch) / f"{precision}_{kernels}_{ranks}_{threads}"
                    directory.mkdir()
                    launch(driver, launcher, ranks, directory, "parallel/reproducible=true",
                           f"run/precision={precision}", f"network/kernels={kernels}",
                           f"run/threads={threads}", "run/steps=200")
                    found = state(directory, 200)
                    first = first or found
                    worst = distance(first, found)
                    runs += 1
                    if worst[0] != 0:
                        sys.exit(f"FAILED: {directory.name}: differs: {worst}")
    print(f"{runs} runs of 200 updates: the bits of one rank and one thread")


def over_builds(scratch, one, other, *launcher):
    for name, stages in (("first", [(one, 1), (other, 1), (one, 1), (other, 1)]),
                         ("second", [(other, 2), (one, 1), (other, 1), (one, 2)])):
        straight = pathlib.Path(scratch) / f"{name}_straight"
        straight.mkdir()
        launch(stages[0][0], launcher, 1, straight, "run/precision=double")
        worst = distance(state(straight),
                         chain(scratch, name, stages, launcher, "run/precision=double"))
        print(f"{name}: farthest from a straight run: {worst[0]:.2e} ({worst[1]})")
        if not worst[0] <= TOLERANCE:
            sys.exit("FAILED: more than rounding")


if __name__ == "__main__":
    case, *words = sys.argv[1:]
    with tempfile.TemporaryDirectory(prefix="kan_elsewhere_") as place:
        {"ranks": over_ranks, "table": over_the_table, "builds": over_builds}[case](place, *words)
