"""The examples of the documentation, and what it must cover."""

import doctest
import importlib
import inspect
import pkgutil
from pathlib import Path

import pytest

import millstream

FOUND = pkgutil.iter_modules(millstream.__path__)
MODULES = ["millstream", *(f"millstream.{module.name}" for module in FOUND)]


@pytest.mark.parametrize("name", MODULES)
def test_examples_run(name: str) -> None:
    failed, _ = doctest.testmod(importlib.import_module(name))
    assert failed == 0


def test_examples_of_native_classes_run() -> None:
    finder = doctest.DocTestFinder()
    runner = doctest.DocTestRunner()
    for name in millstream.__all__:
        thing = getattr(millstream, name)
        if getattr(thing, "__module__", "") in ("millstream", "millstream._native"):
            for member in [thing, *vars(thing).values()] if inspect.isclass(thing) else [thing]:
                for test in finder.find(member, name, globs={}, module=False):
                    runner.run(test)
    assert runner.tries >= 10 and runner.failures == 0


def test_the_examples_of_the_readme_run() -> None:
    readme = Path(__file__).parent.parent / "README.md"
    failed, tried = doctest.testfile(str(readme), module_relative=False)
    assert failed == 0 and tried > 0


def test_everything_public_is_documented() -> None:
    for name in millstream.__all__:
        thing = getattr(millstream, name)
        if callable(thing):
            assert inspect.getdoc(thing), name
            for member, value in vars(thing).items() if inspect.isclass(thing) else ():
                if not member.startswith("_") and callable(value):
                    assert inspect.getdoc(value), f"{name}.{member}"
