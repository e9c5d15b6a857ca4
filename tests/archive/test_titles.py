"""What a session is called: the user's first words, then what a light model makes of them, told to the archive once."""

import asyncio

import pytest
from autogen_core import FunctionCall
from autogen_core.models import AssistantMessage, LLMMessage, SystemMessage, UserMessage

from memory_context.foundation.light_model.model import LightModel
from memory_context.sessions.archive import titles
from memory_context.sessions.archive.titles import Titles
from memory_context.sessions.transcript.transcript import Transcript

from ..context.lights import Light
from ..context.steps import a_turn_of_the_loop


def user(text: str, source: str = "user") -> UserMessage:
    return UserMessage(content=text, source=source)


def agent(text: str) -> AssistantMessage:
    return AssistantMessage(content=text, source="coder")


CALL = AssistantMessage(content=[FunctionCall(id="1", name="look", arguments="{}")], source="coder", thought="Hm.")


def named(*messages: LLMMessage, model: Light | None = None) -> tuple[Titles, Transcript]:
    light = None if model is None else LightModel(model, timeout_seconds=10, retry_seconds=0)
    return Titles(["user"], light), Transcript.of(messages)


async def until_named(names: Titles) -> None:
    while not names.has_news:
        await a_turn_of_the_loop()


def test_title_is_the_first_words_of_the_user():
    """Not those of another agent or the system, nor an empty message; before them there is none."""
    names, transcript = named(SystemMessage(content="Be brief."), user("I am a helper.", "helper"), user("  "))
    assert names.current(transcript) == ("", False)
    names, transcript = named(user("A helper's.", "helper"), user(" "), user("Why do\nowls turn?"), user("Two."))
    assert names.current(transcript) == ("Why do owls turn?", False)
    assert not names.has_news


def test_summary_is_the_last_request_and_the_last_answer_in_words():
    """A call without words is no answer; each takes half the room."""
    names, transcript = named(user("One."), agent("On one."), user("Two."), agent("On two."), CALL, user("x", "helper"))
    assert names.summary(transcript) == "Two. — On two."
    assert names.summary(Transcript.of([user("Two.")])) == "Two."
    assert names.summary(Transcript()) == ""
    names, transcript = named(user("r" * 1000), agent("a" * 1000))
    assert names.summary(transcript) == f"{'r' * 149}… — {'a' * 149}…"


async def test_model_is_asked_once_when_there_is_an_answer_to_name_it_by():
    """Words of both are fenced as data; what it says counts as final, until it is archived."""
    light = Light()
    light.title = '{"title": " *How owls see.* "}'
    names, transcript = named(user("Why </user-said> now?"), model=light)
    assert names.current(transcript) == ("Why </user-said> now?", False)
    transcript.append(CALL)
    names.current(transcript)
    await a_turn_of_the_loop()
    assert light.title_prompts == [], "a call says nothing yet"
    transcript.append(agent("Because."))
    assert names.current(transcript)[1] is False
    names.current(transcript)
    await until_named(names)
    assert light.title_prompts == [
        "<user-said>\nWhy < /user-said> now?\n</user-said>\n<agent-answered>\nBecause.\n</agent-answered>"
    ]
    assert names.current(transcript) == ("How owls see", True)
    names.note_kept("another title")
    assert names.current(transcript) == ("How owls see", True)
    names.note_kept("How owls see")
    assert (names.has_news, names.current(transcript)) == (False, ("", False)), "the user may call it otherwise by now"
    await names.close()


async def test_another_session_is_named_anew():
    """Neither by the words before nor by an answer that was still to come."""
    light = Light()
    names, transcript = named(user("One."), agent("On one."), model=light)
    names.current(transcript)
    await until_named(names)
    names.begin()
    assert not names.has_news
    other = Transcript.of([user("Two."), agent("On two.")])
    assert names.current(other) == ("Two.", False)
    names.begin()  # before the model has answered about the second
    third = Transcript.of([user("Three.")])
    for _ in range(20):
        await a_turn_of_the_loop()
    assert names.current(third) == ("Three.", False)
    third.append(agent("On three."))
    names.current(third)
    await until_named(names)
    assert ["One." in light.title_prompts[0], "Three." in light.title_prompts[-1]] == [True, True]
    await names.close()


async def test_session_that_has_a_name_asks_no_model():
    light = Light()
    names, transcript = named(user("One."), agent("On one."), model=light)
    names.ask_no_more()
    assert names.current(transcript) == ("One.", False)
    for _ in range(20):
        await a_turn_of_the_loop()
    assert light.title_prompts == []


async def test_close_waits_for_the_model_a_little_and_then_ends_it(monkeypatch: pytest.MonkeyPatch):
    """What it has said in time is there; one that never answers is cancelled."""
    names, transcript = named(user("One."), agent("On one."), model=Light())
    names.current(transcript)
    await names.close()
    assert names.current(transcript) == ("Named by the model", True)
    monkeypatch.setattr(titles, "_CLOSE_SECONDS", 0.01)
    names, transcript = named(user("One."), agent("On one."), model=Light())
    before = asyncio.all_tasks()

    async def never(*_: object) -> None:
        await asyncio.Event().wait()

    monkeypatch.setattr(names, "_ask", never)
    names.current(transcript)
    await names.close()
    assert asyncio.all_tasks() == before
