"""Mixed precision: forward and backward in 16 bits, weights and their update in 32, and a loss scaled so that small
gradients survive. torch does the casting and looks for overflows; a member that sees one skips the step with all."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from gossamer.parts.refusal import Refused, real
from gossamer.parts.value import Value
from gossamer.recipes.master import Master

KINDS = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
FIRST = 2.0**16  # a dynamic scale begins so, doubles after 2,000 steps without an overflow, and halves with each
GROWS = 2000
HOPELESS = 10  # overflows in a row, with a constant scale: the next step will have one, too


@dataclass(frozen=True, repr=False)
class Precision(Value):
    """`kind`: fp32, bf16 or fp16. `scale` multiplies the loss of fp16; 0 is dynamic."""

    kind: str = "fp32"
    scale: float = 0.0

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise Refused(f"precision: there is no {self.kind!r}", ", ".join(KINDS))
        real("precision", "scale", self.scale, 0.0, 2.0**24)
        if self.scale and self.kind != "fp16":
            raise Refused(f"precision: {self.kind} has the range of 32 bits; its loss needs no scale", "scale=0")

    def casting(self, device: torch.device) -> torch.autocast:
        """Around forward and loss: products in 16 bits, sums, softmax and losses in 32."""
        short = self.kind != "fp32"
        return torch.autocast(device.type, KINDS[self.kind] if short else torch.bfloat16, enabled=short)

    def scaler(self, device: torch.device) -> Scaler:
        """What scales the loss, and takes the scale off the gradients again before anybody clips or steps."""
        return Scaler(device, self)


class LossScale:
    """Scales a loss, and takes the scale off every gradient as it comes out of backward, before anybody sees it.

    So codecs, clipping and updates know nothing of it. Whoever steps says whether anything was not a number: the
    scale halves then, unless it is constant, and doubles after many steps without.
    """

    def __init__(self, precision: Precision, parameters: Iterable[Tensor]) -> None:
        self.scale, self._constant, self._good, self._bad = 1.0, bool(precision.scale), 0, 0
        self._on = precision.kind == "fp16"
        if self._on:
            self.scale = precision.scale or FIRST
            for each in parameters:
                each.register_hook(lambda slope: slope / self.scale)  # type: ignore[no-untyped-call]

    def backward(self, loss: Tensor) -> None:
        """Of the scaled loss."""
        (loss if self.scale == 1.0 else loss * self.scale).backward()  # type: ignore[no-untyped-call]

    def stepped(self, *, overflown: bool) -> None:
        """A step is over; whether a gradient was not a number, on whatever worker.

        Refuses a constant scale that nothing but overflows comes of.
        """
        self._bad = self._bad + 1 if overflown else 0
        if not self._on or self._constant:
            self._refuse_hopeless()
            return
        self._good = 0 if overflown else self._good + 1
        if overflown:
            self.scale = max(1.0, self.scale / 2)
        elif self._good == GROWS:
            self.scale, self._good = self.scale * 2, 0

    def _refuse_hopeless(self) -> None:
        if self._on and self._bad == HOPELESS:
            raise Refused(
                f"precision: {HOPELESS} steps in a row overflowed fp16, and were skipped, with scale {self.scale:.10g}",
                "scale 0, a dynamic one, which halves until they fit" if self.scale > 1 else "bf16, or fp32",
            )

    def state_dict(self) -> dict[str, float]:
        """The scale, and for how many steps it has held."""
        return {"scale": self.scale, "good": float(self._good)} if self._on else {}

    def load_state_dict(self, state: dict[str, float]) -> None:
        """Go on with it."""
        self.scale, self._good = state["scale"], int(state["good"])


class Scaler:
    """torch's own GradScaler, whose scale may also stay as it is; it does nothing unless it is for fp16."""

    def __init__(self, device: torch.device, precision: Precision) -> None:
        self._constant = precision.scale
        self.torchs = torch.amp.GradScaler(
            device.type, init_scale=precision.scale or FIRST, enabled=precision.kind == "fp16"
        )

    @property
    def scale(self) -> float:
        """By what the loss is multiplied now."""
        return float(self.torchs.get_scale())

    def backward(self, loss: Tensor) -> None:
        """Of the scaled loss."""
        self.torchs.scale(loss).backward()  # type: ignore[no-untyped-call]

    def unscale(self, optimizer: torch.optim.Optimizer) -> None:
        """Take the scale off the gradients, before they are clipped or looked at: with a `Master`, off its masters'."""
        if isinstance(optimizer, Master):
            optimizer.take()
            self.torchs.unscale_(optimizer.inner)
        else:
            self.torchs.unscale_(optimizer)

    def step(self, optimizer: torch.optim.Optimizer) -> None:
        """Step, unless there was an overflow; then the scale halves, if it may."""
        self.torchs.step(optimizer)
        self.torchs.update(self._constant or None)

    def state_dict(self) -> dict[str, Any]:
        """The scale, and for how many steps it has held."""
        return self.torchs.state_dict()

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on with it."""
        self.torchs.load_state_dict(state)
