# SPDX-License-Identifier: Apache-2.0
"""A message that could be framed in two ways is refused, and nothing after it on its connection is
served. Raw sockets, because no client library sends such things."""

import pytest
from edge_helpers import HEALTH, OK_BODY, Closed, request

# A request hidden behind the one that is refused. If it were served, there would be a second answer.
HIDDEN = b"GET /describe/hidden HTTP/1.1\r\nHost: a\r\n\r\n"

H = b"Host: a\r\n"
POST = b"POST /echo HTTP/1.1\r\n" + H

REFUSED = {
    "two lengths": (400, POST + b"Content-Length: 5\r\nContent-Length: 6\r\n\r\nhello"),
    "two equal lengths": (400, POST + b"Content-Length: 5\r\nContent-Length: 5\r\n\r\nhello"),
    "a list of lengths": (400, POST + b"Content-Length: 5, 5\r\n\r\nhello"),
    "a signed length": (400, POST + b"Content-Length: +5\r\n\r\nhello"),
    "a negative length": (400, POST + b"Content-Length: -1\r\n\r\nhello"),
    "a length in hex": (400, POST + b"Content-Length: 0x5\r\n\r\nhello"),
    "a length with letters": (400, POST + b"Content-Length: 5a\r\n\r\nhello"),
    "a length with a space in it": (400, POST + b"Content-Length: 1 1\r\n\r\nhello"),
    "a length with a space behind it": (400, POST + b"Content-Length: 5 \r\n\r\nhello"),
    "an empty length": (400, POST + b"Content-Length: \r\n\r\nhello"),
    "a length past 64 bits": (400, POST + b"Content-Length: 18446744073709551621\r\n\r\nhello"),
    "CL.TE": (400, POST + b"Content-Length: 6\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nG"),
    "TE.CL": (400, POST + b"Transfer-Encoding: chunked\r\nContent-Length: 4\r\n\r\n5\r\nhello\r\n0\r\n\r\n"),
    "two codings": (400, POST + b"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"),
    "a list of codings": (400, POST + b"Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n"),
    "chunked and more": (400, POST + b"Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n"),
    "identity": (400, POST + b"Transfer-Encoding: identity\r\n\r\n"),
    "gzip": (400, POST + b"Transfer-Encoding: gzip\r\n\r\n"),
    "xchunked": (400, POST + b"Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n"),
    "chunkedx": (400, POST + b"Transfer-Encoding: chunkedx\r\n\r\n0\r\n\r\n"),
    "half of chunked": (400, POST + b"Transfer-Encoding: chunk\r\n\r\n0\r\n\r\n"),
    "chunked with a space behind it": (400, POST + b"Transfer-Encoding: chunked \r\n\r\n0\r\n\r\n"),
    "chunked in quotes": (400, POST + b'Transfer-Encoding: "chunked"\r\n\r\n0\r\n\r\n'),
    "chunked behind a vertical tab": (400, POST + b"Transfer-Encoding: \x0bchunked\r\n\r\n0\r\n\r\n"),
    "an empty coding": (400, POST + b"Transfer-Encoding:\r\n\r\n"),
    "chunked in HTTP/1.0": (400, b"POST /echo HTTP/1.0\r\n" + H + b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n"),
    "a coding with a space before the colon": (400, POST + b"Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n"),
    "a length with a tab before the colon": (400, POST + b"Content-Length\t: 5\r\n\r\nhello"),
    "a folded header": (400, b"GET /health HTTP/1.1\r\n" + H + b"X: a\r\n b\r\n\r\n"),
    "a folded coding": (400, POST + b"Transfer-Encoding:\r\n chunked\r\n\r\n0\r\n\r\n"),
    "a fold by tab": (400, b"GET /health HTTP/1.1\r\n" + H + b"X: a\r\n\tb\r\n\r\n"),
    "a fold of the first header": (400, b"GET /health HTTP/1.1\r\n Host: a\r\n\r\n"),
    "bare LF in the request line": (400, b"GET /health HTTP/1.1\n" + H + b"\r\n"),
    "bare LF behind a header": (400, b"GET /health HTTP/1.1\r\nHost: a\nX: b\r\n\r\n"),
    "bare LF as the empty line": (400, b"GET /health HTTP/1.1\r\n" + H + b"\n"),
    "LF alone everywhere": (400, b"GET /health HTTP/1.1\nHost: a\n\n"),
    "a coding hidden behind a bare LF": (400, POST + b"X: a\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"),
    "bare CR in a header": (400, b"GET /health HTTP/1.1\r\n" + H + b"X: a\rb\r\n\r\n"),
    "CR CR LF": (400, b"GET /health HTTP/1.1\r\n" + H + b"X: a\r\r\n\r\n"),
    "NUL in a header": (400, b"GET /health HTTP/1.1\r\n" + H + b"X: a\0b\r\n\r\n"),
    "NUL and LF behind a header": (400, b"GET /health HTTP/1.1\r\n" + H + b"X: a\0\nY: b\r\n\r\n"),
    "a line that begins with NUL": (400, b"GET /health HTTP/1.1\r\n" + H + b"\0X: a\r\n\r\n"),
    "NUL in a header's name": (400, b"GET /health HTTP/1.1\r\n" + H + b"X\0Y: a\r\n\r\n"),
    "escape in a header": (400, b"GET /health HTTP/1.1\r\n" + H + b"X: \x1b[2J\r\n\r\n"),
    "DEL in a header": (400, b"GET /health HTTP/1.1\r\n" + H + b"X: \x7f\r\n\r\n"),
    "a header without a name": (400, b"GET /health HTTP/1.1\r\n" + H + b": a\r\n\r\n"),
    "a header without a colon": (400, b"GET /health HTTP/1.1\r\n" + H + b"X\r\n\r\n"),
    "a header's name with a space": (400, b"GET /health HTTP/1.1\r\n" + H + b"X Y: a\r\n\r\n"),
    "a header's name in brackets": (400, b"GET /health HTTP/1.1\r\n" + H + b"X[0]: a\r\n\r\n"),
    "a header's name beyond ASCII": (400, b"GET /health HTTP/1.1\r\n" + H + b"X\xe9: a\r\n\r\n"),
    "no host": (400, b"GET /health HTTP/1.1\r\nX: a\r\n\r\n"),
    "no header at all": (400, b"GET /health HTTP/1.1\r\n\r\n"),
    "two hosts": (400, b"GET /health HTTP/1.1\r\n" + H + H + b"\r\n"),
    "two hosts of different cases": (400, b"GET /health HTTP/1.1\r\n" + H + b"hOST: b\r\n\r\n"),
    "a list of hosts": (400, b"GET /health HTTP/1.1\r\nHost: a, b\r\n\r\n"),
    "a host with a path": (400, b"GET /health HTTP/1.1\r\nHost: a/b\r\n\r\n"),
    "a host with a user": (400, b"GET /health HTTP/1.1\r\nHost: u@a\r\n\r\n"),
    "two hosts in HTTP/1.0": (400, b"GET /health HTTP/1.0\r\n" + H + H + b"\r\n"),
    "absolute form": (400, b"GET http://a/health HTTP/1.1\r\n" + H + b"\r\n"),
    "authority form": (400, b"CONNECT a:80 HTTP/1.1\r\n" + H + b"\r\n"),
    "asterisk form": (400, b"OPTIONS * HTTP/1.1\r\n" + H + b"\r\n"),
    "an empty target": (400, b"GET  HTTP/1.1\r\n" + H + b"\r\n"),
    "two spaces before the target": (400, b"GET  /health HTTP/1.1\r\n" + H + b"\r\n"),
    "two spaces behind the target": (400, b"GET /health  HTTP/1.1\r\n" + H + b"\r\n"),
    "a space in the target": (400, b"GET /he alth HTTP/1.1\r\n" + H + b"\r\n"),
    "a tab behind the target": (400, b"GET /health\tHTTP/1.1\r\n" + H + b"\r\n"),
    "NUL in the target": (400, b"GET /health\0x HTTP/1.1\r\n" + H + b"\r\n"),
    "a control character in the target": (400, b"GET /health\x01 HTTP/1.1\r\n" + H + b"\r\n"),
    "a target beyond ASCII": (400, b"GET /h\xc3\xa9 HTTP/1.1\r\n" + H + b"\r\n"),
    "a backslash in the target": (400, b"GET /a\\..\\b HTTP/1.1\r\n" + H + b"\r\n"),
    "a fragment": (400, b"GET /health#a HTTP/1.1\r\n" + H + b"\r\n"),
    "quotes in the target": (400, b'GET /"a" HTTP/1.1\r\n' + H + b"\r\n"),
    "HTTP/0.9": (400, b"GET /health\r\n"),
    "HTTP/1.2": (400, b"GET /health HTTP/1.2\r\n" + H + b"\r\n"),
    "HTTP/2.0": (400, b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"),
    "http in small letters": (400, b"GET /health http/1.1\r\n" + H + b"\r\n"),
    "a version with more digits": (400, b"GET /health HTTP/1.10\r\n" + H + b"\r\n"),
    "a space behind the version": (400, b"GET /health HTTP/1.1 \r\n" + H + b"\r\n"),
    "a method with a colon": (400, b"G:T /health HTTP/1.1\r\n" + H + b"\r\n"),
    "a space before the method": (400, b" GET /health HTTP/1.1\r\n" + H + b"\r\n"),
    "a long method": (400, b"A" * 40 + b" /health HTTP/1.1\r\n" + H + b"\r\n"),
    "two empty lines before the request": (400, b"\r\n\r\n" + HEALTH),
    "a bare LF before the request": (400, b"\n" + HEALTH),
    "TLS": (400, b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"),
    "SSH": (400, b"SSH-2.0-OpenSSH_9.2\r\n"),
}

CHUNKED = POST + b"Transfer-Encoding: chunked\r\n\r\n"

BAD_CHUNKS = {
    "an extension": (400, b"5;a=b\r\nhello\r\n0\r\n\r\n"),
    "an extension with a bare LF": (400, b"5;\nxx\r\nhello\r\n0\r\n\r\n"),
    "an extension of the last chunk": (400, b"5\r\nhello\r\n0;x\r\n\r\n"),
    "a space behind the size": (400, b"5 \r\nhello\r\n0\r\n\r\n"),
    "a space before the size": (400, b" 5\r\nhello\r\n0\r\n\r\n"),
    "a size with 0x": (400, b"0x5\r\nhello\r\n0\r\n\r\n"),
    "a signed size": (400, b"+5\r\nhello\r\n0\r\n\r\n"),
    "a negative size": (400, b"-1\r\nhello\r\n0\r\n\r\n"),
    "no size": (400, b"\r\nhello\r\n0\r\n\r\n"),
    "a size past 64 bits": (400, b"10000000000000005\r\nhello\r\n0\r\n\r\n"),
    "a size with many zeros": (400, b"000000000000000005\r\nhello\r\n0\r\n\r\n"),
    "a bare LF behind the size": (400, b"5\nhello\r\n0\r\n\r\n"),
    "a bare LF behind the data": (400, b"5\r\nhello\n0\r\n\r\n"),
    "data longer than its size": (400, b"5\r\nhello!\r\n0\r\n\r\n"),
    "a bare LF in the end": (400, b"5\r\nhello\r\n0\r\n\n"),
    "a trailer": (400, b"5\r\nhello\r\n0\r\nX: a\r\n\r\n"),
    "a length as trailer": (400, b"5\r\nhello\r\n0\r\nContent-Length: 9\r\n\r\n"),
    "more than may be": (413, b"2000001\r\nhello"),
    "more than may be, in two": (413, b"5\r\nhello\r\n1fffffc\r\nhello"),
}


def is_refused(reply, status):
    assert reply.status == status, reply
    assert reply.headers["connection"] == "close", reply
    assert reply.headers["content-type"] == "application/json", reply
    error = reply.json()
    assert set(error) == {"error", "error_code", "request_id"}, error
    assert error["request_id"] == reply.headers["x-request-id"] and len(error["request_id"]) == 16
    assert len(error["error"]) > 10
    names = {400: "INVALID_REQUEST", 413: "PAYLOAD_TOO_LARGE", 414: "URI_TOO_LONG", 431: "HEADERS_TOO_LARGE"}
    assert error["error_code"] == names[status]


@pytest.mark.parametrize("name", REFUSED)
def test_refused_and_nothing_after_it(server, name):
    status, data = REFUSED[name]
    with server.connect() as c:
        c.send(data + HIDDEN)
        is_refused(c.reply(), status)
        assert c.everything() == b""


@pytest.mark.parametrize("name", BAD_CHUNKS)
def test_bad_chunks_and_nothing_after_them(server, name):
    status, data = BAD_CHUNKS[name]
    with server.connect() as c:
        c.send(CHUNKED + data + HIDDEN)
        is_refused(c.reply(), status)
        assert c.everything() == b""


@pytest.mark.parametrize("name", REFUSED)
def test_refused_behind_a_good_one(server, name):
    """The good one is answered first, also when both come in one packet."""
    status, data = REFUSED[name]
    with server.connect() as c:
        c.send(HEALTH + data + HIDDEN)
        assert c.reply().body == OK_BODY
        is_refused(c.reply(), status)
        assert c.everything() == b""


@pytest.mark.parametrize("name", [*REFUSED, *BAD_CHUNKS])
def test_refused_byte_by_byte(server, name):
    """Wherever it is cut on its way, a message is read the same."""
    status, data = REFUSED.get(name) or (BAD_CHUNKS[name][0], CHUNKED + BAD_CHUNKS[name][1])
    with server.connect() as c:
        try:
            for i in range(len(data)):
                c.send(data[i : i + 1])
            c.send(HIDDEN)
        except OSError:
            pass  # refused before all of it was sent
        is_refused(c.reply(), status)
        assert c.everything() == b""


GOOD = {
    "plain": (HEALTH, OK_BODY),
    "an empty line before it": (b"\r\n" + HEALTH, OK_BODY),
    "HTTP/1.0 without a host": (b"GET /health HTTP/1.0\r\nConnection: keep-alive\r\n\r\n", OK_BODY),
    "an empty host": (b"GET /health HTTP/1.1\r\nHost:\r\n\r\n", OK_BODY),
    "a host with a port": (b"GET /health HTTP/1.1\r\nHost: [::1]:8787\r\n\r\n", OK_BODY),
    "no space behind the colon": (b"GET /health HTTP/1.1\r\nHost:a\r\nX:b\r\n\r\n", OK_BODY),
    "tabs and spaces around a value": (b"GET /health HTTP/1.1\r\nHost: \t a\r\nX: \t b \t\r\n\r\n", OK_BODY),
    "UTF-8 in a value": (b"GET /health HTTP/1.1\r\nHost: a\r\nX: \xc3\xa9\r\n\r\n", OK_BODY),
    "a body": (request("/echo", "POST", body=b"hello"), b"hello"),
    "an empty body": (request("/echo", "POST", body=b""), b""),
    "a length with zeros": (POST + b"Content-Length: 0005\r\n\r\nhello", b"hello"),
    "a body that looks like a request": (request("/echo", "POST", body=HIDDEN), HIDDEN),
    "chunks": (CHUNKED + b"5\r\nhello\r\n6\r\n world\r\n0\r\n\r\n", b"hello world"),
    "chunks in capitals": (POST + b"TRANSFER-ENCODING: Chunked\r\n\r\nA\r\n0123456789\r\n0\r\n\r\n", b"0123456789"),
    "chunks that look like chunks": (CHUNKED + b"5\r\n0\r\n\r\n\r\n0\r\n\r\n", b"0\r\n\r\n"),
    "no chunk": (CHUNKED + b"0\r\n\r\n", b""),
    "small hex digits and zeros": (CHUNKED + b"00b\r\nhello world\r\n000\r\n\r\n", b"hello world"),
}


@pytest.mark.parametrize("name", GOOD)
def test_good_ones_are_answered_and_the_connection_stays(server, name):
    data, body = GOOD[name]
    with server.connect() as c:
        for _ in range(2):
            reply = c.ask(data)
            assert (reply.status, reply.body) == (200, body)


@pytest.mark.parametrize("name", GOOD)
def test_good_ones_in_every_two_pieces(server, name):
    data, body = GOOD[name]
    with server.connect() as c:
        for cut in range(1, len(data)):
            c.send(data[:cut])
            c.send(data[cut:])
            reply = c.reply()
            assert (reply.status, reply.body) == (200, body), cut


def test_pipelined_requests_are_answered_in_order(server):
    with server.connect() as c:
        targets = [f"/describe/{i}" for i in range(300)]
        c.send(b"".join(request(t) for t in targets))
        for target in targets:
            assert c.reply().json()["target"] == target


def test_pipelined_bodies_and_slow_answers_are_answered_in_order(server):
    with server.connect() as c:
        c.send(request("/later?ms=30") + request("/echo", "POST", body=b"one"))
        c.send(CHUNKED + b"3\r\ntwo\r\n0\r\n\r\n" + request("/flood?bytes=100000") + HEALTH)
        assert c.reply().body == b"later\n"
        assert c.reply().body == b"one"
        assert c.reply().body == b"two"
        assert c.reply().body == b"x" * 100000
        assert c.reply().body == OK_BODY


def test_a_body_longer_than_declared_is_the_next_request_and_refused(server):
    with server.connect() as c:
        c.send(POST + b"Content-Length: 10\r\n\r\n0123456789" + b"\x01" * 1000)
        assert c.reply().body == b"0123456789"
        is_refused(c.reply(), 400)
        assert c.everything() == b""


def test_a_body_shorter_than_declared_is_never_handled(server):
    before = server.stats()
    with server.connect() as c:
        c.send(POST + b"Content-Length: 10\r\n\r\n01234").half_close()
        assert c.everything() == b""
    assert server.stats()["contexts"] == before["contexts"]


def test_chunks_of_every_size_across_buffers(server):
    """The library's buffer ends in the middle of everything, also of a chunk's size."""
    for size in (1, 2, 3, 15, 16, 17, 255, 256, 4095, 4096, 30000):
        n = 200000 // size if size > 2 else 20000
        data = bytes(range(256)) * (size // 256 + 1)
        chunk = f"{size:x}".encode() + b"\r\n" + data[:size] + b"\r\n"
        with server.connect() as c:
            reply = c.ask(CHUNKED + chunk * n + b"0\r\n\r\n")
            assert reply.status == 200 and reply.body == data[:size] * n, size
            assert c.ask(HEALTH).body == OK_BODY


def test_a_large_body_comes_whole(server):
    body = bytes(range(256)) * (4 * 1024 * 16)
    with server.connect() as c:
        assert c.ask(request("/echo", "POST", body=body)).body == body
        assert c.ask(HEALTH).body == OK_BODY


def test_expect_continue(server):
    with server.connect() as c:
        c.send(POST + b"Content-Length: 5\r\nExpect: 100-continue\r\n\r\n")
        assert c.until(b"\r\n\r\n").startswith(b"HTTP/1.1 100")
        assert c.ask(b"hello").body == b"hello"
        c.send(POST + b"Content-Length: 50000000\r\nExpect: 100-continue\r\n\r\n")
        is_refused(c.reply(), 413)


def test_head_and_answers_without_a_body(server):
    with server.connect() as c:
        head = c.send(request("/health", "HEAD")).reply(head_only=True)
        assert head.status == 200 and head.headers["content-length"] == "20"
        for code in (204, 304):
            reply = c.ask(request(f"/status?code={code}"))
            assert reply.status == code and "content-type" not in reply.headers
        reply = c.ask(request("/status?code=404"))
        assert reply.status == 404 and reply.body == b"some text\n"
        assert c.ask(HEALTH).body == OK_BODY
    with server.connect() as c:
        head = c.send(request("/events", "HEAD")).reply(head_only=True)
        assert head.status == 200 and head.headers["content-type"] == "text/event-stream"
        assert c.everything() == b""
    assert server.stats()["active"] == 1


def test_the_raw_target_reaches_the_handler(server):
    with server.connect() as c:
        for target in ("/describe/a%20b?x=%26&y=1", "/describe/%41", "/describe/a+b?[x]={|}^`"):
            assert c.ask(request(target)).json()["target"] == target
        # The library would cut the first and see two segments in the second.
        for target in ("/describe/a%00b", "/describe/a%2fb", "/describe/%2e%2e", "/describe/%zz"):
            assert c.ask(request(target)).status == 400
        assert c.ask(request("/describe/a%20b/%c3%a9")).json()["segments"] == ["describe", "a b", "\u00e9"]


def test_headers_and_peer(server):
    with server.connect() as c:
        told = c.ask(request("/describe", headers=["X-Test: one"])).json()
        assert (told["header"], told["twice"], told["local"]) == ("one", False, False)
        assert told["peer"] == "127.0.0.1:%d" % c.sock.getsockname()[1]
        told = c.ask(request("/describe", "BREW", headers=["x-test: 1", "X-TEST: 2"])).json()
        assert told["twice"] and told["method"] == "BREW"
    with server.connect_unix() as c:
        told = c.ask(request("/describe")).json()
        assert (told["local"], told["peer"], told["header"]) == (True, "unix", None)


def test_http_1_0_gets_no_chunks_and_is_closed(server):
    with server.connect() as c:
        c.send(b"GET /flood?bytes=100000 HTTP/1.0\r\n\r\n")
        reply = c.reply()
        assert "transfer-encoding" not in reply.headers and reply.body == b"x" * 100000
        with pytest.raises(Closed):
            c.more()
