# SPDX-License-Identifier: Apache-2.0
import functools
import http.server
import json
import os
import pathlib
import shutil
import sys
import tempfile
import threading
import urllib.parse

import pytest

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE.parent / "api"), str(HERE.parent / "sdk")]

import chromium  # noqa: E402
import npm_packages  # noqa: E402
import typescript_helpers  # noqa: E402
from api_helpers import ADMIN, CAY, Client, Server  # noqa: E402

PAGE = '<!doctype html><meta charset="utf-8"><title>cay</title><link rel="icon" href="data:,"><script type="module" src="/page.mjs"></script>'
FILES = ("cases.mjs", "run.mjs", "page.mjs")


@pytest.fixture(scope="session")
def top():
    why = chromium.missing()
    if why is not None:
        pytest.skip(f"{why}: scripts/deps full")
    if os.geteuid() != 0:
        pytest.skip("boxes need root")
    assert os.access(CAY, os.X_OK), f"{CAY} is not built"
    path = tempfile.mkdtemp(prefix="cay-browser-")
    os.chmod(path, 0o711)
    yield pathlib.Path(path)
    shutil.rmtree(path)


@pytest.fixture(scope="session")
def site(top):
    """A folder with the page, its cases, and the client as a browser loads it."""
    try:
        npm_packages.check_node()
    except npm_packages.Missing as why:
        pytest.skip(f"no TypeScript: {why}")
    folder = top / "site"
    folder.mkdir()
    (folder / "index.html").write_text(PAGE)
    for name in FILES:
        shutil.copy(HERE / name, folder)
    typescript_helpers.strip(folder / "sdk", sorted((typescript_helpers.SDK / "src").glob("*.ts")))
    return folder


class Handler(http.server.SimpleHTTPRequestHandler):
    extensions_map = {".html": "text/html", ".mjs": "text/javascript", ".js": "text/javascript"}

    def log_message(self, *_):
        pass


@pytest.fixture(scope="session")
def origins(site):
    """Two of them with the same pages: the first may call the server."""
    handler = functools.partial(Handler, directory=str(site))
    servers = [http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) for _ in range(2)]
    threads = [threading.Thread(target=server.serve_forever, daemon=True) for server in servers]
    for thread in threads:
        thread.start()
    yield [f"http://127.0.0.1:{server.server_port}" for server in servers]
    for server, thread in zip(servers, threads):
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.fixture(scope="session")
def server(top, origins):
    (top / "data").mkdir()
    server = Server(top / "data", "--cors", origins[0])
    yield server
    assert server.stop() == 0
    assert server.faults() == []


@pytest.fixture(scope="session")
def browser(top):
    browser = chromium.Browser()
    yield browser
    browser.close()


@pytest.fixture(scope="session")
def run(server, browser):
    """All cases, in a page of this origin or a worker of it: {name: {error, ms}}."""

    @functools.cache
    def run(origin, place):
        slow = Client(server).ok("POST", "/tokens", {"name": f"slow-{place}", "rate": 1})
        config = {"place": place, "url": f"http://127.0.0.1:{server.port}", "token": ADMIN, "slowToken": slow["token"], "id": f"in-{place}"}
        browser.open(f"{origin}/index.html#{urllib.parse.quote(json.dumps(config))}")
        answer = browser.wait_for("return window.results ?? null")
        assert "results" in answer, answer
        return answer["results"]

    return run
