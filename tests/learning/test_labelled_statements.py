"""Precision and recall of the rules on labelled messages; author, labeller and rule-maker are the same person.

The even lines of each file were looked at while the rules were written, the odd lines were only counted.
"""

from pathlib import Path

import pytest

from memory_context.learning import explicit_statements, has_statement, own_passages

FOLDER = Path(__file__).parent


def half(name: str, split: str) -> list[str]:
    """Return the lines of one half of a file."""
    lines = (FOLDER / name).read_text(encoding="utf-8").splitlines()
    return lines[0::2] if split == "dev" else lines[1::2]


@pytest.mark.parametrize(("split", "least_recall"), [("dev", 0.95), ("held_out", 0.9)])
def test_rules_are_precise_on_labelled_messages(split: str, least_recall: float, capsys: pytest.CaptureFixture[str]):
    statements, others = half("statements.txt", split), half("others.txt", split)
    hits, false_alarms = sum(map(has_statement, statements)), sum(map(has_statement, others))
    precision, recall = hits / (hits + false_alarms), hits / len(statements)
    with capsys.disabled():
        print(f"\n{split}: precision {precision:.3f} ({hits}/{hits + false_alarms}), recall {recall:.3f}")
    assert len(statements) + len(others) >= 150
    assert precision >= 0.95
    assert recall >= least_recall


@pytest.mark.parametrize(
    ("message", "statements"),
    [
        ("Thanks! By the way, I prefer metric units. Open the file.", ["I prefer metric units."]),
        ("Please remember that I am allergic to peanuts.", ["I am allergic to peanuts."]),
        ("Could you remember that I use British spelling?", ["I use British spelling"]),
        ("The Wi-Fi of our office is called Bee. Remember that.", ["The Wi-Fi of our office is called Bee."]),
        ("my database is Orders at db1; remember it, I always use it", ["my database is Orders at db1"]),
        ("I live in Tower 8. I prefer tea.", ["I live in Tower 8.", "I prefer tea."]),
        (
            "Merke dir, dass meine Tochter am 12. Juni Geburtstag hat. Danke!",
            ["meine Tochter am 12. Juni Geburtstag hat."],
        ),
        ("1. I prefer e.g. tea. 2. Open it.", ["I prefer e.g. tea."]),
        ("Imagine I am a pirate. My name is Jack.", []),
        ("I live in Porto. Translate: I prefer tea.", ["I live in Porto."]),
    ],
)
def test_statement_is_the_verbatim_clause(message: str, statements: list[str]):
    assert [one.text for one in explicit_statements(own_passages(message))] == statements
