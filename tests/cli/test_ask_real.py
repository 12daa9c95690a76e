# SPDX-License-Identifier: Apache-2.0
"""`cay ask` with a real server, which it starts itself; the model is a stand-in (tests/standin)."""

import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time

import pytest
from ask_helpers import NO_KEYS, Terminal
from cli_helpers import PATIENCE, TOP, Cli, clean_env

sys.path.append(str(TOP / "tests" / "standin"))
from standin_helper import StandIn  # noqa: E402

# A server that takes little, on any port that is free.
SMALL = {"CAY_LISTEN": "127.0.0.1:0", "CAY_BOXES": "32", "CAY_POOL": "2", "CAY_POOL_BLANK": "1", "CAY_PRELOAD": "off"}


class Asking:
    """`cay ask` in a directory of its own, for a data directory that it may start a server in."""

    def __init__(self, data, work):
        self.cli = Cli(data)
        self.work = work
        self.pids = []

    def ask(self, *args, env=None, **kwargs):
        env = {**NO_KEYS, **SMALL, "HOME": str(self.work), "XDG_STATE_HOME": "", **(env or {})}
        done = self.cli.run("ask", *args, cwd=self.work, env=env, **kwargs)
        self.pids += [int(pid) for pid in re.findall(r"'kill (\d+)'", done.stderr.decode())]
        return done

    def stop(self):
        for pid in self.pids:
            os.kill(pid, signal.SIGTERM)
        deadline = time.monotonic() + PATIENCE
        while any(os.path.exists(f"/proc/{pid}") for pid in self.pids):
            assert time.monotonic() < deadline
            time.sleep(0.02)
        self.pids.clear()


def make_asking():
    data = tempfile.mkdtemp(prefix="cay-ask-")
    os.chmod(data, 0o711)
    work = pathlib.Path(tempfile.mkdtemp(prefix="cay-ask-work-"))
    return Asking(data, work)


@pytest.fixture(scope="module")
def model():
    if os.geteuid() != 0:
        pytest.skip("boxes need root")
    with StandIn() as model:
        yield model


@pytest.fixture(scope="module")
def started(model):
    """One that was started by the first question, with the key of a .env file."""
    asking = make_asking()
    try:
        (asking.work / ".env").write_text(f"ANTHROPIC_API_KEY={model.key}\nANTHROPIC_BASE_URL={model.url}\n")
        asking.first = asking.ask("-y", "first [[code: print(6 * 7)]]")
        yield asking
        asking.stop()
    finally:
        shutil.rmtree(asking.cli.data, ignore_errors=True)
        shutil.rmtree(asking.work, ignore_errors=True)


def text(done):
    return done.returncode, done.stdout.decode(), done.stderr.decode()


def test_it_starts_a_server(started, model):
    code, out, err = text(started.first)
    assert (code, out) == (0, "42\n"), err
    assert len(started.pids) == 1 and "serve.log" in err and "the key from .env" in err
    assert os.stat(os.path.join(started.cli.data, "serve.log")).st_mode & 0o777 == 0o600
    pid = started.pids[0]
    assert os.getsid(pid) == pid  # it stays when its terminal goes
    assert os.readlink(f"/proc/{pid}/fd/0") == "/dev/null"
    request = model.requests("first [[code")[0]
    assert request["headers"]["x-api-key"] == model.key


def test_the_next_one_finds_it(started):
    before = list(started.pids)
    code, out, err = text(started.ask("second [[code: print('hi')]] [[prose]] [[piece: 2]]"))
    assert (code, out) == (0, "hi\n") and "started a server" not in err and started.pids == before
    assert "| print('hi')\n" in err and "I " not in err


def test_going_on(started):
    assert text(started.ask("-q", "a [[code: x = 20]]"))[:2] == (0, "")
    assert text(started.ask("-q", "-c", "b [[code: print(x + 1)]]"))[:2] == (0, "21\n")


def test_javascript(started):
    assert text(started.ask("-q", "-l", "js", "a [[code: console.log([1, 2].map(n => n * 21))]]"))[:2] == (0, "[ 21, 42 ]\n")


def test_files(started):
    code = "import os; os.makedirs('d'); open('d/a.txt', 'w').write('hi'); open('../tmp/b', 'w').write('b'); None"
    done = started.ask("-o", "out", f"files [[code: {code}]]")
    assert done.returncode == 0, done.stderr
    assert (started.work / "out" / "d" / "a.txt").read_text() == "hi"


def test_a_repair(started):
    code, out, err = text(started.ask("x [[code: print('half'); 1 / 0]] [[then: code: print('whole')]]"))
    assert (code, out) == (0, "whole\n") and "ZeroDivisionError" in err and "tries again" in err
    code, out, err = text(started.ask("--retries", "0", "x [[code: print('half'); 1 / 0]]"))
    assert (code, out) == (1, "half\n") and err.count("ZeroDivisionError") == 1


def test_a_stream_that_breaks_at_the_model(started):
    code, out, _ = text(started.ask("y [[break: 4 times=1]] [[code: print('after all')]]"))
    assert (code, out) == (0, "after all\n")


@pytest.mark.parametrize(
    "args, expected",
    [
        (["a [[refusal]]"], 1),
        (["a [[status: 401]]"], 125),
        (["a [[status: 400]]"], 125),
        (["-t", "500ms", "--retries", "0", "a [[code: while True: pass]]"], 124),
        (["-s", "no-such-sandbox", "a"], 125),
    ],
)
def test_trouble(started, args, expected):
    code, out, err = text(started.ask(*args))
    assert (code, out) == (expected, "") and "cay: " in err


def test_json(started):
    done = started.ask("--json", "a [[code: 1 + 1]]")
    assert (done.returncode, done.stderr) == (0, b"")
    found = json.loads(done.stdout)
    assert found["success"] and found["results"][0]["text"] == "2" and found["metrics"]["input_tokens"] > 0


def start(asking, *args):
    env = {**NO_KEYS, "HOME": str(asking.work), "XDG_STATE_HOME": "", "PATH": os.environ["PATH"]}
    return subprocess.Popen(
        asking.cli.command("ask", *args), cwd=asking.work, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )


def interrupt(process):
    process.send_signal(signal.SIGINT)
    assert process.wait(PATIENCE) == 130
    assert b"cay: cancelled\n" in process.stderr.read()


def test_cancelling_the_code(started):
    with start(started, "--retries", "0", "z [[code: print('on', flush=True)\nwhile True: pass]]") as process:
        assert process.stdout.read(3) == b"on\n"
        interrupt(process)


def test_cancelling_the_model(started, model):
    with start(started, "never answered [[hang]]") as process:
        deadline = time.monotonic() + PATIENCE
        while not model.requests("never answered"):
            assert time.monotonic() < deadline
            time.sleep(0.02)
        interrupt(process)
        while model.requests("never answered")[0]["state"] == "open":  # nobody pays for the rest
            assert time.monotonic() < deadline
            time.sleep(0.02)


@pytest.fixture
def asking(model):
    """One that no server runs for yet."""
    one = make_asking()
    yield one
    one.stop()
    shutil.rmtree(one.cli.data, ignore_errors=True)
    shutil.rmtree(one.work, ignore_errors=True)


def test_a_server_that_cannot_start(asking):
    code, out, err = text(asking.ask("-y", "q", env={"CAY_LISTEN": "nonsense"}))
    assert (code, out) == (125, "") and "did not start" in err and "nonsense" in err  # its own words
    assert asking.pids == []


def test_a_person_starts_one(asking, model):
    with Terminal(asking, "a [[code: print(6 * 7)]]", **SMALL, **model.env()) as t:
        t.until("Start one? [Y/n] ")
        t.type("\r")
        code, shown = t.end()
    asking.pids += [int(pid) for pid in re.findall(r"'kill (\d+)'", shown)]
    assert code == 0 and len(asking.pids) == 1 and "42\n" in shown and "the key from ANTHROPIC_API_KEY" in shown
    assert os.path.exists(f"/proc/{asking.pids[0]}")  # though its terminal has gone


def test_a_server_without_a_key(asking):
    code, out, err = text(asking.ask("-y", "q"))
    assert (code, out) == (125, "") and "started a server" in err and "ANTHROPIC_API_KEY" in err


def test_a_key_for_a_server_that_runs(asking):
    """It is stored as the tenant's secret; what it is worth, the public API would have to say."""
    asking.ask("-y", "q")
    done = asking.ask("-y", "q", env={"ANTHROPIC_API_KEY": "key-of-nobody", "ANTHROPIC_BASE_URL": "https://127.0.0.1:1"})
    assert done.returncode == 125 and b"stored the key from ANTHROPIC_API_KEY" in done.stderr
    listed = subprocess.run(
        [asking.cli.program, "secret", "ls"], env=clean_env(CAY_DATA=asking.cli.data), capture_output=True, check=True, timeout=PATIENCE
    )
    assert b"anthropic" in listed.stdout and b"x-api-key" in listed.stdout and b"key-of-nobody" not in listed.stdout


def test_two_at_once_start_one(asking, model):
    results = []

    def ask():
        results.append(asking.ask("-y", "-q", "t [[code: print(1)]]", env=model.env()))

    threads = [threading.Thread(target=ask) for _ in range(3)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert [(r.returncode, r.stdout) for r in results] == [(0, b"1\n")] * 3, results
    assert len(asking.pids) == 1
