"""`search`: the best passages for a query, with place and score."""

import re
import sys
from collections.abc import Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from .command import Target, command
from .console import Output, harmless, say
from .items import AgentOption, SessionOption, SourcesOption, TagsOption, TypesOption, criteria_of, item_json

if TYPE_CHECKING:
    from ..memory import SearchHit

__all__ = ["search"]

_WORDS = re.compile(r"\w+")


@command()
async def search(
    target: Target,
    query: Annotated[str, typer.Argument(metavar="QUERY", help="Words, a question, an identifier, a line of a log.")],
    limit: Annotated[int, typer.Option(min=1, help="How many items at most.")] = 5,
    lines: Annotated[int, typer.Option(min=1, help="How many lines of each passage at most.")] = 6,
    types: TypesOption = None,
    sources: SourcesOption = None,
    tags: TagsOption = None,
    session: SessionOption = None,
    agent: AgentOption = None,
) -> Output:
    """Search everything stored, by words and by meaning.

    Items private to a sub-agent are searched too. A search here does not count as a use of the items.
    """
    from ..store import search_items

    criteria = criteria_of(types, sources, tags, session, agent)
    store, user = target.store, await target.user()
    hits = await search_items(store.search, user, query, limit, criteria, await store.user_stats.scope(user))

    def show() -> None:
        _print_hits(query, hits, lines)
        if not hits:
            say("nothing is found; memory-context list shows what there is")
        elif not any(hit.is_relevant for hit in hits):
            say("nothing here has much to do with the query: these are only the nearest")

    return Output(lambda: [_as_dict(hit) for hit in hits], show)


def _as_dict(hit: "SearchHit") -> dict[str, Any]:
    return {
        **item_json(hit.item),
        "session_title": hit.session_title,
        "is_relevant": hit.is_relevant,
        "score": asdict(hit.score),
        "passages": [asdict(passage) for passage in hit.passages],
    }


def _print_hits(query: str, hits: "Sequence[SearchHit]", max_lines: int) -> None:
    from rich.console import Console
    from rich.text import Text

    from ..text import query_terms

    terms = set(query_terms(query))
    is_terminal = sys.stdout.isatty()
    console = Console(highlight=False)
    for number, hit in enumerate(hits, 1):
        score, item, passage = hit.score, hit.item, hit.passages[0]
        place = f"{number}. {item.key}, lines {hit.start_line}-{hit.end_line}"
        origin = f"from {item.source}" + (f", private to {item.agent_id}" if item.is_private else "")
        origin += f", {item.created_at:%Y-%m-%d %H:%M} UTC, {item.place}" if item.place else ""
        origin += f", {item.caveat}" if item.caveat else ""
        parts = f"words {score.lexical:.2f}, meaning {score.semantic:.2f}, neighbours {score.neighbours:.2f}"
        console.print(Text.assemble((place, "bold"), f": {harmless(hit.ref.description)}"), soft_wrap=True)
        console.print(Text(harmless(f"   score {score.total:.2f} ({parts}) {origin}")), soft_wrap=True)
        shown, first = _window(harmless(passage.text).split("\n"), terms, max_lines)
        for line_number, line in enumerate(shown, passage.start_line + first):
            text = Text.assemble((f"{line_number:>6} ", "dim"), line.expandtabs(4))
            for start, end in _matches(text.plain, terms, start=7):
                text.stylize("bold yellow", start, end)
            console.print(text, no_wrap=True, overflow="ellipsis", soft_wrap=not is_terminal)
        console.print()


def _window(lines: Sequence[str], terms: AbstractSet[str], count: int) -> tuple[Sequence[str], int]:
    """Return the lines with most matches, and the number before them."""
    found = [sum(1 for _ in _matches(line, terms)) for line in lines]
    first = max(range(max(len(lines) - count, 0) + 1), key=lambda start: (sum(found[start : start + count]), -start))
    return lines[first : first + count], first


def _matches(line: str, terms: AbstractSet[str], start: int = 0) -> Iterator[tuple[int, int]]:
    from ..text import terms_of

    for word in _WORDS.finditer(line, start):
        if not terms.isdisjoint(terms_of(word[0])):
            yield word.span()
