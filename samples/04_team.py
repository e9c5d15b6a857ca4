"""A team from component JSON whose agents have their memory in the JSON, and whose state is taken up by another team.

Learn: `04_team.json` beside this file is a team as AutoGen writes it; each agent's `model_context` is a
`memory_context.MemoryContext`, the writer's with `"sharing": "read_only"`, and one tool is the memory's. Which modules
JSON may load from is named by AUTOGEN_ALLOWED_PROVIDER_NAMESPACES. The saved contexts hold references instead of
files, so loading them needs the same database. Archiving is off, since here the state is what lasts.

Try: `"sharing": "isolated"` for the writer, who is then told whom to ask; and, with a key, for the reader the
model_client `{"provider": "autogen_ext.models.openai.OpenAIChatCompletionClient", "config": {"model": "gpt-4.1"}}`.
"""

import json
import os
from pathlib import Path

from autogen_agentchat.base import Team
from autogen_agentchat.messages import BaseChatMessage
from autogen_agentchat.teams import BaseGroupChat
from runner import needs, run

with needs():
    import code_agent  # noqa: F401 - the JSON file names it

HERE = Path(__file__).parent
# code_agent.py lies beside this file: Python finds it, since it is started as a script
os.environ.setdefault("AUTOGEN_ALLOWED_PROVIDER_NAMESPACES", "memory_context,code_agent")


async def ask(team: Team, task: str) -> None:
    """Run the team on a task and print who says what."""
    async for message in team.run_stream(task=task):
        if isinstance(message, BaseChatMessage):
            print(f"  {message.source}: {message.to_text()}")


async def main() -> None:
    description = json.loads((HERE / "04_team.json").read_text(encoding="utf-8"))
    description["config"]["participants"][0]["config"]["code_root"] = str(HERE)  # wherever this was started
    print("The team of the JSON file:\n")
    team = BaseGroupChat.load_component(description)
    await ask(team, "Which tools does a CodeAgent in code_agent.py have?")

    dumped, state = team.dump_component().model_dump_json(), await team.save_state()
    saved = json.dumps(state["agent_states"]["reader"]["agent_state"]["llm_context"])
    read = (HERE / "code_agent.py").stat().st_size
    print(f"\nThe reader read {read:,} bytes; what is saved of its context is {len(saved):,}.")

    print("\nAnother team, loaded from what the first one dumped, with its state:\n")
    team = BaseGroupChat.load_component(json.loads(dumped))
    await team.load_state(state)
    await ask(team, "And what does it refuse?")


if __name__ == "__main__":
    run(main())
