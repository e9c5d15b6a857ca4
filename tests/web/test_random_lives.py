"""Random lives of a conversation: lost answers, clients that go away, killed processes, pages that archive."""

import random
from contextlib import AsyncExitStack
from typing import Any

import pytest

from tests.support.chats import cut_off

from .conftest import Client, Model, StartChat, claimed, kill, message

pytestmark = pytest.mark.thorough


class Page:
    """What a browser does and knows: one question at a time, sent again until it is answered or given up."""

    def __init__(self, start_chat: StartChat, model: Model, chance: random.Random) -> None:
        self.start_chat, self.model, self.chance = start_chat, model, chance
        self.lives = AsyncExitStack()
        self.client: Client
        self.session: str | None = None
        self.messages: list[dict[str, Any]] = []  # what the person sees
        self.unstored: dict[str, dict[str, Any]] = {}
        self.waiting: dict[str, Any] | None = None

    async def restart(self) -> None:
        await self.lives.aclose()
        self.client = await self.lives.enter_async_context(self.start_chat())

    async def kill(self) -> None:
        """The process is gone with what it had not written; the page brings what nobody said was stored."""
        kill(self.client)
        await self.restart()
        await self.archive()

    async def archive(self) -> None:
        batch = [*self.unstored.values(), *self.chance.sample(self.messages, min(2, len(self.messages)))]
        self.chance.shuffle(batch)
        if self.session and batch:
            body = {"session_id": self.session, "messages_batch": batch}
            answer = await self.client.post("/api/chat/session/archive_messages", json=body)
            self.stored(answer.json()["stored_ids"])

    def ask(self) -> dict[str, Any]:
        """The question that waits, or a new one."""
        if self.waiting is None or self.chance.random() < 0.2:  # given up
            self.waiting = message(f"question {len(self.messages)}")
            self.messages.append(self.waiting)
            self.unstored[self.waiting["id"]] = self.waiting
        return self.waiting

    async def say(self) -> None:
        answer = await self.client.say(self.ask(), session=self.session)
        assert answer.status_code == 200, answer.text
        told = answer.json()
        self.session, self.waiting = told["session_id"], None
        self.stored(told["stored_ids"])
        assert told["message"]["id"] not in [one["id"] for one in self.messages]
        self.messages.append(told["message"])
        if told["message"]["id"] not in told["stored_ids"]:
            self.unstored[told["message"]["id"]] = told["message"]

    async def say_in_vain(self) -> None:
        """The answer is made, and lost on its way."""
        assert (await self.client.say(self.ask(), session=self.session)).status_code == 200

    async def go_away(self) -> None:
        """The connection breaks in mid-answer, if there is none yet."""
        question = message(f"question {len(self.messages)}") if self.waiting is None else None
        if question is not None:
            self.waiting = question
            self.messages.append(question)
            self.unstored[question["id"]] = question
            await cut_off(self.client, self.model, self.client.say(question, session=self.session))

    def stored(self, ids: list[str]) -> None:
        for id_ in ids:
            self.unstored.pop(id_, None)


@pytest.mark.parametrize("seed", range(10))
async def test_random_lives_keep_each_message_once_and_in_order(start_chat: StartChat, model: Model, seed: int):
    """Each message stands once, and in order, where the person sees it and in what the agent hears."""
    chance = random.Random(seed)
    page = Page(start_chat, model, chance)
    await page.restart()
    await page.say()
    for _ in range(14):
        await chance.choice(
            [page.say, page.say, page.say_in_vain, page.go_away, page.archive, page.kill, page.restart]
        )()
    await page.say()
    await page.archive()
    await page.restart()
    assert page.session is not None
    said = [one["text"] for one in page.messages]
    seen = await page.client.texts(page.session)
    assert len(seen) == len(set(seen))
    assert [text for text in seen if text in said] == said
    await page.say()
    claims = {claimed(text): f"Assi: {text}" for text in said}  # answers that a kill lost and the page brought back
    heard = [claims.get(text, text).split(": ", 1)[1] for text in model.views[-1]]
    assert len(heard) == len(set(heard))
    assert [text for text in heard if text in said] == said
    await page.lives.aclose()
