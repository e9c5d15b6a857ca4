"""Archived messages as items of type `conversation`, searched like all others.

    batch ──its job──▶ texts of persons and answers of agents ──one transaction──▶ items ──their jobs──▶ index

The key of an item derives from the time of its message, so batches that repeat messages (a branch, a retry) store none
twice, and a forgotten one stays forgotten. An offloaded text is not stored again: both items have its content.
"""

import asyncio
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from memory_context.foundation.credentials.masks import masked
from memory_context.foundation.references import memory_key_for, one_line
from memory_context.foundation.utf8 import unescape

from ..codec import canonical_json, read_canonical
from ..database import Database
from ..items import CONVERSATION_JOB, CONVERSATION_TYPE, NewItem, Origin, row_params
from ..jobs import Claim, JobKind, Jobs
from ..sql import load_queries

__all__ = ["CONVERSATION_JOB", "KEY_STEM", "SaidText", "register_conversation_jobs", "said_in", "said_key"]

_QUERIES = load_queries("conversations")

KEY_STEM = "said"

_USER_SOURCES = ("user", "user_proxy")  # of batches archived before their job named them
_OWN_SOURCE = "memory"  # notices of the context itself
_BATCHES = 8
_KEY_CHARACTERS = 12
_DESCRIPTION_CHARACTERS = 80
_READ_CHARACTERS = 2_000  # masked before the description is cut out


@dataclass(frozen=True)
class SaidText:
    """One text of an archived message.

    Attributes:
        number: Of the message in its session, from 1.
        ordinal: Among the texts of the same moment.
        text: Empty if it was offloaded.
        offloaded_key: The item that has it then.
        said_at: In ISO 8601.
    """

    number: int
    ordinal: int
    text: str
    offloaded_key: str
    token_count: int
    sender: str
    is_answer: bool
    said_at: str


def said_in(body: Mapping[str, Any]) -> list[SaidText]:
    """Return what persons and other agents said and the agent answered in a batch, in order, redelivered copies once.

    Not: calls, results, code output, thoughts, and notices of the context itself.
    """
    decisions: list[dict[str, Any]] = [one for _, one in body["decisions"]]
    copies = {one["again_at"] for one in decisions if one["kind"] == "redelivered"}
    offloaded = {
        (one["position"], one["address"]["index"]): unescape(one["stored"]["refs"][0]["key"])
        for one in decisions
        if one["kind"] == "offloaded" and one["address"]["kind"] == "text" and one["stored"]["refs"]
    }
    said: list[SaidText] = []
    texts_at: Counter[str] = Counter()
    for position, entry in enumerate(body["entries"], body["first_position"]):
        message, sender = entry["message"], unescape(entry["message"].get("source") or "")
        if entry["carries_result"] or sender == _OWN_SOURCE or position in copies:
            continue
        tokens = {(one["address"]["kind"], one["address"]["index"]): one["tokens"] for one in entry["parts"] or ()}
        for index, text in _texts_of(message):
            key = "" if text else offloaded.get((position, index), "")
            if text.strip() or key:
                at, count = entry["added_at"], tokens.get(("text", index), 0)
                is_answer = message["type"] == "AssistantMessage"
                said.append(SaidText(position + 1, texts_at[at], text, key, count, sender, is_answer, at))
                texts_at[at] += 1
    return said


def said_key(agent_id: str, session_id: str, said_at: str, ordinal: int = 0) -> str:
    """Return the key of a message as an item, from its time in ISO 8601 and its number among the texts of that time."""
    return memory_key_for(KEY_STEM, (agent_id, session_id, said_at), str(ordinal), _KEY_CHARACTERS)


def _texts_of(message: Mapping[str, Any]) -> list[tuple[int, str]]:
    content: str | list[Any] = message["content"]
    if message["type"] not in ("UserMessage", "AssistantMessage"):
        return []
    if isinstance(content, str):
        return [(0, unescape(content))]
    blocks = content if message["type"] == "UserMessage" else []  # those of an assistant's message are calls
    return [(index, unescape(block)) for index, block in enumerate(blocks) if isinstance(block, str)]


def register_conversation_jobs(database: Database, jobs: Jobs, *, masks_credentials: bool) -> None:
    """Have this store make archived messages searchable; before the kinds that index them, for one pass does both."""

    async def handle(claim: Claim) -> None:
        for job in claim.jobs:
            await _store_batch(database, claim.user_id, job.payload, masks_credentials)

    jobs.register(JobKind(CONVERSATION_JOB, handle, batch_jobs=_BATCHES))


async def _store_batch(database: Database, user_id: str, job: Mapping[str, Any], masks_credentials: bool) -> None:
    place = {"session_id": job["session"], "agent_id": job["agent"]}
    place |= {"branch": job["branch"], "sequence": job["sequence"]}
    names = ("fetch_said_batch", "select_batch_items")
    reading = _QUERIES.each(names, place)
    while True:
        batches, kept = await database.read(user_id, *reading, kind="batch")
        if not batches:  # deleted meanwhile
            return
        read = {**place, "batch_sha256": batches[0]["batch_sha256"]}
        text = batches[0]["message_batch"]
        rows = await asyncio.to_thread(_rows_of, text, {**job, **read}, kept, masks_credentials)
        contents = {row["content_sha256"]: content for content, row in rows if content}
        given = {
            **read,
            "contents": canonical_json([_content_json(one) for one in contents.values()]),
            "messages": canonical_json([_message_json(place, row) for place, (_, row) in enumerate(rows)]),
        }
        names = ("lock_live_session", "upsert_said_contents", "insert_said", "fetch_batch_sha256")
        *_, now = await database.write(user_id, *_QUERIES.each(names, given), kind="batch")
        if not now or now[0]["batch_sha256"] == read["batch_sha256"]:  # else something in it was forgotten meanwhile
            return


def _rows_of(
    text: str, job: Mapping[str, Any], kept: Sequence[Mapping[str, Any]], masks_credentials: bool
) -> list[tuple[dict[str, Any] | None, dict[str, Any]]]:
    """Return parameters of contents and items; no content where an item has it already."""
    items = {row["memory_key"]: row for row in kept}
    rows: list[tuple[dict[str, Any] | None, dict[str, Any]]] = []
    for said in said_in(read_canonical(text)):
        offloaded = items.get(said.offloaded_key)
        if not said.text and offloaded is None:
            continue  # forgotten
        content, row = row_params(_item_of(said, job, masks_credentials))
        row |= {"said_at": datetime.fromisoformat(said.said_at)}
        if offloaded is not None:
            names = ("content_sha256", "content_bytes", "summary", "token_count")
            row |= {name: offloaded[name] for name in names}
        rows.append((content if offloaded is None else None, row))
    return rows


def _content_json(content: Mapping[str, Any]) -> dict[str, Any]:
    data: bytes = content["data"]
    return {
        "sha256": content["content_sha256"].hex(),
        "content": data.decode() if content["is_text"] else None,
        "raw": None if content["is_text"] else data.hex(),
        "bytes": content["content_bytes"],
    }


def _message_json(place: int, row: Mapping[str, Any]) -> dict[str, Any]:
    names = ("memory_key", "memory_type", "source", "origin", "summary", "token_count", "metadata", "is_private")
    moment: datetime = row["said_at"]
    same = {"place": place, "sha256": bytes(row["content_sha256"]).hex(), "said_at": moment.isoformat()}
    return {**{name: row[name] for name in names}, **same}


def _item_of(said: SaidText, job: Mapping[str, Any], masks_credentials: bool) -> NewItem:
    beginning = said.text[:_READ_CHARACTERS]
    origin: Origin = "agent"
    if not said.is_answer and said.sender in job.get("user_sources", _USER_SOURCES):
        origin = "user_words"
    return NewItem(
        said.text,
        one_line(masked(beginning) if masks_credentials else beginning, _DESCRIPTION_CHARACTERS),
        said.token_count,
        CONVERSATION_TYPE,
        one_line(said.sender, 100),
        metadata={"position": said.number, "branch": job["branch"]},
        origin=job.get("origin", origin),
        key=said_key(job["agent_id"], job["session_id"], said.said_at, said.ordinal),
        agent_id=job["agent_id"],
        session_id=job["session_id"],
        is_private=job["is_private"],
    )
