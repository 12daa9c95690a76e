# SPDX-License-Identifier: Apache-2.0
"""The bash kernel by itself: what stays between cells, and what a cell may do to the shell it runs in."""

import os
import random
import signal
import time

import pytest
from shell_kit import CONTROL_IN, CONTROL_OUT, Ended, Kernel


@pytest.fixture(name="bash")
def make_bash():
    kernel = Kernel("bash", "bash", cwd="/", env={"GIVEN": "from outside"})
    assert kernel.opened == ("opened", 0, {})
    yield kernel
    kernel.close()


def failed(cell, name="ExitStatus"):
    assert cell.error is not None, cell.out
    assert cell.error["name"] == name, cell.error
    assert [kind for kind, _ in cell.frames] == ["error", "done"]
    return cell.error


def fine(cell):
    assert cell.error is None, (cell.error, cell.err)
    return cell.out.decode()


# -- the beginning


def test_ready_tells_its_version(bash):
    assert bash.ready["language"] == "bash"
    assert bash.ready["version"].startswith("5.")


def test_a_directory_that_is_not_there_and_then_another():
    kernel = Kernel("bash", None)
    kind, _, answer = kernel.open("bash", '/no/such "place"', {})
    assert kind == "failed" and '/no/such "place"' in answer["message"] and "missing" not in answer
    assert kernel.open("bash", "/usr", {"A": "1 2"}) == ("opened", 0, {})
    assert fine(kernel.run('echo "$PWD $A"')) == "/usr 1 2\n"
    assert kernel.close() == 0


def test_control_ins_end_is_its_end(bash):
    assert fine(bash.run("echo x")) == "x\n"
    bash.run("set -e")
    other = os.dup(bash.control_in)
    os.close(bash.control_in)
    bash.control_in = other
    os.close(other)
    assert bash.status() == 0
    bash.control_in = os.open("/dev/null", os.O_WRONLY)


# -- what stays


def test_state_stays(bash):
    fine(bash.run("x=5; y=(a 'b c'); declare -A m=([k]=v); export E=1; f() { echo \"f $1 $x\"; }; cd /tmp; shopt -s extglob; umask 027"))
    assert fine(bash.run('echo $x "${y[1]}" ${m[k]}; f 2; pwd; env | grep ^E=; shopt extglob; umask')) == (
        "5 b c v\nf 2 5\n/tmp\nE=1\nextglob        \ton\n0027\n")
    assert fine(bash.run("alias ll='echo aliased'; shopt -s expand_aliases")) == ""
    assert fine(bash.run("ll")) == "aliased\n"


def test_status_of_the_cell_before(bash):
    assert failed(bash.run("(exit 7)"))["message"] == "the cell ended with status 7"
    assert fine(bash.run("echo $?")) == "7\n"
    assert fine(bash.run("false; true")) == ""


def test_counts(bash):
    assert [bash.run(code).count for code in (":", "false", "if", ":")] == [1, 2, 3, 4]


def test_locale_is_not_ours(bash):
    assert fine(bash.run('v=äöü; echo ${#v} "${LC_ALL-none}"; env | grep -c ^LC_; :')) == "3 none\n0\n"
    assert fine(bash.run("export LC_ALL=C; v=äöü; echo ${#v}")) == "6\n"
    assert fine(bash.run('v=äöü; echo ${#v} "$LC_ALL"')) == "6 C\n"


def test_variables_for_one_cell(bash):
    fine(bash.run("SHELL_ONLY=mine; export OUT=before"))
    env = {"OUT": "q'\"$(x)\nline", "NEW": "1", "SHELL_ONLY": "lent", "no-name": "x"}
    assert fine(bash.run('printf "%s|" "$OUT" "$NEW" "$SHELL_ONLY"', env)) == "q'\"$(x)\nline|1|lent|"
    assert fine(bash.run('echo "$OUT ${NEW-none} $SHELL_ONLY"; env | grep -c SHELL_ONLY; :')) == "before none mine\n0\n"
    failed(bash.run("set -e; false", env))
    assert fine(bash.run('set +e; echo "$OUT ${NEW-none}"')) == "before none\n"


# -- output


def test_streams_are_raw(bash):
    cell = bash.run(r"printf 'a\0b\xff'; printf 'e\0' >&2; cat <<X" + "\nhere $GIVEN\nX")
    assert (cell.out, cell.err) == (b"a\0b\xffhere from outside\n", b"e\0")


def test_much_output(bash):
    cell = bash.run("head -c 20000000 /dev/zero; printf end")
    assert len(cell.out) == 20000003 and cell.out.endswith(b"end")


def test_redirections_of_the_shell_end_with_the_cell(bash, tmp_path):
    fine(bash.run(f"exec >{tmp_path}/log; echo one"))
    assert fine(bash.run("echo two")) == "two\n"
    assert (tmp_path / "log").read_text() == "one\n"
    fine(bash.run("exec >&- 2>&- 0<&-"))
    assert fine(bash.run("echo three")) == "three\n"


def test_trace_shows_the_cell_alone(bash):
    assert bash.run("set -x; echo t").err.decode().split() == ["+++", "echo", "t"]
    assert bash.run("set +x").err.decode().split() == ["+++", "set", "+x"]


def test_control_is_closed_in_a_cell(bash):
    out = fine(bash.run(f"ls /proc/self/fd; for fd in {CONTROL_IN} {CONTROL_OUT} 62 63; do [[ -e /dev/fd/$fd ]] && echo open; done; :"))
    assert out.split() == ["0", "1", "2", "3"]
    cell = bash.run(f"echo 'done 1 2' >&{CONTROL_OUT}")
    assert failed(cell) and b"Bad file descriptor" in cell.err
    assert fine(bash.run("ls /proc/self/fd | wc -l; sleep 0 & ls -d /proc/self/fd/60 2>&1 | grep -c cannot")) == "4\n1\n"


def test_background_jobs_do_not_hold_a_cell(bash):
    begun = time.monotonic()
    fine(bash.run("sleep 300 & job=$!"))
    assert time.monotonic() - begun < 200
    assert fine(bash.run("kill -0 $job && kill $job; wait $job; echo $?")) == "143\n"


# -- errors


@pytest.mark.parametrize("code, line, words", [
    ("echo a\nif then\necho b", 2, "syntax error near unexpected token `then'"),
    ("\n\n\necho )", 4, "syntax error"),
    ('x=1\necho "abc', 2, "unexpected EOF while looking for matching `\"'"),
    ("for i in 1 2; do\n  echo $i\n", 3, "unexpected end of file"),
    ("f() {", 2, "unexpected end of file"),
])
def test_syntax_errors(bash, code, line, words):
    error = failed(bash.run(code), "SyntaxError")
    assert words in error["message"]
    assert line <= error["lineNumber"] <= line + 1  # where a file ends is for bash to say
    assert fine(bash.run("echo on")) == "on\n"


def test_status_2_is_not_always_a_syntax_error(bash):
    assert failed(bash.run("(exit 2)"))["message"] == "the cell ended with status 2"
    assert failed(bash.run("return 3"))
    # Nothing of the cell is run a second time to find out.
    fine(bash.run("n=0"))
    failed(bash.run("n=$((n+1)); ls /no/such/file >/dev/null 2>&1"))
    assert fine(bash.run("echo $n")) == "1\n"


def test_messages_have_the_cells_lines(bash):
    cell = bash.run("true\n\nno_such_command\n:")
    assert cell.err == b"bash: line 3: no_such_command: command not found\n"


@pytest.mark.parametrize("code", [
    "set -e; false; echo no",
    "set -eu; f() { local v=inner; cat /no/such; echo no; }; f; echo no",
    "set -u; echo $no_such_variable; echo no",
    "set -u; f() { local v=inner; echo $no_such_variable; echo no; }; f",
    "f() { local v=inner; : ${no_such:?is not set}; echo no; }; f; echo no",
    "set -o pipefail -e; false | cat; echo no",
    "set -eE; trap 'x=trapped' ERR; false; echo no",
    "set -o posix; export 1x=2; . /no/such/file; echo no",
    "readonly r=1; set -e; r=2; echo no",
])
def test_what_ends_a_shell_ends_the_cell(bash, code):
    fine(bash.run("x=kept; v=outer; a=('1 2' $'new\\nline'); g() { echo \"g $x\"; }; cd /usr; set -- p 'q r'"))
    pid = fine(bash.run("echo $$"))
    cell = bash.run(code)
    assert failed(cell) and b"no\n" not in cell.out
    out = fine(bash.run('set +eu +o posix; x=kept; g; echo "$v" "${a[0]}" "${a[1]}" "$PWD" $# "$2" $$'))
    assert out == f"g kept\nouter 1 2 new\nline /usr 2 q r {pid}"


def test_options_and_traps_survive_it(bash):
    fine(bash.run("set -ef; shopt -s nullglob; trap 'echo hup' HUP; trap 'n=1' ERR; alias aa=bb; umask 077"))
    failed(bash.run("false"))
    out = fine(bash.run("echo $-; shopt nullglob; trap -p HUP ERR; alias; umask"))
    assert "e" in out.split()[0] and "f" in out.split()[0]
    for part in ("nullglob       \ton", "trap -- 'echo hup' SIGHUP", "trap -- 'n=1' ERR", "alias aa='bb'", "0077"):
        assert part in out
    failed(bash.run("false; echo no"))  # `set -e` is still on


def test_a_large_state_survives_it(bash):
    fine(bash.run("big=$(head -c 5000000 /dev/zero | tr '\\0' x); for ((i = 0; i < 2000; i++)); do declare v$i=$i; done"))
    failed(bash.run("set -e; false"))
    assert fine(bash.run("echo ${#big} $v1999")) == "5000000 1999\n"


def test_many_shells_leave_nothing_open(bash):
    fine(bash.run("exec 5</dev/null; set -- a 'b c'"))
    for code in ["set -e; false", "set +e; set -u; f() { echo $no_such; }; f; set +u"] * 20:
        failed(bash.run(code))
    assert sorted(map(int, os.listdir(f"/proc/{bash.process.pid}/fd"))) == [0, 1, 2, 5, 60, 61, 62, 63]
    assert fine(bash.run('set +eu; ls /proc/self/fd | tr "\\n" " "; echo $# "$2"')) == "0 1 2 3 5 2 b c\n"


@pytest.mark.parametrize("code", ["break", "continue", "break 9", "for i in 1; do continue 5; done", "while :; do break 2; done"])
def test_leaving_the_loop(bash, code):
    fine(bash.run("x=1"))
    bash.run(code)
    assert fine(bash.run("echo $x")) == "1\n"


def test_a_program_that_cannot_be_executed(bash):
    assert failed(bash.run("exec /no/such/program"))["message"] == "the cell ended with status 127"
    assert fine(bash.run("(exit 3); echo $?; (exec /no/such); echo $?")).split() == ["3", "127"]


@pytest.mark.parametrize("code, status", [("x=1; exit 3", 3), ("f() { exit; }; (exit 4); f", 4), ("exec sh -c 'exit 5'", 5),
                                          ("set -e; exit 6", 6)])
def test_exit_ends_the_kernel(code, status):
    kernel = Kernel("bash", "bash")
    kernel.begin(f"echo said; {code}")
    with pytest.raises(Ended):
        kernel.finish()
    assert kernel.status() == status
    assert kernel.output[1] + kernel.process.stdout.read() == b"said\n"
    kernel.close()


@pytest.mark.parametrize("busy", [False, True])
def test_signals_end_it(busy):
    for number in (signal.SIGTERM, signal.SIGKILL):
        kernel = Kernel("bash", "bash")
        kernel.run("true")
        if busy:
            kernel.begin("echo up; while :; do sleep 0.1; done")
            kernel.wait_for_output(b"up")
        os.kill(kernel.process.pid, number)
        with pytest.raises(Ended):
            kernel.receive()
        assert kernel.status() == -number
        kernel.close()


# -- what a cell may do to the names and options that the loop uses


@pytest.mark.parametrize("code", [
    "IFS=xyz0123456789",
    "TMOUT=1",
    "read() { :; }; printf() { :; }; eval() { :; }; trap() { :; }; return() { :; }; set() { :; }; declare() { :; }; shopt() { :; }; exec() { :; }",
    "alias read=false printf=false while=false case=false; shopt -s expand_aliases",
    "set -ufxv -o noclobber -o pipefail -o posix",
    "shopt -s nocasematch extglob failglob nullglob dotglob lastpipe",
    "trap 'echo DEBUG >&2' DEBUG; trap ':' ERR; trap ':' RETURN; set -ET",
    "n=1 src=2 _=3; unset BASH PATH; BASH=/no",
    "exec 10</dev/null 11</dev/null 13</dev/null",
    "LC_ALL=POSIX; LANG=x",
    "export BASH_ENV=/dev/stdin ENV=/dev/stdin POSIXLY_CORRECT=1 SHELLOPTS",
    "cd /; mkdir -p /tmp/cay-gone && cd /tmp/cay-gone && rmdir /tmp/cay-gone",
    "unset -v PWD HOME OLDPWD",
])
def test_hostile_cells(bash, code):
    bash.run(code)
    time.sleep(1.2 if "TMOUT" in code else 0)
    assert bash.run("x=7; builtin echo one").out == b"one\n"
    cell = bash.run("builtin set -e; (builtin exit 9); builtin echo no")
    assert cell.error["message"] == "the cell ended with status 9" and cell.out == b""
    assert bash.run('builtin echo "$x"').out == b"7\n"


def test_a_long_cell(bash):
    assert fine(bash.run("x='" + "ä" * 1000000 + "'; echo ${#x}")) == "1000000\n"
    every = "".join(chr(c) for c in range(1, 127) if chr(c) not in "'")
    assert bash.run(f"printf %s '{every}'").out == every.encode()
    assert fine(bash.run("")) == ""


# -- interrupts


@pytest.mark.parametrize("code", [
    "sleep 300; echo no",
    "while :; do :; done; echo no",
    "f() { local x=inner; while :; do :; done; }; if f; then echo no; fi; echo no",
    "f() { local x=inner; sleep 300; echo no; }; y=$(f); echo no",
    "sleep 300 | cat; echo no",
    "(sleep 300; echo no); echo no",
    "sleep 300 & wait; echo no",
    "set -e; f() { sleep 300 || true; }; f || true; echo no",
    "for i in 1 2 3; do sleep 300; echo no; done",
])
def test_interrupt(bash, code):
    fine(bash.run("x=kept"))
    for _ in range(2):
        bash.begin(f"echo up; {code}")
        bash.wait_for_output(b"up\n")
        time.sleep(0.1)
        bash.interrupt()
        cell = bash.finish()
        assert failed(cell, "Interrupted") and cell.out == b"up\n" and cell.err == b""
    assert fine(bash.run('echo "$x $-"')).split()[0] == "kept"


def test_interrupts_at_any_moment(bash):
    draw = random.Random(5)
    fine(bash.run("x=kept"))
    for _ in range(100):
        bash.begin(draw.choice([":", "f() { local x=1; for i in {1..9}; do :; done; }; f", "sleep 0.005", "y=$(echo a)"]))
        time.sleep(draw.random() * 0.01)
        bash.interrupt()
        assert bash.finish(patience=0).count == bash.cells
    assert fine(bash.run("echo $x")) == "kept\n"


def test_interrupts_when_nothing_runs(bash):
    fine(bash.run("x=kept"))
    for _ in range(20):
        bash.interrupt()
    time.sleep(0.2)
    assert fine(bash.run("echo $x")) == "kept\n"


def test_programs_do_not_ignore_interrupts(bash):
    """As they would if they had been started while the shell ignores them."""
    failed(bash.run("set -e; false"))
    assert int(fine(bash.run("set +e; grep SigIgn /proc/self/status")).split()[1], 16) & 2 == 0


def test_a_cells_own_trap_on_interrupt(bash):
    bash.begin("trap 'echo caught; stop=1' INT; echo up; until [[ $stop ]]; do sleep 0.1; done; trap - INT")
    bash.wait_for_output(b"up\n")
    bash.interrupt()
    assert fine(bash.finish()) == "up\ncaught\n"
