"""Regression tests of kan_driver on the decks of inputs/, for ctest.

  decks.py --driver PATH list                  every deck resolves (-n) and trains 3 steps
  decks.py --driver PATH bars NAME             a deck meets its bar, mean of 5 seeds
  decks.py --driver PATH reference             the reference deck meets its bars, median of 5

Bars are those of existing implementations (PyKAN, efficient-kan) with the same settings;
each deck's header says its own.
"""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
SEEDS = range(1, 6)
# deck: (figure of the report, bar, whether larger is better)
BARS = {
    "sum_of_squares": ("test_rmse", 0.0061, False),
    "feynman_I_6_2": ("test_rmse", 0.0052, False),
    "feynman_I_9_18": ("test_rmse", 0.013, False),
    "feynman_I_12_11": ("test_rmse", 0.18, False),
    "feynman_I_26_2": ("test_rmse", 0.012, False),
    "feynman_I_37_4": ("test_rmse", 0.034, False),
    "diabetes": ("test_rmse", 65.3, False),
    "breast_cancer": ("test_accuracy", 0.960, True),
    "digits": ("test_accuracy", 0.967, True),
}
# train_loss of these epochs, counted from 0
REFERENCE_BARS = {1: 0.75, 3: 0.12, 39: 6e-4}


def run(driver, deck, directory, *arguments):
    """One run of the driver; returns its report."""
    command = [driver, "-q", "-d", str(directory), str(ROOT / "inputs" / f"{deck}.deck")]
    done = subprocess.run(command + list(arguments), capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{deck} {arguments}: status {done.returncode}\n{done.stderr}")
    return json.loads((pathlib.Path(directory) / f"{deck}.report.json").read_text())


def check_list(driver):
    names = sorted(path.stem for path in (ROOT / "inputs").glob("*.deck"))
    assert names, "no decks"
    unchecked = set(names) - set(BARS) - {"reference"}
    assert not unchecked, f"decks without a bar in this test: {unchecked}"
    for name in names:
        deck = str(ROOT / "inputs" / f"{name}.deck")
        checked = subprocess.run([driver, "-n", deck], capture_output=True, text=True)
        assert checked.returncode == 0, checked.stderr
        assert not checked.stderr, f"{name}: {checked.stderr}"
        with tempfile.TemporaryDirectory() as directory:
            report = run(driver, name, directory, "run/steps=3")
            assert report["steps"] == 3, report
        print(f"{name}: resolves and trains")


def check_bars(driver, name):
    figure, bar, larger = BARS[name]
    values = []
    for seed in SEEDS:
        with tempfile.TemporaryDirectory() as directory:
            values.append(run(driver, name, directory, f"run/seed={seed}")[figure])
    mean = statistics.mean(values)
    print(f"{name}: {figure} mean {mean:.6g} of {values}, bar {bar}")
    assert mean >= bar if larger else mean <= bar, "the bar is missed"


def check_reference(driver):
    import h5py

    losses = {epoch: [] for epoch in REFERENCE_BARS}
    for seed in SEEDS:
        with tempfile.TemporaryDirectory() as directory:
            report = run(driver, "reference", directory, f"run/seed={seed}")
            with h5py.File(pathlib.Path(directory) / "reference.hst.h5") as history:
                train_loss = history["epoch/train_loss"][:]
            assert len(train_loss) == 40
            for epoch in losses:
                losses[epoch].append(float(train_loss[epoch]))
            print(f"seed {seed}: {report['samples_per_second']:.4g} samples/s")
    for epoch, bar in REFERENCE_BARS.items():
        median = statistics.median(losses[epoch])
        print(f"epoch {epoch}: median {median:.4g} of {losses[epoch]}, bar {bar}")
        assert median < bar, "the bar is missed"


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--driver", required=True)
    parser.add_argument("check", choices=["list", "bars", "reference"])
    parser.add_argument("name", nargs="?")
    arguments = parser.parse_args()
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    if arguments.check == "list":
        check_list(arguments.driver)
    elif arguments.check == "bars":
        check_bars(arguments.driver, arguments.name)
    else:
        check_reference(arguments.driver)


if __name__ == "__main__":
    main()
