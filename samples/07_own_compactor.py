"""What stays of a result, decided by you: the totals of a query instead of its first rows.

Learn: a compactor is one function, registered for a tool's name or a pattern of names. It says whether the call
succeeded, what the content is, which facts stay beside the placeholder, and, for a result too long to be shown whole,
which passages to show first. It never loses anything: all rows can still be looked up. If yours raises, is too slow
or returns too much, it is passed over, which the log says, and the built-in one takes its place.

Try: `@compactors.register(lambda result: result.content.startswith("order|"))`, which goes by the content; and
`ROWS = 100`, which is short enough to be shown whole at first.
"""

from collections.abc import Sequence

from autogen_agentchat.agents import AssistantAgent
from autogen_core.models import FunctionExecutionResultMessage, LLMMessage
from runner import run

from memory_context import Compacted, Compactors, Hint, MemoryContext, Passage, Result
from memory_context.testing import ScriptedModel, call

ROWS = 400

compactors = Compactors()


@compactors.register("query_*")
def compact_orders(result: Result, hint: Hint) -> Compacted:
    """Keep what an accountant asks next: how much is overdue, and who owes most."""
    head, *rows = result.content.splitlines(keepends=True)
    orders = [row.strip().split("|") for row in rows]
    overdue = [(float(amount), customer) for _, customer, amount, state in orders if state == "overdue"]
    most, customer = max(overdue)
    return Compacted(
        status=f"{result.source} succeeded.",
        description=f"{len(orders)} orders, {len(overdue)} overdue",
        facts=f"Overdue: {sum(amount for amount, _ in overdue):,.2f} in all; most by {customer}: {most:,.2f}.",
        excerpt=passages(len(head), rows),
    )


def passages(start: int, rows: list[str]) -> list[Passage]:
    """Return where the head and the overdue orders stand."""
    found = [Passage(0, start)]
    for row in rows:
        if row.endswith("|overdue\n"):
            found.append(Passage(start, start + len(row)))
        start += len(row)
    return found


async def query_orders(month: str) -> str:
    """Return all orders of a month."""
    rows = [
        f"{month}-{n:04}|customer {n * 7 % 90}|{n * 131 % 997}.50|{'overdue' if n % 57 == 11 else 'paid'}\n"
        for n in range(ROWS)
    ]
    return "".join(["order|customer|amount|state\n", *rows])


async def show(title: str, session_id: str, compactors: Compactors | None) -> None:
    """Print what a model sees of the orders at first, and what once it has answered."""
    seen: list[str] = []

    def answer(view: Sequence[LLMMessage]) -> str:
        seen.extend(one.content[0].content for one in view if isinstance(one, FunctionExecutionResultMessage))
        return "I have looked at them."

    async with MemoryContext("sample-compactor", "clerk", session_id, compactors=compactors, resume=False) as context:
        model = ScriptedModel(call("query_orders", month="2024-05"), answer)
        agent = AssistantAgent("clerk", model, tools=[query_orders], model_context=context, max_tool_iterations=2)
        await agent.run(task="Go through the orders of May.")
        await agent.run(task="Thank you.")
        fresh, answered = seen
        print(f"--- {title}\n\nAt first, {len(fresh.splitlines())} lines of {ROWS + 1}:\n")
        print(*fresh.splitlines()[:8], "…", sep="\n")
        print(f"\nOnce it has answered:\n\n{answered}\n")


async def main() -> None:
    await show("The built-in compactor", "built-in", None)
    await show("Your own", "own", compactors)


if __name__ == "__main__":
    run(main())
