"""The application: the chat of memory_context, an agent for it, and the page.

Everything that makes conversations last is in `memory_context.surfaces.web`. The code here says who answers, who asks,
and where the page is.
"""

import argparse
import asyncio
import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path

import uvicorn
from autogen_agentchat.agents import AssistantAgent
from autogen_core.models import ChatCompletionClient
from fastapi import Depends, FastAPI, Response
from fastapi.routing import APIRoute

from memory_context import MemoryContext, MemoryStore, StoreError, choose_light_model
from memory_context.surfaces.http_server import bounded_config, check_port, serve_until_stopped
from memory_context.surfaces.web import create_app

from ..chainlit_web.panel import item_panel
from ..code_agent import model_client_from_env
from ..places import output_folder
from .code_tools import code_tools
from .scripted import ScriptedClient
from .visitors import Visitors, current_user, kept_secret

__all__ = ["chat_app", "main"]

SYSTEM_MESSAGE = """\
You answer questions about the source code of the Python package memory_context. Find with search_code, then read;
name files and lines for what you say, and claim nothing that you have not seen. Answer in short Markdown."""


def chat_app(
    memory_store: MemoryStore,
    model_client: ChatCompletionClient,
    secret: bytes,
    hosts: Sequence[str] = (),
    light_model: ChatCompletionClient | None = None,
) -> FastAPI:
    """Return the application; `hosts` are names by which people reach it, beside those of this machine."""

    def build_agent(context: MemoryContext) -> AssistantAgent:
        context.note_agent(system_message=SYSTEM_MESSAGE, tools=code_tools(), model_client=model_client)
        return AssistantAgent(
            context.agent_id,
            model_client,
            tools=[*code_tools(), *context.tools()],  # from the first call on: it may be told to remember something
            model_context=context,
            system_message=SYSTEM_MESSAGE,
            model_client_stream=True,
            max_tool_iterations=20,
        )

    async def item(key: str = "", start: str = "1", user_id: str = Depends(current_user)) -> Response:
        """Show a page of an item of the visitor's own; another's key is a key that does not exist."""
        start_line = int(start) if start.isascii() and start.isdigit() and len(start) < 10 else 1
        shown = await item_panel(memory_store, user_id, key[:64], start_line=start_line)
        body = json.dumps(shown).encode()  # ASCII, so that no text can break it
        return Response(body, 200 if "text" in shown else 404, {"Cache-Control": "no-store"}, "application/json")

    options = {"static_folder": Path(__file__).parent / "page", "hosts": hosts, "model_client": light_model}
    app = create_app(memory_store, build_agent, current_user, agents=["reader"], **options)
    app.router.routes.insert(0, APIRoute("/api/item", item))
    app.add_middleware(Visitors, secret=secret)
    return app


async def _serve(asked: argparse.Namespace) -> None:
    """Serve the page until somebody stops it; then every conversation is archived."""
    live = model_client_from_env()
    print("The model is live." if live else "No OPENAI_API_KEY: the model is scripted, the tools and memory are real.")
    light_model = choose_light_model(live)
    print(light_model)
    folder = output_folder()
    folder.mkdir(exist_ok=True)
    model_client = live or ScriptedClient(1 / asked.words_per_second)
    async with MemoryStore() as memory_store:
        secret = kept_secret(folder / "web_chat_secret")
        app = chat_app(memory_store, model_client, secret, asked.public_host, light_model.client)
        config = bounded_config(app, host=asked.host, port=asked.port, log_level="warning", timeout_graceful_shutdown=3)
        print(f"Chat on http://{asked.host}:{asked.port}/ (Ctrl+C ends it)", flush=True)
        await serve_until_stopped(uvicorn.Server(config))
    await model_client.close()


def main(arguments: Sequence[str] | None = None) -> None:
    """Read the command line and serve."""
    parser = argparse.ArgumentParser(__package__, description="Chat with an agent that reads memory_context.")
    parser.add_argument("--host", default="127.0.0.1", help="where to listen; 0.0.0.0 for other machines, too")
    parser.add_argument("--port", type=int, default=8000, help="(default %(default)s)")
    parser.add_argument("--public-host", action="append", default=[], help="a name people reach it by; repeatable")
    parser.add_argument("--model", help="the model, if OPENAI_API_KEY is set (OPENAI_BASE_URL: where it is)")
    parser.add_argument("--words-per-second", type=int, default=80, help="how fast the agent writes without a key")
    asked = parser.parse_args(arguments)
    if asked.model:
        os.environ["OPENAI_MODEL"] = asked.model
    try:
        check_port(asked.host, asked.port)
        asyncio.run(_serve(asked))
    except StoreError as error:
        sys.exit(f"The store cannot be opened: {error}")
    except (OSError, ValueError) as error:
        sys.exit(f"web_chat: {getattr(error, 'strerror', error)}")
