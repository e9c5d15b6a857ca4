"""A server that speaks enough of OpenAI's protocol for an agent: it reads a file first, and later looks it up."""

import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

__all__ = ["ANSWER", "Stub", "running_stub"]

ANSWER = "That is what I found."


class Stub(ThreadingHTTPServer):
    """Answers on a port of this machine.

    Attributes:
        requests: The bodies that came, in order, without those for the light model.
        light_requests: The bodies for the light model, which offer no tools.
        keys: The keys they came with.
        answers: What is answered next, with the reason that it ends for; empty for what an agent of the tests expects.
    """

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.requests: list[dict[str, Any]] = []
        self.light_requests: list[dict[str, Any]] = []
        self.keys: set[str | None] = set()
        self.answers: list[tuple[str, str]] = []

    @property
    def url(self) -> str:
        """What goes into OPENAI_BASE_URL."""
        return f"http://127.0.0.1:{self.server_port}/v1"


@contextmanager
def running_stub() -> Iterator[Stub]:
    """Give a stub that listens."""
    with Stub() as stub:
        thread = threading.Thread(target=stub.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            yield stub
        finally:
            stub.shutdown()
            thread.join()


class _Handler(BaseHTTPRequestHandler):
    server: Stub

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        is_light = "tools" not in body and not self.server.answers
        (self.server.light_requests if is_light else self.server.requests).append(body)
        self.server.keys.add(self.headers["Authorization"])
        completion = _completion(body, len(self.server.requests))
        if is_light or self.server.answers:
            content, reason = (_decided(body["messages"]), "stop") if is_light else self.server.answers.pop(0)
            completion["choices"][0] |= {"message": {"role": "assistant", "content": content}, "finish_reason": reason}
        answer = json.dumps(completion).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, format: str, *args: Any) -> None:
        pass


def _decided(messages: list[dict[str, Any]]) -> str:
    """Return what a light model may answer to any of its questions: a summary is the beginning of what it is of."""
    content = re.search(r"returned:\n<data-\w+>\n(.{0,600})", messages[-1]["content"], re.DOTALL)
    answer = {"expand": [], "ambiguous": False, "title": "A tour", "summary": content[1] if content else ""}
    return json.dumps(answer)


def _completion(body: dict[str, Any], number: int) -> dict[str, Any]:
    return {
        "id": f"completion-{number}",
        "object": "chat.completion",
        "created": 0,
        "model": body["model"],
        "choices": [
            {
                "index": 0,
                "message": _message(body["messages"], number),
                "finish_reason": "tool_calls" if body["messages"][-1]["role"] == "user" else "stop",
            }
        ],
        "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2},
    }


def _message(messages: list[dict[str, Any]], number: int) -> dict[str, Any]:
    if messages[-1]["role"] != "user":
        return {"role": "assistant", "content": ANSWER}
    results = "\n".join(message["content"] for message in messages if message["role"] == "tool")
    key = re.search(r"\[MemoryRef: (\S+) - ", results)
    if key is None:
        name, arguments = "read_file", {"path": "autogen_agentchat/messages.py"}
    else:
        name, arguments = "retrieve_memory", {"memory_key": key[1], "transform": "filtered", "pattern": "Event"}
    call = {"id": f"call_{number}", "type": "function", "function": {"name": name, "arguments": json.dumps(arguments)}}
    return {"role": "assistant", "content": None, "tool_calls": [call]}
