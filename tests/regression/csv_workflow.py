"""What a user with CSV files does, through kan_driver: train, evaluate another file whose
columns stand in another order, classify, restart a finished run, meet an error.

  csv_workflow.py PATH_OF_KAN_DRIVER
"""

import json
import os
import pathlib
import random
import subprocess
import sys
import tempfile

import h5py
import numpy as np

DECK = """
<run>
epochs = 30
<data>
source = csv
file = {file}
targets = {target}
test = 0.1
scale_inputs = minmax
{more}
<network>
widths = 3, 6, {out}
<optimizer>
learning_rate = 1e-2
batch = 64
loss = {loss}
<output1>
type = prediction
depoch = 10
"""


def write_csv(path, order, rows):
    names = "abc"
    with open(path, "w", encoding="utf-8") as file:
        file.write(",".join([names[i] for i in order] + ["value", "class"]) + "\n")
        for row in rows:
            value = row[0] ** 2 + 3 * row[1] - row[2] * row[0]
            fields = [repr(row[i]) for i in order] + [repr(value), str(int(row[0] * 2.999))]
            file.write(",".join(fields) + "\n")


class Driver:
    def __init__(self, program):
        self.program = program

    def __call__(self, *arguments, status=0):
        done = subprocess.run([self.program, *map(str, arguments)], capture_output=True,
                              text=True, env={**os.environ, "OMP_NUM_THREADS": "1"})
        assert done.returncode == status, (arguments, done.returncode, done.stderr)
        return done


def report(directory, name):
    return json.loads((directory / f"{name}.report.json").read_text())


def main():
    driver = Driver(str(pathlib.Path(sys.argv[1]).resolve()))
    random.seed(1)
    rows = [[random.random() for _ in range(3)] for _ in range(400)]
    with tempfile.TemporaryDirectory() as place:
        here = pathlib.Path(place)
        write_csv(here / "train.csv", [0, 1, 2], rows)
        write_csv(here / "turned.csv", [2, 1, 0], rows)
        value = here / "value.deck"
        value.write_text(DECK.format(file="train.csv", target="value", out=1, loss="mse",
                                     more="scale_targets = standard\n"
                                     "inputs = a, b, c"))
        kind = here / "kind.deck"
        kind.write_text(DECK.format(file="train.csv", target="class", out=3,
                                    loss="cross_entropy", more="inputs = a, b, c"))
        runs = here / "runs"

        driver(value, "-d", runs)
        checkpoint = runs / "value.best.rst.h5"
        driver("-r", checkpoint, "-d", runs, "run/mode=evaluate",
               f"data/file={here / 'turned.csv'}")
        assert report(runs, "value.evaluation")["test_rmse"] < 0.1
        with h5py.File(runs / "value.evaluation.h5") as file:
            wanted = [r[0] ** 2 + 3 * r[1] - r[2] * r[0] for r in rows]
            assert np.allclose(file["target"][:, 0], wanted, atol=1e-5)
            error = file["prediction"][:, 0] - file["target"][:, 0]
        rmse = float(np.sqrt(np.mean(np.square(error, dtype=np.float64))))
        assert abs(rmse - report(runs, "value.evaluation")["test_rmse"]) < 1e-5

        # Without data/inputs the names of the header are kept, so columns are still found.
        (here / "plain.csv").write_text("\n".join(
            line.rsplit(",", 1)[0] for line in (here / "train.csv").read_text().split("\n")))
        (here / "plain_turned.csv").write_text("\n".join(
            line.rsplit(",", 1)[0] for line in (here / "turned.csv").read_text().split("\n")))
        plain = here / "plain.deck"
        plain.write_text(DECK.format(file="plain.csv", target="value", out=1, loss="mse",
                                     more="scale_targets = standard"))
        driver(plain, "-d", runs)
        driver("-r", runs / "plain.best.rst.h5", "-d", runs, "run/mode=evaluate",
               f"data/file={here / 'plain_turned.csv'}")
        assert report(runs, "plain.evaluation")["test_rmse"] < 0.1

        driver(kind, "-d", runs)
        assert report(runs, "kind")["test_accuracy"] > 0.9
        driver("-r", runs / "kind.best.rst.h5", "-d", runs, "run/mode=evaluate")
        with h5py.File(runs / "kind.evaluation.h5") as file:
            assert file["prediction"].shape == (400, 3)
            assert file["target"].shape == (400, 1)
            right = file["prediction"][:].argmax(axis=1) == file["target"][:, 0]
        assert abs(right.mean() - report(runs, "kind.evaluation")["test_accuracy"]) < 1e-12

        assert "nothing to do" in driver(value, "-d", runs, "-r", "latest").stdout
        driver(value, "-d", runs, status=4)
        failed = driver(value, "-d", here / "failed", "network/widths=4,6,1", status=3)
        assert failed.stderr.count("\n") == 1 and "widths" in failed.stderr
        assert "widths" in (here / "failed" / "value.log").read_text()

        # --force keeps old results until deck and data are known to be good.
        def results():
            return {file.name: file.read_bytes() for file in runs.glob("value.*")
                    if file.name != "value.log"}

        before, log = results(), (runs / "value.log").read_text()
        for wrong, status in (("data/file=/nowhere.csv", 3), ("network/widths=4,6,1", 3),
                              ("optimizer/learning_rate=-1", 2), ("parallel/ranks=2", 2)):
            driver(value, "-d", runs, "--force", wrong, status=status)
            assert results() == before, wrong
        after = (runs / "value.log").read_text()
        assert after.startswith(log) and "error: " in after[len(log):], after
        driver(value, "-d", runs, "--force", "run/epochs=3")
        assert report(runs, "value")["epochs"] == 3
        assert not set(before) & {file.name for file in runs.glob("value.000*.h5")
                                  if file.read_bytes() == before.get(file.name)}
        assert "error: " not in (runs / "value.log").read_text()
    print("trained, evaluated, classified, restarted, refused, replaced")


if __name__ == "__main__":
    main()
