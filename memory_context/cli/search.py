"""`search`: the passages that answer a query best, with their place and why they rank where they do."""

import re
import sys
from collections.abc import Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from .console import JsonOption, UrlOption, UserOption, harmless, print_json, run, say, user_of
from .items import AgentOption, SessionOption, SourcesOption, TagsOption, TypesOption, criteria_of, item_json

if TYPE_CHECKING:
    from ..memory import SearchHit
    from ..store import MemoryStore

__all__ = ["search"]

_WORDS = re.compile(r"\w+")


def search(
    query: Annotated[str, typer.Argument(metavar="QUERY", help="Words, a question, an identifier, a line of a log.")],
    limit: Annotated[int, typer.Option(min=1, help="How many items at most.")] = 5,
    lines: Annotated[int, typer.Option(min=1, help="How many lines of each passage at most.")] = 6,
    types: TypesOption = None,
    sources: SourcesOption = None,
    tags: TagsOption = None,
    session: SessionOption = None,
    agent: AgentOption = None,
    url: UrlOption = None,
    user: UserOption = None,
    as_json: JsonOption = False,
) -> None:
    """Search everything stored, by words and by meaning.

    What a sub-agent keeps from the user's other agents is searched too. Searching counts as nobody's use of an item.
    """
    criteria = criteria_of(types, sources, tags, session, agent)

    async def work(store: "MemoryStore") -> "list[SearchHit]":
        from ..memory.search import search_items

        name = await user_of(store, user)
        return await search_items(store, name, query, limit, criteria, await store.user_stats.scope(name))

    hits = run(work, url)
    if as_json:
        print_json([_as_dict(hit) for hit in hits])
    elif not hits:
        say("nothing is found; memory-context list shows what there is")
    else:
        _print_hits(query, hits, lines)
        if not any(hit.is_relevant for hit in hits):
            say("nothing here has much to do with the query: these are only the nearest")


def _as_dict(hit: "SearchHit") -> dict[str, Any]:
    return {
        **item_json(hit.item),
        "is_relevant": hit.is_relevant,
        "score": asdict(hit.score),
        "passages": [asdict(passage) for passage in hit.passages],
    }


def _print_hits(query: str, hits: "Sequence[SearchHit]", most_lines: int) -> None:
    from rich.console import Console
    from rich.text import Text

    from ..text import query_terms

    terms = set(query_terms(query))
    is_terminal = sys.stdout.isatty()
    console = Console(highlight=False)
    for number, hit in enumerate(hits, 1):
        score, passage = hit.score, hit.passages[0]
        where = f"{hit.item.key}, lines {hit.start_line}-{hit.end_line}"
        origin = f"from {hit.item.source}" + (f", private to {hit.item.agent_id}" if hit.item.is_private else "")
        origin += f", {hit.item.caveat}" if hit.item.caveat else ""
        why = f"words {score.lexical:.2f}, meaning {score.semantic:.2f}, neighbours {score.neighbours:.2f}"
        console.print(
            Text.assemble((f"{number}. ", "bold"), (where, "bold"), f": {harmless(hit.ref.description)}"),
            soft_wrap=True,
        )
        console.print(Text(harmless(f"   score {score.total:.2f} ({why}) {origin}")), soft_wrap=True)
        shown, first = _window(harmless(passage.text).split("\n"), terms, most_lines)
        for line_number, line in enumerate(shown, passage.start_line + first):
            text = Text.assemble((f"{line_number:>6} ", "dim"), line.expandtabs(4))
            for start, end in _matches(text.plain, terms, start=7):
                text.stylize("bold yellow", start, end)
            console.print(text, no_wrap=True, overflow="ellipsis", soft_wrap=not is_terminal)
        console.print()


def _window(lines: Sequence[str], terms: AbstractSet[str], most: int) -> tuple[Sequence[str], int]:
    """Return the lines of a passage that say most of the query, as many as are asked for, and how many are before."""
    found = [sum(1 for _ in _matches(line, terms)) for line in lines]
    first = max(range(max(len(lines) - most, 0) + 1), key=lambda start: (sum(found[start : start + most]), -start))
    return lines[first : first + most], first


def _matches(line: str, terms: AbstractSet[str], start: int = 0) -> Iterator[tuple[int, int]]:
    """Yield where words stand that have a term of the query, by which they were found."""
    from ..text import terms_of

    for word in _WORDS.finditer(line, start):
        if not terms.isdisjoint(terms_of(word[0])):
            yield word.span()
