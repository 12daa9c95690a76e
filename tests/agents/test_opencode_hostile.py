# SPDX-License-Identifier: Apache-2.0
"""Whatever listens where OpenCode should: it is somebody's program, and gets nothing and breaks nothing."""

import json
import time

import pytest
from agents_helpers import make_box

FAKE = r'''#!/usr/bin/python3
import json, os, socket, sys, threading, time

def mode():
    try:
        return open("/workspace/mode").read().strip()
    except OSError:
        return ""

def answer(c, body, status="200 OK", more=""):
    c.sendall(f"HTTP/1.1 {status}\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n{more}\r\n".encode() + body)

def whole(text):
    return json.dumps({"info": {"role": "assistant"}, "parts": [{"type": "text", "text": text}]}).encode()

def be_hostile(c, how):
    if how == "headers":
        c.sendall(b"HTTP/1.1 200 OK\r\n")
        while True:
            c.sendall(b"X-More: " + b"a" * 4000 + b"\r\n")
    elif how == "interim":
        while True:
            c.sendall(b"HTTP/1.1 102 Processing\r\n\r\n")
    elif how == "huge":
        c.sendall(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        while True:
            c.sendall(b"10000\r\n" + b"[" * 65536 + b"\r\n")
    elif how == "length":
        c.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 99999999999999\r\n\r\n{}")
        time.sleep(1)
    elif how == "deep":
        answer(c, b"[" * 100000)
    elif how == "many":
        answer(c, b"[" + b"{}," * 1000000 + b"{}]")
    elif how == "json":
        answer(c, b'{"info": {"role"')
    elif how == "none":
        answer(c, b"7")
    elif how == "redirect":
        answer(c, b"", "302 Found", "Location: http://169.254.169.254/\r\n")
    elif how == "garbage":
        c.sendall(os.urandom(100000))
    elif how == "close":
        pass
    elif how == "error":
        said = {"name": "A\u0007" * 500, "data": {"message": "\u001b[31mred\u0000" + "x" * 100000, "statusCode": 777}}
        answer(c, json.dumps({"info": {"error": said}, "parts": []}).encode())
    elif how == "hang":
        time.sleep(3600)

def serve(c):
    try:
        f = c.makefile("rb")
        line = f.readline().decode()
        head = []
        while (h := f.readline().rstrip(b"\r\n")):
            head.append(h.decode("latin-1"))
        length = [int(h.split(":")[1]) for h in head if h.lower().startswith("content-length")]
        body = f.read(length[0]) if length else b""
        path = line.split()[1]
        with open("/workspace/seen", "a") as log:
            log.write(json.dumps([line.split()[0], path, head, body.decode("latin-1")]) + "\n")
        how = mode()
        if path == "/global/health":
            answer(c, b'{"healthy":true}')
        elif path.startswith("/session?") or path == "/session":
            answer(c, json.dumps({"id": "../../etc" if how == "session" else "ses_fake"}).encode())
        elif how in ("", "session"):
            answer(c, whole("hello"))
        else:
            be_hostile(c, how)
    except OSError:
        pass
    finally:
        c.close()

if mode() == "exit":
    print("\x1b[31mcannot go on\x1b[0m: no reason")
    sys.exit(3)
s = socket.create_server(("127.0.0.1", 4096))
while True:
    threading.Thread(target=serve, args=(s.accept()[0],), daemon=True).start()
'''


@pytest.fixture(scope="module")
def fake(api):
    path = "/workspace/fake:/usr/local/bin:/usr/bin:/bin"
    name = make_box(api, "hostile", env={"PATH": path}, memory="512m")
    api.ok("PUT", f"/sandbox/{name}/files/workspace/fake/opencode?mode=0755", FAKE)
    yield name
    api("DELETE", f"/sandbox/{name}")


def be(api, box, mode):
    api.exec(box, {"argv": ["sh", "-c", 'printf %s "$1" > /workspace/mode', "sh", mode]})


def say(api, box, **more):
    return api("POST", f"/sandbox/{box}/message", {"message": "hello", **more})


HOW = ["headers", "interim", "huge", "length", "deep", "many", "json", "none", "redirect", "garbage", "close"]


@pytest.mark.parametrize("how", HOW)
def test_what_is_no_answer_is_named_and_bounded(api, fake, how):
    be(api, fake, how)
    before = memory(api.server)
    reply = say(api, fake)
    assert reply.status == 502, reply
    assert reply.json["error_code"] in ("BAD_GATEWAY", "AGENT_FAILED")
    assert memory(api.server) - before < 400 << 20  # sanitized, it keeps what it freed for a while
    be(api, fake, "")
    assert say(api, fake).json["response"] == "hello"


def memory(server):
    with open(f"/proc/{server.daemon_pid()}/statm", encoding="ascii") as f:
        return int(f.read().split()[1]) * 4096


def test_its_words_are_made_plain(api, fake):
    be(api, fake, "error")
    error = say(api, fake).error(502, "API_ERROR", "red")["error"]
    assert len(error) < 600 and not {"\x1b", "\x07", "\x00"} & set(error)
    be(api, fake, "")


def test_one_that_hangs_is_left_in_time(api, fake):
    be(api, fake, "hang")
    begun = time.monotonic()
    say(api, fake, timeout=2000).error(504, "EXECUTION_TIMEOUT")
    assert time.monotonic() - begun < 30
    be(api, fake, "")


def test_a_session_of_its_making_leads_nowhere(api, fake):
    be(api, fake, "session")
    say(api, fake).error(502, "BAD_GATEWAY", "session")
    be(api, fake, "")


def seen(api, box):
    return [json.loads(line) for line in api.exec(box, "cat /workspace/seen")["stdout"].splitlines()]


def test_nothing_of_cay_gets_in(api, fake):
    path = f"/sandbox/{fake}/opencode"
    headers = {"Cookie": "a=b", "X-Kept": "yes"}
    assert api("GET", f"{path}/thing?x=1&cay_token=", headers=headers).status in (200, 404)
    assert api("GET", f"{path}/thing?x=1", headers=headers).status == 200
    method, target, head, _ = seen(api, fake)[-1]
    assert (method, target) == ("GET", "/thing?x=1")
    names = {h.split(":")[0].lower() for h in head}
    assert "x-kept" in names and not names & {"authorization", "cookie"}
    assert api.token not in json.dumps(seen(api, fake))


def test_a_directory_is_one_word(api, fake):
    assert say(api, fake, directory="/workspace/a b&c=d#e").status == 200
    assert seen(api, fake)[-1][1] == "/session/ses_fake/message?directory=/workspace/a%20b%26c%3Dd%23e"


def test_one_that_ends_says_why(api):
    box = make_box(api, "ending", env={"PATH": "/workspace/fake:/usr/bin:/bin"})
    api.ok("PUT", f"/sandbox/{box}/files/workspace/fake/opencode?mode=0755", FAKE)
    be(api, box, "exit")
    say(api, box).error(502, "AGENT_FAILED", "exit code 3", "cannot go on: no reason")
    reply = api("GET", f"/sandbox/{box}/opencode/config")
    assert reply.status == 502 and b"cannot go on" in reply.body
    be(api, box, "")
    assert say(api, box).json["response"] == "hello"
    api("DELETE", f"/sandbox/{box}")


def test_one_that_is_not_there(api):
    box = make_box(api, "bare", env={"PATH": "/usr/bin:/bin"})
    say(api, box).error(501, "AGENT_NOT_INSTALLED", "cay image build agents")
    api("GET", f"/sandbox/{box}/opencode/").error(501, "NOT_IMPLEMENTED", "cay image build agents")
    api("DELETE", f"/sandbox/{box}")
