#!/usr/bin/env python3
"""Plots the loss curves of kan_driver runs from their run directories or NAME.hst.h5 files.

Several runs are drawn into one figure. The loss of each kept step, the train_loss of each
epoch and, where there is one, the validation_loss share a logarithmic axis, over steps or,
with --x elapsed, over seconds of training. Output is PNG, SVG or PDF by the file's name."""
import argparse
import os
import pathlib
import sys

import kan_history

KINDS = (".png", ".svg", ".pdf")


def _epoch_ends(history, x):
    """Where each epoch ends on the axis: the x of the first kept row of a later epoch, the
    last kept row for the last one; none where no rows were kept."""
    import numpy
    step = history.step
    if len(step["step"]) == 0:
        return None
    after = numpy.searchsorted(step["step_epoch"], history.epoch["epoch"], side="right")
    return step[x][numpy.minimum(after, len(step["step"]) - 1)]


def _draw(axes, history, label, x):
    """Draws one run; True where anything was drawn."""
    import numpy
    drawn = False
    color = None
    if len(history.step["step"]):
        line, = axes.plot(history.step[x], history.step["loss"], linewidth=0.6, alpha=0.5,
                          label=f"{label} loss of steps")
        color = line.get_color()
        drawn = True
    ends = _epoch_ends(history, x)
    for column, style in (("train_loss", "-"), ("validation_loss", "--")):
        values = history.epoch[column]
        good = numpy.isfinite(values)
        if ends is None or not good.any():
            continue
        axes.plot(ends[good], values[good], style, color=color, linewidth=1.4,
                  marker="." if good.sum() < 30 else None, label=f"{label} {column}")
        drawn = True
    return drawn


def plot(paths, output, name=None, x="step", title=None):
    """Draws the runs at `paths` into the file `output` (None: NAME.loss.png beside the first
    of them) and returns its name. Raises kan_history.HistoryError."""
    try:
        os.environ.setdefault("MPLBACKEND", "Agg")
        from matplotlib.figure import Figure
    except ImportError as error:
        raise kan_history.HistoryError(f"{error}; install matplotlib") from error
    histories = [kan_history.read(path, name) for path in paths]
    if output is None:
        first = pathlib.Path(paths[0])
        folder = first if first.is_dir() else first.parent
        output = folder / f"{histories[0].name}.loss.png"
    figure = Figure(figsize=(7, 4.5), layout="constrained")
    axes = figure.add_subplot()
    drawn = False
    for path, history in zip(paths, histories):
        label = history.name if len(paths) == 1 else str(path)
        drawn = _draw(axes, history, label, x) or drawn
    if not drawn:
        raise kan_history.HistoryError(f"{', '.join(map(str, paths))}: no rows to plot yet")
    axes.set_yscale("log")
    axes.set_xlabel({"step": "updates", "elapsed": "seconds of training"}[x])
    axes.set_ylabel("loss")
    if title:
        axes.set_title(title)
    axes.grid(True, which="both", linewidth=0.3)
    axes.legend(fontsize="small")
    figure.savefig(output, dpi=150)
    return output


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0],
                                     epilog=__doc__.split("\n\n")[1])
    parser.add_argument("paths", nargs="+", metavar="PATH",
                        help="run directory or NAME.hst.h5")
    parser.add_argument("-o", "--output", default=None,
                        help="file to write: .png, .svg or .pdf (default: NAME.loss.png in the "
                             "run directory)")
    parser.add_argument("--name", help="which run, where a directory holds several")
    parser.add_argument("--x", choices=("step", "elapsed"), default="step",
                        help="horizontal axis (default: %(default)s)")
    parser.add_argument("--title", help="title of the figure")
    options = parser.parse_args(arguments)
    if options.output and pathlib.Path(options.output).suffix.lower() not in KINDS:
        parser.error(f"--output {options.output}: the name must end in {', '.join(KINDS)}")
    try:
        written = plot(options.paths, options.output, options.name, options.x, options.title)
    except kan_history.HistoryError as error:
        print(f"kan_plot: {error}", file=sys.stderr)
        return 3
    except OSError as error:
        print(f"kan_plot: cannot write {options.output}: {error.strerror or error}",
              file=sys.stderr)
        return 4
    print(f"wrote {written}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
