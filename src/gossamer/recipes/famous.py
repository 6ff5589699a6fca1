"""The famous recipes, each one expression. Constants that no text at hand gives are ours, and said to be."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from gossamer.parts.refusal import real
from gossamer.recipes.optimizer import Optimizer
from gossamer.recipes.recipe import Recipe
from gossamer.recipes.schedule import SLOW_START, Polynomial, Stairs, Steps, Warmup


def goyal(base_batch: int = 0, epochs: float = 90.0, rate: float = 0.1, warmup: float = 5.0) -> Recipe:
    """Facebook's hour: linear scaling, warm-up per iteration over 5 epochs, a tenth of the rate at 30, 60 and 80;
    residual blocks begin as the identity."""
    e = _stretched(epochs)
    real("goyal", "warmup", warmup, 0.0, 90.0)
    then = Steps((30.0 * e, 60.0 * e, 80.0 * e), 0.1)
    return Recipe(
        Optimizer("nesterov", rate, 0.9, 1e-4), Warmup(warmup * e, 256 / 8192, then), epochs, 256, 8192, base_batch,
        zero_gamma=True,
    )  # fmt: skip


def smith(base_batch: int = 0, epochs: float = 90.0, rate: float = 0.1) -> Recipe:
    """Google's half-hour: where the rate would fall to half, the batch doubles instead; later the rate falls."""
    e = _stretched(epochs)
    then = Steps((60.0 * e, 80.0 * e), 0.1)
    return Recipe(
        Optimizer("nesterov", rate, 0.9, 1e-4), Warmup(5.0 * e, 256 / 8192, then), epochs, 256, 8192, base_batch,
        ((0.0, 1), (30.0 * e, 2)), "constant",
    )  # fmt: skip


def you(base_batch: int = 0, epochs: float = 90.0, rate: float = 1.0, trust: float = 0.01) -> Recipe:
    """Berkeley's 20 minutes: LARS, warm-up, and a rate that falls as a parabola."""
    e = _stretched(epochs)
    return Recipe(
        Optimizer("lars", rate, 0.9, 5e-4, trust), Warmup(5.0 * e, 0.0, Polynomial(2.0)), epochs, 0, 32768, base_batch
    )


def akiba(base_batch: int = 0, epochs: float = 90.0, rate: float = 0.1) -> Recipe:
    """PFN's 15 minutes: RMSprop becomes SGD around epoch 10, the rate starts slowly (half of it for 40 epochs), and
    batch norm has no moving averages."""
    e = _stretched(epochs)
    slow = Stairs(tuple((start * e, factor) for start, factor in SLOW_START.stairs))
    return Recipe(Optimizer("rmsprop_to_sgd", rate, 0.9, 1e-4), slow, epochs, 256, 32768, base_batch, norms="fresh")


def jia(base_batch: int = 0, epochs: float = 90.0, rate: float = 1.0, trust: float = 0.01) -> Recipe:
    """Tencent's 6.6 minutes: LARS with warm-up, no decay of biases and norms, gradients in 16 bits."""
    e = _stretched(epochs)
    return Recipe(
        Optimizer("lars", rate, 0.9, 1e-4, trust), Warmup(5.0 * e, 0.0, Polynomial(2.0)), epochs, 0, 65536, base_batch,
        strategy="half", decays="weights",
    )  # fmt: skip


def sony(
    base_batch: int = 0,
    epochs: float = 90.0,
    rate: float = 1.0,
    trust: float = 0.01,
    smoothing: float = 0.1,
    grow: float = 1 / 3,
) -> Recipe:
    """Both of Sony's runs in one: LARS, the growing batch of the 224 seconds, doubled when `grow` of the run is over,
    the label smoothing of the 122 seconds, and batch norm without moving averages."""
    e = _stretched(epochs)
    real("sony", "grow", grow, 0.01, 0.99)
    return Recipe(
        Optimizer("lars", rate, 0.9, 5e-5, trust), Warmup(5.0 * e, 0.0, Polynomial(2.0)), epochs, 0, 34816, base_batch,
        ((0.0, 1), (grow * epochs, 2)), "constant", smoothing, "half", "fresh",
    )  # fmt: skip


def _stretched(epochs: float) -> float:
    """By how much the moments of 90 epochs are stretched."""
    real("recipe", "epochs", epochs, 0.0, 1e6, open_low=True)
    return epochs / 90.0


@dataclass(frozen=True)
class Entry:
    """A recipe's name, what makes it, and which of its constants are the paper's."""

    name: str
    make: Callable[..., Recipe]
    ours: str

    @property
    def sentence(self) -> str:
        """What it does."""
        return " ".join((self.make.__doc__ or "").split())


FAMOUS: dict[str, Entry] = {
    each.name: each
    for each in (
        Entry(
            "goyal",
            goyal,
            "decay and Nesterov's momentum are ours, and that a run of any batch warms up from 1/32 of"
            " its rate, as 8,192 has 32 times that of 256; the three epochs and the identity are remembered",
        ),
        Entry("smith", smith, "batches, moments, rate, decay and warm-up are ours"),
        Entry("you", you, "batch, trust, rate, decay and schedule are ours"),
        Entry("akiba", akiba, "rate and decay are ours; both warm-ups and the batch norm are as we remember them"),
        Entry("jia", jia, "trust, rate, decay and schedule are ours"),
        Entry(
            "sony",
            sony,
            "rate, decay, warm-up, schedule and the moment of growth are ours; trust, smoothing, norms"
            " and the sizes, 34,816 and then 69,632, are remembered. The 122 seconds did not grow the batch, as we"
            " remember them: 55,296 throughout",
        ),
    )
}
