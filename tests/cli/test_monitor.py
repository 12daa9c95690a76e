# SPDX-License-Identifier: Apache-2.0
"""`cay monitor`: once and as JSON, its live screen in a terminal, and where the time of a prompt went."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

import pytest
from cli_helpers import CAY, CAY_SAN, PATIENCE, TOP, Cli, Server, clean_env, refused
from monitor_helpers import Played, Screen
from monitor_helpers import sandbox as sandbox_of

sys.path.insert(0, str(TOP / "tests" / "standin"))
from standin_helper import StandIn as Model  # noqa: E402

FAULT = re.compile(rb"Sanitizer|runtime error:")


@pytest.fixture
def played():
    with Played() as server:
        yield server


# -- once


def test_once_as_json(cli, sandbox):
    cli.ok("exec", sandbox, "--", "true")
    seen = cli.json("monitor", "--once")
    assert set(seen) == {"url", "health_ms", "health", "stats", "sandboxes", "requests"}
    assert seen["health"]["status"] == "healthy" and seen["health_ms"] > 0
    assert seen["stats"]["scope"] == "all" and seen["stats"]["boxes"]["running"] >= 1
    mine = next(s for s in seen["sandboxes"] if s["id"] == sandbox)
    assert mine["status"] == "running" and mine["stats"]["pids"] >= 1
    assert isinstance(seen["requests"], list)


def test_once_as_text(cli, sandbox):
    cli.ok("exec", sandbox, "--", "true")
    text = cli.ok("monitor", "--once")
    for word in ("healthy", "boxes:", "sandboxes:", "machine:", "LAST 5 MIN", "requests", sandbox):
        assert word in text
    assert "\x1b" not in text


def test_a_sleeping_one_has_no_figures(cli, sandbox):
    cli.ok("sleep", sandbox)
    mine = next(s for s in cli.json("monitor", "--once")["sandboxes"] if s["id"] == sandbox)
    assert mine["status"] == "sleeping" and mine["stats"] is None


def run(*words, **env):
    done = subprocess.run(words, env=clean_env(**env), capture_output=True, check=True, timeout=PATIENCE)
    return json.loads(done.stdout)


def test_a_tenant(server, cli):
    data = ("--data", server.data, "--json")
    made = run(CAY, "token", "create", "watcher", "--tenant", "watched", *data)
    seen = run(CAY, "monitor", "--once", "--json", CAY_URL=server.url(), CAY_TOKEN=made["token"])
    assert seen["stats"]["scope"] == "tenant" and seen["stats"]["host"] is None
    assert seen["sandboxes"] == [] and seen["health"]["ok"] is True
    run(CAY, "token", "revoke", made["id"], *data)
    done = subprocess.run(
        [CAY, "monitor", "--once"],
        env=clean_env(CAY_URL=server.url(), CAY_TOKEN=made["token"]), capture_output=True, check=False, timeout=PATIENCE,
    )  # fmt: skip
    refused(done, 125, "token")


def test_an_older_server_is_shown_without(played):
    played.answers["/stats"] = ("404 Not Found", {"error": "no", "error_code": "NOT_FOUND"})
    played.answers["/execute"] = ("404 Not Found", {"error": "no", "error_code": "NOT_FOUND"})
    played.sandboxes = [sandbox_of("a"), sandbox_of("b", "sleeping")]
    cli = Cli(played.directory, CAY_SAN)
    seen = cli.json("monitor", "--once")
    assert seen["stats"] is None and seen["requests"] is None
    assert [s["id"] for s in seen["sandboxes"]] == ["a", "b"]
    assert "healthy" in cli.ok("monitor", "--once")


@pytest.mark.parametrize("body", [b"{}", b"[]", b'"x"', b"null", b'{"sandboxes": {}, "results": 7, "latency": [], "host": 1}'])
def test_answers_of_no_use(played, body):
    for target in ("/health", "/stats", "/sandbox", "/execute"):
        played.answers[target] = ("200 OK", body)
    cli = Cli(played.directory, CAY_SAN)
    for flags in (["--once"], ["--once", "--json"]):
        done = cli.run("monitor", *flags)
        assert done.returncode == 0 and not FAULT.search(done.stderr), done


def test_what_makes_no_sense(cli):
    refused(cli.run("monitor", "--json"), 2, "--once")
    refused(cli.run("monitor", "--once", "a prompt"), 2, "prompt")
    refused(cli.run("monitor", "--interval", "1ms"), 2, "100ms")
    refused(cli.run("monitor", "--interval", "x"), 2, "interval")
    refused(cli.run("monitor", "a", "b"), 2, "one prompt")
    refused(cli.run("monitor"), 125, "terminal", "--once")


def test_no_server(tmp_path):
    refused(Cli(tmp_path).run("monitor", "--once"), 125, "no server")
    refused(Cli(tmp_path).run("monitor", "prompt"), 125, "no server")


def test_its_help_is_the_same_with_and_without_a_screen():
    beside = os.path.join(os.path.dirname(CAY_SAN), "cay-monitor")
    texts = [
        subprocess.run(command, capture_output=True, check=True, timeout=PATIENCE).stdout
        for command in ([CAY_SAN, "monitor", "--help"], [beside, "--help"])
    ]
    assert texts[0] == texts[1] and b"--interval" in texts[0]


def test_without_the_screen(tmp_path):
    """cay alone, without cay-monitor beside it."""
    alone = shutil.copy(Cli("").program, tmp_path / "cay")
    with Screen("/nonexistent", program=str(alone)) as screen:
        text = screen.wait("echo")
        assert screen.code_path.read_text().strip() == "125", text
        assert "cay-monitor" in screen.errors() and "--once" in screen.errors()


# -- the screen


def test_the_screen(server, cli, sandbox):
    with Screen(server.data) as screen:
        text = screen.wait("healthy", sandbox, "running")
        for word in ("Boxes", "Sandboxes", "CPU", "Memory", "LAST 5 MIN", "p99 ms", "model", "LAST REQUESTS"):
            assert word in text
        screen.keys("q")
        assert screen.ended() == 0


def test_keys(played):
    played.sandboxes = [sandbox_of(f"box-{n:02}") for n in range(40)]
    with Screen(played.directory) as screen:
        screen.wait("box-00")
        screen.keys("?")
        screen.wait("choose a sandbox", without=["box-00"])
        screen.keys("esc")
        screen.wait("box-00", "by id")
        screen.keys("s")
        screen.wait("by cpu")
        screen.keys("s", "s", "s", "s")
        screen.wait("by id")
        screen.keys("p")
        screen.wait("PAUSED")
        screen.keys("p")
        screen.wait("healthy", without=["PAUSED"])
        screen.keys("G")
        screen.wait("box-39", without=["box-00"])
        screen.keys("g")
        screen.wait("box-00", without=["box-39"])
        screen.keys("j", "j", "down", "k", "enter")
        screen.wait("SANDBOX box-02")
        screen.keys("q")
        assert screen.ended() == 0


def test_sorted_by_memory(played):
    """What uses most comes first, and the chosen one stays chosen wherever it goes."""
    played.sandboxes = [sandbox_of("small"), sandbox_of("zzz-large")]
    usage = {"small": 1 << 20, "zzz-large": 9 << 20}
    for name, memory in usage.items():
        played.answers[f"/sandbox/{name}/stats"] = ("200 OK", {"sandboxId": name, "stats": {"cpu": 1, "memory": memory}})

    def order(text):
        return [name for line in text.splitlines() for name in usage if line.lstrip().startswith(name)]

    with Screen(played.directory) as screen:
        assert order(screen.wait("small", "9 MiB")) == ["small", "zzz-large"]
        screen.keys("s", "s")
        assert order(screen.wait("by memory")) == ["zzz-large", "small"]
        screen.keys("enter")
        screen.wait("SANDBOX small")


def test_looking_into_one(server, cli, sandbox):
    cli.ok("exec", sandbox, "--", "true")
    with Screen(server.data) as screen:
        text = screen.wait(sandbox)
        listed = [line.split()[0] for line in text.splitlines() if re.search(r" (running|sleeping) ", line)]
        screen.keys(*["j"] * listed.index(sandbox), "enter")
        text = screen.wait(f"SANDBOX {sandbox}", "created", "EVENTS", "1 GiB")
        assert "PROCESS" in text and "network none" in text
        # What happens meanwhile is followed.
        done = cli.run("exec", sandbox, "--", "sh", "-c", "exit 7")
        assert done.returncode == 7
        screen.wait("exitCode=7")
        screen.keys("esc")
        screen.wait("LAST REQUESTS")
        screen.keys("q")
        assert screen.ended() == 0


def test_destroying_takes_its_name(server, cli):
    name = cli.ok("create", "doomed-1").strip()
    with Screen(server.data) as screen:
        text = screen.wait(name)
        listed = [line.split()[0] for line in text.splitlines() if re.search(r" (running|sleeping) ", line)]
        screen.keys(*["j"] * listed.index(name), "d")
        screen.wait("type 'doomed-1'")
        screen.keys("q", "enter")  # a wrong name: not a command either
        screen.wait("nothing was destroyed")
        assert cli.run("info", name).returncode == 0
        screen.keys("d", "doomed-1", "esc")
        screen.wait("nothing was destroyed")
        assert cli.run("info", name).returncode == 0
        screen.keys("d", "doomed-1", "enter")
        screen.wait("'doomed-1' is destroyed")
        assert cli.run("info", name).returncode == 125
        screen.keys("q")
        assert screen.ended() == 0


def test_one_that_goes_while_it_is_looked_at(server, cli):
    name = cli.ok("create", "000-goes").strip()  # the first in the list
    with Screen(server.data) as screen:
        screen.wait(name)
        screen.keys("g", "enter")
        screen.wait(f"SANDBOX {name}", "EVENTS")
        cli.ok("rm", name)
        screen.wait("not there any more")
        screen.keys("esc")
        screen.wait("LAST REQUESTS", without=[name])
        screen.keys("q")
        assert screen.ended() == 0


def test_resizing(played):
    played.sandboxes = [sandbox_of(f"box-{n:02}", labels={"team": "web"}) for n in range(40)]
    with Screen(played.directory) as screen:
        screen.wait("box-00", "team=web", "LAST REQUESTS")
        screen.resize(30, 8)
        screen.wait("too small", "50x10", without=["box-00"])
        screen.resize(55, 12)
        screen.wait("box-00", without=["LAST REQUESTS", "team=web", "p99 ms"])
        screen.resize(200, 60)
        text = screen.wait("box-20", "team=web", "p99 ms", "LAST REQUESTS")
        assert max(len(line) for line in text.splitlines()) > 150
        for cols in (1, 2, 3, 49, 50, 51, 79, 80, 81, 400):
            screen.resize(cols, 10 + cols % 7)
        screen.resize(100, 30)
        screen.wait("box-00", "LAST REQUESTS")
        screen.keys("q")
        assert screen.ended() == 0


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT])
def test_signals_give_the_terminal_back(played, number):
    with Screen(played.directory) as screen:
        screen.wait("healthy")
        os.kill(screen.pid(), number)
        assert screen.ended() == 128 + number


def test_interrupted_at_the_keyboard(played):
    with Screen(played.directory) as screen:
        screen.wait("healthy")
        screen.tmux("send-keys", "C-c")
        assert screen.ended() == 128 + signal.SIGINT


def test_stopped_and_continued(played):
    with Screen(played.directory, typed=True) as screen:
        screen.wait("healthy")
        screen.tmux("send-keys", "C-z")
        screen.wait("Stopped", without=["LAST REQUESTS"])
        played.health["version"] = "4.5.6"
        screen.keys("clear; fg", "enter")
        screen.wait("4.5.6", "LAST REQUESTS")
        screen.keys("q")
        screen.wait("bash", without=["LAST REQUESTS"])
        screen.keys(screen.then, "enter")
        assert screen.ended() == 0


def test_a_server_that_goes_and_comes_back():
    if os.geteuid() != 0:
        pytest.skip("boxes need root")
    path = tempfile.mkdtemp(prefix="cay-monitor-")
    os.chmod(path, 0o711)
    try:
        first = Server(path)
        with Screen(path) as screen:
            screen.wait("healthy")
            first.stop()
            screen.wait("no server at", "trying again")
            screen.keys("?")  # the keyboard works all the same
            screen.wait("choose a sandbox")
            screen.keys("esc")
            second = Server(path)
            screen.wait("healthy", without=["trying again"])
            screen.keys("q")
            assert screen.ended() == 0
            second.stop()
    finally:
        shutil.rmtree(path, ignore_errors=True)
        os.unlink(path + ".log")


def test_no_server_from_the_start(played):
    os.rename(played.path, played.path + ".away")
    with Screen(played.directory) as screen:
        screen.wait("no server at", "trying again")
        screen.keys("enter", "d", "s", "j")
        os.rename(played.path + ".away", played.path)
        screen.wait("healthy", without=["trying again"])
        screen.keys("q")
        assert screen.ended() == 0


def test_a_slow_server_does_not_hold_up_the_keyboard(played):
    played.sandboxes = [sandbox_of("here")]
    with Screen(played.directory) as screen:
        screen.wait("here")
        played.gate.clear()
        time.sleep(0.5)  # a request is under way that is not answered
        screen.keys("?")
        screen.wait("choose a sandbox")
        screen.keys("esc", "enter")
        screen.wait("SANDBOX here", "asking...")
        screen.wait("did not answer within 5 s")
        played.gate.set()
        screen.wait("SANDBOX here", without=["did not answer"])
        played.gate.clear()
        time.sleep(0.5)
        screen.keys("q")  # without waiting for it
        assert screen.ended() == 0


HOSTILE_KEY = "\x1b[2J\x9b31m\u202ekey\r\n"
HOSTILE = "\x1b[2J\x1b]0;owned\x07\x9b31m\u202eevil\u200b\r\nnext\ttab\x00nul\x7f\u2028 e" + "\u0301" * 50 + " end"


def test_hostile_texts(played):
    played.health["version"] = played.health["status"] = HOSTILE
    played.sandboxes = [sandbox_of("a", labels={HOSTILE_KEY: HOSTILE}), sandbox_of(HOSTILE, status=HOSTILE)]
    played.requests_made = [{"request_id": HOSTILE, "question": HOSTILE, "state": "done", "error_code": HOSTILE}]
    detail = {**sandbox_of("a"), "image": HOSTILE, "network": {"allow": [HOSTILE]}, "secrets": [HOSTILE]}
    played.answers["/sandbox/a"] = ("200 OK", detail)
    process = {"id": HOSTILE, "status": "running", "command": [HOSTILE, HOSTILE]}
    played.answers["/sandbox/a/processes"] = ("200 OK", {"processes": [process]})
    played.answers["/sandbox/a/contexts"] = ("200 OK", {"contexts": [{"id": HOSTILE, "language": HOSTILE}]})
    event = {"id": 1, "type": HOSTILE, "timestamp": HOSTILE, "data": {HOSTILE_KEY: [HOSTILE, {"x": HOSTILE}]}}
    played.answers["/sandbox/a/events"] = ("200 OK", {"events": [event]})
    with Screen(played.directory, cols=200, rows=40) as screen:
        text = screen.wait("evil", "LAST REQUESTS", "Boxes")  # it was not cleared
        assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e\u200b\u0301\u2028]", text), ascii(text)
        assert screen.tmux("display-message", "-p", "#{pane_title}").strip() != "owned"
        screen.keys("enter")
        text = screen.wait("SANDBOX a", "EVENTS", "PROCESS", "CONTEXT")
        assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e\u200b\u0301\u2028]", text), ascii(text)
        assert screen.tmux("display-message", "-p", "#{pane_title}").strip() != "owned"
        screen.keys("q")
        assert screen.ended() == 0
    done = Cli(played.directory, CAY_SAN).run("monitor", "--once")
    assert done.returncode == 0 and not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u202e]", done.stdout.decode())


def test_wide_characters_stay_in_their_columns(played):
    played.requests_made = [
        {"question": text * 60, "state": "done", "success": True, "generation_ms": 1, "sandbox_ms": 2, "total_ms": 34567}
        for text in ("漢字", "plain ", "é", "😀", "한국어")
    ]
    with Screen(played.directory, cols=121) as screen:
        text = screen.wait("漢字", "34567", "한국어")
        places = set()
        for line in text.splitlines():
            if "34567" in line:
                before = line[: line.index("34567")]
                # Columns, as a terminal counts them.
                places.add(sum(2 if re.match(r"[\u1100-\u11ff\u2e80-\ud7a3\U0001f300-\U0001faff]", c) else 1 for c in before))
        assert len(places) == 1, text


def test_not_utf8(played):
    played.requests_made = [{"question": "漢字 é plain", "state": "done", "success": True}]
    with Screen(played.directory, env={"LANG": "C", "LC_ALL": "C"}) as screen:
        screen.wait("?? ? plain")


@pytest.mark.parametrize("env,coloured", [({}, True), ({"NO_COLOR": "1"}, False)])
def test_colours(played, env, coloured):
    with Screen(played.directory, env=env) as screen:
        screen.wait("healthy")
        raw = screen.text("-e")
        assert bool(re.search("\x1b\\[(\\d+;)*3[0-7]m", raw)) is coloured, ascii(raw)


def test_an_unknown_terminal(played):
    # Not the sanitized one: ncurses forgets some memory on this way.
    script = f"TERM=no-such-terminal {CAY} monitor --data {played.directory}"
    done = subprocess.run(["script", "-qec", script, "/dev/null"], capture_output=True, timeout=PATIENCE, check=False)
    assert done.returncode == 125 and b"no-such-terminal" in done.stdout and b"--once" in done.stdout, done


def test_very_many_sandboxes(played):
    """Only some are asked for what they use each time, in turns."""
    played.sandboxes = [sandbox_of(f"box-{n:04}") for n in range(1000)]
    with Screen(played.directory) as screen:
        screen.wait("box-0000", "4 KiB")
        screen.keys("G")
        screen.wait("box-0999", "4 KiB")
        asked = {r.target for r in played.requests if r.target.endswith("/stats") and r.target != "/stats"}
        assert len(asked) > 64
        screen.keys("q")
        assert screen.ended() == 0


def test_one_that_asks_too_much_slows_down(played):
    """A token may be limited: what is left of that is for whom it was made."""
    body = {"error": "this token may make 60 requests a minute", "error_code": "RATE_LIMITED"}
    played.answers["/stats"] = ("429 Too Many Requests", body)
    with Screen(played.directory) as screen:
        screen.wait("60 requests a minute")
        asked = len(played.requests)
        time.sleep(2)  # ten times the interval
        assert len(played.requests) == asked
        del played.answers["/stats"]
        screen.keys("r")
        screen.wait("healthy", without=["a minute"])


# -- a prompt


@pytest.fixture(scope="module")
def answering():
    """A real server that asks a stand-in for the Messages API."""
    if os.geteuid() != 0:
        pytest.skip("boxes need root")
    path = tempfile.mkdtemp(prefix="cay-answering-")
    os.chmod(path, 0o711)
    with Model() as model:
        before = {name: os.environ.get(name) for name in model.env()}
        os.environ.update(model.env())
        server = Server(path)
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
        server.cli = Cli(path, CAY_SAN)
        try:
            yield server
        finally:
            server.stop()
            shutil.rmtree(path, ignore_errors=True)
            os.unlink(path + ".log")


def test_where_the_time_went(answering):
    text = answering.cli.ok("monitor", "say it [[code: print(6 * 7)]]")
    for word in ("health check", "first token", "generation", "sandbox start", "execution", "store", "total"):
        assert word in text
    assert "ok, claude-" in text and "tokens in" in text and "$" in text and "####" in text


def test_the_parts_as_json(answering):
    seen = answering.cli.json("monitor", "[[delay: 300]] [[code: import time; time.sleep(0.5); print(1)]]")
    times = seen["times"]
    assert seen["answer"]["success"] is True and seen["answer"]["output"] == "1\n"
    assert times["generation_ms"] >= 290 and times["first_token_ms"] >= 290
    assert times["execution_ms"] >= 490
    assert times["total_ms"] >= times["generation_ms"] + times["execution_ms"]
    assert times["health_ms"] > 0 and times["store_ms"] >= 0 and times["sandbox_start_ms"] >= 0


def test_it_is_measured_anew(answering):
    """An answer from the cache would tell nothing."""
    for _ in range(2):
        seen = answering.cli.json("monitor", "again [[code: print(5)]]")
        assert seen["answer"]["cached"] is False and seen["times"]["first_token_ms"] is not None


def test_code_that_fails(answering):
    seen = answering.cli.json("monitor", "[[code: raise SystemExit(1/0)]]")
    assert seen["answer"]["success"] is False
    assert seen["answer"]["error_code"] in answering.cli.ok("monitor", "[[code: raise SystemExit(1/0)]]")


def test_a_model_that_fails(answering):
    refused(answering.cli.run("monitor", "[[status: 401]]"), 125, "401")


def test_no_key(cli):
    refused(cli.run("monitor", "anything"), 125, "ANTHROPIC_API_KEY")


def test_the_last_requests(answering):
    answering.cli.ok("monitor", "how much is it? [[code: print(9)]]")
    seen = answering.cli.json("monitor", "--once")
    last = seen["requests"][0]
    assert last["question"].startswith("how much is it?") and last["success"] is True
    assert seen["stats"]["latency"]["generation"]["count"] >= 1
    assert seen["stats"]["model"]["requests"] >= 1 and seen["stats"]["model"]["tokens"] > 0
    with Screen(answering.data, cols=150) as screen:
        screen.wait("how much is it?", "ok", "Models")
