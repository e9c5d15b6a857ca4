"""The default embedder: the same vectors as WordLlama's own code, without its side effects."""

import asyncio
import json
import math
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from memory_context.foundation.embeddings import wordllama
from memory_context.foundation.embeddings.embedder import embed_checked
from memory_context.foundation.embeddings.wordllama import WordLlamaEmbedder
from tests.support.waiting import PATIENT_SECONDS

from ..context.steps import a_turn_of_the_loop

TEXTS = [
    "The cat sat on the mat.",
    "def add(a: int, b: int) -> int:\n    return a + b\n",
    "Ein Satz mit Umlauten: äöüß, und 字 und 😀",
    " ",
    "x" * 5000,
    "word " * 3000,
]


def run(code: str) -> subprocess.CompletedProcess[str]:
    """Run Python code in a process of its own, in which any use of the network is an error."""
    guard = (
        "import sys\n"
        "def hook(event, args):\n"
        "    if event in ('socket.connect', 'socket.getaddrinfo', 'socket.sendto'):\n"
        "        raise RuntimeError(f'network: {event} {args}')\n"
        "sys.addaudithook(hook)\n"
    )
    return subprocess.run([sys.executable, "-c", guard + code], capture_output=True, text=True, timeout=PATIENT_SECONDS)


async def test_texts_that_mean_alike_are_near() -> None:
    """A query finds the document about the same thing."""
    embedder = WordLlamaEmbedder()
    documents = await embed_checked(
        embedder,
        ["The database refused the connection.", "Bananas and apples are fruit.", "A sailing boat"],
        "document",
    )
    (query,) = await embed_checked(embedder, ["Postgres connection error"], "query")
    assert query is not None
    likeness = [sum(a * b for a, b in zip(query, document or [], strict=True)) for document in documents]
    assert max(likeness) == likeness[0]
    assert len(query) == embedder.dimensions == 256


async def test_vectors_are_those_of_wordllama_itself() -> None:
    """Whoever embedded with wordllama's own code can compare."""
    code = (
        "import json, sys, wordllama\n"
        "from pathlib import Path\n"
        "folder = Path(wordllama.__file__).parent\n"
        "model = wordllama.WordLlama.load(cache_dir=folder, disable_download=True)\n"
        f"print(json.dumps([model.embed(text)[0].tolist() for text in {TEXTS!r}]))\n"
    )
    process = await asyncio.to_thread(run, code)
    assert process.returncode == 0, process.stderr
    expected = json.loads(process.stdout)
    for vector, other in zip(await WordLlamaEmbedder().embed(TEXTS, "document"), expected, strict=True):
        assert max(abs(a - b) for a, b in zip(vector, other, strict=True)) < 1e-5


async def test_a_vector_does_not_depend_on_its_company() -> None:
    """Alone or among others, as document or as query, a text gives the same numbers."""
    embedder = WordLlamaEmbedder()
    together = await embedder.embed(TEXTS * 30, "document")
    alone = [(await embedder.embed([text], "query"))[0] for text in TEXTS]
    assert together == alone * 30


@given(text=st.text(st.characters(exclude_characters="<", exclude_categories=["Cs"]), max_size=200))
@example(text="  disk full on   the Datenbank-Server: naïve 日本語 \U0001f600\n\n")
def test_short_query_gets_the_tokens_of_the_whole_tokenizer(text: str) -> None:
    """A command that embeds one query makes a tokenizer for that query alone."""
    reduced, _ = wordllama._read_model(wordllama._package_folder(), text)
    whole, _ = wordllama._load()
    assert reduced.encode(text, add_special_tokens=False).ids == whole.encode(text, add_special_tokens=False).ids


async def test_first_query_of_a_process_gets_the_vector_of_later_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only the first is embedded without loading the model."""
    monkeypatch.setattr(wordllama, "_model", None)
    monkeypatch.setattr(wordllama, "_has_embedded", False)
    first = await WordLlamaEmbedder().embed(["disk full"], "query")
    assert wordllama._model is None
    assert await WordLlamaEmbedder().embed(["disk full"], "query") == first
    assert wordllama._model is not None


@pytest.mark.parametrize("text", ["", "\x00", "\ud800", "\udfff\ud800", "a\x00b\ud83d", "😀" * 100_000, "\n" * 100_000])
async def test_wordllama_embeds_any_text(text: str) -> None:
    """Strings as broken tools print them."""
    ((vector),) = await WordLlamaEmbedder().embed([text], "document")
    assert len(vector) == 256
    assert all(map(math.isfinite, vector))
    assert any(vector) == bool(text)


async def test_long_text_is_cut_before_embedding() -> None:
    """Two megabytes cost no more than sixteen kilobytes."""
    beginning = "one two three four " * 1000
    first, second = await WordLlamaEmbedder().embed([beginning + "five " * 400_000, beginning + "six"], "document")
    assert first == second


async def test_the_event_loop_goes_on_meanwhile() -> None:
    """The work is done in threads, by code that lets go of the interpreter."""
    task = asyncio.create_task(WordLlamaEmbedder().embed(["some words " * 100] * 500, "document"))
    turns = 0
    while not task.done():
        await a_turn_of_the_loop()
        turns += 1
    assert len(await task) == 500
    assert turns > 100


async def test_the_model_is_loaded_once_for_all_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    """However many embed at the same time at first."""
    loads: list[Path] = []
    read_model = wordllama._read_model

    def counting(folder: Path) -> object:
        loads.append(folder)
        return read_model(folder)

    monkeypatch.setattr(wordllama, "_model", None)
    monkeypatch.setattr(wordllama, "_has_embedded", True)
    monkeypatch.setattr(wordllama, "_read_model", counting)
    barrier = threading.Barrier(4)

    def embed() -> list[list[float]]:
        barrier.wait(30)
        return asyncio.run(WordLlamaEmbedder().embed(["text"], "document"))

    results = await asyncio.gather(*(asyncio.to_thread(embed) for _ in range(4)))
    assert all(result == results[0] for result in results)
    assert len(loads) == 1


async def test_wordllama_prints_nothing_and_needs_no_network() -> None:
    """Nothing on the terminal, no handler on the root logger, no address looked up; for short texts no numpy."""
    code = (
        "import asyncio, logging\n"
        "from memory_context.foundation.embeddings.wordllama import WordLlamaEmbedder\n"
        "before = (logging.root.level, list(logging.root.handlers))\n"
        "vectors = asyncio.run(WordLlamaEmbedder().embed(['some words', ''] * 100, 'document'))\n"
        "assert len(vectors) == 200 and any(vectors[0])\n"
        "assert (logging.root.level, logging.root.handlers) == before\n"
        "assert not {'wordllama', 'numpy'} & set(sys.modules)\n"
    )
    process = await asyncio.to_thread(run, code)
    assert (process.returncode, process.stdout, process.stderr) == (0, "", "")


def test_other_model_files_are_refused(tmp_path: Path) -> None:
    """Their vectors would carry the name of these."""
    with pytest.raises(RuntimeError, match=r"cannot be read.*reinstall wordllama"):
        wordllama._read_model(tmp_path)
    for name in (wordllama._WEIGHTS_FILE, wordllama._TOKENIZER_FILE):
        (tmp_path / name).parent.mkdir()
        (tmp_path / name).write_bytes(bytes(16_384_096))
    with pytest.raises(RuntimeError, match="not the known model"):
        wordllama._read_model(tmp_path)


async def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """The remedy is in the text."""
    monkeypatch.setattr(wordllama, "_model", None)
    monkeypatch.setitem(sys.modules, "wordllama", None)
    with pytest.raises(ImportError, match=r"pip install 'memory-context\[local\]'"):
        await WordLlamaEmbedder().embed(["text"], "document")
