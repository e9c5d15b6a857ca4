"""Who gets in, and what the command line refuses."""

import socket
from typing import Any

import pytest

from samples.chainlit_web.__main__ import main
from samples.chainlit_web.users import USERS_ENV, Users


def test_demo_logins_hold_where_nothing_else_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(USERS_ENV, raising=False)
    users = Users.from_env()
    assert users.are_demo
    assert users.knows("ada", "ada")
    assert "ada" in users.operators
    assert users.knows("grace", "grace")
    assert "grace" not in users.operators
    assert users.login_hint == "Demo logins: ada / ada (operator), grace / grace."


def test_users_of_ones_own_replace_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(USERS_ENV, "eve:se:cret:operator, mallory:pass word")
    users = Users.from_env()
    assert (users.knows("eve", "se:cret"), "eve" in users.operators) == (True, True)
    assert (users.knows("mallory", "pass word"), "mallory" in users.operators) == (True, False)
    assert not users.knows("ada", "ada")
    assert users.login_hint == ""
    assert "se:cret" not in repr(users)


@pytest.mark.parametrize(("name", "password"), [("ada", ""), ("ada", "Ada"), ("nobody", "\0"), ("", ""), ("ada", "ä")])
def test_nobody_else_gets_in(name: str, password: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(USERS_ENV, raising=False)
    assert not Users.from_env().knows(name, password)


def test_users_that_cannot_be_read_are_told_without_a_password(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(USERS_ENV, "eve:secret, hidden")
    assert main([]) == 1
    said = capsys.readouterr().err
    assert "entry 2 cannot be read" in said
    assert "hidden" not in said


def test_demo_logins_are_for_this_machine_only(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv(USERS_ENV, raising=False)
    assert main(["--host", "0.0.0.0"]) == 1
    assert capsys.readouterr().err == (
        f"chainlit_web: 0.0.0.0 can be reached by others, and everybody knows the demo logins: set {USERS_ENV}\n"
    )


def test_a_port_in_use_is_one_line(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.delenv(USERS_ENV, raising=False)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port: Any = taken.getsockname()[1]
        assert main(["--port", str(port)]) == 1
    said = capsys.readouterr().err
    assert said.startswith(f"chainlit_web: port {port} is in use")
    assert said.count("\n") == 1
