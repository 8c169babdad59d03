"""The table of peers. A new peer is one entry of PEERS.

build(module, workload) gets the imported module and returns the model: a torch.nn.Module, or a
flax.nnx.Module where framework is "jax". Whatever a peer offers to be faster on one core without
changing what it computes has an entry of its own; libraries are otherwise used with their defaults.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .workload import SEED, Workload


@dataclass(frozen=True)
class Peer:
    name: str  # as --peers takes it
    module: str  # what is imported
    origin: str  # the package, in the registry's spelling, or the repository
    in_registry: bool
    build: Callable[[Any, Workload], Any]
    framework: str = "torch"
    note: str = ""  # {H}: width of the MLP

    def title(self, workload):
        note = self.note.format(H=workload.mlp_width())
        return f"{self.name} ({note})" if note else self.name

    def how_to_install(self):
        if self.in_registry:
            return f"pip install {self.origin}"
        return f"put a checkout of {self.origin} on PYTHONPATH"


def pykan(kan, workload):
    return kan.KAN(
        width=list(workload.widths),
        grid=workload.grid,
        k=workload.order,
        seed=SEED,
        device="cpu",
        auto_save=False,
    )


def pykan_speed(kan, workload):
    model = pykan(kan, workload)
    model.speed()  # without the symbolic branch, a loop over edges, and without kept activations
    return model


def efficient_kan(module, workload):
    if Path(module.__file__).parent.with_name("fastkan").exists():
        raise ImportError("this is FastKAN's older copy; name the original before it on PYTHONPATH")
    return module.KAN(list(workload.widths), grid_size=workload.grid, spline_order=workload.order)


def fastkan(module, workload):
    return module.FastKAN(list(workload.widths), num_grids=workload.grid + workload.order)


def inkan(module, workload, compile_basis=True):
    return module.KANNetwork(
        list(workload.widths),
        grid_size=workload.grid,
        spline_order=workload.order,
        compile_basis=compile_basis,
    )


def jaxkan(module, workload, layer_type="base"):
    settings = {"k": workload.order, "G": workload.grid}
    return module.KAN(list(workload.widths), layer_type, settings, seed=SEED)


def mlp(nn, workload):
    width = workload.mlp_width()
    return nn.Sequential(
        nn.Linear(workload.widths[0], width),
        nn.SiLU(),
        nn.Linear(width, width),
        nn.SiLU(),
        nn.Linear(width, workload.widths[-1]),
    )


PEERS = (
    Peer("pykan", "kan", "pykan", True, pykan, note="as it comes"),
    Peer("pykan-speed", "kan", "pykan", True, pykan_speed, note="after model.speed()"),
    Peer("efficient-kan", "efficient_kan", "Blealtan/efficient-kan", False, efficient_kan),
    Peer(
        "fastkan", "fastkan", "ZiyaoLi/fast-kan", False, fastkan, note="Gaussian bumps, no splines"
    ),
    Peer("inkan", "inkan", "inkan", True, inkan, note="basis through torch.compile, its default"),
    Peer(
        "inkan-eager",
        "inkan",
        "inkan",
        True,
        lambda m, w: inkan(m, w, compile_basis=False),
        note="not compiled",
    ),
    Peer("jaxkan", "jaxkan.models.KAN", "jaxkan", True, jaxkan, "jax", "layer type base"),
    Peer(
        "jaxkan-spline",
        "jaxkan.models.KAN",
        "jaxkan",
        True,
        lambda m, w: jaxkan(m, w, "spline"),
        "jax",
        "layer type spline",
    ),
    Peer("mlp", "torch.nn", "torch", True, mlp, note="in-H-H-out, H = {H}, SiLU"),
)
