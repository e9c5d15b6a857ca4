"""How long `/health` takes beside requests that mean harm: on the servers as commands, over real sockets.

    python -m benchmarks.hostile [--json FILE]

Each request is sent while `/health` is asked again and again, until it is answered; the longest wait counts. The memory
is what the server's process has more at the end of the run than before it.
"""

import argparse
import asyncio
import json
import os
import sys
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

import httpx
import psutil
from autogen_agentchat.agents import AssistantAgent
from autogen_ext.models.replay import ReplayChatCompletionClient

from benchmarks.comparing import Measured, print_measured
from benchmarks.scratch import scratch_store
from memory_context import MemoryContext

__all__ = ["build_agent", "main", "measure_hostile"]

HEALTH_TARGET_SECONDS = 0.5
UNFINISHED = 300
_HEADERS = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
_ROUNDS = 3
SHARE = 1.0  # of the size of each body


def build_agent(context: MemoryContext) -> AssistantAgent:
    """Return an agent whose model always says the same."""
    return AssistantAgent("assistant", ReplayChatCompletionClient(["Hello."] * 1000), model_context=context)


async def measure_hostile() -> list[Measured]:
    """Send everything to both servers."""
    measured: list[Measured] = []
    async with scratch_store() as (_, url):
        chat = ("serve", "--agent", "benchmarks.hostile:build_agent", "--port", "0", "--url", url)
        mcp = ("mcp", "--transport", "http", "--port", "0", "--user", "alice", "--url", url)
        for name, command, path, bodies in (
            ("chat", chat, "/api/chat", _chat_bodies()),
            ("mcp", mcp, "/mcp", _mcp_bodies()),
        ):
            async with _served(command) as (address, process):
                for what, body in bodies.items():
                    measured.append(await _beside_request(f"{name}: {what}", address, path, body, process))
                measured.append(
                    await _beside_connections(f"{name}: {UNFINISHED} unfinished headers", address, b"GET /")
                )
                head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
                begun = f"{head}Content-Length: 900000\r\n\r\n[".encode()
                measured.append(await _beside_connections(f"{name}: {UNFINISHED} unfinished bodies", address, begun))
    return measured


def _chat_bodies() -> dict[str, bytes]:
    text = {"id": "1", "sender": "user", "timestamp": "2026-01-01T00:00:00Z"}
    return {
        "300,000 empty elements": b'{"new_messages": [' + b"{}," * int(299_999 * SHARE) + b"{}]}",
        "5,000 nested brackets": b"[" * 5_000 + b"]" * 5_000,
        "a body of blanks": b" " * int(999_999 * SHARE),
        "a text of quotes": json.dumps({"new_messages": [{**text, "text": '"' * int(400_000 * SHARE)}]}).encode(),
        "100 wrong messages": json.dumps({"new_messages": [{}] * 100}).encode(),
    }


def _mcp_bodies() -> dict[str, bytes]:
    def call(arguments: Any) -> bytes:
        params = {"name": "store_memory", "arguments": arguments}
        return json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}).encode()

    return {
        "3 MB of small keys": call({str(number): 1 for number in range(int(280_000 * SHARE))}),
        "5,000 nested brackets": b"[" * 5_000 + b"]" * 5_000,
        "4 MB of text": call({"content": "x y " * int(1_040_000 * SHARE), "description": "x"}),
        "900 keys": call({str(number): 1 for number in range(900)}),
        "40 MB": call({"content": "x" * int(40_000_000 * SHARE)}),
    }


@asynccontextmanager
async def _served(command: Sequence[str]) -> AsyncIterator[tuple[str, psutil.Process]]:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", "from memory_context.surfaces.cli import main; main()", *command),
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": os.getcwd()},
    )
    assert process.stderr is not None
    told = b""
    while b"running on" not in (line := await process.stderr.readline()):
        told += line
        if not line:
            raise RuntimeError(told.decode())
    reading = asyncio.ensure_future(process.stderr.read())  # or its pipe fills up
    try:
        yield line.decode().split("running on ")[1].split()[0], psutil.Process(process.pid)
    finally:
        process.terminate()
        await process.wait()
        await reading


async def _beside_request(name: str, address: str, path: str, body: bytes, process: psutil.Process) -> Measured:
    before = process.memory_info().rss
    worst, statuses = 0.0, set[int]()
    async with httpx.AsyncClient(base_url=address, timeout=60, trust_env=False) as client:
        await client.get("/health")  # its connection is open from here on
        for _ in range(_ROUNDS):
            asking = asyncio.ensure_future(client.post(path, content=body, headers=_HEADERS))
            while not asking.done():
                worst = max(worst, await _health(client))
            statuses.add((await asking).status_code)
            worst = max(worst, await _health(client))
    grown = (process.memory_info().rss - before) / 1e6
    told = f"{len(body):,} bytes: {', '.join(map(str, sorted(statuses)))}; {grown:+.0f} MB"
    return _measured(name, worst, told)


async def _beside_connections(name: str, address: str, begun: bytes) -> Measured:
    host, _, port = address.rpartition("//")[2].rpartition(":")
    opened = [await asyncio.open_connection(host, int(port)) for _ in range(UNFINISHED)]
    for _, writer in opened:
        writer.write(begun)
    async with httpx.AsyncClient(base_url=address, timeout=60, trust_env=False) as client:
        worst = max([await _health(client) for _ in range(20)])
    for _, writer in opened:
        writer.close()
    return _measured(name, worst, "connections stay open meanwhile")


async def _health(client: httpx.AsyncClient) -> float:
    began = time.perf_counter()
    (await client.get("/health")).raise_for_status()
    return time.perf_counter() - began


def _measured(name: str, seconds: float, told: str) -> Measured:
    target = f"<= {HEALTH_TARGET_SECONDS:g} s"
    return Measured(f"/health beside {name}", seconds, target, seconds <= HEALTH_TARGET_SECONDS, told)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run it from the command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.hostile", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--json", type=Path, help="write the figures to a file")
    given = parser.parse_args(arguments)
    measured = asyncio.run(measure_hostile())
    print_measured(measured, "beside hostile requests")
    if given.json:
        given.json.write_text(json.dumps([asdict(one) for one in measured], indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()
