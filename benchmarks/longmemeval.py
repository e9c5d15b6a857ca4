"""Questions about long histories, asked after the history has passed through one context.

`python -m benchmarks.longmemeval --data longmemeval_s.json --actor MODEL --light MODEL --judge MODEL` reads sets in the
format of LongMemEval (https://github.com/xiaowu0162/LongMemEval). Without `--data` it makes a small set of its own, and
without models scripted ones stand in, to show that it runs: that says nothing about accuracy.
"""

import argparse
import asyncio
import json
import os
import random
import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from autogen_agentchat.agents import AssistantAgent
from autogen_core.models import (
    AssistantMessage,
    ChatCompletionClient,
    LLMMessage,
    ModelInfo,
    SystemMessage,
    UserMessage,
)

from benchmarks.scratch import scratch_store
from memory_context import ContextPolicy, MemoryContext, MemoryStore, create_recall_tool
from memory_context.foundation.text.tokenize import terms_of
from memory_context.foundation.tokens import default_token_counter

__all__ = ["Outcome", "Question", "Turn", "ask", "read_questions", "run", "settle", "small_set", "stand_ins"]

SYSTEM = "You answer questions about earlier conversations with the user, in a few words. Say so if you do not know."
JUDGE = (
    "Question: {question}\nCorrect answer: {answer}\nResponse: {response}\n\nDoes the response contain the correct "
    "answer, or say that it is not known where the correct answer says that? Answer yes or no."
)
PATIENCE_SECONDS = 300.0
_POLL_SECONDS = 0.05
_TOOL_CALLS = 4


@dataclass(frozen=True)
class Turn:
    """One message of a history.

    Attributes:
        date: Of its conversation; empty but for the first of each.
        has_answer: It is evidence of the answer.
    """

    role: str
    content: str
    date: str = ""
    has_answer: bool = False


@dataclass(frozen=True)
class Question:
    id: str
    kind: str
    question: str
    answer: str
    date: str
    history: tuple[Turn, ...]


@dataclass
class Outcome:
    """What became of one question.

    Attributes:
        evidence_in_view: Messages with the answer that the last view shows word for word.
        error: Why there is no response; it counts as wrong.
    """

    id: str
    kind: str
    is_right: bool = False
    response: str = ""
    error: str = ""
    history_tokens: int = 0
    view_tokens: int = 0
    log_tokens: int = 0
    chunks: int = 0
    light_model_calls: int = 0
    light_model_tokens: int = 0
    evidence: int = 0
    evidence_in_view: int = 0


def read_questions(path: Path, limit: int | None = None) -> list[Question]:
    """Return the questions of a file in LongMemEval's format."""
    return [_question(one) for one in json.loads(path.read_text(encoding="utf-8"))[:limit]]


def _question(data: Mapping[str, Any]) -> Question:
    dates = data.get("haystack_dates") or [""] * len(data["haystack_sessions"])
    history = [
        Turn(turn["role"], turn["content"], date if number == 0 else "", bool(turn.get("has_answer")))
        for date, turns in zip(dates, data["haystack_sessions"], strict=True)
        for number, turn in enumerate(turns)
    ]
    kind = "abstention" if data["question_id"].endswith("_abs") else data["question_type"]
    answer = str(data["answer"])  # some are numbers
    return Question(data["question_id"], kind, data["question"], answer, data.get("question_date", ""), tuple(history))


async def run(
    questions: Sequence[Question],
    store: MemoryStore,
    policy: ContextPolicy,
    *,
    actor: ChatCompletionClient,
    light: ChatCompletionClient | None,
    judge: ChatCompletionClient | None,
) -> list[Outcome]:
    """Ask each question after its history, each as a user of its own."""
    return [await ask(one, store, policy, actor=actor, light=light, judge=judge) for one in questions]


async def ask(
    question: Question,
    store: MemoryStore,
    policy: ContextPolicy,
    *,
    actor: ChatCompletionClient,
    light: ChatCompletionClient | None = None,
    judge: ChatCompletionClient | None = None,
) -> Outcome:
    """Pass the history through a context, then let an agent answer; a model that fails is an outcome, too."""
    outcome = Outcome(question.id, question.kind)
    async with MemoryContext(f"longmemeval-{question.id}", "assistant", None, store, model_client=light,
                             policy=policy) as context:  # fmt: skip
        for turn in question.history:
            await _hear(context, turn)
        can_call = actor.model_info["function_calling"]
        tools = [create_recall_tool(context)] if can_call else []
        agent = AssistantAgent(
            "assistant",
            actor,
            model_context=context,
            tools=tools or None,
            system_message=SYSTEM,
            max_tool_iterations=_TOOL_CALLS if can_call else 1,
        )
        try:
            result = await agent.run(task=f"[{question.date}] {question.question}".replace("[] ", ""))
            outcome.response = result.messages[-1].to_model_text()  # type: ignore[union-attr]
            outcome.is_right = await _is_right(question, outcome.response, judge)
        except Exception as error:  # of a client, of any kind
            outcome.error = f"{type(error).__name__}: {error}"[:300]
        await _measure(context, question, outcome)
    return outcome


async def _hear(context: MemoryContext, turn: Turn) -> None:
    """Add a message as an agent would, and wait for observers, as the time between turns does."""
    if turn.role == "user":
        text = f"[{turn.date}] {turn.content}" if turn.date else turn.content
        await context.add_message(UserMessage(content=text, source="user"))
        await context.get_messages()
    else:
        await context.add_message(AssistantMessage(content=turn.content, source="assistant"))
    await asyncio.wait_for(settle(context), PATIENCE_SECONDS)


async def settle(context: MemoryContext) -> None:
    """Wait until nothing observes."""
    while context.observation.is_processing:  # noqa: ASYNC110  # nothing tells when it ends
        await asyncio.sleep(_POLL_SECONDS)


async def _is_right(question: Question, response: str, judge: ChatCompletionClient | None) -> bool:
    if judge is None:
        return question.answer.casefold() in response.casefold()
    text = JUDGE.format(question=question.question, answer=question.answer, response=response)
    said = (await judge.create([UserMessage(content=text, source="user")])).content
    return isinstance(said, str) and re.match(r"\W*yes\b", said, re.IGNORECASE) is not None


async def _measure(context: MemoryContext, question: Question, outcome: Outcome) -> None:
    count, log = default_token_counter().count, context.transcript.state.observation
    view = await context.get_messages()
    shown = _text(view)
    used = context.stats.light_model.total
    outcome.history_tokens = sum(count(turn.content) for turn in question.history)
    outcome.view_tokens, outcome.log_tokens = count(shown), log.tokens
    outcome.chunks = len(log.chunks) + len(log.buffered)
    outcome.light_model_calls, outcome.light_model_tokens = used.calls, used.tokens
    evidence = [turn.content for turn in question.history if turn.has_answer]
    outcome.evidence, outcome.evidence_in_view = len(evidence), sum(text in shown for text in evidence)


def _text(messages: Sequence[LLMMessage]) -> str:
    return "\n".join(str(message.content) for message in messages if not isinstance(message, SystemMessage))


# --- a small set of its own

_FACTS = (
    ("single-session-user", "My dog is called {a}.", "What is my dog called?"),
    ("single-session-assistant", "Name me a dish.", "Which dish did you name to me?"),
    ("knowledge-update", "My desk is in room {a}.", "In which room is my desk?"),
    ("multi-session", "Today I bought {a} apples.", "How many apples did I buy in all?"),
    ("temporal-reasoning", "I visited {a} today.", "Which town did I visit first?"),
    ("abstention", "I like long walks.", "What is my cat called?"),
)
_NAMES = ("Quillon", "Brisker", "Tamsel", "Orwyn", "Peldrin", "Vantress")
_TOPICS = ("the harbour", "train times", "soup", "old maps", "the garden", "bicycles")


def small_set(questions: int = 6, turns: int = 40, seed: int = 0) -> list[Question]:
    """Return questions about made-up histories, all kinds in turn."""
    chance = random.Random(seed)
    return [_made(f"made-{seed}-{number}", _FACTS[number % len(_FACTS)], turns, chance) for number in range(questions)]


def _made(name: str, fact: tuple[str, str, str], turns: int, chance: random.Random) -> Question:
    kind, said, asked = fact
    first, second = chance.sample(_NAMES, 2)
    answer = {"multi-session": "7", "knowledge-update": second, "abstention": "not known"}.get(kind, first)
    facts = {
        "single-session-assistant": [(said, f"{first} stew.")],
        "knowledge-update": [(said.format(a=first), "Noted."), (f"My desk moved to room {second}.", "Noted.")],
        "multi-session": [(said.format(a=3), "Noted."), (said.format(a=4), "Noted.")],
        "temporal-reasoning": [(said.format(a=first), "Nice."), (said.format(a=second), "Nice.")],
    }.get(kind, [(said.format(a=first), "Noted.")])
    at = sorted(chance.sample(range(turns // 2), len(facts)))
    history: list[Turn] = []
    for place in range(turns):
        date = f"2026/03/{1 + place * 27 // turns:02}" if place % 4 == 0 else ""
        if place in at:
            user, assistant = facts[at.index(place)]
            has_answer = kind != "abstention"
            is_of_agent = kind == "single-session-assistant"
            history += [
                Turn("user", user, date, has_answer and not is_of_agent),
                Turn("assistant", assistant, has_answer=has_answer and is_of_agent),
            ]
        else:
            topic = chance.choice(_TOPICS)
            details = " ".join(f"Remark {chance.randrange(10_000)} on {topic}." for _ in range(20))
            history += [Turn("user", f"Tell me about {topic}.", date), Turn("assistant", details)]
    return Question(name, kind, asked, answer, "2026/04/01", tuple(history))


def stand_ins() -> tuple[ChatCompletionClient, ChatCompletionClient, ChatCompletionClient]:
    """Return an actor, a light model and a judge.

    The actor repeats the line of its view most like the question, the light model the first words of each message, and
    the judge compares words.
    """
    from memory_context.testing import ScriptedModel, observe_by_script

    def act(view: Sequence[LLMMessage]) -> str:
        asked = max(n for n, one in enumerate(view) if isinstance(one, UserMessage) and one.source == "user")
        wanted = set(terms_of(str(view[asked].content)))
        lines = _text([*view[:asked], *view[asked + 1 :]]).splitlines()
        return max(lines, key=lambda line: len(wanted & set(terms_of(line))), default="I do not know.")

    def compare(view: Sequence[LLMMessage]) -> str:
        fields = dict(re.findall(r"^(Correct answer|Response): (.*)$", _text(view), re.MULTILINE))
        return "yes" if fields["Correct answer"].casefold() in fields["Response"].casefold() else "no"

    info = ModelInfo(vision=False, function_calling=False, json_output=False, family="unknown", structured_output=False)
    act_, observe_, compare_ = (ScriptedModel(one, model_info=info) for one in (act, observe_by_script, compare))
    return act_, observe_, compare_


# --- from the command line


def print_outcomes(outcomes: Sequence[Outcome]) -> None:
    """Print right answers by kind of question, and what they cost."""
    by_kind: dict[str, list[Outcome]] = defaultdict(list)
    for one in outcomes:
        by_kind[one.kind].append(one)
    for kind, some in [*sorted(by_kind.items()), ("all", list(outcomes))]:
        right, failed = sum(one.is_right for one in some), sum(bool(one.error) for one in some)
        print(f"{kind:26} {right:4} of {len(some):4} right" + (f", {failed} failed" if failed else ""))
    total = {name: sum(getattr(one, name) for one in outcomes) for name in asdict(Outcome("", "")) if "tok" in name}
    print(", ".join(f"{name} {value:,}" for name, value in total.items()))
    evidence, shown = sum(one.evidence for one in outcomes), sum(one.evidence_in_view for one in outcomes)
    print(f"evidence word for word in the last view: {shown} of {evidence}")
    print(f"chunks of observations: {sum(one.chunks for one in outcomes)}")


def main(arguments: Sequence[str] | None = None) -> None:
    """Run it from the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.longmemeval", description=(__doc__ or "").split("\n")[0]
    )
    parser.add_argument("--data", type=Path, help="JSON file in LongMemEval's format; else a small set is made")
    parser.add_argument("--limit", type=int, help="questions to ask (default: all)")
    parser.add_argument("--window", type=int, default=16_000, help="tokens of a view (default 16,000)")
    for role in ("actor", "light", "judge"):
        parser.add_argument(f"--{role}", help=f"model that is the {role}; its key is in OPENAI_API_KEY")
    parser.add_argument("--base-url", help="of another OpenAI-compatible server")
    parser.add_argument("--out", type=Path, help="write the outcomes there, as JSON")
    given = parser.parse_args(arguments)
    outcomes = asyncio.run(_run(given))
    print_outcomes(outcomes)
    if given.actor is None:
        print("Scripted models stood in: this says nothing about accuracy.")
    if given.out is not None:
        given.out.write_text(json.dumps([asdict(one) for one in outcomes], indent=1), encoding="utf-8")


async def _run(given: argparse.Namespace) -> list[Outcome]:
    questions = read_questions(given.data, given.limit) if given.data else small_set(given.limit or 6)
    actor, light, judge = stand_ins()
    policy = ContextPolicy(token_budget=given.window)
    async with scratch_store() as (store, _):
        return await run(
            questions,
            store,
            policy,
            actor=_client(given.actor, given.base_url) if given.actor else actor,
            light=_client(given.light, given.base_url) if given.light else light,
            judge=_client(given.judge, given.base_url) if given.judge else judge,
        )


def _client(model: str, base_url: str | None) -> ChatCompletionClient:
    from autogen_ext.models.openai import OpenAIChatCompletionClient

    if base_url is None:
        return OpenAIChatCompletionClient(model=model)
    info = ModelInfo(vision=False, function_calling=True, json_output=True, family="unknown", structured_output=True)
    return OpenAIChatCompletionClient(
        model=model, base_url=base_url, api_key=os.environ.get("OPENAI_API_KEY", "none"), model_info=info
    )


if __name__ == "__main__":
    main()
