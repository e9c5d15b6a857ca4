"""The benchmarks measure what they say: small runs made here give figures that were worked out by hand."""

import asyncio
import json
import shutil
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from autogen_core import FunctionCall
from autogen_core.model_context import UnboundedChatCompletionContext
from autogen_core.models import (
    AssistantMessage,
    FunctionExecutionResult,
    FunctionExecutionResultMessage,
    LLMMessage,
    UserMessage,
)

from benchmarks import (
    __main__,
    citus,
    comparing,
    connectors,
    deciding,
    frontier,
    micro,
    needles,
    observing,
    peers,
    replay,
    report,
    retrieval,
    steps,
    storing,
)
from benchmarks.bm25 import Bm25, windows
from benchmarks.chart import draw_chart, draw_frontier
from benchmarks.figures import ANY, LATER, NEXT, SOON, Needles, Played, SetFigures, pooled
from benchmarks.peers import EVERYTHING, Conversation, installed_peers
from benchmarks.playing import MemoryFigures, Player, Reach, RunFigures, Sought, pairing_violations
from benchmarks.prompts import Cost, PromptMeter, Rendered, look_up_price
from benchmarks.remembering import MEMORY
from benchmarks.traces import Needle, Run, read_needles, read_runs, set_names
from memory_context import CachePolicy, ContextPolicy, MemoryContext, MemoryStore
from memory_context.foundation.light_model.answers import Completion
from memory_context.foundation.tokens import default_token_counter
from memory_context.recall.tools.prompt_head import tool_json
from memory_context.store import embedded

from .conftest import Server

count = default_token_counter().count


def words(number: int, last: str = "a") -> str:
    """A text of so many tokens of o200k_base; one more or two for an unusual last word."""
    return "a" + " a" * (number - 2) + f" {last}"


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


def call(*ids: str, text: str = "") -> dict[str, Any]:
    calls = [{"id": call_id, "name": "look", "arguments": "{}"} for call_id in ids]
    return {"role": "assistant", "content": text, "tool_calls": calls}


def answer(text: str) -> dict[str, Any]:
    return {"role": "assistant", "content": text}


def output(call_id: str, text: str) -> dict[str, Any]:
    return {"role": "tool", "content": text, "tool_call_id": call_id, "name": "look"}


SYSTEM = {"role": "system", "content": words(1200)}
NEEDLE = "src/zebra_17.py"
# 4 tokens a message; "look" is one token, "c1" two, "{}" one: so a call takes 8 and a result 7 beside its text
THREE_CALLS = [
    SYSTEM,  # 1204
    user(words(10)),  # 14
    call("c1"),  # 8
    output("c1", words(2000)),  # 2007
    answer(words(20)),  # 24
    user(words(5)),  # 9
    answer("done"),
]


def write_set(folder: Path, name: str, *runs: list[dict[str, Any]]) -> None:
    lines = [json.dumps({"id": f"run {number}", "messages": messages}) for number, messages in enumerate(runs)]
    (folder / f"{name}.jsonl").write_text("\n".join(lines), encoding="utf-8")


def write_needles(folder: Path, kind: str, name: str, *places: tuple[int, int]) -> None:
    rows = [
        {"trajectory": "run 0", "output_message": output, "needed_at": needed, "needle": NEEDLE}
        for output, needed in places
    ]
    (folder / kind).mkdir()
    (folder / kind / f"{name}.jsonl").write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")


async def replayed(store: MemoryStore, folder: Path, policy: ContextPolicy | None = None) -> dict[str, RunFigures]:
    """The one run of the set "made", with everything kept and through a memory context."""
    everything = installed_peers()[0][:1]
    figures = await replay.replay_set(folder, "made", store, policy or ContextPolicy(), everything)
    return {context: played.runs[0] for context, played in figures.played.items()}


def promises(figures: RunFigures) -> list[int]:
    memory = figures.memory
    assert memory is not None
    return [
        figures.broken_views,
        figures.views_without_task,
        memory.over_budget,
        memory.miscounted,
        memory.transactions_off,
    ]


def test_cost_counts_cached_tokens_a_tenth_and_new_ones_more():
    """1,000, then 1,100 with too short a prefix to be cached, then 1,150 of which 1,100 are."""
    meter = PromptMeter(len)
    a, b, c = (Rendered(letter * size, size) for letter, size in (("a", 1000), ("b", 100), ("c", 50)))
    for prompt in ([a], [a, b], [a, b, c]):
        meter.add(prompt)
    assert meter.cost == Cost(calls=3, tokens=3250, cached_tokens=1100, peak_tokens=1150)
    assert meter.cost.price == pytest.approx(0.1 * 1100 + 1.25 * 2150)


def test_prefix_reaches_into_the_first_message_that_differs():
    meter = PromptMeter(len)
    for end in ("x", "y"):
        meter.add([Rendered("a" * 1000, 1000), Rendered("b" * 500 + end, 501), Rendered("c" * 100, 100)])
    assert meter.cost.cached_tokens == 1500


async def test_keeping_everything_costs_what_was_worked_out_by_hand(tmp_path: Path, store: MemoryStore):
    write_set(tmp_path, "made", THREE_CALLS)
    figures = (await replayed(store, tmp_path))[EVERYTHING]
    first, second = 1204 + 15, 1204 + 15 + 8 + 2007
    third = second + 24 + 10
    assert figures.cost == Cost(3, first + second + third, first + second, third)
    assert figures.cost.price == pytest.approx(4530.3)
    bare = [size - 1204 for size in (first, second, third)]
    assert figures.bare == Cost(3, sum(bare), bare[1], bare[2])


async def test_a_run_under_the_threshold_costs_as_much_as_keeping_everything(tmp_path: Path, store: MemoryStore):
    write_set(tmp_path, "made", THREE_CALLS)
    figures = await replayed(store, tmp_path, ContextPolicy(offload_threshold_tokens=2500))
    assert figures[MEMORY].cost == figures[EVERYTHING].cost
    assert figures[MEMORY].bare == figures[EVERYTHING].bare
    assert figures[MEMORY].memory == MemoryFigures()


async def test_a_consumed_result_ends_the_cached_prefix(
    tmp_path: Path, store: MemoryStore, monkeypatch: pytest.MonkeyPatch
):
    """The second call shows the output whole, the third its placeholder: up to there the prompt is the same."""
    monkeypatch.setattr("memory_context.view.economics.MOST_LOST_SHARE", 10.0)  # the tools come however short the run
    write_set(tmp_path, "made", THREE_CALLS)
    played = await replayed(store, tmp_path, ContextPolicy(cache=CachePolicy(expected_calls=50)))
    figures = played[MEMORY]
    memory = figures.memory
    assert memory is not None
    assert (memory.offloads, memory.messages_with_offloads, memory.write_transactions) == (1, 1, 1)
    beginning = count("FunctionExecutionResultMessage\nlook\nc1\n")
    assert figures.cost.cached_tokens == (1204 + 15) + (1204 + 15 + 8 + beginning)
    assert figures.cost.peak_tokens == 1204 + 15 + 8 + 2007
    assert figures.peak_view_tokens == 15 + 8 + 2007
    assert figures.cost.price < played[EVERYTHING].cost.price
    assert not any(promises(figures))
    # with tools: a workbench offers the one that opens it with the first placeholder, in the third call, and then
    # nothing of the second one is in the cache
    context = MemoryContext("alice")
    context.workbench()
    schemas = {tool.name: tool.schema for tool in context.tools()}
    tools, opening = count(tool_json([*schemas.values()])), count(tool_json([schemas["retrieve_memory"]]))
    assert figures.with_workbench is not None
    assert figures.with_workbench.tokens == figures.cost.tokens + opening
    assert figures.with_workbench.cached_tokens == 1204 + 15
    assert figures.with_tools is not None
    assert figures.with_tools.tokens == figures.cost.tokens + 3 * tools
    assert figures.with_tools.cached_tokens == figures.cost.cached_tokens + 2 * tools
    assert played[EVERYTHING].whole_cost == played[EVERYTHING].cost


async def test_run_that_stores_nothing_costs_what_keeping_everything_does(tmp_path: Path, store: MemoryStore):
    steps = [call("c1"), output("c1", words(400)), call("c2"), output("c2", words(300)), answer("done")]
    write_set(tmp_path, "made", [SYSTEM, user("go"), *steps])
    played = await replayed(store, tmp_path)
    figures = played[MEMORY]
    assert figures.memory is not None
    assert figures.memory.offloads == 0
    assert figures.charged_price == played[EVERYTHING].charged_price


async def test_needles_are_counted_where_they_can_be_seen(tmp_path: Path, store: MemoryStore):
    """In the first view the string is there; when it is needed later, one retrieve with a key of that view gives it."""
    text = f"{words(600)}\n{NEEDLE}\n{words(600)}"
    steps = [call("c2"), output("c2", "fine"), call("c3"), output("c3", "fine"), call("c4"), output("c4", "fine")]
    write_set(tmp_path, "made", [SYSTEM, user("go"), call("c1"), output("c1", text), *steps, answer("done")])
    write_needles(tmp_path, "needles", "made", (3, 8))
    write_needles(tmp_path, "needles_now", "made", (3, 4), (3, 6))
    figures = Played(MEMORY, ((await replayed(store, tmp_path))[MEMORY],))
    assert figures.needles(NEXT) == Needles(1, 1, 1, 1, 1, 0)
    soon, later = figures.needles(SOON), figures.needles(LATER)
    assert (soon.total, soon.in_one_retrieve, soon.lost) == (1, 1, 0)
    assert (later.total, later.in_one_retrieve, later.in_two_retrieves, later.lost) == (1, 1, 1, 0)


async def test_needles_in_folded_steps_are_still_within_reach(tmp_path: Path, store: MemoryStore):
    outputs = [
        f"{words(700)}\n{NEEDLE if number == 0 else 'nothing'}\n{words(700, str(number))}" for number in range(30)
    ]
    steps = [message for i, text in enumerate(outputs) for message in (call(f"c{i}"), output(f"c{i}", text))]
    write_set(tmp_path, "made", [SYSTEM, user("go"), *steps, answer("done")])
    write_needles(tmp_path, "needles", "made", (3, 62))
    figures = (await replayed(store, tmp_path, ContextPolicy(token_budget=1200)))[MEMORY]
    assert figures.memory is not None
    assert figures.memory.folds > 0
    assert figures.peak_view_tokens <= 1200
    later = Played(MEMORY, (figures,)).needles(LATER)
    assert later.in_two_retrieves == later.total == 1
    assert not any(promises(figures))


def test_runs_become_the_messages_autogen_would_have_made(tmp_path: Path):
    """Text beside calls is the thought; parallel results share a message, also when ids are empty or used twice."""
    write_set(
        tmp_path,
        "made",
        [user("go"), call("", "x", "x", text="hm"), output("", "0"), output("x", "1"), output("x", "2")],
    )
    (run,) = read_runs(tmp_path, "made")
    assert run.system_prompt is None
    assert [recorded.indexes for recorded in run.messages] == [(0,), (1,), (2, 3, 4)]
    calls = [FunctionCall(id=call_id, name="look", arguments="{}") for call_id in ("", "x", "x")]
    results = [
        FunctionExecutionResult(content=text, name="look", call_id=call_id, is_error=False)
        for call_id, text in (("", "0"), ("x", "1"), ("x", "2"))
    ]
    assert [recorded.message for recorded in run.messages] == [
        UserMessage(content="go", source="user"),
        AssistantMessage(content=calls, thought="hm", source="assistant"),
        FunctionExecutionResultMessage(content=results),
    ]
    assert set_names(tmp_path) == ["made"]
    assert read_needles(tmp_path, "needles", "made") == {}


async def test_needles_that_an_observer_lost_are_counted_in_the_log(tmp_path: Path):
    """Of two observers the one that writes nothing of use leaves the needle to the facts check."""
    text = f"{words(600)}\n{NEEDLE}\n{words(600)}"
    steps = [call("c2"), output("c2", "fine"), call("c3"), output("c3", "fine"), call("c4"), output("c4", "fine")]
    run = run_of(tmp_path, user("go"), call("c1"), output("c1", text), *steps, answer("done"))
    write_needles(tmp_path, "needles", "made", (2, 7))
    wanted = read_needles(tmp_path, "needles", "made")["run 0"]
    for said, expected in ((f"- It is {NEEDLE} (3)", (0, 0)), ("- It looked (3)", (1, 1))):
        sums = observing.Observed()
        await observing.measure_observing(run, wanted, lambda messages, limit: Completion(said), sums)  # noqa: B023
        assert (sums.lacking, sums.kept, sums.unread) == (*expected, 0)


def test_observing_prints_a_row_for_each_observer(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    write_set(tmp_path, "made", [user("go"), call("c1"), output("c1", f"see {NEEDLE}"), answer("well"), call("c2")])
    write_needles(tmp_path, "needles", "made", (2, 4))
    observing.main(["--traces", str(tmp_path), "--seeds", "1"])
    printed = capsys.readouterr().out
    assert all(name in printed for name in ("every line, half lost", "three lines, half lost"))


def test_broken_pairs_are_counted():
    asked = AssistantMessage(content=[FunctionCall(id="1", name="look", arguments="{}")], source="assistant")
    result = FunctionExecutionResult(content="", name="look", call_id="1", is_error=False)
    answered = FunctionExecutionResultMessage(content=[result])
    said = UserMessage(content="go", source="user")
    assert pairing_violations([said, asked, answered, said]) == 0
    assert pairing_violations([said, asked, said]) == 1
    assert pairing_violations([said, answered]) == 1
    assert pairing_violations([asked, FunctionExecutionResultMessage(content=[result, result])]) == 2


def test_replay_prints_its_tables_and_writes_its_figures(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], one_server: None
):
    traces = tmp_path / "traces"
    traces.mkdir()
    write_set(traces, "made", THREE_CALLS, THREE_CALLS)
    write_set(traces, "other", THREE_CALLS)
    file = tmp_path / "figures.json"
    write_needles(traces, "needles", "made", (3, 4))
    chart = tmp_path / "chart.svg"
    budget = ["--limit", "1", "--token-budget", "16000"]
    replay.main(["--traces", str(traces), *budget, "--json", str(file), "--chart", str(chart)])
    printed = capsys.readouterr().out
    assert all(name in printed for name in ("made", "other", MEMORY, EVERYTHING, "AutoGen Buffered(20)", "lost"))
    assert report.FOOTNOTE in printed
    is_missing = any(find_spec(name) is None for name in ("langchain", "agent_framework"))
    assert ("pip install 'memory-context[bench]'" in printed) == is_missing
    figures = json.loads(file.read_text(encoding="utf-8"))
    assert figures["policy"]["token_budget"] == 16000
    assert [one["runs"] for one in figures["sets"]] == [1, 1]
    assert figures["pooled"]["calls"] == 6
    contexts = {one["context"]: one for one in figures["pooled"]["contexts"]}
    assert list(contexts)[:2] == [EVERYTHING, MEMORY]
    assert contexts[EVERYTHING]["charged_cost"] == contexts[EVERYTHING]["relative_cost"] == 1
    written = file.read_text(encoding="utf-8")
    assert not any(text in written for text in ("a a a", NEEDLE))  # figures only, no text of a trace
    assert "AutoGen HeadAndTail(5, 15)" in chart.read_text(encoding="utf-8")


# --- peers and charged costs -------------------------------------------------------------------------------------


def sought(distance: int, call_tokens: int, is_visible: bool, reach: Reach | None = None) -> Sought:
    return Sought(3, 3 + distance, call_tokens, is_visible, reach or Reach())


def played(context: str, price_tokens: int, *strings: Sought) -> Played:
    """One run that cost so many uncached tokens."""
    return Played(context, (RunFigures("run 0", cost=Cost(1, price_tokens, 0, price_tokens), sought=[*strings]),))


def test_a_look_up_costs_the_view_from_the_cache_and_400_new_tokens():
    assert look_up_price(10_000) == pytest.approx(0.1 * 10_000 + 1.25 * 400)
    assert look_up_price(1024) == pytest.approx(0.1 * 1024 + 1.25 * 400)
    assert look_up_price(1023) == pytest.approx(1.25 * 1023 + 1.25 * 400)  # too short for a cache


def test_what_was_needed_and_not_visible_is_charged():
    """Two of three strings are charged, also the one that cannot be had: (6,250 + 1,500 + 600) / 12,500."""
    figures = SetFigures(
        "made",
        {
            EVERYTHING: played(EVERYTHING, 10_000, sought(1, 9000, True), sought(2, 9000, True), sought(9, 9000, True)),
            "peer": played(
                "peer",
                5_000,
                sought(1, 9000, True),
                sought(2, 10_000, False, Reach(retrieves=1)),
                sought(9, 1_000 + 24, False),
            ),
        },
    )
    assert figures.charged_cost(EVERYTHING) == 1
    assert figures.relative_cost("peer") == pytest.approx(0.5)
    look_ups = (0.1 * 10_000 + 500) + (0.1 * 1024 + 500)
    assert figures.charged_cost("peer") == pytest.approx((1.25 * 5_000 + look_ups) / 12_500)
    assert figures.played["peer"].needles(ANY).lost == 1
    twice = pooled([figures, figures], "all")
    assert twice.runs == 2
    assert twice.charged_cost("peer") == pytest.approx(figures.charged_cost("peer"))


def test_needles_are_told_apart_by_how_they_can_be_had():
    """Visible, one retrieve away, two away but found, found by the fourth hit only, and gone."""
    counted = Needles.count(
        [
            sought(5, 1, True, Reach(retrieves=0)),
            sought(5, 1, False, Reach(retrieves=1)),
            sought(5, 1, False, Reach(retrieves=2, rank=3)),
            sought(5, 1, False, Reach(rank=4)),
            sought(5, 1, False),
        ]
    )
    assert counted == Needles(total=5, visible=1, in_one_retrieve=2, in_two_retrieves=3, visible_or_found=2, lost=2)


class Forgetful(UnboundedChatCompletionContext):
    """Leaves every result out, and every user message once there is more."""

    async def get_messages(self) -> list[LLMMessage]:
        messages = await super().get_messages()
        left_out = (FunctionExecutionResultMessage, *([UserMessage] if len(messages) > 1 else []))
        return [message for message in messages if not isinstance(message, left_out)]


@pytest.fixture
def one_server(monkeypatch: pytest.MonkeyPatch, server: Server, template: str) -> None:
    """Scratch databases are copies of a template on one server, which need not be started and migrated for each."""

    def database(folder: Path) -> dict[str, str]:
        name = folder.name.replace("-", "_")
        server.copy(template, name)
        return {**server.params, "dbname": name}

    monkeypatch.setattr(embedded, "start", database)
    monkeypatch.setattr(embedded, "release", lambda folder: None)


def run_of(folder: Path, *messages: dict[str, Any]) -> Run:
    write_set(folder, "made", [*messages])
    (run,) = read_runs(folder, "made")
    return run


async def test_a_peer_that_breaks_pairs_and_drops_the_task_is_found_out(tmp_path: Path):
    """The first of three views is whole; the others lack a result and a task."""
    run = run_of(tmp_path, *THREE_CALLS)
    figures = await Player(run, Forgetful(), count, task_limit_tokens=4000).play()
    assert (figures.broken_views, figures.views_without_task) == (2, 2)
    figures = await Player(run, Forgetful(), count, task_limit_tokens=5).play()
    assert figures.views_without_task == 1  # the second message of 5 tokens; the first is too long to be promised
    whole = await Player(run, UnboundedChatCompletionContext(), count, task_limit_tokens=4000).play()
    assert (whole.broken_views, whole.views_without_task) == (0, 0)


async def test_a_string_is_visible_wherever_the_model_would_read_it(tmp_path: Path):
    """In a result, a thought, the arguments of a call or a text; not in what the view leaves out."""
    asking = call("c2", text="thinking of zebra_thought")
    asking["tool_calls"][0]["arguments"] = json.dumps({"path": "zebra_argument"})
    run = run_of(
        tmp_path,
        user("go to zebra_text"),
        call("c1"),
        output("c1", "zebra_result"),
        asking,
        output("c2", "fine"),
        answer("done"),
    )
    texts = ["zebra_text", "zebra_result", "zebra_thought", "zebra_argument", "zebra_nowhere"]
    looked_for = [Needle(text, 2, 5) for text in texts]
    figures = await Player(run, UnboundedChatCompletionContext(), count, 4000).play(looked_for)
    assert [one.is_visible for one in figures.sought] == [True, True, True, True, False]
    assert {one.call_tokens for one in figures.sought} == {figures.cost.peak_tokens}
    figures = await Player(run, Forgetful(), count, 4000).play(looked_for)
    assert [one.is_visible for one in figures.sought] == [False, False, True, True, False]
    assert [one.is_lost for one in figures.sought] == [True, True, False, False, True]


async def views_of(conversation: Conversation, run: Run) -> list[list[LLMMessage]]:
    """The view before each call, and one after the last message."""
    views: list[list[LLMMessage]] = []
    for recorded in run.messages:
        if isinstance(recorded.message, AssistantMessage):
            views.append(list(await conversation.get_messages()))
        await conversation.add_message(recorded.message)
    return [*views, list(await conversation.get_messages())]


def results_in(view: list[LLMMessage]) -> list[str]:
    return [
        result.content
        for message in view
        if isinstance(message, FunctionExecutionResultMessage)
        for result in message.content
    ]


def parallel_run(folder: Path) -> Run:
    """Two parallel results, then one, then one."""
    rest = [call("c3"), output("c3", "third"), call("c4"), output("c4", "fourth")]
    return run_of(folder, user("go"), call("c1", "c2"), output("c1", "first"), output("c2", "second"), *rest)


async def test_only_the_last_results_stay(tmp_path: Path):
    run = parallel_run(tmp_path)
    views = await views_of(peers.LastResults(), run)
    assert [results_in(view) for view in views] == [
        [],
        ["first", "second"],
        ["first", "second", "third"],
        [peers.LEFT_OUT, "second", "third", "fourth"],
    ]
    assert not any(pairing_violations(view) for view in views)
    assert results_in([run.messages[2].message]) == ["first", "second"]  # the run itself is not changed


async def test_the_peers_of_autogen_are_its_own_contexts(tmp_path: Path):
    """TokenLimited is given the counter of the benchmarks: 31,000 tokens pass, 33,000 do not."""
    found = {peer.name: peer for peer in installed_peers()[0]}
    assert next(iter(found)) == EVERYTHING
    for tokens, is_whole in ((31_000, True), (33_000, False)):
        run = run_of(tmp_path, user("go"), call("c1"), output("c1", words(tokens)), answer("done"))
        views = await views_of(found["AutoGen TokenLimited(32k)"].start(count), run)
        assert (len(views[1]) == 3) == is_whole
    steps = [message for i in range(15) for message in (call(f"c{i}"), output(f"c{i}", "fine"))]
    run = run_of(tmp_path, user("go"), *steps, answer("done"))
    buffered = await Player(run, found["AutoGen Buffered(20)"].start(count), count, 4000).play()
    assert (buffered.broken_views, buffered.views_without_task) == (0, 6)


async def test_langchain_clears_old_results_and_changes_nothing_else(tmp_path: Path):
    """Its own trigger of 100,000 tokens, and one that the run is above; arguments keep their bytes."""
    pytest.importorskip("langchain", reason="LangChain is in the extra [bench]")
    from benchmarks.langchain_peer import ClearedResults

    rest = [call("c3"), output("c3", "third"), call("c4"), output("c4", "fourth"), answer("well"), user("and?")]
    asking = call("c1", "c2", text="hm")
    asking["tool_calls"][0]["arguments"] = '{ "path":"a" , "n": 1}'
    broken = call("c0")
    broken["tool_calls"][0]["arguments"] = "{"
    beginning = [user("go"), broken, output("c0", "of a broken call")]
    run = run_of(tmp_path, *beginning, asking, output("c1", "first"), output("c2", "second"), *rest)
    messages = [recorded.message for recorded in run.messages]
    assert (await views_of(ClearedResults(count), run))[-1] == messages
    for trigger, is_cleared in ((10, True), (sum(map(len, map(str, messages))), False)):
        view = (await views_of(ClearedResults(count, trigger), run))[-1]
        assert results_in(view) == [
            "of a broken call",  # LangChain knows no call for it, so it leaves it
            "[cleared]" if is_cleared else "first",
            "second",
            "third",
            "fourth",
        ]
        assert [m for m in view if m.type != "FunctionExecutionResultMessage"] == [
            m for m in messages if m.type != "FunctionExecutionResultMessage"
        ]
        assert pairing_violations(view) == 0


def test_script_for_citus_says_not_run_where_there_is_none_and_its_work_is_right(
    database_url: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    assert citus.main([database_url]) == 1
    assert "not run: " in capsys.readouterr().err
    monkeypatch.setattr(citus, "_ITEMS", 12)
    asyncio.run(citus._work(database_url))
    assert capsys.readouterr().out.count("10 hits: only own ones") == 2


async def test_agent_framework_shortens_old_results_and_keeps_the_rest(tmp_path: Path):
    """The last group of calls stays; in a window, only what is over its half is shortened and the task stays."""
    pytest.importorskip("agent_framework", reason="Agent Framework is in the extra [bench]")
    from benchmarks.agent_framework_peer import CompactedByStrategy, strategy_for_tool_results, strategy_for_window

    first = words(900)
    rest = [call("c2", text="hm"), output("c2", "second"), answer("well"), user("and?"), answer("so")]
    run = run_of(tmp_path, user("go"), call("c1"), output("c1", first), *rest)
    messages = [recorded.message for recorded in run.messages]
    wide = (await views_of(CompactedByStrategy(count, strategy_for_window(100_000)), run))[-1]
    assert wide == messages[: len(wide)]
    short = (await views_of(CompactedByStrategy(count, strategy_for_tool_results), run))[-1]
    assert results_in(short) == ["second"]
    assert short[1].content.startswith("[Tool results: ")
    assert short[2:] == messages[3 : 1 + len(short)]
    narrow = (await views_of(CompactedByStrategy(count, strategy_for_window(1_000)), run))[-1]
    assert narrow[0] == messages[0]
    assert first not in results_in(narrow)
    assert not any(pairing_violations(view) for view in (wide, short, narrow))


async def test_deepagents_writes_large_results_to_files_and_its_tools_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """A stand-in for its process: the Python that is named need not be there when tests run."""
    child = tmp_path / "python"
    answering = 'while read -r line; do n=$((n+1)); echo "\\"saved in /files/$n\\""; done'
    child.write_text(f"#!/bin/sh\necho '\"tools and instructions\"'\n{answering}\n")
    child.chmod(0o755)
    monkeypatch.setenv("MEMORY_CONTEXT_DEEPAGENTS", str(child))
    (peer,) = [one for one in installed_peers()[0] if one.name == "deepagents"]
    run = run_of(
        tmp_path, user("go"), call("c1"), output("c1", f"a {NEEDLE}"), call("c2"), output("c2", "b"), answer("x")
    )
    figures = await Player(run, peer.start(count), count, 4000).play([Needle(NEEDLE, 2, 5)])
    (hidden,) = figures.sought
    assert (hidden.is_visible, hidden.reach.retrieves, hidden.is_lost) == (False, 1, False)
    bare = await Player(run, UnboundedChatCompletionContext(), count, 4000).play()
    assert results_in((await views_of(peer.start(count), run))[-1])[0] == "saved in /files/1"
    assert figures.cost.tokens > figures.bare.tokens
    assert bare.cost.tokens == bare.bare.tokens


def test_of_a_library_that_is_not_installed_the_rows_are_left_out_with_a_line_that_says_so(
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setattr(peers, "find_spec", lambda name: None)
    found, missing = installed_peers()
    assert not any(library in peer.name for peer in found for library in ("LangChain", "Agent Framework"))
    assert ["pip install 'memory-context[bench]'" in line for line in missing] == [True, True, False]
    assert "MEMORY_CONTEXT_DEEPAGENTS" in missing[-1]


def test_targets_are_held_against_the_default_policy_only():
    """Look-ups put livemcp (0.929 without them) just over its target; its peer is cheaper; needles need both sets."""
    good = Reach(retrieves=1, rank=1)
    later = [sought(9, 2000, number > 1, good) for number in range(8)]  # 6 of 8 visible
    sets = [
        SetFigures(
            name,
            {
                EVERYTHING: played(EVERYTHING, 1_000_000),
                MEMORY: played(MEMORY, tokens, *later, sought(1, 2000, True), sought(3, 2000, name == "livemcp")),
                "peer": played("peer", 900_000),
            },
        )
        for name, tokens in (("openhands_swebench", 530_000), ("livemcp", 929_000))
    ]
    measured = {one.name: one.is_met for one in report.targets(sets, ContextPolicy())}
    assert {name: is_met for name, is_met in measured.items() if "promise" not in name} == {
        "openhands_swebench: charged": True,
        "openhands_swebench: charged / cheapest peer": True,
        "livemcp: charged": False,
        "livemcp: charged / cheapest peer": False,
        "needed later: visible or one retrieve away": True,
        "needed later: visible": True,
        "needed later: visible or found": True,
        "needed by the next message: visible": True,
        "needed two or three messages later: visible": False,
    }
    assert sum("promise" in name for name in measured) == 5
    assert report.targets(sets, ContextPolicy(offload_threshold_tokens=600)) == []
    (small,) = report.targets(sets, ContextPolicy(token_budget=16_000))
    assert (small.value, small.is_met) == (pytest.approx(0.53), True)
    assert report.needle_sets(sets[:1]) is None


def test_the_chart_shows_every_context(tmp_path: Path):
    contexts = {name: played(name, 10, sought(9, 10, name != "peer")) for name in (EVERYTHING, MEMORY, "peer")}
    for ending in ("png", "svg"):
        draw_chart([SetFigures("made", contexts), SetFigures("other", contexts)], tmp_path / f"chart.{ending}")
    drawn = (tmp_path / "chart.svg").read_text(encoding="utf-8")
    assert all(text in drawn for text in (EVERYTHING, MEMORY, "peer", "made", "other", "1.00", "0%"))


async def test_the_frontier_plays_each_policy_and_each_peer_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], one_server: None
):
    """A context for each policy, named after it, beside the default one and the peers."""
    write_set(tmp_path, "made", THREE_CALLS)
    kept = installed_peers()[0][:2]
    few = {"first views .2k": {"first_view_limit_tokens": 200}}
    sets = await frontier.measure_frontier(tmp_path, ["made"], kept, policies=few)
    (one,) = sets
    assert list(one.played) == [EVERYTHING, MEMORY, kept[1].name, f"{MEMORY}, first views .2k"]
    assert all(played.context == name for name, played in one.played.items())
    assert one.charged_runs(EVERYTHING) == [1.0]
    assert one.charged_runs(MEMORY) == [pytest.approx(one.charged_cost(MEMORY))], "one run is the set"
    frontier.print_frontier(sets)
    draw_frontier(one, tmp_path / "frontier.svg")
    drawn = (tmp_path / "frontier.svg").read_text(encoding="utf-8")
    printed = capsys.readouterr().out
    assert all(name in printed and name in drawn for name in one.played)


def test_all_benchmarks_run_without_folders(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, one_server: None
):
    """Each measurement runs once, on inputs as small as its figures allow."""
    for module in (comparing, deciding, micro, steps, storing):
        monkeypatch.setattr(module, "WARM_UP", 1)
    for module, name, value in (
        (micro, "SESSION_STEPS", 4),
        (micro, "STATE_STEPS", 2),
        (connectors, "NODES", 500),
    ):
        monkeypatch.setattr(module, name, value)
    sizes = ["--rounds", "1", "--passages", "250,300", "--indexed", "40", "--largest", "5000"]
    sizes += ["--sessions", "2", "--pause", "0", "--items", "100", "--faults", "", "--messages", "90"]
    sizes += ["--web-steps", "2"]
    __main__.main([*sizes, "--json", str(tmp_path / "figures.json")])
    printed = capsys.readouterr().out
    assert "No replay" in printed
    assert "No retrieval" in printed
    figures = json.loads((tmp_path / "figures.json").read_text(encoding="utf-8"))
    assert [(one["user"], one["own_passages"]) for one in figures["searching"]] == [
        ("few", 200),
        ("many", 50),
        ("few", 200),
        ("many", 100),
    ]
    assert len(figures["storing"]) >= 6
    assert len(figures["deciding"]) == 2
    assert [one["value"] for one in figures["starting"]][-1] == 1, "one round trip reads the user's memory"
    assert [one["value"] > 0 for one in figures["steps"]] == [True, True]
    runs = 3 if shutil.which("chromium") else 0  # without it the runs in a browser have no figures
    shares = {one["name"]: one["value"] for one in figures["connectors"] if "told / whole pages" in one["name"]}
    assert [0 < share <= 1 for share in shares.values()] == [True] * runs, shares
    assert [0 < one["value"] <= 1.3 for one in figures["browsing"]] == [True] * 3 * runs, figures["browsing"]
    assert all("2 of 2, " in one["detail"] for one in figures["browsing"] if " 0 lines" in one["name"])
    errors, transactions, *_ = figures["chatting"]
    assert (errors["value"], errors["detail"]) == (0, ""), "what was said is there once and in order"
    assert 0.2 <= transactions["value"] <= 1.1, "one when a session begins, and at most one a turn"
    assert sum(one["name"].startswith("the event loop is held") for one in figures["compacting"]) == 2
    memory = [one["name"] for one in figures["transferring"] if one["name"].startswith("peak memory")]
    assert len(memory) == 2
    measured = figures["micro"]
    counted = [one for one in measured if one["target"].startswith("= ")]
    assert len(counted) == 3
    assert all(one["is_met"] for one in counted), counted


async def test_an_access_to_the_store_is_noticed():
    """The store of the micro-benchmark counts: a large result does reach for it, and stays inline."""
    store = micro.UntouchedStore()
    context = micro._context(store)
    await context.add_message(UserMessage(content="go", source="user"))
    await context.add_message(micro.one_call("look"))
    await context.add_message(micro.one_result("look", micro.text(10_000)))
    assert store.accesses == 1
    assert context.stats.offloads == 0


def test_bm25_puts_rare_words_and_short_texts_first():
    index = Bm25(["the red fox", "the the the", "a red red fox sat on the very long log", "a dog"])
    assert index.rank("RED fox", 10) == [0, 2]
    assert index.rank("the", 1) == [1]
    assert index.rank("cat", 10) == []


def test_windows_stay_within_a_session():
    assert windows(["a", "b", "c", "d"], ["1", "1", "1", "2"]) == ["a\nb", "a\nb\nc", "b\nc", "d"]


def test_recall_and_ndcg_are_what_was_worked_out_by_hand():
    """Gains 2 and 1; the lesser one first and the greater one third: (1 + 2 / 2) / (2 + 1 / log2(3))."""
    gains = {"x": 2, "y": 1}
    assert retrieval.recall_at(1, ["y", "z", "x"], gains) == 0.5
    assert retrieval.recall_at(3, ["y", "z", "x"], gains) == 1.0
    assert retrieval.ndcg_at(10, ["y", "z", "x"], gains) == pytest.approx(2 / 2.6309, rel=1e-4)
    assert retrieval.ndcg_at(10, ["x", "y"], gains) == 1.0
    assert retrieval.ndcg_at(1, ["z"], gains) == 0.0


async def test_a_retrieval_set_is_searched_scope_by_scope(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    """Rows with `rel` 0 are nothing to find, queries without an answer are not asked, each scope is a user."""
    texts = ["zebras graze", "lions sleep", "zebras run from lions", "rain falls", "grass grows"]
    rows: list[dict[str, Any]] = []
    for scope in ("s", "t"):
        for number, text in enumerate(texts):
            meta = {"session": "1" if number < 3 else "2"}
            rows.append({"type": "doc", "id": f"{scope}{number}", "scope": scope, "text": text, "meta": meta})
        rows.append({"type": "query", "id": f"{scope}q", "scope": scope, "text": "where does the grass grow?"})
        rows.append({"type": "query", "id": f"{scope}r", "scope": scope, "text": "nothing"})
        rows.append({"type": "gold", "query_id": f"{scope}q", "doc_id": f"{scope}4", "rel": 1})
        rows.append({"type": "gold", "query_id": f"{scope}q", "doc_id": f"{scope}3", "rel": 0})
    (tmp_path / "made.jsonl").write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    scopes = retrieval.read_scopes(tmp_path / "made.jsonl")
    assert [scope.name for scope in scopes] == ["s", "t"]
    assert [dict(query.gains) for query in scopes[1].queries] == [{"t4": 1}]
    answers = await retrieval.measure_sets(tmp_path)
    assert [answer.variant for answer in answers[:3]] == ["floor: BM25", "floor: BM25 on ± 1 neighbour", "search"]
    assert [(answer.queries, answer.recall_5, answer.ndcg_10) for answer in answers[:3:2]] == [(2, 1.0, 1.0)] * 2
    retrieval.print_answers(answers)
    assert "without meaning" in capsys.readouterr().out


async def test_needles_are_searched_with_the_words_of_the_call(tmp_path: Path, store: MemoryStore):
    text = f"{words(600)}\nthe handler of the login form stands in {NEEDLE}\n{words(600)}"
    later = call("c4")
    later["tool_calls"][0]["arguments"] = json.dumps({"path": NEEDLE, "why": ["login", "form handler"]})
    steps = [call("c2"), output("c2", "fine"), call("c3"), output("c3", "fine"), later, output("c4", "fine")]
    write_set(tmp_path, "made", [SYSTEM, user("go"), call("c1"), output("c1", text), *steps, answer("done")])
    write_needles(tmp_path, "needles", "made", (3, 8))
    (run,) = read_runs(tmp_path, "made")
    message = run.messages[7].message
    assert isinstance(message, AssistantMessage)
    assert needles.query_of(message, NEEDLE).split("\n") == ["look", " ", "login", "form handler"]
    (search,) = await needles.search_run(run, read_needles(tmp_path, "needles", "made")[run.id], store)
    assert (search.passage_rank, search.item_rank, search.kind) == (1, 1, "found")
    needles.print_searches([search])
