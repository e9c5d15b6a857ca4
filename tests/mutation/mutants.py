"""The mutants of a module, and a seeded sample of those of many modules.

The operators are those of mutmut, which this imports; its runner is not used, because it forks a process that has
tests, a database server and event loops in it, leaves out decorated functions, and knows neither samples nor seeds.
"""

import difflib
import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import libcst as cst
from libcst.metadata import MetadataWrapper, PositionProvider
from mutmut.mutation import mutators

__all__ = ["Mutant", "Site", "modules_of", "sample", "sites_of"]

_Operator = Callable[[Any], Iterable[cst.CSTNode]]
_UNMUTATED_CALLS = {"cast", "len", "isinstance"}  # without effect at run time; or mutants that a type error kills


@dataclass(frozen=True)
class Site:
    """One place of a module and one change of it.

    Attributes:
        line: Line of the place, from 1.
        span: First and last line of the statement around it; of a compound statement only its first line.
    """

    line: int
    span: tuple[int, int]
    _module: cst.Module
    _before: cst.CSTNode
    _after: cst.CSTNode

    def mutated(self) -> str:
        """Return the module's text with this change."""
        changed = self._module.deep_replace(self._before, self._after)
        assert isinstance(changed, cst.Module)
        return changed.code


@dataclass(frozen=True)
class Mutant:
    """A module with one fault.

    Attributes:
        module: Path of the module in the repository.
        line: Line of the fault, from 1.
        span: First and last line of its statement.
        source: Text of the mutated module.
        diff: Its changed lines, those before with "-" and those after with "+".
    """

    module: str
    line: int
    span: tuple[int, int]
    source: str
    diff: tuple[str, ...]


def modules_of(repository: Path, packages: Sequence[str]) -> list[str]:
    """Return the paths of the modules of some packages, such as `memory_context/store`.

    Raises:
        ValueError: A package has no modules.
    """
    found: list[str] = []
    for package in packages:
        modules = sorted(str(path.relative_to(repository)) for path in (repository / package).rglob("*.py"))
        if not modules:
            raise ValueError(f"{package!r} has no modules; give folders such as memory_context/store")
        found += modules
    return found


def sites_of(source: str) -> list[Site]:
    """Return everything that can be changed in the bodies of a module's functions, in order.

    Left out: annotations, decorators, default values, assertions, what is logged, strings with a space in them, which
    are prose, and None in place of a value, which ends in a type error that any test would notice.
    """
    finder = _Finder()
    wrapper = MetadataWrapper(cst.parse_module(source))
    finder.module = wrapper.module
    wrapper.visit(finder)
    return finder.sites


def sample(repository: Path, modules: Sequence[str], size: int, seed: int) -> list[Mutant]:
    """Return mutants of different lines: lines are drawn uniformly, and of each line one of its changes.

    Lines, not changes, so that a call with ten arguments does not count thirty times.
    """
    rng = random.Random(seed)
    sources = {module: (repository / module).read_text(encoding="utf-8") for module in modules}
    by_line: dict[tuple[str, int], list[Site]] = {}
    for module, source in sources.items():
        for site in sites_of(source):
            by_line.setdefault((module, site.line), []).append(site)
    lines = sorted(by_line)
    rng.shuffle(lines)
    found: list[Mutant] = []
    for module, line in lines:
        if len(found) == size:
            break
        site = rng.choice(by_line[module, line])
        mutated = site.mutated()
        if mutated != sources[module] and _compiles(mutated):
            found.append(Mutant(module, line, site.span, mutated, _diff(sources[module], mutated)))
    return found


def _compiles(source: str) -> bool:
    try:
        compile(source, "mutant", "exec", dont_inherit=True)
    except (SyntaxError, ValueError):
        return False
    return True


def _diff(before: str, after: str) -> tuple[str, ...]:
    lines = list(difflib.unified_diff(before.splitlines(), after.splitlines(), n=0, lineterm=""))[2:]
    return tuple(f"{line[0]} {line[1:].strip()}" for line in lines if not line.startswith("@@"))


# --- operators of our own


def _remove_statement(node: cst.Expr | cst.Assign | cst.AugAssign) -> Iterator[cst.CSTNode]:
    """Leave out a call whose result nobody uses, or an assignment that others see."""
    if isinstance(node, cst.Expr):
        is_effect = isinstance(node.value, (cst.Call, cst.Await))
    else:
        targets = [node.target] if isinstance(node, cst.AugAssign) else [one.target for one in node.targets]
        is_effect = all(isinstance(target, (cst.Attribute, cst.Subscript)) for target in targets)
    if is_effect:
        yield cst.Pass()


def _negate_condition(node: cst.If | cst.While | cst.CompIf) -> Iterator[cst.CSTNode]:
    """Do a thing exactly when it is not to be done."""
    if not (isinstance(node.test, cst.Name) and node.test.value in ("True", "False")):
        yield node.with_changes(
            test=cst.UnaryOperation(cst.Not(), node.test.with_changes(lpar=[cst.LeftParen()], rpar=[cst.RightParen()]))
        )


def _ignore_bound(node: cst.Call) -> Iterator[cst.CSTNode]:
    """Take one of the values that `min` or `max` compare."""
    if isinstance(node.func, cst.Name) and node.func.value in ("min", "max") and len(node.args) == 2:
        for arg in node.args:
            if not arg.keyword and not arg.star:
                yield arg.value.with_changes(lpar=[cst.LeftParen()], rpar=[cst.RightParen()])


def _with_fewer_arguments(node: cst.Call) -> Iterator[cst.CSTNode]:
    """Leave out an argument; mutmut also puts None in its place."""
    return (after for after in mutators.operator_arg_removal(node) if len(after.args) < len(node.args))


_OPERATORS: list[tuple[Any, _Operator]] = [
    *(
        (kind, operator)
        for kind, operator in mutators.mutation_operators
        if operator not in (mutators.operator_assignment, mutators.operator_arg_removal)
    ),
    (cst.Call, _with_fewer_arguments),
    (cst.Call, _ignore_bound),
    ((cst.Expr, cst.Assign, cst.AugAssign), _remove_statement),
    ((cst.If, cst.While, cst.CompIf), _negate_condition),
]


class _Finder(cst.CSTVisitor):
    METADATA_DEPENDENCIES = (PositionProvider,)
    module: cst.Module

    def __init__(self) -> None:
        super().__init__()
        self.sites: list[Site] = []
        self._functions = 0
        self._spans: list[tuple[int, int]] = []

    def on_visit(self, node: cst.CSTNode) -> bool:
        if _is_left_out(node):
            return False
        if isinstance(node, (cst.BaseCompoundStatement, cst.SimpleStatementLine)):
            place = self.get_metadata(PositionProvider, node)
            is_simple = isinstance(node, cst.SimpleStatementLine)
            self._spans.append((place.start.line, place.end.line if is_simple else place.start.line))
        if isinstance(node, cst.FunctionDef):
            self._functions += 1
        elif self._functions:
            self._note(node)
        return True

    def on_leave(self, original_node: cst.CSTNode) -> None:
        if _is_left_out(original_node):
            return
        if isinstance(original_node, (cst.BaseCompoundStatement, cst.SimpleStatementLine)):
            self._spans.pop()
        if isinstance(original_node, cst.FunctionDef):
            self._functions -= 1

    def _note(self, node: cst.CSTNode) -> None:
        place = self.get_metadata(PositionProvider, node, None)
        line = self._spans[-1][0] if place is None else place.start.line
        for kind, operator in _OPERATORS:
            if isinstance(node, kind):
                self.sites += [Site(line, self._spans[-1], self.module, node, after) for after in operator(node)]


def _is_left_out(node: cst.CSTNode) -> bool:
    if isinstance(node, (cst.Annotation, cst.Decorator, cst.Parameters, cst.Assert)):
        return True
    if isinstance(node, cst.SimpleString):
        return " " in node.value
    if isinstance(node, cst.Call):
        if isinstance(node.func, cst.Name):
            return node.func.value in _UNMUTATED_CALLS
        if isinstance(node.func, cst.Attribute) and isinstance(node.func.value, cst.Name):
            return node.func.value.value == "_logger"
    return isinstance(node, cst.Expr) and isinstance(node.value, cst.Call) and _is_left_out(node.value)
