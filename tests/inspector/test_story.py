"""A real Chromium on the inspector: from the list to the words that the model read, by mouse and by keyboard."""

import pytest
import uvicorn
from playwright.async_api import async_playwright, expect

from memory_context import AgentMemory, MemoryStore
from memory_context.surfaces.inspector import inspector_app

from ..support.browser import chromium_options, nothing_serious
from ..support.serving import serving
from ..support.waiting import PATIENT_SECONDS
from .conftest import POLICY, live


@pytest.mark.thorough
async def test_story_from_the_list_to_what_the_model_read(store: MemoryStore):
    lived = await live(store, "survey")
    errors: list[str] = []
    config = uvicorn.Config(inspector_app(store, "alice", policy=POLICY), log_level="error")
    async with serving(config) as (_, port), async_playwright() as playwright:
        address = f"http://127.0.0.1:{port}/inspector/"
        browser = await playwright.chromium.launch(**chromium_options())
        page = await browser.new_page(viewport={"width": 1280, "height": 900})
        page.set_default_timeout(PATIENT_SECONDS * 1000)
        page.on("console", lambda said: errors.extend([said.text] if said.type in ("error", "warning") else []))
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.on("request", lambda one: errors.extend([] if one.url.startswith(address) else [one.url]))
        await page.goto(address)

        await page.get_by_label("Search").fill("animals")
        await page.get_by_text("27", exact=True).wait_for()  # calls, read when the row came into sight
        await nothing_serious(page)
        await page.get_by_role("link", name="Survey the animals").click()
        calls = page.get_by_role("slider", name="Model calls")
        await expect(calls).to_have_attribute("aria-valuenow", str(lived.calls))
        await page.get_by_text("Byte for byte what was handed out").wait_for()

        await calls.focus()
        await calls.press("Home")
        await page.get_by_role("heading", name="Call 1 of").wait_for()
        await calls.press("ArrowRight")
        await page.get_by_role("heading", name="Call 2 of").wait_for()
        await calls.press("PageDown")
        await page.get_by_role("heading", name="Call 12 of").wait_for()
        assert "call=12" in page.url
        await calls.press("Enter")
        await expect(page.get_by_role("heading", name="Call 12 of")).to_be_focused()

        cost = page.get_by_label("About this call").locator("dd").nth(2)
        before = await cost.inner_text()
        await page.get_by_label("$ per million tokens").fill("300")
        await page.get_by_label("$ per million tokens").press("Enter")
        await expect(cost).not_to_have_text(before)

        reference = page.locator(".segment.placeholder").first
        await reference.locator("summary").click()
        await reference.get_by_text("Compacted as soon as the agent had answered it").wait_for()
        key = await reference.locator(".key-link").inner_text()
        await reference.locator(".key-link").click()
        item = page.get_by_role("dialog", name=key)
        await item.get_by_text("finding 59:").wait_for()
        await item.get_by_label("Search in it").fill("finding 7:")
        await item.get_by_role("button", name="Search").click()
        await expect(item.get_by_text("finding 59:")).to_have_count(0)
        await nothing_serious(page)
        await page.keyboard.press("Escape")

        await page.get_by_label("Token budget").fill("2000")
        await page.get_by_label("Whole result up to").fill("400")
        await page.get_by_role("button", name="Compare").click()
        await (
            page.get_by_role("cell", name="Recorded").or_(page.get_by_role("columnheader", name="Recorded")).wait_for()
        )
        await page.locator("p.warning", has_text="a lower limit changes nothing here").wait_for()
        await page.emulate_media(color_scheme="dark")
        await page.set_viewport_size({"width": 360, "height": 800})
        await nothing_serious(page)
        assert await page.evaluate("document.documentElement.scrollWidth <= innerWidth"), "scrolls sideways"

        await AgentMemory(store, "alice", "coder", "survey").forget(lived.keys[0])
        await calls.press("ArrowLeft")
        await calls.press("Home")
        await calls.press("ArrowRight")
        await page.get_by_role("alert").get_by_text("the store no longer has").wait_for()
        assert errors == []
        await browser.close()
