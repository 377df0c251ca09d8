"""A real browser without a network, and what a page did in it."""

import os
import shutil
from pathlib import Path

import pytest

ARGUMENTS = [
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking"),
    *("--disable-component-update", "--disable-sync"),
]
NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


def find_browser():
    """Path of a browser; skips, and says why, where there is none."""
    path = os.environ.get("MTGBN_BROWSER") or next(filter(None, map(shutil.which, NAMES)), None)
    if path is None:
        pytest.skip(
            "no chromium; install it (Debian: apt-get install chromium) or set MTGBN_BROWSER"
        )
    return path


class Opened:
    """A page in a context of its own, offline from the beginning."""

    def __init__(self, browser, path, width=1280):
        self.context = browser.new_context(
            viewport={"width": width, "height": 900}, accept_downloads=True
        )
        self.context.set_offline(True)
        self.page = self.context.new_page()
        self.problems, self.requests = [], []
        self.page.on("console", self._hear)
        self.page.on("pageerror", lambda error: self.problems.append(str(error)))
        self.page.on("dialog", self._dismiss)
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.address = Path(path).resolve().as_uri()
        self.page.goto(self.address)
        self.page.wait_for_selector("html[data-ready]", state="attached", timeout=20_000)

    def _hear(self, message):
        if message.type in ("error", "warning"):
            self.problems.append(message.text)

    def _dismiss(self, dialog):
        self.problems.append(f"dialog: {dialog.message}")
        dialog.dismiss()

    def check(self):
        """Nothing went wrong, and nothing was asked for but the file and what it holds."""
        assert self.problems == []
        outside = [url for url in self.requests if not url.startswith(("data:", "blob:"))]
        assert outside == [self.address]

    def overflow(self):
        return self.page.evaluate("document.documentElement.scrollWidth - window.innerWidth")

    def table(self, name):
        """Header and cells that the table shows, numbers in full."""
        return self.page.evaluate(
            """name => {
              const root = document.querySelector(`[data-table="${name}"]`);
              const cell = (each) => each.dataset.value ?? each.textContent;
              return {
                header: [...root.querySelectorAll("thead button")].map((each) => each.textContent),
                rows: [...root.querySelectorAll("tbody tr")].map((row) => [...row.cells].map(cell)),
                status: root.querySelector(".status").textContent,
              };
            }""",
            name,
        )

    def download(self, name):
        """What the button of a table gives: name of the file and bytes."""
        with self.page.expect_download() as caught:
            self.page.click(f'[data-table="{name}"] .download')
        return caught.value.suggested_filename, Path(caught.value.path()).read_bytes()

    def close(self):
        self.context.close()
