# SPDX-License-Identifier: Apache-2.0
"""Magics and shell lines, as ordinary notebooks use them."""

import pytest
from python_kernel import Kernel


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    with Kernel(cwd=str(tmp_path_factory.mktemp("magics"))) as kernel:
        yield kernel


def test_shell_lines(shared):
    assert shared.run("!echo hello").stdout == "hello\n"
    assert shared.run("n = 5\n!echo {n + 1} $n $$HOME '{}' ${{HOME}}").stdout.startswith("6 5 /root {} ")
    assert shared.run("x = !printf 'a\\nb\\n'\nprint(x, x.n, x.s)").stdout == "['a', 'b'] a\nb a b\n"
    assert shared.run("!false\n_exit_code").result["text"] == "1"
    assert shared.run("for i in range(2):\n    !echo $i\n    if i:\n        !echo one").stdout == "0\n1\none\n"
    assert shared.run("!echo a \\\n  b\nprint('next')").stdout == "a b\nnext\n"
    assert shared.run("!echo oops >&2").stderr == "oops\n"


def test_lines_in_strings_are_left_alone(shared):
    assert shared.run('s = """\n!ls\n%time\n"""\n!echo x\nprint(s)').stdout == "x\n\n!ls\n%time\n\n"
    assert shared.run("a, b = 7, 4\nx = (a\n  % b)\n!echo $x").stdout == "3\n"
    assert shared.run("x = 'it\\'s' # it's\n!echo ok").stdout == "ok\n"


def test_cd_env_and_pwd(shared, tmp_path):
    assert shared.run(f"%cd {tmp_path}").stdout == f"{tmp_path}\n"
    assert shared.run("%pwd").result["text"] == repr(str(tmp_path))
    assert shared.run("%env WORD=some thing").stdout == "env: WORD=some thing\n"
    assert shared.run("%env WORD").result["text"] == "'some thing'"
    assert shared.run("!echo $$WORD").stdout == "some thing\n"
    shared.run("%cd -")
    shared.run("%cd -")
    assert shared.run("x = %pwd\nx").result["text"] == repr(str(tmp_path))
    assert shared.run("%cd /nowhere").error["name"] == "FileNotFoundError"


def test_time(shared):
    answer = shared.run("%time 6 * 7")
    assert answer.result["text"] == "42" and "Wall time:" in answer.stdout
    answer = shared.run("%%time\ny = 2\ny + 1")
    assert answer.result["text"] == "3" and "CPU times:" in answer.stdout
    error = shared.run("%%time\nx = 1\n1/0").error
    assert (error["name"], error["lineNumber"]) == ("ZeroDivisionError", 3)
    assert "loops each" in shared.run("%timeit -n 10 -r 2 sum(range(10))").stdout
    assert "per loop" in shared.run("%%timeit -n 10 -r 1\nsum(range(10))").stdout
    assert "Wall time:" in shared.run("import asyncio\n%time await asyncio.sleep(0)").stdout


def test_cell_magics(shared, tmp_path):
    assert shared.run("%%bash\nfor i in 1 2; do echo $i; done").stdout == "1\n2\n"
    assert shared.run("%%bash\nexit 3").error["name"] == "CalledProcessError"
    path = tmp_path / "made.py"
    assert shared.run(f"%%writefile {path}\nprint('from file')\n").stdout == f"Writing {path}\n"
    assert shared.run(f"%%writefile -a {path}\nz = 3").stdout == f"Appending to {path}\n"
    assert shared.run(f"%run {path}\nz").result["text"] == "3"
    assert shared.run("%%capture got\nprint('inside')").stdout == ""
    assert shared.run("got.stdout").result["text"] == "'inside\\n'"
    assert shared.run("%%html\n<b>x</b>").displays[0]["html"].strip() == "<b>x</b>"
    assert shared.run("%%markdown\n# x").displays[0]["markdown"].strip() == "# x"
    assert shared.run("\n\n%%bash\necho late").stdout == "late\n"


def test_nothing_to_do(shared):
    for line in ("%matplotlib inline", "%load_ext autoreload", "%autoreload 2", "%config InlineBackend.figure_format = 'retina'"):
        answer = shared.run(line)
        assert answer.error is None and not answer.results


def test_unknown_magics(shared):
    error = shared.run("x = 1\n%nosuch thing").error
    assert (error["name"], error["lineNumber"]) == ("UsageError", 2) and "`%nosuch` not found" in error["message"]
    error = shared.run("%%nosuch\nthing").error
    assert error["name"] == "UsageError" and "`%%nosuch` not found" in error["message"]


def test_help(shared):
    assert "number of items" in shared.run("len?").stdout
    assert "number of items" in shared.run("?len").stdout
    assert "not found" in shared.run("nothere?").stdout


def test_who(shared):
    shared.run("%reset -f")
    shared.run("alpha = 1; beta = [1, 2]")
    assert shared.run("%who").stdout.split() == ["alpha", "beta"]
    assert "beta" in shared.run("%whos").stdout


def test_words_without_a_percent_sign(shared, tmp_path):
    (tmp_path / "seen.txt").write_text("x")
    assert shared.run(f"ls {tmp_path}").stdout == "seen.txt\n"
    assert shared.run("pip --version").stdout.startswith("pip ") or "No module" in shared.run("pip --version").stderr


def test_pasted_cells(shared):
    assert shared.run(">>> x = 2\n>>> for i in range(x):\n...     print(i)\n").stdout == "0\n1\n"
    assert shared.run("    x = 5\n    x + 1").result["text"] == "6"


def test_own_magics(shared):
    for where in ("from IPython.core.magic import register_line_magic\n@register_line_magic\n", ""):
        tail = "" if where else "\nget_ipython().register_magic_function(shout, 'line')"
        shared.run(f"{where}def shout(line): return line.upper(){tail}")
        assert shared.run("%shout abc").result["text"] == "'ABC'"


def test_syntax_error_beside_a_magic(shared):
    error = shared.run("!true\nx = = 1").error
    assert (error["name"], error["lineNumber"]) == ("SyntaxError", 2)
