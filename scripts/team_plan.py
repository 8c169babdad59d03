"""How src/kan/engine/team_plan.cpp cuts the work of the team form, in Python: scratch of a team
for scripts/device_check, counts for tests/bench/gpu_model.py. tests/unit/engine_team.cpp and
tests/unit/device_check.py hold both to the same numbers.

A network is a list of layers; size is the bytes of a number. Rows and leaves are those of a
batch.
"""
import collections

THREADS, PARTS, MOST_TEAMS = 128, 8, 128
SCRATCH, TILE, SUMS, CHUNK, WORKSPACE = 32 << 10, 24 << 10, 20 << 10, 13 << 10, 64 << 20

Layer = collections.namedtuple("Layer", "inputs outputs grid order")
Cut = collections.namedtuple("Cut", "inputs outputs input_blocks output_blocks samples in_table")
Tile = collections.namedtuple("Tile", "rows block scratch activations_near")


def network(widths, grid, order=3):
    return [Layer(n, m, grid, order) for n, m in zip(widths, widths[1:])]


def ceil_div(a, b):
    return -(-a // b)


def table_numbers(layers):
    """Numbers of the table of coefficients, which is that of a leaf's gradient too."""
    total = 0
    for n, m, grid, order in layers:
        total += ceil_div((n * (grid + 2 * order) + order) * m + n * m, 16) * 16
    return total


def row_numbers(layers):
    """Numbers that a row takes in the buffer between the stages."""
    return sum(layer.inputs + layer.outputs for layer in layers)


def block_of(tile):
    return max(8, min(THREADS // tile, 32))


def tile_of(layers, rows, size):
    """The tile of stage 1: rows, inputs of a block, bytes of scratch of a team."""
    order = max(layer.order for layer in layers)
    widest = max(layer.outputs for layer in layers)

    def near(tile):
        return (tile * 20 + tile * block_of(tile) * ((order + 2 + PARTS) * size + 4)
                + 4 * len(layers) + 32)

    def far(tile):
        return 2 * tile * widest * size + 32

    fits = near(4) + far(4) <= SCRATCH
    tile = 32
    while tile > 4 and (rows // tile < MOST_TEAMS or near(tile) + fits * far(tile) > TILE):
        tile //= 2
    return Tile(tile, block_of(tile), near(tile) + fits * far(tile), fits)


def chunk_bytes(layer, cut, size):
    return cut.samples * (cut.inputs * ((layer.order + 2) * size + 4) + cut.outputs * size) + 32


def sum_bytes(layer, cut, size):
    return (layer.grid + layer.order + 1) * cut.inputs * cut.outputs * size


def cuts_of(layers, size):
    """How stage 2 cuts each layer into blocks of edges."""
    cuts = []
    for layer in layers:
        n, m = layer.inputs, layer.outputs
        outputs = ceil_div(m, ceil_div(m, THREADS))
        inputs = max(1, min(THREADS // outputs, n))
        cut = Cut(inputs, outputs, ceil_div(n, inputs), ceil_div(m, outputs), 64, False)
        while cut.samples > 1 and chunk_bytes(layer, cut, size) > CHUNK:
            cut = cut._replace(samples=cut.samples // 2)
        cuts.append(cut)
    in_table = any(sum_bytes(l, c, size) > SUMS for l, c in zip(layers, cuts))
    return [cut._replace(in_table=in_table) for cut in cuts]


def gradient_scratch(layers, size):
    """Bytes of scratch of a team of stage 2."""
    return max(chunk_bytes(l, c, size) + (not c.in_table) * sum_bytes(l, c, size)
               for l, c in zip(layers, cuts_of(layers, size)))


def device_leaves(layers, rows):
    """Leaves of one rank's batch on a device in plain mode (leaves_for in trainer.cpp)."""
    edges = sum(n * m for n, m, _, _ in layers)
    parameters = sum(n * m * (grid + order + 1) for n, m, grid, order in layers)
    rows_of_leaf = max(32, 2 * parameters // edges)
    wanted = min(max(rows // rows_of_leaf, 1), 128, max(8, WORKSPACE // (8 * parameters)),
                 max(1, rows // 16))
    return 1 << (wanted.bit_length() - 1)
