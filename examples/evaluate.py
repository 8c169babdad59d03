#!/usr/bin/env python3
"""Evaluates a checkpoint of kan_driver with numpy and h5py alone: the formulas of the
manual, written down plainly. Slow; for checks and for small post-processing.

    evaluate.py runs/a/a.best.rst.h5 0.5 -0.2      # one row of inputs, in your units
"""
import sys

import h5py
import numpy


def basis(x, knots, order):
    """B-splines of all inputs at all rows: x (rows, in), knots (in, G+2k+1) -> (rows, in, G+k)."""
    x, t = x[:, :, None], knots[None]
    b = ((t[..., :-1] <= x) & (x < t[..., 1:])).astype(float)
    for d in range(1, order + 1):
        left = (x - t[..., :-d - 1]) / (t[..., d:-1] - t[..., :-d - 1])
        right = (t[..., d + 1:] - x) / (t[..., d + 1:] - t[..., 1:-d])
        b = left * b[..., :-1] + right * b[..., 1:]
    return b


BASE = {"silu": lambda x: x / (1 + numpy.exp(-x)), "identity": lambda x: x}


def evaluate(path, x):
    """Outputs (rows, out), in the units of the targets, for inputs x (rows, in)."""
    with h5py.File(path) as file:
        data, network = file["data"], file["network"]
        x = (numpy.asarray(x, float) - data["input_shift"][:]) / data["input_scale"][:]
        for number in range(network.attrs["layers"]):
            layer = network[f"layer{number}"]
            coef = layer["coef"][:].astype(float)
            if "scale_spline" in layer:
                coef = coef * layer["scale_spline"][:][:, :, None]
            y = numpy.einsum("rij,ioj->ro", basis(x, layer["grid"][:], layer.attrs["order"]),
                             coef)
            if "scale_base" in layer:
                y += BASE[layer.attrs["base"]](x) @ layer["scale_base"][:].astype(float)
            x = y
        if x.shape[1] == len(data["target_scale"]):  # classes have one column of labels
            x = x * data["target_scale"][:] + data["target_shift"][:]
        return x


if __name__ == "__main__":
    print(*evaluate(sys.argv[1], [[float(value) for value in sys.argv[2:]]])[0])
