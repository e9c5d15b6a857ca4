"""Servers on a port of this machine that speak as much of OpenAI's protocol as the tests need."""

import array
import base64
import json
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, TypeVar

__all__ = ["ANSWER", "ChatStub", "EmbeddingStub", "running"]

ANSWER = "That is what I found."


class Stub(ThreadingHTTPServer):
    """Answers each POST with the status and JSON of `answer`.

    Attributes:
        requests: The bodies that came, in order.
        keys: The keys they came with.
    """

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.requests: list[dict[str, Any]] = []
        self.keys: set[str | None] = set()

    @property
    def url(self) -> str:
        """What goes into OPENAI_BASE_URL."""
        return f"http://127.0.0.1:{self.server_port}/v1"

    def answer(self, path: str, body: dict[str, Any]) -> tuple[int, Any]:
        """Return the status and the answer to a request."""
        raise NotImplementedError


class _Handler(BaseHTTPRequestHandler):
    server: Stub
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.keys.add(self.headers["Authorization"])
        status, answer = self.server.answer(self.path, body)
        content = json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: Any) -> None:
        pass


AnyStub = TypeVar("AnyStub", bound=Stub)


@contextmanager
def running(kind: type[AnyStub]) -> Iterator[AnyStub]:
    """Give a stub that listens."""
    with kind() as stub:
        thread = threading.Thread(target=stub.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            yield stub
        finally:
            stub.shutdown()
            thread.join()


# --- chat


class ChatStub(Stub):
    """A model for an agent: it reads a file first, and later looks it up.

    Attributes:
        requests: The bodies that came, in order, without those for the light model.
        light_requests: The bodies for the light model, which offer no tools.
        answers: Next answers, with the reason that each ends for; empty for what an agent of the tests expects.
    """

    def __init__(self) -> None:
        super().__init__()
        self.light_requests: list[dict[str, Any]] = []
        self.answers: list[tuple[str, str]] = []

    def answer(self, path: str, body: dict[str, Any]) -> tuple[int, Any]:
        is_light = "tools" not in body and not self.answers
        (self.light_requests if is_light else self.requests).append(body)
        completion = _completion(body, len(self.requests))
        if is_light or self.answers:
            content, reason = (_decided(body["messages"]), "stop") if is_light else self.answers.pop(0)
            completion["choices"][0] |= {"message": {"role": "assistant", "content": content}, "finish_reason": reason}
        return 200, completion


def _decided(messages: list[dict[str, Any]]) -> str:
    """Return what a light model may answer to any of its questions: a summary is the beginning of what it is of."""
    content = re.search(r"returned:\n<data-\w+>\n(.{0,600})", messages[-1]["content"], re.DOTALL)
    answer = {"expand": [], "ambiguous": False, "title": "A tour", "statements": []}
    answer["summary"] = content[1] if content else ""
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


# --- embeddings


class EmbeddingStub(Stub):
    """A model of embeddings; the first number of each vector is the length of its text.

    Attributes:
        dimensions: How many numbers it gives when it is not asked for fewer.
        numbers_only: Whether it ignores the wish for base64, as many servers do.
        change: What is done to each answer before it is sent.
        failures: Statuses with which the next requests are refused.
    """

    def __init__(self) -> None:
        super().__init__()
        self.dimensions = 8
        self.numbers_only = False
        self.change: Callable[[Any], Any] = lambda answer: answer
        self.failures: list[int] = []

    def answer(self, path: str, body: dict[str, Any]) -> tuple[int, Any]:
        self.requests.append(body)
        if path != "/v1/embeddings":
            return 404, {"error": {"message": f"no {path}"}}
        if self.failures:
            return self.failures.pop(0), {"error": {"message": "refused"}}
        if any(not text.strip() for text in body["input"]):
            return 400, {"error": {"message": "input cannot be an empty string"}}
        return 200, self.change(self._vectors(body))

    def _vectors(self, body: dict[str, Any]) -> dict[str, Any]:
        rest = [0.5] * (body.get("dimensions", self.dimensions) - 1)
        as_numbers = self.numbers_only or body.get("encoding_format") != "base64"
        return {
            "object": "list",
            "model": body["model"],
            "usage": {"prompt_tokens": 1, "total_tokens": 1},
            "data": [
                {"object": "embedding", "index": index, "embedding": vector if as_numbers else _in_base64(vector)}
                for index, vector in enumerate([[float(len(text)), *rest] for text in body["input"]])
            ],
        }


def _in_base64(vector: list[float]) -> str:
    return base64.b64encode(array.array("f", vector).tobytes()).decode()
