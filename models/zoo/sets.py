"""Networks of sets: points in space, and messages along the edges of a graph."""

import torch

from .sample import ROWS, Sample, noise, seeded


def shared_layers(*channels):
    """The same layers for each point."""
    layers = []
    for before, behind in zip(channels, channels[1:]):
        layers += [torch.nn.Conv1d(before, behind, 1), torch.nn.BatchNorm1d(behind), torch.nn.ReLU()]
    return torch.nn.Sequential(*layers)


class PointNet(torch.nn.Module):
    """Qi et al. 2017: points are turned, and each is described by itself; the largest of each feature counts."""

    def __init__(self, classes):
        super().__init__()
        self.pose = shared_layers(3, 64, 128, 1024)
        self.turn = torch.nn.Linear(1024, 9)
        self.features = shared_layers(3, 64, 64, 64, 128, 1024)
        self.head = torch.nn.Sequential(
            torch.nn.Linear(1024, 512), torch.nn.ReLU(), torch.nn.Linear(512, 256), torch.nn.ReLU(),
            torch.nn.Linear(256, classes))

    def forward(self, points):
        turn = self.turn(self.pose(points).max(-1)[0]).view(-1, 3, 3)
        turned = torch.bmm(points.transpose(1, 2), turn).transpose(1, 2)
        return self.head(self.features(turned).max(-1)[0])


class MessagePassing(torch.nn.Module):
    """Gilmer et al. 2017: messages of both ends of each edge are added up where it ends."""

    def __init__(self, features, width, layers, classes):
        super().__init__()
        self.embedding = torch.nn.Linear(features, width)
        self.messages = torch.nn.ModuleList(
            torch.nn.Sequential(torch.nn.Linear(2 * width, width), torch.nn.ReLU(), torch.nn.Linear(width, width))
            for _ in range(layers))
        self.updates = torch.nn.ModuleList(torch.nn.GRUCell(width, width) for _ in range(layers))
        self.head = torch.nn.Linear(width, classes)

    def forward(self, nodes, edges):
        states = torch.relu(self.embedding(nodes))
        source, target = edges[0], edges[1]
        for message, update in zip(self.messages, self.updates):
            sent = message(torch.cat([states[source], states[target]], -1))
            received = torch.zeros_like(states).scatter_add(
                0, target.unsqueeze(1).expand(-1, sent.shape[1]), sent)
            states = update(received, states)
        return self.head(states)


def pointnet(points=1024, classes=40):
    return Sample(
        PointNet(classes), inputs={"points": noise(3, points)},
        outputs=["classes"], dynamic=ROWS, rows=4)


def message_passing(nodes=2000, edges=20000, features=64, width=128, layers=4, classes=16):
    return Sample(
        MessagePassing(features, width, layers, classes),
        inputs={"nodes": lambda rows, tokens: torch.randn(nodes, features, generator=seeded()),
                "edges": lambda rows, tokens: torch.randint(0, nodes, (2, edges), generator=seeded(1))},
        outputs=["classes"], dynamic={}, fixed=True)
