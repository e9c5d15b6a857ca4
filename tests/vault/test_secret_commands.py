"""The commands for secrets; items that earlier versions stored in clear are encrypted."""

import io
import sys
from pathlib import Path

import psycopg
import pytest

from memory_context import AgentMemory, MemoryStore
from memory_context.memory.clear_secrets import adopt_clear_secrets
from memory_context.memory.vault.secrets import SECRET_KEY_ENV, Secrets
from memory_context.surfaces.cli import execute
from tests.support.exports import item, written
from tests.support.secrets import IN_CLEAR

from .planted import VALUE, dump

pytestmark = [pytest.mark.fake_embedder, pytest.mark.thorough]


async def test_secrets_in_clear_are_encrypted_and_forgotten(
    store: MemoryStore, database_url: str, key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with psycopg.connect(database_url) as connection:
        connection.execute(IN_CLEAR.encode(), ("the safe opens with 4711",))
    memory = AgentMemory(store, "alice")
    monkeypatch.delenv(SECRET_KEY_ENV)
    assert (await adopt_clear_secrets(memory)).left == ("safe_k3f7x2",)
    monkeypatch.setenv(SECRET_KEY_ENV, key)
    assert (await adopt_clear_secrets(memory)).encrypted == ("safe_k3f7x2",)
    assert await Secrets(store, "alice").value_of("safe_k3f7x2") == "the safe opens with 4711"
    assert "opens with" not in dump(database_url)
    assert await adopt_clear_secrets(memory) == type(await adopt_clear_secrets(memory))()


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    ended = execute([*arguments])
    out, err = capsys.readouterr()
    return ended, out, err


def test_commands_set_list_rotate_and_delete(
    database_url: str, key: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The value comes from stdin and is printed nowhere."""
    where = ("--url", database_url, "--user", "alice")
    monkeypatch.setattr(sys, "stdin", io.StringIO(f"{VALUE}\n"))
    said = [run(capsys, "secrets", "--set", "API_TOKEN", *where)]
    assert said[0] == (0, "", "API_TOKEN is set: {{secret:API_TOKEN}} stands for it\n")
    said.append(run(capsys, "secrets", *where))
    assert "API_TOKEN   yes" in said[-1][1]
    said.append(run(capsys, "secrets", "--json", *where))
    assert '"has_value": true' in said[-1][1]
    said.append(run(capsys, "secrets", "--rotate", "--url", database_url))
    assert said[-1] == (0, "", "0 values encrypted anew\n")
    said.append(run(capsys, "secrets", "--delete", "OTHER", "--yes", *where))
    assert (said[-1][0], "there is no secret 'OTHER'" in said[-1][2]) == (1, True)
    assert run(capsys, "secrets", "--delete", "API_TOKEN", "--yes", *where) == (0, "", "API_TOKEN is deleted\n")
    assert run(capsys, "secrets", *where)[2] == "there are no secrets: memory-context secrets --set NAME\n"
    assert not [one for one in said if VALUE in str(one)]


@pytest.mark.parametrize(
    ("stdin", "key_is", "says", "code"),
    [("", "set", "stdin is empty", 2), ("short", "set", "has 5 characters", 1), (VALUE, "", "openssl rand -base64", 1)],
)
def test_command_refuses_what_it_cannot_keep(
    database_url: str,
    key: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    stdin: str,
    key_is: str,
    says: str,
    code: int,
) -> None:
    if not key_is:
        monkeypatch.delenv(SECRET_KEY_ENV)
    monkeypatch.setattr(sys, "stdin", io.StringIO(stdin))
    ended, out, err = run(capsys, "secrets", "--set", "API_TOKEN", "--url", database_url, "--user", "alice")
    assert (ended, out, says in err, err.count("\n")) == (code, "", True, 1)


def test_migrate_encrypts_secrets_in_clear(
    database_url: str, key: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with psycopg.connect(database_url) as connection:
        connection.execute(IN_CLEAR.encode(), ("the safe opens with 4711",))
        connection.execute(b"INSERT INTO memory_context.memory_users (user_id) VALUES ('alice')")
    monkeypatch.delenv(SECRET_KEY_ENV)
    assert "1 item of 'alice' of type user_secret in clear" in run(capsys, "migrate", "--url", database_url)[2]
    monkeypatch.setenv(SECRET_KEY_ENV, key)
    assert "now encrypted: safe_k3f7x2" in run(capsys, "migrate", "--url", database_url)[2]
    assert "opens with" not in dump(database_url)


def test_import_leaves_out_secrets_in_clear_and_names_them(
    database_url: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    file, clear = tmp_path / "alice.jsonl", "the safe opens with 4711"
    file.write_bytes(written([item("note", "harbour"), item("safe", clear, memory_type="user_secret")]))
    ended, _, err = run(capsys, "import", str(file), "--url", database_url)
    assert (ended, "left out, since it is in clear in the file: safe" in err) == (0, True)
    assert "harbour" in dump(database_url)
    assert "opens with" not in dump(database_url)
