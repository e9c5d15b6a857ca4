"""Rules take what is to be remembered or stated outright in English and German; their author wrote the lines.

The last lines of `others.txt` are true of the user, but in words that only a light model learns.
"""

from pathlib import Path

import pytest

from memory_context.foundation.text.own_words import own_passages
from memory_context.memory.learning.rules import explicit_statements, has_statement

FOLDER = Path(__file__).parent


def lines(name: str) -> list[str]:
    return (FOLDER / name).read_text(encoding="utf-8").splitlines()


def test_rules_take_what_is_stated_outright_and_nothing_else():
    assert [line for line in lines("statements.txt") if not has_statement(line)] == []
    assert [line for line in lines("others.txt") if has_statement(line)] == []


@pytest.mark.parametrize(
    ("message", "statements"),
    [
        ("Thanks! By the way, I prefer metric units. Open the file.", ["I prefer metric units."]),
        ("Please remember that I am allergic to peanuts.", ["I am allergic to peanuts."]),
        ("Could you remember that I use British spelling?", ["I use British spelling"]),
        ("The Wi-Fi of our office is called Bee. Remember that.", ["The Wi-Fi of our office is called Bee."]),
        ("my database is Orders at db1; remember it, I always use it", ["my database is Orders at db1"]),
        ("My office is Tower 8. I prefer tea.", ["My office is Tower 8.", "I prefer tea."]),
        (
            "Merke dir, dass meine Tochter am 12. Juni Geburtstag hat. Danke!",
            ["meine Tochter am 12. Juni Geburtstag hat."],
        ),
        ("1. I prefer e.g. tea. 2. Open it.", ["I prefer e.g. tea."]),
        ("Imagine I am a pirate. My name is Jack.", []),
        ("My city is Porto. Translate: I prefer tea.", ["My city is Porto."]),
    ],
)
def test_statement_is_the_verbatim_clause(message: str, statements: list[str]):
    assert [one.text for one in explicit_statements(own_passages(message))] == statements
