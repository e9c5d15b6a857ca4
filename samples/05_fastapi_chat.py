"""A chat server of your own: one router in your FastAPI application, and conversations that outlive the process.

Learn: `create_chat_router(memory_store, build_agent, current_user, agents=[...])` is all there is to mount. Your
dependency says who asks; `build_agent` makes the agent of a conversation. An answer comes whole or as server-sent
events. A server that starts anew knows what was said, for the person and for the agent.

Try: `python samples/05_fastapi_chat.py --serve`, then http://127.0.0.1:8000/docs in a browser; and the same message
twice, with the same id: the second answer says `"replayed": true`, and no model was asked.
"""

import asyncio
import json
import socket
import sys
import uuid
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import datetime, timezone

from autogen_agentchat.agents import AssistantAgent
from autogen_core.models import LLMMessage, UserMessage
from runner import needs, run

from memory_context import MemoryContext, MemoryStore, choose_light_model
from memory_context.testing import ScriptedModel

with needs("web"):
    import httpx
    import uvicorn
    from code_agent import model_client_from_env
    from fastapi import FastAPI, Header

    from memory_context.surfaces.http_server import serve_until_stopped
    from memory_context.surfaces.web import create_chat_router


def what_was_said(view: Sequence[LLMMessage]) -> str:
    """Answer without a live model: with what the agent was told so far."""
    told = [str(message.content) for message in view if isinstance(message, UserMessage) and message.source == "user"]
    return f"This is your message number {len(told)}; the first was: {told[0]}"


def build_agent(context: MemoryContext) -> AssistantAgent:
    """Return the agent of one conversation."""
    return AssistantAgent(
        context.agent_id,
        model_client_from_env() or ScriptedModel(what_was_said),
        workbench=context.workbench(),
        model_context=context,
        system_message="Answer in one sentence.",
        model_client_stream=True,
    )


async def current_user(x_user: str = Header()) -> str:
    """Return who asks. Put your login here: whoever can set this header is whom they say they are."""
    return x_user


def create_application() -> FastAPI:
    """Return your application, here with nothing else in it than the chat."""
    memory_store, light_model = MemoryStore(), choose_light_model(model_client_from_env()).client  # None without a key

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        async with memory_store:
            yield

    app = FastAPI(title="Your application", lifespan=lifespan)
    chat = create_chat_router(memory_store, build_agent, current_user, agents=["assistant"], model_client=light_model)
    app.include_router(chat)
    return app


@asynccontextmanager
async def served() -> AsyncIterator[httpx.AsyncClient]:
    """Serve a new application on a free port and give a client of it; at the end it is stopped as a deploy does."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        server = uvicorn.Server(uvicorn.Config(create_application(), log_level="warning"))
        serving = asyncio.create_task(server.serve([listening]))
        url = f"http://127.0.0.1:{listening.getsockname()[1]}"
        try:
            async with httpx.AsyncClient(base_url=url, headers={"X-User": "sample-chat"}, timeout=30) as client:
                yield client
        finally:
            server.should_exit = True
            await serving


def request(text: str, session_id: str | None = None) -> dict[str, object]:
    """Return what a page posts. The page makes the ids, so that sending again changes nothing."""
    message = {"id": uuid.uuid4().hex, "text": text, "sender": "user", "timestamp": f"{datetime.now(timezone.utc)}"}
    return {"new_messages": [message], "session_id": session_id}


async def main() -> None:
    async with served() as client:
        answer = (await client.post("/api/chat", json=request("My boat is called Wanderer."))).json()
        print(f"Whole:     {answer['message']['text']}")
        asked = request("It needs a new mast.", answer["session_id"]) | {"stream": True}
        async with client.stream("POST", "/api/chat", json=asked) as stream:
            print("Streamed: ", end=" ")
            async for line in stream.aiter_lines():
                if line.startswith("data: ") and (words := json.loads(line[6:]).get("text")):  # as they come
                    print(words, end="|", flush=True)
    print("\n\nThe server was stopped; another one goes on:\n")
    async with served() as client:
        answer = (await client.post("/api/chat", json=request("When can we sail?", answer["session_id"]))).json()
        print(f"Whole:     {answer['message']['text']}")
        page = (await client.get(f"/api/chat/sessions/{answer['session_id']}/messages")).json()
        print("As a page shows it:\n", *(f"  {one['sender']:<5} {one['text']}" for one in page["messages"]), sep="\n")


if __name__ == "__main__":
    if "--serve" not in sys.argv:
        sys.exit(run(main()))
    print("http://127.0.0.1:8000/docs (Ctrl+C ends it)", flush=True)
    run(serve_until_stopped(uvicorn.Server(uvicorn.Config(create_application(), log_level="warning"))))
