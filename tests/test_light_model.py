"""The guard around the small model: whatever the client does, an answer in time or LightModelError."""

import asyncio
import contextlib
import gc
import json
import logging
import warnings
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import pytest
from autogen_core import CancellationToken, FunctionCall
from autogen_core.models import (
    ChatCompletionClient,
    CreateResult,
    LLMMessage,
    ModelInfo,
    RequestUsage,
    SystemMessage,
    UserMessage,
)
from autogen_ext.models.openai import OpenAIChatCompletionClient
from autogen_ext.models.replay import ReplayChatCompletionClient
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from memory_context.foundation.errors import LightModelError
from memory_context.foundation.light_model import model
from memory_context.foundation.light_model.answers import ANSWER_LIMIT_CHARACTERS, Completion
from memory_context.foundation.light_model.model import LightModel
from tests.support.waiting import soon

from .context.steps import a_turn_of_the_loop
from .support.openai_stub import ChatStub, running

PROMPT = [SystemMessage(content="Answer in JSON."), UserMessage(content="my private words", source="user")]
GOOD = '{"expand": ["a"], "ambiguous": false}'


class Answer(BaseModel):
    """What the tests ask for."""

    expand: list[str]
    ambiguous: bool = False


def info(*, json_output: bool = True, structured_output: bool = False) -> ModelInfo:
    return ModelInfo(
        vision=False,
        function_calling=False,
        json_output=json_output,
        family="unknown",
        structured_output=structured_output,
    )


class Client(ReplayChatCompletionClient):
    """A client whose `create` is the given function."""

    component_provider_override = "tests.Client"

    def __init__(self, create: Callable[..., Any], model_info: ModelInfo | None = None) -> None:
        super().__init__([])
        self._model_info = model_info or info()  # unchecked, as older clients lack a field
        self._behave = create
        self.kwargs: list[dict[str, Any]] = []

    async def create(self, messages: Sequence[LLMMessage], **kwargs: Any) -> CreateResult:
        self.kwargs.append(kwargs)
        return await self._behave(**kwargs)


def result(content: Any) -> CreateResult:
    usage = RequestUsage(prompt_tokens=7, completion_tokens=3)
    return CreateResult(finish_reason="stop", content=content, usage=usage, cached=False)


def answering(content: Any) -> Client:
    async def create(**kwargs: Any) -> CreateResult:
        return result(content)

    return Client(create)


def raising(error: Exception) -> Client:
    async def create(**kwargs: Any) -> CreateResult:
        raise error

    return Client(create)


class Clock:
    """A clock the test sets."""

    def __init__(self) -> None:
        self.seconds = 100.0

    def __call__(self) -> float:
        return self.seconds


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr("memory_context.foundation.runtime.background.time", SimpleNamespace(monotonic=clock))
    return clock


async def ask(client: ChatCompletionClient, **settings: Any) -> Answer:
    return await LightModel(client, **settings).ask(PROMPT, Answer)


@pytest.mark.parametrize(
    ("model_info", "expected"),
    [
        (info(structured_output=True), Answer),
        (info(), True),
        (info(json_output=False), None),
        (ModelInfo(vision=False, function_calling=False, json_output=True, family="unknown"), True),  # pyright: ignore
    ],
)
async def test_light_model_asks_for_the_strictest_output_of_the_client(model_info: ModelInfo, expected: object):
    """Structured, else JSON mode, else plain text; always with the token cap and a cancellation token."""
    client = Client(answering(GOOD)._behave, model_info)
    assert await ask(client, answer_limit_tokens=50) == Answer(expand=["a"])
    (kwargs,) = client.kwargs
    assert kwargs["json_output"] is expected
    assert kwargs["extra_create_args"] == {"max_tokens": 50}
    assert isinstance(kwargs["cancellation_token"], CancellationToken)


async def test_completion_is_plain_text_with_its_own_token_limit():
    """No JSON mode whatever the client can do; the limit of the call wins over the guard's."""
    client = Client(answering("<think>hm</think>\n- a line\n")._behave, info(structured_output=True))
    light = LightModel(client, answer_limit_tokens=50)
    assert await light.complete(PROMPT, 400) == Completion("- a line", False, 7, 3)
    assert await light.complete(PROMPT) == Completion("- a line", False, 7, 3)
    assert [kwargs["json_output"] for kwargs in client.kwargs] == [None, None]
    assert [kwargs["extra_create_args"] for kwargs in client.kwargs] == [{"max_tokens": 400}, {"max_tokens": 50}]
    assert (light.usage.calls, light.usage.prompt_tokens, light.usage.failures) == (2, 14, 0)


@pytest.mark.parametrize("content", ["", "  \n", "<think>all of it</think>", "<think>cut in mid", None])
async def test_completion_without_text_is_a_failure(content: Any):
    """Counted and refused like an answer that holds no object."""
    light = LightModel(answering(content) if content is not None else raising(RuntimeError("private")))
    with pytest.raises(LightModelError):
        await light.complete(PROMPT)
    assert (light.usage.calls, light.usage.failures) == (1, 1)


async def test_completions_and_questions_share_one_breaker(clock: Clock):
    """Three failures of either kind, then neither is asked."""
    light = LightModel(raising(RuntimeError()), failures_allowed=3)
    for ask_somehow in (light.complete(PROMPT), light.ask(PROMPT, Answer), light.complete(PROMPT)):
        with pytest.raises(LightModelError, match="raised"):
            await ask_somehow
    with pytest.raises(LightModelError, match="not asked"):
        await light.complete(PROMPT)
    assert light.usage.calls == 3


async def test_completion_at_its_token_limit_says_so():
    """Its beginning is of use to a reader of lines."""

    async def create(**kwargs: Any) -> CreateResult:
        usage = RequestUsage(prompt_tokens=0, completion_tokens=0)
        return CreateResult(finish_reason="length", content="- a line\n- an", usage=usage, cached=False)

    light = LightModel(Client(create))
    assert await light.complete(PROMPT) == Completion("- a line\n- an", is_cut=True)
    assert light.usage.unreported_calls == 1


async def test_autogens_replay_client_is_asked_and_its_usage_counted():
    """With its own token counts; when it has run out of answers that is a failure."""
    light = LightModel(ReplayChatCompletionClient(["Sure:\n```json\n" + GOOD + "\n```"]))
    assert await light.ask(PROMPT, Answer) == Answer(expand=["a"])
    assert (light.usage.calls, light.usage.failures, light.usage.prompt_tokens) == (1, 0, 6)
    assert light.usage.completion_tokens > 0
    with pytest.raises(LightModelError, match="raised ValueError"):
        await light.ask(PROMPT, Answer)
    assert (light.usage.calls, light.usage.failures) == (2, 1)


@pytest.mark.parametrize(
    "text",
    [
        GOOD,
        f"```json\n{GOOD}\n```",
        f"Here you are: {GOOD} - anything else?",
        f'<think>perhaps {{"expand": ["b"]}}?</think>\n{GOOD}',
        '{"expand": ["a",], "ambiguous": false,\n}',
        f"{GOOD}\n{GOOD}",
        f"I looked at {{this}} and f(x){{}}: {GOOD}",
        f"[{GOOD}]",
        "\ufeff" + GOOD,
        json.dumps({"expand": ["a"], **{f"key{i}": i for i in range(1000)}}),
        '{"reason": "braces } in { strings", "expand": ["a"]}',
    ],
    ids=range(11),
)
async def test_answer_is_found_in_surrounding_text(text: str):
    """Fences, prose, thoughts, trailing commas, repetitions, a thousand keys too many."""
    assert await ask(answering(text)) == Answer(expand=["a"])


@pytest.mark.parametrize(
    "content",
    [
        "",
        "   ",
        "I cannot do that.",
        "null",
        "[]",
        "{}",
        '{"expand": "a"}',
        '{"expand": ["a"]',
        '{"expand": ["a"]} or rather {"expand": ["b"]}',
        '{"expand": [' + "9" * 50_000 + "]}",
        "x" * ANSWER_LIMIT_CHARACTERS + GOOD,
        "{" * ANSWER_LIMIT_CHARACTERS,
        '{"a":' * (ANSWER_LIMIT_CHARACTERS // 5),
        "[" * ANSWER_LIMIT_CHARACTERS,
        '{"' * (ANSWER_LIMIT_CHARACTERS // 2),
        ", " * (ANSWER_LIMIT_CHARACTERS // 2),
        [FunctionCall(id="1", name="expand", arguments=GOOD)],
    ],
    ids=range(17),
)
async def test_unusable_answer_is_refused(content: Any):
    """Empty, prose, wrong types, cut off, contradictions, tool calls, a megabyte of braces."""
    with pytest.raises(LightModelError):
        await ask(answering(content))


@given(st.text(alphabet='{}[]",:\\ae1 \n\ud800\x00', max_size=300))
def test_answers_validate_for_any_text(text: str):
    """An answer or LightModelError, never another error."""

    async def run() -> None:
        with contextlib.suppress(LightModelError):
            await ask(answering(text))

    asyncio.run(run())


async def test_result_that_is_no_text_is_refused():
    """A hand-made client may return None, or a result without usage."""

    async def create(**kwargs: Any) -> Any:
        return None

    with pytest.raises(LightModelError, match="NoneType"):
        await ask(Client(create))


@pytest.mark.parametrize(
    "text",
    [
        "Unsupported parameter: 'max_tokens', use 'max_completion_tokens' instead",
        "create() got an unexpected keyword argument 'extra_create_args'",
    ],
)
async def test_a_client_that_refuses_the_cap_is_asked_without_it_and_that_is_remembered(text: str):
    """Once with, then without for good."""

    async def create(**kwargs: Any) -> CreateResult:
        if kwargs.get("extra_create_args"):
            raise TypeError(text)
        return result(GOOD)

    client = Client(create)
    light = LightModel(client)
    for _ in range(2):
        assert await light.ask(PROMPT, Answer) == Answer(expand=["a"])
    assert ["extra_create_args" in kwargs for kwargs in client.kwargs] == [True, False, False]
    assert (light.usage.calls, light.usage.failures) == (3, 0)


async def test_an_error_that_only_mentions_the_cap_does_not_switch_it_off(clock: Clock):
    """If it fails without the cap too, the cap was not the reason."""
    client = raising(ValueError("context too long for max_tokens"))
    light = LightModel(client, failures_allowed=5)
    for _ in range(2):
        with pytest.raises(LightModelError):
            await light.ask(PROMPT, Answer)
    assert ["extra_create_args" in kwargs for kwargs in client.kwargs] == [True, False] * 2


async def test_a_client_that_never_answers_is_given_up_after_the_timeout():
    """Its task and its token are cancelled, and the breaker opens at once."""
    ended = asyncio.Event()

    async def create(cancellation_token: CancellationToken, **kwargs: Any) -> CreateResult:
        try:
            await asyncio.Event().wait()
        finally:
            assert cancellation_token.is_cancelled()
            ended.set()
        raise AssertionError

    light = LightModel(Client(create), timeout_seconds=0.02)
    with pytest.raises(LightModelError, match="no answer within"):
        await light.ask(PROMPT, Answer)
    await soon(ended.wait())
    with pytest.raises(LightModelError, match="not asked"):
        await light.ask(PROMPT, Answer)
    assert light.usage.calls == 1


async def test_a_client_that_swallows_its_cancellation_holds_nobody(caplog: pytest.LogCaptureFixture):
    """We go on after the timeout; when it fails later, asyncio has nothing to complain about."""
    release = asyncio.Event()
    ended = asyncio.Event()

    async def create(**kwargs: Any) -> CreateResult:
        while not release.is_set():
            try:
                await release.wait()
            except asyncio.CancelledError:
                continue
        ended.set()
        raise RuntimeError("too late")

    with caplog.at_level(logging.WARNING):
        with pytest.raises(LightModelError, match="no answer"):
            await soon(ask(Client(create), timeout_seconds=0.02), 1)
        gc.collect()
        release.set()
        await ended.wait()
        await a_turn_of_the_loop()
        gc.collect()
    assert [record.name for record in caplog.records] == ["memory_context"]


async def test_cancelling_the_question_cancels_the_call_and_is_no_failure():
    """Cancellation passes through; the next question is asked."""
    started, ended = asyncio.Event(), asyncio.Event()

    async def create(**kwargs: Any) -> CreateResult:
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()
        raise AssertionError

    light = LightModel(Client(create))
    question = asyncio.ensure_future(light.ask(PROMPT, Answer))
    await started.wait()
    question.cancel()
    with pytest.raises(asyncio.CancelledError):
        await question
    await soon(ended.wait())
    assert light.is_available
    assert light.usage.failures == 0


async def test_a_client_that_cancels_itself_is_a_failure_and_not_our_cancellation():
    """CancelledError from inside the client must not look like ours."""

    async def create(**kwargs: Any) -> CreateResult:
        raise asyncio.CancelledError

    with pytest.raises(LightModelError, match="cancelled the call"):
        await ask(Client(create))


async def test_the_breaker_opens_after_failures_in_a_row_and_a_success_closes_it(clock: Clock):
    """Three failures, silence, one trial that fails, silence again, a trial that succeeds."""
    answers: list[str] = ["nonsense", "nonsense", "nonsense", "nonsense", GOOD, "nonsense", GOOD]

    async def create(**kwargs: Any) -> CreateResult:
        return result(answers.pop(0))

    light = LightModel(Client(create), retry_seconds=30)

    async def outcome() -> str:
        try:
            await light.ask(PROMPT, Answer)
        except LightModelError as error:
            return "refused" if "not asked" in str(error) else "failed"
        return "answered"

    assert [await outcome() for _ in range(5)] == ["failed", "failed", "failed", "refused", "refused"]
    clock.seconds += 29.9
    assert await outcome() == "refused"
    clock.seconds += 0.1
    assert [await outcome() for _ in range(2)] == ["failed", "refused"]
    clock.seconds += 30
    assert [await outcome() for _ in range(3)] == ["answered", "failed", "answered"]
    assert light.usage.failures == 5


async def test_failures_are_warned_of_once_an_opening_and_say_nothing_private(
    caplog: pytest.LogCaptureFixture, clock: Clock
):
    """Neither the prompt nor the text of the error, which may quote a key, is logged or in our error's text."""
    light = LightModel(raising(RuntimeError("api key sk-123 refused: my private words")), retry_seconds=30)
    with caplog.at_level(logging.DEBUG):
        for _ in range(2):
            for _ in range(5):
                with pytest.raises(LightModelError) as caught:
                    await light.ask(PROMPT, Answer)
                assert "sk-123" not in str(caught.value)
            clock.seconds += 30
    ours = [record for record in caplog.records if record.name == "memory_context"]
    assert len(ours) == 2
    assert "sk-123" not in caplog.text
    assert "private" not in caplog.text


def test_light_model_works_in_one_event_loop_after_another():
    """A team runs under several asyncio.run calls."""
    light = LightModel(answering(GOOD))
    for _ in range(2):
        assert asyncio.run(light.ask(PROMPT, Answer)) == Answer(expand=["a"])


class Held(Client):
    """Answers when it is released; `calls` are the futures of what was asked, in order."""

    def __init__(self) -> None:
        async def create(**kwargs: Any) -> CreateResult:
            self.calls.append(asyncio.get_running_loop().create_future())
            self.came.set()
            return await self.calls[-1]

        super().__init__(create)
        self.calls: list[asyncio.Future[CreateResult]] = []
        self.came = asyncio.Event()

    async def next_call(self) -> "asyncio.Future[CreateResult]":
        await soon(self.came.wait())
        self.came.clear()
        return self.calls[-1]


async def settled() -> None:
    for _ in range(20):
        await a_turn_of_the_loop()


async def test_decisions_go_before_background_questions_of_the_same_client():
    """One background question at a time; a decision gives it up and it is asked again; no failure is counted."""
    client = Held()
    decisions, background = LightModel(client), [LightModel(client, is_background=True) for _ in range(2)]
    waiting = [asyncio.ensure_future(light.ask(PROMPT, Answer)) for light in background]
    first = await client.next_call()
    await settled()
    assert len(client.calls) == 1, "the second waits for the first"
    decision = asyncio.ensure_future(decisions.ask(PROMPT, Answer))
    asked = await client.next_call()
    assert first.cancelled()
    await settled()
    assert len(client.calls) == 2, "nothing is asked beside a decision"
    asked.set_result(result(GOOD))
    assert await decision == Answer(expand=["a"])
    for _ in waiting:
        (await client.next_call()).set_result(result(GOOD))
        await settled()
    assert await asyncio.gather(*waiting) == [Answer(expand=["a"])] * 2
    assert len(client.calls) == 4
    assert [light.usage.failures for light in (decisions, *background)] == [0, 0, 0]


async def test_a_background_question_that_decisions_crowd_out_is_no_failure():
    """After five attempts it has no answer; the breaker stays closed."""
    client = Held()
    decisions, background = LightModel(client), LightModel(client, is_background=True, failures_allowed=1)
    waiting = asyncio.ensure_future(background.ask(PROMPT, Answer))
    for _ in range(model.BACKGROUND_ATTEMPTS):
        await client.next_call()
        decision = asyncio.ensure_future(decisions.ask(PROMPT, Answer))
        (await client.next_call()).set_result(result(GOOD))
        await decision
    with pytest.raises(LightModelError, match="given up for decisions"):
        await waiting
    assert background.is_available
    assert background.usage.failures == 0
    waiting = asyncio.ensure_future(background.ask(PROMPT, Answer))
    call = await client.next_call()
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    await settled()
    assert call.cancelled(), "a question that is cancelled itself is not asked again"


class _LengthError(Exception):
    """As the OpenAI client raises it for an answer that it was to parse."""

    def __init__(self, content: str) -> None:
        message = SimpleNamespace(content=content)
        self.completion = SimpleNamespace(
            choices=[SimpleNamespace(message=message, finish_reason="length")],
            usage=RequestUsage(prompt_tokens=7, completion_tokens=3),
        )


@pytest.mark.parametrize("is_raised", [True, False])
async def test_an_answer_that_reached_its_token_limit_counts_as_far_as_it_goes(is_raised: bool):
    """Whether the client raises that or says so; what holds no answer yet says which limit it reached."""

    async def create(**kwargs: Any) -> CreateResult:
        if is_raised:
            raise _LengthError(contents[0])
        cut = result(contents[0])
        cut.finish_reason = "length"
        return cut

    contents = ['{"expand": ["a", "b']
    light = LightModel(Client(create), answer_limit_tokens=50)
    assert await light.ask(PROMPT, Answer) == Answer(expand=["a", "b"])
    assert (light.usage.failures, light.usage.prompt_tokens, light.usage.completion_tokens) == (0, 7, 3)
    contents[0] = "Let me think about"
    with pytest.raises(LightModelError, match="reached its limit of 50 tokens"):
        await light.ask(PROMPT, Answer)


async def test_autogens_openai_client_answers_by_schema_without_a_warning():
    """AutoGen would parse an answer of a type: that raises at the limit, and pydantic warns of every other answer."""
    info_of_it = info(structured_output=True)
    with running(ChatStub) as stub:
        client = OpenAIChatCompletionClient(
            model="tiny", base_url=stub.url, api_key="key", model_info=info_of_it, max_retries=0
        )
        stub.answers = [(GOOD, "stop"), ('{"expand": ["a"], "ambiguous": true', "length")]
        light = LightModel(client)
        with warnings.catch_warnings(record=True) as warned:
            warnings.simplefilter("always")
            assert await light.ask(PROMPT, Answer) == Answer(expand=["a"])
            assert await light.ask(PROMPT, Answer) == Answer(expand=["a"], ambiguous=True)
        await client.close()
    assert [str(one.message) for one in warned if "pydantic" in str(one.message).lower()] == []
    asked = stub.requests[0]["response_format"]["json_schema"]
    assert asked["schema"]["required"] == ["expand", "ambiguous"]
    assert stub.requests[0]["max_tokens"] == 300
