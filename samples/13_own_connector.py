"""A connector of your own: an agent that bakes, and notices by itself what the oven does meanwhile.

Learn: a connector is a class with six members, here in 40 lines. A tool acts; `get_observations` tells what changed
since it was last asked, also what nobody did on purpose; `render_current_state` is what the agent sees of the present.

Try: `memory_context.testing.CONNECTOR_CHECKS` on it, as the tests of this project do with their own; and an oven that
never answers: after ten seconds the agent goes on without it.
"""

import re
from collections.abc import Sequence

from autogen_agentchat.agents import AssistantAgent
from autogen_core.models import LLMMessage
from autogen_core.tools import FunctionTool
from runner import run

from memory_context import MemoryContext, TextObservation
from memory_context.testing import Call, ScriptedModel, call


class Oven:
    """An oven that warms up by 60 degrees between two looks at it."""

    id = "oven"

    def __init__(self) -> None:
        self.wanted = self.degrees = self.told = 20

    async def on_start(self) -> None:
        """Open the connection to the oven; there is none here."""

    async def on_stop(self) -> None:
        self.wanted = 20

    def tools(self) -> list[FunctionTool]:
        return [FunctionTool(self.heat, "Set the oven's temperature.", name="oven_heat"),
                FunctionTool(self.wait, "Wait a minute.", name="oven_wait")]  # fmt: skip

    async def heat(self, degrees: int) -> str:
        if not 20 <= degrees <= 250:
            raise ValueError(f"{degrees} degrees are out of range; give 20 to 250")
        self.wanted = degrees
        return "Set."

    async def wait(self) -> str:
        return "A minute passed."

    async def get_observations(self) -> list[TextObservation]:
        self.degrees = min(self.degrees + 60, self.wanted)
        before, self.told = self.told, self.degrees
        if before == self.degrees:
            return []
        return [TextObservation(self.id, f"[oven] Warmed up from {before} to {self.degrees} degrees")]

    async def render_current_state(self) -> list[str]:
        return [f"{self.degrees} degrees, set to {self.wanted}"]


def bake(view: Sequence[LLMMessage]) -> Call | str:
    """Decide by the oven's state, which stands at the end of the view."""
    state = re.search(r"(\d+) degrees, set to (\d+)", str(view[-1].content))
    if state is None:
        return "I cannot see the oven."
    degrees, wanted = map(int, state.groups())
    if wanted < 200:
        return call("oven_heat", degrees=200)
    return call("oven_wait") if degrees < wanted else f"The oven has {degrees} degrees: the bread goes in."


async def main() -> None:
    async with MemoryContext("sample-own-connector", "baker", "bread", connectors=[Oven()], resume=False) as context:
        model = ScriptedModel(bake)
        agent = AssistantAgent(
            "baker", model, model_context=context, workbench=context.workbench(), max_tool_iterations=9
        )
        await agent.run(task="Bake bread at 200 degrees.")
        for entry in context.transcript.entries():
            print(f"{type(entry.message).__name__}: {entry.message.content}")
        print(f"\nAt the end of its last view:\n{model.views[-1][-1].content}")


if __name__ == "__main__":
    run(main())
