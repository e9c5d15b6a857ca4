"""The benchmarks measure what they say: small runs made here give figures that were worked out by hand."""

import json
from pathlib import Path
from typing import Any

import pytest
from autogen_core import FunctionCall
from autogen_core.models import AssistantMessage, FunctionExecutionResult, FunctionExecutionResultMessage, UserMessage

from benchmarks import __main__, micro, needles, replay, retrieval
from benchmarks.bm25 import Bm25, windows
from benchmarks.playing import RunFigures, pairing_violations
from benchmarks.prompts import Cost, PromptMeter, Rendered
from benchmarks.traces import read_needles, read_runs, set_names
from memory_context import ContextPolicy, MemoryStore
from memory_context.tokens import default_token_counter

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


async def replayed(store: MemoryStore, folder: Path, policy: ContextPolicy | None = None) -> RunFigures:
    figures = await replay.replay_set(folder, "made", store, policy or ContextPolicy())
    return figures.runs[0]


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
    figures = await replayed(store, tmp_path)
    first, second = 1204 + 15, 1204 + 15 + 8 + 2007
    third = second + 24 + 10
    assert figures.everything == Cost(3, first + second + third, first + second, third)
    assert figures.everything.price == pytest.approx(4530.3)
    bare = [size - 1204 for size in (first, second, third)]
    assert figures.bare_everything == Cost(3, sum(bare), bare[1], bare[2])


async def test_a_run_under_the_threshold_costs_as_much_as_keeping_everything(tmp_path: Path, store: MemoryStore):
    write_set(tmp_path, "made", THREE_CALLS)
    figures = await replayed(store, tmp_path, ContextPolicy(offload_threshold_tokens=2500))
    assert figures.context == figures.everything
    assert figures.bare_context == figures.bare_everything
    assert (figures.offloads, figures.write_transactions) == (0, 0)


async def test_a_consumed_result_ends_the_cached_prefix(tmp_path: Path, store: MemoryStore):
    """The second call shows the output whole, the third its placeholder: up to there the prompt is the same."""
    write_set(tmp_path, "made", THREE_CALLS)
    figures = await replayed(store, tmp_path)
    assert (figures.offloads, figures.messages_with_offloads, figures.write_transactions) == (1, 1, 1)
    beginning = count("FunctionExecutionResultMessage\nlook\nc1\n")
    assert figures.context.cached_tokens == (1204 + 15) + (1204 + 15 + 8 + beginning)
    assert figures.context.peak_tokens == 1204 + 15 + 8 + 2007
    assert figures.peak_view_tokens == 15 + 8 + 2007
    assert figures.context.price < figures.everything.price
    assert vars(figures.violations) == dict.fromkeys(vars(figures.violations), 0)


async def test_needles_are_counted_where_they_can_be_seen(tmp_path: Path, store: MemoryStore):
    """In the first view the string is there; when it is needed later, one retrieve with a key of that view gives it."""
    text = f"{words(600)}\n{NEEDLE}\n{words(600)}"
    steps = [call("c2"), output("c2", "fine"), call("c3"), output("c3", "fine"), call("c4"), output("c4", "fine")]
    write_set(tmp_path, "made", [SYSTEM, user("go"), call("c1"), output("c1", text), *steps, answer("done")])
    write_needles(tmp_path, "needles", "made", (3, 8))
    write_needles(tmp_path, "needles_now", "made", (3, 4), (3, 6))
    figures = await replayed(store, tmp_path)
    assert (figures.needed_next.total, figures.needed_next.visible) == (1, 1)
    assert (figures.needed_soon.total, figures.needed_soon.in_one_step) == (1, 1)
    later = figures.needed_later
    assert (later.total, later.in_one_step, later.in_two_steps, later.missed) == (1, 1, 1, [])


async def test_needles_in_folded_steps_are_still_within_reach(tmp_path: Path, store: MemoryStore):
    outputs = [
        f"{words(700)}\n{NEEDLE if number == 0 else 'nothing'}\n{words(700, str(number))}" for number in range(30)
    ]
    steps = [message for i, text in enumerate(outputs) for message in (call(f"c{i}"), output(f"c{i}", text))]
    write_set(tmp_path, "made", [SYSTEM, user("go"), *steps, answer("done")])
    write_needles(tmp_path, "needles", "made", (3, 62))
    figures = await replayed(store, tmp_path, ContextPolicy(token_budget=1500))
    assert figures.folds > 0
    assert figures.peak_view_tokens <= 1500
    assert figures.needed_later.in_two_steps == figures.needed_later.total == 1
    assert vars(figures.violations) == dict.fromkeys(vars(figures.violations), 0)


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


def test_broken_pairs_are_counted():
    asked = AssistantMessage(content=[FunctionCall(id="1", name="look", arguments="{}")], source="assistant")
    result = FunctionExecutionResult(content="", name="look", call_id="1", is_error=False)
    answered = FunctionExecutionResultMessage(content=[result])
    said = UserMessage(content="go", source="user")
    assert pairing_violations([said, asked, answered, said]) == 0
    assert pairing_violations([said, asked, said]) == 1
    assert pairing_violations([said, answered]) == 1
    assert pairing_violations([asked, FunctionExecutionResultMessage(content=[result, result])]) == 2


def test_replay_prints_its_tables_and_writes_its_figures(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    traces = tmp_path / "traces"
    traces.mkdir()
    write_set(traces, "made", THREE_CALLS, THREE_CALLS)
    write_set(traces, "other", THREE_CALLS)
    file = tmp_path / "figures.json"
    replay.main(["--traces", str(traces), "--limit", "1", "--token-budget", "16000", "--json", str(file)])
    printed = capsys.readouterr().out
    assert "made" in printed
    assert "other" in printed
    figures = json.loads(file.read_text(encoding="utf-8"))
    assert figures["policy"]["token_budget"] == 16000
    assert [one["runs"] for one in figures["sets"]] == [1, 1]
    assert figures["pooled"]["calls"] == 6
    assert not any(figures["pooled"]["violations"].values())
    assert "a a a" not in file.read_text(encoding="utf-8")  # figures only, no text of a trace


def test_all_benchmarks_run_without_folders(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    sizes = ["--rounds", "1", "--passages", "250,300", "--indexed", "40"]
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
