"""Sixty inspections in one turn, in a window that holds a third of them.

Learn: in the background a light model writes dated observations of what has been said and done; when the view fills
its window, they take the place of the oldest messages, and nobody waits. Each observation names its messages, so that
`read_history` brings back what it leaves out. `context.observation.on_observation` tells when, `.observations` what.

Without a key a script observes, in place of a light model: its observations are the first words of each message. With
OPENAI_API_KEY the live model observes, or the one that MEMORY_CONTEXT_LIGHT_MODEL names.

Try: `observation=ObservationPolicy(mode="off")` in `POLICY`, and the oldest steps fold, as without a light model.
"""

import random
import re
from collections.abc import Sequence

from autogen_agentchat.agents import AssistantAgent
from autogen_agentchat.messages import ToolCallRequestEvent
from autogen_core.models import FunctionExecutionResultMessage, LLMMessage, UserMessage
from runner import needs, run

from memory_context import ContextPolicy, MemoryContext, ObservationEvent, choose_light_model
from memory_context.foundation.light_model.answers import Completion
from memory_context.testing import Decision, ScriptedModel, call, observe_by_script

with needs():
    from code_agent import model_client_from_env

HARBOURS = 60
POLICY = ContextPolicy(token_budget=6000)
TASK = f"Inspect the harbours 1 to {HARBOURS}, one after another. Which berths are closed?"
QUESTION = "Since when was the berth of harbour 7 closed, and who had reported it?"
NOTES = ("chain", "quay", "crane", "ladder", "fender", "pump", "light", "cable", "paint", "anchor")
INSPECTORS = ("Okafor", "Lindqvist", "Marchetti", "Tanaka", "Dubois")


async def inspect(number: int) -> str:
    """Inspect a harbour and return the report."""
    draw = random.Random(number)
    berths = [f"berth {berth}: {draw.uniform(6, 18):.1f} m, {' '.join(draw.sample(NOTES, 5))}" for berth in range(1, 9)]
    closed = f"CLOSED since 2026-0{draw.randint(1, 9)}-{draw.randint(10, 28)}, reported by {draw.choice(INSPECTORS)}"
    berths[number % 8] = f"berth {number % 8 + 1}: {closed}"
    return f"harbour {number}\n" + "\n".join(berths)


def decide(view: Sequence[LLMMessage]) -> Decision:
    """Decide as a model would that sees only this view: go on after the newest report, look up what is out of it."""
    task = next(one.content for one in reversed(view) if isinstance(one, UserMessage) and one.source == "user")
    reports = [one.content[0].content for one in view if isinstance(one, FunctionExecutionResultMessage)]
    if task == QUESTION:
        if reports and (found := re.search(r"harbour 7\n[\s\S]*?(CLOSED[^\n]*)", reports[-1])):
            return f"It is {found[1]}."
        if reports and (following := re.search(r"Next: read_history\(first_message=(\d+)", reports[-1])):
            return call("read_history", first_message=int(following[1]))
        log = "\n".join(str(one.content) for one in view if isinstance(one, UserMessage) and one.source == "memory")
        observed = re.search(r'"number": 7\}.*?\((\d+)', log) or re.search(r"harbour 7\b.*?\((\d+)", log)
        return call("read_history", first_message=int(observed[1]) if observed else 1)
    done = int(re.findall(r"harbour (\d+)\n", reports[-1])[-1]) if reports else 0
    return call("inspect", number=done + 1) if done < HARBOURS else "Inspected; one berth of each is closed."


async def observe(messages: Sequence[LLMMessage], limit_tokens: int) -> Completion:
    """Answer for the light model."""
    return Completion(observe_by_script(messages))


def tell(event: ObservationEvent) -> None:
    """Say that observations took the place of messages."""
    count, share = len(event.compacted_messages), event.context_utilization
    print(f"  {count} messages gave way to observations, at {share:.0%} of the window")


async def ask(agent: AssistantAgent, question: str) -> None:
    """Run one turn and print its look-ups and its answer."""
    print(f"> {question}")
    async for event in agent.run_stream(task=question):
        if isinstance(event, ToolCallRequestEvent):
            look_ups = [one for one in event.content if one.name == "read_history"]
            print(*(f"  calls read_history({one.arguments})\n" for one in look_ups), sep="", end="")
    print(f"{event.messages[-1].content}\n")  # type: ignore[union-attr]  # the last event is the result of the run


async def main() -> None:
    live = model_client_from_env()
    light_model = choose_light_model(live).client
    async with MemoryContext(
        "sample-long-session", "inspector", "harbours", model_client=light_model, policy=POLICY, resume=False
    ) as context:
        context.observation.on_observation(tell)
        if light_model is None:
            context.observation.completion_function = observe
        agent = AssistantAgent(
            "inspector",
            live or ScriptedModel(decide),
            workbench=context.workbench([inspect]),
            model_context=context,
            max_tool_iterations=2 * HARBOURS,
            system_message="You inspect harbours.",
        )
        await ask(agent, TASK)
        report = await context.explain()
        print(f"The last view has {report.tokens:,} tokens:")
        for kind in dict.fromkeys(segment.kind for segment in report.segments):
            print(f"  {kind}: {sum(segment.tokens for segment in report.segments if segment.kind == kind):,}")
        lines = [line for line in context.observation.observations.splitlines() if line.startswith("- ")]
        print(f"\nThe log has {len(lines)} observations, the newest of them, as the model sees them:")
        print(*(f"  {line[:100]}" for line in lines[-4:]), "", sep="\n")
        await ask(agent, QUESTION)
        stats = context.stats
        print(
            f"{stats.views} calls read {stats.view_tokens_total:,} tokens; keeping everything would have been "
            f"{stats.raw_tokens_total:,}. Folds: {stats.folds}."
        )


run(main())
