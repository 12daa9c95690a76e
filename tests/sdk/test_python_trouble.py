# SPDX-License-Identifier: Apache-2.0
"""The Python SDK where things go wrong: errors by name, connections that break, streams that are cut, servers that are
busy. A proxy between client and server does the damage; the server is real."""

import asyncio
import builtins
import gc
import io
import os
import signal
import ssl
import subprocess
import sys

import pytest
from api_helpers import ADMIN, Client, Server, eventually, kill_daemon
from python_helpers import SDK, Relay, Spoiler, Way, answer, cay, numbers

BUSY = answer("503 Service Unavailable", '{"error": "full", "error_code": "UNAVAILABLE"}', "Retry-After: 0")


@pytest.fixture
def spoiler(server):
    made = Spoiler(server.port)
    yield made
    made.close()


@pytest.fixture(params=["threads", "asyncio"])
def way(request, spoiler):
    made = Way(request.param, url=spoiler.url, token=ADMIN)
    yield made
    spoiler.rules = []
    made.close()


@pytest.fixture
def box(way):
    return way.sandbox()


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    """Nobody here has to be patient with a server."""
    monkeypatch.setattr(cay._client, "FIRST_WAIT", 0.01)


# -- errors by name


def test_errors_by_name(box):
    with pytest.raises(cay.FileNotFoundError) as missing:
        box.read_file("nosuch")
    error = missing.value
    assert isinstance(error, (cay.NotFoundError, cay.CayError)) and isinstance(error, builtins.FileNotFoundError)
    assert (error.status, error.code, error.retryable) == (404, "NOT_FOUND", False) and error.request_id
    assert "there is no '/workspace/nosuch'" in str(error) and error.details == {}
    with pytest.raises(builtins.IsADirectoryError):
        box.read_file("/etc")
    with pytest.raises(cay.NotDirectoryError):
        box.list_files("/etc/passwd")
    with pytest.raises(cay.ForbiddenError):
        box.write_file("/sys/x", "")
    with pytest.raises(cay.InvalidRequestError, match="timeout"):
        box.exec("true", timeout="soon")
    with pytest.raises(cay.InvalidRequestError) as wrong:
        box.start_process(["/nosuch/program"])
    assert wrong.value.code == "CANNOT_START"
    with pytest.raises(cay.NotSupportedError, match="r-base-core"):
        box.run_code("1", language="r")


@pytest.mark.parametrize("kind", ["threads", "asyncio"])
def test_a_wrong_token(server, kind):
    way = Way(kind, url=f"http://127.0.0.1:{server.port}", token="cay_wrong_0123456789")
    with pytest.raises(cay.UnauthorizedError) as refused:
        way.sandbox().exec("true")
    assert refused.value.status == 401
    way.made = []
    way.close()


def test_wrong_words_are_refused_here():
    with pytest.raises(ValueError, match="no id of a sandbox"):
        cay.get_sandbox("../x")
    with pytest.raises(TypeError, match="memry"):
        cay.get_sandbox("x", memry=1)
    for url in ("ftp://x", "127.0.0.1:8787", "unix://relative"):
        with pytest.raises(ValueError, match="url"):
            cay.get_sandbox("x", url=url)
    with pytest.raises(ValueError, match="line's end"):
        cay.get_sandbox("x", url="http://127.0.0.1:9", token="a\r\nX-Evil: 1", retries=0).exec("true")


def test_no_server():
    with pytest.raises(cay.ConnectionError, match="is the server there?.*CAY_URL") as refused:
        cay.get_sandbox("x", url="http://127.0.0.1:9", retries=1).exec("true")
    assert refused.value.code == "CONNECTION_FAILED" and refused.value.retryable and refused.value.status == 0
    assert isinstance(refused.value, builtins.ConnectionError)
    with pytest.raises(cay.ConnectionError, match="nosuch.sock"):
        cay.get_sandbox("x", url="unix:///nosuch.sock", retries=0).exec("true")


def test_not_an_http_server(spoiler, way):
    spoiler.rules = [("PUT", ("answer", b"SSH-2.0-x\r\n\r\n"))] * 9
    with pytest.raises(cay.ConnectionError, match="no HTTP server"):
        way.sandbox().exec("true")


# -- once, whatever happens


def test_an_answer_that_nobody_heard(spoiler, box):
    box.exec("true")
    spoiler.rules = [("POST exec", ("lose",)), ("POST exec", ("cut",)), ("POST exec", ("shorten", 90))]
    assert box.exec("echo x >> ran; wc -l < ran").stdout == "1\n"
    assert spoiler.rules == [] and box.read_file("ran") == "x\n"
    used = spoiler.keys("exec")
    assert len(used) == 5 and len(set(used[1:])) == 1 and used[0] != used[1]


def test_a_command_that_still_runs(spoiler, way):
    """Its connection is gone at once; whoever asks again waits for it."""
    box = way.sandbox()
    box.exec("mkfifo gate")
    spoiler.rules = [("POST exec", ("lose now",))]
    process = box.start_process("sleep 0.7; echo open > gate")
    assert box.exec("echo x >> ran; cat gate; cat ran").stdout == "open\nx\n"
    assert process.wait_for_exit() == 0


def test_processes_and_contexts_are_made_once(spoiler, box):
    box.exec("true")
    spoiler.rules = [("POST processes", ("lose",)), ("POST contexts", ("lose",)), ("POST code", ("lose",))]
    box.start_process("sleep 600")
    box.create_code_context("bash")
    assert box.run_code("open('/workspace/n', 'a').write('x')\n1").text == "1"
    assert spoiler.rules == []
    assert len(box.list_processes()) == 1 and box.read_file("n") == "x"
    assert [c.is_default for c in box.list_code_contexts()] in ([False, True], [True, False])


def test_sessions_are_made_once(spoiler, box):
    box.exec("true")
    spoiler.rules = [("POST sessions", ("lose",))]
    session = box.create_session()
    assert [s.id for s in box.list_sessions()] == [session.id]
    spoiler.rules = [("POST sessions", ("lose",))]
    with pytest.raises(cay.ConnectionError):
        box.create_session("named")  # somebody else may have made it


def test_what_is_not_safe_is_not_sent_again(spoiler, box):
    box.write_file("a", "1")
    spoiler.rules = [("POST files:move", ("lose",))]
    with pytest.raises(cay.ConnectionError) as broken:
        box.move_file("a", "b")
    assert broken.value.code == "CONNECTION_BROKEN" and not broken.value.retryable
    assert box.readdir() == ["b"]  # it was done, and not a second time
    first = box.write_file("c", "1")
    spoiler.rules = [("PUT files", ("lose",))]
    with pytest.raises(cay.ConnectionError):
        box.write_file("c", "2", if_match=first.etag)
    assert box.read_file("c") == "2"


def test_what_is_safe_is_sent_again(spoiler, box, tmp_path):
    box.exec("true")
    spoiler.rules = [("PUT files", ("lose",)), ("GET files", ("shorten", 250)), ("DELETE files", ("lose",))]
    box.write_file("a", "x" * 1000)
    assert box.read_file("a") == "x" * 1000
    box.delete_file("a")
    assert spoiler.rules == [] and box.readdir() == []
    spoiler.rules = [("PUT files", ("cut",))]
    assert box.write_file("f", io.BytesIO(b"again")).size == 5  # from its beginning
    assert box.read_file("f") == "again"
    spoiler.rules = [("DELETE /sandbox/", ("lose",))]
    box.destroy()


def test_no_retries_no_key(spoiler, way):
    box = way.sandbox(retries=0)
    box.exec("true")
    assert spoiler.keys("exec") == []
    spoiler.rules = [("POST exec", ("cut",))]
    with pytest.raises(cay.ConnectionError):
        box.exec("true")


def test_a_key_of_ones_own(box):
    first = box.exec("date +%N; echo x >> ran", idempotency_key="mine-" + box.id)
    again = box.exec("date +%N; echo x >> ran", idempotency_key="mine-" + box.id)
    assert first.stdout == again.stdout and box.read_file("ran") == "x\n"
    with pytest.raises(cay.ConflictError) as reused:
        box.exec("another", idempotency_key="mine-" + box.id)
    assert reused.value.code == "IDEMPOTENCY_KEY_REUSED"


# -- a busy server


def test_busy(spoiler, box):
    spoiler.rules = [("PUT", ("answer", BUSY)), ("POST exec", ("answer", BUSY)), ("POST exec", ("answer", BUSY))]
    assert box.exec("echo done").stdout == "done\n" and spoiler.rules == []


def test_too_busy(spoiler, box):
    box.exec("true")
    before = len(spoiler.seen)
    spoiler.rules = [("POST exec", ("answer", BUSY))] * 20
    with pytest.raises(cay.UnavailableError) as refused:
        box.exec("true")
    assert refused.value.retryable and refused.value.retry_after == 0 and len(spoiler.seen) - before == 6
    spoiler.rules = [("POST files:move", ("answer", BUSY))]
    with pytest.raises(cay.UnavailableError):
        box.move_file("a", "b")  # it may have been done


def test_a_server_that_asks_for_too_much_patience(spoiler, box):
    box.exec("true")
    body = '{"error": "slow down", "error_code": "RATE_LIMITED"}'
    spoiler.rules = [("POST exec", ("answer", answer("429 Too Many Requests", body, "Retry-After: 3600")))]
    with pytest.raises(cay.RateLimitedError) as refused:
        box.exec("true")
    assert refused.value.retry_after == 3600


def test_a_page_of_something_in_between(spoiler, box):
    box.exec("true")
    spoiler.rules = [("GET", ("answer", answer("502 Bad Gateway", "<h1>proxy</h1>")))]
    with pytest.raises(cay.BadGatewayError, match="<h1>proxy") as odd:
        box.info()
    assert odd.value.code == "HTTP_502"


# -- first use


def test_one_put_for_all(spoiler, way):
    box = way.sandbox()
    thing = getattr(box, "thing", box) if way.loop is not None else box
    way.at_once(*[lambda: thing.exec("true") for _ in range(6)])
    assert len([head for head in spoiler.seen if head.startswith("PUT ")]) == 1
    way.sandbox(box.id).destroy()
    way.at_once(*[lambda: thing.exec("true") for _ in range(6)])  # destroyed underneath: one more
    assert len([head for head in spoiler.seen if head.startswith("PUT ")]) == 2


def test_looking_makes_and_wakes_nothing(spoiler, way):
    box = way.sandbox()
    box.exec("true")
    box.sleep()
    other = way.sandbox(box.id)
    before = len(spoiler.seen)
    other.list_processes(), other.list_sessions(), other.get_exposed_ports(), other.list_snapshots()
    assert other.info().status == "sleeping"
    assert not [head for head in spoiler.seen[before:] if head.startswith("PUT ")]


def test_a_first_use_that_fails_is_tried_by_the_next(spoiler, way):
    box = way.sandbox(retries=0)
    spoiler.rules = [("PUT", ("cut",))]
    with pytest.raises(cay.ConnectionError):
        box.exec("true")
    assert box.exec("echo there").stdout == "there\n"


# -- streams


COUNT = "for i in 1 2 3 4 5 6; do echo line $i; sleep 0.05; done"
LINES = "".join(f"line {i}\n" for i in range(1, 7))


def test_a_stream_that_breaks_goes_on(spoiler, box):
    box.exec("true")
    spoiler.rules = [
        ("POST exec", ("cut",)),
        ("POST exec", ("shorten at", b"line 2")),
        ("POST exec", ("shorten at", b"line 4")),
        ("POST exec", ("shorten at", b"event: exit")),
    ]
    events = list(box.exec_stream(f"echo begin >> ran; {COUNT}"))
    assert spoiler.rules == []
    assert "".join(e.data for e in events if e.type == "stdout") == LINES
    assert [e.type for e in events if e.type != "stdout"] == ["start", "complete"] and box.read_file("ran") == "begin\n"
    assert sum("Last-Event-ID" in head for head in spoiler.seen) == 3


def test_gathered_output_survives_a_break(spoiler, box):
    box.exec("true")
    spoiler.rules = [("POST exec", ("shorten at", b"line 3"))]
    told = []
    done = box.exec(COUNT, on_output=lambda _, text: told.append(text))
    assert done.stdout == LINES == "".join(told) and done.success and spoiler.rules == []


def test_code_that_breaks_goes_on(spoiler, box):
    box.exec("true")
    spoiler.rules = [("POST code", ("cut",)), ("POST code", ("shorten at", b"event: stdout")), ("POST code", ("shorten at", b"event: end"))]
    code = "import time\nfor i in range(5):\n    print(i, flush=True)\n    time.sleep(0.05)\ni"
    events = list(box.run_code_stream(code))
    assert "".join(e.text for e in events if e.type == "stdout") == "0\n1\n2\n3\n4\n"
    assert [e.type for e in events if e.type != "stdout"] == ["start", "result", "execution_complete"]
    assert [e.result.text for e in events if e.type == "result"] == ["4"] and events[-1].success
    assert spoiler.rules == [] and box.run_code("1").execution_count == 2


def test_logs_that_break_go_on(spoiler, box):
    process = box.start_process(COUNT)
    spoiler.rules = [("GET logs", ("shorten at", b"line 2")), ("GET logs", ("shorten at", b"line 5"))]
    events = list(process.stream_logs())
    assert "".join(e.data for e in events if e.type == "stdout") == LINES and events[-1].type == "exit"
    assert spoiler.rules == []


def test_a_stream_that_cannot_go_on_is_not_complete(spoiler, box):
    box.exec("true")
    spoiler.rules = [("POST exec", ("shorten at", b"line 2"))] + [("POST exec", ("cut",))] * 60
    seen = []
    with pytest.raises(cay.StreamInterruptedError, match="not complete") as cut:
        for event in box.exec_stream(COUNT):
            seen.append(event)
    assert cut.value.code == "STREAM_INTERRUPTED" and seen[-1].type == "stdout"
    assert isinstance(cut.value, cay.ConnectionError)
    spoiler.rules = []


def test_a_process_that_was_forgotten(spoiler, box):
    process = box.start_process("echo a")
    process.wait_for_exit()
    gone = answer("404 Not Found", '{"error": "there is no such process", "error_code": "NOT_FOUND"}')
    spoiler.rules = [("GET logs", ("shorten at", b"event: exit")), ("GET logs", ("answer", gone))]
    with process.stream_logs() as events:
        assert next(events).data == "a\n"
        with pytest.raises(cay.StreamInterruptedError, match="there is no such process"):
            next(events)


def test_a_watch_that_breaks_says_so(spoiler, box):
    box.exec("true")
    spoiler.rules = [("GET watch", ("shorten at", b'"event"'))]
    with pytest.raises(cay.StreamInterruptedError):
        with box.watch() as events:
            assert next(events).type == "watching"
            box.write_file("x", "1")
            list(events)


def test_a_file_that_is_cut(spoiler, box):
    box.write_file("big", b"x" * 500000)
    spoiler.rules = [("GET files", ("shorten", 100000))]
    with pytest.raises(cay.StreamInterruptedError):
        with box.read_file_stream("big") as pieces:
            list(pieces)


def test_a_callback_that_fails_ends_the_command(box):
    def fail(*_):
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        box.exec("echo a; sleep 600", on_output=fail)
    (process,) = box.list_processes()
    assert process.wait_for_exit() == 137


def test_leaving_a_loop_for_good(server):
    with cay.get_sandbox(url=f"http://127.0.0.1:{server.port}", token=ADMIN) as box:
        for event in box.exec_stream("echo a; sleep 600"):
            if event.type == "stdout":
                break
        gc.collect()
        (process,) = box.list_processes()
        assert process.wait_for_exit() == 137


# -- terminals


def read_until(terminal, word):
    seen = b""
    while word not in seen:
        piece = terminal.recv()
        assert piece, seen
        seen += piece
    return seen


@pytest.mark.parametrize("kind", ["threads", "asyncio"])
def test_a_terminal_that_breaks_goes_on(server, kind):
    """Where it was: nothing is missed, nothing comes twice."""
    relay = Relay(server.port)
    way = Way(kind, url=f"http://127.0.0.1:{relay.port}", token=ADMIN)
    box = way.sandbox()
    box.exec("mkfifo go")
    with box.terminal(command="echo one; cat go; echo three") as terminal:
        seen = read_until(terminal, b"one")
        relay.cut()
        box.exec("echo two > go", timeout=60)
        for piece in terminal:
            seen += piece
        assert seen.split() == [b"one", b"two", b"three"] and terminal.exit.code == 0
    way.close()
    relay.close()


def test_a_terminal_that_cannot_go_on(server):
    relay = Relay(server.port)
    box = cay.get_sandbox(url=f"http://127.0.0.1:{relay.port}", token=ADMIN)
    terminal = box.terminal(command="echo here; sleep 600")
    read_until(terminal, b"here")
    relay.close()
    with pytest.raises(cay.StreamInterruptedError):
        terminal.recv()
    cay.get_sandbox(box.id, url=f"http://127.0.0.1:{server.port}", token=ADMIN).destroy()


# -- TLS


@pytest.fixture(scope="module")
def certificate(top):
    command = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2"]
    command += ["-keyout", f"{top}/key.pem", "-out", f"{top}/cert.pem", "-subj", "/CN=localhost"]
    command += ["-addext", "subjectAltName=DNS:localhost"]
    subprocess.run(command, check=True, capture_output=True)
    return top / "cert.pem", top / "key.pem"


@pytest.mark.parametrize("kind", ["threads", "asyncio"])
def test_tls(server, certificate, kind):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*certificate)
    relay = Relay(server.port, context)
    url = f"https://localhost:{relay.port}"
    way = Way(kind, url=url, token=ADMIN, ssl_context=ssl.create_default_context(cafile=str(certificate[0])))
    box = way.sandbox()
    assert box.exec("echo secret").stdout == "secret\n"
    box.write_file("big", b"x" * 3000000)
    assert len(box.read_bytes("big")) == 3000000
    assert [e.type for e in box.exec_stream("echo x; sleep 0.1; echo y")][-1] == "complete"
    assert box.terminal(command="echo on a terminal").recv(60)
    assert relay.accepted < 9  # connections are used again
    strangers = Way(kind, url=url, token=ADMIN, retries=0)
    with pytest.raises(cay.ConnectionError, match="(?i)certificate"):
        strangers.sandbox().exec("true")
    strangers.made = []
    strangers.close()
    way.close()
    relay.close()


# -- asyncio alone


def test_cancelling(server):
    async def main():
        async with cay.aio.get_sandbox(url=f"http://127.0.0.1:{server.port}", token=ADMIN) as box:
            await box.exec("true")
            with pytest.raises(asyncio.TimeoutError):
                await asyncio.wait_for(box.exec("sleep 600", timeout=30), 0.3)
            assert (await box.exec("echo on")).stdout == "on\n"  # on another connection

    asyncio.run(main())


def test_waiting_too_long_between_two_events(server):
    """It does no harm to those that come later, whoever gives up."""

    async def give_up(events, own):
        with pytest.raises((asyncio.TimeoutError, TimeoutError)):
            while True:
                await (events.within(0.1) if own else asyncio.wait_for(events.__anext__(), 0.1))

    async def main():
        async with cay.aio.get_sandbox(url=f"http://127.0.0.1:{server.port}", token=ADMIN) as box:
            async with box.watch() as events:
                assert (await events.__anext__()).type == "watching"
                for name, own in (("a", True), ("b", False), ("c", True)):
                    await give_up(events, own)
                    await box.write_file(name, "")
                    assert (await events.within(60)).path == f"/workspace/{name}"

    asyncio.run(main())


def test_leaving_an_asynchronous_loop_for_good(server):
    async def main():
        async with cay.aio.get_sandbox(url=f"http://127.0.0.1:{server.port}", token=ADMIN) as box:
            async for event in box.exec_stream("echo a; sleep 600"):
                if event.type == "stdout":
                    break
            gc.collect()
            (process,) = await box.list_processes()
            assert await process.wait_for_exit() == 137

    asyncio.run(main())


def test_coroutines_as_callbacks(server):
    told = []

    async def tell(stream, text):
        await asyncio.sleep(0)
        told.append((stream, text))

    async def main():
        async with cay.aio.get_sandbox(url=f"http://127.0.0.1:{server.port}", token=ADMIN) as box:
            await box.exec("echo a", on_output=tell)

    asyncio.run(main())
    assert told == [("stdout", "a\n")]


def test_one_object_in_two_loops(server):
    box = cay.aio.get_sandbox(f"loops-{next(numbers)}", url=f"http://127.0.0.1:{server.port}", token=ADMIN)
    assert asyncio.run(box.exec("echo 1")).stdout == "1\n"
    assert asyncio.run(box.exec("echo 2")).stdout == "2\n"
    asyncio.run(box.destroy())


# -- the whole server


def test_a_daemon_that_is_killed(top):
    """Its boxes go on, and so do those who wait for them."""
    data = top / "killed"
    data.mkdir()
    server = Server(data)
    try:
        with cay.get_sandbox("survivor", url=f"http://127.0.0.1:{server.port}", token=ADMIN) as box:
            stream = box.exec_stream(COUNT.replace("0.05", "0.2"))
            seen = [next(stream), next(stream)]
            kill_daemon(server, Client(server))
            seen += stream
            assert "".join(e.data for e in seen if e.type == "stdout") == LINES
            assert seen[-1].type == "complete" and seen[-1].success
            assert box.exec("echo after").stdout == "after\n"
    finally:
        assert server.stop() == 0


def test_a_fork_has_connections_of_its_own(server):
    with cay.get_sandbox(url=f"http://127.0.0.1:{server.port}", token=ADMIN) as box:
        box.exec("true")
        child = os.fork()
        if child == 0:
            try:
                os._exit(0 if box.exec("echo child").stdout == "child\n" else 1)
            except BaseException:
                os._exit(2)
        assert box.exec("echo parent").stdout == "parent\n"
        assert os.waitpid(child, 0)[1] == 0


def test_nothing_is_left_open(server):
    """Python's own warnings about sockets that nobody closed are errors here, in a program of its own."""
    program = f"""
import asyncio, cay
where = dict(url="http://127.0.0.1:{server.port}", token={ADMIN!r})
with cay.get_sandbox(**where) as box:
    box.exec("true")
    next(iter(box.exec_stream("echo a; sleep 600")))
async def main():
    async with cay.aio.get_sandbox(**where) as box:
        await box.exec("true")
        async for event in box.exec_stream("echo a; sleep 600"):
            break
        terminal = await box.terminal()
asyncio.run(main())
"""
    env = {**os.environ, "PYTHONPATH": str(SDK), "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, "-X", "dev", "-W", "error", "-c", program]
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_interrupting_a_command(server):
    """Ctrl-C comes through at once."""
    program = f"""
import cay
box = cay.get_sandbox("interrupted", url="http://127.0.0.1:{server.port}", token={ADMIN!r})
print(box.exec("echo there").stdout, flush=True)
try:
    box.exec("echo > begun; sleep 600", timeout=60)
except KeyboardInterrupt:
    print("interrupted")
    box.destroy()
"""
    env = {**os.environ, "PYTHONPATH": str(SDK), "PYTHONDONTWRITEBYTECODE": "1"}
    child = subprocess.Popen([sys.executable, "-c", program], env=env, stdout=subprocess.PIPE, text=True)
    assert child.stdout.readline() == "there\n"
    look = cay.get_sandbox("interrupted", url=f"http://127.0.0.1:{server.port}", token=ADMIN)
    eventually(lambda: look.exists("begun"))
    child.send_signal(signal.SIGINT)
    assert "interrupted" in child.communicate()[0] and child.returncode == 0
