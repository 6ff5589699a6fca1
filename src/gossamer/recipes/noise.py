"""The gradient noise scale, and the critical batch it implies, from two norms that every data-parallel step knows.

With |G_b|^2, the mean square norm of gradients of b samples, and |G_B|^2 that of their average over B samples,
|G|^2 = (B |G_B|^2 - b |G_b|^2) / (B - b), tr(S) = (|G_b|^2 - |G_B|^2) / (1/b - 1/B), and the noise scale is
tr(S) / |G|^2. A batch of that many samples needs twice the samples that the smallest would (McCandlish et al. 2018).
"""

from __future__ import annotations

from gossamer.parts.refusal import Refused, real


class NoiseScale:
    """Smooths both estimates, each alone, for their ratio is biased; `decay` is of one step."""

    def __init__(self, decay: float = 0.95) -> None:
        real("NoiseScale", "decay", decay, 0.0, 1.0, open_high=True)
        self._decay, self._weight = decay, 0.0
        self._signal = self._noise = 0.0

    def saw(self, small: float, small_square: float, large: int, large_square: float) -> None:
        """A step: the mean over workers of the squared norm of their own gradient of `small` samples, and the squared
        norm of the average of all, of `large` samples."""
        real("NoiseScale", "small", small, 1.0, 1e18)
        if large <= small:
            raise Refused(
                f"NoiseScale: {large} samples of all are no more than {small:g} of one", "two workers or more"
            )
        signal = (large * large_square - small * small_square) / (large - small)
        noise = (small_square - large_square) / (1 / small - 1 / large)
        self._weight = self._decay * self._weight + 1.0 - self._decay
        self._signal = self._decay * self._signal + (1.0 - self._decay) * signal
        self._noise = self._decay * self._noise + (1.0 - self._decay) * noise

    @property
    def scale(self) -> float | None:
        """In samples; None before there is an estimate, or while noise hides the gradient."""
        if not self._weight or self._signal <= 0 or self._noise <= 0:
            return None
        return self._noise / self._signal

    def cost(self, batch: int) -> float | None:
        """How many times the samples of the smallest batch one of `batch` needs: 1 + B / Bcrit."""
        scale = self.scale
        return None if scale is None else 1.0 + batch / scale

    def told(self, batch: int) -> str:
        """In words."""
        return told_cost(batch, self.scale)


def told_cost(batch: int, scale: float | None) -> str:
    """What a noise scale says of a batch, in words."""
    if scale is None:
        return "the noise scale is not known yet"
    return f"your batch of {batch:,} costs {1.0 + batch / scale:.1f}x the samples (noise scale {scale:,.0f})"
