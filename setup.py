"""The compiled loops of the shared-memory lane; without a C compiler the package installs all the same."""

from pathlib import Path
from zlib import crc32

from setuptools import Extension, setup

SOURCE = "src/gossamer/engine/shared/kernel.c"

setup(
    ext_modules=[
        Extension(
            "gossamer.engine.shared._kernel",
            [SOURCE],
            define_macros=[("STAMP", f"{crc32(Path(SOURCE).read_bytes())}")],  # which source a library was built from
            extra_compile_args=["-std=gnu11", "-O3", "-ffp-contract=off"],  # one sum, whatever the machine can fuse
            optional=True,
        )
    ]
)
