"""A server: keeps shards of hubs for all members, and does nothing else. It knows no loop and no store."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import msgspec
import torch
from safetensors.torch import load as read_tensors
from safetensors.torch import save as written_tensors

from gossamer.engine.checkpoint.pack import pack
from gossamer.engine.checkpoint.unpack import unpack
from gossamer.engine.counter import as_body, as_bytes
from gossamer.engine.lines import GO_ON, LAY, RATES, SHOW, SHOWN, STATE, TAKEN, Lines, Said
from gossamer.engine.service import Service
from gossamer.replica import Hub
from gossamer.replica.joined import State

TREE = "tree"  # the name, among tensors, of what is none


class Server:
    """One server's hubs, one shard of a hub at most; `rates` is told what members' optimizers are set to, `died` of a
    member that is gone without a goodbye, and how often it had pushed, by slot."""

    def __init__(
        self,
        lines: Lines,
        hubs: dict[int, Hub],
        rates: Callable[[bytes], None],
        died: Callable[[int, Mapping[int, int]], None],
    ) -> None:
        self.hubs, self._lines, self._rates, self._died = hubs, lines, rates, died
        words = {LAY: self._lay, SHOW: self._show, RATES: self._set, STATE: self._tell, GO_ON: self._go_on}
        self.service = Service(lines, hubs, None, acknowledge=False, others=words)
        self.service.missed = self._miss  # that it is gone, its launcher says
        self.service.open()

    def attend(self, seconds: float) -> bool:
        """Serve for so long, or until all members have said goodbye: whether they have."""
        return self.service.attend(seconds)

    def close(self) -> None:
        """Say goodbye, too."""
        self.service.close()
        self._lines.close()

    def _miss(self, said: Said) -> None:
        with self.service.lock:
            pushed = {slot: hub.pushes[said.sender] for slot, hub in self.hubs.items() if said.sender in hub.pushes}
        self._died(said.sender, pushed)

    def _lay(self, said: Said) -> None:
        hub = self.hubs[said.slot]
        assert said.body is not None
        with self.service.lock, torch.no_grad():
            for part in (hub.centre, *hub.known.values()):
                part.copy_(said.body)
        self._lines.reply(said.sender, TAKEN, said.slot)

    def _show(self, said: Said) -> None:
        with self.service.lock:
            now = self.hubs[said.slot].centre.detach().cpu().clone()
        self._lines.reply(said.sender, SHOWN, said.slot, body=now)

    def _set(self, said: Said) -> None:
        assert said.body is not None
        with self.service.lock:
            self._rates(as_bytes(said.body))

    def _tell(self, said: Said) -> None:
        with self.service.lock:
            told = as_body(packed(self.hubs[said.slot].state()))
        self._lines.reply(said.sender, SHOWN, said.slot, body=told)

    def _go_on(self, said: Said) -> None:
        assert said.body is not None
        with self.service.lock, torch.no_grad():
            self.hubs[said.slot].resume(unpacked(as_bytes(said.body)))
        self._lines.reply(said.sender, TAKEN, said.slot)


def packed(state: State) -> bytes:
    """A hub's state as it travels: tensors, and the tree they belong to."""
    tree, tensors = pack(state)
    plain = as_body(msgspec.json.encode(tree))
    return written_tensors({**{f"={name}": tensor.cpu() for name, tensor in tensors.items()}, TREE: plain})


def unpacked(told: bytes) -> State:
    """The inverse."""
    tensors = read_tensors(told)
    tree = msgspec.json.decode(as_bytes(tensors.pop(TREE)))
    found: State = unpack(tree, {name.removeprefix("="): tensor for name, tensor in tensors.items()})
    return found
