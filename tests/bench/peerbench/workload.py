"""The table of workloads. A new one is one entry of WORKLOADS, and a case of kan_bench.

A network learns y_o = x_o^2 + x_(o+1)^2 (inputs counted round) with noise of standard deviation
0.01 from rows drawn uniformly: batches in an order shuffled anew each epoch, mean squared error,
Adam at 1e-3, float32. "reference" is inputs/reference.deck, for those that read no deck, and
is trained by kan_driver; of the others kan_bench trains a case of the same shape.

The last, short batch of an epoch is left to kan_driver: the peers only see full batches, so that
none of them is charged for a second compilation or a step that is mostly overhead.
"""

from dataclasses import dataclass, field

NOISE = 0.01
LEARNING_RATE = 1e-3
SEED = 42


@dataclass(frozen=True)
class Workload:
    name: str  # as --workloads takes it
    widths: tuple
    grid: int
    batch: int
    rows: int
    case: str = ""  # of kan_bench; empty: kan_driver trains the deck
    order: int = 3
    span: float = 1  # inputs are in [-span, span]
    scales: int = 1  # trained of each edge beside its coefficients, by kokkan
    left_out: dict = field(default_factory=dict)  # peers that are not tried, and why

    @property
    def edges(self):
        return sum(a * b for a, b in zip(self.widths, self.widths[1:]))

    @property
    def parameters(self):
        return self.edges * (self.grid + self.order + self.scales)

    @property
    def steps_per_epoch(self):
        return -(-self.rows // self.batch)  # of kan_driver, which keeps the short batch

    def __str__(self):
        return f"[{', '.join(map(str, self.widths))}], G = {self.grid}, batch {self.batch:,}"

    def data(self):
        """Inputs (rows, in) and targets (rows, out), float32; the same for every peer."""
        import numpy  # here, so that the parent process needs nothing but Python

        generator = numpy.random.default_rng(SEED)
        inputs = generator.uniform(-self.span, self.span, (self.rows, self.widths[0]))
        used = numpy.arange(self.widths[-1] + 1) % self.widths[0]
        squares = inputs[:, used] ** 2
        targets = squares[:, :-1] + squares[:, 1:]
        targets += NOISE * generator.standard_normal(targets.shape)
        return inputs.astype(numpy.float32), targets.astype(numpy.float32)

    def batches(self):
        """Row numbers (batch,), int32, of one batch after the other, without end."""
        import numpy

        generator = numpy.random.default_rng(SEED + 1)
        while True:
            order = generator.permutation(self.rows).astype(numpy.int32)
            for first in range(0, self.rows - self.batch + 1, self.batch):
                yield order[first : first + self.batch]

    def mlp_width(self):
        """H of in -> H -> H -> out whose parameter count is nearest to the KAN's: within 2 %."""

        def excess(h):
            count = (self.widths[0] + 1) * h + (h + 1) * h + (h + 1) * self.widths[-1]
            return abs(count - self.parameters) / self.parameters

        width = min(range(1, 10_000), key=excess)
        if excess(width) > 0.02:
            raise ValueError(f"no MLP has within 2 % of {self.parameters} parameters")
        return width


WORKLOADS = (
    Workload("reference", (2, 64, 1), grid=10, batch=512, rows=100_000, span=2, scales=2),
    Workload("small", (2, 64, 1), 5, 1024, 131_072, "2-64-1_G5_k3_b1024_f32"),
    Workload("wide", (64, 64, 64), 5, 1024, 131_072, "64-64-64_G5_k3_b1024_f32"),
    Workload(
        "image",
        (784, 64, 10),
        grid=5,
        batch=256,
        rows=10_496,
        case="784-64-10_G5_k3_b256_f32",
        left_out={"pykan": "its step loops over the 50,816 edges in Python"},
    ),
)
