"""A run that is restarted elsewhere goes on as if nothing had happened.

  restart_elsewhere.py ranks  DRIVER        LAUNCHER FLAG [MORE...]
  restart_elsewhere.py builds DRIVER DRIVER LAUNCHER FLAG [MORE...]

  ranks   reproducible: 4, then 2, 3 and 1 ranks have the bits of one rank that never stopped,
          parameters, moments and history; float and double, host and team kernels
  builds  a checkpoint of one build goes on in the other, and back: as far from a straight run
          as rounding takes it
"""

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
TOLERANCE = 2e-5          # of float parameters of size 1 after 40 updates


def launch(driver, launcher, ranks, directory, *arguments):
    start = [launcher[0], launcher[1], str(ranks), *launcher[2:]] if ranks > 1 else []
    (directory / "deck").write_text(DECK)
    done = subprocess.run([*start, driver, "-q", "-d", directory, directory / "deck", "-r",
                           "auto", *arguments], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"FAILED: {ranks} ranks {arguments}: {done.returncode}: {done.stderr[-800:]}")


def state(directory):
    """Parameters and moments of the last checkpoint, and the losses of all steps."""
    found = {}
    with h5py.File(directory / "run.00000040.rst.h5") as file:
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


def over_builds(scratch, one, other, *launcher):
    for name, stages in (("first", [(one, 1), (other, 1), (one, 1), (other, 1)]),
                         ("second", [(other, 2), (one, 1), (other, 1), (one, 2)])):
        straight = pathlib.Path(scratch) / f"{name}_straight"
        straight.mkdir()
        launch(stages[0][0], launcher, 1, straight)
        worst = distance(state(straight), chain(scratch, name, stages, launcher))
        print(f"{name}: farthest from a straight run: {worst[0]:.2e} ({worst[1]})")
        if not worst[0] <= TOLERANCE:
            sys.exit("FAILED: more than rounding")


if __name__ == "__main__":
    case, *words = sys.argv[1:]
    with tempfile.TemporaryDirectory(prefix="kan_elsewhere_") as place:
        {"ranks": over_ranks, "builds": over_builds}[case](place, *words)
