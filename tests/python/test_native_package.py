"""The package: its version, its stubs, its words."""

from __future__ import annotations

import ast
import inspect
import os
import re
import unittest
from pathlib import Path

import tesup
from harness import Duo, run_examples
from tesup import _engine, _native

ROOT = Path(os.environ["TESUP_SOURCE_DIR"])


def stub_names(tree: ast.Module) -> dict[str, set[str]]:
    """Names of the module under "", and of each class under its own."""
    names: dict[str, set[str]] = {"": set()}
    for node in tree.body:
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            names[""].add(node.target.id)
        elif isinstance(node, ast.FunctionDef):
            names[""].add(node.name)
        elif isinstance(node, ast.ClassDef):
            names[""].add(node.name)
            names[node.name] = {
                item.name for item in node.body if isinstance(item, ast.FunctionDef)
            }
    return names


def public(names: set[str]) -> set[str]:
    return {name for name in names if not name.startswith("_")}


class Package(unittest.TestCase):
    def test_stubs_say_what_the_modules_have(self) -> None:
        folder = Path(tesup.__file__).parent
        self.assertTrue((folder / "py.typed").exists())
        for module in (_native, _engine):
            name = module.__name__.rpartition(".")[2]
            stubs = stub_names(ast.parse((folder / f"{name}.pyi").read_text()))
            self.assertEqual(public(stubs.pop("")), public(set(dir(module))), name)
            self.assertGreater(len(stubs), 0)
            for part, said in stubs.items():
                self.assertEqual(public(said), public(set(dir(getattr(module, part)))), part)

    def test_versions_are_the_projects(self) -> None:
        text = (ROOT / "CMakeLists.txt").read_text()
        found = re.search(r"project\(tesup VERSION (\S+)", text)
        assert found is not None
        self.assertEqual(tesup.__version__, found.group(1))
        compat = (ROOT / "client/python/compat/pyproject.toml").read_text()
        self.assertIn(f'version = "{found.group(1)}"', compat)

    def test_every_code_of_the_header_has_its_exception(self) -> None:
        header = (ROOT / "client/include/tesup.h").read_text()
        codes = dict(re.findall(r"#define TESUP_(ERR_\w+|AGAIN|OK) +\(?(-?\d+)\)?", header))
        self.assertGreater(len(codes), 20)
        for name, value in codes.items():
            self.assertEqual(getattr(tesup, name), int(value))
            if name != "OK":
                made = tesup._errors.make(int(value), "why")
                self.assertIsNot(type(made), tesup.Error, name)
                self.assertEqual((made.code, str(made)), (int(value), "why"))

    def test_everything_public_is_documented(self) -> None:
        for name in tesup.__all__:
            thing = getattr(tesup, name)
            if not callable(thing):
                continue
            self.assertTrue(inspect.getdoc(thing), name)
            for part, value in vars(thing).items() if inspect.isclass(thing) else ():
                if not part.startswith("_") and inspect.isfunction(value):
                    self.assertTrue(inspect.getdoc(value), f"{name}.{part}")

    def test_the_module_is_of_the_stable_abi(self) -> None:
        for module in (_native, _engine):
            self.assertTrue(str(module.__file__).endswith(".abi3.so"), module.__file__)


class Examples(Duo):
    def test_the_programs_of_the_documentation(self) -> None:
        self.assertGreaterEqual(run_examples(self, "mooncake", False, self.left.socket), 4)


if __name__ == "__main__":
    unittest.main()
