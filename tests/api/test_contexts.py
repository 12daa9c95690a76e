# SPDX-License-Identifier: Apache-2.0
"""Contexts: interpreters that stay, each with a state of its own."""

import pytest
from api_helpers import FULL, at_once, eventually
from code_helpers import WAIT, gone, make, run, text_of, waits_in


def look(api, box, context):
    return api.ok("GET", f"/sandbox/{box}/contexts/{context}")


def test_one(api, box):
    body = {"id": "work", "language": "python", "cwd": "/tmp", "env": {"STAGE": "dev"}, "timeout": "5m"}
    reply = api("POST", f"/sandbox/{box}/contexts", body)
    assert reply.status == 201, reply
    made = reply.json
    assert made["id"] == "work" and made["language"] == "python" and made["cwd"] == "/tmp"
    assert made["timeout"] == 300000 and made["isDefault"] is False and made["executionCount"] == 0
    assert made["status"] == "idle" and made["pid"] > 0 and made["createdAt"] and made["cell"] is None
    assert text_of(run(api, box, "import os; os.getcwd(), os.environ['STAGE']", context="work")) == "('/tmp', 'dev')"
    seen = look(api, box, "work")
    assert seen["executionCount"] == 1 and seen["pid"] == made["pid"] and seen["createdAt"] == made["createdAt"]
    assert [c["id"] for c in api.ok("GET", f"/sandbox/{box}/contexts")["contexts"]] == ["work"]
    assert api.ok("DELETE", f"/sandbox/{box}/contexts/work") == {"success": True}
    api("GET", f"/sandbox/{box}/contexts/work").error(404, "NOT_FOUND")
    assert api.ok("GET", f"/sandbox/{box}/contexts")["contexts"] == []
    eventually(lambda: not api.exec(box, f"kill -0 {made['pid']}")["success"])


def test_defaults(api, box):
    made = api.ok("POST", f"/sandbox/{box}/contexts")
    assert made["language"] == "python" and made["cwd"] == "/workspace" and made["timeout"] == 60000
    other = api.ok("POST", f"/sandbox/{box}/contexts", {"language": "PY"})
    assert other["id"] != made["id"] and other["language"] == "python"
    assert not made["isDefault"] and not other["isDefault"]


def test_the_same_id_twice(api, box):
    make(api, box, id="one")
    api("POST", f"/sandbox/{box}/contexts", {"id": "one"}).error(409, "CONFLICT", "one")


def test_one_that_is_made_twice_with_a_key(api, box):
    key = {"Idempotency-Key": f"make-{box}"}
    first = api("POST", f"/sandbox/{box}/contexts", {}, key)
    again = api("POST", f"/sandbox/{box}/contexts", {}, key)
    assert first.json["id"] == again.json["id"] and again.headers["Idempotency-Replayed"] == "true"
    assert len(api.ok("GET", f"/sandbox/{box}/contexts")["contexts"]) == 1


@pytest.mark.parametrize("body, word", [
    ({"language": "klingon"}, "language"), ({"language": 5}, "language"), ({"language": ""}, "language"),
    ({"language": "c"}, "language"), ({"id": "-a"}, "id"), ({"id": ""}, "id"), ({"id": "x" * 129}, "id"),
    ({"cwd": "here"}, "cwd"), ({"cwd": "/nowhere/at/all"}, "directory"), ({"cwd": "/etc/passwd"}, "directory"),
    ({"cwd": "/" + "x" * 4096}, "cwd"), ({"env": {"A=B": "1"}}, "env"), ({"env": ["A"]}, "env"),
    ({"timeout": 0}, "timeout"), ({"timeout": -1}, "timeout"), ({"timeout": "soon"}, "timeout"),
    ({"code": "1"}, "code"), ({"langauge": "python"}, "language"),
])
def test_bad_bodies(api, shared_box, body, word):
    api("POST", f"/sandbox/{shared_box}/contexts", body).error(400, "INVALID_REQUEST", word)
    assert [c for c in api.ok("GET", f"/sandbox/{shared_box}/contexts")["contexts"] if c["id"] == body.get("id")] == []


def test_an_unknown_language_names_those_there_are(api, shared_box):
    reply = api("POST", f"/sandbox/{shared_box}/contexts", {"language": "klingon"})
    reply.error(400, "INVALID_REQUEST", "klingon", "python", "javascript", "typescript", "bash", "rust", "lua")


def test_a_directory_of_another_context_is_not_refused_for_good(api, box):
    """One that failed leaves nothing behind, not even its name."""
    api("POST", f"/sandbox/{box}/contexts", {"id": "a", "cwd": "/workspace/later"}).error(400, "INVALID_REQUEST")
    api.exec(box, "mkdir /workspace/later")
    assert make(api, box, id="a", cwd="/workspace/later")["cwd"] == "/workspace/later"


@pytest.mark.parametrize("method, path", [
    ("GET", "contexts/none"), ("DELETE", "contexts/none"), ("POST", "contexts/none/interrupt"), ("POST", "contexts/none/restart"),
])
def test_none_of_that_id(api, shared_box, method, path):
    api(method, f"/sandbox/{shared_box}/{path}").error(404, "NOT_FOUND", "none")


def test_state_is_private(api, box):
    make(api, box, id="a")
    make(api, box, id="b")
    run(api, box, "x = 'of a'; import os; os.chdir('/tmp'); os.environ['X'] = 'a'", context="a")
    seen = run(api, box, "import os; 'x' in globals(), os.getcwd(), os.environ.get('X')", context="b")
    assert text_of(seen) == "(False, '/workspace', None)"
    assert run(api, box, "x")["error"]["name"] == "NameError"  # the default one
    assert text_of(run(api, box, "x, os.getcwd(), os.environ['X']", context="a")) == "('of a', '/tmp', 'a')"


def test_side_by_side(api, box):
    """Each waits for what the other one writes: in one queue neither would end."""
    make(api, box, id="a")
    make(api, box, id="b")

    def half(mine, other):
        return run(api, box, f"open('/workspace/{mine}', 'w').close()\n{waits_in(other)}\n'{mine}'", context=mine)

    a, b = at_once(lambda: half("a", "b"), lambda: half("b", "a"))
    assert text_of(a) == "'a'" and text_of(b) == "'b'"


def test_interrupt(api, box):
    context = make(api, box)["id"]
    path = f"/sandbox/{box}/contexts/{context}"
    api("POST", f"{path}/interrupt").error(409, "CONFLICT")
    with api.stream("POST", f"/sandbox/{box}/code", {"code": f"y = 1\nprint('on', flush=True)\n{WAIT}", "context": context}) as stream:
        stream.until("stdout")
        busy = look(api, box, context)
        assert busy["status"] == "busy" and busy["cell"] and busy["queued"] == 0
        assert api.ok("POST", f"{path}/interrupt") == {"success": True}
        end = stream.until("end")[-1].data
    assert end["success"] is False and end["reason"] == "interrupted" and "contextDied" not in end
    assert look(api, box, context)["status"] == "idle"
    assert text_of(run(api, box, "y", context=context)) == "1"
    api("POST", f"{path}/interrupt").error(409, "CONFLICT")


def test_restart(api, box):
    context = make(api, box, env={"A": "1"}, cwd="/tmp")["id"]
    path = f"/sandbox/{box}/contexts/{context}"
    run(api, box, "x = 1", context=context)
    before = look(api, box, context)
    after = api.ok("POST", f"{path}/restart")
    assert after["status"] == "idle" and after["pid"] != before["pid"] and after["executionCount"] == 0
    assert after["id"] == context and after["createdAt"] == before["createdAt"]
    seen = run(api, box, "import os; 'x' in globals(), os.environ['A'], os.getcwd()", context=context)
    assert text_of(seen) == "(False, '1', '/tmp')" and seen["executionCount"] == 1


def test_restart_ends_what_runs_and_waits(api, box):
    context = make(api, box)["id"]
    with api.stream("POST", f"/sandbox/{box}/code", {"code": f"print('on', flush=True)\n{WAIT}", "context": context}) as first:
        first.until("stdout")
        with api.stream("POST", f"/sandbox/{box}/code", {"code": "1", "context": context}) as second:
            second.until("start")
            api.ok("POST", f"/sandbox/{box}/contexts/{context}/restart")
            ends = [first.until("end")[-1].data, second.until("end")[-1].data]
    assert [end["reason"] for end in ends] == ["killed", "killed"]
    assert ends[1]["executionCount"] is None
    assert text_of(run(api, box, "1 + 1", context=context)) == "2"


def test_delete_while_it_runs(api, box):
    context = make(api, box)["id"]
    with api.stream("POST", f"/sandbox/{box}/code", {"code": f"print('on', flush=True)\n{WAIT}", "context": context}) as stream:
        stream.until("stdout")
        api.ok("DELETE", f"/sandbox/{box}/contexts/{context}")
        end = stream.until("end")[-1].data
    assert end["reason"] == "killed" and end["contextDied"] is True
    api("POST", f"/sandbox/{box}/code", {"code": "1", "context": context}).error(404, "NOT_FOUND")


def test_death_is_told(api, box):
    context = make(api, box)["id"]
    died = run(api, box, "x = 1\nimport os\nos._exit(3)", context=context)
    assert died["success"] is False and died["reason"] == "exit" and died["contextDied"] is True
    assert died["error"]["message"] and "3" in died["message"]
    dead = look(api, box, context)
    assert dead["status"] == "dead" and dead["reason"] == "exit" and "3" in dead["detail"] and dead["pid"] is None
    for headers in (None, {"Accept": "text/event-stream"}):
        reply = api("POST", f"/sandbox/{box}/code", {"code": "1", "context": context}, headers)
        error = reply.error(409, "CONTEXT_DEAD", context, "restart")
        assert error["details"]["context"] == context and error["details"]["reason"] == "exit"
    api("POST", f"/sandbox/{box}/contexts/{context}/interrupt").error(409, "CONFLICT")
    assert api.ok("POST", f"/sandbox/{box}/contexts/{context}/restart")["status"] == "idle"
    assert run(api, box, "x", context=context)["error"]["name"] == "NameError"


def test_killed_from_outside(api, box):
    context = make(api, box)
    api.exec(box, f"kill -9 {context['pid']}")
    dead = eventually(lambda: (lambda c: c if c["status"] == "dead" else None)(look(api, box, context["id"])))
    assert dead["reason"] == "signal"
    api("POST", f"/sandbox/{box}/code", {"code": "1", "context": context["id"]}).error(409, "CONTEXT_DEAD")
    assert text_of(run(api, box, "1 + 1")) == "2"  # the others do not notice


def test_the_default_one_is_reborn(api, box):
    assert text_of(run(api, box, "x = 5; x")) == "5"
    default = api.ok("GET", f"/sandbox/{box}/contexts")["contexts"]
    assert len(default) == 1 and default[0]["isDefault"] is True and default[0]["language"] == "python"
    assert run(api, box, "import os; os._exit(0)")["contextDied"] is True
    fresh = run(api, box, "'x' in globals()")
    assert text_of(fresh) == "False" and fresh["executionCount"] == 1 and fresh["context"] == default[0]["id"]


def test_sleep(api, box):
    """Looking does not wake; what the contexts knew is gone, and that is said."""
    named = make(api, box, id="work")["id"]
    run(api, box, "x = 1", context=named)
    run(api, box, "x = 1")
    api.ok("POST", f"/sandbox/{box}/sleep")
    listed = api.ok("GET", f"/sandbox/{box}/contexts")["contexts"]
    assert {c["id"] for c in listed} >= {"work"} and all(c["status"] == "dead" and c["detail"] == "sleep" for c in listed)
    assert look(api, box, named)["status"] == "dead"
    api("POST", f"/sandbox/{box}/code", {"code": "1", "context": named}).error(409, "CONTEXT_DEAD", "sleep", "restart")
    api("POST", f"/sandbox/{box}/contexts/{named}/interrupt").error(409, "CONFLICT")
    assert api.ok("GET", f"/sandbox/{box}")["status"] == "sleeping"
    assert text_of(run(api, box, "'x' in globals()")) == "False"
    assert api.ok("GET", f"/sandbox/{box}")["status"] == "running"
    assert look(api, box, named)["status"] == "dead"
    assert api.ok("POST", f"/sandbox/{box}/contexts/{named}/restart")["status"] == "idle"


def test_delete_while_it_sleeps(api, box):
    make(api, box, id="work")
    api.ok("POST", f"/sandbox/{box}/sleep")
    api.ok("DELETE", f"/sandbox/{box}/contexts/work")
    assert api.ok("GET", f"/sandbox/{box}/contexts")["contexts"] == []


def test_restart_wakes(api, box):
    make(api, box, id="work")
    api.ok("POST", f"/sandbox/{box}/sleep")
    assert api.ok("POST", f"/sandbox/{box}/contexts/work/restart")["status"] == "idle"
    assert api.ok("GET", f"/sandbox/{box}")["status"] == "running"


def test_many(api, box):
    """Side by side, each with its own state."""
    n = 100 if FULL else 12
    api.ok("PATCH", f"/sandbox/{box}", {"memory": "4g", "pids": 2048})
    made = [make(api, box, id=f"c{i}")["id"] for i in range(n)]
    for i, context in enumerate(made):
        run(api, box, f"mine = {i}", context=context)
    assert [text_of(run(api, box, "mine", context=c)) for c in made] == [str(i) for i in range(n)]
    assert len(api.ok("GET", f"/sandbox/{box}/contexts")["contexts"]) == n
    for context in made:
        api.ok("DELETE", f"/sandbox/{box}/contexts/{context}")
    eventually(lambda: api.exec(box, "ps ax | grep -c '[p]ython'")["stdout"] == "0\n")


@pytest.mark.skipif(not FULL, reason="257 of them")
def test_too_many(api, box):
    api.ok("PATCH", f"/sandbox/{box}", {"memory": "8g", "pids": 4096})
    for i in range(256):
        make(api, box, id=f"c{i}", language="bash")
    api("POST", f"/sandbox/{box}/contexts", {"language": "bash"}).error(403, "QUOTA_EXCEEDED", "256")
    api("POST", f"/sandbox/{box}/code", {"code": "1"}).error(403, "QUOTA_EXCEEDED", "256")
    api.ok("DELETE", f"/sandbox/{box}/contexts/c7")
    assert text_of(run(api, box, "1")) == "1"


def test_another_tenants(api, tenant, box):
    context = make(api, box)["id"]
    tenant.ok("PUT", f"/sandbox/{box}", {})
    for method, path in (("GET", ""), ("DELETE", ""), ("POST", "/interrupt"), ("POST", "/restart")):
        tenant(method, f"/sandbox/{box}/contexts/{context}{path}").error(404, "NOT_FOUND")
    tenant("POST", f"/sandbox/{box}/code", {"code": "1", "context": context}).error(404, "NOT_FOUND")
    cell = run(api, box, "1", context=context)["id"]
    tenant("GET", f"/sandbox/{box}/code/{cell}").error(404, "NOT_FOUND")
    tenant.ok("DELETE", f"/sandbox/{box}")


def test_a_sandbox_that_is_destroyed(api, box):
    with api.stream("POST", f"/sandbox/{box}/code", {"code": f"print('on', flush=True)\n{WAIT}"}) as stream:
        stream.until("stdout")
        api.ok("DELETE", f"/sandbox/{box}")
        events = list(stream)
    assert not events or events[-1].name == "end" and events[-1].data["contextDied"] is True
    gone(api, f"/sandbox/{box}/contexts")


# -- settings of a sandbox


def test_languages_of_a_sandbox(api, box):
    assert api.ok("GET", f"/sandbox/{box}")["languages"] == []
    made = api.ok("PUT", f"/sandbox/{box}-l", {"languages": ["JS", "py", "python3", "javascript"], "sharedZygote": False})
    assert sorted(made["languages"]) == ["javascript", "python"] and made["sharedZygote"] is False
    assert api("PUT", f"/sandbox/{box}-l", {"languages": ["python", "javascript"], "sharedZygote": False}).status == 200
    api("PUT", f"/sandbox/{box}-l", {"languages": ["python"], "sharedZygote": False}).error(409, "CONFLICT")
    api("PUT", f"/sandbox/{box}-l", {"languages": ["python", "javascript"]}).error(409, "CONFLICT")
    changed = api.ok("PATCH", f"/sandbox/{box}-l", {"languages": ["bash"], "sharedZygote": True})
    assert changed["languages"] == ["bash"] and changed["sharedZygote"] is True
    assert api.ok("PATCH", f"/sandbox/{box}-l", {"pids": 300})["languages"] == ["bash"]
    assert api.ok("PATCH", f"/sandbox/{box}-l", {"languages": []})["languages"] == []
    assert text_of(run(api, f"{box}-l", "1 + 1")) == "2"
    api.ok("DELETE", f"/sandbox/{box}-l")


@pytest.mark.parametrize("body, word", [
    ({"languages": "python"}, "languages"), ({"languages": ["klingon"]}, "klingon"), ({"languages": [1]}, "languages"),
    ({"languages": ["py"] * 33}, "languages"), ({"sharedZygote": "no"}, "sharedZygote"), ({"sharedZygote": 0}, "sharedZygote"),
])
def test_bad_settings(api, shared_box, body, word):
    api("PUT", "/sandbox/bad", body).error(400, "INVALID_REQUEST", word)
    api("PATCH", f"/sandbox/{shared_box}", body).error(400, "INVALID_REQUEST", word)


def test_one_of_its_own(api, box):
    """Without the shared one everything works the same."""
    api.ok("PATCH", f"/sandbox/{box}", {"sharedZygote": False})
    assert text_of(run(api, box, "import random; x = 2; x")) == "2"
    assert text_of(run(api, box, "x", context=api.ok("GET", f"/sandbox/{box}/contexts")["contexts"][0]["id"])) == "2"
