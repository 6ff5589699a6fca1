"""The models that steps are timed on. Plain torch; knows nothing of gossamer."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F


def cnn() -> tuple[nn.Module, Tensor, Tensor]:
    """Two convolutions and two dense layers, 1.2 million parameters, 64 images of 28 x 28."""
    model = nn.Sequential(
        nn.Conv2d(1, 32, 3), nn.ReLU(), nn.Conv2d(32, 64, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(),
        nn.Linear(9216, 128), nn.ReLU(), nn.Linear(128, 10),
    )  # fmt: skip
    return model, torch.randn(64, 1, 28, 28), torch.randint(0, 10, (64,))


def mlp() -> tuple[nn.Module, Tensor, Tensor]:
    """Two hidden layers of 2,048, 5.8 million parameters, 64 samples."""
    model = nn.Sequential(nn.Linear(784, 2048), nn.ReLU(), nn.Linear(2048, 2048), nn.ReLU(), nn.Linear(2048, 10))
    return model, torch.randn(64, 784), torch.randint(0, 10, (64,))


class Block(nn.Module):
    """Two 3 x 3 convolutions with batch norm, and a way around them."""

    def __init__(self, before: int, width: int, stride: int) -> None:
        super().__init__()
        self.one, self.two = (
            nn.Conv2d(before, width, 3, stride, 1, bias=False),
            nn.Conv2d(width, width, 3, 1, 1, bias=False),
        )
        self.first, self.second = nn.BatchNorm2d(width), nn.BatchNorm2d(width)
        same = stride == 1 and before == width
        self.around = (
            nn.Identity()
            if same
            else nn.Sequential(nn.Conv2d(before, width, 1, stride, bias=False), nn.BatchNorm2d(width))
        )

    def forward(self, x: Tensor) -> Tensor:
        """Add what goes around to what goes through."""
        through = self.second(self.two(F.relu(self.first(self.one(x)))))
        return F.relu(through + self.around(x))


def resnet18() -> tuple[nn.Module, Tensor, Tensor]:
    """ResNet-18 with its ImageNet stem and ten classes, 11.2 million parameters, 16 images of 32 x 32."""
    widths = [
        (64, 64, 1),
        (64, 64, 1),
        (64, 128, 2),
        (128, 128, 1),
        (128, 256, 2),
        (256, 256, 1),
        (256, 512, 2),
        (512, 512, 1),
    ]
    model = nn.Sequential(
        nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU(), nn.MaxPool2d(3, 2, 1),
        *[Block(*each) for each in widths], nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, 10),
    )  # fmt: skip
    return model, torch.randn(16, 3, 32, 32), torch.randint(0, 10, (16,))


class Gpt(nn.Module):
    """A decoder of pre-norm layers with tied embeddings left out."""

    def __init__(self, width: int = 256, layers: int = 6, heads: int = 4, words: int = 128, context: int = 64) -> None:
        super().__init__()
        self.embed, self.where = nn.Embedding(words, width), nn.Parameter(torch.zeros(context, width))
        layer = nn.TransformerEncoderLayer(width, heads, 4 * width, 0.0, "gelu", batch_first=True, norm_first=True)
        self.layers = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
        self.head = nn.Linear(width, words)
        self.register_buffer("mask", nn.Transformer.generate_square_subsequent_mask(context), persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        """Scores of the next word at every place, classes second."""
        found: Tensor = self.head(self.layers(self.embed(x) + self.where, mask=self.mask, is_causal=True))
        return found.transpose(1, 2)


def gpt() -> tuple[nn.Module, Tensor, Tensor]:
    """Six layers of width 256, 4.8 million parameters, 8 sequences of 64."""
    return Gpt(), torch.randint(0, 128, (8, 64)), torch.randint(0, 128, (8, 64))


MODELS = {"cnn": cnn, "mlp": mlp, "resnet18": resnet18, "gpt": gpt}
