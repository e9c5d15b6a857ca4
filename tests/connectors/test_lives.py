"""When connectors are open: from the first message until whatever ends the session, however it ends."""

import asyncio
import gc
from collections.abc import Awaitable, Callable

import pytest
from autogen_core import CancellationToken
from autogen_core.models import UserMessage
from autogen_core.tools import FunctionTool

from memory_context import MemoryContext, MemoryStore
from memory_context.connectors.protocols import TextObservation

from ..conftest import StartPython
from ..support.waiting import soon
from .counting import Counter, context_of


class Watched(Counter):
    """Tells when it stops."""

    def __init__(self) -> None:
        super().__init__()
        self.stopped = asyncio.Event()

    async def on_stop(self) -> None:
        await super().on_stop()
        self.stopped.set()


@pytest.mark.parametrize("end", [lambda context: context.close(), lambda context: context.memory_store.close()])
async def test_connector_is_open_from_the_first_message_to_the_end(
    store: MemoryStore, end: Callable[[MemoryContext], Awaitable[None]]
) -> None:
    counter = Watched()
    context = context_of(store, counter)
    assert not counter.is_open
    await context.add_message(UserMessage(content="Go.", source="user"))
    assert counter.is_open
    await end(context)
    assert not counter.is_open
    await context.add_message(UserMessage(content="Go on.", source="user"))
    assert counter.is_open
    await context.close()


async def test_context_that_is_dropped_stops_its_connectors(store: MemoryStore) -> None:
    counter = Watched()
    context = context_of(store, counter)
    await context.add_message(UserMessage(content="Go.", source="user"))
    await context.archive()
    del context
    gc.collect()
    await soon(counter.stopped)


ENDS = """
import asyncio, os, signal
from autogen_core.models import UserMessage
from memory_context import MemoryContext, MemoryStore
from tests.connectors.test_context import Counter

class Told(Counter):
    async def on_stop(self):
        print("stopped", flush=True)

async def main(store):
    context = MemoryContext("alice", memory_store=store, connectors=[Told()])
    await context.add_message(UserMessage(content="Go.", source="user"))
    if os.environ["HOW"] == "SIGTERM":
        os.kill(os.getpid(), signal.SIGTERM)
        await asyncio.Event().wait()
    return context

kept = asyncio.run(main(MemoryStore(os.environ["TEST_URL"])))
"""


@pytest.mark.thorough
@pytest.mark.parametrize(("how", "status"), [("SIGTERM", -15), ("the loop ends", 0)])
async def test_connector_is_stopped_by_the_end_of_the_program(
    start_python: StartPython, database_url: str, how: str, status: int
) -> None:
    process = await start_python(ENDS, TEST_URL=database_url, HOW=how)
    out, _ = await soon(process.communicate())
    assert (out, process.returncode) == (b"stopped\n", status)


async def test_tool_whose_observations_fail_keeps_its_result(store: MemoryStore) -> None:
    class Result:
        def get_direct_observations(self) -> list[TextObservation]:
            raise RuntimeError("no observations")

        def __str__(self) -> str:
            return "the result"

    class Acting(Counter):
        def tools(self) -> list[FunctionTool]:
            async def act() -> Result:
                """Act."""
                return Result()

            return [FunctionTool(act, "Act.", name="act")]

    async with context_of(store, Acting()) as context:
        tool = context.tools()[-1]
        assert tool.return_value_as_string(await tool.run_json({}, CancellationToken())) == "the result"
