#!/usr/bin/env python3
"""Reads the history of a kan_driver run: the joined file NAME.hst.h5, or the segments
NAME.hst.00000000.h5 ... of a run that goes on or was killed, joined, without the rows that
a restart made void (rows of a segment from the next one's first step on).

    import kan_history
    history = kan_history.read("runs/a")          # a run directory or a file
    history.step["loss"], history.epoch["validation_loss"]

On the command line it prints the rows, or writes them as CSV. Needs numpy and h5py."""
import argparse
import pathlib
import re
import sys
from typing import NamedTuple

STEP_COLUMNS = ("step", "step_epoch", "loss", "learning_rate", "gradient_norm",
                "samples_per_second", "elapsed")
SEGMENT = re.compile(r"^(.+)\.hst\.(\d{8,})\.h5$")


class HistoryError(Exception):
    """What is wrong and what to do, in one line."""


class History(NamedTuple):
    """Columns as arrays of equal length: one row a kept step, one row an epoch."""
    name: str
    step: dict
    epoch: dict
    info: dict


def _modules():
    try:
        import h5py
        import numpy
    except ImportError as error:
        raise HistoryError(f"{error}; install h5py and numpy") from error
    return h5py, numpy


def _read_file(path):
    """(step columns, epoch columns, info) of one file."""
    h5py, _ = _modules()
    try:
        with h5py.File(path, "r") as file:
            if "first_step" not in file.attrs:
                raise HistoryError(f"{path}: not a history file; name a NAME.hst.h5 file or "
                                   "a run directory")
            step = {name: file[name][:] for name in STEP_COLUMNS}
            epoch = {name: data[:] for name, data in file["epoch"].items()}
            info = {name: value for name, value in file["info"].attrs.items()}
            info["first_step"] = int(file.attrs["first_step"])
            return step, epoch, info
    except FileNotFoundError as error:
        raise HistoryError(f"{path}: no such file") from error
    except (OSError, KeyError) as error:
        raise HistoryError(f"{path}: cannot be read, the file may be damaged "
                           f"({error})") from error


def _cut(columns, key, limit):
    keep = columns[key] < limit
    return {name: values[keep] for name, values in columns.items()}


def _append(columns, more):
    _, numpy = _modules()
    return {name: numpy.concatenate([columns[name], more[name]])
            for name in columns if name in more}


def _join(paths, skip_bad):
    step = epoch = info = None
    for path in paths:
        try:
            more_step, more_epoch, info = _read_file(path)
        except HistoryError as error:
            if not skip_bad:
                raise
            print(f"warning: {error}: skipped", file=sys.stderr)
            continue
        if step is None:
            step, epoch = more_step, more_epoch
            continue
        step = _append(_cut(step, "step", info["first_step"]), more_step)
        if len(more_epoch["epoch"]):
            epoch = _cut(epoch, "epoch", more_epoch["epoch"][0])
        epoch = _append(epoch, more_epoch)
    if step is None:
        raise HistoryError("no readable history file; check the run directory")
    return step, epoch, info


def _segments(directory, name):
    found = [(int(match[2]), path) for path in directory.iterdir()
             if (match := SEGMENT.match(path.name)) and match[1] == name]
    return [path for _, path in sorted(found)]


def names(directory):
    """Names of the runs with a history in a directory."""
    found = set()
    for path in pathlib.Path(directory).iterdir():
        match = SEGMENT.match(path.name)
        if match:
            found.add(match[1])
        elif path.name.endswith(".hst.h5"):
            found.add(path.name[:-len(".hst.h5")])
    return sorted(found)


def read(path, name=None, skip_bad=False):
    """History of a run directory (name: which run, where it holds several) or of a file.

    Raises HistoryError: nothing there, several runs, damaged files (skip_bad: segments that
    cannot be read are left out with a warning)."""
    path = pathlib.Path(path)
    if not path.exists():
        raise HistoryError(f"{path}: no such file or directory")
    if not path.is_dir():
        match = SEGMENT.match(path.name)
        own = match[1] if match else path.name.removesuffix(".hst.h5")
        return History(own, *_read_file(path))
    there = names(path)
    if name is None:
        if len(there) > 1:
            raise HistoryError(f"{path}: holds several runs ({', '.join(there)}); say which "
                               "with --name")
        if not there:
            raise HistoryError(f"{path}: holds no history (NAME.hst.h5 or NAME.hst.*.h5); "
                               "was an <output> of type = history in the deck?")
        name = there[0]
    elif name not in there:
        raise HistoryError(f"{path}: holds no history of '{name}', only of "
                           f"{', '.join(there) or 'no run'}")
    joined = path / f"{name}.hst.h5"
    files = [joined] if joined.exists() else _segments(path, name)
    return History(name, *_join(files, skip_bad))


def _print_table(columns, out, separator):
    out.write(separator.join(columns) + "\n")
    for row in zip(*columns.values()):
        out.write(separator.join(f"{value:.17g}" if value.dtype.kind == "f" else str(value)
                                 for value in row) + "\n")


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("path", help="run directory, NAME.hst.h5 or a segment")
    parser.add_argument("--name", help="which run, where the directory holds several")
    parser.add_argument("--epochs", action="store_true",
                        help="the rows of epochs instead of steps")
    parser.add_argument("--csv", metavar="FILE", help="write CSV there instead of printing")
    parser.add_argument("--skip-bad", action="store_true",
                        help="leave out segments that cannot be read")
    options = parser.parse_args(arguments)
    try:
        history = read(options.path, options.name, options.skip_bad)
        columns = history.epoch if options.epochs else history.step
        if options.csv:
            with open(options.csv, "w", encoding="utf-8") as out:
                _print_table(columns, out, ",")
        else:
            _print_table(columns, sys.stdout, " ")
    except BrokenPipeError:
        sys.stderr.close()
        return 0
    except HistoryError as error:
        print(f"kan_history: {error}", file=sys.stderr)
        return 3
    except OSError as error:
        print(f"kan_history: cannot write {options.csv}: {error.strerror}", file=sys.stderr)
        return 4
    return 0


if __name__ == "__main__":
    sys.exit(main())
