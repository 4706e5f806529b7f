"""Networks whose steps follow one another in time."""

import torch

from .sample import ROWS, TOKENS, Sample, noise, token_ids


class LanguageModel(torch.nn.Module):
    def __init__(self, vocabulary, width, layers):
        super().__init__()
        self.embedding = torch.nn.Embedding(vocabulary, width)
        self.network = torch.nn.LSTM(width, width, layers, batch_first=True)
        self.head = torch.nn.Linear(width, vocabulary)

    def forward(self, input_ids):
        return self.head(self.network(self.embedding(input_ids))[0])


class Recogniser(torch.nn.Module):
    """Frames of a spectrogram to letters."""

    def __init__(self, bands, width, layers, letters):
        super().__init__()
        self.network = torch.nn.GRU(bands, width, layers, batch_first=True, bidirectional=True)
        self.head = torch.nn.Linear(2 * width, letters)

    def forward(self, frames):
        return self.head(self.network(frames)[0])


def lstm(vocabulary=10000, width=650, layers=2):
    return Sample(
        LanguageModel(vocabulary, width, layers), inputs={"input_ids": token_ids(vocabulary)},
        outputs=["logits"], dynamic=TOKENS, fixed=True)


def gru(bands=80, width=256, layers=3, letters=40, frames=200):
    return Sample(
        Recogniser(bands, width, layers, letters),
        inputs={"frames": noise(frames, bands)},
        outputs=["letters"], dynamic=ROWS, fixed=True)
