# SPDX-License-Identifier: Apache-2.0
"""Chromium without a screen, driven over WebDriver: plain HTTP to ChromeDriver, and a profile that is new and goes in the end."""

import http.client
import json
import re
import shutil
import subprocess
import tempfile
import time

PATIENCE = 300  # seconds; only a hang gets that far
FLAGS = [
    "--headless",
    "--no-sandbox",  # it runs as root here, and loads nothing but our own pages
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
]


def missing():
    """What there is not, or None."""
    gone = [name for name in ("chromium", "chromedriver") if shutil.which(name) is None]
    return f"there is no {' and no '.join(gone)}" if gone else None


class Browser:
    def __init__(self):
        self.profile = tempfile.mkdtemp(prefix="cay-chromium-")
        self.driver = subprocess.Popen(["chromedriver", "--port=0"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        self.session = None
        try:
            self.port = self.read_port()
            options = {"args": [*FLAGS, f"--user-data-dir={self.profile}"], "binary": shutil.which("chromium")}
            made = self.ask("POST", "/session", {"capabilities": {"alwaysMatch": {"goog:chromeOptions": options}}})
            self.session = made["sessionId"]
        except BaseException:
            self.close()
            raise

    def read_port(self):
        said = ""
        for line in self.driver.stdout:
            said += line
            if found := re.search(r"started successfully on port (\d+)", line):
                return int(found[1])
        raise AssertionError(f"ChromeDriver does not start: {said}")

    def ask(self, method, path, body=None):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)
        try:
            connection.request(method, path, None if body is None else json.dumps(body), {"Content-Type": "application/json"})
            answer = connection.getresponse()
            value = json.loads(answer.read())["value"]
        finally:
            connection.close()
        assert answer.status == 200, value
        return value

    def open(self, url):
        self.ask("POST", f"/session/{self.session}/url", {"url": "about:blank"})  # a fragment alone would load nothing
        self.ask("POST", f"/session/{self.session}/url", {"url": url})

    def wait_for(self, script):
        """What the script returns in the page, when that is something."""
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            value = self.ask("POST", f"/session/{self.session}/execute/sync", {"script": script, "args": []})
            if value is not None:
                return value
            time.sleep(0.1)
        raise AssertionError(f"'{script}' never returned anything")

    def close(self):
        try:
            if self.session is not None:
                self.ask("DELETE", f"/session/{self.session}")  # ends Chromium
        finally:
            self.driver.terminate()
            self.driver.wait(PATIENCE)
            self.driver.stdout.close()
            shutil.rmtree(self.profile, ignore_errors=True)
