# SPDX-License-Identifier: Apache-2.0
"""Languages over the API: what a sandbox has, the ones that are compiled, bash, and what is missing."""

import shutil
import threading
import time

import pytest

# In a box of the host's image programs are those of the machine's system.
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
STATEFUL = {"python", "javascript", "typescript", "bash"}
ONCE = {
    "c": ("gcc", '#include <stdio.h>\nint main(void) { puts("hello"); return 0; }'),
    "cpp": ("g++", '#include <iostream>\nint main() { std::cout << "hello\\n"; }'),
    "go": ("go", 'package main\nimport "fmt"\nfunc main() { fmt.Println("hello") }'),
    "rust": ("rustc", 'fn main() { println!("hello"); }'),
    "java": ("javac", 'class A { public static void main(String[] a) { System.out.println("hello"); } }'),
    "ruby": ("ruby", 'puts "hello"'),
    "php": ("php", '<?php echo "hello\n";'),
    "perl": ("perl", 'print "hello\\n"'),
    "lua": ("lua5.4", 'print("hello")'),
    "r": ("Rscript", 'cat("hello\\n")'),
}


def here(program):
    return shutil.which(program, path=PATH) is not None


def code(api, box, text, **fields):
    return api.ok("POST", f"/sandbox/{box}/code", {"code": text, **fields})


# -- which there are


def test_the_list(api, shared_box):
    answer = api.ok("GET", f"/sandbox/{shared_box}/languages")
    languages = {entry["name"]: entry for entry in answer["languages"]}
    assert set(languages) == STATEFUL | set(ONCE)
    for name, entry in languages.items():
        assert entry["stateful"] is (name in STATEFUL)
        assert ("version" in entry) is entry["available"] and ("package" in entry) is not entry["available"]
        if entry["available"]:
            assert entry["version"][0].isdigit(), entry
    for name, (program, _) in ONCE.items():
        assert languages[name]["available"] is here(program), name
    python = languages["python"]
    version = api.ok("POST", f"/sandbox/{shared_box}/exec", {"command": "python3 -V"})["stdout"].split()[1]
    assert python["version"] == version and "py" in python["aliases"]
    for name, number in python["libraries"].items():
        assert name in ("numpy", "pandas", "matplotlib", "scipy", "scikit-learn") and number[0].isdigit()


def test_a_fresh_list_comes_quickly(api, shared_box):
    api.ok("GET", f"/sandbox/{shared_box}/languages")
    begun = time.monotonic()
    api.ok("GET", f"/sandbox/{shared_box}/languages")
    assert time.monotonic() - begun < 5  # asking java alone takes longer on a busy machine


@pytest.fixture(name="own_programs")
def make_own_programs(api):
    """Makes a sandbox whose programs are those that a script puts into /workspace/bin, before `path`."""
    made = []

    def make(script, path=f":{PATH}"):
        name = f"programs-{len(made)}-{time.monotonic_ns()}"
        made.append(name)
        api.ok("PUT", f"/sandbox/{name}", {"env": {"PATH": f"/workspace/bin{path}"}})
        script = f"PATH={PATH}; mkdir -p /workspace/bin && cd /workspace/bin || exit; {script}; chmod +x * 2>/dev/null; :"
        assert api.ok("POST", f"/sandbox/{name}/exec", {"argv": ["/bin/sh", "-c", script]})["success"]
        return name

    yield make
    for name in made:
        api("DELETE", f"/sandbox/{name}")


def available(api, name):
    return {e["name"]: e for e in api.ok("GET", f"/sandbox/{name}/languages")["languages"]}


def test_programs_that_lie(api, own_programs):
    """Whoever has the box may put any program there: what it says is cut and checked."""
    languages = available(api, own_programs("""
        printf '#!/bin/sh\\nyes "python 9.9" | head -c 50000000\\n' >ruby
        printf '#!/bin/sh\\nprintf "1.2\\\\0\\\\377\\\\"<b>"; printf "go 6.6\\\\nphp 7.7" >&2\\n' >go
        printf '#!/bin/sh\\nprintf "%%01000d.5" 1\\n' >Rscript
        printf '#!/bin/sh\\nexit 1\\n' >lua5.4
        printf '#!/bin/sh\\necho 3.1 numpy=1 pandas=$(echo "<&") =2 x=3 scipy==3 numpy=2 scipy=%%01000d\\n' >python3"""))
    assert languages["ruby"]["version"] == "9.9"
    assert languages["go"]["version"].startswith("1.2") and languages["php"].get("version") != "7.7"
    assert len(languages["r"]["version"]) < 64
    assert languages["lua"]["available"] and languages["lua"]["version"] is None
    assert languages["python"]["version"] == "3.1" and languages["python"]["libraries"] == {"numpy": "1"}


@pytest.mark.long
def test_a_program_that_never_answers(api, own_programs):
    languages = available(api, own_programs("printf '#!/bin/sh\\nsleep 300\\n' >rustc"))
    assert not languages["rust"]["available"] and languages["python"]["available"] and languages["bash"]["available"]


def test_it_wakes(api, box):
    api.ok("POST", f"/sandbox/{box}/sleep")
    api.ok("GET", f"/sandbox/{box}/languages")
    assert api.ok("GET", f"/sandbox/{box}")["status"] == "running"


def test_what_is_refused(api, shared_box, tenant):
    api("GET", "/sandbox/nobody/languages").error(404, "NOT_FOUND")
    api("GET", f"/sandbox/{shared_box}/languages?x=1").error(400, "INVALID_REQUEST", "x")
    api("POST", f"/sandbox/{shared_box}/languages", {}).error(405, "METHOD_NOT_ALLOWED")
    tenant("GET", f"/sandbox/{shared_box}/languages").error(404, "NOT_FOUND")
    api("POST", f"/sandbox/{shared_box}/code", {"code": "x", "language": "cobol"}).error(400, "INVALID_REQUEST")


# -- compiled and run


@pytest.mark.parametrize("language", [
    pytest.param(name, marks=pytest.mark.skipif(not here(program), reason=f"no {program} here"))
    for name, (program, _) in ONCE.items()])
def test_hello(api, shared_box, language):
    result = code(api, shared_box, ONCE[language][1], language=language)
    assert result["success"] and "".join(result["logs"]["stdout"]) == "hello\n", result
    assert result["reason"] == "done" and result["language"] == language


@pytest.mark.parametrize("language", [name for name, (program, _) in ONCE.items() if not here(program)])
def test_missing(api, shared_box, language):
    error = api("POST", f"/sandbox/{shared_box}/code", {"code": "x", "language": language}).error(
        501, "LANGUAGE_MISSING", language, ONCE[language][0], "apt-get install")
    package = {e["name"]: e for e in api.ok("GET", f"/sandbox/{shared_box}/languages")["languages"]}[language]["package"]
    assert package in error["error"]


def test_next_to_nothing_is_there(api, own_programs):
    """501 names the package, whatever the machine itself has."""
    links = "for name in bash sh mktemp rm cat head tr; do ln -s $(command -v $name) .; done"
    box = own_programs(links, path="")
    packages = {name: entry["package"] for name, entry in available(api, box).items() if name != "bash"}
    assert set(packages) == (STATEFUL | set(ONCE)) - {"bash"}
    for name in ONCE:
        error = api("POST", f"/sandbox/{box}/code", {"code": "1", "language": name}).error(501, "LANGUAGE_MISSING")
        assert f"apt-get install {packages[name]}" in error["error"]
    assert code(api, box, "echo on", language="bash")["success"]


def test_errors_of_once(api, shared_box):
    result = code(api, shared_box, "int main(void)\n{\n    return nothing;\n}", language="c")
    assert not result["success"] and result["reason"] == "error"
    assert result["error"]["name"] == "CompileError" and result["error"]["lineNumber"] == 3
    result = code(api, shared_box, "exit 4", language="pl")
    assert result["error"]["name"] == "ExitStatus" and "4" in result["error"]["message"]
    result = code(api, shared_box, "kill 9, $$", language="perl")
    assert result["error"]["name"] == "Signal" and "SIGKILL" in result["error"]["message"]


def test_once_has_its_own_variables_and_directory(api, box):
    result = code(api, box, 'use Cwd; print getcwd, " $ENV{STAGE}"', language="perl", env={"STAGE": "dev"})
    assert "".join(result["logs"]["stdout"]) == "/workspace dev"
    assert api.ok("POST", f"/sandbox/{box}/exec", {"command": "ls -A /tmp | grep cay-once; :"})["stdout"] == ""


def test_once_runs_out_of_time(api, box):
    result = code(api, box, "sleep 300", language="perl", timeout=1000)
    assert result["reason"] == "timeout" and not result["success"]
    assert code(api, box, 'print "on"', language="perl")["success"]


def test_once_side_by_side(api, box):
    results = []
    threads = [threading.Thread(target=lambda n=n: results.append((n, code(api, box, f"print {n}", language="perl"))))
               for n in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(results) == 6
    for number, result in results:
        assert "".join(result["logs"]["stdout"]) == str(number)


# -- bash


def test_bash_keeps_its_state(api, box):
    code(api, box, "x=5; cd /tmp; f() { echo f $x; }", language="bash")
    assert "".join(code(api, box, "f; pwd", language="sh")["logs"]["stdout"]) == "f 5\n/tmp\n"
    result = code(api, box, "set -e; false; echo no", language="bash")
    assert result["error"]["name"] == "ExitStatus" and result["logs"]["stdout"] in ([], [""])
    assert "".join(code(api, box, "f", language="bash")["logs"]["stdout"]) == "f 5\n"


def test_bash_syntax_error(api, shared_box):
    error = code(api, shared_box, "echo a\nif then", language="bash")["error"]
    assert error["name"] == "SyntaxError" and error["lineNumber"] == 2


def test_bash_exit_ends_its_context(api, box):
    made = api.ok("POST", f"/sandbox/{box}/contexts", {"language": "bash"})
    result = code(api, box, "echo bye; exit 3", context=made["id"])
    assert result["reason"] == "exit" and result["contextDied"] and "".join(result["logs"]["stdout"]) == "bye\n"
    api("POST", f"/sandbox/{box}/code", {"code": ":", "context": made["id"]}).error(409, "CONTEXT_DEAD")


def test_bash_timeout_keeps_its_state(api, box):
    code(api, box, "x=kept", language="bash")
    result = code(api, box, "f() { while :; do :; done; }; f", language="bash", timeout=1000)
    assert result["reason"] == "timeout" and not result.get("contextDied")
    assert "".join(code(api, box, "echo $x", language="bash")["logs"]["stdout"]) == "kept\n"


def test_bash_children_do_not_have_control(api, shared_box):
    assert "".join(code(api, shared_box, "ls /proc/self/fd", language="bash")["logs"]["stdout"]).split() == ["0", "1", "2", "3"]
