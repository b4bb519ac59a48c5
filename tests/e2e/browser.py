"""
Headless Chromium from Debian for the tests of the dashboard: without a network, as root, in a container with a small
/dev/shm.

SPDX-License-Identifier: GPL-3.0-or-later
"""
import contextlib
import os
import re
import time

import pytest
from selenium import webdriver
from selenium.common.exceptions import StaleElementReferenceException
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.by import By
from selenium.webdriver.support.ui import Select

from conftest import PATIENCE, ROOT, Server

SCREENSHOTS = ROOT / "build" / "screenshots"
OPTIONS = ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu",
           "--disable-background-networking",
           "--disable-component-update", "--no-first-run", "--force-device-scale-factor=1", "--window-size=1280,1000")


class Browser:
    def __init__(self, server, folder):
        options = webdriver.ChromeOptions()
        options.binary_location = "/usr/bin/chromium"
        for option in (*OPTIONS, f"--user-data-dir={folder}"):
            options.add_argument(option)
        options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
        os.environ.setdefault("SE_OFFLINE", "true")
        self.server = server
        self.driver = webdriver.Chrome(service=Service("/usr/bin/chromedriver"), options=options)
        self.downloads = folder / "downloads"
        self.driver.execute_cdp_cmd("Browser.setDownloadBehavior",
                                    {"behavior": "allow", "downloadPath": str(self.downloads)})

    def quit(self):
        self.driver.quit()

    def open(self, view="#/"):
        """Opens the address as if it were typed, so that the page is reloaded."""
        self.driver.get("about:blank")
        self.driver.get(self.server.url + "/" + view)
        self.wait(lambda: self.all("h1"))

    def all(self, selector):
        return self.driver.find_elements(By.CSS_SELECTOR, selector)

    def one(self, selector):
        """The element, once it exists."""
        return self.wait(lambda: self.all(selector))[0]

    def text(self, selector):
        """The text of the element, visible or not."""
        script = "const found = document.querySelector(arguments[0]); return found && [found.textContent]"
        return self.wait(lambda: self.run(script, selector))[0]

    def field(self, pointer):
        return self.one(f'[name="{pointer}"]')

    def enter(self, pointer, value):
        """Enters a value into a field of the form, of any kind, once it is visible."""
        element = self.field(pointer)
        self.wait(element.is_displayed)
        if element.tag_name == "select":
            Select(element).select_by_value(value)
        else:
            element.clear()
            element.send_keys(value)

    def run(self, script, *arguments):
        return self.driver.execute_script(script, *arguments)

    def wait(self, condition, patience=PATIENCE):
        """Waits until the condition holds. If the page replaces an element while it is read, it is read again."""
        deadline = time.monotonic() + patience
        while True:
            with contextlib.suppress(StaleElementReferenceException):
                if value := condition():
                    return value
            assert time.monotonic() < deadline, self.driver.page_source[-6000:]
            time.sleep(0.05)

    def chart(self, name):
        """The data of the chart, from the library that drew it: {label: [[x, y], ...]}."""
        self.wait(lambda: self.run("return Boolean(window.Chart.getChart(arguments[0]))", name))
        return self.run("""return Object.fromEntries(window.Chart.getChart(arguments[0]).data.datasets.map(
            (set) => [set.label, set.data.map((point) => [point.x, point.y])]))""", name)

    def saved(self, label, name):
        """The content of the file that the first button with this label saves; the file is then deleted."""
        self.wait(lambda: [button for button in self.all("button") if button.text == label])[0].click()
        file = self.downloads / name
        self.wait(file.exists)
        text = self.wait(file.read_text)
        file.unlink()
        return text

    def focused(self):
        return self.driver.switch_to.active_element

    def screenshot(self, name):
        """Saves the whole page to build/screenshots."""
        SCREENSHOTS.mkdir(parents=True, exist_ok=True)
        height = self.run("return Math.max(document.body.scrollHeight, 600)")
        self.driver.set_window_size(1280, min(height + 150, 5000))
        assert self.driver.save_screenshot(str(SCREENSHOTS / f"{name}.png"))
        self.driver.set_window_size(1280, 1000)

    def dark(self, on):
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {
            "features": [{"name": "prefers-color-scheme", "value": "dark" if on else "light"}]})

    def complaints(self):
        """The console messages since the last call: script errors, and what the Content-Security-Policy blocked."""
        return [entry["message"] for entry in self.driver.get_log("browser") if entry["level"] == "SEVERE"]


@pytest.fixture(scope="module")
def host(tmp_path_factory):
    """A server that only these tests use."""
    running = Server(tmp_path_factory.mktemp("dashboard"))
    yield running
    running.stop()


@pytest.fixture(scope="module")
def chromium(host, tmp_path_factory):
    started = Browser(host, tmp_path_factory.mktemp("chromium"))
    yield started
    started.quit()


@pytest.fixture
def browser(chromium):
    """After each test, the console must have no messages except errors that the test provoked."""
    chromium.dark(False)
    chromium.complaints()
    yield chromium
    complaints = [line for line in chromium.complaints() if not re.search(r"status of (400|404|409|422)", line)]
    assert not complaints, complaints
