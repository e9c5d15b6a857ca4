"""Which statements are about the same subject, so that the newer one replaces the older one."""

import pytest

from memory_context.text import subject_of


@pytest.mark.parametrize(
    ("older", "newer"),
    [
        ("my database is Orders at db1", "My database is now Sales."),
        ("My preferred editor is vim.", "my preferred editor has changed to Helix"),
        ("Meine Datenbank ist Orders.", "meine Datenbank heißt Sales"),
        ("I prefer tea over coffee.", "I prefer coffee over tea"),
        ("Ich bevorzuge Tee gegenüber Kaffee.", "Ich bevorzuge Kaffee gegenüber Tee."),
        ("I live in Porto", "I'm based in Lisbon"),
        ("I work at Kelp.", "I work for Brightwater"),
        ("Call me Theo.", "You can call me Ted"),
        ("Answer in German.", "Please always answer me in French."),
        ("Always use type hints", "Never use type hints"),
        ("I use pytest for tests.", "Use nose for tests"),
        ("The user's database is Orders.", "My database is Sales."),
        ("The user lives in Kiel.", "I live in Bremen."),
        ("The user prefers tea over coffee.", "I prefer coffee over tea."),
    ],
)
def test_statements_about_the_same_subject_have_equal_subjects(older: str, newer: str):
    assert subject_of(older) == subject_of(newer) is not None


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("my database is Orders", "my editor is vim"),
        ("I prefer tea over coffee.", "I prefer tea over milk."),
        ("Always use type hints", "Always use tabs"),
        ("Don't use nose for tests.", "Use pytest for tests"),
        ("I prefer short answers.", "I prefer bullet points."),
        ("I live in Porto", "I work at Kelp."),
    ],
)
def test_statements_about_different_subjects_stand_side_by_side(one: str, other: str):
    assert subject_of(one) is None or subject_of(one) != subject_of(other)
