"""What a coding agent does in 300 steps: it reads, greps, runs tests, mends, writes, fails, and looks things up again.

The keys of the look-ups are read from the view, as a model does.
"""

import random
import shlex
import sys
from collections.abc import Iterator

from autogen_core import FunctionCall

from .actor import Step, View, answer, call, folds_in, keys_in, keys_of
from .code_base import MODULES, Module

__all__ = ["TASKS", "steps_of_turn"]

STEPS = 30
"""Model calls for each module; the last one of every second module answers the user."""

TASKS = [
    f"Work on {one} and {other}. Read both modules and their tests, run the tests, mend what fails by the smallest "
    f"change, and run them again. Then write billing/{one}_report.py, which prints what each function of {one} gives "
    f"for the amounts 1 to 50, and check it against {other}. Rules: change no test; keep the signatures; one change at "
    "a time; show the diff of each change; say which lines you have seen, and claim nothing about what you have not. "
    f"At the end, name the functions of {one} whose results changed, with their line numbers."
    for one, other in zip(MODULES[::2], MODULES[1::2], strict=True)
]

_PYTHON = shlex.quote(sys.executable)


def steps_of_turn(modules: list[Module], turn: int) -> Iterator[Step]:
    """Yield the 60 steps of a turn, the last of which is the answer.

    Args:
        modules: All modules of the project.
        turn: Which turn, from 0.
    """
    one, other = modules[2 * turn : 2 * turn + 2]
    yield from [*_work_on(one, modules), *_work_on(other, modules)][:-1]
    yield lambda view: f"{one.name} and {other.name} are in order now."


def _work_on(module: Module, modules: list[Module]) -> list[Step]:
    """Return the steps for one module: those that build on one another in order, the others in between."""
    number = modules.index(module)
    function, other = module.functions[number], modules[number - 1]
    report = f"billing/{module.name}_report.py"
    run_tests = f"{_PYTHON} -m unittest -v"
    work = [
        answer("Where am I?", _shell(f"ls -la billing tests; wc -l */*.py; echo now {module.name}")),
        answer("What is in it?", call("grep", pattern=r"def |total [-+]=", path=module.path)),
        answer(f"All of {module.path}.", call("read_file", path=module.path)),
        answer("Do its tests pass?", _shell(f"{run_tests} tests.test_{module.name}")),
        answer("What do they expect?", call("read_file", path=module.tests)),
        answer("A change of one character.", _shell(module.cure)),
        answer("And now?", _shell(f"{run_tests} tests.test_{module.name} && echo {module.name} is mended")),
        answer("Nothing else broke?", _shell(f"{run_tests}; echo after {module.name}")),
        answer("Now the report.", _shell(f"cat > {report} <<'END'\n{_report_on(module)}END\nwc -c {report}")),
        answer("What does it print?", _shell(f"{_PYTHON} -m billing.{module.name}_report")),
        answer("Is it as I meant it?", call("read_file", path=report)),
        answer(
            "Only what looks odd.",
            _shell(f"{_PYTHON} -m billing.{module.name}_report | grep -n 7 | head -{60 + number}"),
        ),
    ]
    others = [
        answer("Who else is called so?", call("grep", pattern=f"{function.partition('_')[0]}_[a-z]+", path="billing")),
        answer("How do the neighbours do it?", *(_range(one, 1, 60 + number) for one in (other, modules[number - 2]))),
        answer("All at once.", _shell(f"cat billing/[{module.name[0]}-z]*.py")),
        answer("A file that is not there.", call("read_file", path=f"billing/{module.name}_old.py")),
        answer("A command that fails.", _shell(f"grep -rn {function} . ; seq {900 + number}; exit {3 + number}")),
        answer(
            "Its outline as data.",
            _shell(f"{_PYTHON} -c {shlex.quote(_OUTLINE)} billing/*.py | head -c {9000 + number}"),
        ),
    ]
    lookups = [
        _retrieving("def .*", number, "read_file", transform="filtered", context_lines=1, max_matches=10 + number),
        _retrieving("", number, transform="excerpt", start_line=1, end_line=40 + number),
        _retrieving("", number, "shell", transform="first_n", n=12 + number),
        _retrieving("", number, "shell", transform="last_n", n=9 + number),
        _retrieving("", number, "grep", transform="summary", limit_tokens=200 + number),
        _retrieving("", number, transform="full"),
        _retrieving("", number, is_fold=True, transform="last_n", n=15 + number, unit="tokens"),
        answer(
            "Have I seen this?", call("search_memory", query=f"{function.replace('_', ' ')} of {module.name}", limit=3)
        ),
        answer("How is it reckoned?", call("search_memory", query=f"each day counts more in {other.name}", limit=2)),
        answer("From the beginning.", call("read_history", first_message=1 + 9 * number)),
        answer("What is there?", call("query_memory", source="read_file", limit=5 + number)),
        answer(
            "A note for later.",
            call(
                "store_memory",
                content=f"{module.name}: {module.mistaken} was wrong",
                description=f"note on {module.name}",
            ),
        ),
    ]
    aside = [*others, *lookups]
    draw = random.Random(module.name)
    draw.shuffle(aside)
    places = sorted(draw.choices(range(2, len(work)), k=len(aside)))
    for place, step in reversed([*zip(places, aside, strict=True)]):
        work.insert(place, step)
    assert len(work) == STEPS
    return work


def _shell(command: str) -> FunctionCall:
    return call("shell", command=f'cd "$CODE_ROOT" && {{ {command}\n}} 2>&1')


def _range(module: Module, start: int, end: int) -> FunctionCall:
    return call("read_file", path=module.path, start_line=start, end_line=end)


def _retrieving(pattern: str, number: int, tool: str = "", *, is_fold: bool = False, **arguments: object) -> Step:
    """Look at something whose key stands in the view: a result of this tool if there is one, or a fold."""

    def step(view: View) -> tuple[str, list[FunctionCall]]:
        keys = (folds_in(view) if is_fold else keys_of(view, tool)) or sorted(keys_in(view))
        if not keys:
            return "I have no key of it.", [call("search_memory", query=f"{tool} {number} {pattern}")]
        wanted = {"pattern": pattern} if pattern else {}
        return "I had that before.", [
            call("retrieve_memory", memory_key=keys[number % len(keys)], **wanted, **arguments)
        ]

    return step


def _report_on(module: Module) -> str:
    """Return a program of some length that prints a table of some length."""
    rows = "\n".join(f'    ("{function}", {module.name}.{function}),' for function in module.functions)
    notes = "\n".join(
        f"# {line + 1}. {function} is called with every amount from 1 to 50 and with {line + 2} days."
        for line, function in enumerate(module.functions)
    )
    return (
        f'"""What the functions of {module.name} give."""\n\nfrom billing import {module.name}\n\n{notes}\n\n'
        f"ROWS = [\n{rows}\n]\n\nfor name, function in ROWS:\n    for amount in range(1, 51):\n"
        '        print(f"{name:24} {amount:4} {function(amount):12} {function(amount, 2):12}")\n'
    )


_OUTLINE = """
import ast, json, sys
print(json.dumps([
    {"file": path, "name": node.name, "line": node.lineno, "end": node.end_lineno, "doc": ast.get_docstring(node)}
    for path in sys.argv[1:] for node in ast.walk(ast.parse(open(path).read())) if isinstance(node, ast.FunctionDef)
]))
"""
