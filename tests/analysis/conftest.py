"""A browser for the tests of report.html."""

import shutil

import pytest


@pytest.fixture(scope="package")
def browser():
    """A headless Chromium: Playwright's own, or the system's."""
    api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed (pip install playwright)")
    system = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    with api.sync_playwright() as playwright:
        try:
            opened = playwright.chromium.launch(executable_path=system, args=["--no-sandbox"])
        except api.Error as error:
            pytest.skip(f"no browser here (playwright install chromium, or apt install chromium): {error.message[:80]}")
        yield opened
        opened.close()


@pytest.fixture
def page(browser):
    """A page without a network that fails the test on any error or request beyond the file itself."""
    context = browser.new_context(offline=True, viewport={"width": 1280, "height": 900})
    opened = context.new_page()
    wrong: list[str] = []
    opened.on("pageerror", lambda error: wrong.append(str(error)))
    opened.on("console", lambda message: wrong.append(message.text) if message.type in ("error", "warning") else None)
    opened.on("requestfailed", lambda request: wrong.append(f"request {request.url}"))
    yield opened
    context.close()
    assert not wrong
