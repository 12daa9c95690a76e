# SPDX-License-Identifier: Apache-2.0
"""Credentials in OpenCode's configuration: used, and nowhere in the box."""

import base64
import json
import secrets
import sqlite3

import pytest
from agents_helpers import Client, make_box

OWN = "sk-ant-own-" + secrets.token_hex(16)
OTHER = "key-of-another-" + secrets.token_hex(16)


@pytest.fixture(scope="module")
def opened(top, model):
    """A server that lets secrets go to the stand-in, and its client."""
    from agents_helpers import end, serve

    server = serve(top, model, "--egress-private", "127.0.0.1/32", "--boxes", "8", "--pool", "1")
    yield Client(server)
    end(server)


def config_of(model):
    return {"provider": {"anthropic": {"options": {"apiKey": OWN, "baseURL": f"{model.url}/v1"}}}}


def other_config_of(model):
    """Another provider that speaks the same language, with a list of models of its own."""
    options = {"baseURL": f"{model.url}/v1", "headers": {"X-Api-Key": OTHER}}
    models = {"claude-sonnet-5-5": {"name": "one"}}
    provider = {"npm": "@ai-sdk/anthropic", "name": "Another", "options": options, "models": models}
    return {"provider": {"another": provider}, "model": "another/claude-sonnet-5-5", "small_model": "another/claude-sonnet-5-5"}


def say(api, box, text, **more):
    return api.ok("POST", f"/sandbox/{box}/message", {"message": text, **more})


def keys_of(model, words):
    return {r["headers"].get("x-api-key") for r in model.requests(words)}


def pid_of(api, box):
    return api.ok("GET", f"/sandbox/{box}/processes/opencode")["process"]["pid"]


# Looks for a text where programs of the box could; it is given in halves, so that it does not find itself.
SEARCH = r"""
import os, sys
word = (sys.argv[1] + sys.argv[2]).encode()
found = []
def look(path):
    try:
        with open(path, "rb") as f:
            if word in f.read(64 << 20):
                found.append(path)
    except OSError:
        pass
for pid in filter(str.isdigit, os.listdir("/proc")):
    for name in ("environ", "cmdline"):
        look(f"/proc/{pid}/{name}")
for top in ("/root", "/workspace", "/tmp", "/run", "/var/tmp", "/home", "/etc", "/dev/shm"):
    for folder, _, names in os.walk(top):
        for name in names:
            path = os.path.join(folder, name)
            if os.path.isfile(path):
                look(path)
print(found)
"""


def assert_not_in_box(api, box, word):
    argv = ["python3", "-c", SEARCH, word[:12], word[12:]]
    assert api.exec(box, {"argv": argv})["stdout"].strip() == "[]"
    for path in ("config", "config/providers", "provider"):
        assert word.encode() not in api("GET", f"/sandbox/{box}/opencode/{path}").body
    for path in ("processes/opencode", "processes/opencode/logs", "events", ""):
        assert word.encode() not in api("GET", f"/sandbox/{box}/{path}".rstrip("/")).body


def own_secrets(server):
    database = sqlite3.connect(f"file:{server.data}/daemon/cay.db?mode=ro", uri=True)
    try:
        return [name for (name,) in database.execute("SELECT name FROM secrets WHERE name LIKE '@%'")]
    finally:
        database.close()


def test_a_key_is_used_and_stays_outside(opened, model):
    api = opened
    made = api.ok("PUT", "/sandbox/keyed", {"memory": "2g", "config": config_of(model)})
    assert made["secrets"] == ["anthropic"] and OWN not in json.dumps(made)
    assert api("PUT", "/sandbox/keyed", {"memory": "2g", "config": config_of(model)}).status == 200
    assert say(api, "keyed", "[[text: paid]] by its own key, feldspar")["response"] == "paid"
    assert keys_of(model, "feldspar") == {OWN}
    assert_not_in_box(api, "keyed", OWN)
    # It is this sandbox's alone.
    make_box(api, "plain")
    assert say(api, "plain", "[[text: paid]] by the usual key, olivine")["response"] == "paid"
    assert OWN not in keys_of(model, "olivine")
    assert api.ok("GET", "/secrets")["secrets"] == []
    # Nobody wrote it down.
    assert OWN not in api.server.log()
    for path in (api.server.data / "daemon").glob("cay.db*"):
        assert OWN.encode() not in path.read_bytes()
    # It goes with the sandbox.
    assert any(name.endswith("/anthropic") for name in own_secrets(api.server))
    for box in ("keyed", "plain"):
        api.ok("DELETE", f"/sandbox/{box}")
    assert own_secrets(api.server) == []


@pytest.mark.long
def test_another_provider_and_a_changed_configuration(opened, model):
    api = opened
    box = make_box(api, "changing")
    say(api, box, "[[text: plain]]")
    first = pid_of(api, box)
    config = other_config_of(model)
    assert say(api, box, "[[text: another]] by another, gabbro", config=config)["response"] == "another"
    second = pid_of(api, box)
    assert second != first and keys_of(model, "gabbro") == {OTHER}
    shown = api.ok("GET", f"/sandbox/{box}")
    assert shown["secrets"] == ["anthropic", "oc-another"]
    assert_not_in_box(api, box, OTHER)
    # The same once more changes nothing; and it is kept over a sleep.
    say(api, box, "[[text: same]]", config=config)
    assert pid_of(api, box) == second
    api.ok("POST", f"/sandbox/{box}/sleep")
    assert say(api, box, "[[text: kept]] after a sleep, basalt")["info"]["providerID"] == "another"
    api.ok("DELETE", f"/sandbox/{box}")


@pytest.mark.parametrize(
    ("config", "place"),
    [
        ({"mcp": {"x": {"type": "local", "command": ["a"], "environment": {"API_TOKEN": "v"}}}}, "mcp.x.environment.API_TOKEN"),
        ({"provider": {"amazon-bedrock": {"options": {"secretAccessKey": "v"}}}}, "provider.amazon-bedrock.options.secretAccessKey"),
        ({"provider": {"mine": {"options": {"apiKey": "v"}}}}, "provider.mine.options.baseURL"),
        ({"provider": {"openai": {"options": {"apiKey": "v", "headers": {"Authorization": "Bearer w"}}}}}, "options.headers.Authorization"),
        ({"provider": {"anthropic": {"options": {"apiKey": "v", "baseURL": "https://a.example"}}}}, "provider.anthropic.options.baseURL"),
        ({"provider": {"openai": {"options": {"apiKey": "v", "baseURL": "https://u:p@a.example/v1"}}}}, "provider.openai.options"),
        ({"instructions": ["use ghp_0123456789abcdef", "ghp_0123456789abcdef"]}, "instructions.1"),
        ({"provider": {"x": {"options": {"baseURL": "https://u:p@a.example/"}}}}, "provider.x.options.baseURL"),
        ({"mcp": {"x": {"type": "remote", "url": "https://a.example/mcp?api_key=v"}}}, "mcp.x.url"),
        ({"mcp": {"X y": {"type": "remote", "url": "https://a.example/mcp", "headers": {"Authorization": "Bearer v"}}}}, "mcp.X y"),
        ({"mcp": {"x": {"type": "remote", "url": "https://a.example/m", "oauth": {"clientSecret": "v"}}}}, "mcp.x.oauth.clientSecret"),
    ],
)
def test_what_cannot_stay_outside_is_refused(opened, config, place):
    reply = opened("PUT", "/sandbox/refused", {"config": config})
    assert place in reply.error(400, "INVALID_REQUEST")["error"]
    assert opened("GET", "/sandbox/refused").status == 404


def test_a_server_of_tools_has_its_credential_outside(opened):
    token = "tok-" + secrets.token_hex(12)
    mcp = {"type": "remote", "url": "https://tools.example/a/mcp?x=1", "headers": {"Authorization": f"Bearer {token}", "X-Plain": "1"}}
    references = {"mcp": {"y": {"type": "local", "command": ["a"], "environment": {"TOKEN": "{env:TOKEN}"}}, "tools": mcp}}
    made = opened.ok("PUT", "/sandbox/tools", {"config": references})
    assert made["secrets"] == ["mcp-tools"]
    database = sqlite3.connect(f"file:{opened.server.data}/daemon/cay.db?mode=ro", uri=True)
    (text,) = database.execute("SELECT config FROM opencode").fetchone()
    upstream, header, format_ = database.execute("SELECT upstream, header, format FROM secrets").fetchone()
    database.close()
    kept = json.loads(text)["mcp"]["tools"]
    assert kept["url"] == "http://mcp-tools.cay/mcp?x=1" and kept["headers"] == {"X-Plain": "1"}
    assert (upstream, header, format_) == ("https://tools.example/a", "Authorization", "Bearer {}")
    assert token not in text and base64.b64encode(token.encode()).decode() not in text
    opened.ok("DELETE", "/sandbox/tools")
