"""Builds the extension modules against libtesup: the tree's, or the one that is installed."""

import os
import subprocess
import sys
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

HERE = Path(__file__).resolve().parent
TREE = HERE.parents[1]

# The buffer protocol is part of the stable ABI since Python 3.11. With that or a later one the
# modules are built once for all of them; with 3.9 and 3.10 they are built for that version alone.
STABLE = sys.version_info >= (3, 11)


def places():
    """Include folders, library folders, and folders where the libraries lie at run time."""
    folder = os.environ.get("TESUP_BUILD_DIR")
    if folder or (TREE / "client/include/tesup.h").exists():
        library = Path(folder or TREE / "build").resolve() / "lib"
        if not (library / "libtesup.so").exists():
            sys.exit(
                f"tesup: there is no {library}/libtesup.so: build the tree first "
                "(cmake --preset release && cmake --build build), or name the folder of another "
                "build in TESUP_BUILD_DIR"
            )
        includes = [TREE / "client/include", TREE / "client/compat/mooncake/include"]
        return [str(include) for include in includes], [str(library)]
    try:
        said = subprocess.run(
            ["pkg-config", "--cflags-only-I", "--libs-only-L", "libtesup"],
            check=True,
            capture_output=True,
            text=True,
        ).stdout.split()
    except (OSError, subprocess.CalledProcessError):
        sys.exit(
            "tesup: pkg-config does not know libtesup: install it first (cmake --install build of "
            "the tesup tree), or build this package inside of the tree"
        )
    includes = [word[2:] for word in said if word.startswith("-I")]
    return includes, [word[2:] for word in said if word.startswith("-L")]


class build_places(build_ext):
    """Looks for the libraries when there is something to build, not for a source package."""

    def build_extensions(self):
        includes, libraries = places()
        for extension in self.extensions:
            extension.include_dirs += includes
            extension.library_dirs += libraries
            extension.runtime_library_dirs += libraries
        super().build_extensions()


def extension(name, folder, library):
    return Extension(
        f"tesup.{name}",
        sources=sorted(f"{folder}/{source.name}" for source in (HERE / folder).glob("*.c")),
        depends=[f"{folder}/{header.name}" for header in (HERE / folder).glob("*.h")],
        libraries=[library],
        define_macros=[("_GNU_SOURCE", None)]
        + ([("Py_LIMITED_API", "0x030B0000")] if STABLE else []),
        extra_compile_args=["-std=gnu11"],
        py_limited_api=STABLE,
    )


setup(
    cmdclass={"build_ext": build_places},
    ext_modules=[
        extension("_native", "native", "tesup"),
        extension("_engine", "native/mooncake", "dl"),
    ],
    options={"bdist_wheel": {"py_limited_api": "cp311"}} if STABLE else {},
)
