"""One member: its parameters, its memories, its part of an exchange; and the hub's shorter part."""

from gossamer.replica.combine import combine
from gossamer.replica.desk import Answer, carried
from gossamer.replica.hub import Hub
from gossamer.replica.layout import Chosen, Layout
from gossamer.replica.local import Local
from gossamer.replica.replica import Replica, conclude

__all__ = ["Answer", "Chosen", "Hub", "Layout", "Local", "Replica", "carried", "combine", "conclude"]
