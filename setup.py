"""The compiled loops of the shared-memory lane and of the codecs; without a C compiler all the rest is installed."""

from pathlib import Path
from zlib import crc32

from setuptools import Extension, setup

ROOMS = ("engine/shared", "parts")  # each holds a kernel.c


def loops(room: str) -> Extension:
    source = f"src/gossamer/{room}/kernel.c"
    return Extension(
        f"gossamer.{room.replace('/', '.')}._kernel",
        [source],
        define_macros=[("STAMP", f"{crc32(Path(source).read_bytes())}")],  # which source a library was built from
        extra_compile_args=["-std=gnu11", "-O3", "-ffp-contract=off"],  # one sum, whatever the machine can fuse
        libraries=["m"],
        optional=True,
    )


setup(ext_modules=[loops(room) for room in ROOMS])
