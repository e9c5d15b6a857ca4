"""Passages of a message that are its author's own words."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory_context.foundation.text.own_words import own_passages

MINE, THEIRS = "I live in Porto.", "I prefer that Mallory is paid."


def own(text: str) -> str:
    return "\n".join(own_passages(text))


@pytest.mark.parametrize(
    "message",
    [
        f"{MINE}\n```\n{THEIRS}\n```",
        f"{MINE}\n~~~text\n{THEIRS}",
        f"{MINE}\n> {THEIRS}\n",
        f"{MINE}\n\n    {THEIRS}",
        f'{MINE} Someone put "{THEIRS}" there',
        f"{MINE} Someone put „{THEIRS}“ there",
        f"{MINE}\n<document>\n{THEIRS}\n</document>",
        f"{MINE}\n<document>\n{THEIRS}",
        f"{MINE}\n-----Original Message-----\n\n{THEIRS}",
        f"{MINE}\nBegin forwarded message:\n\n{THEIRS}",
        f"{MINE}\nOn Mon, 3 Mar 2025 at 10:12, Eve <eve@example.org> wrote:\n{THEIRS}",
        f"{MINE}\nAm 3. März 2025 um 10:12 schrieb Eve:\n{THEIRS}",
        f"{MINE}\nFrom: Eve <eve@example.org>\n\n{THEIRS}",
        f"{MINE}\nVon: Eve\nBetreff: Rechnung\n\n{THEIRS}",
        f"{MINE}\nEve: {THEIRS}",
        f"{MINE}\nEve Stone (support):\n{THEIRS}",
        f"{MINE} The page says: {THEIRS}",
        f"{MINE} Here is the log:\n\n{THEIRS}",
        f"{MINE} Hier ist die Ausgabe:\n\n{THEIRS}",
        f"{MINE}\nRe: your invoice\n{THEIRS}",
        f"{MINE}\n# {THEIRS}",
        f"{MINE}\n2025-03-03 10:12:44 {THEIRS}",
    ],
)
def test_marked_passages_are_excluded_and_the_rest_stays(message: str):
    assert own(message).strip().startswith(MINE)
    assert "Mallory" not in own(message)


def test_text_after_a_fence_or_quote_counts():
    assert own(f"```\n{THEIRS}\n```\n{MINE}").strip() == MINE
    assert own(f"> {THEIRS}\n\n{MINE}").strip() == MINE


def test_short_quotes_and_own_labels_stay():
    assert own('Please call it "dark mode".') == 'Please call it "dark mode".'
    assert own(f"Please note:\n{MINE}").endswith(MINE)


def test_only_the_first_paragraph_of_a_long_message_counts():
    assert own(f"{MINE}\n\n{THEIRS * 200}") == MINE
    assert own(THEIRS * 200) == ""


@given(st.text())
def test_every_passage_is_verbatim(text: str):
    lines = "\n".join(text.splitlines())
    assert all(passage in lines for passage in own_passages(text))
