"""Requests of a real Chromium: pages reach allowed hosts at public addresses, whatever way they try."""

from collections.abc import AsyncIterator
from dataclasses import dataclass, field

import pytest
import pytest_asyncio
import uvicorn
from playwright.async_api import Browser, Page, async_playwright
from playwright.async_api import Error as BrowserError
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, RedirectResponse, Response
from starlette.routing import Route

from memory_context.connectors.web import request_filter
from memory_context.connectors.web.request_filter import RequestFilter, addresses_of, host_rule

from ...support.browser import chromium_options
from ...support.serving import serving

PUBLIC = "127.0.0.2"
"""Stands for a public address in these tests; all other addresses of this machine are private, as always."""
NAMES = {
    "site.localhost": [PUBLIC],
    "other.test": [PUBLIC],
    "inside.test": ["127.0.0.1"],
    "both.test": [PUBLIC, "127.0.0.1"],
}

pytestmark = pytest.mark.asyncio(loop_scope="module")


@dataclass
class Site:
    """A public site and a private one on this machine, with what they were asked."""

    filter: RequestFilter = field(default_factory=RequestFilter)
    port: int = 0
    private_port: int = 0
    asked: list[tuple[str, bytes]] = field(default_factory=list)
    asked_in_private: list[str] = field(default_factory=list)
    looked_up: list[str] = field(default_factory=list)

    @property
    def url(self) -> str:
        return f"http://site.localhost:{self.port}"

    @property
    def secret(self) -> str:
        return f"127.0.0.1:{self.private_port}"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def served() -> AsyncIterator[Site]:
    """The sites; names lead where `NAMES` says."""
    real, site = request_filter.address_problem, Site()

    async def look_up(host: str) -> list[str]:
        site.looked_up.append(host)
        return NAMES.get(host) or await addresses_of(host)

    async def secret(request: Request) -> Response:
        site.asked_in_private.append(request.method)
        return PlainTextResponse("SECRET", headers={"Access-Control-Allow-Origin": "*"})

    private = Starlette(routes=[Route("/{path:path}", secret)])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(request_filter, "addresses_of", look_up)
        patch.setattr(request_filter, "address_problem", lambda one, **kind: "" if one == PUBLIC else real(one, **kind))
        async with (
            serving(uvicorn.Config(application(site), log_level="error", lifespan="off"), host=PUBLIC) as (
                _,
                site.port,
            ),
            serving(uvicorn.Config(private, log_level="error", lifespan="off")) as (_, site.private_port),
        ):
            yield site


def application(site: Site) -> Starlette:
    async def echo(request: Request) -> Response:
        site.asked.append((request.method, await request.body()))
        return PlainTextResponse("fine", headers={"Access-Control-Allow-Origin": "*"})

    async def page(_: Request) -> Response:
        return HTMLResponse("<title>Site</title>Hello")

    async def there(request: Request) -> Response:
        return RedirectResponse(request.query_params["to"])

    async def worker(_: Request) -> Response:
        script = f"onmessage = e => fetch('http://{site.secret}/').then(() => 'reached', () => 'refused')\
            .then(said => e.source.postMessage(said))"
        return Response(script, media_type="text/javascript")

    routes = [Route("/echo", echo, methods=["GET", "POST", "PUT"]), Route("/page", page), Route("/there", there)]
    return Starlette(routes=[*routes, Route("/worker.js", worker)])


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def browser(served: Site) -> AsyncIterator[Browser]:
    options = chromium_options()
    rules = ", ".join(f"MAP {name} {addresses[-1]}" for name, addresses in NAMES.items())
    options["args"] = [*options["args"], f"--host-resolver-rules={rules}"]
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(**options)
        await served.filter.attach(browser)
        yield browser
        await browser.close()


@pytest.fixture
def site(served: Site) -> Site:
    """The sites, as if nobody had asked them yet."""
    for noted in (served.asked, served.asked_in_private, served.looked_up, served.filter.refused):
        noted.clear()
    return served


@pytest_asyncio.fixture(loop_scope="module")
async def page(browser: Browser) -> AsyncIterator[Page]:
    page = await browser.new_page()
    yield page
    await page.close()


async def test_page_of_an_allowed_host_is_read(site: Site, page: Page) -> None:
    await page.goto(f"{site.url}/page")
    assert await page.title() == "Site"
    assert await page.evaluate("fetch('/echo', {method: 'POST', body: 'x'.repeat(1e6)}).then(r => r.text())") == "fine"
    assert [(method, len(body)) for method, body in site.asked] == [("POST", 1_000_000)]
    assert not site.filter.refused


SPELLINGS = ("2130706433", "0x7f.1", "[::ffff:127.0.0.1]", "localhost.")
WAYS = {
    "fetch": "fetch('http://SECRET/').then(done, done)",
    "frame": "const f = document.createElement('iframe'); f.onload = done; f.src = 'http://SECRET/';"
    " document.body.append(f)",
    "event source": "const s = new EventSource('http://SECRET/'); s.onopen = s.onerror = done",
    "worker": "const w = new Worker(URL.createObjectURL(new Blob(["
    "\"fetch('http://SECRET/').then(() => postMessage(1), () => postMessage(2))\"]))); w.onmessage = done",
    "redirected frame": "const f = document.createElement('iframe'); f.onload = done; f.src = '/there?to=http://SECRET/';"
    " document.body.append(f)",
    "beacon": "navigator.sendBeacon('http://SECRET/'); fetch('http://SECRET/').then(done, done)",
    **{host: f"fetch('http://{host}:PORT/').then(done, done)" for host in SPELLINGS},
    "name": "fetch('http://inside.test:PORT/').then(done, done)",
    "one of two addresses": "fetch('http://both.test:PORT/').then(done, done)",
}


@pytest.mark.parametrize("way", WAYS)
async def test_page_reaches_no_private_address(site: Site, page: Page, way: str) -> None:
    await page.goto(f"{site.url}/page")
    script = WAYS[way].replace("SECRET", site.secret).replace("PORT", str(site.private_port))
    await page.evaluate(f"() => new Promise(resolve => {{ const done = () => resolve(); {script} }})")
    assert site.asked_in_private == []
    assert "an address of this machine or a private network" in site.filter.refused[-1]


@pytest.mark.parametrize("path", ["{site}/there?to=http://{secret}/", "https://{secret}/"])
async def test_navigation_to_a_private_address_is_refused_with_the_reason(site: Site, page: Page, path: str) -> None:
    with pytest.raises(BrowserError, match="ERR_BLOCKED_BY_CLIENT"):
        await page.goto(path.format(site=site.url, secret=site.secret))
    (refusal,) = site.filter.refused
    assert refusal.startswith(f"{site.secret}: 127.0.0.1 is an address of this machine")
    assert site.asked_in_private == []


async def test_service_worker_and_new_window_reach_no_private_address(site: Site, page: Page) -> None:
    await page.goto(f"{site.url}/page")
    if not await page.evaluate("'serviceWorker' in navigator"):
        pytest.fail("this origin has no service workers, so the test proves nothing")
    said = await page.evaluate(
        "async () => { await navigator.serviceWorker.register('/worker.js');"
        " const one = await navigator.serviceWorker.ready; return new Promise(done => {"
        " navigator.serviceWorker.onmessage = e => done(e.data); one.active.postMessage('go') }) }"
    )
    assert said == "refused"
    site.filter.refused.clear()
    async with page.context.expect_page() as opened:
        await page.evaluate("url => void open(url)", f"/there?to=http://{site.secret}/")
    window = await opened.value
    await window.wait_for_url("chrome-error:**")
    assert len(site.filter.refused) == 1
    assert site.asked_in_private == []


async def test_hosts_that_are_not_allowed_are_refused_also_behind_a_redirect(
    site: Site, page: Page, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(site.filter, "_rules", [host_rule("site.localhost")])
    other = f"http://other.test:{site.port}/echo"
    await page.goto(f"{site.url}/page")
    for url in (other, f"/there?to={other}"):
        assert await page.evaluate("url => fetch(url).then(r => r.text(), () => 'refused')", url) == "refused"
    assert [*site.filter.refused] == [f"other.test:{site.port}: it is not among the allowed hosts"]
    assert site.asked == []
    assert "other.test" not in site.looked_up, "no name server hears of it"
