"""ZeroMQ sockets with the settings that every connection of a job has: keys, limits, heartbeats. Knows no message."""

from __future__ import annotations

from typing import Any

import zmq

from gossamer.engine.messages.frame import PIECE

Socket = zmq.Socket[bytes]
LINGER = 2_000  # milliseconds in which what was said last may still leave
HANDSHAKE = 3_000  # milliseconds a connection may take to prove who it is
BEAT, SILENCE = 2_000, 6_000  # milliseconds between heartbeats, and without an answer until a peer counts as gone
SEAL = 64  # bytes by which an encrypted piece may be longer
UNREAD = 64  # messages that wait in memory for a reader; more wait in the sender's
ZAP = "inproc://zeromq.zap.01"  # where libzmq asks who may come in

BEGUN = zmq.EVENT_HANDSHAKE_SUCCEEDED
FAILED = zmq.EVENT_HANDSHAKE_FAILED_AUTH | zmq.EVENT_HANDSHAKE_FAILED_PROTOCOL | zmq.EVENT_HANDSHAKE_FAILED_NO_DETAIL
ENDED = zmq.EVENT_DISCONNECTED


def listener(context: zmq.Context[Any], keys: tuple[bytes, bytes], address: str) -> tuple[Socket, str]:
    """A socket that hears everybody who is let in, at a free port of `address`; and where that is."""
    socket = _common(context.socket(zmq.ROUTER), keys)
    socket.set(zmq.CURVE_SERVER, 1)
    socket.set(zmq.ZAP_DOMAIN, b"gossamer")
    socket.set(zmq.MAXMSGSIZE, PIECE + SEAL)
    socket.set(zmq.RCVHWM, UNREAD)
    socket.set(zmq.IPV6, int(":" in address))
    host = f"[{address}]" if ":" in address else address
    socket.bind(f"tcp://{host}:0")
    bound = socket.get(zmq.LAST_ENDPOINT)
    assert isinstance(bound, bytes)
    return socket, bound.rstrip(b"\0").decode()


def speaker(context: zmq.Context[Any], keys: tuple[bytes, bytes], theirs: bytes, address: str) -> Socket:
    """A socket that speaks to one peer, known by its key. Its queue has no limit: memory in it is lent, not copied."""
    socket = _common(context.socket(zmq.DEALER), keys)
    socket.set(zmq.CURVE_SERVERKEY, theirs)
    socket.set(zmq.SNDHWM, 0)
    socket.set(zmq.IPV6, int("[" in address))
    return socket


def gatekeeper(context: zmq.Context[Any]) -> Socket:
    """Where libzmq asks for each newcomer whether its key is welcome."""
    socket: Socket = context.socket(zmq.REP)
    socket.set(zmq.LINGER, 0)
    socket.bind(ZAP)
    return socket


def _common(socket: Socket, keys: tuple[bytes, bytes]) -> Socket:
    public, private = keys
    socket.set(zmq.CURVE_PUBLICKEY, public)
    socket.set(zmq.CURVE_SECRETKEY, private)
    socket.set(zmq.LINGER, LINGER)
    socket.set(zmq.HANDSHAKE_IVL, HANDSHAKE)
    socket.set(zmq.HEARTBEAT_IVL, BEAT)
    socket.set(zmq.HEARTBEAT_TIMEOUT, SILENCE)
    socket.set(zmq.HEARTBEAT_TTL, SILENCE)
    return socket
