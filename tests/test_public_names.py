"""The public names of the package: complete, lazily imported, and named after the package."""

import ast
import inspect
import pickle
from collections.abc import Iterator
from dataclasses import is_dataclass
from functools import cache
from importlib import import_module, reload
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

OWN_FACE = ("archive", "observation", "store.session_locks", "tools", "transcript")
"""Modules whose classes contexts and stores hand out ready-made; they export the types of those signatures."""


def test_all_is_what_the_package_offers() -> None:
    """Every public name of the package is listed, and the other way round."""
    (listed,) = [ast.literal_eval(node.value) for node in STUB.body if isinstance(node, ast.Assign)]
    assert sorted(MODULES) == sorted(listed) == sorted(memory_context.__all__)
    assert all(hasattr(memory_context, name) for name in listed)
    assert memory_context.__version__ == version("memory-context")


def test_types_of_public_signatures_are_exported() -> None:
    """Parameters and returns of public methods, and fields."""
    for name, module in MODULES.items():
        exported = set(memory_context.__all__)
        if module in OWN_FACE:
            exported |= set(import_module(f"memory_context.{module}").__all__)
        used = {(type_name, where) for where, type_name in types_in_signatures(name)}
        assert {one for one in used if one[0] not in exported} == set(), name


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
    inner = b"cmemory_context.references\nMemoryRef\n."
    assert pickle.loads(inner) is MemoryRef


def test_eager_imports_name_the_public_module_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """EAGER_IMPORT imports all names at once, before the first of them is asked for."""
    monkeypatch.setenv("EAGER_IMPORT", "1")
    monkeypatch.setattr(MemoryRef, "__module__", "memory_context.references")
    reload(memory_context)
    assert MemoryRef.__module__ == "memory_context"


def defines_code(value: object, name: str) -> bool:
    """Return whether a public name is a class or function, not an alias."""
    return (inspect.isclass(value) or inspect.isfunction(value)) and value.__name__ == name


def types_in_signatures(name: str) -> Iterator[tuple[str, str]]:
    """Return where a public name's signatures name a type of this package, and which."""
    value = getattr(memory_context, name)
    if not defines_code(value, name):
        return
    for one in value.__mro__ if inspect.isclass(value) else (value,):
        where = f"memory_context.{MODULES[name]}" if one is value else one.__module__
        module = defining_module(one.__name__, where)
        if module is None:
            continue
        known = names_of_the_package(module)
        node = next(node for node in tree_of(module).body if getattr(node, "name", None) == one.__name__)
        for where, annotation in annotations_of(node, with_constructor=MODULES[name] not in OWN_FACE):
            for found in ast.walk(unquoted(annotation)):
                used = found.id if isinstance(found, ast.Name) else None
                if isinstance(found, ast.Attribute) and isinstance(found.value, ast.Name) and found.value.id in known:
                    used = found.attr
                elif used not in known:
                    continue
                if used is not None and used != name and used[0].isupper() and not used.isupper():
                    yield f"{one.__name__}.{where}", used


def defining_module(name: str, package: str) -> str | None:
    """Return the module whose source defines a class or function; None if it is not of this package."""
    if not f"{package}.".startswith("memory_context."):
        return None
    for node in tree_of(package).body:
        if isinstance(node, ast.ImportFrom) and node.level and name in {alias.name for alias in node.names}:
            base = package if is_package(package) else package.rpartition(".")[0]
            return defining_module(name, f"{base}.{node.module}")
    return package


def is_package(module: str) -> bool:
    """Return whether a module is a package."""
    return (REPOSITORY / module.replace(".", "/")).is_dir()


@cache
def tree_of(module: str) -> ast.Module:
    """Return the parsed source of a module, or the stub of a package that imports lazily."""
    path = REPOSITORY / module.replace(".", "/")
    candidates = (path / "__init__.pyi", path / "__init__.py", path.with_suffix(".py"))
    return ast.parse(next(one for one in candidates if one.exists()).read_text(encoding="utf-8"))


def names_of_the_package(module: str) -> set[str]:
    """Return the names a module defines or imports from this package, those for type checkers included."""
    names: set[str] = set()
    for node in ast.walk(tree_of(module)):
        if isinstance(node, ast.ImportFrom) and (node.level or f"{node.module}.".startswith("memory_context.")):
            names |= {alias.asname or alias.name for alias in node.names}
    for node in tree_of(module).body:
        if isinstance(node, ast.ClassDef):
            names.add(node.name)
        elif isinstance(node, ast.Assign):
            names |= {target.id for target in node.targets if isinstance(target, ast.Name)}
    return {name for name in names if not name.startswith("_")}


def annotations_of(node: ast.AST, *, with_constructor: bool) -> Iterator[tuple[str, ast.expr]]:
    """Return the annotations of a function, or of the public methods and fields of a class."""
    if isinstance(node, ast.ClassDef):
        for member in node.body:
            if isinstance(member, ast.AnnAssign) and isinstance(member.target, ast.Name):
                if not member.target.id.startswith("_"):
                    yield member.target.id, member.annotation
            elif not getattr(member, "name", "_").startswith("_") or (
                with_constructor and getattr(member, "name", "") == "__init__"
            ):
                yield from annotations_of(member, with_constructor=with_constructor)
    elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
        for argument in ast.walk(node.args):
            if isinstance(argument, ast.arg) and argument.annotation is not None:
                yield node.name, argument.annotation
        if node.returns is not None:
            yield node.name, node.returns


def unquoted(annotation: ast.expr) -> ast.expr:
    """Return an annotation without its quotes."""
    if isinstance(annotation, ast.Constant) and isinstance(annotation.value, str):
        return ast.parse(annotation.value, mode="eval").body
    return annotation
