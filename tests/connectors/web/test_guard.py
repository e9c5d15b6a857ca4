"""The browser's network boundary: over raw sockets, and with a real Chromium behind it."""

import asyncio
import json
import socket
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest
import pytest_asyncio
import uvicorn
from playwright.async_api import BrowserContext, Page, async_playwright
from playwright.async_api import Error as BrowserError
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, RedirectResponse, Response, StreamingResponse
from starlette.routing import Route, WebSocketRoute
from starlette.websockets import WebSocket

from memory_context.connectors.web import guard
from memory_context.connectors.web.guard import CHROMIUM_FLAGS, NavigationGuard

from ...support.browser import chromium_options
from ...support.waiting import soon, until

PUBLIC = "127.0.0.2"
"""Stands for a public address in these tests; all other addresses of this machine are private, as always."""

pytestmark = pytest.mark.asyncio(loop_scope="module")


# --- servers


@dataclass
class Silent:
    """A server that counts connections and answers each with a secret."""

    connections: int = 0
    port: int = 0

    async def accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        await reader.read(65536)
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\nAccess-Control-Allow-Origin: *\r\n\r\nSECRET")
        writer.close()


@dataclass
class Site:
    """A public site and a private one on this machine, with what the site was asked."""

    port: int
    private: Silent
    guard: NavigationGuard
    asked: list[tuple[str, dict[str, str], bytes]] = field(default_factory=list)
    names: dict[str, list[str]] = field(default_factory=dict)
    looked_up: list[str] = field(default_factory=list)

    @property
    def url(self) -> str:
        return f"http://site.localhost:{self.port}"

    @property
    def secret(self) -> str:
        return f"127.0.0.1:{self.private.port}"

    async def resolve(self, host: str) -> Sequence[str]:
        self.looked_up.append(host)
        return self.names.get(host, [host])


@asynccontextmanager
async def listening(accept: Callable[..., Any], host: str) -> AsyncIterator[int]:
    server = await asyncio.start_server(accept, host, 0)
    yield server.sockets[0].getsockname()[1]
    server.close()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def site() -> AsyncIterator[Site]:
    real = guard.address_problem
    with pytest.MonkeyPatch.context() as patch, socket.create_server((PUBLIC, 0), backlog=100) as port:
        patch.setattr(guard, "address_problem", lambda one, **kind: "" if one == PUBLIC else real(one, **kind))
        private = Silent()
        async with listening(private.accept, "127.0.0.1") as private.port:
            site = Site(port.getsockname()[1], private, NavigationGuard(resolve=lambda host: site.resolve(host)))
            site.names |= {
                "site.localhost": [PUBLIC],
                "inside.test": ["127.0.0.1"],
                "localhost": ["127.0.0.1"],
                "both.test": ["10.0.0.1", PUBLIC],
            }
            server = uvicorn.Server(uvicorn.Config(application(site), log_level="error", lifespan="off"))
            task = asyncio.ensure_future(server.serve(sockets=[port]))
            await site.guard.start()
            yield site
            await site.guard.stop()
            server.should_exit = True
            await task


@pytest.fixture(autouse=True)
def fresh(request: pytest.FixtureRequest) -> None:
    if "site" in request.fixturenames:
        site: Site = request.getfixturevalue("site")
        site.asked.clear()
        site.looked_up.clear()
        site.guard.refused.clear()
        site.private.connections = 0


def application(site: Site) -> Starlette:
    async def echo(request: Request) -> Response:
        site.asked.append((str(request.url), dict(request.headers), await request.body()))
        return PlainTextResponse("fine", headers={"Connection": "X-Hop", "X-Hop": "1", "X-End": "2"})

    async def page(request: Request) -> Response:
        return HTMLResponse(f"<title>Site</title><script>{request.query_params.get('script', '')}</script>Hello")

    async def there(request: Request) -> Response:
        return RedirectResponse(request.query_params["to"])

    async def worker(_: Request) -> Response:
        script = f"onmessage = e => fetch('http://{site.secret}/').then(() => 'reached', () => 'refused')\
            .then(said => e.source.postMessage(said))"
        return Response(script, media_type="text/javascript")

    async def endless(_: Request) -> Response:
        async def drops() -> AsyncIterator[bytes]:
            while True:
                yield b"x" * 1000
                await asyncio.sleep(0.01)

        return StreamingResponse(drops())

    async def talk(ws: WebSocket) -> None:
        await ws.accept()
        await ws.send_text("hello over " + ws.url.scheme)
        await ws.receive()

    async def odd(_: Request) -> Response:
        return Response(status_code=407, headers={"Proxy-Authenticate": 'Basic realm="site"'})

    routes = [Route("/echo", echo, methods=["GET", "POST"]), Route("/page", page), Route("/there", there)]
    routes += [Route("/worker.js", worker), Route("/endless", endless), Route("/odd", odd)]
    return Starlette(routes=[*routes, WebSocketRoute("/talk", talk)])


async def connected(guarded: NavigationGuard) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    return await asyncio.open_connection("127.0.0.1", int((await guarded.start()).rsplit(":", 1)[1]))


def with_credentials(site: Site, head: str) -> bytes:
    credentials = site.guard._credentials.decode()
    return head.replace("\r\n\r\n", f"\r\nProxy-Authorization: {credentials}\r\n\r\n", 1).encode()


async def said(site: Site, head: str) -> str:
    """Return all that the guard answers to a request with its credentials."""
    reader, writer = await connected(site.guard)
    writer.write(with_credentials(site, head))
    answer = await soon(reader.read())
    writer.close()
    return answer.decode()


def get(url: str, *headers: str) -> str:
    return "\r\n".join([f"GET {url} HTTP/1.1", "Host: ignored.test", "Connection: close", *headers]) + "\r\n\r\n"


# --- over raw sockets


async def test_request_reaches_the_server_without_headers_of_the_hop(site: Site) -> None:
    answer = await said(site, get(f"{site.url}/echo?a=1", "Connection: X-Mine", "X-Mine: 1", "X-Kept: 2", "TE: gzip"))
    assert answer.startswith("HTTP/1.1 200")
    assert answer.endswith("fine")
    assert "x-end: 2" in answer.lower()
    assert "x-hop" not in answer.lower()
    ((url, headers, _),) = site.asked
    assert url == f"{site.url}/echo?a=1"
    assert headers["host"] == f"site.localhost:{site.port}"
    assert headers["x-kept"] == "2"
    assert not {"x-mine", "te", "proxy-authorization"} & headers.keys()


async def test_connection_serves_one_request_after_another(site: Site) -> None:
    reader, writer = await connected(site.guard)
    for number in range(3):
        head = f"POST {site.url}/echo HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
        writer.write(with_credentials(site, head) + b"3\r\nab" + b"%d" % number + b"\r\n0\r\n\r\n")
        await soon(reader.readuntil(b"fine"))
    writer.close()
    assert [body for _, _, body in site.asked] == [b"ab0", b"ab1", b"ab2"]


async def test_client_without_the_credentials_is_refused(site: Site) -> None:
    reader, writer = await connected(site.guard)
    writer.write(get(f"{site.url}/echo", "Proxy-Authorization: Basic Z3VhcmQ6Z3Vlc3M=").encode())
    answer = await soon(reader.read())
    writer.close()
    assert answer.startswith(b"HTTP/1.1 407")
    assert b"Proxy-Authenticate: Basic" in answer
    assert (site.asked, site.looked_up) == ([], [])


@pytest.mark.parametrize(
    ("request_line", "reason"),
    [
        ("GET http://127.0.0.1:{private}/ HTTP/1.1", "an address of this machine or a private network"),
        ("GET http://inside.test:{private}/ HTTP/1.1", "an address of this machine or a private network"),
        ("CONNECT inside.test:{private} HTTP/1.1", "an address of this machine or a private network"),
        ("CONNECT [::ffff:127.0.0.1]:{private} HTTP/1.1", "an address of this machine or a private network"),
        ("CONNECT 0.0.0.0:{private} HTTP/1.1", "an unspecified address"),
        ("CONNECT 0x7f.1:{private} HTTP/1.1", "not a plain spelling"),
        ("CONNECT 2130706433:{private} HTTP/1.1", "not a plain spelling"),
        ("CONNECT site.localhost:22 HTTP/1.1", "port 22"),
        ("GET http://site.localhost@127.0.0.1:{private}/ HTTP/1.1", "not a host with a port"),
        ("GET ftp://site.localhost/ HTTP/1.1", "not an address of the web"),
        ("GET / HTTP/1.1", "not an address of the web"),
    ],
)
async def test_refusal_says_why_and_is_kept(site: Site, request_line: str, reason: str) -> None:
    answer = await said(site, f"{request_line.format(private=site.private.port)}\r\nHost: site.localhost\r\n\r\n")
    assert answer.startswith("HTTP/1.1 403")
    assert reason in answer
    (refusal,) = site.guard.refused
    assert "/" not in refusal.target or "not" in reason, "a page cannot make one refusal many by its paths"
    assert reason in refusal.reason
    assert site.private.connections == 0


async def test_host_with_a_private_and_a_public_address_is_reached_at_the_public_one(site: Site) -> None:
    assert (await said(site, get(f"http://both.test:{site.port}/echo"))).endswith("fine")


async def test_name_is_looked_up_once_for_each_connection(site: Site) -> None:
    """A resolver that answers the second question otherwise is not asked a second time."""
    answers = [[PUBLIC], ["127.0.0.1"]]
    rebinding = NavigationGuard(resolve=lambda _: _next(answers))
    site.guard, kept = rebinding, site.guard
    try:
        assert (await said(site, get(f"http://moving.test:{site.port}/echo"))).endswith("fine")
        assert answers == [["127.0.0.1"]]
        assert "403" in await said(site, get(f"http://moving.test:{site.private.port}/echo"))
    finally:
        await rebinding.stop()
        site.guard = kept
    assert site.private.connections == 0


async def _next(answers: list[list[str]]) -> list[str]:
    return answers.pop(0)


async def test_repeated_refusal_is_kept_once_and_their_number_is_bounded(site: Site) -> None:
    for port in (*range(8000, 8060), *[8059] * 3):
        await said(site, f"CONNECT 127.0.0.1:{port} HTTP/1.1\r\nHost: x\r\n\r\n")
    assert len(site.guard.refused) == len(set(site.guard.refused)) == 50
    assert site.guard.refused[-1].target == "127.0.0.1:8059"


@pytest.mark.parametrize(
    "head",
    [
        "POST {url}/echo HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        "POST {url}/echo HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\nabcd",
        "POST {url}/echo HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked, gzip\r\n\r\n0\r\n\r\n",
        "POST {url}/echo HTTP/1.1\r\nHost: x\r\nContent-Length: -3\r\n\r\n",
        "GET {url}/echo HTTP/1.1\r\nHost: x\r\nHost: y\r\n\r\n",
        "GET {url}/echo HTTP/1.1\r\nHost: x\r\nBad Name: y\r\n\r\n",
        "GET {url}/echo HTTP/1.1\r\nHost: x\r\nLarge: " + "y" * 200_000 + "\r\n\r\n",
        "GET {url}/a b HTTP/1.1\r\nHost: x\r\n\r\n",
    ],
)
async def test_request_that_can_be_read_in_two_ways_is_refused(site: Site, head: str) -> None:
    answer = await said(site, head.replace("{url}", site.url))
    assert answer.startswith(("HTTP/1.1 400", "HTTP/1.1 431", "HTTP/1.1 501"))
    assert site.asked == []


async def test_bad_chunk_ends_the_request(site: Site) -> None:
    head = f"POST {site.url}/echo HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabcXX\r\n0\r\n\r\n"
    assert "HTTP/1.1 502" in await said(site, head)
    assert site.asked == []


async def test_server_cannot_ask_for_the_proxys_credentials(site: Site) -> None:
    answer = await said(site, get(f"{site.url}/odd"))
    assert answer.startswith("HTTP/1.1 502")
    assert "Proxy-Authenticate" not in answer


async def test_tunnel_passes_bytes_both_ways(site: Site) -> None:
    reader, writer = await connected(site.guard)
    head = f"CONNECT site.localhost:{site.port} HTTP/1.1\r\nHost: x\r\n\r\n"
    writer.write(with_credentials(site, head) + b"GET /echo HTTP/1.1\r\nHost: inner.test\r\nConnection: close\r\n\r\n")
    answer = (await soon(reader.read())).decode()
    writer.close()
    assert answer.startswith("HTTP/1.1 200 Connection established\r\n\r\nHTTP/1.1 200 OK")
    assert answer.endswith("fine")


async def test_stop_ends_tunnels_and_half_open_connections() -> None:
    accepted: asyncio.Queue[asyncio.StreamReader] = asyncio.Queue()
    guarded = NavigationGuard(allow_private=True)

    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await accepted.put(reader)
        await reader.read()
        writer.close()

    async with listening(accept, "127.0.0.1") as port:
        half_open, _first = await connected(guarded)
        tunnel, writer = await connected(guarded)
        head = f"CONNECT 127.0.0.1:{port} HTTP/1.1\r\nHost: x\r\nProxy-Authorization: "
        writer.write(head.encode() + guarded._credentials + b"\r\n\r\n")
        await tunnel.readuntil(b"\r\n\r\n")
        server = await accepted.get()
        await guarded.stop()
        for one in (half_open, tunnel, server):
            assert await soon(_end_of(one))
        _first.close()
        writer.close()
    await guarded.stop()


async def _end_of(reader: asyncio.StreamReader) -> bool:
    try:
        return await reader.read() == b""
    except ConnectionError:
        return True


async def test_answer_is_given_up_when_the_client_is_gone(site: Site) -> None:
    reader, writer = await connected(site.guard)
    writer.write(with_credentials(site, get(f"{site.url}/endless")))
    await reader.readexactly(5000)
    writer.close()
    await until(lambda: not site.guard._open)


async def test_surplus_connection_is_closed(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guard, "_CONNECTIONS", 1)
    _, first = await connected(site.guard)
    reader, second = await connected(site.guard)
    assert await soon(_end_of(reader))
    first.close()
    second.close()
    await until(lambda: not site.guard._open)


async def test_late_header_ends_the_connection(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guard, "_HEADER_SECONDS", 0.05)
    reader, writer = await connected(site.guard)
    writer.write(b"GET http://site.localhost/ HTTP/1.1\r\n")
    assert await soon(_end_of(reader))
    writer.close()


# --- Chromium


@dataclass
class Datagrams(asyncio.DatagramProtocol):
    """Counts what arrives by UDP."""

    count: int = 0

    def datagram_received(self, data: bytes, addr: Any) -> None:
        self.count += 1


@pytest_asyncio.fixture(name="context", scope="module", loop_scope="module")
async def guarded_chromium(site: Site) -> AsyncIterator[BrowserContext]:
    options = chromium_options()
    options["args"] = [*options["args"], *CHROMIUM_FLAGS]
    proxy = {"server": await site.guard.start(), "username": site.guard.username, "password": site.guard.password}
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(**options, proxy=proxy)
        yield await browser.new_context()
        await browser.close()


@pytest_asyncio.fixture(loop_scope="module")
async def page(context: BrowserContext) -> AsyncIterator[Page]:
    page = await context.new_page()
    yield page
    await page.close()


async def test_browser_reads_a_site_through_the_guard(site: Site, page: Page) -> None:
    await page.goto(f"{site.url}/page")
    assert await page.title() == "Site"
    assert await page.evaluate("fetch('/echo', {method: 'POST', body: 'x'.repeat(1e6)}).then(r => r.text())") == "fine"
    assert len(site.asked[0][2]) == 1_000_000


async def test_browser_talks_over_web_sockets(site: Site, page: Page) -> None:
    await page.goto(f"{site.url}/page")
    said = await page.evaluate(
        "url => new Promise((done, fail) => { const one = new WebSocket(url);"
        " one.onmessage = e => done(e.data); one.onerror = () => fail('error') })",
        f"ws://site.localhost:{site.port}/talk",
    )
    assert said == "hello over ws"


WAYS = {
    "fetch": "fetch('http://SECRET/').then(done, done)",
    "image": "const i = new Image(); i.onerror = i.onload = done; i.src = 'http://SECRET/'",
    "frame": "const f = document.createElement('iframe'); f.onload = done; f.src = 'http://SECRET/';"
    " document.body.append(f)",
    "web socket": "const s = new WebSocket('ws://SECRET/'); s.onopen = s.onerror = done",
    "secure web socket": "const s = new WebSocket('wss://SECRET/'); s.onopen = s.onerror = done",
    "https": "fetch('https://SECRET/', {mode: 'no-cors'}).then(done, done)",
    "event source": "const s = new EventSource('http://SECRET/'); s.onopen = s.onerror = done",
    "worker": "const w = new Worker(URL.createObjectURL(new Blob(["
    "\"fetch('http://SECRET/').then(() => postMessage(1), () => postMessage(2))\"]))); w.onmessage = done",
    "redirect": "fetch('/there?to=http://SECRET/').then(done, done)",
    "beacon": "navigator.sendBeacon('http://SECRET/'); fetch('http://SECRET/').then(done, done)",
    "numbers": "fetch('http://2130706433:PORT/').then(done, done)",
    "mapped": "fetch('http://[::ffff:127.0.0.1]:PORT/').then(done, done)",
    "localhost": "fetch('http://localhost:PORT/').then(done, done)",
    "name": "fetch('http://inside.test:PORT/').then(done, done)",
    "TURN over TCP": "const c = new RTCPeerConnection({iceServers: [{urls: 'turn:SECRET?transport=tcp', username: 'a',"
    " credential: 'b'}], iceTransportPolicy: 'relay'}); c.onicecandidateerror = done; c.createDataChannel('x');"
    " c.onicegatheringstatechange = () => c.iceGatheringState == 'complete' && done();"
    " c.createOffer().then(o => c.setLocalDescription(o))",
}


@pytest.mark.parametrize("way", WAYS)
async def test_page_reaches_no_private_address(site: Site, page: Page, way: str) -> None:
    await page.goto(f"{site.url}/page")
    script = WAYS[way].replace("SECRET", site.secret).replace("PORT", str(site.private.port))
    await page.evaluate(f"() => new Promise(resolve => {{ const done = () => resolve(); {script} }})")
    assert site.private.connections == 0
    assert site.guard.refused


async def test_navigation_to_a_private_address_shows_the_reason(site: Site, page: Page) -> None:
    answer = await page.goto(f"{site.url}/there?to=http://{site.secret}/")
    assert answer is not None
    assert answer.status == 403
    assert "an address of this machine" in await page.inner_text("body")
    with pytest.raises(BrowserError):
        await page.goto(f"https://{site.secret}/")
    assert site.private.connections == 0


async def test_service_worker_reaches_no_private_address(site: Site, page: Page) -> None:
    await page.goto(f"{site.url}/page")
    if not await page.evaluate("'serviceWorker' in navigator"):
        pytest.fail("this origin has no service workers, so the test proves nothing")
    said = await page.evaluate(
        "async () => { await navigator.serviceWorker.register('/worker.js');"
        " const one = await navigator.serviceWorker.ready; return new Promise(done => {"
        " navigator.serviceWorker.onmessage = e => done(e.data); one.active.postMessage('go') }) }"
    )
    assert said == "refused"
    assert site.private.connections == 0


async def test_nothing_leaves_by_udp(site: Site, page: Page) -> None:
    """STUN, peers and WebTransport find no way around the proxy."""
    loop = asyncio.get_running_loop()
    transport, heard = await loop.create_datagram_endpoint(Datagrams, local_addr=("127.0.0.1", 0))
    port = transport.get_extra_info("sockname")[1]
    await page.goto(f"{site.url}/page")
    candidates = await page.evaluate(
        """async port => {
            const one = new RTCPeerConnection({iceServers: [{urls: `stun:127.0.0.1:${port}`}]});
            const found = [];
            one.createDataChannel('x');
            const gathered = new Promise(done => {
                one.onicecandidate = e => e.candidate ? found.push(e.candidate.candidate) : done();
            });
            await one.setLocalDescription(await one.createOffer());
            await gathered;
            try { await new WebTransport(`https://127.0.0.1:${port}/`).ready } catch (error) {}
            return found;
        }""",
        port,
    )
    transport.close()
    assert heard.count == 0
    assert not [one for one in candidates if " udp " in one.lower()], json.dumps(candidates)
