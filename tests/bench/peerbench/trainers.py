"""The training loops the peers run in: one class for each framework.

A step gathers a batch of shuffled rows, runs forward, mean squared error, backward and Adam.
steps(n) returns the loss of the last of n steps, and only when all of them are computed. Nothing is
recorded between steps, while kan_driver writes its history: the difference favours the peers.

The frameworks are used as someone in a hurry would: torch's Adam with fused=True, which is
faster on a CPU than its default, and JAX with the whole step, gather included, in one jit.
"""

import os

from .workload import LEARNING_RATE, SEED


class TorchTrainer:
    def __init__(self, workload, build):
        import torch

        torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))
        torch.manual_seed(SEED)
        self.model = build()
        self.inputs, self.targets = (torch.from_numpy(a) for a in workload.data())
        self.batches = map(torch.from_numpy, workload.batches())
        trained = [p for p in self.model.parameters() if p.requires_grad]
        self.parameters = sum(p.numel() for p in trained)
        self.optimizer = torch.optim.Adam(trained, lr=LEARNING_RATE, fused=True)
        self.criterion = torch.nn.MSELoss()

    def steps(self, count):
        for _ in range(count):
            batch = next(self.batches)
            inputs, targets = self.inputs[batch], self.targets[batch]
            self.optimizer.zero_grad(set_to_none=True)
            loss = self.criterion(self.model(inputs), targets)
            loss.backward()
            self.optimizer.step()
        return loss.item()


class JaxTrainer:
    def __init__(self, workload, build):
        import jax
        import optax
        from flax import nnx

        graph, weights, rest = nnx.split(build(), nnx.Param, ...)
        optimizer = optax.adam(LEARNING_RATE)
        self.state = weights, optimizer.init(weights)
        self.parameters = sum(leaf.size for leaf in jax.tree.leaves(weights))
        self.inputs, self.targets = (jax.device_put(a) for a in workload.data())
        self.batches = workload.batches()

        def loss_of(weights, inputs, targets):
            return ((nnx.merge(graph, weights, rest)(inputs) - targets) ** 2).mean()

        def step(state, inputs, targets, batch):
            weights, moments = state
            loss, gradient = jax.value_and_grad(loss_of)(weights, inputs[batch], targets[batch])
            update, moments = optimizer.update(gradient, moments)
            return (optax.apply_updates(weights, update), moments), loss

        self.step = jax.jit(step, donate_argnums=0)

    def steps(self, count):
        for _ in range(count):
            self.state, loss = self.step(self.state, self.inputs, self.targets, next(self.batches))
        return float(loss)


TRAINERS = {"torch": TorchTrainer, "jax": JaxTrainer}
