"""How a large result looks before it is answered: documents whole, machine output by an excerpt that says so."""

import json
import re
from typing import Any

import pytest
from autogen_core.models import AssistantMessage

from memory_context import ContextPolicy, MemoryContext, MemoryStore
from memory_context.foundation.compactors import compose
from memory_context.foundation.compactors.compactor import Analysis, Result
from memory_context.foundation.compactors.registry import Compactors
from memory_context.foundation.tokens import default_token_counter

from ..conftest import Server, database_of
from .histories import whole_tokens
from .steps import NEVER_PAYS, add_step

counter = default_token_counter()
SENTENCE = "The old library by the river opens again, and its readers find {} shelves of books in it. "


def prose(tokens: int) -> str:
    text = "\n\n".join(SENTENCE.format(number) * 4 for number in range(tokens // 60))
    return text[: len(text) * tokens // counter.count(text)]


def log(tokens: int) -> str:
    text = "".join(f"2026-01-05 10:{number % 60:02} INFO {SENTENCE.format(number)}\n" for number in range(tokens // 20))
    return text[: len(text) * tokens // counter.count(text)]


async def shown_first(store: MemoryStore, content: str, name: str = "fetch_page", **policy) -> str:
    context = MemoryContext("alice", "coder", None, store, policy=ContextPolicy(store_timeout_seconds=30, **policy))
    context.tools()
    await add_step(context, content, name=name)
    return (await context.get_messages())[-1].content[0].content


async def test_document_is_shown_whole_once_and_then_compacted(store: MemoryStore):
    """Also when a saved state is loaded before it is answered."""
    page = prose(11_500)
    context = MemoryContext("alice", "coder", None, store, policy=ContextPolicy(store_timeout_seconds=30))
    context.tools()
    await add_step(context, page, name="fetch_page")
    view = await context.get_messages()
    assert view[-1].content[0].content == page
    later = MemoryContext("alice", "coder", None, store)
    await later.load_state(await context.save_state())
    assert await later.get_messages() == view
    await context.add_message(AssistantMessage(content="Read.", source="coder"))
    compacted = (await context.get_messages())[-2].content[0].content
    assert compacted.startswith("fetch_page succeeded. [MemoryRef: fetch_page_")
    assert counter.count(compacted) < 400


async def test_document_in_an_mcp_result_is_whole_and_an_image_beside_a_text_is_not(store: MemoryStore):
    text = {"type": "text", "text": prose(6_000)}
    assert await shown_first(store, json.dumps(text)) == json.dumps(text)
    image = {"type": "image", "mimeType": "image/png", "data": "QUJD" * 9_999}
    assert "Excerpt, " in await shown_first(store, json.dumps([{"type": "text", "text": prose(300)}, image]))


@pytest.mark.parametrize(
    ("tokens", "is_whole", "policy"),
    [
        (12_500, False, {}),
        (7_800, True, {"token_budget": 16_000}),
        (8_200, False, {"token_budget": 16_000}),
        (8_200, True, {"token_budget": 16_000, "compaction": {"enabled": False}}),
        (11_500, False, {"first_view_by_tool": {"*": "excerpt"}}),
        (20_000, True, {"first_view_by_tool": {"fetch_*": "full"}}),
        (20_000, False, {"first_view_by_tool": {"fetch_*": "full"}, "token_budget": 30_000}),
        (1_000, False, {"first_view_by_tool": {"fetch_page": "placeholder"}}),
        (1_000, False, {"first_view_by_tool": {"fetch_page": "excerpt", "*": "full"}}),
    ],
)
async def test_document_is_whole_within_its_limit_and_half_of_the_budget(
    store: MemoryStore, tokens: int, is_whole: bool, policy: dict
):
    content = prose(tokens)
    assert (await shown_first(store, content, **policy) == content) is is_whole


async def test_machine_output_shows_an_excerpt_that_says_how_much_it_is_and_how_to_read_on(store: MemoryStore):
    content = log(8_000)
    text = await shown_first(store, content, name="run_shell")
    assert counter.count(text) <= 1800
    head, line, excerpt = re.split(r"^(Excerpt, .*)$\n", text, maxsplit=1, flags=re.MULTILINE)
    assert head.startswith("run_shell succeeded. [MemoryRef: run_shell_")
    assert line == f"Excerpt, {counter.count(excerpt):,} of its {counter.count(content):,} tokens:"
    first, last = re.search(
        r'\[… lines \d+-\d+ left out: retrieve_memory\(memory_key="run_shell_\w+", '
        r"start_line=(\d+), end_line=(\d+)\) …\]",
        excerpt,
    ).groups()  # type: ignore[union-attr]
    lines = content.split("\n")
    assert lines[int(first) - 2] in excerpt
    assert lines[int(first) - 1] not in excerpt
    assert lines[int(last) - 1] not in excerpt
    whole = {"run_shell": "full"}
    assert await shown_first(store, content, name="run_shell", first_view_by_tool=whole) == content
    assert await shown_first(store, content, name="run_tests", first_view_by_tool=whole) != content


async def test_tool_whose_results_are_placeholders_at_once_leaves_others_as_they_are(store: MemoryStore):
    """Its facts stand below the placeholder from the first view on, and stay."""
    policy = ContextPolicy(store_timeout_seconds=30, first_view_by_tool={"survey": "placeholder"})
    context = MemoryContext("alice", "coder", None, store, policy=policy)
    context.tools()
    await add_step(context, "".join(f"bird_{number:03}_east is seen\n" for number in range(200)))
    await add_step(context, prose(1_000), name="fetch_page")
    view = await context.get_messages()
    assert view[1].content[0].content.startswith("survey succeeded. [MemoryRef: survey_")
    assert "bird_001_east" in view[1].content[0].content
    assert view[3].content[0].content == prose(1_000)
    await context.add_message(AssistantMessage(content="Seen.", source="coder"))
    assert (await context.get_messages())[:3] == view[:3]


async def named_in(context: MemoryContext, content: str) -> str:
    """Return a content below the line that names its key."""
    stored = await context.agent_memory.retrieve_contents({item.key for item in await context.agent_memory.query()})
    (key,) = (key for key, text in stored.items() if text == content)
    return f"[MemoryRef: {key} - shown whole below - {counter.count(content)} tokens]\n{content}"


@pytest.mark.parametrize(("tools", "is_named"), [("", True), ("tools", False), ("workbench", False)])
async def test_whole_first_view_names_its_key_where_the_agent_has_no_tools(
    store: MemoryStore, tools: str, is_named: bool, monkeypatch: pytest.MonkeyPatch
):
    """Whatever the content begins with, its tokens are counted with the line."""
    monkeypatch.setattr("memory_context.compaction.differences._LEAST_SHARE", 2.0)
    policy = ContextPolicy(store_timeout_seconds=30)
    context = MemoryContext("alice", "coder", None, store, policy=policy)
    if tools:
        getattr(context, tools)()
    contents = [beginning + prose(1_000) for beginning in ("", "\n\n", "]/]", "\u0301")]
    await add_step(context, *contents, name="fetch_page")
    view = await context.get_messages()
    expected = [await named_in(context, content) if is_named else content for content in contents]
    assert [result.content for result in view[-1].content] == expected
    assert context.stats.view_tokens == sum(whole_tokens(message) for message in view)


async def test_line_that_names_a_key_counts_towards_the_limit(store: MemoryStore):
    """A result that fits alone is shown by its excerpt, which names the key as well."""
    context = MemoryContext("alice", "coder", None, store, policy=ContextPolicy(store_timeout_seconds=30))
    await add_step(context, log(3_180), name="run_shell")
    assert "Excerpt, " in (await context.get_messages())[-1].content[0].content
    assert await shown_first(store, log(3_180), name="run_shell") == log(3_180)


async def test_results_that_were_shown_keep_their_bytes_when_tools_are_handed_out_later(store: MemoryStore):
    """Also after an answer, in a saved state, which does not hold the content, and from the archive."""
    policy = ContextPolicy(store_timeout_seconds=30, cache=NEVER_PAYS)
    context = MemoryContext("alice", "coder", "s1", store, policy=policy)
    await add_step(context, prose(1_000), name="fetch_page")
    first = await context.get_messages()
    context.tools()
    assert await context.get_messages() == first
    await add_step(context, log(1_000), name="run_shell")
    view = await context.get_messages()
    assert view[: len(first)] == first
    assert first[-1].content[0].content == await named_in(context, prose(1_000))
    assert view[-1].content[0].content == log(1_000)
    state = await context.save_state()
    assert SENTENCE.format(7) not in json.dumps(state)
    await context.archive()
    for session in ("", "s1"):
        again = MemoryContext("alice", "coder", session or None, store, policy=policy)
        again.workbench()
        if not session:
            await again.load_state(state)
        assert await again.get_messages() == view


@pytest.mark.usefixtures("store_asked_again_at_once")
async def test_result_that_was_shown_before_it_could_be_stored_gets_no_line(server: Server, database_url: str):
    """The prompt cache has it without one."""
    name = database_of(database_url)
    async with MemoryStore(database_url) as store:
        context = MemoryContext("alice", "coder", None, store, policy=ContextPolicy())
        server.execute("ALTER DATABASE {name} ALLOW_CONNECTIONS false", name=name)
        server.execute(f"SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE datname = '{name}'")
        await add_step(context, prose(1_000), name="fetch_page")
        first = await context.get_messages()
        assert first[-1].content[0].content == prose(1_000)
        server.execute("ALTER DATABASE {name} ALLOW_CONNECTIONS true", name=name)
        await context.save_state()
        assert context.transcript.state.has_items
        assert await context.get_messages() == first


def test_policy_with_views_by_tool_can_be_hashed_and_dumped():
    policy = ContextPolicy(first_view_by_tool={"fetch_page": "full"})
    context = MemoryContext("alice", memory_store=MemoryStore("postgresql://nowhere"), policy=policy)
    assert MemoryContext.load_component(context.dump_component()).policy == policy
    assert ContextPolicy.model_validate_json(policy.model_dump_json()) == policy
    assert hash(policy) == hash(ContextPolicy(first_view_by_tool={"fetch_page": "full"})) != hash(ContextPolicy())


async def test_excerpt_is_chosen_for_the_first_view_and_from_one_analysis(
    store: MemoryStore, monkeypatch: pytest.MonkeyPatch
):
    """Storing needs only the description; the answer's facts come from the same analysis."""
    analyses: list[str] = []

    def analyze(result: Result) -> Analysis:
        analyses.append(result.source)
        return Analysis("a log", facts=["disk full"])

    chosen: list[str] = []
    choose = compose.excerpt

    def excerpt(*given: Any, **named: Any) -> Any:
        chosen.append("excerpt")
        return choose(*given, **named)

    monkeypatch.setattr(compose, "excerpt", excerpt)
    policy = ContextPolicy(store_timeout_seconds=30)
    context = MemoryContext("alice", "coder", None, store, policy=policy, compactors=Compactors([analyze]))
    await add_step(context, log(9_000), name="run_shell")
    assert (context.stats.offloads, analyses, chosen) == (1, ["run_shell"], [])
    first = await context.get_messages()
    assert "Excerpt, " in first[-1].content[0].content
    assert await context.get_messages() == first
    await context.add_message(AssistantMessage(content="Read.", source="coder"))
    assert "disk full" in (await context.get_messages())[-2].content[0].content
    assert (analyses, chosen) == (["run_shell"], ["excerpt"])


async def test_state_saved_before_the_first_view_shows_the_same_one(store: MemoryStore):
    """The content is fetched, and the excerpt chosen there."""
    context = MemoryContext("alice", "coder", None, store, policy=ContextPolicy(store_timeout_seconds=30))
    await add_step(context, log(9_000), name="run_shell")
    state = json.loads(json.dumps(await context.save_state()))
    assert SENTENCE.format(7) not in json.dumps(state)
    later = MemoryContext("alice", "coder", None, store, policy=ContextPolicy(store_timeout_seconds=30))
    await later.load_state(state)
    view = await context.get_messages()
    assert "Excerpt, " in view[-1].content[0].content
    assert await later.get_messages() == view
    await later.load_state(await context.save_state())
    assert await later.get_messages() == view


async def test_a_list_of_records_is_shown_as_a_table_of_all_of_them(store: MemoryStore):
    records = [{"id": f"R-{one:03}", "title": f"task {one}", "notes": f"{one} " * 300} for one in range(40)]
    content = json.dumps({"tasks": records})
    text = await shown_first(store, content, name="list_tasks")
    assert counter.count(text) <= 1800
    head, line, told, fields, *rows = text.split("\n")
    assert head.startswith("list_tasks succeeded. [MemoryRef: list_tasks_")
    assert line.startswith(f"As a table, {counter.count(text.partition(line)[2].strip()):,} of its ")
    assert re.search(r'; more by retrieve_memory\(memory_key="list_tasks_\w+", pattern="…"\):$', line)
    assert told.startswith("40 records in tasks")
    assert fields.startswith("id | title")
    assert [row.partition(" | ")[0] for row in rows] == [one["id"] for one in records]
    policy = {"list_tasks": "full"}
    assert await shown_first(store, content, name="list_tasks", first_view_by_tool=policy) != text
