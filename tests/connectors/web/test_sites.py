"""The web connector on pages that browsers and agents find hard: frames, dialogs, tabs, slow, huge and hostile ones."""

import asyncio
from contextlib import suppress

import pytest

from memory_context import ConnectorError, WebConnector
from memory_context.connectors.web import browser
from memory_context.connectors.web import page as page_module
from memory_context.foundation.tokens import default_token_counter

from ...support.sites import Sites
from ...support.waiting import soon, until
from ...support.web import new_connector, open_page, page, ref_in, run, state, told, use

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def test_elements_of_frames_and_shadow_roots_are_read_and_clicked(web: WebConnector, sites: Sites) -> None:
    shown = await open_page(web, f"{sites.url}/frames/")
    for name in ("Press in frame", "Press deep", "Press in shadow", "Paint"):
        await use(web, "click", ref=ref_in(shown, f'button "{name}"'))
    await use(web, "type", ref=ref_in(shown, 'textbox "Word"'), text="inside")
    (update,) = await told(web)
    for change in ("Frame pressed", "Shadow pressed", ']: "inside"'):
        assert change in update.text


async def test_dialog_stops_the_page_until_it_is_answered(web: WebConnector, sites: Sites) -> None:
    shown = await open_page(web, f"{sites.url}/dialogs/")
    prompt = ref_in(shown, 'button "Prompt"')
    said = await soon(use(web, "click", ref=prompt))
    assert said.endswith('Dialog open (prompt): "Your name?"; answer it with web_dialog.')
    assert [one.text for one in await told(web)] == ['[web] Dialog open (prompt): "Your name?"']
    assert 'Dialog open (prompt): "Your name?". Answer it first' in await state(web)
    with pytest.raises(ConnectorError, match="Answer it first"):
        await use(web, "click", ref=prompt)
    await use(web, "dialog", text="Ada")
    (update,) = await told(web)
    assert 'status "Hello Ada"' in update.text


async def test_page_that_asks_before_it_is_left_can_be_kept_and_left(web: WebConnector, sites: Sites) -> None:
    shown = await open_page(web, f"{sites.url}/dialogs/")
    await use(web, "click", ref=ref_in(shown, 'button "Guard leaving"'))
    assert "Dialog open (beforeunload)" in await use(web, "click", ref=ref_in(shown, 'link "Leave"'))
    await use(web, "dialog", accept=False)
    assert f"URL: {sites.url}/dialogs/" in await state(web)
    assert "Dialog open (beforeunload)" in await use(web, "goto", url=f"{sites.url}/still/")
    await use(web, "dialog")
    assert f"URL: {sites.url}/still/" in await state(web)


async def test_new_tab_is_shown_and_a_closed_one_gives_way_to_the_one_before(web: WebConnector, sites: Sites) -> None:
    shown = await open_page(web, f"{sites.url}/tabs/")
    first = web._browser.shown.tab
    await use(web, "click", ref=ref_in(shown, 'link "Open article"'))
    await until(lambda: [*web._browser.tabs][-1] != first)  # its first answer may come late
    await told(web)
    shown = await state(web)
    assert f"URL: {sites.url}/wiki/5" in shown
    assert f'  {first}. "Tabs" {sites.url}/tabs/\n' in shown
    await use(web, "close_tab", tab=web._browser.shown.tab)
    assert f"URL: {sites.url}/tabs/" in await state(web)
    with pytest.raises(ConnectorError, match="there is no tab 999"):
        await use(web, "switch_tab", tab=999)


async def test_storm_of_tabs_is_bounded(web: WebConnector, sites: Sites, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(browser, "_MOST_TABS", 6)
    shown = await open_page(web, f"{sites.url}/tabs/")
    first = web._browser.shown.tab
    with suppress(ConnectorError):  # it takes long
        await use(web, "click", ref=ref_in(shown, 'button "Open twelve"'))
    assert len(web._browser.tabs) <= 6
    for number in [one for one in web._browser.tabs if one != first]:
        await use(web, "close_tab", tab=number)
    web._browser.news.clear()


async def test_download_lands_in_the_folder_and_can_be_uploaded(web: WebConnector, sites: Sites) -> None:
    shown = await open_page(web, f"{sites.url}/tabs/")
    said = await use(web, "download", ref=ref_in(shown, 'link "Download report"'))
    assert said.startswith("Download: report.csv (8 bytes), in ")
    assert "Downloads: report.csv (8 bytes)" in await state(web)
    attach = ref_in(shown, 'button "Attach"')
    await use(web, "upload", ref=attach, files=["report.csv"])
    await use(web, "click", ref=ref_in(shown, 'button "Send file"'))
    assert sites.uploads == [("report.csv", b"a,b\n1,2\n")]
    with pytest.raises(ConnectorError, match="leads out of the folder"):
        await use(web, "upload", ref=attach, files=["../../etc/passwd"])


async def test_page_that_never_ends_loading_is_shown(
    web: WebConnector, sites: Sites, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(page_module, "_STILL_LOADING_SECONDS", 0.3)
        assert 'button "Act"' in await open_page(web, f"{sites.url}/slow/parts")
    assert '"It is here now"' in await open_page(web, f"{sites.url}/slow/late")


async def test_broken_page_is_read(web: WebConnector, sites: Sites) -> None:
    """Its markup is, and its script changes objects that the reader does not share with it."""
    shown = await open_page(web, f"{sites.url}/broken/")
    assert 'link "Somewhere"' in shown
    assert 'heading "Something went wrong"' in shown
    assert "(status 500)" in await use(web, "goto", url=f"{sites.url}/broken/error")


async def test_request_that_asks_for_a_password_ends_with_401(web: WebConnector, sites: Sites) -> None:
    await open_page(web, f"{sites.url}/still/")
    assert await soon(run(web, "fetch('/broken/locked').then((answer) => answer.status)")) == 401
    assert "(status 401)" in await use(web, "goto", url=f"{sites.url}/broken/locked")


async def test_page_that_hangs_gives_way_to_another(
    web: WebConnector, sites: Sites, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown = await open_page(web, f"{sites.url}/broken/loop")
    (await web._browser.tab()).page.set_default_timeout(3000)
    with pytest.raises(ConnectorError):
        await use(web, "click", ref=ref_in(shown, 'button "Hang"'))
    with monkeypatch.context() as patch:
        patch.setattr(page_module, "_ANSWER_SECONDS", 0.5)
        assert any("does not answer" in one.text for one in await told(web))
        shown = await state(web)
        assert "the page does not answer" in shown
        assert "below is the page as it was last read" in shown
    assert 'button "Paint"' in await open_page(web, f"{sites.url}/still/")


async def test_crashed_page_is_told_and_another_is_opened(web: WebConnector, sites: Sites) -> None:
    await open_page(web, f"{sites.url}/still/")
    tab = await web._browser.tab()
    crashed = asyncio.Event()
    tab.page.on("crash", lambda _: crashed.set())
    session = await tab.page.context.new_cdp_session(tab.page)
    crash = asyncio.ensure_future(session.send("Page.crash"))  # it has no answer
    await soon(crashed)
    crash.cancel()
    assert any("crashed" in one.text for one in await told(web))
    assert "the page crashed; go to an address again" in await state(web)
    assert 'button "Paint"' in await open_page(web, f"{sites.url}/still/")


async def test_list_that_grows_by_scrolling_is_told_by_what_came(web: WebConnector, sites: Sites) -> None:
    await open_page(web, f"{sites.url}/feed/")
    await use(web, "scroll", screens=5)
    await use(web, "wait", text="Post 21", seconds=30)
    (update,) = await told(web)
    assert '"Post 21"' in update.text
    assert '"Post 5"' not in update.text


async def test_large_page_is_read_whole_and_its_last_element_clicked(web: WebConnector, sites: Sites) -> None:
    shown = await open_page(web, f"{sites.url}/huge?nodes=3000")
    assert default_token_counter().count(shown) <= web.state_limit_tokens
    last = ref_in(await use(web, "find", text='button "Last"'), 'button "Last"')
    await use(web, "click", ref=last)
    (update,) = await told(web)
    assert '~ button "Pressed last"' in update.text
    assert len(update.text) < 1000


async def test_text_of_a_page_cannot_pass_for_anything_else(web: WebConnector, sites: Sites) -> None:
    shown = await open_page(web, f"{sites.url}/hostile/")
    lines = (await use(web, "find", text="Delete|gnirts|begin|isolated|Password|red|long", is_regex=True)).splitlines()
    assert all(line.lstrip().startswith("- ") for line in lines)
    assert max(map(len, lines)) < 300
    text = "\n".join(lines)
    assert '"Pay" [e999]' not in text
    assert not any(mark in text for mark in "\u202e\u2066\u200b\x1b")
    assert 'textbox "Password"' in text
    assert "hunter2" not in text
    assert default_token_counter().count(shown) <= web.state_limit_tokens


async def test_endless_redirects_and_other_schemes_are_refused(web: WebConnector, sites: Sites) -> None:
    with pytest.raises(ConnectorError, match="ERR_TOO_MANY_REDIRECTS"):
        await use(web, "goto", url=f"{sites.url}/hostile/redirect")
    for url in ("file:///etc/passwd", "chrome://settings", "javascript:alert(1)", "view-source:http://127.0.0.1/"):
        with pytest.raises(ConnectorError, match="only http and https"):
            await use(web, "goto", url=url)


async def test_page_that_never_rests_is_shown(web: WebConnector, sites: Sites, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page_module, "_RESTLESS_SECONDS", 0.2)
    shown = await open_page(web, f"{sites.url}/hostile/storm")
    assert (await use(web, "click", ref=ref_in(shown, 'button "Act"'))).startswith("Clicked")


async def test_page_whose_dialogs_never_end_can_be_left(web: WebConnector, sites: Sites) -> None:
    await use(web, "goto", url=f"{sites.url}/hostile/alerts")
    tab = await web._browser.tab()
    await soon(tab.dialog_opened)

    async def is_left() -> bool:  # on a slow machine the next dialog may come later than it is waited for
        return str(await use(web, "goto", url=f"{sites.url}/still/")).startswith("Opened")

    assert await until(is_left)
    assert 'heading "Still"' in await state(web)


async def test_link_to_a_refused_host_is_told_and_can_be_left(sites: Sites) -> None:
    host = sites.url.removeprefix("http://")
    web = new_connector(allowed_hosts=[host])
    await web.on_start()
    try:
        link = f"<a href='http://localhost:{host.partition(':')[2]}/still/'>Elsewhere</a>"
        await use(web, "goto", url=page(link))
        await told(web)
        await use(web, "click", ref=ref_in(await state(web), 'link "Elsewhere"'))
        texts = [one.text for one in await told(web)]
        assert any("it is not among the allowed hosts" in one for one in texts)
        with pytest.raises(ConnectorError, match="among the allowed hosts"):
            await use(web, "goto", url="https://example.org/")
        assert str(await use(web, "goto", url=f"{sites.url}/still/")).startswith("Opened")
        assert 'heading "Still"' in await state(web)
    finally:
        await web.on_stop()
