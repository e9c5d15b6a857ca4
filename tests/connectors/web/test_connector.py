"""The web connector with a real Chromium: what it shows of pages, and what its tools do to them."""

import json
import re

import pytest

from memory_context import ConnectorError, WebConnector
from memory_context.foundation.tokens import default_token_counter

from ...support.sites import Sites
from ...support.web import new_connector, open_page, page, ref_in, run, state, told, use

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def test_first_observation_names_the_page_and_has_its_picture(web: WebConnector) -> None:
    web._seen = None
    await use(web, "goto", url=page("<h1>Hello</h1>", "First"))
    (first,) = [one for one in await told(web) if one.type == "screen"]
    assert first.text.startswith("[web] Initial page: data:text/html;")
    assert first.text.endswith(" (First)")
    assert len(first.images) == 1
    assert await told(web) == []


async def test_update_has_address_title_and_what_changed(web: WebConnector) -> None:
    rows = "".join(f"<li>Row {number}</li>" for number in range(20))
    button = "<button onclick='document.title=`Two`;this.after(`Done`)'>Go</button>"
    shown = await open_page(web, page(f"<ul>{rows}</ul>{button}"))
    await use(web, "click", ref=ref_in(shown, 'button "Go"'))
    (update,) = await told(web)
    head, *lines = update.text.splitlines()
    assert head.startswith("Screen update. Current URL: data:text/html;")
    assert lines == ["Title: Two", '+ "Done"']
    assert update.subject.startswith("page data:text/html;")
    assert len(update.images) == 1


async def test_blinking_cursor_is_no_change_and_a_colour_is(web: WebConnector) -> None:
    cursor = "<span id=c style='background:#000;width:2px;height:18px;display:inline-block'></span>"
    await open_page(web, page(f"<input autofocus>{cursor}"))
    await run(web, "document.getElementById('c').style.visibility = 'hidden'")
    assert await told(web) == []
    await run(web, "document.body.style.background = '#036'")
    (update,) = await told(web)
    assert len(update.images) == 1


async def test_reference_never_clicks_another_element_after_the_page_is_drawn_anew(web: WebConnector) -> None:
    draw = """<ul id=list></ul><script>
      const draw = names => { list.innerHTML = names.map(name =>
        `<li><span>${name}</span> <button onclick="document.title = '${name}'">Delete</button></li>`).join('') };
      draw(['Apple', 'Pear', 'Plum']);</script>"""
    refs = dict(re.findall(r'"(\w+)", button "Delete" \[(e\d+)\]', await open_page(web, page(draw))))
    await run(web, "draw(['Plum', 'Fig', 'Apple'])")
    with pytest.raises(ConnectorError, match="is stale") as refused:
        await use(web, "click", ref=refs["Plum"])
    assert await run(web, "document.title") == "Page"
    now = dict(re.findall(r'"(\w+)", button "Delete" \[(e\d+)\]', str(refused.value)))
    await use(web, "click", ref=now["Plum"])
    assert await run(web, "document.title") == "Plum"


async def test_reference_ends_when_its_row_becomes_another_one(web: WebConnector) -> None:
    """Lists use their elements again, with other texts around the same button."""
    row = "<ul><li><span id=s>Pear</span> <button>Delete</button></li></ul>"
    ref = ref_in(await open_page(web, page(row)), 'button "Delete"')
    await run(web, "s.textContent = 'Fig'")
    with pytest.raises(ConnectorError, match=f'{ref} .* is stale.*\n- "Fig", button "Delete"'):
        await use(web, "click", ref=ref)


async def test_closed_details_show_their_summary_only(web: WebConnector) -> None:
    body = "<details><summary>More</summary><p>Small print</p><button>Buy</button></details>"
    closed = await open_page(web, page(body))
    assert "collapsed" in closed
    assert "Small print" not in closed
    assert 'button "Buy"' not in closed
    await use(web, "click", ref=ref_in(closed, 'button "More"'))
    opened = await state(web)
    assert "Small print" in opened
    assert 'button "Buy"' in opened


async def test_missing_browser_says_what_to_do() -> None:
    with pytest.raises(ConnectorError, match="there is no browser 'no-such-browser'"):
        await WebConnector(browser="no-such-browser").on_start()


async def test_loaded_session_opens_its_pages_and_gives_no_reference_twice(web: WebConnector, sites: Sites) -> None:
    before = await open_page(web, f"{sites.url}/app/")
    later = new_connector()
    later.load_state(json.loads(json.dumps(web.save_state())))
    await later.on_start()
    try:
        (first,) = await told(later)
        assert first.text.startswith(f"[web] Initial page: {sites.url}/app/ (")
        assert min(numbers(await state(later))) > max(numbers(before))
    finally:
        await later.on_stop()


@pytest.mark.parametrize("kept", [{"tree": ["document", "", "", [], "1"], "refs": {"1": "e7"}}, {"lines": [[0, "x"]]}])
async def test_state_of_an_earlier_version_is_loaded(kept: dict[str, object]) -> None:
    web = WebConnector()
    web.load_state({"urls": ["https://example.org/"], "made": 7, "page": {"url": "https://example.org/", **kept}})
    assert web.save_state() == {"urls": ["https://example.org/"], "made": 7}


def numbers(text: str) -> list[int]:
    return [int(one) for one in re.findall(r"\[e(\d+)\]", text)]


async def test_state_shows_what_is_in_view_within_its_limit(web: WebConnector) -> None:
    rows = "".join(f"<p style='height:200px'><button>Row {number}</button></p>" for number in range(300))
    await use(web, "goto", url=page(rows))
    limit, web.state_limit_tokens = web.state_limit_tokens, 300
    try:
        text = await state(web)
        assert 'button "Row 2"' in text
        assert 'button "Row 200"' not in text
        assert "web_find or web_scroll" in text
        assert default_token_counter().count(text) <= 300
        found = await use(web, "find", text="row 29\\d", is_regex=True)
        assert found.count("button") == 10
        await use(web, "scroll", ref=ref_in(found, 'button "Row 299"'))
        assert 'button "Row 299"' in await state(web)
        with pytest.raises(ConnectorError, match="no element of 300 lines has 'Rowing'"):
            await use(web, "find", text="Rowing")
    finally:
        web.state_limit_tokens = limit
