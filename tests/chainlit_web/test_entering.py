"""Who gets in, from where, and what a page may load."""

import socket
from typing import Any

import httpx
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, Response
from starlette.routing import Route

from samples.chainlit_web.command import main
from samples.chainlit_web.pages import OwnPages
from samples.chainlit_web.users import USERS_ENV, Users

PAGE = """<html><head><title>Chat</title>
<link rel="preconnect" href="https://fonts.example" />
<link
  rel="stylesheet"
  href="https://cdn.example/katex.css"
/>
<link rel="stylesheet" href="/assets/own.css">
</head><body></body></html>"""


async def pages(hint: str = "") -> httpx.AsyncClient:
    async def page(request: Request) -> Response:
        return HTMLResponse(PAGE)

    async def element(request: Request) -> Response:
        return PlainTextResponse("x", headers={"Content-Security-Policy": "sandbox"})

    app = OwnPages(Starlette(routes=[Route("/", page), Route("/element", element)]), hint)
    return httpx.AsyncClient(transport=httpx.ASGITransport(app=app), base_url="http://chat")


async def test_pages_load_nothing_from_other_hosts_and_nobody_frames_them() -> None:
    async with await pages() as client:
        answer = await client.get("/", headers={"Accept": "text/html"})
    assert "https://" not in answer.text
    assert '<link rel="stylesheet" href="/assets/own.css">' in answer.text
    assert int(answer.headers["content-length"]) == len(answer.content)
    policy = answer.headers["content-security-policy"]
    assert "default-src 'self'" in policy
    assert "frame-ancestors 'none'" in policy
    assert answer.headers["cross-origin-opener-policy"] == "same-origin"


async def test_what_is_stricter_already_stays_so() -> None:
    async with await pages() as client:
        assert (await client.get("/element")).headers["content-security-policy"] == "sandbox"


async def test_the_login_hint_is_text() -> None:
    async with await pages('"><script>') as client:
        assert 'content="&quot;&gt;&lt;script&gt;"' in (await client.get("/")).text


def test_demo_logins_hold_where_nothing_else_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(USERS_ENV, raising=False)
    users = Users.from_env()
    assert users.are_demo
    assert users.knows("ada", "ada")
    assert users.is_operator("ada")
    assert users.knows("grace", "grace")
    assert not users.is_operator("grace")
    assert users.demo_logins == ["ada / ada  (operator)", "grace / grace"]


def test_users_of_ones_own_replace_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(USERS_ENV, "eve:se:cret:operator, mallory:pass word")
    users = Users.from_env()
    assert (users.knows("eve", "se:cret"), users.is_operator("eve")) == (True, True)
    assert (users.knows("mallory", "pass word"), users.is_operator("mallory")) == (True, False)
    assert not users.knows("ada", "ada")
    assert users.demo_logins == []
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
