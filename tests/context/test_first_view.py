"""How a large result looks before it is answered: documents whole, machine output by an excerpt that says so."""

import json
import re

import pytest
from autogen_core.models import AssistantMessage

from memory_context import ContextPolicy, MemoryContext, MemoryStore
from memory_context.tokens import default_token_counter

from .steps import add_step

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
    await add_step(context, content, name=name)
    return (await context.get_messages())[-1].content[0].content


async def test_document_is_shown_whole_once_and_then_compacted(store: MemoryStore):
    """Also when a saved state is loaded before it is answered."""
    page = prose(11_500)
    context = MemoryContext("alice", "coder", None, store, policy=ContextPolicy(store_timeout_seconds=30))
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
        (11_500, False, {"document_first_view_limit_tokens": 11_000}),
        (7_800, True, {"token_budget": 16_000}),
        (8_200, False, {"token_budget": 16_000}),
        (8_200, True, {"token_budget": 16_000, "compaction": {"enabled": False}}),
        (3_500, True, {"document_first_view_limit_tokens": 200}),
        (11_500, False, {"first_view": "excerpt"}),
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
        r'\[… lines \d+-\d+ left out: retrieve_memory\(memory_key="run_shell_\w+", transform="excerpt", '
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
    await add_step(context, "".join(f"bird_{number:03}_east is seen\n" for number in range(200)))
    await add_step(context, prose(1_000), name="fetch_page")
    view = await context.get_messages()
    assert view[1].content[0].content.startswith("survey succeeded. [MemoryRef: survey_")
    assert "bird_001_east" in view[1].content[0].content
    assert view[3].content[0].content == prose(1_000)
    await context.add_message(AssistantMessage(content="Seen.", source="coder"))
    assert (await context.get_messages())[:3] == view[:3]


def test_policy_with_views_by_tool_can_be_hashed_and_dumped():
    policy = ContextPolicy(first_view_by_tool={"fetch_page": "full"})
    assert ContextPolicy.model_validate_json(policy.model_dump_json()) == policy
    assert hash(policy) == hash(ContextPolicy(first_view_by_tool={"fetch_page": "full"})) != hash(ContextPolicy())
