"""A task of one's own, for `gossamer train examples/run.toml`: two half moons, told apart by a small network."""

import torch

from gossamer.tasks import Task


def loss(model, batch):
    inputs, labels = batch
    scores = model(inputs)
    right = (scores.argmax(-1) == labels).sum()
    return torch.nn.functional.cross_entropy(scores, labels), len(labels), {"correct": right}


def make(seed=0, hidden=32):
    from sklearn.datasets import make_moons

    points, sides = make_moons(1200, noise=0.1, random_state=0)
    inputs, labels = torch.tensor(points, dtype=torch.float32), torch.tensor(sides)
    torch.manual_seed(seed)
    model = torch.nn.Sequential(torch.nn.Linear(2, hidden), torch.nn.ReLU(), torch.nn.Linear(hidden, 2))
    return Task(model, (inputs[:900], labels[:900]), (inputs[900:], labels[900:]), loss)
