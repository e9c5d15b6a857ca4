"""The public names of the package: complete, lazily imported, and named after the package."""

import ast
import importlib
import inspect
import pickle
import re
from dataclasses import is_dataclass
from importlib import reload
from importlib.metadata import version
from typing import get_type_hints

import pytest
from pydantic import BaseModel

import memory_context
from memory_context import ArchivePolicy, MemoryRef

from .conftest import REPOSITORY

PACKAGE = REPOSITORY / "memory_context"
STUB = ast.parse((PACKAGE / "__init__.pyi").read_text(encoding="utf-8"))
MODULES = {
    name.name: node.module
    for node in STUB.body
    if isinstance(node, ast.ImportFrom)
    for name in node.names
    if node.module is not None
}
"""The subpackage or module that each public name is imported from."""


def test_all_is_what_the_package_offers() -> None:
    """Every public name of the package is listed, and the other way round."""
    (listed,) = [ast.literal_eval(node.value) for node in STUB.body if isinstance(node, ast.Assign)]
    assert sorted(listed) == sorted(memory_context.__all__)
    assert all(hasattr(memory_context, name) for name in MODULES)
    assert memory_context.__version__ == version("memory-context")


def test_classes_are_named_after_the_public_module() -> None:
    """They are pickled by that name, and their annotations still resolve, as FastAPI needs for response models."""
    for name in MODULES:
        value = getattr(memory_context, name)
        if not defines_code(value, name):
            continue
        assert value.__module__ == "memory_context", name
        assert pickle.loads(pickle.dumps(value)) is value
        if is_dataclass(value) or (inspect.isclass(value) and issubclass(value, BaseModel)):
            assert get_type_hints(value, include_extras=True) is not None, name


def test_values_of_public_classes_survive_pickling() -> None:
    """A model, and a dataclass that was pickled by the name of its inner module."""
    for value in (ArchivePolicy(), MemoryRef("run_k3f7x2", "a log", 5)):
        assert pickle.loads(pickle.dumps(value)) == value
    inner = b"cmemory_context.foundation.references\nMemoryRef\n."
    assert pickle.loads(inner) is MemoryRef


def test_eager_imports_name_the_public_module_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """EAGER_IMPORT imports all names at once, before the first of them is asked for."""
    monkeypatch.setenv("EAGER_IMPORT", "1")
    monkeypatch.setattr(MemoryRef, "__module__", "memory_context.foundation.references")
    reload(memory_context)
    assert MemoryRef.__module__ == "memory_context"


def defines_code(value: object, name: str) -> bool:
    """Return whether a public name is a class or function, not an alias."""
    return (inspect.isclass(value) or inspect.isfunction(value)) and value.__name__ == name


def test_every_public_name_is_in_a_page_or_a_sample() -> None:
    """A name that no page and no sample shows is no part of the public face."""
    pages = [REPOSITORY / "README.md", *(REPOSITORY / "docs").rglob("*.md"), *(REPOSITORY / "samples").rglob("*.py")]
    words = set(re.findall(r"\w+", "\n".join(page.read_text(encoding="utf-8") for page in pages)))
    assert sorted({*memory_context.__all__} - words) == []


@pytest.mark.parametrize("name", ["cli.execute", "policy.ContextPolicy", "errors.StoreError"])
def test_modules_are_found_under_the_names_that_documents_gave_them_before(name: str) -> None:
    module, _, name = name.partition(".")
    assert getattr(importlib.import_module(f"memory_context.{module}"), name).__name__ == name
