"""Statements that say the same, and statements that rest on a quote."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory_context.foundation.text.statements import canonical_words, is_supported, unchangeable_words


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("I prefer tabs.", "prefer tabs"),
        ("My database is Orders at db1", "the database is Orders at db1!"),
        ("Please always answer in German.", "always answer in German"),
        ("Don't use emojis", "do not use emojis"),
        ("Meine Datenbank ist Orders", "die Datenbank ist Orders."),
    ],
)
def test_statements_that_say_the_same_have_equal_words(one: str, other: str) -> None:
    assert canonical_words(one) == canonical_words(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("I prefer tabs over spaces", "I prefer spaces over tabs"),
        ("my database is Orders at db1", "my database is Orders at db2"),
        ("my database is Orders", "my database was Orders"),
        ("use emojis", "don't use emojis"),
        ("I never use vim", "I use vim"),
        ("the port is 5432", "the port is -5432"),
        ("call me Order", "call me Orders"),
        ("the budget is 50", "the budget is 50%"),
        ("the release is on 2026-01-02", "the release is on 2026-02-01"),
        ("I write C", "I write C++"),
        ("logs are in /var/log/a", "logs are in /var/log/b"),
        ("tell us", "tell US"),
        ("I work from Berlin", "I work to Berlin"),
        ("I prefer tabs", "I prefer tabs?"),
        ("ich nutze Vim", "ich nutze kein Vim"),
    ],
)
def test_statements_that_differ_in_meaning_have_other_words(one: str, other: str) -> None:
    assert canonical_words(one) != canonical_words(other)


@given(st.text())
def test_canonical_words_are_stable_under_spacing(text: str) -> None:
    assert canonical_words(f"  {text}\n") == canonical_words(text)


@pytest.mark.parametrize(
    ("statement", "quote"),
    [
        ("Prefers dark mode", "I prefer dark mode"),
        ("The user's database is Orders at db1", "my database is Orders at db1; remember it"),
        ("Does not use tabs", "I don't want tabs anywhere"),
        ("Orders is the database", "the database is called Orders"),
    ],
)
def test_statement_with_only_words_of_the_quote_is_supported(statement: str, quote: str) -> None:
    assert is_supported(statement, [quote])


@pytest.mark.parametrize(
    ("statement", "quote"),
    [
        ("The user's database is Invoices", "my database is Orders at db1"),
        ("Invoices is the database", "the database is Orders"),
        ("The port is 5433", "the port is 5432"),
        ("Uses tabs", "I never use tabs"),
        ("Never uses tabs", "I use tabs"),
        ("Lives in Berlin since 2020", "I live in Berlin"),
    ],
)
def test_statement_that_adds_or_drops_a_fact_is_not_supported(statement: str, quote: str) -> None:
    assert not is_supported(statement, [quote])


def test_unchangeable_words_are_numbers_names_paths_and_negations() -> None:
    assert unchangeable_words("I don't deploy to /srv/app on 2026-01-02 with Ansible 2.9, ok?") == {
        "not",
        "/srv/app",
        "2026-01-02",
        "Ansible",
        "2.9",
    }
