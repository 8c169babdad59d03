"""The workload every contestant trains: inputs/reference.deck, for those that read no deck.

A [2, 64, 1] network with 10 grid intervals on [-1, 1] and cubic splines learns x^2 + y^2 from
100,000 rows drawn uniformly from [-2, 2]^2, with noise of standard deviation 0.01: batches of 512
rows in an order shuffled anew each epoch, mean squared error, Adam at 1e-3, float32.

The last, short batch of an epoch (160 rows) is left to kan_driver: the peers only see full
batches, so that none of them is charged for a second compilation or a step that is mostly overhead.
"""

WIDTHS = (2, 64, 1)
GRID = 10
ORDER = 3
ROWS = 100_000
BATCH = 512
NOISE = 0.01
LEARNING_RATE = 1e-3
SEED = 42

EDGES = sum(a * b for a, b in zip(WIDTHS, WIDTHS[1:]))
PARAMETERS = EDGES * (GRID + ORDER + 2)  # coefficients, and a scale for base and spline
STEPS_PER_EPOCH = -(-ROWS // BATCH)  # of kan_driver, which keeps the short batch


def rows():
    """Inputs (ROWS, 2) and targets (ROWS, 1), float32; the same for every peer."""
    import numpy  # here, so that the parent process needs nothing but Python

    generator = numpy.random.default_rng(SEED)
    inputs = generator.uniform(-2, 2, (ROWS, 2))
    targets = (inputs**2).sum(axis=1, keepdims=True) + NOISE * generator.standard_normal((ROWS, 1))
    return inputs.astype(numpy.float32), targets.astype(numpy.float32)


def batches():
    """Row numbers (BATCH,), int32, of one batch after the other, without end."""
    import numpy

    generator = numpy.random.default_rng(SEED + 1)
    while True:
        order = generator.permutation(ROWS).astype(numpy.int32)
        for first in range(0, ROWS - BATCH + 1, BATCH):
            yield order[first : first + BATCH]


def mlp_width():
    """H of the network 2 -> H -> H -> 1 whose parameter count is nearest to the KAN's."""

    def parameters(h):
        return (WIDTHS[0] + 1) * h + (h + 1) * h + (h + 1) * WIDTHS[-1]

    return min(range(1, 1000), key=lambda h: abs(parameters(h) - PARAMETERS))
