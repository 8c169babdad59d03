"""The table of peers. A new peer is one entry of PEERS.

build(module) gets the imported module and returns the model: a torch.nn.Module, or a
flax.nnx.Module where framework is "jax". Whatever a peer offers to be faster on one core without
changing what it computes has an entry of its own; libraries are otherwise used with their defaults.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from . import workload

LAYERS = list(workload.WIDTHS)


@dataclass(frozen=True)
class Peer:
    name: str  # as --peers takes it
    module: str  # what is imported
    origin: str  # the package, in the registry's spelling, or the repository
    in_registry: bool
    build: Callable[[Any], Any]
    framework: str = "torch"
    note: str = ""

    def how_to_install(self):
        if self.in_registry:
            return f"pip install {self.origin}"
        return f"put a checkout of {self.origin} on PYTHONPATH"


def pykan(kan):
    return kan.KAN(
        width=LAYERS,
        grid=workload.GRID,
        k=workload.ORDER,
        seed=workload.SEED,
        device="cpu",
        auto_save=False,
    )


def pykan_speed(kan):
    model = pykan(kan)
    model.speed()  # without the symbolic branch, a loop over edges, and without kept activations
    return model


def efficient_kan(module):
    if Path(module.__file__).parent.with_name("fastkan").exists():
        raise ImportError("this is FastKAN's older copy; name the original before it on PYTHONPATH")
    return module.KAN(LAYERS, grid_size=workload.GRID, spline_order=workload.ORDER)


def fastkan(module):
    return module.FastKAN(LAYERS, num_grids=workload.GRID + workload.ORDER)


def inkan(module, compile_basis=True):
    return module.KANNetwork(
        LAYERS,
        grid_size=workload.GRID,
        spline_order=workload.ORDER,
        compile_basis=compile_basis,
    )


def jaxkan(module, layer_type="base"):
    settings = {"k": workload.ORDER, "G": workload.GRID}
    return module.KAN(LAYERS, layer_type, settings, seed=workload.SEED)


def mlp(nn):
    width = workload.mlp_width()
    return nn.Sequential(
        nn.Linear(LAYERS[0], width),
        nn.SiLU(),
        nn.Linear(width, width),
        nn.SiLU(),
        nn.Linear(width, LAYERS[-1]),
    )


PEERS = (
    Peer("pykan", "kan", "pykan", True, pykan, note="as it comes"),
    Peer("pykan-speed", "kan", "pykan", True, pykan_speed, note="after model.speed()"),
    Peer("efficient-kan", "efficient_kan", "Blealtan/efficient-kan", False, efficient_kan),
    Peer(
        "fastkan", "fastkan", "ZiyaoLi/fast-kan", False, fastkan, note="Gaussian bumps, no splines"
    ),
    Peer("inkan", "inkan", "inkan", True, inkan, note="basis through torch.compile, its default"),
    Peer("inkan-eager", "inkan", "inkan", True, lambda m: inkan(m, False), note="not compiled"),
    Peer("jaxkan", "jaxkan.models.KAN", "jaxkan", True, jaxkan, "jax", "layer type base"),
    Peer(
        "jaxkan-spline",
        "jaxkan.models.KAN",
        "jaxkan",
        True,
        lambda m: jaxkan(m, "spline"),
        "jax",
        "layer type spline",
    ),
    Peer("mlp", "torch.nn", "torch", True, mlp, note=f"2-H-H-1, H = {workload.mlp_width()}, SiLU"),
)
