"""The compiled loops of the shared-memory lane; without a C compiler the package installs all the same."""

from setuptools import Extension, setup

setup(
    ext_modules=[
        Extension(
            "gossamer.engine.shared._kernel",
            ["src/gossamer/engine/shared/kernel.c"],
            extra_compile_args=["-std=gnu11", "-O3", "-ffp-contract=off"],  # one sum, whatever the machine can fuse
            optional=True,
        )
    ]
)
