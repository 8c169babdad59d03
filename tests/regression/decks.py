"""Regression tests of kan_driver on the decks of inputs/, for ctest.

  decks.py --driver PATH list                  every deck resolves (-n) and trains 3 steps
  decks.py --driver PATH bars NAME             a deck meets its bar, mean of 5 seeds
  decks.py --driver PATH reference             the reference deck meets its bars, median of 5
  decks.py --driver PATH threads               reproducible bits for 1, 2, 3 threads

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


def check_threads(driver):
    import h5py

    def arrays(directory):
        with h5py.File(next(pathlib.Path(directory).glob("*.00000200.rst.h5"))) as file:
            found = {}
            file.visititems(
                lambda name, item: found.update({name: item[()].tobytes()})
                if isinstance(item, h5py.Dataset) else None)
            return found

    for precision in ("float", "double"):
        for kernels in ("host", "team"):
            results = []
            for threads in (1, 2, 3):
                with tempfile.TemporaryDirectory() as directory:
                    run(driver, "reference", directory, "run/steps=200",
                        f"run/precision={precision}", f"network/kernels={kernels}",
                        f"run/threads={threads}", "parallel/reproducible=true",
                        "data/rows=5003")
                    results.append(arrays(directory))
            assert results[0], "no arrays"
            assert results[0] == results[1] == results[2], (precision, kernels)
            print(f"{precision} {kernels}: {len(results[0])} arrays equal in all bits")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--driver", required=True)
    parser.add_argument("check", choices=["list", "bars", "reference", "threads"])
    parser.add_argument("name", nargs="?")
    arguments = parser.parse_args()
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    if arguments.check == "list":
        check_list(arguments.driver)
    elif arguments.check == "bars":
        check_bars(arguments.driver, arguments.name)
    elif arguments.check == "reference":
        check_reference(arguments.driver)
    else:
        check_threads(arguments.driver)


if __name__ == "__main__":
    main()
