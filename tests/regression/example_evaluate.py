"""examples/evaluate.py against kan_driver: a network is trained a little, evaluated by both
on the same rows, some of them outside the grid, and the outputs must agree.

    example_evaluate.py DRIVER EXAMPLES_DIRECTORY"""
import pathlib
import subprocess
import sys
import tempfile

import h5py
import numpy

driver, examples = sys.argv[1:]
sys.path.insert(0, examples)
import evaluate  # noqa: E402

DECK = """
<run>
steps = 40
threads = 1
precision = double
<data>
source = csv
file = rows.csv
targets = 3, 4
scale_inputs = standard
scale_targets = minmax
<network>
widths = 2, 5, 3, 2
grid = 4, 6, 5
order = 3, 2, 1
base = silu, none, identity
spline_scale = {scale}
<optimizer>
learning_rate = 0.05
batch = 64
"""

random = numpy.random.default_rng(5)
x = random.normal(size=(200, 2)) * [3, 0.1] + [10, 0]
y = numpy.column_stack([x[:, 0] * x[:, 1], numpy.sin(x[:, 0]) + 4])
for scale in ("folded", "trained"):
    with tempfile.TemporaryDirectory() as name:
        place = pathlib.Path(name)
        rows = [",".join(repr(float(v)) for v in row) for row in numpy.column_stack([x, y])]
        (place / "rows.csv").write_text("\n".join(rows) + "\n")
        (place / "small.deck").write_text(DECK.format(scale=scale))
        run = [driver, "-q", "-d", place]
        subprocess.run(run + [place / "small.deck"], check=True)
        subprocess.run(run + ["-r", "latest", "run/mode=evaluate"], check=True)
        with h5py.File(place / "small.evaluation.h5") as file:
            theirs = file["prediction"][:]
            assert numpy.allclose(file["target"][:], y, rtol=1e-12), "the targets changed"
        ours = evaluate.evaluate(place / "small.best.rst.h5", x)
        worst = numpy.abs(ours - theirs).max()
        assert worst < 1e-10, f"spline_scale = {scale}: outputs differ by {worst}"
        assert numpy.ptp(ours[:, 0]) > 0.1, "the network is constant: nothing was compared"
