"""Agents with a browser: one orders in a shop by what it is shown, and no Chromium outlives its program."""

import asyncio
import subprocess
import sys
import textwrap
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
import pytest
from autogen_agentchat.agents import AssistantAgent
from autogen_core import Image
from autogen_core.models import LLMMessage, ModelInfo

from memory_context import MemoryContext, MemoryStore
from memory_context.testing import ScriptedModel, call
from memory_context.testing.models import Decision

from ...support.browser import chromium_options
from ...support.sites import served_sites
from ...support.waiting import PATIENT_SECONDS, until
from ...support.web import new_connector, page, ref_in, state, told, use


def on(element: str, tool: str, **arguments: Any) -> Callable[[Sequence[LLMMessage]], Decision]:
    """Decide by the newest state in the view."""
    return lambda view: call(f"web_{tool}", ref=ref_in(str(view[-1].content), element), **arguments)


def browsers_below(process: psutil.Process) -> list[psutil.Process]:
    """Return the Chromiums that a process started, without the processes that these started."""
    browsers: list[psutil.Process] = []
    for one in process.children(recursive=True):
        with suppress(psutil.NoSuchProcess):
            command = one.cmdline()
            if "--remote-debugging-pipe" in command and not any(word.startswith("--type=") for word in command):
                browsers.append(one)
    return browsers


def is_alive(process: psutil.Process) -> bool:
    with suppress(psutil.NoSuchProcess):
        return process.status() != psutil.STATUS_ZOMBIE
    return False


async def test_agent_orders_in_a_shop_by_tools_and_states_alone(
    store: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("memory_context.connectors.host._ANSWER_SECONDS", PATIENT_SECONDS)
    model = ScriptedModel(
        on('textbox "Search products"', "type", text="chair", submit=True),
        on('link "Green Chair"', "click"),
        on('combobox "Size"', "select", options=["Large"]),
        on('spinbutton "Quantity"', "type", text="2"),
        on('button "Add to cart"', "click"),
        on('link "Cart (1)"', "click"),
        on('link "Check out"', "click"),
        on('textbox "Name"', "type", text="Ada"),
        on('textbox "Street"', "type", text="Hill 1"),
        on('textbox "City"', "type", text="Graz"),
        on('combobox "Country"', "select", options=["Austria"]),
        on('radio "Express, next day"', "click"),
        on('checkbox "I accept the terms"', "click"),
        on('button "Place order"', "click"),
        "Ordered.",
    )
    async with served_sites() as sites:
        web = new_connector(f"{sites.url}/shop/")
        async with MemoryContext("alice", "buyer", memory_store=store, connectors=[web]) as context:
            agent = AssistantAgent(
                "buyer",
                model_client=model,
                model_context=context,
                workbench=context.workbench(),
                max_tool_iterations=20,
            )
            result = await agent.run(task="Order two large green chairs.")
            seen = [str(one.content) for one in await context.get_messages()]
        (order,) = sites.orders
    assert order["name"] == "Ada"
    assert order["delivery"] == "express"
    assert order["items"] == '[{"name":"Green Chair","quantity":"2"}]'
    assert "Ordered." in str(result.messages[-1])
    assert any("Your order has the number 1." in one for one in seen)
    assert max(model.count_tokens(view) for view in model.views) < 8000


@pytest.mark.thorough
@pytest.mark.parametrize("has_vision", [True, False])
async def test_state_shows_the_newest_picture_to_a_model_with_vision_and_others_read_of_it(
    store: MemoryStore, monkeypatch: pytest.MonkeyPatch, has_vision: bool
) -> None:
    monkeypatch.setattr("memory_context.connectors.host._ANSWER_SECONDS", PATIENT_SECONDS)
    body = "<div style='height:3000px;background:#036'><button onclick='scrollTo(0, 900)'>Go</button><h1>Sea</h1></div>"
    info = ModelInfo(
        vision=has_vision, function_calling=True, json_output=False, family="unknown", structured_output=False
    )
    model = ScriptedModel(on('button "Go"', "click"), "Done.", model_info=info)
    web = new_connector(page(body))
    async with MemoryContext("alice", "viewer", memory_store=store, connectors=[web]) as context:
        context.note_agent(model_client=model)
        agent = AssistantAgent("viewer", model, model_context=context, workbench=context.workbench())
        await agent.run(task="Go down.")
        built = await context.build_context()
        (state,) = built.current_connector_states
        view = await context.get_messages()
    in_state = [one for one in view[-1].content if isinstance(one, Image)]
    everywhere = [one for message in view if isinstance(message.content, list) for one in message.content]
    assert len(in_state) == has_vision
    assert sum(isinstance(one, Image) for one in everywhere) <= 2 * has_vision
    assert has_vision or "image of 1280 x 720 of web" in str(view)
    assert [type(one) for one in state.elements] == [str, Image]
    assert str(view).count("Sea") <= 2


async def test_killed_browser_is_started_again_at_its_page_by_the_next_action_or_observation() -> None:
    async with served_sites() as sites:
        web = new_connector()
        await web.on_start()
        try:
            await use(web, "goto", url=f"{sites.url}/still/")
            await told(web)
            for go_on in (told(web), use(web, "press", key="Escape")):
                for process in browsers_below(psutil.Process()):
                    process.kill()
                await until(lambda: not web._browser.is_open)
                said = [*await go_on, *await told(web)]
                assert any("was started again" in getattr(one, "text", "") for one in said)
                assert f"URL: {sites.url}/still/" in await state(web)
        finally:
            await web.on_stop()


def test_chromium_does_not_outlive_its_killed_program(tmp_path: Path) -> None:
    program = textwrap.dedent("""
        import asyncio, sys
        from memory_context import WebConnector
        async def main():
            web = WebConnector(browser=sys.argv[1])
            await web.on_start()
            print("ready", flush=True)
            await asyncio.sleep(1000)
        asyncio.run(main())
    """)
    chromium = str(chromium_options()["executable_path"])
    process = subprocess.Popen([sys.executable, "-c", program, chromium], stdout=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stdout.readline() == b"ready\n"
    started = psutil.Process(process.pid).children(recursive=True)
    assert browsers_below(psutil.Process(process.pid))
    process.kill()
    process.wait()
    process.stdout.close()
    asyncio.run(until(lambda: not any(map(is_alive, started))))
