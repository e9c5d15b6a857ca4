"""What a debugger shows of the values this package returns."""

import pytest

import memory_context
from memory_context import ContextStats, MemoryContext, MemoryStore

from .agents.scripted import report
from .archive.talking import say

MARKUP = '<script>alert("owls")</script> & \ud800'


async def test_a_report_a_hit_and_a_bill_show_as_a_line(store: MemoryStore):
    """The line never holds a content, however long that is."""
    async with MemoryContext("alice", "coder", memory_store=store) as context:
        await say(context, "Survey the owls.")
        await context.store(f"{MARKUP} owls\n{report('owls')}", "a survey")
        await context.memory_store.flush_index()
        (hit, *_) = await context.search("owls")
        item = await context.agent_memory.retrieve(hit.ref.key)
        seen = await context.explain()
        for value in (hit, item, seen, context.stats, context.resume_report):
            assert len(repr(value)) < 400
            assert "alert" not in repr(value)
        assert str(hit) == f"{hit.ref}\n{hit.passage}"
        assert "owls" in hit.passage
    assert repr(ContextStats()) == "<ContextStats 0 views, 0 of 0 tokens sent, cost 1.00 of keeping everything>"


def test_version_is_that_of_the_installed_package():
    assert memory_context.__version__
    with pytest.raises(AttributeError, match="nowhere"):
        _ = memory_context.nowhere  # type: ignore[attr-defined]
