# SPDX-License-Identifier: Apache-2.0
"""Secrets: they go in, and never come out again; and the settings of a sandbox that name them."""

import fcntl
import json
import os
import pty
import sqlite3
import subprocess
import termios

import pytest
from api_helpers import CAY, Client, eventually

VALUE = "sk-planted-0123456789"
GOOD = {"value": VALUE, "upstream": "https://api.example.com"}


@pytest.fixture
def secret(api):
    api.ok("PUT", "/secrets/example", GOOD)
    yield "example"
    api("DELETE", "/secrets/example")


def test_one_comes_and_goes(api):
    made = api("PUT", "/secrets/one", GOOD)
    assert made.status == 201
    assert made.json["name"] == "one"
    assert made.json["upstream"] == "https://api.example.com"
    assert made.json["header"] == "Authorization"
    assert made.json["format"] == "Bearer {}"
    assert set(made.json) == {"success", "name", "upstream", "header", "format", "createdAt", "updatedAt"}
    again = api("PUT", "/secrets/one", {**GOOD, "upstream": "https://API.Example.com:443/v1/", "header": "X-Key"})
    assert again.status == 200
    assert again.json["upstream"] == "https://api.example.com/v1"
    assert again.json["format"] == "{}"
    assert again.json["createdAt"] == made.json["createdAt"]
    assert api.ok("GET", "/secrets/one") == again.json
    listed = api.ok("GET", "/secrets")["secrets"]
    assert {**again.json, "success": None} == {**next(s for s in listed if s["name"] == "one"), "success": None}
    api.ok("DELETE", "/secrets/one")
    for method in ("GET", "DELETE"):
        api(method, "/secrets/one").error(404, "NOT_FOUND", "'one'")


@pytest.mark.parametrize(
    "change,words",
    [
        ({"value": ""}, "value"),
        ({"value": VALUE + "\n"}, "control character"),
        ({"value": "a\r\nX-Evil: 1"}, "control character"),
        ({"value": "a\x00b"}, "control character"),
        ({"value": VALUE * 1000}, "value"),
        ({"value": 1}, "value"),
        ({"value": None}, "value"),
        ({"upstream": "ftp://x"}, "upstream"),
        ({"upstream": "https://user:pass@x"}, "upstream"),
        ({"upstream": "https://x?y"}, "upstream"),
        ({"upstream": "https://x#y"}, "upstream"),
        ({"upstream": "https://0x7f.1"}, "upstream"),
        ({"upstream": "https://x:080"}, "upstream"),
        ({"header": "Host"}, "header"),
        ({"header": "Content-Length"}, "header"),
        ({"header": "a: b"}, "header"),
        ({"format": "Bearer"}, "format"),
        ({"format": "{} {}"}, "format"),
        ({"format": "{}\r\nX: y"}, "format"),
        ({"nonsense": 1}, "nonsense"),
    ],
)
def test_what_is_refused(api, change, words):
    reply = api("PUT", "/secrets/bad", {**GOOD, **change})
    reply.error(400, "INVALID_REQUEST", words)
    assert VALUE.encode() not in reply.body
    assert api("GET", "/secrets/bad").status == 404


@pytest.mark.parametrize("name", ["A", "1a", "a_b", "a.b", "-a", "a-", "a" * 32, "a%20b", "%C3%A9"])
def test_names(api, name):
    assert api("PUT", f"/secrets/{name}", GOOD).status == 400


def test_broken_bodies_are_not_quoted(api):
    for body in (f'{{"value": "{VALUE}\x01"}}', f'{{"value": "{VALUE}', f'{{"value": {VALUE}}}', f'{{"value": "{VALUE}" x'):
        reply = api("PUT", "/secrets/bad", body)
        reply.error(400, "INVALID_REQUEST", "not JSON")
        assert VALUE[:8].encode() not in reply.body


def test_tenants_have_their_own(api, tenant, secret):
    assert tenant("GET", f"/secrets/{secret}").status == 404
    assert tenant.ok("GET", "/secrets")["secrets"] == []
    tenant("DELETE", f"/secrets/{secret}").error(404, "NOT_FOUND")
    tenant("PUT", "/sandbox/theirs", {"secrets": [secret]}).error(400, "INVALID_REQUEST", "'example'")
    tenant.ok("PUT", f"/secrets/{secret}", {**GOOD, "upstream": "https://other.example"})
    assert api.ok("GET", f"/secrets/{secret}")["upstream"] == GOOD["upstream"]
    tenant.ok("DELETE", f"/secrets/{secret}")


def test_not_in_the_log_nor_in_the_files(api, server):
    value = "planted-in-all-places-77"
    key = {"Idempotency-Key": "secret-1"}
    api.ok("PUT", "/secrets/planted", {**GOOD, "value": value}, key)
    api.ok("PUT", "/secrets/planted", {**GOOD, "value": value + "2"}, key)  # it is no part of this route
    assert value not in server.log()
    for path in (server.data / "daemon").iterdir():
        if path.is_file():
            assert value.encode() not in path.read_bytes(), path
    rows = sqlite3.connect(f"file:{server.data}/daemon/cay.db?mode=ro", uri=True)
    sealed = rows.execute("SELECT sealed FROM secrets WHERE name = 'planted'").fetchone()[0]
    assert value.encode() not in sealed
    assert rows.execute("SELECT count(*) FROM idem WHERE key = 'secret-1'").fetchone()[0] == 0
    rows.close()
    stat = (server.data / "daemon" / "secret.key").stat()
    assert stat.st_mode & 0o7777 == 0o600
    api.ok("DELETE", "/secrets/planted")


def test_over_a_restart(make_server):
    server = make_server()
    api = Client(server)
    api.ok("PUT", "/secrets/kept", GOOD)
    key = (server.data / "daemon" / "secret.key").read_bytes()
    assert server.stop() == 0
    server.start()
    assert api.ok("GET", "/secrets/kept")["upstream"] == GOOD["upstream"]
    assert (server.data / "daemon" / "secret.key").read_bytes() == key


# -- settings of a sandbox


def test_a_sandbox_names_them(api, secret):
    api.ok("PUT", "/secrets/another", GOOD)
    made = api.ok("POST", "/sandbox", {"secrets": [secret, "another", secret]})
    box = f"/sandbox/{made['id']}"
    assert made["secrets"] == ["another", secret]
    assert made["network"] == "none"
    env = api.exec(made["id"], "env")["stdout"].splitlines()
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"):
        assert f"{name}=http://127.0.0.1:3128" in env
    assert "NO_PROXY=localhost,127.0.0.1,::1" in env and "no_proxy=localhost,127.0.0.1,::1" in env
    changed = api.ok("PATCH", box, {"secrets": [], "env": {"A": "1"}})
    assert changed["secrets"] == [] and api.ok("GET", box)["secrets"] == []
    assert "HTTP_PROXY" not in api.exec(made["id"], "env")["stdout"]
    changed = api.ok("PATCH", box, {"network": "internet", "env": {"HTTP_PROXY": "mine", "no_proxy": ""}})
    assert changed["network"] == "internet"
    env = api.exec(made["id"], "env")["stdout"].splitlines()
    assert "HTTP_PROXY=mine" in env and "no_proxy=" in env  # its own win
    assert "https_proxy=http://127.0.0.1:3128" in env
    assert api.ok("PATCH", box, {"keepAlive": True})["network"] == "internet"  # untouched
    assert api.ok("PATCH", box, {"network": "none"})["network"] == "none"
    api.ok("DELETE", box)
    api.ok("DELETE", "/secrets/another")


def test_a_sandbox_with_nothing_has_no_proxy(api, box):
    assert "proxy" not in api.exec(box, "env")["stdout"].lower()


def test_the_same_settings_are_found(api, secret):
    body = {"network": {"allow": ["B.example.com:443", "a.example.com"]}, "secrets": [secret]}
    first = api("PUT", "/sandbox/same", body)
    assert first.status == 201
    assert api("PUT", "/sandbox/same", {**body, "network": first.json["network"]}).status == 200
    api("PUT", "/sandbox/same", {**body, "network": "internet"}).error(409, "CONFLICT", "other settings")
    api("PUT", "/sandbox/same", {"network": first.json["network"]}).error(409, "CONFLICT", "other settings")
    api.ok("DELETE", "/sandbox/same")


@pytest.mark.parametrize(
    "body,words",
    [
        ({"network": "all"}, "network"),
        ({"network": {"allow": ["0x7f.1"]}}, "network"),
        ({"network": {"allow": "x"}}, "network"),
        ({"network": ["x"]}, "network"),
        ({"network": {"deny": []}}, "network"),
        ({"network": {"allow": ["x" * 20000]}}, "network"),
        ({"secrets": ["nobody"]}, "'nobody'"),
        ({"secrets": ["No Name"]}, "'No Name'"),
        ({"secrets": "example"}, "secrets"),
        ({"secrets": [1]}, "secrets"),
        ({"secrets": ["a"] * 65}, "secrets"),
    ],
)
def test_settings_that_are_none(api, box, body, words):
    for method, path in (("POST", "/sandbox"), ("PUT", "/sandbox/none"), ("PATCH", f"/sandbox/{box}")):
        api(method, path, body).error(400, "INVALID_REQUEST", words)


# -- the command


def cay(server, *args, **more):
    command = [CAY, "secret", *args, "--data", str(server.data)]
    return subprocess.run(command, capture_output=True, check=False, timeout=60, **more)


def test_the_command(server, api):
    made = cay(server, "set", "cli", "--upstream", "https://api.example.com", "--header", "X-Key", input=b"tok-cli-1\n")
    assert (made.returncode, made.stdout, made.stderr) == (0, b"cli\n", b"")
    assert api.ok("GET", "/secrets/cli")["header"] == "X-Key"
    listed = cay(server, "ls")
    assert listed.returncode == 0 and b"cli" in listed.stdout and b"tok-cli-1" not in listed.stdout
    rows = json.loads(cay(server, "ls", "--json").stdout)["secrets"]
    assert [row["upstream"] for row in rows if row["name"] == "cli"] == ["https://api.example.com"]
    assert cay(server, "rm", "cli").returncode == 0
    gone = cay(server, "rm", "cli")
    assert gone.returncode == 125 and b"no secret 'cli'" in gone.stderr


@pytest.mark.parametrize(
    "args,value,code,words",
    [
        (["set", "x"], b"v", 2, b"--upstream"),
        (["set"], b"v", 2, b"NAME"),
        (["set", "x", "value", "--upstream", "https://a.b"], b"v", 2, b"NAME"),
        (["set", "x", "--upstream", "https://a.b"], b"", 125, b"empty"),
        (["set", "x", "--upstream", "https://a.b"], b"\n", 125, b"empty"),
        (["set", "x", "--upstream", "https://a.b"], b"\xff", 125, b"UTF-8"),
        (["set", "x", "--upstream", "https://a.b"], b"x" * 20000, 125, b"16384"),
        (["set", "x", "--upstream", "nowhere"], b"planted-x", 125, b"upstream"),
        (["frobnicate"], b"", 2, b"frobnicate"),
    ],
)
def test_commands_that_are_none(server, args, value, code, words):
    done = cay(server, *args, input=value)
    assert done.returncode == code and words in done.stderr and done.stderr.count(b"\n") <= 2, done
    assert b"planted" not in done.stderr


@pytest.mark.parametrize("keys,code", [(b"typed-and-hidden\n", 0), (b"typed-and\x03", 125)])
def test_typed_without_being_shown(server, api, keys, code):
    """On a terminal the value is asked for and not echoed; the terminal is as it was afterwards, also after Ctrl-C."""
    ours, theirs = pty.openpty()
    command = [CAY, "secret", "set", "typed", "--upstream", "https://a.b", "--data", str(server.data)]
    before = termios.tcgetattr(theirs)
    child = subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True, preexec_fn=take_tty)
    shown = b""
    while b"value of typed: " not in shown:
        shown += os.read(ours, 4096)
    eventually(lambda: not termios.tcgetattr(theirs)[3] & termios.ECHO)
    os.write(ours, keys)
    assert child.wait(60) == code
    shown += os.read(ours, 4096)
    assert b"typed-and" not in shown
    assert termios.tcgetattr(theirs)[3] == before[3]
    os.close(ours)
    os.close(theirs)
    assert api("DELETE", "/secrets/typed").status == (200 if code == 0 else 404)


def take_tty():
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)
