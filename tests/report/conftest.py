"""One browser for all tests of reports."""

import pytest
from report.browser import ARGUMENTS, Opened, find_browser


@pytest.fixture(scope="session")
def browser():
    path = find_browser()
    playwright = pytest.importorskip("playwright.sync_api")
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=path, args=ARGUMENTS)
        yield browser
        browser.close()


@pytest.fixture
def opened(browser):
    """Opens pages, and checks at the end that all of them behaved."""
    pages = []

    def open_page(path, width=1280):
        pages.append(Opened(browser, path, width))
        return pages[-1]

    yield open_page
    for each in pages:
        each.check()
        each.close()
