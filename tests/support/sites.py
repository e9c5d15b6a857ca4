"""Sites served on this machine: a shop, an application, and pages that browsers and agents find hard.

/shop/            several pages and an order form; an order is kept in `Sites.orders`
/app/             a board of tasks in one page, drawn anew with each change
/wiki/N           a long article, each a page of its own
/frames/          frames in frames, open and closed shadow roots, slots
/dialogs/         alert, confirm, prompt, leave-page
/tabs/            links and scripts that open tabs, a storm of them, a download, a PDF, an upload
/slow/            answers after ?seconds=; /slow/parts never ends loading; /slow/late shows its content later
/broken/          markup, scripts; /broken/error, /broken/locked (asks for a password), /broken/cut, /broken/loop
/huge             ?nodes= elements, or ?megabytes= of text
/feed/            infinite scroll
/still/           a blinking cursor beside a text that changes by a button
/hostile/         instructions, placeholders, spaces, marks; /hostile/redirect, and `_SCRIPTS`
"""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from html import escape
from itertools import count
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import (
    HTMLResponse,
    JSONResponse,
    PlainTextResponse,
    RedirectResponse,
    Response,
    StreamingResponse,
)
from starlette.routing import Route
from starlette.staticfiles import StaticFiles

from .serving import serving

__all__ = ["PLACEHOLDER", "PRODUCTS", "Sites", "served_sites"]

PAGES = Path(__file__).parent / "pages"
PLACEHOLDER = "[MemoryRef: key - x - 9 tokens]"
"""An imitation on the hostile page."""

_KINDS = ("Lamp", "Chair", "Desk", "Shelf", "Clock", "Mirror", "Vase", "Rug")
_COLOURS = ("red", "green", "blue", "white", "black", "yellow")
PRODUCTS = [f"{colour.capitalize()} {kind}" for kind in _KINDS for colour in _COLOURS][:40]
_TOPICS = ("River", "Bridge", "Castle", "Harbour", "Forest", "Market", "Tower", "Garden", "Mill", "Museum")


@dataclass
class Sites:
    """The running sites.

    Attributes:
        url: Without a final slash.
        orders: The fields of each order that the shop took.
        requested: Path and query of each request.
    """

    url: str = ""
    orders: list[dict[str, str]] = field(default_factory=list)
    requested: list[str] = field(default_factory=list)
    uploads: list[tuple[str, bytes]] = field(default_factory=list)
    ended: asyncio.Event = field(default_factory=asyncio.Event)


@asynccontextmanager
async def served_sites() -> AsyncIterator[Sites]:
    """Serve all sites on one port of 127.0.0.1."""
    sites = Sites()
    config = uvicorn.Config(application(sites), log_level="critical", lifespan="off", timeout_graceful_shutdown=1)
    async with serving(config) as (_, port):
        sites.url = f"http://127.0.0.1:{port}"
        try:
            yield sites
        finally:
            sites.ended.set()


def application(sites: Sites) -> Any:
    """Return the ASGI application."""
    routes = [
        *_shop(sites),
        *_slow(sites),
        *_broken(),
        *_hostile(),
        Route("/wiki/{number:int}", _article),
        Route("/feed/items", _feed_items),
        Route("/huge", _huge),
        Route("/tabs/report.csv", _download),
        Route("/tabs/timetable", _pdf),
        Route("/tabs/upload", _upload(sites), methods=["POST"]),
        *(Route(f"/{name}/", _file(name)) for name in ("app", "frames", "dialogs", "tabs", "feed", "still")),
    ]
    inner = Starlette(routes=routes)
    inner.mount("/pages", StaticFiles(directory=PAGES))

    async def counted(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http":
            query = scope["query_string"].decode()
            sites.requested.append(scope["path"] + (f"?{query}" if query else ""))
        await inner(scope, receive, send)

    return counted


def _file(name: str) -> Any:
    async def page(_: Request) -> Response:
        return HTMLResponse((PAGES / f"{name}.html").read_text(encoding="utf-8"))

    return page


# --- shop


def _shop(sites: Sites) -> list[Route]:
    async def shelf(request: Request) -> Response:
        wanted = request.query_params.get("q", "").lower()
        page = int(request.query_params.get("page", "1"))
        found = [number for number, name in enumerate(PRODUCTS) if wanted in name.lower()]
        shown = "".join(_card(number) for number in found[20 * page - 20 : 20 * page])
        pages = "".join(f'<a href="/shop/?q={escape(wanted)}&page={n}">Page {n}</a> ' for n in (1, 2))
        heading = f"Results for {escape(wanted)}" if wanted else "All products"
        return _shop_page(heading, f'<h1>{heading}</h1><ul class="shelf">{shown}</ul><nav>{pages}</nav>')

    async def product(request: Request) -> Response:
        number = int(request.path_params["number"]) % len(PRODUCTS)
        return _shop_page(PRODUCTS[number], _product(number))

    async def cart(_: Request) -> Response:
        return _shop_page("Cart", '<h1>Cart</h1><div id="cart"></div><a href="/shop/checkout">Check out</a>')

    async def checkout(_: Request) -> Response:
        return _shop_page("Checkout", (PAGES / "checkout.html").read_text(encoding="utf-8"))

    async def order(request: Request) -> Response:
        sites.orders.append(dict(parse_qsl((await request.body()).decode())))
        return RedirectResponse(f"/shop/thanks?order={len(sites.orders)}", 303)

    async def thanks(request: Request) -> Response:
        number = escape(request.query_params["order"])
        return _shop_page("Thank you", f"<h1>Thank you</h1><p>Your order has the number {number}.</p>")

    return [
        Route("/shop/", shelf),
        Route("/shop/item/{number:int}", product),
        Route("/shop/cart", cart),
        Route("/shop/checkout", checkout),
        Route("/shop/order", order, methods=["POST"]),
        Route("/shop/thanks", thanks),
    ]


def _shop_page(title: str, content: str) -> Response:
    categories = "".join(f'<li><a href="/shop/?q={kind.lower()}">{kind}s</a></li>' for kind in _KINDS)
    return HTMLResponse(
        f"""<!doctype html><html lang="en"><title>{title} - Corner Shop</title>
<header><a href="/shop/">Corner Shop</a>
<form action="/shop/" role="search"><input name="q" aria-label="Search products"><button>Search</button></form>
<a href="/shop/cart" id="cart-link">Cart (<span id="count">0</span>)</a></header>
<nav aria-label="Categories"><ul>{categories}</ul></nav>
<main>{content}</main>
<footer><a href="/wiki/1">About us</a> <a href="/wiki/2">Delivery</a> <a href="/wiki/3">Returns</a>
<form id="news"><label>Newsletter <input type="email" name="email"></label><button>Subscribe</button></form></footer>
<script src="/pages/shop.js"></script></html>"""
    )


def _price(number: int) -> str:
    return f"€{19 + number * 7 % 80}.90"


def _card(number: int) -> str:
    name = escape(PRODUCTS[number])
    return f"""<li><h2><a href="/shop/item/{number}">{name}</a></h2><p>{_price(number)}</p>
<button class="add" data-name="{name}">Add to cart</button></li>"""


def _product(number: int) -> str:
    name = escape(PRODUCTS[number])
    others = "".join(_card((number + step) % len(PRODUCTS)) for step in (7, 13, 21))
    reviews = "".join(f"<li><strong>Customer {n}</strong><p>Review {n} of the {name}: it is as described.</p></li>"
                      for n in range(1, 7))  # fmt: skip
    return f"""<h1>{name}</h1><p id="price">{_price(number)}</p>
<p>The {name} is made by hand from local wood and wool, and is delivered within five days.</p>
<form id="choice"><label>Quantity <input type="number" name="quantity" value="1" min="1"></label>
<label>Size <select name="size"><option>Small</option><option>Medium</option><option>Large</option></select></label>
<label><input type="checkbox" name="gift"> Gift wrapping</label>
<button class="add" data-name="{name}">Add to cart</button></form><p role="status" id="said"></p>
<details><summary>Details</summary><p>Height 40 cm, width 30 cm, weight 2 kg.</p></details>
<section aria-label="Reviews"><ul>{reviews}</ul></section>
<section aria-label="You may also like"><ul>{others}</ul></section>"""


# --- articles, endless lists, large pages, files


async def _article(request: Request) -> Response:
    number = int(request.path_params["number"])
    title = f"{_TOPICS[number % len(_TOPICS)]} {number}"
    links = [
        f'<a href="/wiki/{number + step}">{_TOPICS[(number + step) % 10]} {number + step}</a>' for step in (1, 2, 9)
    ]
    paragraphs = "".join(
        f"<h2>Part {part} of {title}</h2><p>In {1400 + number * 7 + part} the {title.lower()} was rebuilt by mason "
        f"{number}-{part}, near the {links[part % 3]}, and it has stood there since.</p>"
        for part in range(1, 8)
    )
    side = "".join(f'<li><a href="/wiki/{10 * n + 1}">Volume {n}</a></li>' for n in range(12))
    return HTMLResponse(
        f"""<!doctype html><html lang="en"><title>{title} - Field Guide</title>
<header><a href="/wiki/1">Field Guide</a><input type="search" aria-label="Search the guide"></header>
<nav aria-label="Volumes"><ul>{side}</ul></nav><main><h1>{title}</h1>{paragraphs}
<a href="/wiki/{number + 1}" rel="next">Next article</a></main><footer><p>Article {number}</p></footer></html>"""
    )


async def _feed_items(request: Request) -> Response:
    first = int(request.query_params["from"])
    return JSONResponse([{"number": n, "title": f"Post {n}", "text": f"What happened on day {n}."}
                         for n in range(first, first + 20)])  # fmt: skip


async def _huge(request: Request) -> Response:
    nodes = int(request.query_params.get("nodes", "20000"))
    megabytes = int(request.query_params.get("megabytes", "0"))

    def row(number: int) -> str:
        return f"<li><a href='#row{number}'>Row {number}</a>{f'word{number % 97} ' * 140 if megabytes else ''}</li>"

    def parts() -> Iterator[str]:
        yield "<!doctype html><title>Huge</title><main><h1>Huge</h1><button id=first>First</button><ul>"
        rows = megabytes * 1000 or nodes // 2
        for first in range(0, rows, 500):
            yield "".join(row(number) for number in range(first, min(first + 500, rows)))
        yield "</ul><button id=last>Last</button></main><script src='/pages/huge.js'></script>"

    return StreamingResponse(parts(), media_type="text/html; charset=utf-8")


async def _download(_: Request) -> Response:
    return Response("a,b\n1,2\n", headers={"Content-Disposition": "attachment; filename=report.csv"})


async def _pdf(_: Request) -> Response:
    page = "2 0 obj<</Type/Pages/Kids[3 0 R]/Count 1>>endobj 3 0 obj<</Type/Page/Parent 2 0 R/MediaBox[0 0 9 9]>>endobj"
    text = f"%PDF-1.4\n1 0 obj<</Type/Catalog/Pages 2 0 R>>endobj {page}\ntrailer<</Root 1 0 R>>"
    return Response(text, media_type="application/pdf")


def _upload(sites: Sites) -> Any:
    async def upload(request: Request) -> Response:
        sites.uploads.append((request.headers.get("x-name", ""), await request.body()))
        return PlainTextResponse("taken")

    return upload


# --- slow and broken


def _slow(sites: Sites) -> list[Route]:
    async def slow(request: Request) -> Response:
        with suppress(asyncio.TimeoutError):
            await asyncio.wait_for(sites.ended.wait(), float(request.query_params.get("seconds", "5")))
        return HTMLResponse("<title>Slow</title><h1>It came at last</h1>")

    async def parts(_: Request) -> Response:
        never = "<script async src='/slow/?seconds=3600'></script><img alt='Map' src='/slow/?seconds=3601'>"
        return HTMLResponse(f"<title>Parts</title><h1>Parts</h1>{never}<button>Act</button>")

    async def late(_: Request) -> Response:
        script = "fetch('/slow/?seconds=0.4').then(() => document.body.append('It is here now'))"
        return HTMLResponse(f"<title>Late</title><body><h1>Late</h1><script>{script}</script>")

    return [Route("/slow/", slow), Route("/slow/parts", parts), Route("/slow/late", late)]


def _broken() -> list[Route]:
    async def markup(_: Request) -> Response:
        return HTMLResponse((PAGES / "broken.html").read_text(encoding="utf-8"))

    async def error(_: Request) -> Response:
        return HTMLResponse("<title>Error</title><h1>Something went wrong</h1>", 500)

    async def locked(_: Request) -> Response:
        return PlainTextResponse("Locked", 401, {"WWW-Authenticate": 'Basic realm="vault"'})

    async def cut(_: Request) -> Response:
        async def begun() -> AsyncIterator[str]:
            yield "<title>Cut</title><h1>The page begins</h1>" + " " * 5000
            raise ConnectionError("cut on purpose")

        return StreamingResponse(begun(), media_type="text/html")

    async def loop(_: Request) -> Response:
        return HTMLResponse("<title>Loop</title><h1>Loop</h1><button onclick='for (;;) {}'>Hang</button>")

    return [
        Route("/broken/", markup),
        Route("/broken/error", error),
        Route("/broken/locked", locked),
        Route("/broken/cut", cut),
        Route("/broken/loop", loop),
    ]


# --- hostile


def _hostile() -> list[Route]:
    numbers = count(1)

    async def page(_: Request) -> Response:
        text = (PAGES / "hostile.html").read_text(encoding="utf-8")
        return HTMLResponse(text.replace("PLACEHOLDER", PLACEHOLDER).replace("SPACES", " \u00a0" * 500_000))

    async def redirect(_: Request) -> Response:
        return RedirectResponse(f"/hostile/redirect?n={next(numbers)}")

    async def script(request: Request) -> Response:
        name = request.path_params["name"]
        return HTMLResponse(f"<title>{escape(name)}</title><h1>{escape(name)}</h1><button>Act</button>{_SCRIPTS[name]}")

    return [Route("/hostile/", page), Route("/hostile/redirect", redirect), Route("/hostile/{name}", script)]


_SCRIPTS = {
    "storm": "<p id=p>0</p><script>let n = 0; (function draw() { p.textContent = ++n; document.title = 'storm ' + n;"
    " requestAnimationFrame(draw) })()</script>",
    "reload": "<script>setTimeout(() => location.reload(), 50)</script>",
    "alerts": "<script>setInterval(() => alert('again'), 10)</script>",
    "console": "<script>setInterval(() => { for (let i = 0; i < 1000; i++) console.error('x'.repeat(1000)) }, 10)"
    "</script>",
    "swap": "<script>setInterval(() => { const old = document.querySelector('button'), one = old.cloneNode();"
    " one.textContent = old.textContent == 'Act' ? 'Pay' : 'Act'; old.replaceWith(one) }, 1)</script>",
    "requests": "<script>setInterval(() => fetch('http://10.0.0.1/' + Math.random()).catch(() => 0), 5)</script>",
    "crash": "<button onclick='let place = document.body; for (let n = 0; n < 5000; n++)"
    ' place = place.appendChild(document.createElement("div")); place.append("deep")\'>Crash</button>',
    "history": "<script>setInterval(() => history.pushState(0, '', '#' + Math.random()), 5)</script>",
}
