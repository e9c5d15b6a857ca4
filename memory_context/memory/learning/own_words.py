"""The texts of a session: the user's own passages, and what was shown before them."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from memory_context.foundation.text.own_words import own_passages
from memory_context.foundation.text.tokenize import verbatim_parts
from memory_context.foundation.utf8 import strings_in, unescape

__all__ = ["SessionTexts", "UserText", "plain_words"]


def plain_words(text: str) -> str:
    """Return the words of a text between single spaces, without case, punctuation and line breaks.

    Where a script parts no words, each character counts as one.
    """
    return f" {' '.join(verbatim_parts(text.casefold()))} "


@dataclass(frozen=True)
class UserText:
    """A message of the user, as passages of own words; positions count from 0."""

    position: int
    at: datetime
    passages: Sequence[str] = field(repr=False)


class SessionTexts:
    """Reads batches; texts that are only in the store have to be restored before `said`.

    Args:
        positions: Messages of the user that are read.
    """

    def __init__(self, bodies: Sequence[Mapping[str, Any]], positions: Collection[int]) -> None:
        self._positions = positions
        self._entries: dict[int, Mapping[str, Any]] = {}
        self._offloaded: dict[tuple[int, int], str] = {}
        self._contents: Mapping[str, str] = {}
        for body in bodies:
            entries: list[Mapping[str, Any]] = body["entries"]
            self._entries.update(enumerate(entries, body["first_position"]))
            self._offloaded.update(_offloaded_texts(body["decisions"]))

    @property
    def missing_keys(self) -> list[str]:
        """Keys of the user's texts that are only in the store."""
        return [key for (position, _), key in self._offloaded.items() if position in self._positions]

    def restore(self, contents: Mapping[str, str]) -> None:
        self._contents = contents

    def said(self) -> list[UserText]:
        """Return the messages asked for, in order."""
        return [
            UserText(
                position, datetime.fromisoformat(entry["added_at"]), own_passages("\n\n".join(self._texts(position)))
            )
            for position, entry in sorted(self._entries.items())
            if position in self._positions
        ]

    def is_shown_before(self, quote: str, said: UserText) -> bool:
        """Return True if the words of a quote stood in a result, an answer or another's message before."""
        words = plain_words(quote)
        sources = {
            self._entries[position]["message"].get("source") for position in self._positions & self._entries.keys()
        }
        for position, entry in self._entries.items():
            message = entry["message"]
            is_users = (
                message["type"] == "UserMessage" and message.get("source") in sources and not entry["carries_result"]
            )
            if (
                position < said.position
                and not is_users
                and any(words in plain_words(unescape(one)) for one in strings_in(message))
            ):
                return True
        return False

    def _texts(self, position: int) -> Iterator[str]:
        content = self._entries[position]["message"]["content"]
        blocks: list[object] = [content] if isinstance(content, str) else list(content)
        for index, block in enumerate(blocks):
            if isinstance(block, str):
                yield unescape(block) or self._contents.get(self._offloaded.get((position, index), ""), "")


def _offloaded_texts(decisions: Sequence[Sequence[Any]]) -> Iterator[tuple[tuple[int, int], str]]:
    for _, one in decisions:
        if one["kind"] == "offloaded" and one["address"]["kind"] == "text" and one["stored"]["refs"]:
            yield (one["position"], one["address"]["index"]), unescape(one["stored"]["refs"][0]["key"])
