# SPDX-License-Identifier: Apache-2.0
"""Tools of POST /execute/sdk that Cay runs itself: each of them, together, and with what a model should not have said."""

import json
import threading

import pytest
from api_helpers import PATIENCE, eventually
from sdk_helpers import good, messages, one_result, post, results, talk, then, unique, use

ALL = ["Bash", "Read", "Write", "Edit", "RunCode", "TodoWrite"]


@pytest.fixture(scope="module")
def box(asked):
    """One sandbox for tests that leave nothing behind but files of their own."""
    name = asked.ok("POST", "/sandbox", {"languages": ["python"]})["id"]
    yield name
    asked("DELETE", f"/sandbox/{name}")


def run(asked, box, name, **values):
    return one_result(asked, use(name, **values), ALL, sandbox_id=box)


def put(asked, box, path, data):
    assert asked("PUT", f"/sandbox/{box}/files{path}", data, {"Content-Type": "application/octet-stream"}).status in (200, 201)


def get(asked, box, path):
    return asked("GET", f"/sandbox/{box}/files{path}").body


# -- the sandbox


def test_one_is_made_when_it_is_needed(asked):
    before = {s["id"] for s in asked.ok("GET", "/sandbox?limit=1000")["sandboxes"]}
    steps = use("Bash", command="echo here > a; pwd") + then(use("Read", file_path="a")) + then("[[text: done]]")
    answer = good(asked, steps, allowed_tools=["Bash", "Read"])
    assert [r["content"] for r in results(answer)] == ["/workspace", "     1\there\n"]
    box = answer["metadata"]["sandbox_id"]
    after = {s["id"] for s in asked.ok("GET", "/sandbox?limit=1000")["sandboxes"]}
    assert after - before == {box}
    made = asked.ok("GET", f"/sandbox/{box}")
    assert made["labels"] == {"cay.request": answer["request_id"]} and made["network"] == "none"
    assert made["sleepAfter"] == 60 and made["destroyAfter"] == 3600
    again = good(asked, use("Bash", command="cat a"), allowed_tools=["Bash"], sandbox_id=box)
    assert results(again)[0]["content"] == "here" and again["metadata"]["sandbox_id"] == box
    asked.ok("DELETE", f"/sandbox/{box}")


def test_none_is_made_for_what_needs_none(asked):
    answer = good(asked, use("TodoWrite", todos=[]), allowed_tools=ALL)
    assert answer["metadata"]["sandbox_id"] is None


def test_it_wakes(asked):
    box = asked.ok("POST", "/sandbox", {})["id"]
    asked.exec(box, "echo kept > /workspace/f")
    asked.ok("POST", f"/sandbox/{box}/sleep")
    assert run(asked, box, "Bash", command="cat f") == ("kept", False)
    asked.ok("DELETE", f"/sandbox/{box}")


def test_it_dies_midway(asked):
    box = asked.ok("POST", "/sandbox", {})["id"]
    steps = use("Bash", command="touch begun; sleep 1000") + then(use("Bash", command="echo on")) + then("[[text: went on]]")
    got = []
    thread = threading.Thread(target=lambda: got.append(talk(asked, steps, allowed_tools=["Bash"], sandbox_id=box)))
    thread.start()
    eventually(lambda: asked("GET", f"/sandbox/{box}/files/workspace/begun").status == 200)
    asked.ok("DELETE", f"/sandbox/{box}")
    thread.join(PATIENCE)
    answer = got[0]
    assert answer["success"] and answer["result"] == "went on"
    first, second = results(answer)
    assert first["is_error"] and ("The sandbox ended" in first["content"] or "was killed" in first["content"])
    assert second["is_error"] and "sandbox" in second["content"]


# -- Bash


def test_bash(asked, box):
    assert run(asked, box, "Bash", command="echo out; echo err >&2") == ("out\nerr", False)
    assert run(asked, box, "Bash", command="true") == ("(it printed nothing)", False)
    assert run(asked, box, "Bash", command="echo no; exit 3") == ("Exit code 3\nno", True)
    assert run(asked, box, "Bash", command="kill -9 $$")[0] == "The command was ended by signal 9"
    text, is_error = run(asked, box, "Bash", command="echo begun; sleep 100", timeout=200)
    assert is_error and "longer than 200 ms" in text and text.endswith("begun")
    assert run(asked, box, "Bash", command="printf 'a\\377b'")[0] == "a\ufffdb"
    assert run(asked, box, "Bash", command="cat", description="ignored") == ("(it printed nothing)", False)


def test_long_output_is_cut(asked, box):
    text, is_error = run(asked, box, "Bash", command="echo first; seq 1000000; echo last")
    assert not is_error and text.startswith("first\n1\n2\n") and text.endswith("\n1000000\nlast")
    assert "bytes are left out here]" in text and 29000 < len(text) < 30200
    text, _ = run(asked, box, "Bash", command="yes | head -c 50000000")
    assert len(text) < 30200


# -- files


def test_read(asked, box):
    put(asked, box, "/workspace/r.txt", "".join(f"line {i}\n" for i in range(1, 3001)))
    text, is_error = run(asked, box, "Read", file_path="/workspace/r.txt")
    assert not is_error and text.startswith("     1\tline 1\n") and "[there is more: go on with offset " in text
    assert run(asked, box, "Read", file_path="r.txt", offset=2999) == ("  2999\tline 2999\n  3000\tline 3000\n", False)
    assert run(asked, box, "Read", file_path="r.txt", offset=5, limit=1)[0].startswith("     5\tline 5\n[there is more")
    assert run(asked, box, "Read", file_path="r.txt", offset=3001) == ("offset: the file has 3000 lines", True)


def test_read_what_is_large(asked, box):
    put(asked, box, "/workspace/l.txt", "".join(f"line {i}\n" for i in range(1, 1000001)))
    text, is_error = run(asked, box, "Read", file_path="l.txt", offset=999999)
    assert (text, is_error) == ("999999\tline 999999\n1000000\tline 1000000\n", False)
    text, _ = run(asked, box, "Read", file_path="l.txt", limit=100000)
    assert len(text) < 30000 and "go on with offset" in text
    put(asked, box, "/workspace/w.txt", "w" * 1000000)
    text, _ = run(asked, box, "Read", file_path="w.txt")
    assert text.endswith("... [the line is longer]") and len(text) < 2100


def test_read_what_cannot_be_read(asked, box):
    put(asked, box, "/workspace/bin", b"\x7fELF\x00\x01")
    put(asked, box, "/workspace/big.bin", b"\x00" * 100000)
    put(asked, box, "/workspace/empty", b"")
    for path in ("bin", "big.bin"):
        assert run(asked, box, "Read", file_path=path) == ("the file is not text: it has NUL bytes", True)
    assert run(asked, box, "Read", file_path="empty") == ("(the file is empty)", False)
    for path in ("/workspace", "nothing-here", "/dev/zero", "/workspace/bin/below", "/proc/self/mem"):
        assert run(asked, box, "Read", file_path=path)[1] is True
    asked.exec(box, "mkfifo /workspace/pipe; ln -s /etc/passwd /workspace/link")
    assert run(asked, box, "Read", file_path="pipe")[1] is True
    assert "root" in run(asked, box, "Read", file_path="link")[0]  # the sandbox's own


@pytest.mark.parametrize("path", ["", "../etc/passwd", "/workspace/../etc/passwd", "/..", "a\x00b", "x" * 256, "/x" * 2100,
                                  None, 7, ["/etc/passwd"], {"a": 1}, True])
@pytest.mark.parametrize("tool", ["Read", "Write", "Edit"])
def test_odd_paths(asked, box, tool, path):
    text, is_error = run(asked, box, tool, file_path=path, content="x", old_string="a", new_string="b")
    assert is_error and text.startswith("file_path: ")


def test_write(asked, box):
    assert run(asked, box, "Write", file_path="d/e/f.txt", content="h\u00e9\n")[1] is False
    assert get(asked, box, "/workspace/d/e/f.txt") == "h\u00e9\n".encode()
    assert "4 bytes" not in run(asked, box, "Write", file_path="/workspace//d/./e/f.txt", content="")[0]
    assert get(asked, box, "/workspace/d/e/f.txt") == b""
    assert run(asked, box, "Write", file_path="nul", content="a\x00b")[1] is False
    assert get(asked, box, "/workspace/nul") == b"a\x00b"
    for path in ("/workspace/d", "/", "/proc/version", "/workspace/nul/below"):
        assert run(asked, box, "Write", file_path=path, content="x")[1] is True
    assert run(asked, box, "Write", file_path="f") == ("content: is needed", True)
    assert run(asked, box, "Write", file_path="f", content=3) == ("content: must be a string", True)


@pytest.mark.parametrize("size", [48 * 1024, 48 * 1024 + 1, 300000])
def test_write_what_is_large(asked, box, size):
    answer = good(asked, use("Write", file_path=f"large-{size}", content="z" * size), allowed_tools=["Write"],
                  sandbox_id=box)
    assert results(answer)[0]["content"] == f"/workspace/large-{size} is written: it has {size} bytes"
    assert get(asked, box, f"/workspace/large-{size}") == b"z" * size


def test_the_disk_is_full(asked):
    box = asked.ok("POST", "/sandbox", {"disk": "16m"})["id"]
    asked.exec(box, "head -c 20000000 /dev/zero > /workspace/all; true")
    for size in (40000, 100000):
        text, is_error = run(asked, box, "Write", file_path="one-more", content="x" * size)
        assert is_error and "full" in text, text
    assert asked("GET", f"/sandbox/{box}/files/workspace/one-more").status == 404
    asked.ok("DELETE", f"/sandbox/{box}")


def test_edit(asked, box):
    put(asked, box, "/workspace/e.txt", "one two two\n")
    assert run(asked, box, "Edit", file_path="e.txt", old_string="one", new_string="1")[1] is False
    assert get(asked, box, "/workspace/e.txt") == b"1 two two\n"
    text, is_error = run(asked, box, "Edit", file_path="e.txt", old_string="two", new_string="2")
    assert is_error and "2 times" in text and "replace_all" in text
    text, is_error = run(asked, box, "Edit", file_path="e.txt", old_string="two", new_string="", replace_all=True)
    assert not is_error and "2 places replaced" in text and get(asked, box, "/workspace/e.txt") == b"1  \n"


@pytest.mark.parametrize(("values", "words"), [
    ({"old_string": "absent", "new_string": "x"}, "is not in /workspace/e2.txt"),
    ({"old_string": "", "new_string": "x"}, "must not be empty"),
    ({"old_string": "a", "new_string": "a"}, "another one"),
    ({"old_string": "a"}, "new_string: is needed"),
    ({"old_string": 1, "new_string": "x"}, "old_string: must be a string"),
    ({"old_string": "a", "new_string": "x", "replace_all": "yes"}, "replace_all: must be true or false"),
    ({"file_path": "no-such-file", "old_string": "a", "new_string": "x"}, "no-such-file"),
    ({"file_path": "/workspace", "old_string": "a", "new_string": "x"}, "directory"),
])
def test_edits_that_cannot_be_made(asked, box, values, words):
    put(asked, box, "/workspace/e2.txt", "abc")
    text, is_error = run(asked, box, "Edit", **{"file_path": "e2.txt", **values})
    assert is_error and words in text
    assert get(asked, box, "/workspace/e2.txt") == b"abc"


def test_edit_what_is_large(asked, box):
    put(asked, box, "/workspace/el.txt", "x" * 1000000 + "NEEDLE" + "y" * 1000000)
    asked.exec(box, "chmod 751 /workspace/el.txt")
    assert run(asked, box, "Edit", file_path="el.txt", old_string="NEEDLE", new_string="pin")[1] is False
    assert get(asked, box, "/workspace/el.txt") == b"x" * 1000000 + b"pin" + b"y" * 1000000
    assert asked.exec(box, "stat -c %a /workspace/el.txt")["stdout"] == "751\n"
    text, is_error = run(asked, box, "Edit", file_path="el.txt", old_string="x", new_string="z", replace_all=True)
    assert is_error and "more than 10000 times" in text
    put(asked, box, "/workspace/growing.txt", "Q\n" * 100)
    text, is_error = run(asked, box, "Edit", file_path="growing.txt", old_string="Q", new_string="z" * 100000, replace_all=True)
    assert is_error and "longer than" in text
    put(asked, box, "/workspace/toolarge.txt", "x" * 5000000)
    text, is_error = run(asked, box, "Edit", file_path="toolarge.txt", old_string="x", new_string="y")
    assert is_error and "larger than" in text


# -- code


def test_code(asked, box):
    assert run(asked, box, "RunCode", code="print('hi'); kept = 5; kept * 2") == ("hi\n10\n", False)
    assert run(asked, box, "RunCode", code="kept + 1") == ("6\n", False)  # another conversation, the same interpreter
    text, is_error = run(asked, box, "RunCode", code="def f():\n    1 / 0\nf()")
    assert is_error and "ZeroDivisionError" in text and "line 2" in text
    assert run(asked, box, "RunCode", code="pass") == ("(it printed nothing)", False)
    assert run(asked, box, "RunCode", code="console.log(6 * 7)", language="javascript")[0].startswith("42")
    text, is_error = run(asked, box, "RunCode", code="x", language="klingon")
    assert is_error and "klingon" in text and "python" in text
    text, is_error = run(asked, box, "RunCode", code="import time; print('begun', flush=True); time.sleep(100)", timeout=300)
    assert is_error and "timeout" in text
    text, _ = run(asked, box, "RunCode", code="print('x' * 1000000)")
    assert len(text) < 30200


def test_code_that_kills_its_interpreter(asked, box):
    text, is_error = run(asked, box, "RunCode", code="import os; os._exit(3)")
    assert is_error and "exit" in text
    assert run(asked, box, "RunCode", code="1 + 1") == ("2\n", False)


# -- the list


def test_todos(asked):
    todos = [{"content": "look", "status": "completed", "activeForm": "Looking"}, {"content": "do", "status": "in_progress"}]
    answer = good(asked, use("TodoWrite", todos=[]) + then(use("TodoWrite", todos=todos)))
    assert results(answer)[1]["content"] == "The list is kept: 0 pending, 1 in progress, 1 completed."
    assert answer["metadata"]["todos"] == todos


@pytest.mark.parametrize("todos", [None, "a", {}, ["a"], [{}], [{"content": "x"}], [{"content": "x", "status": "later"}],
                                   [{"content": 1, "status": "pending"}], [{"content": "x", "status": "pending"}] * 201,
                                   [{"content": "x" * 70000, "status": "pending"}]])
def test_lists_that_are_none(asked, todos):
    text, is_error = one_result(asked, use("TodoWrite", todos=todos), ["TodoWrite"])
    assert is_error and text.startswith("todos: ")


# -- several, and turns


def test_in_parallel_and_in_order(asked, box, model):
    uses = [use("Bash", command="sleep 0.2; echo 1 >> order"), use("TodoWrite", todos=[]),
            use("Bash", command="echo 2 >> order; cat order"), use("Read", file_path="order"), use("Nothing", a=1)]
    prompt = unique("".join(uses) + then("[[text: all done]]"))
    body = {"prompt": prompt, "options": {"allowed_tools": ALL, "sandbox_id": box}}
    answer = asked.ok("POST", "/execute/sdk", body)
    assert answer["result"] == "all done" and answer["metadata"]["num_turns"] == 2
    [told] = messages(answer, "user")
    blocks = told["message"]["content"]
    asked_for = [b["id"] for b in messages(answer, "assistant")[0]["message"]["content"] if b["type"] == "tool_use"]
    assert [b["tool_use_id"] for b in blocks] == asked_for
    assert [b["content"] for b in blocks][2:4] == ["1\n2", "     1\t1\n     2\t2\n"]
    assert blocks[4]["is_error"] and "there is no tool 'Nothing'" in blocks[4]["content"]
    sent = model.messages(prompt)[1]["messages"]
    assert [m["role"] for m in sent] == ["user", "assistant", "user"]
    assert ["cache_control" in b for b in sent[2]["content"]] == [False] * 4 + [True]


def test_the_beginning_of_a_request_stays(asked, model):
    todo = use("TodoWrite", todos=[])
    prompt = unique(todo + then(todo) + then(todo) + then("[[text: done]]"))
    asked.ok("POST", "/execute/sdk", {"prompt": prompt})
    sent = model.messages(prompt)
    assert len(sent) == 4
    for one, next_ in zip(sent, sent[1:]):
        bare = json.loads(json.dumps(one["messages"]).replace(', "cache_control": {"type": "ephemeral"}', ""))
        assert next_["messages"][: len(bare)] == bare and next_["system"] == one["system"] and next_["tools"] == one["tools"]


def test_many_in_one_message(asked):
    todo = use("TodoWrite", todos=[])
    assert len(results(good(asked, todo * 64))) == 64
    post(asked, todo * 65).error(502, "API_ERROR", "65 tools at once")


def test_very_much_is_said(asked, box):
    put(asked, box, "/workspace/much.txt", "m" * 100 + "\n" + ("n" * 99 + "\n") * 300)
    step = use("Read", file_path="much.txt") * 64
    answer = good(asked, step + then(step) + then(step) + then("[[text: done]]"), allowed_tools=["Read"], sandbox_id=box)
    assert answer["result"] == "done" and answer["metadata"]["messages_truncated"] is True
    assert answer["messages"][-1]["type"] == "result" and len(json.dumps(answer["messages"])) < 5 * 1024 * 1024
    reply = post(asked, step + then(step) * 11, allowed_tools=["Read"], sandbox_id=box, max_turns=12)
    reply.error(400, "INVALID_REQUEST", "longer than")


@pytest.mark.parametrize("tool", ["Bash", "WebSearch", "web_search", "../Bash", "x" * 1000])
def test_tools_that_are_not_allowed(asked, tool):
    [block] = results(good(asked, use(tool, command="echo x"), allowed_tools=["TodoWrite"]))
    assert block["is_error"] and "there is no tool" in block["content"] and '["TodoWrite"]' in block["content"]


@pytest.mark.parametrize("input_", ["17", "[1]", '"text"'])
def test_inputs_that_no_api_would_send(asked, box, input_):
    reply = post(asked, f"[[tool: Bash {input_}]]", allowed_tools=["Bash"], sandbox_id=box)
    reply.error(400, "INVALID_REQUEST")  # sent back, the API refuses them


@pytest.mark.parametrize("input_", ["null", "{}", '{"command": null}', '{"command": ["ls"]}',
                                    '{"command": ""}', '{"command": "a\\u0000b"}', '{"command": "ls", "timeout": 0}',
                                    '{"command": "ls", "timeout": "soon"}', '{"command": "ls", "timeout": 1e99}',
                                    '{"command": {"command": "ls"}}'])
def test_inputs_that_are_none(asked, box, input_):
    answer = good(asked, f"[[tool: Bash {input_}]]", allowed_tools=["Bash"], sandbox_id=box)
    [block] = results(answer)
    assert block["is_error"] and block["content"].split(":")[0] in ("command", "timeout")


# -- the end comes first


def test_cancelled_while_a_tool_works(asked, box):
    prompt = unique(use("Bash", command="touch /workspace/cancel-me; sleep 4321"))
    body = {"prompt": prompt, "options": {"allowed_tools": ["Bash"], "sandbox_id": box}}
    got = []
    thread = threading.Thread(target=lambda: got.append(asked("POST", "/execute/sdk", body)))
    thread.start()
    eventually(lambda: asked("GET", f"/sandbox/{box}/files/workspace/cancel-me").status == 200)
    [run_] = [r for r in asked.ok("GET", "/execute?kind=sdk")["results"] if r["question"] == prompt]
    assert asked("DELETE", f"/execute/{run_['request_id']}").status == 202
    thread.join(PATIENCE)
    assert got[0].json["error_code"] == "CANCELLED" and got[0].json["metadata"]["sandbox_id"] == box
    eventually(lambda: "4321" not in asked.exec(box, "cat /proc/[0-9]*/cmdline | tr '\\0' ' ' | grep -o 'sleep [0-9]*'")["stdout"])


@pytest.mark.parametrize("marker", [use("Bash", command="sleep 1000"), use("RunCode", code="import time; time.sleep(1000)")])
def test_a_tool_takes_too_long(asked, box, marker):
    error = post(asked, marker, allowed_tools=["Bash", "RunCode"], sandbox_id=box, timeout=1500)
    error.error(504, "EXECUTION_TIMEOUT", "1500 ms")
    assert run(asked, box, "Bash", command="echo free") == ("free", False)
    assert run(asked, box, "RunCode", code="3") == ("3\n", False)


def test_what_was_spent_is_counted_for_the_sandbox(asked):
    box = asked.ok("POST", "/sandbox", {"budget": {"tokens": 100000}})["id"]
    steps = f"{use('Bash', command='true')} [[usage: in=100 out=1]] {then('[[text: x]] [[usage: in=200 out=1]]')}"
    answer = good(asked, steps, allowed_tools=["Bash"], sandbox_id=box)
    assert answer["metadata"]["usage"]["input_tokens"] == 300
    spent = asked.ok("GET", f"/sandbox/{box}")["budget"]["spent"]
    assert spent["tokens"] == 302 and spent["usd"] == pytest.approx(answer["metadata"]["total_cost_usd"])
    found = asked.ok("GET", f"/usage?by=request&sandbox={box}")["usage"]
    assert [u["key"] for u in found] == [answer["request_id"]] and found[0]["requests"] == 2
    asked.ok("DELETE", f"/sandbox/{box}")
