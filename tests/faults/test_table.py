"""Every public call and tool answers under every fault: by a limit that is named, none by luck.

The limits are short, and it counts how each call ended; the times at the default limits are the benchmark's.
"""

from collections import Counter

import pytest

from benchmarks.faults import FAULTS, Place, fill, run_calls
from benchmarks.proxy import Proxy
from memory_context import ContextPolicy, MemoryStore
from memory_context.policy import ArchivePolicy
from memory_context.store import StoreLimits

SHORT = StoreLimits(
    transaction_seconds=0.8, opening_seconds=0.8, lock_seconds=0.2, statement_seconds=0.6, call_seconds=1.5
)
POLICY = ContextPolicy(store_timeout_seconds=0.2, archive=ArchivePolicy(resume_timeout_seconds=0.3))
PATIENCE_SECONDS = 40
"""More than any call needs at short limits on a busy machine: what is not through by then hangs."""

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


@pytest.mark.parametrize("fault", FAULTS)
async def test_every_call_answers_under(fault: str, proxy: Proxy, proxy_url: str, database_url: str):
    async with MemoryStore(database_url) as store:
        await fill(store)
    outcomes = await run_calls(Place(database_url, proxy_url, proxy), fault, SHORT, POLICY, PATIENCE_SECONDS)
    assert [one for one in outcomes if one.ended_by.startswith("!")] == []
    ended = Counter(one.ended_by for one in outcomes)
    assert ended.keys() & BY.get(fault, ended.keys()), ended
    for one in outcomes:
        if one.call.startswith(("step", "tool", "context.close")):
            assert one.ended_by == "answer", "an agent is answered, never stopped"
    async with MemoryStore(proxy_url) as store:
        assert await store.select_keys("alice"), "it works when the fault is over"
