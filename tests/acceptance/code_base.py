"""A small Python project on disk: ten modules with a test case each, and a mistake in every other one."""

import random
from dataclasses import dataclass
from pathlib import Path

__all__ = ["MODULES", "Module", "write_code_base"]

MODULES = ["rates", "ledgers", "meters", "zones", "invoices", "refunds", "outages", "seasons", "permits", "queues"]

_FUNCTIONS = {  # each verb goes with another noun in each module
    "accrue": "balance",
    "adjust": "deposit",
    "allot": "discount",
    "assess": "excess",
    "carry": "fee",
    "charge": "instalment",
    "clip": "penalty",
    "defer": "quota",
    "levy": "rebate",
    "merge": "reserve",
    "prorate": "surcharge",
    "settle": "tax",
}


@dataclass(frozen=True)
class Module:
    """One module of the project.

    Attributes:
        name: Its name in the package `billing`.
        functions: The names of its functions.
        mistaken: The function whose test fails; None if all are right.
    """

    name: str
    functions: tuple[str, ...]
    mistaken: str | None

    @property
    def path(self) -> str:
        """Where its code lies."""
        return f"billing/{self.name}.py"

    @property
    def tests(self) -> str:
        """Where its tests lie."""
        return f"tests/test_{self.name}.py"

    @property
    def cure(self) -> str:
        """The shell command that mends the mistake, and shows what it changed."""
        return (
            f"cp {self.path} before.py; sed -i 's/total -= day/total += day/' {self.path}; "
            f"diff -u before.py {self.path}; rm before.py"
        )


def write_code_base(root: Path, seed: int = 1) -> list[Module]:
    """Write the project into a folder and return its modules."""
    draw = random.Random(seed)
    for folder in ("billing", "tests"):
        (root / folder).mkdir(parents=True)
        (root / folder / "__init__.py").write_text("")
    modules: list[Module] = []
    for number, name in enumerate(MODULES):
        functions = [
            f"{verb}_{noun}" for verb, noun in zip(_FUNCTIONS, draw.sample([*_FUNCTIONS.values()], 12), strict=True)
        ]
        mistaken = draw.choice(functions) if number % 2 == 0 else None
        code = [f'"""What is reckoned with {name}."""']
        tests = [
            "import unittest",
            f"from billing import {name}",
            "",
            "",
            f"class {name.title()}Test(unittest.TestCase):",
        ]
        for function in functions:
            factor, step, days, amount = (draw.randrange(2, 90) for _ in range(4))
            sign = "-" if function == mistaken else "+"
            code.append(
                f"def {function}(amount: int, days: int = {days}) -> int:\n"
                f'    """Return the {function.partition("_")[2]} of {name} for an amount, after so many days.\n\n'
                f"    Each day counts {step} more than the day before; the amount itself counts {factor} times.\n"
                f'    """\n'
                f"    total = amount * {factor}\n"
                f"    for day in range(days):\n"
                f"        total {sign}= day * {step}\n"
                f"    return total"
            )
            expected = amount * factor + step * days * (days - 1) // 2
            tests.append(f"    def test_{function}_of_{name}(self):")
            tests.append(f"        self.assertEqual({name}.{function}({amount}), {expected})\n")
        (root / "billing" / f"{name}.py").write_text("\n\n\n".join(code) + "\n")
        (root / "tests" / f"test_{name}.py").write_text("\n".join(tests))
        modules.append(Module(name, tuple(functions), mistaken))
    return modules
