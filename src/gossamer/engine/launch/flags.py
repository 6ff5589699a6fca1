"""The flags of `gossamer run`: torchrun's own, and six of ours. Starts nothing."""

from __future__ import annotations

import os
import shutil
import socket
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Sequence
from difflib import get_close_matches
from importlib.machinery import PathFinder
from pathlib import Path
from typing import Any, NoReturn

from torch.distributed.elastic.rendezvous.utils import parse_rendezvous_endpoint
from torch.distributed.run import determine_local_world_size, get_args_parser, parse_min_max_nnodes

from gossamer.engine.job import FABRICS
from gossamer.engine.launch.interface import there
from gossamer.parts.refusal import Refused, whole
from gossamer.parts.spelling import nearest
from gossamer.parts.world import World
from gossamer.strategy import fits, parse

EXAMPLE = "gossamer run --nproc-per-node 4 SCRIPT"
ABOUT = """Start a script on many workers: torchrun with a strategy. Whatever torchrun takes is taken here and means
the same; one host without a rendezvous is --standalone, on loopback; several hosts meet at the --rdzv-endpoint, which
is an address of one of them. Workers end with their launcher, and when one fails all do, with its traceback last."""


def parser() -> ArgumentParser:
    """Torch's own parser, with our flags added; mistakes are refused."""
    flags = get_args_parser()
    flags.prog, flags.description = "gossamer run", ABOUT
    ours = flags.add_argument_group("gossamer")
    ours.add_argument(
        "--strategy", metavar="EXPR", help="The strategy, where the script names none: see `gossamer list`."
    )
    ours.add_argument("--fabric", choices=FABRICS, help="What carries wires between workers.")
    ours.add_argument("--journal", metavar="DIR", help="The folder for this run's journal.")
    ours.add_argument(
        "--servers",
        type=int,
        default=0,
        metavar="N",
        help="Processes of their own that keep hubs, on all hosts together. Default: workers keep them.",
    )
    ours.add_argument("--interface", metavar="NAME", help="The network interface that leads to the other hosts.")
    ours.add_argument("--key-file", metavar="FILE", help="The run's key, the same on all hosts: see `gossamer key`.")

    def error(message: str) -> NoReturn:
        raise Refused(*_mistake(flags, message))

    flags.error = error  # type: ignore[method-assign]
    _once(flags)
    return flags


def _once(flags: ArgumentParser) -> None:
    """A flag cut short is clear where all that it may stand for are spellings of one."""
    all_ = flags._get_option_tuples

    def clear(option_string: str) -> list[Any]:
        return list({id(found[0]): found for found in reversed(all_(option_string))}.values())[::-1]

    flags._get_option_tuples = clear  # type: ignore[method-assign]


def read(words: Sequence[str]) -> Namespace:
    """What was asked for, complete and possible as far as can be told without starting anything; else refused."""
    asked = parser().parse_args(list(words), Namespace(node_rank=None))
    _number(asked)
    if asked.strategy is not None:
        parse(asked.strategy)
    _runnable(asked)
    asked.workers = _count(asked.nproc_per_node)
    try:
        least, asked.hosts = parse_min_max_nnodes(asked.nnodes)
    except (RuntimeError, ValueError):
        raise Refused(f"run: --nnodes {asked.nnodes} is no number of hosts", "--nnodes 2 or --nnodes 1:4") from None
    whole("run", "nnodes", asked.hosts, 1, 2**20)
    whole("run", "servers", asked.servers, 0, 1024)
    if asked.hosts == 1:  # several hosts may have different numbers of workers, which are known when they have met
        refuse_unfit(asked.strategy, asked.workers, asked.servers)
    if asked.number is not None:
        whole("run", "node-rank", asked.number, 0, asked.hosts - 1)
    if asked.monitor_interval <= 0:
        raise Refused("run: --monitor-interval must lie above 0", "--monitor-interval 0.1")
    unnamed = asked.rdzv_backend == "static" and not asked.rdzv_endpoint and asked.master_port is None
    asked.standalone = asked.standalone or (unnamed and asked.hosts == 1)
    plain = asked.rdzv_backend in ("static", "c10d") and not asked.rdzv_conf.count("store_type=file")
    # whoever wants hosts to come and go, or to start anew together, gets torch's own rendezvous
    asked.ours = plain and least == asked.hosts and (asked.hosts == 1 or asked.max_restarts == 0)
    if asked.servers and (not asked.ours or asked.max_restarts):
        raise Refused("run: servers need a fixed number of hosts that do not start anew", "--nnodes 2 --max-restarts 0")
    asked.where = _where(asked)
    if not asked.standalone:
        _free(asked)
    if asked.interface is not None:
        there(asked.interface)
    return asked


def refuse_unfit(strategy: str | None, workers: int, servers: int) -> None:
    """Refuse a strategy that so many workers cannot play, before any of them starts."""
    if strategy:
        fits(parse(strategy), World(workers), servers)


def _number(asked: Namespace) -> None:
    """This host's number: where nobody tells it, hosts count themselves as they come."""
    told = asked.node_rank if asked.node_rank is not None else os.environ.get("PET_NODE_RANK")
    try:
        asked.number = None if told is None else int(told)
    except ValueError:
        raise Refused(f"run: PET_NODE_RANK {told!r} is no number of a host", "0") from None
    asked.node_rank = asked.number or 0


def _where(asked: Namespace) -> tuple[str, int]:
    """Where the launchers meet."""
    if asked.standalone or asked.rdzv_backend not in ("static", "c10d") or asked.rdzv_conf.count("store_type=file"):
        return "127.0.0.1", 0
    static = f"{asked.master_addr}:{asked.master_port or 29500}" if asked.rdzv_backend == "static" else ""
    try:
        host, port = parse_rendezvous_endpoint(asked.rdzv_endpoint or static, default_port=29400)
    except ValueError as error:
        raise Refused(f"run: {error}", "--rdzv-endpoint localhost:29400") from None
    return host, port


def _mistake(flags: ArgumentParser, message: str) -> tuple[str, str | None]:
    if "are required" in message:
        return "run: there is no script", EXAMPLE
    if not message.startswith("unrecognized arguments: "):
        return f"run: {message.removeprefix('argument ')}", None
    wrong = message.removeprefix("unrecognized arguments: ").split(" ")[0].split("=")[0]
    known = [option for action in flags._actions for option in action.option_strings]
    return f"run: there is no flag {wrong}", nearest(wrong, known)


def _runnable(asked: Namespace) -> None:
    """Refuse a script, module or command that is not there."""
    name = asked.training_script
    if asked.module:
        if asked.no_python:
            raise Refused("run: --no-python and --module contradict each other", "one of them")
        top = name.partition(".")[0]
        if top not in sys.builtin_module_names and PathFinder.find_spec(top, [os.getcwd(), *sys.path]) is None:
            raise Refused(f"run: there is no module {name!r} in {os.getcwd()} or on PYTHONPATH")
    elif asked.no_python:
        if shutil.which(name) is None:
            raise Refused(f"run: there is no command {name!r} that can be run")
    elif not Path(name).exists():
        raise Refused(f"run: there is no script {name!r} in {os.getcwd()}", _like(name))
    elif Path(name).is_dir() and not (Path(name) / "__main__.py").exists():
        scripts = sorted(map(str, Path(name).glob("*.py")))
        raise Refused(f"run: {name!r} is a folder, not a script", scripts[0] if len(scripts) == 1 else None)


def _like(name: str) -> str | None:
    """The script in its folder whose name is like this one, if any is."""
    scripts = {path.stem: str(path) for path in sorted(Path(name).parent.glob("*.py"))}
    return next((scripts[stem] for stem in get_close_matches(Path(name).stem, scripts, 1)), None)


def _count(text: str) -> int:
    try:
        found = int(determine_local_world_size(text))
    except ValueError as error:
        raise Refused(f"run: --nproc-per-node {text}: {error}", "--nproc-per-node 4") from None
    whole("run", "nproc-per-node", found, 1, 1024)
    return found


def _free(asked: Namespace) -> None:
    """Refuse a port for the rendezvous that is in use, where nobody else of this run can be the one who uses it."""
    mine = asked.hosts == 1 or (asked.rdzv_backend == "static" and asked.number == 0)
    host, port = asked.where
    if not mine or not port:
        return
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as trial:
        trial.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            trial.bind((host, port))
        except OSError as error:
            raise Refused(
                f"run: {host}:{port} cannot be used: {error.strerror}", "another port, or --standalone"
            ) from None
