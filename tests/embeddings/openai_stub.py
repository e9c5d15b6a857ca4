"""A server that speaks OpenAI's /embeddings."""

import array
import base64
import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

__all__ = ["EmbeddingStub", "running_embedding_stub"]


class EmbeddingStub(ThreadingHTTPServer):
    """Answers on a port of this machine; the first number of each vector is the length of its text.

    Attributes:
        dimensions: How many numbers it gives when it is not asked for fewer.
        numbers_only: Whether it ignores the wish for base64, as many servers do.
        change: What is done to each answer before it is sent.
        failures: Statuses with which the next requests are refused.
        requests: The bodies that came, in order.
        keys: The keys they came with.
    """

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.dimensions = 8
        self.numbers_only = False
        self.change: Callable[[Any], Any] = lambda answer: answer
        self.failures: list[int] = []
        self.requests: list[dict[str, Any]] = []
        self.keys: set[str | None] = set()

    @property
    def url(self) -> str:
        """What goes into `base_url`."""
        return f"http://127.0.0.1:{self.server_port}/v1"


@contextmanager
def running_embedding_stub() -> Iterator[EmbeddingStub]:
    """Give a stub that listens."""
    with EmbeddingStub() as stub:
        thread = threading.Thread(target=stub.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            yield stub
        finally:
            stub.shutdown()
            thread.join()


class _Handler(BaseHTTPRequestHandler):
    server: EmbeddingStub
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.requests.append(body)
        self.server.keys.add(self.headers["Authorization"])
        if self.path != "/v1/embeddings":
            self._send(404, {"error": {"message": f"no {self.path}"}})
        elif self.server.failures:
            self._send(self.server.failures.pop(0), {"error": {"message": "refused"}})
        elif any(not text.strip() for text in body["input"]):
            self._send(400, {"error": {"message": "input cannot be an empty string"}})
        else:
            self._send(200, self.server.change(self._answer(body)))

    def log_message(self, format: str, *args: Any) -> None:
        pass

    def _answer(self, body: dict[str, Any]) -> dict[str, Any]:
        rest = [0.5] * (body.get("dimensions", self.server.dimensions) - 1)
        as_numbers = self.server.numbers_only or body.get("encoding_format") != "base64"
        return {
            "object": "list",
            "model": body["model"],
            "usage": {"prompt_tokens": 1, "total_tokens": 1},
            "data": [
                {"object": "embedding", "index": index, "embedding": vector if as_numbers else _in_base64(vector)}
                for index, vector in enumerate([[float(len(text)), *rest] for text in body["input"]])
            ],
        }

    def _send(self, status: int, answer: Any) -> None:
        content = json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)


def _in_base64(vector: list[float]) -> str:
    return base64.b64encode(array.array("f", vector).tobytes()).decode()
