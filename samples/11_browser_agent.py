"""An agent that books a berth on a web page, by what the page shows and by nothing else.

Learn: `WebConnector` gives an agent a Chromium. Each element that can be acted on has a reference, such as `e3`; the
state of the page, with its references, stands at the end of each view, and after an action the history gets only what
changed. The page, `11_harbour.html`, is served by this script, on this machine: hence `allow_private=True`. Else the
browser reaches public addresses only, or the hosts that `allowed_hosts` names.

Needs a Chromium: `playwright install chromium`, or an installed one. With OPENAI_API_KEY the model is live.

Try: `allowed_hosts=["example.org"]`, and see what the agent is told; and let `SCRIPT` click a reference that is gone.
"""

import re
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

from autogen_agentchat.agents import AssistantAgent
from autogen_core import FunctionCall
from autogen_core.models import FunctionExecutionResult, LLMMessage
from runner import needs, run

from memory_context import ConnectorError, MemoryContext
from memory_context.testing import Decision, ScriptedModel, call

with needs("browser"):
    from code_agent import model_client_from_env

    from memory_context import WebConnector

TASK = "Book berth 7 for the Wanderer, two nights, with electricity."


class Harbour(SimpleHTTPRequestHandler):
    """Serves the files of this folder, without a log."""

    def log_message(self, format: str, *args: object) -> None:
        pass


@contextmanager
def serving() -> Iterator[str]:
    """Serve `11_harbour.html`, a list of berths with a form; yields its address."""
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Harbour, directory=Path(__file__).parent)) as server:
        Thread(target=server.serve_forever).start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/11_harbour.html"
        finally:
            server.shutdown()


def on(name: str, tool: str, **arguments: object) -> Callable[[Sequence[LLMMessage]], Decision]:
    """Decide as a model would that sees only the view: use the reference that the newest state gives to an element."""
    known = re.compile(rf'"{name}" \[(e\d+)\]')
    return lambda view: call(f"web_{tool}", ref=known.findall(str(view[-1].content))[0], **arguments)


SCRIPT = (
    on("Choose berth 7", "click"),
    on("Ship", "type", text="Wanderer"),
    on("Nights", "select", options=["2"]),
    on("Electricity", "click"),
    on("Book", "click"),
    "It is booked.",
)


def lines_of(view: Sequence[LLMMessage]) -> Iterator[str]:
    """Yield what a model is shown, message by message."""
    for message in view:
        for one in message.content if isinstance(message.content, list) else [message.content]:
            if isinstance(one, FunctionCall):
                yield f"calls {one.name}({one.arguments})"
            elif isinstance(one, FunctionExecutionResult):
                yield f"gets  {one.content}"
            else:
                yield f"{getattr(message, 'source', '')}: {one if isinstance(one, str) else '(an image)'}"


async def main() -> None:
    with serving() as url:
        web = WebConnector(url, allow_private=True)
        try:
            await web.on_start()
        except ConnectorError as error:
            sys.exit(f"The sample needs a browser: {error}")
        async with MemoryContext("sample-browser-agent", "clerk", resume=False, connectors=[web]) as context:
            model, tools = model_client_from_env() or ScriptedModel(*SCRIPT), context.workbench()
            agent = AssistantAgent("clerk", model, model_context=context, workbench=tools, max_tool_iterations=12)
            await agent.run(task=TASK)
            view = await context.get_messages()
            print("The whole of its last view; the page as it is stands at the end:\n", *lines_of(view), sep="\n")


run(main())
