"""Builds the extension module against libtesup: the tree's, or the one that is installed."""

import os
import subprocess
import sys
from pathlib import Path

from setuptools import Extension, setup

HERE = Path(__file__).resolve().parent
TREE = HERE.parents[1]

# The buffer protocol is part of the stable ABI since Python 3.11. With that or a later one the
# module is built once for all of them; with 3.9 and 3.10 it is built for that version alone.
STABLE = sys.version_info >= (3, 11)


def libtesup():
    """Include folders, library folders, and folders where the library lies at run time."""
    folder = os.environ.get("TESUP_BUILD_DIR")
    if folder or (TREE / "client/include/tesup.h").exists():
        library = Path(folder or TREE / "build").resolve() / "lib"
        if not (library / "libtesup.so").exists():
            sys.exit(
                f"tesup: there is no {library}/libtesup.so: build the tree first "
                "(cmake --preset release && cmake --build build), or name the folder of another "
                "build in TESUP_BUILD_DIR"
            )
        return [str(TREE / "client/include")], [str(library)], [str(library)]
    try:
        said = subprocess.run(
            ["pkg-config", "--cflags-only-I", "--libs-only-L", "libtesup"],
            check=True, capture_output=True, text=True,
        ).stdout.split()
    except (OSError, subprocess.CalledProcessError):
        sys.exit(
            "tesup: pkg-config does not know libtesup: install it first (cmake --install build of "
            "the tesup tree), or build this package inside of the tree"
        )
    includes = [word[2:] for word in said if word.startswith("-I")]
    libraries = [word[2:] for word in said if word.startswith("-L")]
    return includes, libraries, libraries


INCLUDES, LIBRARIES, RUNTIME = libtesup()

setup(
    ext_modules=[
        Extension(
            "tesup._native",
            sources=[f"native/{name}.c" for name in ("module", "session", "memory", "dlpack", "channel")],
            depends=["native/native.h"],
            include_dirs=INCLUDES,
            library_dirs=LIBRARIES,
            runtime_library_dirs=RUNTIME,
            libraries=["tesup"],
            define_macros=[("_GNU_SOURCE", None)]
            + ([("Py_LIMITED_API", "0x030B0000")] if STABLE else []),
            extra_compile_args=["-std=gnu11"],
            py_limited_api=STABLE,
        )
    ],
    options={"bdist_wheel": {"py_limited_api": "cp311"}} if STABLE else {},
)
