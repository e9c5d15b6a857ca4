"""Images of observations are items: stored as bytes, shown while they are new, referred to afterwards."""

import base64
import itertools
import json
from typing import Any

import pytest
from autogen_agentchat.agents import AssistantAgent
from autogen_core import Image
from autogen_core.models import AssistantMessage, LLMMessage, ModelInfo, UserMessage
from autogen_ext.models.replay import ReplayChatCompletionClient
from PIL import Image as Pictures

from memory_context import ContextPolicy, MemoryContext, MemoryCriteria, MemoryStore
from memory_context.foundation.identifiers import SessionKey
from memory_context.foundation.messages import calls_of, image_from_bytes, message_to_json, png_bytes
from memory_context.foundation.policy import ImagesPolicy
from memory_context.testing import call, tool_calls

from ..context.steps import add_step
from ..support.images import picture_of
from .counting import Counter, context_of, texts

BLIND = ModelInfo(vision=False, function_calling=True, json_output=False, family="unknown", structured_output=False)
SEEING = ModelInfo(vision=True, function_calling=True, json_output=False, family="unknown", structured_output=False)


def images_in(view: list[LLMMessage]) -> list[Image]:
    blocks = [block for one in view if isinstance(one.content, list) for block in one.content]
    return [block for block in blocks if isinstance(block, Image)]


async def step_through(context: MemoryContext, steps: int) -> list[LLMMessage]:
    await context.add_message(UserMessage(content="Go.", source="user"))
    for _ in range(steps):
        await add_step(context, "look", "seen")
        await context.get_messages()
    return await context.get_messages()


async def test_newest_images_are_shown_and_older_ones_are_references(store: MemoryStore) -> None:
    async with context_of(store, Counter(has_pictures=True)) as context:
        view = await step_through(context, 4)
        said = [one for one in texts(view) if one.startswith("[MemoryRef: counter_")]
    assert len(images_in(view)) == 2
    assert [one.partition(" - ")[2] for one in said] == [
        "image of 8 x 8 of counter - 1100 tokens]",
        "image of 8 x 8 of counter, step 1 - 1100 tokens]",
        "image of 8 x 8 of counter, step 2 - 1100 tokens]",
    ]


async def test_stored_image_has_the_bytes_its_type_and_a_description(store: MemoryStore) -> None:
    async with context_of(store, Counter(has_pictures=True)) as context:
        await step_through(context, 1)
        sent = png_bytes(context.transcript[1].message.content[1])
        (first, *_) = reversed(await context.agent_memory.query(MemoryCriteria(types=("image",))))
        item = await context.agent_memory.retrieve(first.key)
        for transform in ("first_n", "filtered"):
            how: dict[str, Any] = {"n": 3} if transform == "first_n" else {"pattern": "IDAT"}
            text = await context.retrieve(first.key, transform, **how)
            assert text.endswith(f"Image of 8 x 8 (PNG, {len(sent)} bytes)")
    assert item is not None
    assert (item.data, item.content_type, item.content_bytes, item.origin) == (sent, "image/png", len(sent), "tool")
    assert item.ref.token_count == 1100
    assert "count is 1" in item.ref.description


async def test_search_finds_an_image_by_the_text_beside_it_never_by_bytes(store: MemoryStore) -> None:
    async with context_of(store, Counter(has_pictures=True, text=" of red parrots")) as context:
        await step_through(context, 1)
        for _ in range(2):  # before and after it is indexed
            found = [hit for hit in await context.search("red parrots", 10) if hit.item.type == "image"]
            assert found
            assert all("parrots" in hit.item.ref.description for hit in found)
            assert not [hit for hit in await context.search("IHDR IDAT") if "IHDR" in hit.passage]
            await store.flush_index()


async def test_model_without_vision_is_given_references(store: MemoryStore) -> None:
    async with context_of(store, Counter(has_pictures=True)) as context:
        context.note_agent(model_client=ReplayChatCompletionClient(["x"], model_info=BLIND))
        view = await step_through(context, 2)
        assert not images_in(view)
        assert "\n".join(texts(view)).count("[MemoryRef: counter_") == 3
        context.model_changed(ReplayChatCompletionClient(["x"], model_info=SEEING))
        await add_step(context, "look", "seen")
        assert len(images_in(await context.get_messages())) == 1


async def test_agent_opens_a_stored_image_after_the_results(
    store: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("memory_context.context.images._OBSERVED_IMAGES", 1)
    async with context_of(store, Counter(has_pictures=True)) as context:
        view = await step_through(context, 3)
        key = next(one for one in texts(view) if one.startswith("[MemoryRef: counter_")).split()[1]
        model = ReplayChatCompletionClient(
            [tool_calls(call("retrieve_memory", memory_key=key)), "It is red."], model_info=SEEING
        )
        agent = AssistantAgent(
            "coder", model_client=model, model_context=context, tools=context.tools(), max_tool_iterations=2
        )
        stored = await context.agent_memory.query(MemoryCriteria(types=("image",)))
        await agent.run(task="What did the first picture show?")
        entries = context.transcript.entries()
        asked = [[one.name for one in calls_of(entry.message)] for entry in entries]
        at = asked.index(["retrieve_memory"]) + 1
        opened = entries[at + 1]
        said = texts([entries[at].message])[0]
        stored_afterwards = await context.agent_memory.query(MemoryCriteria(types=("image",)))
    assert said.startswith(f"[MemoryRef: {key} - image of 8 x 8 of counter: count is 1 - 1100 tokens]\nImage of 8 x 8")
    assert said.endswith("; it follows.")
    assert (opened.message.source, opened.carries_result) == ("memory", True)
    assert opened.message.content[0] == f"{key}, image of 8 x 8 of counter: count is 1:"
    assert opened.measured[-1].stored.refs[0].key == key, "it is the item that was opened"
    assert len(stored_afterwards) == len(stored) + 1, "only the counter's next picture is new"


async def test_archive_refers_to_images_and_a_resumed_session_shows_them(store: MemoryStore) -> None:
    async with context_of(store, Counter(has_pictures=True), session="s") as context:
        sent = [message_to_json(one) for one in await step_through(context, 4)]
        state = await context.save_state()
    assert base64.b64encode(png_bytes(picture_of(5))).decode() in json.dumps(sent)
    assert "iVBOR" not in json.dumps(state), "no image stands in a saved state"
    archived = await store.conversations.read(SessionKey("alice", "coder", "s"))
    assert "iVBOR" not in json.dumps([batch.body for batch in archived.batches]), "no image stands in the archive"
    resumed = context_of(store, session="s")
    assert [message_to_json(one) for one in await resumed.get_messages()] == sent
    await resumed.close()


async def test_forgotten_image_is_gone_from_view_and_archive(store: MemoryStore) -> None:
    async with context_of(store, Counter(has_pictures=True), session="s") as context:
        await step_through(context, 1)
        (newest, *_) = await context.agent_memory.query(MemoryCriteria(types=("image",)))
        await context.agent_memory.forget(newest.key)
        view = await context.get_messages()
        assert len(images_in(view)) == 1
        assert f"[MemoryRef: {newest.key} - forgotten - 0 tokens]" in texts(view)
        assert await context.agent_memory.retrieve(newest.key) is None
    later = context_of(store, session="s")
    assert f"[MemoryRef: {newest.key} - forgotten - 0 tokens]" in texts(await later.get_messages())
    await later.close()


async def test_png_of_an_image_is_the_same_after_any_number_of_ways_through_the_store() -> None:
    for mode in ("RGB", "L", "P", "RGBA", "1"):
        image = Image(Pictures.effect_noise((33, 17), 90).convert(mode))
        once = png_bytes(image)
        assert png_bytes(image_from_bytes(once)) == once
        assert png_bytes(image_from_bytes(png_bytes(image_from_bytes(once)))) == once


def limited(store: MemoryStore, **limits: int) -> MemoryContext:
    return MemoryContext("alice", "coder", None, store, policy=ContextPolicy(images=ImagesPolicy(**limits)))


async def show_screens(context: MemoryContext, count: int, first: int = 0) -> list[list[LLMMessage]]:
    """Let a user show screens one by one; return the views."""
    views: list[list[LLMMessage]] = []
    for number in range(first, first + count):
        screen = picture_of(number, 16)
        await context.add_message(UserMessage(content=[f"Screen {number}:", screen], source="user"))
        views.append(await context.get_messages())
        await context.add_message(AssistantMessage(content="Seen.", source="coder"))
    return views


async def test_view_holds_no_more_images_of_users_than_allowed(store: MemoryStore) -> None:
    """The newest stay, images leave in batches, and a reference opens the image that left."""
    async with limited(store, most=4) as context:
        views = await show_screens(context, 9)
        counts = [len(images_in(view)) for view in views]
        moved = sum(
            json.dumps([message_to_json(one) for one in later[: len(view) - 1]])
            != json.dumps([message_to_json(one) for one in view[:-1]])
            for view, later in itertools.pairwise(views)
        )
        said = [one for one in texts(views[-1]) if "[MemoryRef: user_" in one]
        key = said[0].split("[MemoryRef: ")[1].split()[0]
        item = await context.agent_memory.retrieve(key)
    assert max(counts) == 4
    assert min(counts[3:]) == 2
    assert moved <= 2, "the prefix moves once for several images"
    assert item is not None
    assert item.data == png_bytes(picture_of(0, 16))


async def test_view_holds_no_more_bytes_of_images_than_allowed(store: MemoryStore) -> None:
    size = 4 * len(png_bytes(picture_of(1, 16))) // 3
    async with limited(store, most_bytes=5 * size) as context:
        views = await show_screens(context, 12)
    sizes = [sum(len(one.to_base64()) for one in images_in(view)) for view in views]
    assert max(sizes) <= 5 * size
    assert min(len(images_in(view)) for view in views) >= 1


async def test_images_of_the_current_message_stay_first_of_all(store: MemoryStore) -> None:
    async with limited(store, most=4) as context:
        asked = [picture_of(number, 16) for number in range(3)]
        await context.add_message(UserMessage(content=["Compare these:", *asked], source="user"))
        for number in range(5):
            await add_step(context, "look", "seen")
            await context.add_message(UserMessage(content=["Also:", picture_of(9 + number, 16)], source="camera"))
            view = await context.get_messages()
            assert len(images_in(view)) <= 4
            assert [png_bytes(one) for one in images_in(view)[:3]] == [png_bytes(one) for one in asked]
