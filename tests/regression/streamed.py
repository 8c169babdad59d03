"""Training rows larger than the memory they may take, through kan_driver: streamed over
ranks, stopped in the middle of an epoch and gone on with, evaluated, and the errors.

  streamed.py PATH_OF_KAN_DRIVER [MPIEXEC FLAG PREFLAGS...]
"""

import json
import os
import pathlib
import subprocess
import sys
import tempfile

import h5py
import numpy as np

ROWS, INPUTS = 1_200_003, 6
MIB = 1 << 20
ALLOWED = 8 * MIB  # an eighth of the data

DECK = """
<run>
epochs = 2
threads = 1
<data>
source = hdf5
file = rows.h5
inputs = a, b
targets = y
validation = 0.01
scale_inputs = minmax
scale_targets = standard
replicate_below = 8 MiB
<network>
widths = 6, 4, 1
<optimizer>
learning_rate = 1e-2
batch = 4096
<output1>
type = history
dstep = 1
<output2>
type = restart
dstep = 100
<parallel>
reproducible = true
"""


class Driver:
    def __init__(self, program, launcher):
        self.program, self.launcher = program, launcher

    def __call__(self, *arguments, ranks=1, status=0):
        start = [*self.launcher[:2], str(ranks), *self.launcher[2:]] if ranks > 1 else []
        done = subprocess.run(
            [*start, self.program, *map(str, arguments)], capture_output=True, text=True,
            env={**os.environ, "OMP_NUM_THREADS": "1", "OMP_PROC_BIND": "false"})
        assert (done.returncode == status) if ranks == 1 else \
            ((done.returncode == 0) == (status == 0)), (arguments, done.returncode, done.stderr)
        return done


def report(directory, name="big"):
    return json.loads((directory / f"{name}.report.json").read_text())


def bits(directory, step):
    """All numbers of a checkpoint, and the history without its times."""
    found = {}
    with h5py.File(directory / f"big.{step:08d}.rst.h5") as file:
        file.visititems(lambda name, item: found.update({name: item[()].tobytes()})
                        if isinstance(item, h5py.Dataset) else None)
    with h5py.File(directory / "big.hst.h5") as file:
        for name in ("step", "loss", "gradient_norm", "epoch/train_loss",
                     "epoch/validation_loss"):
            found[name] = file[name][:].tobytes()
    assert len(found) > 10
    return found


def write_rows(path):
    random = np.random.default_rng(1)
    x = random.uniform(-2, 2, (ROWS, INPUTS)).astype(np.float32)
    y = x[:, 0] ** 2 + np.sin(2 * x[:, 1]) + x[:, 2] * x[:, 3] - x[:, 5]
    with h5py.File(path, "w") as file:
        file.create_dataset("a", data=x[:, :4], chunks=(3000, 4), compression="gzip",
                            compression_opts=1)
        file["b"] = x[:, 4:]
        file["y"] = y.astype(np.float64)
    return y


def check_training(driver, here, deck, ranks):
    one, all_ranks, parts = here / "one", here / "all", here / "parts"
    driver(deck, "-d", one)
    log = (one / "big.log").read_text()
    data_bytes = 8 * ROWS * (INPUTS + 1)
    assert data_bytes > 2 * ALLOWED
    assert f"{ROWS - ROWS // 100} rows are streamed" in log, log
    assert "windows" in log
    figures = report(one)
    assert figures["epochs"] == 2
    assert figures["train_rmse"] < 0.3 and figures["validation_rmse"] < 0.3, figures
    assert abs(figures["train_rmse"] / figures["validation_rmse"] - 1) < 0.1
    last = figures["steps"]

    if ranks > 1:
        driver(deck, "-d", all_ranks, ranks=ranks)
        assert bits(one, last) == bits(all_ranks, last), "ranks change the bits"
        other = report(all_ranks)
        assert other["train_rmse"] == figures["train_rmse"]

    # In the middle of the second epoch, on as many ranks, then on one.
    middle = last // 2 + 57
    driver(deck, "-d", parts, f"run/steps={middle}", ranks=ranks)
    driver(deck, "-d", parts, "-r", "latest", f"run/steps={last}", ranks=ranks)
    assert bits(one, last) == bits(parts, last), "a restart changes the bits"
    return figures


def check_memory(driver, here, deck, figures):
    """What a run of few rows does not take is windows, pieces and caches."""
    small = here / "small"
    driver(deck, "-d", small, "data/row_range=0:5000", "run/epochs=1")
    assert "streamed" not in (small / "big.log").read_text()
    more = figures["peak_memory_bytes"] - report(small)["peak_memory_bytes"]
    print(f"memory: {more / MIB:.1f} MiB more than for few rows, windows may take "
          f"{ALLOWED / MIB:.0f}, the rows are {8 * ROWS * (INPUTS + 1) / MIB:.0f}")
    assert more < ALLOWED + 16 * MIB, more


def check_changes(driver, here, deck):
    """A restart within an epoch that moves windows says so; so does one without them."""
    place = here / "changes"
    driver(deck, "-d", place, "run/steps=20")
    same = driver(deck, "-d", place, "-r", "latest", "run/steps=25")
    assert "twice or not at all" not in same.stdout
    moved = driver(deck, "-d", place, "-r", "latest", "run/steps=30", "optimizer/batch=5000")
    assert "changed within an epoch of streamed rows" in moved.stdout, moved.stdout
    kept = driver(deck, "-d", place, "-r", "latest", "run/steps=35",
                  "data/replicate_below=1 GiB")
    assert "rows are kept in memory" in kept.stdout, kept.stdout
    assert "differ" not in kept.stdout + kept.stderr


def check_evaluation(driver, here, deck, y, ranks):
    place = here / "one"
    checkpoint = max(place.glob("big.0*.rst.h5"))
    driver("-r", checkpoint, "-d", place, "run/mode=evaluate", ranks=ranks)
    figures = report(place, "big.evaluation")
    assert figures["samples"] == ROWS
    with h5py.File(place / "big.evaluation.h5") as file:
        assert file["prediction"].shape == (ROWS, 1)
        target, prediction = file["target"][:, 0], file["prediction"][:, 0]
        assert file["info"].attrs["step"] > 0
        assert "description" in file["prediction"].attrs
    assert np.array_equal(target, y.astype(np.float32))
    rmse = float(np.sqrt(np.mean((prediction.astype(float) - target) ** 2)))
    assert abs(rmse / figures["test_rmse"] - 1) < 1e-4, (rmse, figures)
    assert not list(place.glob("*.tmp"))
    # In memory: the same rows and the same network.
    driver("-r", checkpoint, "-d", here / "kept", "run/mode=evaluate",
           "data/replicate_below=1 GiB")
    with h5py.File(here / "kept" / "big.evaluation.h5") as file:
        assert np.array_equal(file["prediction"][:, 0], prediction)
    assert abs(report(here / "kept", "big.evaluation")["test_loss"]
               / figures["test_loss"] - 1) < 1e-9


def check_errors(driver, here, deck, ranks):
    def fails(code, words, *arguments, **more):
        failed = driver(deck, "-d", here / "failed", "--force", *arguments, status=code, **more)
        assert f"error[{code}]" in failed.stderr, failed.stderr
        for word in words:
            assert word in failed.stderr, (word, failed.stderr)

    fails(8, ["data/validation", "data/replicate_below"], "data/validation=0.5")
    fails(8, ["data/replicate_below", "optimizer/batch"], "optimizer/batch=1000000")
    fails(2, ["data/nonfinite"], "data/nonfinite=drop")
    predicts = here / "predicts.deck"
    predicts.write_text(deck.read_text() + "<output3>\ntype = prediction\ndepoch = 1\n")
    failed = driver(predicts, "-d", here / "failed", "--force", "data/validation=none",
                    status=2)
    assert "output3/type" in failed.stderr, failed.stderr
    with h5py.File(here / "bad.h5", "w") as file, h5py.File(here / "rows.h5") as good:
        file["a"], file["b"], file["y"] = good["a"][:], good["b"][:], good["y"][:]
        file["b"][777_777, 1] = np.nan
    bad = f"data/file={here / 'bad.h5'}"
    fails(3, ["dataset 'b' row 777777 column 1", "not a number"], bad)
    if ranks > 1:
        fails(3, ["dataset 'b' row 777777 column 1"], bad, ranks=ranks)
    rows = here / "rows.csv"
    rows.write_text("a,y\n" + "1,2\n" * 70000)
    fails(8, ["convert the file to HDF5"], f"data/file={rows}",
          "data/source=csv", "data/inputs=a", "network/widths=1,1", "data/validation=none",
          "data/replicate_below=1 MiB")


def main():
    driver = Driver(str(pathlib.Path(sys.argv[1]).resolve()), sys.argv[2:])
    ranks = 2 if driver.launcher else 1
    with tempfile.TemporaryDirectory() as place:
        here = pathlib.Path(place)
        deck = here / "big.deck"
        deck.write_text(DECK)
        y = write_rows(here / "rows.h5")
        figures = check_training(driver, here, deck, ranks)
        check_memory(driver, here, deck, figures)
        check_changes(driver, here, deck)
        check_evaluation(driver, here, deck, y, ranks)
        check_errors(driver, here, deck, ranks)
    print("streamed, stopped, gone on with, evaluated, refused")


if __name__ == "__main__":
    main()
