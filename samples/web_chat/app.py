"""The application: the chat of memory_context, an agent for it, and the page.

    page (js) ── /api/chat ──▶ create_app ──▶ one agent and one MemoryContext per conversation ──▶ MemoryStore

Everything that makes conversations last is in `memory_context.surfaces.web`; what is here says who answers, who asks,
and where the page is.
"""

import argparse
import asyncio
import json
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import uvicorn
from autogen_agentchat.agents import AssistantAgent
from autogen_core.models import ChatCompletionClient
from fastapi import FastAPI
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from memory_context import MemoryContext, MemoryStore, StoreError, choose_light_model
from memory_context.surfaces.http_server import bounded_config, check_port, serve_until_stopped
from memory_context.surfaces.web import create_app

from ..chainlit_web.panel import item_panel
from ..code_agent import model_client_from_env
from ..places import output_folder
from .code_tools import code_tools
from .scripted import ScriptedClient
from .visitors import Visitors, current_user, kept_secret

__all__ = ["chat_app", "main", "serve"]

PAGE = Path(__file__).parent / "page"
PAGE_SETTINGS: Mapping[str, float] = json.loads((PAGE / "settings.json").read_text())
SECRET_FILE = "web_chat_secret"
SYSTEM_MESSAGE = """\
You answer questions about the source code of the Python package memory_context. Find with search_code, then read;
name files and lines for what you say, and claim nothing that you have not seen. Answer in short Markdown."""


def chat_app(
    memory_store: MemoryStore,
    model_client: ChatCompletionClient,
    secret: bytes,
    hosts: Sequence[str] = (),
    page_settings: Mapping[str, float] = PAGE_SETTINGS,
    light_model: ChatCompletionClient | None = None,
) -> FastAPI:
    """Return the application.

    Args:
        memory_store: Where conversations go; it stays open.
        model_client: The model of every agent.
        secret: Signs the visitors' cookies.
        hosts: Names under which people reach it, beside those of this machine.
        page_settings: When the page archives: after how many messages and seconds.
        light_model: Decides beside the agents; None for rules.
    """

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

    async def item(request: Request) -> Response:
        """Show a page of an item of the visitor's own; another's key is a key that does not exist."""
        asked = request.query_params
        start = asked.get("start", "1")
        start_line = int(start) if start.isascii() and start.isdigit() and len(start) < 10 else 1
        shown = await item_panel(
            memory_store, await current_user(request), asked.get("key", "")[:64], start_line=start_line
        )
        body = json.dumps(shown).encode()  # ASCII, so that no text can break it
        return Response(body, 200 if "text" in shown else 404, {"Cache-Control": "no-store"}, "application/json")

    app = create_app(
        memory_store,
        build_agent,
        current_user,
        agents=["reader"],
        model_client=light_model,
        static_folder=PAGE,
        hosts=hosts,
    )
    app.router.routes.insert(0, Route("/settings.json", lambda _: JSONResponse(dict(page_settings))))
    app.router.routes.insert(0, Route("/api/item", item))
    app.add_middleware(Visitors, secret=secret)
    return app


async def serve(
    model_client: ChatCompletionClient,
    host: str,
    port: int,
    public_hosts: Sequence[str] = (),
    page_settings: Mapping[str, float] = PAGE_SETTINGS,
    light_model: ChatCompletionClient | None = None,
) -> None:
    """Serve the page until somebody stops it; then every conversation is archived."""
    folder = output_folder()
    folder.mkdir(exist_ok=True)
    async with MemoryStore() as memory_store:
        secret = kept_secret(folder / SECRET_FILE)
        app = chat_app(memory_store, model_client, secret, public_hosts, page_settings, light_model)
        config = bounded_config(app, host=host, port=port, log_level="warning", timeout_graceful_shutdown=3)
        print(f"Chat on http://{host}:{port}/ (Ctrl+C ends it)", flush=True)
        await serve_until_stopped(uvicorn.Server(config))
    await model_client.close()


def main(arguments: Sequence[str] | None = None) -> int:
    """Read the command line and serve."""
    parser = argparse.ArgumentParser(__package__, description="Chat with an agent that reads memory_context.")
    parser.add_argument("--host", default="127.0.0.1", help="where to listen (default %(default)s)")
    parser.add_argument("--port", type=int, default=8000, help="(default %(default)s)")
    parser.add_argument("--public-host", action="append", default=[], help="a name people reach it by; repeatable")
    parser.add_argument("--model", help="the model, if OPENAI_API_KEY is set (OPENAI_BASE_URL: where it is)")
    parser.add_argument("--words-per-second", type=int, default=80, help="how fast the agent writes without a key")
    for name, what in (("messages", "messages"), ("seconds", "seconds")):
        default = PAGE_SETTINGS[f"archive_{name}"]
        text = f"the page archives after so many {what} (default %(default)s)"
        parser.add_argument(f"--archive-{name}", type=float, default=default, help=text)
    asked = parser.parse_args(arguments)
    try:
        check_port(asked.host, asked.port)
    except OSError as error:
        print(f"web_chat: {error.strerror}", file=sys.stderr)
        return 1
    if asked.model:
        os.environ["OPENAI_MODEL"] = asked.model
    live = model_client_from_env()
    print("The model is live." if live else "No OPENAI_API_KEY: the model is scripted, the tools and memory are real.")
    try:
        light_model = choose_light_model(live)
    except ValueError as error:
        print(error, file=sys.stderr)
        return 1
    print(light_model)
    page_settings = {"archive_messages": asked.archive_messages, "archive_seconds": asked.archive_seconds}
    model_client = live or ScriptedClient(1 / asked.words_per_second)
    try:
        asyncio.run(serve(model_client, asked.host, asked.port, asked.public_host, page_settings, light_model.client))
    except StoreError as error:
        print(f"The store cannot be opened: {error}", file=sys.stderr)
        return 1
    return 0
