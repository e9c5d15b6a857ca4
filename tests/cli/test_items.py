"""`list`, `show`, `search`, `forget`: what is stored, exactly and harmlessly."""

import asyncio
import base64
import json
import sys

import pytest

from memory_context import AgentMemory, MemoryStore
from memory_context.foundation.utf8 import to_utf8
from memory_context.surfaces.cli import execute
from memory_context.surfaces.cli.console import print_table

from ..agents.scripted import report
from ..support.images import image_item, picture_of
from .lived import HOSTILE, SESSION, Command, Lived, command_of, live


@pytest.fixture
def in_terminal(command: Command, monkeypatch: pytest.MonkeyPatch) -> Command:
    """Runs a command line as alice in what seems to be a terminal of 80 columns."""
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("TERM", "dumb")

    def run(*arguments: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys.stdout, "isatty", lambda: True)  # here: a fixture still has another stdout
        return command(*arguments)

    return run


def is_harmless(text: str) -> bool:
    """Whether nothing in a text is of those signs that HOSTILE commands a terminal with."""
    return not set(text) & set("\x1b\x07\u202e\r\x9b\x00\ud800")


# --- list


def test_a_list_names_what_is_stored_the_newest_first(command: Command, lived: Lived):
    """With type, source, tokens; what a sub-agent keeps to itself is there, and said to be private."""
    status, out, _ = command("list")
    rows = [line.split() for line in out.splitlines()[2:]]
    assert status == 0
    assert [row[0] for row in rows] == [lived.hostile, lived.private, *reversed(lived.keys)]
    assert rows[-1][1:3] == ["action_result", "survey"]
    assert "(private to scout) a roost" in out
    assert lived.forgotten not in out


@pytest.mark.parametrize(
    ("options", "count"),
    [
        (["--source", "survey"], 3),
        (["--type", "custom"], 2),
        (["--tag", "red"], 1),
        (["--session", f"{SESSION}/scout"], 1),
        (["--agent", "scout"], 1),
        (["--since", "1h"], 5),
        (["--since", "2100-01-01"], 0),
        (["--limit", "2"], 2),
    ],
)
def test_options_choose_what_is_listed(command: Command, options: list[str], count: int):
    """Each by itself."""
    status, out, err = command("list", "--json", *options)
    assert (status, len(json.loads(out))) == (0, count)
    assert ("there are more than 2" in err) == (options[0] == "--limit")


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["--since", "soon"], "'soon' is not a length of time: write for example"),
        (["--limit", "0"], "--limit"),
    ],
)
def test_wrong_options_are_usage_errors_with_the_remedy(command: Command, options: list[str], told: str):
    """In one line, with the exit code for what was asked wrongly."""
    status, out, err = command("list", *options)
    assert (status, out, err.count("\n")) == (2, "", 1)
    assert told in err


def test_user_is_required_where_several_exist(capsys: pytest.CaptureFixture[str], lived: Lived):
    """The error names them."""
    status, _, err = command_of(capsys, lived.url, None)("list")
    assert (status, err) == (2, "memory-context: there are several users, give --user: 'alice', 'bob'\n")


def test_a_narrow_terminal_gets_numbers_and_keys_whole(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    """Lines are longer then; a number without its last digit would be another one."""
    monkeypatch.setenv("COLUMNS", "40")
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    numbers = ("123,456,789",) * 3
    print_table(("key", "a", "b", "c", "said"), [("k" * 20, *numbers, "x" * 99)], right=("a", "b", "c"), cut=("said",))
    print_table(("session", "a", "b", "c"), [("s" * 30, *numbers)], right=("a", "b", "c"))
    cut, *_, wrapped = [line.split() for line in capsys.readouterr().out.splitlines() if "123,456,789" in line]
    assert cut[:4] == ["k" * 20, *numbers]
    assert wrapped[1:] == list(numbers)


def test_a_pipe_gets_all_of_a_long_description(capsys: pytest.CaptureFixture[str]):
    """However wide that is, with columns under their names, wide signs too."""
    print_table(("key", "tokens", "description"), [("k鳥", "5", "x" * 20_000), ("k2", "17", "y")], right=("tokens",))
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "key   tokens   description"
    assert lines[2] == "k鳥        5   " + "x" * 20_000
    assert lines[3] == "k2        17   y"


def test_terminal_gets_one_line_per_item_without_control_sequences(in_terminal: Command, lived: Lived):
    """Keys whole, to be copied; descriptions cut."""
    _, out, _ = in_terminal("list")
    assert len(out.splitlines()) == 2 + 5
    assert all(len(line) <= 80 for line in out.splitlines())
    assert all(key in out for key in (*lived.keys, lived.hostile))
    assert is_harmless(out)


# --- show


def test_a_pipe_gets_the_content_byte_for_byte(capfdbinary: pytest.CaptureFixture[bytes], lived: Lived):
    """NUL, lone surrogates and carriage returns too, and no line of ours."""
    assert execute(["show", lived.hostile, "--url", lived.url, "--user", "alice"]) == 0
    assert capfdbinary.readouterr().out == to_utf8(HOSTILE)


async def test_image_is_described_as_json_and_written_to_a_file_or_pipe(
    store: MemoryStore, database_url: str, capfdbinary: pytest.CaptureFixture[bytes]
):
    item = image_item(picture_of(1))
    (ref,) = await AgentMemory(store, "alice", "coder", "s").store_all([item])
    show = ["show", ref.key, "--url", database_url, "--user", "alice"]
    assert await asyncio.to_thread(execute, show) == 0
    assert capfdbinary.readouterr().out == item.data
    assert await asyncio.to_thread(execute, [*show, "--json"]) == 0
    told = json.loads(capfdbinary.readouterr().out)
    assert (told["content_type"], base64.b64decode(told["content_base64"])) == ("image/png", item.data)
    assert told["content"] == item.content


def test_terminal_gets_control_characters_as_codes(in_terminal: Command, lived: Lived):
    """Lines stay lines."""
    _, out, _ = in_terminal("show", lived.hostile)
    assert out.splitlines()[0] == r"\x1b]0;owned\x07\x1b[2J red \u202e"
    assert out.splitlines()[1] == r"lone \ud800, NUL \x00, \x9b2J"
    assert is_harmless(in_terminal("show", lived.hostile, "--meta")[1])


@pytest.mark.parametrize(
    ("options", "count", "first"),
    [
        (["--lines", "5:6"], 2, "owls finding 4"),
        (["--lines", ":2"], 2, "owls finding 0"),
        (["--lines", "300"], 1, "owls finding 299"),
        (["--grep", "finding 3.: "], 14, "owls finding 2"),
    ],
)
def test_show_prints_some_lines(command: Command, lived: Lived, options: list[str], count: int, first: str):
    """Without the tool's arguments for the rest."""
    status, out, err = command("show", lived.keys[0], *options)
    assert (status, len(out.splitlines()), err) == (0, count, "")
    assert first in out.splitlines()[0]


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["--grep", "("], "the pattern '(' is unusable"),
        (["--lines", "9999"], "the content has 300 lines; give --lines between 1 and 300"),
        (["--lines", "9:5"], "--lines 9:5 is not a range: write for example 5:20, 5: or :20"),
        (["--grep", "1", "--lines", "5"], "give one of --grep, --lines"),
    ],
)
def test_show_refuses_an_unusable_part_in_its_own_options(
    command: Command, lived: Lived, options: list[str], told: str
):
    """Not in the arguments of a tool."""
    status, out, err = command("show", lived.keys[0], *options)
    assert (status, out) == (2, "")
    assert told in err


def test_an_unknown_key_brings_near_ones_and_a_forgotten_one_its_day(command: Command, lived: Lived):
    """And the key of a fold says where it opens."""
    status, _, err = command("show", lived.keys[0][:-1] + "-")
    assert status == 1
    assert f"did you mean '{lived.keys[0]}'" in err
    assert f"{lived.forgotten!r} was forgotten on 20" in command("show", lived.forgotten)[2]
    assert "sessions SESSION --transcript" in command("show", "history_1-9_abcdef")[2]


def test_show_meta_includes_private_items(command: Command, lived: Lived):
    """As fields, and as JSON beside the content."""
    assert "is_private   yes" in command("show", lived.private, "--meta")[1]
    item = json.loads(command("show", lived.keys[0], "--json")[1])
    assert (item["content"], item["is_whole"], item["agent_id"]) == (report("owls"), True, "coder")


# --- search


def test_a_search_gives_passages_with_their_place_and_why(command: Command, lived: Lived):
    """Best first, private ones too, the matching lines of them."""
    status, out, _ = command("search", "hidden roost")
    assert status == 0
    assert out.startswith(f"1. {lived.private}, lines 1-1: a roost\n   score ")
    assert "private to scout" in out.splitlines()[1]
    hits = json.loads(command("search", "moths finding 250", "--limit", "1", "--json")[1])
    assert [hit["key"] for hit in hits] == [lived.keys[2]]
    score = hits[0]["score"]
    assert score["total"] == pytest.approx(score["lexical"] + score["semantic"] + score["neighbours"])


@pytest.mark.parametrize("no_color", ["", "1"])
def test_search_highlights_matching_words_in_a_terminal(
    in_terminal: Command, monkeypatch: pytest.MonkeyPatch, no_color: str
):
    """Unless NO_COLOR is set; nothing stored commands the terminal."""
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("NO_COLOR", no_color)
    _, out, _ = in_terminal("search", "red lone", "--tag", "red")
    assert ("\x1b[33m\x1b[1mred\x1b[0m" in out) == (not no_color)
    assert r"\x1b]0;owned" in out
    assert "\x1b]0;" not in out


@pytest.mark.parametrize("is_terminal", [False, True])
def test_brackets_in_what_is_stored_or_asked_are_no_markup(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, database_url: str, is_terminal: bool
):
    """References are shown with their brackets, in tables and in hits."""
    text = "[MemoryRef: k_1 - [bold]red[/bold] - 5 tokens] [/nothing] :smile:"

    async def fill() -> None:
        async with MemoryStore(database_url) as store:
            memory = AgentMemory(store, "carol", "coder", "s")
            await memory.store(text, description="a line")
            await memory.add(text)
            await store.flush_index()

    asyncio.run(fill())
    monkeypatch.setenv("TERM", "dumb")
    monkeypatch.setattr(sys.stdout, "isatty", lambda: is_terminal)
    command = command_of(capsys, database_url, "carol")
    for line in (["memory", "list"], ["search", text]):
        status, out, _ = command(*line)
        assert (status, text[:24] in out) == (0, True), out


# --- forget


@pytest.mark.thorough
def test_items_are_forgotten_by_key_and_by_options_after_asking(
    capsys: pytest.CaptureFixture[str], database_url: str, monkeypatch: pytest.MonkeyPatch
):
    """Without --yes nothing happens; other users keep theirs; erasing leaves nothing at all."""
    lived = live(database_url)
    command = command_of(capsys, database_url)

    def kept() -> int:
        return len(json.loads(command("list", "--json")[1]))

    status, _, err = command("forget", lived.keys[0])
    assert (status, kept()) == (2, 5)
    assert "Forget 1 item of user 'alice'? Nobody is there to answer: give --yes" in err
    assert "did you mean" in command("forget", lived.keys[1], lived.keys[0][:-1], "--yes")[2]
    assert kept() == 5, "one key was wrong, so none is forgotten"
    assert "1 item forgotten" in command("forget", lived.keys[0], "--yes")[2]
    assert "was forgotten on" in command("show", lived.keys[0])[2]
    assert "2 items forgotten" in command("forget", "--session", SESSION, "--type", "action_result", "--yes")[2]
    assert "2 items forgotten" in command("forget", "--all", "--yes")[2]
    assert "nothing is stored that meets this" in command("forget", "--all", "--yes")[2]
    _, _, err = command("forget", "--erase-user")
    assert "Erase user 'alice' with 0 items and 1 session, 9 messages? Nothing stays." in err
    assert command("forget", "--erase-user", "--yes")[0] == 0
    assert command("sessions")[2] == "no session is archived\n"
    assert "bob's own" in command_of(capsys, database_url, "bob")("list")[1]


def test_forget_names_all_items_of_a_content_before_it_asks(
    capsys: pytest.CaptureFixture[str], database_url: str, monkeypatch: pytest.MonkeyPatch
):
    """Items with the same content go too, so the question counts them; an item that is named twice counts once."""

    async def store_twins() -> list[str]:
        async with MemoryStore(database_url) as store:
            agents = [AgentMemory(store, "alice", name, "s") for name in ("a", "b", "c")]
            twins = [(await agent.store("one text of three agents")).key for agent in agents]
            return [*twins, (await agents[0].store("another text")).key]

    keys = asyncio.run(store_twins())
    command = command_of(capsys, database_url)
    assert "Forget 1 item of user 'alice', and 2 more with the same content?" in command("forget", *keys[:1] * 2)[2]
    assert "Forget 3 items of user 'alice', and 1 more with the same" in command("forget", keys[3], *keys[:2])[2]
    for options in (["--agent", "b"], ["--all"]):  # a list shows one item for each content
        assert ", and 2 more with the same content?" in command("forget", *options)[2]
    assert "3 items forgotten" in command("forget", keys[0], "--yes")[2]
    assert [item["key"] for item in json.loads(command("list", "--json")[1])] == [keys[3]]


@pytest.mark.parametrize("arguments", [[], ["k", "--all"], ["--all", "--session", "s"], ["--all", "--erase-user"]])
def test_forget_takes_keys_or_options_but_not_both(command: Command, arguments: list[str]):
    """Nothing and two things at once are wrong."""
    status, _, err = command("forget", *arguments, "--yes")
    assert status == 2
    assert "say what to forget, in one way" in err
