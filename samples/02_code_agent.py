"""An agent that works on a folder, asks for something twice, and pays for it once.

Learn: the three lines that give any AutoGen agent a memory are in `code_agent.py`; what a file becomes when the agent
has answered; how it gets a detail back without reading the file again; what it came to.

With OPENAI_API_KEY (and OPENAI_BASE_URL, OPENAI_MODEL) the model is live, else its decisions are scripted.

Try: `python samples/02_code_agent.py <folder> <question>…` with a key, on code of your own; and
`MemoryContext(…, policy=ContextPolicy(first_view_limit_tokens=1000))`, which shows the file by an excerpt.
"""

import sys
from pathlib import Path

from autogen_agentchat.messages import ToolCallExecutionEvent, ToolCallRequestEvent
from autogen_core.models import FunctionExecutionResultMessage
from runner import needs, run

import memory_context
from memory_context import MemoryContext, choose_light_model
from memory_context.testing import ScriptedModel, call

with needs():
    from code_agent import CodeAgent, model_client_from_env

FOLDER = Path(memory_context.__file__).parent / "foundation"
QUESTIONS = (
    "What in policy.py decides how a large tool result is shown?",
    "And how long do the messages of a turn wait to be written? Quote the line.",
)
SCRIPT = (
    call("read_file", path="policy.py"),
    "first_view_by_tool says how, first_view_limit_tokens how much of it; offload_threshold_tokens says what is large.",
    call("retrieve_memory", memory_key="{key}", pattern="batch_seconds.*=", context_lines=0),
    "A minute at most:\n{result}",
)


async def ask(agent: CodeAgent, question: str) -> None:
    """Run one turn and print what happens in it."""
    print(f"> {question}")
    async for event in agent.run_stream(task=question):
        if isinstance(event, ToolCallRequestEvent):
            print(*(f"  calls {one.name}({one.arguments})" for one in event.content), sep="\n")
        elif isinstance(event, ToolCallExecutionEvent):
            print(*(f"  gets {len(one.content):,} characters" for one in event.content), sep="\n")
    print(f"{event.messages[-1].content}\n")  # type: ignore[union-attr]  # the last event is the result of the run


async def first_result(context: MemoryContext) -> str:
    """Return the first tool result in the view."""
    view = await context.get_messages()
    results = [one for one in view if isinstance(one, FunctionExecutionResultMessage)]
    return results[0].content[0].content if results else "(no tool was called)"


async def main(folder: Path, questions: tuple[str, ...]) -> None:
    live = model_client_from_env()
    model = live or ScriptedModel(*SCRIPT)
    light_model = choose_light_model(live)  # decides what to open and summarises; a script cannot
    print(light_model, end="\n\n")
    async with MemoryContext(
        "sample-code-agent", "coder", "policy", model_client=light_model.client, resume=False
    ) as context:
        agent = CodeAgent("coder", model, model_context=context, code_root=folder)
        for question in questions:
            await ask(agent, question)
        stats, report = context.stats, await context.explain()
        print(f"What became of the first result, as the model sees it now:\n\n{await first_result(context)}")
        print(f"\nThe whole of its last view, in tokens:\n\n{report}")
        print(
            f"\n{stats.views} calls read {stats.view_tokens_total:,} tokens; keeping everything would have been "
            f"{stats.raw_tokens_total:,}. Items stored: {stats.offloads}. "
            f"The light model's are not among them: {stats.light_model}."
        )
        await agent.close()


if __name__ == "__main__":
    run(main(Path(sys.argv[1]) if sys.argv[1:] else FOLDER, tuple(sys.argv[2:]) or QUESTIONS))
