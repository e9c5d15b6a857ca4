"""The run this package is made for: search results, pages and query results, three hundred kilobytes a round."""

from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest
from autogen_agentchat.agents import AssistantAgent
from autogen_agentchat.messages import TextMessage

from memory_context import ContextPolicy, MemoryContext, MemoryStore
from memory_context.foundation.messages import results_of
from memory_context.foundation.tokens import default_token_counter

from .actor import Actor, Step, answer, call, characters_of, check_view, key_of, keys_in
from .texts import page, query_result, search_results

ROUNDS, PARALLEL_ROUNDS = 11, 4
"""Of two iterations each: a search and three pages, then a query and two pages. Four fill a window three times."""

POLICY = ContextPolicy(store_timeout_seconds=60, view_target_tokens=16_000)  # the script looks at placeholders that old
"""The default, but for how long a step waits for the store: a busy machine is no outage."""

MOST_CHARACTERS = 50_000
WINDOW_TOKENS = 128_000

counter = default_token_counter()

NEEDLE = "The relief valve of Orrinthwaite jammed at 4.71 bar on 9 March 1987, when Tove Askeland was on duty."
TASK = (
    "Compile a report on the state of the small hydropower stations. For each region search the web, read the three "
    "best pages, query our station database, and read the pages of the two stations that stand out. Keep sources."
)


@dataclass
class Sources:
    """The tools, which remember what they returned."""

    returned: list[str] = field(default_factory=list[str])

    async def search_web(self, query: str) -> str:
        """Search the web."""
        return self._kept(search_results(query))

    async def fetch_page(self, url: str) -> str:
        """Return a web page as Markdown."""
        return self._kept(page(url, planted=NEEDLE if url == url_of(0, 1) else ""))

    async def run_query(self, sql: str) -> str:
        """Query the station database."""
        return self._kept(query_result(sql))

    def _kept(self, text: str) -> str:
        self.returned.append(text)
        return text


def url_of(number: int, of: int) -> str:
    return f"https://hydro.example/region-{number}/page-{of}"


def rounds(*, in_parallel: bool) -> Iterator[Step]:
    """Every result by a step of its own, or all pages of an iteration in one."""
    for number in range(PARALLEL_ROUNDS if in_parallel else ROUNDS):
        pages = [call("fetch_page", url=url_of(number, of)) for of in range(5)]
        sql = f"SELECT * FROM stations WHERE region_id = {number} ORDER BY level_m DESC"
        yield answer(
            f"Region {number}: what is there?", call("search_web", query=f"hydropower stations region {number}")
        )
        if in_parallel:
            yield answer("The three best of these.", *pages[:3])
        else:
            yield from (answer(f"Result {of + 1} looks useful.", pages[of]) for of in range(3))
        yield answer("Now our own figures.", call("run_query", sql=sql))
        if in_parallel:
            yield answer("Two stations stand out.", *pages[3:])
        else:
            yield from (answer("This station stands out.", pages[of]) for of in (3, 4))


def looking_back() -> Iterator[Step]:
    """Find the needle again: by its meaning, and by a pattern in the page it stood in."""
    yield answer(
        "Who was on duty?", call("search_memory", query="when did the relief valve of Orrinthwaite jam", limit=3)
    )
    yield lambda view: (
        "The exact line, from the page.",
        [
            call(
                "retrieve_memory",
                memory_key=key_of(view, url_of(0, 1)),
                transform="filtered",
                pattern=r"jammed at [\d.]+ bar",
            )
        ],
    )


@pytest.mark.parametrize("in_parallel", [False, True], ids=["one by one", "in parallel"])
async def test_a_conversation_over_megabytes_stays_small(store: MemoryStore, in_parallel: bool) -> None:
    """22 iterations return 3.4 MB, or 8 in parallel 1.2 MB; every view stays under 50 kB, and all is still there."""
    sources = Sources()
    actor = Actor([*rounds(in_parallel=in_parallel), *looking_back()])
    async with MemoryContext("alice", "analyst", memory_store=store, policy=POLICY) as context:
        agent = AssistantAgent(
            "analyst",
            actor,
            tools=[sources.search_web, sources.fetch_page, sources.run_query, *context.tools()],
            model_context=context,
            max_tool_iterations=1000,
        )
        run = await agent.run(task=TASK)
        assert isinstance(run.messages[-1], TextMessage), "the run ended too early"
        for view in actor.views:
            check_view(view, TASK)
        shown = {result.content for view in actor.views for message in view for result in results_of(message)}
        assert max(map(counter.count, shown)) <= POLICY.first_view_limit_tokens

        returned = sum(map(counter.count, sources.returned))
        assert context.stats.raw_tokens >= returned > WINDOW_TOKENS
        keys = set[str]().union(*map(keys_in, actor.views))
        assert {await context.retrieve(key) for key in keys} == {*sources.returned}
        found, cut = (results_of(view[-1])[0].content for view in actor.views[-2:])
        assert NEEDLE in found
        assert NEEDLE in cut
        sizes = [characters_of(view) for view in actor.views]
        assert max(sizes) < MOST_CHARACTERS, f"{max(sizes):,} characters in view {sizes.index(max(sizes)) + 1}"
