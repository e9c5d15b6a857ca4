"""Which statements are about the same subject, so that the newer one replaces the older one."""

import pytest

from memory_context.foundation.text.statements import indices_of_ended, may_replace, replaces_others, subject_of


@pytest.mark.parametrize(
    ("older", "newer"),
    [
        ("my database is Orders at db1", "My database is now Sales."),
        ("my database is Orders at db1", "My database is Billing at db2"),
        ("My preferred editor is vim.", "my preferred editor has changed to Helix"),
        ("Meine Datenbank ist Orders.", "meine Datenbank heißt Sales"),
        ("I prefer tea over coffee.", "I prefer coffee over tea"),
        ("Ich bevorzuge Tee gegenüber Kaffee.", "Ich bevorzuge Kaffee gegenüber Tee."),
        ("I live in Porto", "I'm based in Lisbon"),
        ("I work at Kelp.", "I work for Brightwater"),
        ("Call me Theo.", "You can call me Ted"),
        ("Call me Theo.", "My nickname is Ted"),
        ("My favorite color is blue.", "My favourite colour is red."),
        ("My time zone is CET.", "my timezone is PST"),
        ("The user prefers answers in German.", "Always answer in English."),
        ("Answer in German.", "Please always answer me in French."),
        ("Always use type hints", "Never use type hints"),
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
        ("I live in Porto", "I live in a flat with a garden."),
        ("I live in Porto", "I also live in Lisbon."),
        ("I live in Porto", "I no longer live in Faro."),
        ("I work at Kelp.", "I work at night."),
        ("I use Slack for work.", "I use Jira for work."),
        ("Answer in German.", "Write commit messages in English."),
        ("my dog is called Bruno", "my dog is allergic to chicken"),
        ("my dog is called Bruno", "my brother's dog is called Rex"),
        ("my sister is a nurse", "my sister is left-handed"),
        ("our office is in Leith", "our office is closed on Fridays"),
        ("my staging server is heron.example.org", "my staging server is in Frankfurt"),
        ("my database is Orders", "my database is 40 GB large"),
        ("My email address is nadia@example.org.", "My email address is misspelled."),
        ("my name is Nadia", "my name was Tom"),
        ("My name is Samantha Jones.", "Call me Sam."),
        ("I write in German.", "Answer in English."),
        ("mein Hund heißt Bruno", "mein Hund ist Diabetiker"),
        ("meine Tochter heißt Lena", "meine Tochter ist allergisch gegen Milch"),
        ("mein Auto ist ein Volvo", "mein Auto steht in der Calle Luna"),
        ("unser Büro ist in Leith", "unser Büro ist montags zu"),
    ],
)
def test_statements_about_different_subjects_stand_side_by_side(one: str, other: str):
    assert subject_of(one) is None or subject_of(one) != subject_of(other)


@pytest.mark.parametrize(
    ("statement", "is_replacing"),
    [
        ("my staging server is called heron", True),
        ("meine Datenbank heißt Sales", True),
        ("my dog is called Rex", False),  # perhaps a second dog
        ("my dog is now called Rex", True),
        ("meine Tochter heißt Mia", False),
        ("mein Hund heißt jetzt Rex", True),
        ("I live in Lisbon", True),
    ],
)
def test_only_statement_of_which_one_holds_replaces_its_like(statement: str, is_replacing: bool):
    assert subject_of(statement) is not None
    assert replaces_others(statement) is is_replacing


@pytest.mark.parametrize(
    ("statement", "ended"),
    [
        ("I no longer live in Porto.", "I live in Porto with my two kids."),
        ("I don't live in Porto any more, but in Faro", "I live in Porto"),
        ("I no longer work at Kelp.", "I work at Kelp as an analyst."),
        ("The user no longer works in Kiel.", "I work in Kiel"),
        ("I'm no longer vegetarian", "I am vegetarian."),
        ("I don't use vim anymore", "I always use vim for quick edits."),
        ("My dog is no longer called Bruno", "my dog is called Bruno"),
        ("I don’t work at Kelp anymore, now at Brightwater.", "I work at Kelp."),
        ("Don’t use type hints any more.", "Always use type hints"),
        ("No longer use type hints", "Always use type hints"),
        ("Ich wohne nicht mehr in Lübeck.", "Ich wohne in Lübeck."),
        ("Ich trinke keinen Kaffee mehr", "Ich trinke Kaffee"),
        ("Mein Hund heißt nicht mehr Bruno", "Mein Hund heißt Bruno"),
    ],
)
def test_statement_that_something_holds_no_longer_ends_that(statement: str, ended: str):
    assert [*indices_of_ended(statement, ["I drive a Volvo.", ended])] == [1]


@pytest.mark.parametrize(
    ("statement", "other"),
    [
        ("I no longer live in Porto.", "I live in Lisbon."),
        ("I no longer live in Porto.", "My sister lives in Porto."),
        ("I'm no longer vegetarian", "My daughter is vegetarian."),
        ("I no longer like coffee", "I like tea and coffee"),
        ("I no longer avoid soy", "I'm a vegan and I avoid soy."),
        ("I no longer drink coffee", "I never drink coffee after noon"),
        ("I no longer live there", "I live in Porto"),
        ("I live in Porto", "I live in Porto with my two kids."),
        ("My dog is no longer ill", "my dog is called Bruno"),
        ("Ich wohne nicht mehr in Lübeck.", "Ich wohne in Kiel."),
    ],
)
def test_statement_ends_nothing_that_it_does_not_deny(statement: str, other: str):
    assert [*indices_of_ended(statement, [other])] == []


@pytest.mark.parametrize(
    ("newer", "older", "is_possible"),
    [
        ("My dog is allergic to chicken.", "My database is Orders.", False),
        ("The user lives in Bremen.", "I live in Kiel.", True),
        ("The user moved to Bremen with the family.", "I live in Kiel.", True),
        ("我住在上海", "我住在北京", True),  # no rule tells, so the model decides
    ],
)
def test_model_cannot_replace_the_answer_to_another_question(newer: str, older: str, is_possible: bool):
    assert may_replace(newer, older) is is_possible
