#!/usr/bin/env python3
"""What a step should take on GPUs that it has not run on: a roofline of each kernel from its
formulas, for the models of kan_bench. Prints the table of docs/gpu-model.md.

  gpu_model.py            the table, Markdown
  gpu_model.py --kernels  every kernel of every model, as tab-separated lines

A kernel takes its launch and the longest of four: arithmetic at the peak rate, accesses of
threads at the rate of the load-store pipes, traffic beyond L1 at the rate of L2 (the part of it
that is not coefficients at that of memory where a step's data do not fit L2), and the longest
chain of dependent steps of a thread times the rounds in which teams go through
the device. Counts are of numbers and of operations as written (an FMA is two). Nothing here is
measured.
"""
import argparse
import dataclasses
import math
import pathlib
import sys

TOP = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(TOP / "scripts"))
import team_plan as tp  # noqa: E402
from team_plan import ceil_div  # noqa: E402


@dataclasses.dataclass
class Device:
    """Vendors' figures, but for what is named an assumption in docs/gpu-model.md."""
    name: str
    arch: str
    multiprocessors: int
    clock: float            # Hz
    peak: dict              # FLOP/s of vector instructions by size of a number
    memory: float           # bytes/s
    l2: float               # bytes/s: assumption
    l2_bytes: int
    shared_pipe: int        # bytes a clock of a multiprocessor, scratch
    l1_pipe: int            # the same of L1; equal and one where is_one_pipe
    is_one_pipe: bool
    latency: int            # clocks of a load that L1 misses: assumption
    near: int               # clocks of a load of scratch: assumption
    registers: dict         # of a thread, by (kernel, size): scripts/device_check, order 3


DEVICES = [
    Device("A100 SXM 40 GB", "sm_80", 108, 1.41e9, {4: 19.5e12, 8: 9.7e12}, 1.555e12, 4.0e12,
           40 << 20, 128, 128, True, 300, 30,
           {("tile", 4): 122, ("gradient", 4): 128, ("tile", 8): 138, ("gradient", 8): 142}),
    Device("H100 SXM", "sm_90", 132, 1.83e9, {4: 66.9e12, 8: 33.5e12}, 3.35e12, 5.5e12,
           50 << 20, 128, 128, True, 300, 30,
           {("tile", 4): 121, ("gradient", 4): 128, ("tile", 8): 140, ("gradient", 8): 150}),
    Device("MI250X, one GCD", "gfx90a", 110, 1.7e9, {4: 23.9e12, 8: 23.9e12}, 1.6e12, 3.4e12,
           8 << 20, 128, 64, False, 500, 64,
           {("tile", 4): 96, ("gradient", 4): 81, ("tile", 8): 126, ("gradient", 8): 126}),
]
LAUNCH = {"stream": 4.0e-6, "graph": 1.5e-6}  # a kernel: assumption
EFFICIENCY = {"arithmetic": 0.6, "pipe": 0.7, "traffic": 0.7}  # of the peak: assumption
OPERATION, BARRIER = 5, 40  # clocks of a dependent operation, of a barrier: assumption

MODELS = [([2, 64, 1], 10, rows) for rows in (512, 1024, 16384)]
MODELS += [([64, 64, 64], 5, rows) for rows in (1024, 16384)] + [([784, 64, 10], 5, 256)]


@dataclasses.dataclass
class Kernel:
    name: str
    flops: float = 0
    near: float = 0      # bytes of scratch that threads ask for
    far: float = 0       # bytes of L1 that threads ask for
    table: float = 0     # bytes of coefficients beyond L1
    stream: float = 0    # bytes of everything else beyond L1
    chain: float = 0     # clocks of the longest chain of a team
    teams: int = 1
    held: int = 16       # teams that a multiprocessor holds


def basis_flops(order, size, slopes):
    """Of one point: interval, basis values (slopes too) and base (its slope too)."""
    place, exp = 12, 23 if size == 4 else 35
    return place + 3 * order * (order + 1) + exp + 4 + slopes * (2 * order + 1 + 4)


def chain_of_basis(order, size):
    return OPERATION * (12 + 6 * order + (23 if size == 4 else 35) / 2)


def held_teams(check, device, kernel, size, scratch):
    warps, _ = check.warps(device.arch, device.registers[kernel, size], scratch)
    return warps // (tp.THREADS // (32 if device.arch.startswith("sm") else 64))


def tile_kernel(layers, rows, leaves, size, device, check):
    """Stage 1; forward through all layers, back through all but the first."""
    tile = tp.tile_of(layers, rows, size)
    tiles = leaves * ceil_div(ceil_div(rows, leaves), tile.rows)
    k = Kernel("TeamTile", teams=tiles,
               held=held_teams(check, device, "tile", size, tile.scratch))
    k.chain = 2 * device.latency
    for number, (n, m, grid, order) in enumerate(layers):
        edges, terms = n * m, order + 2  # k+1 B-splines and the base
        touched = n * m * (min(grid + 2 * order, tile.rows * (order + 1)) + 1) * size
        narrow = m <= tp.PARTS
        k.flops += rows * (n * basis_flops(order, size, False) + 2 * terms * edges)
        k.near += rows * (edges * ((terms + 1) * size + 2 * narrow * size) + n * (terms + 1) * size)
        k.far += rows * edges * terms * size
        k.table += tiles * touched
        k.stream += rows * (n + m) * size
        blocks = ceil_div(n, tile.block)
        inputs = ceil_div(n, blocks)
        fill = chain_of_basis(order, size) + device.latency + BARRIER
        step = OPERATION * terms + device.near
        rounds = ceil_div(tile.rows * inputs * m if narrow else tile.rows * m, tp.THREADS)
        k.chain += blocks * (fill * ceil_div(tile.rows * inputs, tp.THREADS) + BARRIER
                             + rounds * (device.latency + step * (1 if narrow else inputs))
                             + narrow * (BARRIER + OPERATION * inputs))
        if number == 0:
            continue
        parts = min(m, tp.PARTS)
        k.flops += rows * (n * basis_flops(order, size, True) + (2 * terms + 1) * edges)
        k.near += rows * (edges * size + n * (2 * terms + 1 + 2 * parts) * size)
        k.far += rows * edges * terms * size
        k.table += tiles * touched
        k.stream += rows * 2 * n * size
        rounds = ceil_div(tile.rows * inputs * parts, tp.THREADS)
        k.chain += blocks * (fill * ceil_div(tile.rows * inputs, tp.THREADS) + 2 * BARRIER
                             + rounds * (device.latency + step * ceil_div(m, parts))
                             + OPERATION * parts)
    return k


def gradient_kernel(layers, rows, leaves, size, device, check):
    """Stage 2; every edge adds k+2 products a row to sums in scratch."""
    k = Kernel("TeamGradient", held=held_teams(check, device, "gradient", size,
                                               tp.gradient_scratch(layers, size)))
    k.teams, longest = 0, 0
    for (n, m, grid, order), cut in zip(layers, tp.cuts_of(layers, size)):
        edges, terms, blocks = n * m, order + 2, cut.input_blocks * cut.output_blocks
        k.teams += leaves * blocks
        k.flops += rows * (n * cut.output_blocks * basis_flops(order, size, False)
                           + 2 * terms * edges)
        k.near += rows * (edges * (2 * (order + 1) + terms + 2) * size
                          + n * cut.output_blocks * (terms + 1) * size)
        k.stream += rows * (n * cut.output_blocks + m * cut.input_blocks) * size
        k.stream += leaves * edges * (grid + order + 1) * size
        chunks = ceil_div(ceil_div(rows, leaves), cut.samples)
        fills = ceil_div(cut.samples * cut.inputs, tp.THREADS)
        chain = chunks * (fills * chain_of_basis(order, size) + device.latency + 2 * BARRIER
                          + cut.samples * (device.near + OPERATION * terms))
        longest = max(longest, chain)
    k.chain = device.latency + longest
    return k


def small_kernels(layers, leaves, size, device):
    """The tree over leaves, and what comes after it; one element a thread."""
    table = tp.table_numbers(layers)
    parameters = sum(n * m * (grid + order + 1) for n, m, grid, order in layers)
    most = max(grid + order for _, _, grid, order in layers)
    passes = 0
    left = leaves
    while left >= 4:
        passes, left = passes + left // 4, left // 4
    passes += left // 2
    edges = sum(n * m for n, m, _, _ in layers)
    wait = device.latency
    blocks = ceil_div(parameters, 1024)

    def of(name, items, numbers, chain):
        return Kernel(name, stream=numbers * size, chain=chain, teams=ceil_div(items, tp.THREADS))

    tree = of("add_leaves", table, table * leaves * 5 / 3, wait * passes)
    return ([tree] if leaves > 1 else []) + [
        of("finish", edges, 2 * parameters, 2 * wait + OPERATION * most),
        of("sum_up", 1, 0, 2 * wait + leaves * OPERATION + 7 * BARRIER),
        of("scale_and_square", blocks, 2 * parameters, 128 * (wait / 4 + 8 * OPERATION)),
        of("judge", 1, 0, 2 * wait + math.ceil(math.log2(blocks + 1)) * (wait + BARRIER)),
        of("stamp", 1, 0, wait),
        of("update", parameters, 7 * parameters, 2 * wait + 60 * OPERATION),
        of("form", edges, 2 * parameters, 2 * wait + OPERATION * most),
    ]


def times(kernel, size, device, footprint):
    """Seconds of a kernel by what may bound it, without its launch."""
    clocks = device.multiprocessors * device.clock * EFFICIENCY["pipe"]
    if device.is_one_pipe:
        pipe = (kernel.near + kernel.far) / (device.shared_pipe * clocks)
    else:
        pipe = max(kernel.near / (device.shared_pipe * clocks),
                   kernel.far / (device.l1_pipe * clocks))
    stream = kernel.stream / (device.l2 if footprint <= device.l2_bytes else device.memory)
    rounds = ceil_div(kernel.teams, device.multiprocessors * kernel.held)
    return {"arithmetic": kernel.flops / (device.peak[size] * EFFICIENCY["arithmetic"]),
            "pipe": pipe,
            "traffic": (kernel.table / device.l2 + stream) / EFFICIENCY["traffic"],
            "chain": kernel.chain * rounds / device.clock}


def step(widths, grid, rows, size, device, check):
    """Kernels of a step with seconds by bound, and the leaves."""
    layers = tp.network(widths, grid)
    leaves = tp.device_leaves(layers, rows)
    kernels = [tile_kernel(layers, rows, leaves, size, device, check),
               gradient_kernel(layers, rows, leaves, size, device, check)]
    kernels += small_kernels(layers, leaves, size, device)
    footprint = (rows * tp.row_numbers(layers) + leaves * tp.table_numbers(layers)) * size
    return [(k, times(k, size, device, footprint)) for k in kernels], leaves


def predict(widths, grid, rows, size, device, check):
    """{kernels, stream, graph (seconds), bounds of the two stages}."""
    kernels, leaves = step(widths, grid, rows, size, device, check)
    busy = sum(max(t.values()) for _, t in kernels)
    bounds = [max(t, key=t.get) for _, t in kernels]
    return dict(leaves=leaves, launches=len(kernels), busy=busy, bounds=bounds, kernels=kernels,
                **{how: busy + len(kernels) * each for how, each in LAUNCH.items()})


def name_of(widths, grid, rows, size):
    return "-".join(map(str, widths)) + f"_G{grid}_k3_b{rows}_f{8 * size}"


def largest(p):
    """What takes most of a step in a graph."""
    parts = {k.name + ", " + b: max(t.values()) for (k, t), b in zip(p["kernels"], p["bounds"])}
    parts["launches"] = p["launches"] * LAUNCH["graph"]
    return max(parts, key=parts.get)


def tables(check):
    lines = ["| model | device | leaves | TeamTile µs | bound | TeamGradient µs | bound | "
             "other kernels µs | step µs, stream | step µs, graph | samples/s, graph | "
             "ns per sample x edge, graph | most of it |",
             "| --- | --- | ---: | ---: | --- | ---: | --- | ---: | ---: | ---: | ---: | ---: | --- |"]
    for size in (4, 8):
        for widths, grid, rows in MODELS:
            edges = sum(n * m for n, m in zip(widths, widths[1:]))
            for device in DEVICES:
                p = predict(widths, grid, rows, size, device, check)
                us = [1e6 * max(t.values()) for _, t in p["kernels"]]
                lines.append(
                    f"| {name_of(widths, grid, rows, size)} | {device.name} | {p['leaves']} | "
                    f"{us[0]:.1f} | {p['bounds'][0]} | {us[1]:.1f} | {p['bounds'][1]} | "
                    f"{sum(us[2:]):.1f} | {1e6 * p['stream']:.0f} | {1e6 * p['graph']:.0f} | "
                    f"{rows / p['graph']:.2e} | {1e9 * p['graph'] / (rows * edges):.4f} | "
                    f"{largest(p)} |")
    return "\n".join(lines) + "\n"


def load_check():
    import importlib.machinery
    import importlib.util
    loader = importlib.machinery.SourceFileLoader("device_check", str(TOP / "scripts/device_check"))
    check = importlib.util.module_from_spec(importlib.util.spec_from_loader(loader.name, loader))
    loader.exec_module(check)
    return check


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kernels", action="store_true")
    check = load_check()
    if not parser.parse_args().kernels:
        print(tables(check), end="")
        return
    print("model", "device", "kernel", "teams", "flops", "scratch_bytes", "l1_bytes", "table",
          "stream", "bound", "us", sep="\t")
    for size in (4, 8):
        for widths, grid, rows in MODELS:
            for device in DEVICES:
                for k, t in step(widths, grid, rows, size, device, check)[0]:
                    print(name_of(widths, grid, rows, size), device.name, k.name, k.teams,
                          *(f"{x:.4g}" for x in (k.flops, k.near, k.far, k.table, k.stream)),
                          max(t, key=t.get), f"{1e6 * max(t.values()):.2f}", sep="\t")


if __name__ == "__main__":
    main()
