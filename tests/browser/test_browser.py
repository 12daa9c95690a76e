# SPDX-License-Identifier: Apache-2.0
"""The TypeScript client in a real browser: in a page of another origin than the server's, which `--cors` names, and in a
module worker of that page. The tests themselves are in cases.mjs: each is a case here, and all run once in either place."""

import json
import pathlib
import re

import pytest

CASES = re.findall(r'^test\("((?:[^"\\]|\\.)*)"', pathlib.Path(__file__).with_name("cases.mjs").read_text(encoding="utf-8"), re.M)


@pytest.mark.parametrize("place", ["page", "worker"])
@pytest.mark.parametrize("name", [json.loads(f'"{name}"') for name in CASES])
def test_client(run, origins, name, place):
    result = run(origins[0], place)[name]
    assert result["error"] is None, result["error"]


REFUSED = """
const done = arguments[arguments.length - 1];
const [url, token] = arguments;
const { getSandbox } = await import('/sdk/index.js');
const sandbox = getSandbox('stranger', { url, token, retries: 0 });
const nameOf = (promise) => promise.then(() => 'no error', (error) => `${error.name}: ${error.message}`);
done([await nameOf(sandbox.exec('true')), await nameOf(sandbox.terminal().then((address) => address.connect()))]);
"""


def test_pages_that_are_not_listed(server, browser, origins):
    """Even with the right token: neither by requests nor by a WebSocket."""
    from api_helpers import ADMIN, Client

    browser.open(f"{origins[1]}/cases.mjs")
    script = {"script": f"return (async () => {{{REFUSED}}})()", "args": [f"http://127.0.0.1:{server.port}", ADMIN]}
    said = browser.ask("POST", f"/session/{browser.session}/execute/async", script)
    assert all(text.startswith("ConnectionError: ") for text in said), said
    assert "--cors" in said[0]
    Client(server)("GET", "/sandbox/stranger").error(404, "NOT_FOUND")
