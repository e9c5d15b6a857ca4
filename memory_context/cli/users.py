"""`users`: whose memory a store holds, and how much."""

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from .console import JsonOption, UrlOption, print_json, print_table, run, say

if TYPE_CHECKING:
    from ..store import MemoryStore

__all__ = ["users"]


def users(
    limit: Annotated[int, typer.Option(min=1, help="How many at most.")] = 100,
    url: UrlOption = None,
    as_json: JsonOption = False,
) -> None:
    """List the users of a store, and how much there is of each.

    Only the owner of the database may list them: its address is --url, or MEMORY_CONTEXT_OWNER_URL.
    """

    async def work(store: "MemoryStore") -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = []
        async for user in store.every_user():
            if len(found) > limit:
                break
            kinds, extent = await store.user_stats.kinds(user), await store.user_stats.extent(user)
            items, tokens = sum(kind.items for kind in kinds), sum(kind.tokens for kind in kinds)
            found.append({"user_id": user, "items": items, "token_count": tokens, **asdict(extent)})
        return found

    found = run(work, url)
    shown = found[:limit]
    if as_json:
        print_json(shown)
    elif not shown:
        say("nobody has anything stored yet")
    else:
        columns = ("user", "items", "tokens", "sessions", "messages", "chat")
        rows = [[f"{value:,}" if isinstance(value, int) else value for value in one.values()] for one in shown]
        print_table(columns, rows, right=columns[1:])
    if len(found) > limit:
        say(f"there are more than {limit}: --limit shows more")
