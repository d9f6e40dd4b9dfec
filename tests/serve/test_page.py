"""The page, in a browser that nobody sees."""

import shutil
import time

import pytest

from tests.serve.started import TOKEN, started

CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome")


@pytest.mark.parametrize("path", ["/", "/page.js", "/page.css"])
def test_the_page_loads_nothing_from_elsewhere(client, path):
    status, headers, data = client.ask("GET", path)
    assert status == 200
    assert "default-src 'self'" in headers["content-security-policy"]
    assert b"http:" not in data
    assert b"https:" not in data


@pytest.fixture
def browser():
    playwright = pytest.importorskip("playwright.sync_api")
    if CHROMIUM is None:
        pytest.skip("there is no Chromium here")
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser
        browser.close()


def opened(browser, client, **options):
    page = browser.new_page(**options)
    page.errors = []
    page.on("pageerror", lambda error: page.errors.append(str(error)))
    page.goto(f"http://127.0.0.1:{client.port}/")
    page.wait_for_selector("#picks[data-pick]")
    return page


def wait_for(page, so):
    """Until it is so; not by the browser's own waiting, which the page's security policy forbids."""
    until = time.monotonic() + 30
    while not page.evaluate(so):
        assert time.monotonic() < until, so
        page.wait_for_timeout(20)


def pick(page):
    return int(page.get_attribute("#picks", "data-pick"))


def set_slider(page, selector, value):
    page.eval_on_selector(
        selector, "(own, value) => { own.value = value; own.dispatchEvent(new Event('input')); }", str(value)
    )


def test_the_slider_of_k_shows_what_fewer_candidates_would_have_picked(browser, client):
    page = opened(browser, client)
    examples = client.get("/v1/about")["examples"]["observation"]
    for number, state in enumerate(examples):
        page.select_option("#example", str(number))
        found = client.post("/v1/explain", {"observation": state})["explained"]
        first = found["candidates"][0]["value"]  # another state may have the same pick
        told = f"told.chosen === {found['chosen']} && Math.abs(told.candidates[0].value - {first}) < 1e-4"
        wait_for(page, f"{told} && state.observation[0] === {state[0]}")
        for k in (1, 3, 8):
            set_slider(page, "#k", k)
            own = found["candidates"][:k]
            assert pick(page) == max(own, key=lambda one: one["value"])["action"]
    assert page.errors == []


def test_the_keyboard_moves_k_and_the_map(browser, client):
    page = opened(browser, client, viewport={"width": 390, "height": 800}, color_scheme="dark")
    page.focus("#k")
    page.keyboard.press("Home")
    assert page.text_content("#k-value") == "1 of 40"
    page.focus("#map")
    page.keyboard.press("+")
    page.keyboard.press("+")
    wait_for(page, "drawn.count < 200 && !drawn.view")
    page.keyboard.press("0")
    wait_for(page, "drawn.count === 200")
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert page.errors == []


def test_a_person_with_the_token_adds_and_removes_an_action(browser, agent_file):
    with started(agent_file) as client:
        page = opened(browser, client)
        page.click("#add")
        wait_for(page, "document.getElementById('error').textContent.includes('give the token')")
        page.fill("#token", TOKEN)
        page.click("#add")
        wait_for(page, "told.candidates[0].action === 200")
        page.click("#candidates tr:first-child button")
        wait_for(page, "told.candidates[0].action !== 200")
        assert client.ask("GET", "/v1/actions/200")[0] == 404
        page.close()
