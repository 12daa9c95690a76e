# SPDX-License-Identifier: Apache-2.0
"""Bodies of /api/write that are too large to be read at once: found and decoded apart, refused by the same rules."""

import base64
import hashlib
import json
import random

import pytest
from container_helpers import eventually

WRITE = "/api/write"
LARGE = 300_000  # bytes, from which on a body is left in its connection
MAX = 128 << 20


def send(box, text, **headers):
    return box.api("POST", box.base + WRITE, text, headers)


def sha(box, path):
    return box.run(f"sha256sum < {path}").split()[0]


def test_many_megabytes(box):
    text = "0123456789abcdef\n" * 2_500_000
    box.write("/workspace/t", text)
    assert sha(box, "/workspace/t") == hashlib.sha256(text.encode()).hexdigest()
    data = random.Random(1).randbytes(33_000_001)
    box.write("deep/b", base64.b64encode(data).decode(), encoding="base64")
    assert sha(box, "/workspace/deep/b") == hashlib.sha256(data).hexdigest()


@pytest.mark.parametrize("ascii_", [True, False])
def test_every_character(box, ascii_):
    """As Python's own encoder and decoder see them: escapes, pairs of surrogates, and all else."""
    some = random.Random(2)
    ranges = ((0, 0x7F), (0x80, 0x7FF), (0x800, 0xD7FF), (0xE000, 0xFFFF), (0x10000, 0x10FFFF))
    text = "".join(chr(some.randint(*some.choice(ranges))) for _ in range(200_000)) + '"\\/\b\f\n\r\t\0' * 10
    reply = send(box, json.dumps({"path": "x", "content": text, "sessionId": "s"}, ensure_ascii=ascii_).encode())
    assert reply.status == 200, reply
    assert sha(box, "/workspace/x") == hashlib.sha256(text.encode()).hexdigest()


def test_wherever_it_stands(box):
    pad = "y" * LARGE
    for text in (
        f'{{"content":"{pad}","path":"x","encoding":"utf8"}}',
        f'{{ "a" : {{"content":"no"}} , "b":["content",{{}}], "c":"\\"content\\":", "content"\n:\t"{pad}" , "path" : "x" }}',
    ):
        reply = send(box, text)
        assert reply.status == 200, reply
        assert sha(box, "/workspace/x") == hashlib.sha256(pad.encode()).hexdigest()
    reply = send(box, json.dumps({"path": "lines", "content": "\r\n".join(["eHh4"] * LARGE), "encoding": "base64"}))
    assert reply.status == 200 and box.run("stat -c %s /workspace/lines") == f"{3 * LARGE}\n"


def test_what_is_refused(box):
    pad = "y" * LARGE
    b64 = base64.b64encode(bytes(LARGE)).decode()
    for text, field in (
        (f'{{"path":"x","content":"{pad}"', "body"),
        (f'{{"path":"x","content":"{pad}', "body"),
        (f'{{"path":"x","content":"{pad}","content":"{pad}"}}', "body"),
        (f'{{"path":"x","content":"{pad}"}} more', "body"),
        (f'["{pad}"]', "body"),
        (f'"{pad}"', "body"),
        (f'{{"path":"x","more":"{pad}"}}', "body"),  # too much that nobody knows
        (f'{{"path":"x","content":["{pad}"]}}', "body"),
        (f'{{"content":"{pad}"}}', "path"),
        (f'{{"path":5,"content":"{pad}"}}', "path"),
        (f'{{"path":"","content":"{pad}"}}', "path"),
        (f'{{"path":"x","content":"{pad}","encoding":"hex"}}', "encoding"),
        (f'{{"path":"x","content":"{pad}!","encoding":"base64"}}', "content"),
        (f'{{"path":"x","content":"{b64}{b64[:8]}=","encoding":"base64"}}', "content"),
        (f'{{"path":"x","content":"{b64[:-4]}AA==AAAA{b64}","encoding":"base64"}}', "content"),
        (f'{{"path":"x","content":"{pad}\\q"}}', "content"),
        (f'{{"path":"x","content":"{pad}\\u12g4"}}', "content"),
        (f'{{"path":"x","content":"{pad}\\ud800"}}', "content"),
        (f'{{"path":"x","content":"{pad}\\ud800\\u0041"}}', "content"),
        (f'{{"path":"x","content":"{pad}\\udc00"}}', "content"),
        (f'{{"path":"x","content":"{pad}\n"}}', "content"),
        (f'{{"path":"x","content":"{pad}'.encode() + b'\xff"}', "content"),
        (f'{{"path":"x","content":"{pad}'.encode() + b'\xed\xa0\x80"}', "content"),
    ):
        error = box.check(send(box, text), 400, "VALIDATION_FAILED")
        assert [e["field"] for e in error["context"]["validationErrors"]] == [field], (text[-60:], error)
    assert not box.ok("/api/exists", {"path": "x"})["exists"]
    box.check(send(box, json.dumps({"path": "/proc/x", "content": pad})), 403, "PERMISSION_DENIED", path="/proc/x")
    box.check(send(box, json.dumps({"path": "/workspace", "content": pad})), 400, "IS_DIRECTORY")


def test_one_connection_after_another(box):
    """What is left of a body never becomes the next request."""
    connection = box.api.connect()
    for content in ("y" * LARGE, "\\q" + "y" * LARGE, "small", "z" * LARGE):
        headers, body = box.api.head(None, f'{{"path":"x","content":"{content}"}}')
        connection.request("POST", box.base + WRITE, body=body, headers=headers)
        reply = connection.getresponse()
        assert reply.status == (400 if content.startswith("\\") else 200)
        reply.read()
    connection.close()
    assert box.run("head -c 3 /workspace/x") == "zzz"


def test_too_large(box):
    connection = box.api.connect()
    headers, _ = box.api.head({"Content-Length": str(MAX + 1)}, None)
    connection.putrequest("POST", box.base + WRITE)
    for name, value in headers.items():
        connection.putheader(name, value)
    connection.endheaders()
    reply = connection.getresponse()
    error = json.loads(reply.read())
    assert reply.status == 413 and error["code"] == "FILE_TOO_LARGE" and "/files/" in error["message"]
    assert error["context"]["maxSize"] == MAX and error["context"]["actualSize"] == MAX + 1
    connection.close()


def test_one_who_leaves_in_the_middle(box):
    connection = box.api.connect()
    headers, _ = box.api.head({"Content-Length": str(10 * LARGE)}, None)
    connection.putrequest("POST", box.base + WRITE)
    for name, value in headers.items():
        connection.putheader(name, value)
    connection.endheaders()
    connection.send(b'{"path":"x","content":"' + b"y" * LARGE)
    connection.close()
    assert not box.ok("/api/exists", {"path": "x"})["exists"]


def test_memory_for_all_at_once(box):
    """What is decoded counts as well as the body. Who finds no room may ask again."""
    headers, _ = box.api.head(None, {})

    def begin(length):
        connection = box.api.connect()
        connection.putrequest("POST", box.base + WRITE)
        for name, value in {**headers, "Content-Length": length}.items():
            connection.putheader(name, value)
        connection.endheaders(b'{"path":"held","content":"')
        return connection

    held = begin(MAX)
    try:
        eventually(lambda: send(box, json.dumps({"path": "x", "content": "y" * (MAX // 2 + LARGE)})).status == 503)
        box.write("x", "y" * (MAX // 4))
    finally:
        held.close()
    eventually(lambda: send(box, json.dumps({"path": "x", "content": "y" * (MAX // 2 + LARGE)})).status == 200)


def test_a_full_disk(box):
    box.api.ok("PATCH", f"/sandbox/{box.box}", {"disk": "64m"})
    box.run("head -c 100m /dev/zero > /workspace/all 2>/dev/null; true")
    box.check(send(box, json.dumps({"path": "more", "content": "x" * 2_000_000})), 500, "NO_SPACE", operation="file.write")
    assert not box.ok("/api/exists", {"path": "more"})["exists"]
