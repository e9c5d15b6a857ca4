"""The harness for long histories: reads its format, runs end to end, and counts what fails."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from autogen_core.models import ChatCompletionClient, FunctionExecutionResultMessage, LLMMessage

from benchmarks.longmemeval import Question, Turn, ask, main, read_questions, run, small_set, stand_ins
from memory_context import ContextPolicy, MemoryStore
from memory_context.testing import Decision, ScriptedModel, call

SMALL = ContextPolicy(token_budget=4000, store_timeout_seconds=30)


def test_questions_are_read_from_the_format_of_longmemeval(tmp_path: Path) -> None:
    data: list[dict[str, Any]] = [
        {
            "question_id": "q1_abs",
            "question_type": "multi-session",
            "question": "How many?",
            "answer": 3,
            "question_date": "2023/05/30",
            "haystack_dates": ["2023/05/20", "2023/05/21"],
            "haystack_sessions": [
                [{"role": "user", "content": "one", "has_answer": True}, {"role": "assistant", "content": "yes"}],
                [{"role": "user", "content": "two"}],
            ],
        }
    ]
    path = tmp_path / "set.json"
    path.write_text(json.dumps(data))
    history = (Turn("user", "one", "2023/05/20", True), Turn("assistant", "yes"), Turn("user", "two", "2023/05/21"))
    assert read_questions(path) == [Question("q1_abs", "abstention", "How many?", "3", "2023/05/30", history)]


async def test_history_longer_than_the_window_is_observed_and_asked_about(store: MemoryStore) -> None:
    actor, light, judge = stand_ins()
    questions = small_set(6, turns=36)
    assert [one.kind for one in questions] == [
        "single-session-user",
        "single-session-assistant",
        "knowledge-update",
        "multi-session",
        "temporal-reasoning",
        "abstention",
    ]
    outcomes = await run(questions[:2], store, SMALL, actor=actor, light=light, judge=judge)
    for one in outcomes:
        assert one.error == ""
        assert one.response
        assert one.history_tokens > 4000 >= one.view_tokens
        assert one.log_tokens > 0
        assert one.light_model_calls >= one.chunks > 0
    assert outcomes[0].is_right, "the user's own words stand in the log"


@pytest.mark.parametrize("fails", ["actor", "judge"])
async def test_model_that_fails_is_an_outcome(store: MemoryStore, fails: str) -> None:
    def fail(view: object) -> str:
        raise RuntimeError("no more tokens")

    models: dict[str, ChatCompletionClient] = dict(zip(("actor", "light", "judge"), stand_ins(), strict=True))
    models[fails] = ScriptedModel(fail, model_info=models["actor"].model_info)
    question = Question("q", "single-session-user", "What?", "x", "", (Turn("user", "It is x."),))
    outcome = await ask(question, store, SMALL, **models)
    assert not outcome.is_right
    assert outcome.error.endswith("no more tokens")


async def test_actor_that_calls_tools_reads_the_messages_behind_observations(store: MemoryStore) -> None:
    """It is given read_history, and its answer is judged without a judge by the words."""

    def search_or_answer(view: Sequence[LLMMessage]) -> Decision:
        if isinstance(view[-1], FunctionExecutionResultMessage):
            return view[-1].content[0].content
        return call("read_history", query="called")

    (question,) = small_set(1, turns=4)
    outcome = await ask(question, store, SMALL, actor=ScriptedModel(search_or_answer))
    assert outcome.is_right
    assert f"user said: [2026/03/01] My dog is called {question.answer}." in outcome.response


def test_command_line_runs_on_its_own_set(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    out = tmp_path / "out.json"
    main(["--limit", "1", "--window", "4000", "--out", str(out)])
    printed = capsys.readouterr().out
    assert "of    1 right" in printed
    assert "Scripted models stood in: this says nothing about accuracy." in printed
    assert json.loads(out.read_text())[0]["chunks"] > 0
