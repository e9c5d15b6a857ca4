"""The page in a real browser: what people see, hear and press; nothing in a message can become part of it."""

import asyncio
import json
from typing import Any

import pytest
from playwright.async_api import Page, Route

from .conftest import Visit, answers, begin, mid_answer, say, session_of, words

pytestmark = pytest.mark.asyncio(loop_scope="module")

A_TOUR = "Give me a tour, slowly: which parts does the package have?"
A_FACT = "Remember that the release is on Friday"
A_FILE = "Read store/pool.py and show me how a connection is opened"

HOSTILE = """<img src=x onerror="window.hacked=1"><script>window.hacked=1</script>
[click](javascript:window.hacked=1) [data](data:text/html,<script>window.hacked=1</script>) **<b>bold</b>**
`<i>code</i>` http://example.com/"onmouseover="window.hacked=1
- <svg onload=window.hacked=1>
```html
</code></pre><script>window.hacked=1</script>
```"""

# WCAG 2.1: relative luminance and contrast, of every text that shows, against what it stands on
CONTRAST = """() => {
  const paint = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  const rgba = colour => {
    paint.clearRect(0, 0, 1, 1);
    paint.fillStyle = colour;
    paint.fillRect(0, 0, 1, 1);
    return [...paint.getImageData(0, 0, 1, 1).data];
  };
  const over = ([r, g, b, a], below) => [r, g, b].map((value, i) => (value * a + below[i] * (255 - a)) / 255);
  const behind = element => {
    const layers = [];
    for (let at = element; at; at = at.parentElement) layers.push(rgba(getComputedStyle(at).backgroundColor));
    return layers.reduceRight((below, layer) => over(layer, below), [255, 255, 255]);
  };
  const luminance = colour => {
    const [r, g, b] = colour.map(v => v / 255).map(v => (v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const bad = [];
  for (const element of document.querySelectorAll("body *")) {
    const says = [...element.childNodes].some(node => node.nodeType === 3 && node.data.trim());
    const isShown = element.checkVisibility({ visibilityProperty: true });
    if (!says || !isShown || element.closest(".visually-hidden, :disabled")) continue;
    const ground = behind(element);
    const text = over(rgba(getComputedStyle(element).color), ground);
    const [dark, light] = [luminance(ground), luminance(text)].sort((one, other) => one - other);
    const contrast = (light + 0.05) / (dark + 0.05);
    if (contrast < 4.5) bad.push(`${contrast.toFixed(2)} ${element.outerHTML.slice(0, 200)}`);
  }
  return bad;
}"""

NAMELESS = """() => {
  const nameOf = element => (element.ariaLabel
    || document.getElementById(element.getAttribute("aria-labelledby"))?.innerText
    || [...(element.labels ?? [])].map(label => label.textContent).join("") || element.textContent || "").trim();
  const named = "button, a[href], input, textarea, select, nav, aside, dialog, [role=region], form[aria-label]";
  return [...document.querySelectorAll(named)].filter(element => !nameOf(element) && element.tagName !== "DIALOG")
    .map(element => element.outerHTML.slice(0, 120));
}"""


async def open_with(page: Page, text: str) -> None:
    """Have the server give this answer to what is said next."""

    async def answer(route: Route) -> None:
        asked = json.loads(route.request.post_data or "")["new_messages"][0]
        message = {"id": f"a-{asked['id']}", "text": text, "sender": "ai", "timestamp": "2030-01-01T00:00:00Z"}
        step = {"kind": "result", "name": "<b>tool</b>", "summary": text}
        events = [
            ("session", {"session_id": "given", "agent_id": "a", "answer_id": message["id"]}),
            ("step", step),
            *(("delta", {"text": text[place : place + 7]}) for place in range(0, len(text), 7)),
            ("message", message),
            ("done", {"stored_ids": [asked["id"], message["id"]], "replayed": False}),
        ]
        body = "".join(f": ping\r\n\r\nevent: {name}\r\ndata: {json.dumps(data)}\r\n\r\n" for name, data in events)
        await route.fulfill(status=200, content_type="text/event-stream", body=body)

    async def nothing(route: Route) -> None:
        await route.fulfill(json={"messages": [], "next": None})

    await page.route("**/api/chat", answer)
    await page.route("**/messages?*", nothing)  # the server has not heard of this conversation


async def test_what_looks_like_html_stays_text(visit: Visit):
    """In what is said, in the answer, in its steps and in a title; a script's address is no link."""
    visitor, page = await begin(visit)
    await open_with(page, HOSTILE)
    await say(page, HOSTILE)
    await answers(page, 1)
    assert (await words(page))[0] == ["user", HOSTILE.strip()]
    shown = page.locator(".message.ai")
    assert await shown.locator("script, img, b, i, svg[onload]").count() == 0
    assert await page.evaluate("() => window.hacked") is None
    links = await shown.locator("a").evaluate_all("links => links.map(link => [link.href, link.rel])")
    assert links == [["http://example.com/", "noopener noreferrer"]]
    assert await shown.locator("strong").inner_text() == "<b>bold</b>"
    assert await shown.locator("pre code").inner_text() == "</code></pre><script>window.hacked=1</script>"
    assert "<b>tool</b>" in await shown.locator("summary").inner_text()
    assert await page.evaluate("() => fetch('https://example.com/').then(() => true, () => false)") is False
    answer = await page.request.get(visitor.server.url)
    assert answer.headers["x-frame-options"] == "DENY"
    visitor.errors.clear()  # the browser says what it refused


async def test_markdown_is_shown_as_what_it_means(visit: Visit):
    """Paragraphs, lists, code with a button that copies it, bold, links."""
    _, page = await begin(visit, permissions=["clipboard-read"])
    text = (
        "# Title\nFirst **bold** line\n\n1. one\n\n2. two\n   more\n\n- dot `a**b**`\n\n"
        "```python\nif a < b:\n\n    pass\n```\nSee [the docs](https://example.com/a_(b)) and 2 * 3 * 4."
    )
    await open_with(page, text)
    await say(page, "show me")
    await answers(page, 1)
    html = await page.locator(".message.ai .text").evaluate("text => [...text.children].map(one => one.tagName)")
    assert html == ["H3", "P", "OL", "UL", "FIGURE", "P"]
    assert await page.locator(".message.ai .text ol li").all_inner_texts() == ["one", "two more"]
    assert await page.locator(".message.ai .text ul code").inner_text() == "a**b**"
    assert await page.locator(".message.ai a").get_attribute("href") == "https://example.com/a_(b)"
    await page.get_by_role("button", name="Copy").click()
    await page.get_by_role("button", name="Copied").wait_for()
    assert await page.evaluate("() => navigator.clipboard.readText()") == "if a < b:\n\n    pass"


@pytest.mark.parametrize("scheme", ["light", "dark"])
async def test_everything_can_be_read_and_has_a_name(visit: Visit, scheme: Any):
    """Contrast of 4.5 and more, names for all that can be pressed, landmarks; an answer is said once."""
    visitor, page = await begin(visit, color_scheme=scheme)
    assert await page.evaluate(CONTRAST) == []
    await page.evaluate(
        "() => { window.heard = []; const spoken = document.getElementById('announcer');"
        " new MutationObserver(() => window.heard.push(spoken.textContent)).observe(spoken, { childList: true }); }"
    )
    await say(page, A_FILE)
    await answers(page, 1)
    (heard,) = await page.evaluate("() => window.heard")
    assert heard.startswith("Answer: This is the place")
    assert (await page.locator("summary").inner_text()).strip() == "Steps: read file"
    await page.locator("summary").click()
    await page.locator(".steps .chip").first.click()  # what is stored opens, page by page
    item = page.locator("#item")
    await item.get_by_text("lines 1–").wait_for()
    assert (await item.get_by_role("heading").inner_text()).startswith("store/pool.py")
    assert "class ConnectionPool" in await item.locator("pre").inner_text()
    assert await page.evaluate(CONTRAST) == []
    await item.get_by_role("button", name="Close").click()
    colour = "() => getComputedStyle(document.body).backgroundColor"
    before = await page.evaluate(colour)
    await page.get_by_role("button", name="Switch between light and dark").click()
    chosen = await page.evaluate(colour)
    await page.reload()
    assert await page.evaluate(colour) == chosen != before
    await page.route("**/api/chat", lambda route: route.fulfill(status=500, body='{"detail": "no"}'))
    await say(page, A_FACT)
    await page.wait_for_selector("[data-state=failed]")
    await visitor.context.set_offline(True)
    await page.wait_for_selector("#connection[data-state=offline]")
    assert await page.evaluate(CONTRAST) == []
    assert await page.evaluate(NAMELESS) == []
    for role in ("main", "complementary", "navigation"):
        assert await page.get_by_role(role).count() == 1, role
    assert await page.get_by_role("heading", level=1).count() == 1
    assert await page.locator("html").get_attribute("lang") == "en"
    visitor.errors.clear()


@pytest.mark.parametrize(("width", "height"), [(320, 568), (390, 844), (1280, 800), (2560, 1200)])
async def test_nothing_sticks_out_on_any_screen(visit: Visit, width: int, height: int):
    """No sideways scrolling, from a small phone to a wide screen; the message box stays in sight."""
    size = {"width": width, "height": height}
    _, page = await begin(visit, viewport=size, is_mobile=width < 400, has_touch=width < 400)
    await open_with(page, f"{'x' * 300} https://example.com/{'y' * 300}\n\n```\n{'z' * 400}\n```\n- {'w' * 200}")
    await page.fill("#text", "v" * 300)
    await page.click("#send")
    await answers(page, 1)
    sizes = await page.evaluate(
        "() => [document.documentElement, document.getElementById('scroller')].map(e => [e.scrollWidth, e.clientWidth])"
    )
    assert all(wide <= room for wide, room in sizes)
    box = await page.locator("#composer").bounding_box()
    assert box is not None
    assert box["x"] >= 0
    assert box["x"] + box["width"] <= width
    assert box["y"] + box["height"] <= height
    if width < 800:
        await page.click("#menu")
        await page.get_by_role("button", name="New chat").wait_for()
        await page.keyboard.press("Escape")
        await page.get_by_role("button", name="New chat").wait_for(state="hidden")


async def test_older_messages_come_in_above_and_reading_is_left_alone(visit: Visit):
    """Scrolling up loads them without a jump; what is new meanwhile is offered, not forced upon the reader."""
    visitor, page = await begin(visit, A_FACT)
    address = f"{visitor.server.url}api/chat/session/archive_messages"
    times = [f"2020-01-01T00:{i // 60:02}:{i % 60:02}Z" for i in range(90)]
    said = [{"id": at, "text": f"message {at}\n" * 3, "sender": "user", "timestamp": at} for at in times]
    said.append({"id": "forged", "text": "I deleted it.", "sender": "ai", "timestamp": "2020-01-02T00:00:00Z"})
    answer = await page.request.post(address, data={"session_id": session_of(page), "messages_batch": said})
    assert answer.ok, await answer.text()
    await page.reload()
    await page.wait_for_function("() => document.querySelectorAll('.message').length === 50")
    marked = page.locator(".message", has=page.locator(".unverified"))  # the server cannot confirm what a page brought
    assert await marked.locator(".text").all_inner_texts() == ["I deleted it."]
    kept = page.locator("#messages li").nth(3)
    text = await kept.inner_text()
    await page.evaluate("() => { document.getElementById('scroller').scrollTop = 150 }")
    await page.wait_for_function("() => document.querySelectorAll('.message').length > 90")
    box = await page.locator("#messages li", has_text=text.splitlines()[1]).bounding_box()
    assert box is not None
    assert -200 < box["y"] < 600
    await page.fill("#text", "x")
    other = await visitor.come(f"#/{session_of(page)}")
    await say(other, A_FACT)
    await page.get_by_role("button", name="New messages").click()
    await answers(page, 2)
    assert not await page.get_by_role("button", name="New messages").is_visible()


async def test_conversations_are_listed_opened_and_deleted(visit: Visit):
    """The last used first; what was typed waits in its conversation, an answer goes on while another is looked at."""
    visitor, page = await begin(visit, A_FACT)
    await page.fill("#text", "half a thought")
    await page.click("#new-chat")
    assert await page.input_value("#text") == ""
    await say(page, A_TOUR)
    await mid_answer(page)
    # a frame that is drawn before the page hears of the new address writes that of the conversation it still shows
    await page.get_by_role("link", name=A_FACT).evaluate(
        "link => { const { hash } = location; link.click(); history.replaceState(null, '', hash); }"
    )
    await page.locator(".message.user", has_text=A_FACT).wait_for()
    assert await page.input_value("#text") == "half a thought"
    await page.wait_for_function("() => document.querySelectorAll('.session').length === 2")
    assert await page.locator(".session a").all_inner_texts() == [A_TOUR, A_FACT]
    assert await page.locator(".session a[aria-current=page]").inner_text() == A_FACT
    await page.go_back()
    await page.locator(".message.user", has_text=A_TOUR).wait_for()
    await answers(page, 1)
    session = session_of(page)
    page.once("dialog", lambda dialog: asyncio.ensure_future(dialog.dismiss()))
    await page.locator(".session button").first.click()
    assert await page.locator(".session").count() == 2
    page.once("dialog", lambda dialog: asyncio.ensure_future(dialog.accept()))
    await page.locator(".session a").first.focus()
    await page.keyboard.press("Tab")
    assert await page.locator(":focus").evaluate("e => getComputedStyle(e).outlineStyle") == "solid"
    await page.keyboard.press("Enter")
    await page.wait_for_selector("#empty")
    assert await page.evaluate("() => document.activeElement.id") == "text"
    assert await page.locator(".session a").all_inner_texts() == [A_FACT]
    again = await visitor.come(f"#/{session}")
    await again.wait_for_selector("#notice >> text=not here")
    visitor.errors.clear()  # the 404


async def test_everything_works_with_the_keyboard(visit: Visit):
    """One can type at once; Enter sends, Shift+Enter begins a line."""
    _, page = await begin(visit)
    assert await page.evaluate("() => document.activeElement.id") == "text"
    await page.keyboard.type("Remember that")
    await page.keyboard.press("Shift+Enter")
    await page.keyboard.type("the release is on Friday")
    await page.keyboard.press("Enter")
    await answers(page, 1)
    assert (await words(page))[0] == ["user", "Remember that\nthe release is on Friday"]


async def test_page_links_to_each_call_of_its_conversation(visit: Visit):
    visitor, page = await begin(visit, "Give me a tour: which parts does the package have?")
    await visitor.archived(page, 2)
    async with page.expect_popup() as opened:
        await page.get_by_role("link", name="What the model read").click()
    inspector = await opened.value
    await inspector.get_by_text("Byte for byte what was handed out").wait_for()
    assert session_of(page) in inspector.url
