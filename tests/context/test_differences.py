"""A result that repeats one that stands in the view shows first what is new in it, and nothing is lost by that."""

import json

import pytest
from autogen_core.models import AssistantMessage, LLMMessage, UserMessage

from memory_context import CachePolicy, ContextPolicy, MemoryContext, MemoryStore
from memory_context.compaction import differences
from memory_context.foundation.messages import texts_of
from memory_context.foundation.tokens import default_token_counter

from .histories import whole_tokens
from .steps import NEVER_PAYS, add_step

counter = default_token_counter()


def page(number: int, *, rows: int = 60, site: str = "shop") -> str:
    """Return a page of which each number changes one row, and adds one."""
    lines = [f'- listitem "Product {row} of the {site}, {row * 7 % 90} euros" [e{row}]' for row in range(rows)]
    lines[number % rows] += " (in the cart)"
    return "\n".join([f"Page of the {site}", *lines, f'status "{number} products in the cart"'])


def context_of(store: MemoryStore, user: str = "alice", **policy: object) -> MemoryContext:
    context = MemoryContext(
        user,
        "coder",
        None,
        store,
        policy=ContextPolicy.model_validate({"store_timeout_seconds": 30, **policy}),
    )
    context.tools()
    return context


async def shown(context: MemoryContext, *contents: str, name: str = "click") -> list[str]:
    """Let a tool return contents; return how the next view shows them."""
    await add_step(context, *contents, name=name, arguments='{"ref": "e5"}')
    return [result.content for result in (await context.get_messages())[-1].content]  # type: ignore[union-attr]


def texts(view: list[LLMMessage]) -> str:
    return "\n".join(text for message in view for _, text in texts_of(message))


async def begun(store: MemoryStore, user: str = "alice", **policy: object) -> MemoryContext:
    """Return a context whose agent has seen two pages that repeat each other."""
    context = context_of(store, user, **policy)
    await context.add_message(UserMessage(content="Fill the cart.", source="user"))
    assert await shown(context, page(1)) == [page(1)]
    assert await shown(context, page(2)) == [page(2)]  # the first one was compacted: nothing had repeated yet
    return context


async def test_repeating_result_shows_what_is_new_beside_one_in_view(store: MemoryStore):
    context = await begun(store)
    (text,) = await shown(context, page(3))
    assert counter.count(text) < counter.count(page(3)) / 4
    assert 'status "3 products in the cart"' in text
    assert 'listitem "Product 3 of the shop, 21 euros" [e3] (in the cart)' in text
    assert 'listitem "Product 2 of the shop, 14 euros" [e2]' in text, "what was taken back is new, too"
    assert "Product 30" not in text
    assert 'Without the lines that stand in the result of click({"ref": "e5"}), one step before (click_' in text
    assert page(2) in texts(await context.get_messages()), "the page it is compared with is still shown whole"
    (text,) = await shown(context, page(4))
    assert "2 steps before" in text
    assert context.stats.differences == 2


async def test_every_content_stays_readable_by_its_reference(store: MemoryStore):
    context = await begun(store)
    pages = [page(number) for number in range(3, 9)]
    for one in pages:
        (text,) = await shown(context, one)
        key = text.partition("[MemoryRef: ")[2].partition(" ")[0]
        assert await context.retrieve(key) == one


async def test_views_count_their_tokens_and_keep_their_head(store: MemoryStore):
    """Each view begins with the one before, but for its last result, which is compacted once it is answered."""
    context = await begun(store)
    for number in range(3, 12):
        before, planned = await context.get_messages(), context.stats.compactions
        await shown(context, page(number))
        view = await context.get_messages()
        assert view[: len(before) - 1] == before[:-1] or context.stats.compactions > planned
        assert context.stats.view_tokens == sum(whole_tokens(message) for message in view)


async def test_equal_result_is_a_line(store: MemoryStore):
    context = await begun(store)
    (text,) = await shown(context, page(2))
    assert "No line is new beside the result of click" in text
    assert counter.count(text) < 120


async def test_removed_lines_are_named(store: MemoryStore):
    context = await begun(store)
    lines = page(2).split("\n")
    (text,) = await shown(context, "\n".join([*lines[:20], *lines[27:]]))
    assert "Gone since click_" in text
    assert '"- listitem "Product 19 of the shop, 43 euros" (e19)"' in text
    assert "and 2 more lines" in text


async def test_other_result_is_shown_whole_and_releases_the_one_before(store: MemoryStore):
    context = await begun(store)
    await shown(context, page(3))
    (text,) = await shown(context, page(1, site="library"))
    assert text == page(1, site="library")
    assert page(2) not in texts(await context.get_messages())


async def test_result_that_the_next_ones_do_not_repeat_is_released(store: MemoryStore):
    """Right with these, which stand behind it and are new; and at the end of the turn."""
    context = await begun(store)
    await add_step(context, "ok", name="wait")
    assert page(2) not in texts(await context.get_messages())
    other = await begun(store, "bob")
    await other.add_message(AssistantMessage(content="The cart is full.", source="coder"))
    assert page(2) not in texts(await other.get_messages())


async def test_new_base_is_shown_once_the_differences_take_as_much(store: MemoryStore):
    context = await begun(store)
    views = [(await shown(context, page(number)))[0] for number in range(3, 20)]
    whole = [number for number, text in enumerate(views, 3) if text == page(number)]
    assert 1 <= len(whole) <= 3
    assert context.stats.differences == 17 - len(whole)


async def test_long_result_shows_what_the_excerpt_of_the_earlier_one_lacks(store: MemoryStore):
    """A page of 12,000 tokens: its excerpt stands above; changes are shown wherever they are."""
    context = context_of(store)
    await context.add_message(UserMessage(content="Fill the cart.", source="user"))
    for number in (301, 302):
        (excerpt,) = await shown(context, page(number, rows=600))
        assert "Excerpt, " in excerpt
    (text,) = await shown(context, page(303, rows=600))
    assert '"Product 303 of the shop, 51 euros" [e303] (in the cart)' in text
    assert "Product 3 of" in excerpt
    assert "Product 3 of" not in text
    assert counter.count(text) <= counter.count(excerpt) / 2


async def test_wrapped_result_is_compared_by_the_lines_of_its_text(store: MemoryStore):
    """As an MCP tool of AutoGen returns it: one line of JSON."""

    def wrapped(number: int) -> str:
        return json.dumps([{"type": "text", "text": page(number), "annotations": None}])

    context = context_of(store)
    await context.add_message(UserMessage(content="Fill the cart.", source="user"))
    for number in (1, 2):
        assert await shown(context, wrapped(number)) == [wrapped(number)]
    (text,) = await shown(context, wrapped(3))
    assert "3 products in the cart" in text
    assert counter.count(text) < counter.count(wrapped(3)) / 3


async def test_parallel_results_are_compared_with_each_other(store: MemoryStore):
    context = context_of(store)
    first, second = await shown(context, page(1), page(2))
    assert first == page(1)
    assert "Without the lines that stand in the result of click" in second
    assert "before" not in second.partition("\n")[2].partition("\n")[0]


async def test_differences_are_off_without_compaction(store: MemoryStore):
    context = await begun(store, compaction={"enabled": False})
    assert await shown(context, page(3)) == [page(3)]
    assert context.stats.differences == 0


async def test_saved_state_shows_the_same_view(store: MemoryStore):
    """Before the answer and after it; a resumed session shows the next page whole, since nothing is known of others."""
    context = await begun(store)
    await shown(context, page(3))
    for _ in range(2):
        later = MemoryContext("alice", "coder", None, store, policy=context.policy)
        await later.load_state(json.loads(json.dumps(await context.save_state())))
        later.tools()
        assert await later.get_messages() == await context.get_messages()
        await shown(context, page(4))


@pytest.mark.thorough
async def test_budget_keeps_what_a_fresh_difference_is_compared_with(store: MemoryStore):
    """Older steps leave the view instead."""
    policy = {"token_budget": 9_000, "cache": NEVER_PAYS, "first_view_limit_tokens": 2_200}
    context = context_of(store, **policy)
    await context.add_message(UserMessage(content="Fill the cart.", source="user"))
    for number in range(6):
        await shown(context, page(0, site=f"site {number}"))
    await shown(context, page(1))
    await shown(context, page(2))
    for number in range(3, 40):
        (text,) = await shown(context, page(number))
        view = await context.get_messages()
        assert sum(whole_tokens(message) for message in view) <= 9_000
        if "Without the lines" in text:
            key = text.partition(" before (")[2].partition(")")[0]
            assert key in texts(view)
            content = await context.retrieve(key)
            assert isinstance(content, str)
            assert content in texts(view)
    assert context.stats.differences > 20


async def test_forgotten_base_leaves_no_word_in_a_difference(store: MemoryStore):
    context = context_of(store)
    await context.add_message(UserMessage(content="Fill the cart.", source="user"))
    secret = page(2).replace("Product 40", "Kestrelq7")
    for one in (page(1), secret):
        await shown(context, one)
    await shown(context, "\n".join(line for line in secret.split("\n") if "Kestrelq7" not in line))
    key, _, gone = texts(await context.get_messages()).partition("Gone since ")[2].partition(":")
    assert "Kestrelq7" in gone
    await store.user_stats.forget("alice", [key])
    assert "Kestrelq7" not in texts(await context.get_messages())
    assert "Kestrelq7" not in json.dumps(await context.save_state())


async def test_credential_that_is_gone_is_not_named_again(store: MemoryStore):
    context = context_of(store)
    await context.add_message(UserMessage(content="Fill the cart.", source="user"))
    token = "ghp_" + "a1B2c3D4e5F6g7H8i9J0" * 2
    secret = page(2).replace("Product 40 of the shop", f"token={token[:40]}")
    for one in (page(1), secret):
        await shown(context, one)
    (text,) = await shown(context, "\n".join(line for line in secret.split("\n") if "token=" not in line))
    assert "Gone since" in text
    assert token[:40] not in text


async def test_price_of_pages_that_repeat(store: MemoryStore, monkeypatch: pytest.MonkeyPatch):
    """Twenty steps on one page cost less than half of what they cost when each page is shown."""
    costs: list[float] = []
    for user, least_share in (("alice", differences._LEAST_SHARE), ("bob", 2.0)):
        monkeypatch.setattr(differences, "_LEAST_SHARE", least_share)
        context = context_of(store, user, cache=CachePolicy(expected_calls=20).model_dump())
        await context.add_message(UserMessage(content="Fill the cart.", source="user"))
        for number in range(20):
            await shown(context, page(number))
        costs.append(context.stats.view_cost)
    assert costs[0] < costs[1] / 2
