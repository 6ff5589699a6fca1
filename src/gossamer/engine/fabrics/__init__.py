"""What carries wires between real processes: torch.distributed, or memory that the members of a host share."""

from gossamer.engine.fabrics.fabric import Fabric, Key, Pending

__all__ = ["Fabric", "Key", "Pending"]
