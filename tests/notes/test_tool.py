"""`manage_long_term_memory`: the notes as a model reads and edits them."""

from typing import Any

from autogen_core import CancellationToken

from memory_context import MemoryContext, MemoryStore


async def call(context: MemoryContext, operation: str = "read", **arguments: Any) -> str:
    """Return the tool's answer."""
    (tool,) = [tool for tool in context.tools() if tool.name == "manage_long_term_memory"]
    return await tool.run_json({"operation": operation, **arguments}, CancellationToken())


async def test_a_later_session_reads_what_an_earlier_one_noted(store: MemoryStore) -> None:
    async with MemoryContext("alice", "coder", "one", store) as context:
        assert await call(context) == 'There are no long-term notes yet: operation="append" writes some.'
        told = await call(context, "append", content="# Work\nOrders is at db1.")
        assert told == "Done: append. The notes have 24 of 32,000 characters now (version 1)."
    async with MemoryContext("alice", "coder", "two", store) as context:
        told = await call(context)
        assert told == ("Long-term notes, version 1, written in earlier sessions:\n\n# Work\nOrders is at db1.")
        assert context.agent_memory.find_answer(told) is not None  # never offloaded


async def test_answers_name_what_to_send_instead(store: MemoryStore) -> None:
    """Wrong arguments change nothing."""
    async with MemoryContext("alice", "coder", "one", store) as context:
        await call(context, "overwrite", content="# Work\nOrders is at db1.")
        for operation, arguments, says in [
            (
                "delete_section_by_header",
                {"section_header": "Home"},
                "Not done: there is no section 'Home'; there are '# Work'.",
            ),
            ("replace_section_by_header", {"content": "x"}, "Not done: replace_section_by_header needs section_header"),
            ("append", {"content": "```\ncode"}, "a code block, comment or list is not closed at its end"),
            ("append", {"content": "x" * 32_000}, "32,000 is the most; nothing was changed"),
            ("append", {"content": "x", "section_header": "Work"}, "append takes content, not section_header"),
            ("erase", {}, "cannot take these arguments: operation = 'erase'"),
            ("read", {"content": "x"}, 'Not done: read takes no content: send operation="append"'),
            ("append", {"text": "x"}, "there is no argument 'text'"),
        ]:
            assert says in await call(context, operation, **arguments)
        assert (await context.agent_memory.notes.fetch()).version == 1


async def test_a_session_that_has_not_read_a_change_is_told_to_read_first(store: MemoryStore) -> None:
    one, two = (MemoryContext("alice", "coder", session, store) for session in ("one", "two"))
    await call(one, "append", content="# Work\nOrders is at db1.")
    await call(two, "append", content="# Home\nParis")
    for operation, arguments in (("overwrite", {"content": "lost"}), ("delete_all_notes", {})):
        told = await call(one, operation, **arguments)
        assert told.startswith(
            "Not done: the notes hold text that was not read here, or was changed by another session since"
        )
        assert told.endswith('Next: manage_long_term_memory(operation="read").')
    await call(one)
    assert (await call(one, "delete_all_notes")).startswith("Done: delete_all_notes. The notes have 0 of 32,000")
    for context in (one, two):
        await context.close()


async def test_notes_are_answered_without_the_store_by_a_sentence() -> None:
    store = MemoryStore("postgresql://nobody@127.0.0.1:1/none")
    context = MemoryContext("alice", "coder", "one", store)
    assert "Go on without it, or try again later." in await call(context, "append", content="x")
    await context.close()
    await store.close()
