"""Every public call and tool answers under every fault: by a limit that is named, none by luck.

The limits are short, and it counts how each call ended; the times at the default limits are the benchmark's.
"""

from collections import Counter

import pytest

from benchmarks.fault_calls import fill
from benchmarks.faults import FAULTS, Place, run_calls
from benchmarks.proxy import Proxy
from memory_context import ContextPolicy, MemoryStore
from memory_context.store.limits import StoreLimits

pytestmark = pytest.mark.thorough

SHORT = StoreLimits(
    transaction_seconds=0.4,
    opening_seconds=0.4,
    lock_seconds=0.1,
    statement_seconds=0.3,
    call_seconds=0.8,
    batch_seconds=0.4,
)
ANSWERING = StoreLimits(lock_seconds=0.2, batch_seconds=0.8)
"""Under a fault in which the server still answers, it is the server that ends each call, also on a busy machine."""
SILENT = {"silent", "dripping", "stopped"}
POLICY = ContextPolicy(store_timeout_seconds=0.2)
PATIENCE_SECONDS = 40
"""More than any call needs at short limits on a busy machine: what is not through by then hangs."""

_ANSWERED = ("step", "tool", "context.close", "context.load", "context.save", "close", "MCP st", "MCP se", "claim ")
BY = {
    "table lock": {"LockNotAvailable", "QueryCanceled"},
    "row lock": {"LockNotAvailable", "QueryCanceled"},
    "silent": {"DeadlineError"},
    "dripping": {"DeadlineError"},
    "stopped": {"DeadlineError"},
    "read-only": {"ReadOnlySqlTransaction"},
    "disk full": {"DiskFull"},
}
"""What a fault is ended by, among others; a lost or refused connection is any OperationalError."""


@pytest.fixture(autouse=True)
def _resumes_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("memory_context.sessions.archive.session_archive.RESUME_SECONDS", 0.3)


@pytest.mark.parametrize("fault", FAULTS)
async def test_every_call_answers_under(fault: str, proxy: Proxy, proxy_url: str, database_url: str):
    async with MemoryStore(database_url) as store:
        await fill(store)
    place = Place(database_url, proxy_url, proxy)
    outcomes = await run_calls(
        place, fault, SHORT if fault in SILENT else ANSWERING, POLICY, PATIENCE_SECONDS, large_bytes=100_000
    )
    assert [one for one in outcomes if one.ended_by.startswith("!")] == []
    ended = Counter(one.ended_by for one in outcomes)
    assert ended.keys() & BY.get(fault, ended.keys()), ended
    for one in outcomes:
        if one.call.startswith(_ANSWERED):
            assert one.ended_by == "answer", "an agent is answered, never stopped"
    async with MemoryStore(proxy_url) as store:
        assert await store.items.select_keys("alice"), "it works when the fault is over"
