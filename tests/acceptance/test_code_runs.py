"""Hundreds of steps of a coding agent with a real shell, under a budget that its outputs overrun many times."""

import json
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import pytest
from autogen_agentchat.messages import TextMessage, ToolCallExecutionEvent
from autogen_core.models import FunctionExecutionResult
from psycopg.conninfo import make_conninfo

from memory_context import ContextPolicy, MemoryContext, MemoryStore
from memory_context.foundation.messages import results_of
from memory_context.foundation.tokens import default_token_counter
from memory_context.store import embedded
from samples.code_agent import CodeAgent

from ..context.histories import same, tokens_of
from ..context.lights import Light
from .actor import Actor, Step, check_view, folds_in, keys_in
from .code_base import write_code_base
from .code_script import TASKS, steps_of_turn

BUDGET_TOKENS = 16_000
POLICY = ContextPolicy(token_budget=BUDGET_TOKENS, store_timeout_seconds=60)  # else a busy machine is an outage

MOST_STATE_BYTES_PER_CALL = 3000
UNREACHABLE = "cannot be reached at the moment", "Not stored: "

counter = default_token_counter()


class Run:
    """A coding agent in a project of its own, and what its tools returned.

    Args:
        context: What it holds.
        folder: Where the project is written.
        turns: How many turns of 60 steps it makes.
        around: What is made of its steps; None to leave them as they are.

    Attributes:
        actor: Its model.
        results: Of all tools, in order.
    """

    def __init__(
        self,
        context: MemoryContext,
        folder: Path,
        turns: int = len(TASKS),
        around: Callable[[Iterable[Step]], Iterable[Step]] = iter,
    ) -> None:
        self.context = context
        modules = write_code_base(folder)
        self.actor = Actor(around(step for turn in range(turns) for step in steps_of_turn(modules, turn)))
        self.results: list[FunctionExecutionResult] = []
        self._agent = CodeAgent("coder", self.actor, model_context=context, code_root=folder)
        self._turns = turns
        self._view_tokens: list[int] = []

    async def to_the_end(self) -> None:
        """Run all turns, and check every view: budget, pairs, task."""
        self.context.tools()  # the memory's tools at once
        checked = 0
        for task in TASKS[: self._turns]:
            run = await self._agent.run(task=task)
            assert isinstance(run.messages[-1], TextMessage), "the turn ended too early"
            for message in run.messages:
                if isinstance(message, ToolCallExecutionEvent):
                    self.results += message.content
            for view in self.actor.views[checked:]:
                check_view(view, task)
            checked = len(self.actor.views)
        await self._agent.close()
        assert max(self.view_tokens()) <= BUDGET_TOKENS

    def view_tokens(self) -> list[int]:
        """Return the tokens of each view, counted here."""
        for view in self.actor.views[len(self._view_tokens) :]:
            self._view_tokens.append(sum(tokens_of(message) for message in view))
        return self._view_tokens

    def look_ups(self) -> list[str]:
        """Return what the memory's tools answered."""
        tools = {tool.name for tool in self.context.tools()}
        return [result.content for result in self.results if result.name in tools]

    def large_results(self) -> set[str]:
        """Return what is stored of the results: those over the threshold, look-ups excepted."""
        look_ups, limit = {*self.look_ups()}, self.context.policy.offload_threshold_tokens
        return {r.content for r in self.results if r.content not in look_ups and counter.is_over(r.content, limit)}

    async def missing(self) -> set[str]:
        """Return what of the large results neither stands whole in the last view nor behind any key.

        Any key that stood in a view, or stands in what the folds of the last view open.
        """
        last = self.actor.views[-1]
        opened = [await self.context.retrieve(key) for key in folds_in(last)]
        keys = set[str]().union(*map(keys_in, self.actor.views), *map(keys_in, opened))
        whole = {result.content for message in last for result in results_of(message)}
        return self.large_results() - whole - {await self.context.retrieve(key) for key in keys}


async def test_three_hundred_steps_stay_in_a_small_budget(store: MemoryStore, tmp_path: Path) -> None:
    """Every view fits and every look-up answers; what was returned is all there, and the state stays small."""
    async with MemoryContext("alice", "coder", memory_store=store, policy=POLICY) as context:
        run = Run(context, tmp_path / "code")
        await run.to_the_end()
        stats, large = context.stats, run.large_results()
        assert len(run.actor.views) == stats.views == 300
        assert max(run.view_tokens()) <= stats.peak_view_tokens <= BUDGET_TOKENS
        assert sum(run.view_tokens()) <= stats.view_tokens_total
        assert stats.raw_tokens > 10 * BUDGET_TOKENS
        assert stats.folds > 0
        assert stats.offloads >= len(large) > 90
        assert stats.write_transactions <= stats.offloads

        look_ups = run.look_ups()
        assert len(look_ups) >= 100
        for text in look_ups:
            assert context.agent_memory.find_answer(text) or text.startswith("Stored. "), text
        assert not await run.missing()

        state = json.dumps(await context.save_state())
        assert len(state) < MOST_STATE_BYTES_PER_CALL * stats.views
        assert not [text for text in large if json.dumps(text)[1:-1] in state], "references only"
        async with MemoryContext("alice", "coder", memory_store=store, policy=POLICY) as later:
            await later.load_state(json.loads(state))
            assert same(await later.get_messages(), await context.get_messages())


@pytest.mark.usefixtures("store_asked_again_at_once")
async def test_work_goes_on_while_the_store_is_down(home: Path, tmp_path: Path) -> None:
    """The server is away for 45 of 120 steps; what was returned meanwhile is stored when it is back."""
    url = make_conninfo(**embedded.start(home))
    down, up = 35, 80

    def with_an_outage(steps: Iterable[Step]) -> Iterator[Step]:
        for number, step in enumerate(steps, 1):
            if number == down:
                embedded.release(home)
            if number == up:
                embedded.start(home)
            yield step

    async with (
        MemoryStore(url) as store,
        MemoryContext("alice", "coder", memory_store=store, policy=POLICY) as context,
    ):
        run = Run(context, tmp_path / "code", 2, with_an_outage)
        await run.to_the_end()
        assert len(run.actor.views) == 120
        refused = [text for text in run.look_ups() if any(words in text for words in UNREACHABLE)]
        assert refused, "there was an outage"
        assert not [result for result in run.results if result.is_error and "_old.py" not in result.content]
        assert not await run.missing()
        state = json.loads(json.dumps(await context.save_state()))
        async with MemoryContext("alice", "coder", memory_store=store, policy=POLICY) as later:
            await later.load_state(state)
            assert same(await later.get_messages(), await context.get_messages())


async def test_work_goes_on_while_the_light_model_fails(
    store: MemoryStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It raises, or answers nonsense, whatever it is asked; rules and compactors take its place."""
    monkeypatch.setattr("memory_context.foundation.light_model.guards.RETRY_SECONDS", 0)
    light = Light(RuntimeError("no credit"))
    light.summary = lambda prompt: "" if len(light.summary_prompts) % 2 else "\ud800" * 5000
    async with MemoryContext("alice", "coder", memory_store=store, model_client=light, policy=POLICY) as context:
        run = Run(context, tmp_path / "code", 2)
        await run.to_the_end()
        stats = context.stats
        assert stats.views == 120
        assert stats.light_model_failures == stats.light_model_calls > 0
        assert stats.summaries == 0
        assert stats.summary_failures > 0
        assert not await run.missing()
