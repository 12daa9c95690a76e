# SPDX-License-Identifier: Apache-2.0
"""An S3 that is far away, overloaded, down, or not what it was said to be. Whatever happens to a request, it is answered
rightly or fails with a reason, and nobody ever sees half an object."""

import hashlib
import http.server
import itertools
import os
import random
import socket
import threading
import urllib.parse
from concurrent.futures import ThreadPoolExecutor

import pytest
from conftest import Failed, s3_store, store_on
from fault_proxy import FAULTS_FOR_NOW, FAULTS_THAT_LIE, Proxy

OLD = random.Random(1).randbytes(1000)
NEW = random.Random(2).randbytes(2000)
BIG = random.Random(3).randbytes(300000)  # five parts
FILES = {"old": OLD, "new": NEW, "big": BIG}


def sha(data):
    return hashlib.sha256(data).hexdigest()


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("files")
    for name, data in FILES.items():
        (folder / name).write_bytes(data)
    return folder


# name -> the command (of a folder of files), and what it prints when all goes well
OPERATIONS = {
    "put": (lambda f: ("put", "k", f / "new"), None),
    "put-parts": (lambda f: ("put", "k", f / "big", sha(BIG)), None),
    "get": (lambda f: ("get", "k"), OLD),
    "get-big": (lambda f: ("get", "b"), BIG),
    "range": (lambda f: ("get", "b", 1000, 200000), BIG[1000:201000]),
    "head": (lambda f: ("head", "k"), f"{len(OLD)} {sha(OLD)}\n".encode()),
    "delete": (lambda f: ("delete", "k"), None),
    "delete-all": (lambda f: ("delete-all", "d/"), b""),
    "list": (lambda f: ("list", ""), f"b\t{len(BIG)}\nd/1\t{len(OLD)}\nd/2\t{len(OLD)}\nk\t{len(OLD)}\n".encode()),
    "check": (lambda f: ("check",), b""),
}


FULL = os.environ.get("CAY_TEST_FULL") == "1"


def some(fault, faults):
    """Of all operations with all faults, a part; in the full round, all."""
    return [name for i, name in enumerate(OPERATIONS) if FULL or (i + faults.index(fault)) % 5 == 0]


class Case:
    """A store with a few objects, and the same one seen through a proxy."""

    def __init__(self, server, files):
        self.files = files
        self.proxy = Proxy(server.port, server.secrets)
        self.direct = store_on(server)
        self.through = self.direct.but(S3_ENDPOINT=self.proxy.url, S3_PATIENCE=server.patience_ms)
        self.direct.run(*[("put", key, files / "old") for key in ("k", "d/1", "d/2")], ("put", "b", files / "big", sha(BIG)))

    def do(self, operation):
        make, expected = OPERATIONS[operation]
        out = self.through.run(make(self.files))
        if expected is not None:
            assert out == expected, (operation, out[:100])

    def assert_whole(self, operation, done):
        """As it was before, or as it should be now."""
        keys = [key for key in self.direct.keys() if not key.startswith("health/")]
        assert set(keys) <= {"b", "d/1", "d/2", "k"} and "b" in keys
        sums = self.direct.text(*[("sum", key) for key in keys]).split()[1::2]
        now = dict(zip(keys, sums))
        assert now["b"] == sha(BIG)
        before, after = sha(OLD), {"put": sha(NEW), "put-parts": sha(BIG), "delete": None}.get(operation, sha(OLD))
        assert now.get("k") == after if done else now.get("k") in (before, after), operation
        if operation == "delete-all" and done:
            assert keys == ["b", "k"]


def in_parallel(cases, run):
    with ThreadPoolExecutor(4) as pool:
        for done in [pool.submit(run, *case) for case in cases]:
            done.result()


@pytest.mark.parametrize("fault", FAULTS_FOR_NOW)
def test_once_is_made_up_for(server, files, fault):
    """What goes wrong once, at the first request of an operation, nobody notices."""

    def run(operation):
        case = Case(server, files)
        case.proxy.plan = [fault]
        case.do(operation)
        case.assert_whole(operation, True)
        assert case.proxy.plan == []

    in_parallel([(operation,) for operation in some(fault, FAULTS_FOR_NOW)], run)


@pytest.mark.parametrize("fault", ["500-after", "reset-after", "reset-middle", "truncate", "twice", "cut-upload"])
def test_the_end_of_an_upload_is_made_up_for(server, files, fault):
    """Nobody knows whether it was finished, and the object tells."""
    for at in range(1, 8) if FULL else (7,):  # begin, five parts, end
        case = Case(server, files)
        case.proxy.plan = ["none"] * (at - 1) + [fault]
        case.do("put-parts")
        case.assert_whole("put-parts", True)


FOR_EVER = ["500", "503", "reset-before", "reset-after", "reset-middle", "truncate", "drip", "garbage", "cut-upload"]


@pytest.mark.parametrize("fault", FOR_EVER)
def test_for_ever_is_an_error(server, files, fault):
    def run(operation):
        case = Case(server, files)
        case.through = case.through.but(S3_TRIES=2)
        case.proxy.always = fault
        try:
            case.do(operation)
            done = True
            # A small answer may arrive before a connection breaks; what is read on after each break arrives as a whole.
            assert fault in ("reset-middle", "truncate", "drip") and operation in ("get-big", "range", "get", "list")
        except Failed as failed:
            done = False
            assert failed.code == "unavailable", failed
        case.assert_whole(operation, done)

    in_parallel([(operation,) for operation in some(fault, FOR_EVER)], run)


@pytest.mark.parametrize("fault", FAULTS_THAT_LIE)
def test_lies_are_not_believed(server, files, fault):
    """Other bytes, other lengths, a page to log in at: an error, or it does not matter."""

    def run(operation):
        case = Case(server, files)
        case.through = case.through.but(S3_TRIES=2)
        case.proxy.always = fault
        try:
            case.do(operation)
            done = True
        except Failed as failed:
            done = False
            assert failed.code in ("unavailable", "internal"), failed
            if operation in ("get", "get-big") and fault in ("swap", "short"):
                assert failed.is_damage
        assert not done or fault != "html", operation
        case.assert_whole(operation, done)

    operations = OPERATIONS if FULL else ("put", "get", "list", "delete", "range")
    in_parallel([(operation,) for operation in operations if (fault, operation) not in NOT_TELLABLE], run)


# A HEAD's answer has nothing to compare it with, and neither has a part of an object.
NOT_TELLABLE = {("swap", "range"), ("short", "range"), ("short", "head")}


def test_reading_goes_on_where_it_broke(server, files):
    case = Case(server, files)
    case.proxy.plan = ["reset-middle", "truncate", "drip"]
    assert case.through.run(("get", "b")) == BIG
    assert [fault for method, _, fault in case.proxy.seen if method == "GET"] == ["reset-middle", "truncate", "drip", None]


def test_an_object_that_is_replaced_meanwhile(server, files):
    """The rest of another object is not the rest of this one."""
    case = Case(server, files)
    other = bytes(reversed(BIG))
    (files / "other").write_bytes(other)
    original = case.proxy.spoil

    def spoil(client, method, fault, lines, body):
        if fault == "reset-middle":
            case.direct.run(("put", "b", files / "other", sha(other)))
        return original(client, method, fault, lines, body)

    case.proxy.spoil = spoil
    case.proxy.plan = ["reset-middle"]
    with pytest.raises(Failed) as failed:
        case.through.but(S3_PATIENCE=60000).run(("sum", "b"))  # it waits for the other one to be there
    assert failed.value.code == "unavailable" and "replaced" in failed.value.message


def test_nobody_answers(files):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    store = s3_store(f"http://127.0.0.1:{port}").but(S3_TRIES=2)
    for make, _ in list(OPERATIONS.values())[:: 1 if FULL else 3]:
        with pytest.raises(Failed) as failed:
            store.run(make(files))
        assert failed.value.code == "unavailable" and f"127.0.0.1:{port}" in failed.value.message


@pytest.mark.parametrize("setting, value, word", [
    ("S3_SECRET_KEY", "wrong", "s3-secret-key"),
    ("S3_ACCESS_KEY", "WRONG", "s3-access-key"),
    ("S3_BUCKET", "no-such-bucket", "s3-bucket"),
])
def test_wrong_settings_are_named(s3, files, setting, value, word):
    """And are never taken for an object that is not there."""
    wrong = s3.but(**{setting: value})
    for operation, (make, _) in list(OPERATIONS.items())[:: 1 if FULL else 2]:
        with pytest.raises(Failed) as failed:
            wrong.run(make(files))
        assert failed.value.code == "denied", operation
        assert word in failed.value.message or operation in ("head", "delete"), failed.value


@pytest.mark.parametrize("setting, value, word", [
    ("S3_ENDPOINT", "ftp://x", "s3-endpoint"),
    ("S3_ENDPOINT", "http://u:p@x", "s3-endpoint"),
    ("S3_BUCKET", "a/b", "s3-bucket"),
    ("S3_REGION", "", "s3-region"),
    ("S3_ACCESS_KEY", "a\nb", "s3-access-key"),
    ("S3_SECRET_KEY", "", "s3-secret-key"),
    ("S3_PREFIX", "../", "s3-prefix"),
])
def test_settings_that_make_no_sense(s3, setting, value, word):
    with pytest.raises(Failed) as failed:
        s3.but(**{setting: value}).run(("check",))
    assert failed.value.code == "invalid" and failed.value.message.startswith(word)


# --- answers that the servers here do not give ---


class Scripted:
    """Answers from a function of method, path, query: status, headers, body."""

    def __init__(self, answer):
        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True  # head and body are two writes

            def handle_any(self):
                body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                path, _, query = self.path.partition("?")
                status, headers, text = answer(self.command, path, dict(urllib.parse.parse_qsl(query, True)), body)
                self.send_response(status)
                for name, value in {"Content-Length": len(text), **headers}.items():
                    self.send_header(name, value)
                self.end_headers()
                if self.command != "HEAD":
                    self.wfile.write(text)

            do_GET = do_PUT = do_POST = do_HEAD = do_DELETE = handle_any

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.url = f"http://127.0.0.1:{self.server.server_port}"

    def __enter__(self):
        return s3_store(self.url).but(S3_TRIES=2, S3_PREFIX="p/")

    def __exit__(self, *_):
        self.server.shutdown()
        self.server.server_close()


def error(status, code):
    return status, {}, f"<Error><Code>{code}</Code><Message>hm</Message></Error>".encode()


@pytest.mark.parametrize("answer, code, word", [
    (error(403, "RequestTimeTooSkewed"), "denied", "clock"),
    (error(403, "AccessDenied"), "denied", "s3-access-key"),
    (error(400, "AuthorizationHeaderMalformed"), "denied", "s3-region"),
    (error(301, "PermanentRedirect"), "denied", "s3-endpoint"),
    ((307, {"Location": "http://127.0.0.1:1/"}, b""), "denied", "s3-endpoint"),
    (error(507, "XMinioStorageFull"), "exhausted", "full"),
    (error(400, "EntityTooLarge"), "exhausted", "large"),
    ((418, {}, b"<Error><Code>Teapot</Code>"), "unavailable", "418"),
    ((200, {}, b""), "unavailable", "S3"),
])
def test_what_errors_say(files, answer, code, word):
    with Scripted(lambda *_: answer) as store, pytest.raises(Failed) as failed:
        store.run(("put", "k", files / "new"))
    assert failed.value.code == code and word in failed.value.message, failed.value


def page(keys, more, encoded=True):
    items = "".join(f"<Contents><Key>{key}</Key><LastModified>2026-11-16T10:00:00.000Z</LastModified><Size>5</Size></Contents>" for key in keys)
    rest = f"<IsTruncated>true</IsTruncated><NextContinuationToken>{more}</NextContinuationToken>" if more else ""
    kind = "<EncodingType>url</EncodingType>" if encoded else ""
    return 200, {}, f"<?xml version='1.0'?><ListBucketResult xmlns='http://s3'>{kind}{items}{rest}</ListBucketResult>".encode()


def test_lists_as_others_write_them():
    pages = {None: page(["p/a+b", "p/a%2Bc", "p/folder/"], "t&lt;2"), "t<2": page([], "t3"), "t3": page(["p/%C3%A4", "p/&#x7a;%25"], None)}
    with Scripted(lambda m, p, query, b: pages[query.get("continuation-token")]) as store:
        assert store.keys() == ["a b", "a+c", "z%", "ä"]
    with Scripted(lambda *_: page(["p/a+b", "p/a%2Bc"], None, False)) as store:
        assert store.keys() == ["a%2Bc", "a+b"]


@pytest.mark.parametrize("answer", [
    page(["p/b"], "x"),  # for ever
    page([], "x"),
    (200, {}, b"<ListBucketResult><IsTruncated>true</IsTruncated></ListBucketResult>"),
    (200, {}, b"<ListBucketResult><Contents><Key>p/a</Key></Contents></ListBucketResult>"),
    (200, {}, b"<ListBucketResult><Contents><Key>p/a</Key><Size>-1</Size></Contents></ListBucketResult>"),
    (200, {}, b"<!DOCTYPE x [<!ENTITY a 'b'>]><ListBucketResult/>"),
    (200, {}, b"<ListBucketResult>" + b"<a>" * 1000),
    (200, {}, b"<Error><Code>InternalError</Code></Error>"),
    (200, {}, b"{}"),
    (200, {}, b"<x>" + b"y" * 9000000),
])
def test_lists_that_make_no_sense(answer):
    with Scripted(lambda *_: answer) as store, pytest.raises(Failed) as failed:
        store.run(("list", ""))
    assert failed.value.code == "unavailable"


@pytest.mark.parametrize("keys", [[], ["p/folder/", "elsewhere"]], ids=["none", "others"])
def test_lists_that_never_come_to_an_end(keys):
    """With another token each time, and nothing of ours: somebody waits for it."""
    tokens = itertools.count()
    with Scripted(lambda *_: page(keys, f"t{next(tokens)}")) as store, pytest.raises(Failed) as failed:
        store.run(("list", ""))
    assert failed.value.code == "unavailable" and "go on" in failed.value.message
    assert next(tokens) < 5000


def test_an_upload_that_ends_with_an_error_in_disguise(files):
    asked = []

    def answer(method, path, query, body):
        asked.append((method, *query))
        if "uploads" in query:
            return 200, {}, b"<InitiateMultipartUploadResult><UploadId>u&amp;1</UploadId></InitiateMultipartUploadResult>"
        if method == "PUT":
            return 200, {"ETag": '"e"'}, b""
        if method == "POST":
            return error(200, "InternalError")
        return error(404, "NoSuchKey") if method == "HEAD" else (204, {}, b"")

    with Scripted(answer) as store, pytest.raises(Failed) as failed:
        store.run(("put", "k", files / "big"))
    assert failed.value.code == "unavailable"
    assert asked[-1] == ("DELETE", "uploadId")  # and is taken back


def test_fewer_parts_than_it_has(files):
    """As Swift does it, with 1000."""

    def answer(method, path, query, body):
        if "uploads" in query:
            return 200, {}, b"<InitiateMultipartUploadResult><UploadId>u</UploadId></InitiateMultipartUploadResult>"
        if method == "PUT" and int(query["partNumber"]) > 3:
            return error(400, "InvalidArgument")
        return (204, {}, b"") if method == "DELETE" else (200, {"ETag": '"e"'}, b"")

    with Scripted(answer) as store, pytest.raises(Failed) as failed:
        store.run(("put", "k", files / "big"))
    assert failed.value.code == "exhausted" and "3 parts" in failed.value.message, failed.value


def test_uploads_of_the_dead_are_aborted():
    aborted = []

    def answer(method, path, query, body):
        if "uploads" in query:
            item = "<Upload><Key>{}</Key><UploadId>{}</UploadId><Initiated>{}</Initiated></Upload>"
            uploads = [("p/a", "1", "2020-01-01T00:00:00Z"), ("p/b", "2", "2999-01-01T00:00:00Z"), ("q/c", "3", "2020-01-01T00:00:00Z")]
            text = "".join(item.format(*upload) for upload in uploads)
            return 200, {}, f"<ListMultipartUploadsResult>{text}</ListMultipartUploadsResult>".encode()
        if method == "DELETE":
            aborted.append((path, query.get("uploadId")))
            return 204, {}, b""
        kept.update({path: body} if method == "PUT" else {})
        if method == "GET" and path in kept:
            return 200, {"ETag": '"e"'}, kept[path]
        return page([], None) if method == "GET" else (200, {"ETag": '"e"'}, b"")

    kept = {}
    with Scripted(answer) as store:
        store.run(("check",))
    assert [upload for upload in aborted if upload[1]] == [("/test/p/a", "1")]


def test_bucket_in_the_host(server, files):
    """Names below localhost are this machine."""
    store = store_on(server).but(S3_ENDPOINT=f"http://s3.localhost:{server.front.port}", S3_STYLE="host")
    try:
        store.run(("check",))
    except Failed as failed:
        if "resolve" in failed.message:
            pytest.skip("names below localhost are not found here")
        raise
    store.run(("put", "a b/ä", files / "big", sha(BIG)))
    assert store.run(("get", "a b/ä")) == BIG
    assert store.keys() == ["a b/ä"]
