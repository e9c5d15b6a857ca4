"""Rules that keep the package small, each a number in `budget.toml`: python -m tests.house

A number under `most` may only fall, one under `least` only rise. Raising a limit needs a capability that is worth it,
and something that leaves.
"""

import ast
import re
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from statistics import quantiles
from typing import Any

from pydantic import BaseModel

import memory_context
from memory_context import ContextPolicy

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

__all__ = ["broken", "budget", "figures", "main", "settings_of"]

REPOSITORY = Path(__file__).parents[1]
PACKAGE = REPOSITORY / "memory_context"
_SHORT_LINES = 8  # a private function with one caller and fewer lines is written where it is used


def figures() -> dict[str, dict[str, int]]:
    """Return every number that `budget.toml` limits, by its group."""
    trees = {path: ast.parse(path.read_text(encoding="utf-8")) for path in sorted(PACKAGE.rglob("*.py"))}
    texts = [path.read_text(encoding="utf-8") for path in trees]
    lines = Counter[str]()
    for path, text in zip(trees, texts, strict=True):
        lines[path.relative_to(PACKAGE).parts[0].removesuffix(".py")] += text.count("\n")
    functions = [node for tree in trees.values() for node in ast.walk(tree) if _is_function(node)]
    lengths = [_length(node) for node in functions]
    comments = sum(len(re.findall(r"(?:^|\s)#(?!:)", line)) > 0 for text in texts for line in text.split("\n"))
    shown = [entry for entry in PACKAGE.iterdir() if not entry.name.startswith("__")]
    return {
        "lines": {"all": sum(lines.values()), **{room: count for room, count in lines.items() if room != "__init__"}},
        "most": {
            "entries": len(shown),
            "modules": len(trees),
            "largest_module": max(text.count("\n") for text in texts),
            "function_p90": round(quantiles(lengths, n=10)[-1]),
            "largest_function": max(lengths),
            "mixins": len([*_mixins(trees.values())]),
            "protocols": sum(_is_protocol(node) for tree in trees.values() for node in ast.walk(tree)),
            "short_helpers_with_one_caller": sum(_short_helpers(tree) for tree in trees.values()),
            "public_names": len(memory_context.__all__),
            "settings": len([*settings_of(ContextPolicy)]),
        },
        "least": {"comments_per_1000_lines": round(1000 * comments / sum(lines.values()))},
    }


def settings_of(policy: type[BaseModel], prefix: str = "") -> Iterator[tuple[str, object]]:
    """Yield the full name and the default of each setting of a policy."""
    for name, field in policy.model_fields.items():
        if isinstance(field.default, BaseModel):
            yield from settings_of(type(field.default), f"{prefix}{name}.")
        else:
            yield prefix + name, field.default


def _is_function(node: ast.AST) -> bool:
    return isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))


def _length(node: ast.AST) -> int:
    return (getattr(node, "end_lineno", 0) or 0) - getattr(node, "lineno", 0) + 1


def _is_protocol(node: ast.AST) -> bool:
    return isinstance(node, ast.ClassDef) and any(ast.unparse(base).startswith("Protocol") for base in node.bases)


def _mixins(trees: Any) -> Iterator[str]:
    """Yield classes that exactly one class inherits beside another base of the package: halves of one class."""
    classes = {node.name: node for tree in trees for node in ast.walk(tree) if isinstance(node, ast.ClassDef)}
    heirs = Counter(base for node in classes.values() for base in {ast.unparse(one) for one in node.bases})
    for node in classes.values():
        own = [
            name for base in node.bases if (name := ast.unparse(base)) in classes and not _is_abstract(classes[name])
        ]
        if len(own) > 1:
            yield from (name for name in own if heirs[name] == 1 and _has_methods(classes[name]))


def _is_abstract(node: ast.ClassDef) -> bool:
    return _is_protocol(node) or "abstractmethod" in ast.unparse(node)


def _has_methods(node: ast.ClassDef) -> bool:
    """Return whether a class does something; a value with a property or two is a value."""
    return sum(_is_function(one) and not one.decorator_list for one in node.body) > 1  # type: ignore[attr-defined]


def _short_helpers(tree: ast.Module) -> int:
    used = Counter(
        node.id if isinstance(node, ast.Name) else node.attr
        for node in ast.walk(tree)
        if isinstance(node, (ast.Name, ast.Attribute))
    )
    return sum(
        _is_function(node)
        and bool(re.match(r"_[a-z]", node.name))  # type: ignore[attr-defined]
        and _length(node) < _SHORT_LINES
        and used[node.name] == 1  # type: ignore[attr-defined]
        for node in ast.walk(tree)
    )


def budget() -> dict[str, dict[str, int]]:
    """Return the limits."""
    return tomllib.loads((REPOSITORY / "budget.toml").read_text(encoding="utf-8"))


def broken(limits: Mapping[str, Mapping[str, int]], now: Mapping[str, Mapping[str, int]]) -> list[str]:
    """Return a line for each rule that does not hold."""
    told: list[str] = []
    for group, values in limits.items():
        for name, limit in values.items():
            value = now[group][name]
            if value < limit if group == "least" else value > limit:
                told.append(f"{group}.{name} is {value:,}, {'at least' if group == 'least' else 'at most'} {limit:,}")
    missing = sorted(now["lines"].keys() - limits["lines"].keys())
    return [*told, *(f"room {room} has no limit of lines" for room in missing)]


def main() -> int:
    """Print what is over its budget; return 1 if something is."""
    now = figures()
    if "--figures" in sys.argv:
        for group, values in now.items():
            print(f"[{group}]", *(f"{name} = {value}" for name, value in values.items()), "", sep="\n")
    told = broken(budget(), now)
    print(*told, sep="\n", end="\n" if told else "")
    return 1 if told else 0


if __name__ == "__main__":
    sys.exit(main())
