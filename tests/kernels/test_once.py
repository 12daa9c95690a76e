# SPDX-License-Identifier: Apache-2.0
"""The kernel of languages whose cells stand alone, by itself. A language that this machine has not got is skipped."""

import glob
import os
import shutil
import time

import pytest
from shell_kit import Kernel

PROGRAMS = {"c": "gcc", "cpp": "g++", "go": "go", "rust": "rustc", "java": "javac", "ruby": "ruby", "php": "php",
            "perl": "perl", "lua": "lua5.4", "r": "Rscript"}

# Writes to both streams; fails with 3; cannot be compiled, in line 3.
CELLS = {
    "c": ('#include <stdio.h>\nint main(void) { puts("out ä"); fputs("err\\n", stderr); return 0; }',
          "int main(void) { return 3; }",
          "int main(void)\n{\n    return no_such_name;\n}\n"),
    "cpp": ('#include <iostream>\n#include <span>\nint main() { std::cout << "out ä\\n"; std::cerr << "err\\n"; }',
            "int main() { return 3; }",
            'int main()\n{\n    int x = "text";\n}\n'),
    "go": ('package main\nimport ("fmt"; "os")\nfunc main() { fmt.Println("out ä"); fmt.Fprintln(os.Stderr, "err") }',
           'package main\nimport "os"\nfunc main() { os.Exit(3) }',
           "package main\nfunc main() {\n\tnoSuchName()\n}\n"),
    "rust": ('fn main() { println!("out ä"); eprintln!("err"); }',
             "fn main() { std::process::exit(3) }",
             "fn main()\n{\n    no_such_name();\n}\n"),
    "java": ('class Hello { public static void main(String[] a) { System.out.println("out \\u00e4"); System.err.println("err"); } }',
             "public class Three { public static void main(String... a) { System.exit(3); } }",
             'public class Wrong {\n    public static void main(String[] a) {\n        int x = "text";\n    }\n}\n'),
    "ruby": ('puts "out ä"; warn "err"', "exit 3", "x = 1\n\nputs )"),
    "php": ('<?php echo "out ä\n"; fwrite(STDERR, "err\n");', "<?php exit(3);", "<?php\n$x = 1;\n$y = ;"),
    "perl": ('print "out ä\\n"; print STDERR "err\\n";', "exit 3", "my $x = 1;\n\nmy $y = ;\n"),
    "lua": ('print("out ä") io.stderr:write("err\\n")', "os.exit(3)", "x = 1\n\ny = = 2\n"),
    "r": ('cat("out ä\\n"); message("err")', "quit(status = 3)", "x <- 1\n\ny <- )\n"),
}


def needs(language):
    return pytest.param(language, marks=pytest.mark.skipif(
        shutil.which(PROGRAMS[language]) is None, reason=f"no {PROGRAMS[language]} here"))


@pytest.fixture(name="make")
def make_kernels(tmp_path):
    kernels = []
    (tmp_path / "tmp").mkdir()
    (tmp_path / "work").mkdir()

    def make(language):
        kernel = Kernel("once", language, cwd=str(tmp_path / "work"), env={"TMPDIR": str(tmp_path / "tmp"), "GIVEN": "g"})
        kernels.append(kernel)
        return kernel

    yield make
    for kernel in kernels:
        assert kernel.close() == 0
    left = [name for name in glob.glob(f"{tmp_path}/tmp/.cay-once*")]
    assert left == []
    assert os.listdir(tmp_path / "work") == []


@pytest.mark.parametrize("language", [needs(name) for name in PROGRAMS])
def test_a_program(make, language):
    kernel = make(language)
    assert kernel.opened == ("opened", 0, {})
    fine, three, wrong = CELLS[language]
    cell = kernel.run(fine)
    assert (cell.error, cell.out.decode(), cell.err.decode()) == (None, "out ä\n", "err\n")
    cell = kernel.run(three)
    assert cell.error == {"name": "ExitStatus", "message": "the program ended with status 3", "traceback": [],
                          "lineNumber": None}
    cell = kernel.run(wrong)
    assert cell.error["name"] == "CompileError", cell.error
    assert cell.error["lineNumber"] == 3, cell.error
    assert cell.error["traceback"] and cell.error["message"]
    assert ".cay-once" not in cell.error["message"]
    assert cell.count == 3
    assert kernel.run(fine).error is None


@pytest.mark.parametrize("language", PROGRAMS)
def test_a_program_that_is_not_there(language, monkeypatch, tmp_path):
    for name in ("bash", "mktemp", "rm", "cat"):
        os.symlink(shutil.which(name), tmp_path / name)
    monkeypatch.setenv("PATH", str(tmp_path))
    kernel = Kernel("once", language)
    kind, _, answer = kernel.opened
    assert kind == "failed" and answer["missing"] is True and PROGRAMS[language] in answer["message"]
    assert kernel.close() == 0


def test_what_cannot_be_opened(tmp_path):
    kernel = Kernel("once", None)
    assert kernel.ready["language"] == "once"
    assert kernel.open("cobol", "/", {})[0] == "failed"
    kind, _, answer = kernel.open("perl", str(tmp_path / "none"), {})
    assert kind == "failed" and "missing" not in answer
    assert kernel.open("perl", str(tmp_path), {})[0] == "opened"
    assert kernel.close() == 0


# -- C stands for all that are compiled, Perl for all that are not


def test_where_it_runs(make, tmp_path):
    (tmp_path / "work" / "own.h").write_text('#define OWN "included"\n')
    code = '#include <stdio.h>\n#include <stdlib.h>\n#include <unistd.h>\n#include "own.h"\n' \
           'int main(void) { char b[999]; printf("%s|%s|%s|%s|%d", getcwd(b, 999), OWN, getenv("GIVEN"),' \
           ' getenv("CELL") ? getenv("CELL") : "none", getchar()); return 0; }'
    kernel = make("c")
    assert kernel.run(code, {"CELL": "only $this"}).out.decode() == f"{tmp_path}/work|included|g|only $this|-1"
    assert kernel.run(code).out.decode() == f"{tmp_path}/work|included|g|none|-1"
    os.unlink(tmp_path / "work" / "own.h")


def test_descriptors(make):
    cell = make("perl").run('opendir my $d, "/proc/self/fd"; print join " ", sort grep { /\\d/ } readdir $d;')
    assert cell.out == b"0 1 2 3"  # the directory itself


@pytest.mark.parametrize("code, name", [
    ("#include <stdlib.h>\nint main(void) { abort(); }", "SIGABRT"),
    ("int main(void) { *(volatile int *)0 = 1; }", "SIGSEGV"),
    ("#include <signal.h>\nint main(void) { raise(SIGKILL); }", "SIGKILL"),
    ("#include <signal.h>\nint main(void) { raise(SIGPIPE); }", "SIGPIPE"),
])
def test_death_by_signal(make, code, name):
    error = make("c").run(code).error
    assert (error["name"], error["message"]) == ("Signal", f"the program was ended by {name}")


def test_an_exit_code_that_looks_like_a_signal(make):
    assert make("c").run("int main(void) { return 139; }").error["message"] == "the program ended with status 139"


def test_warnings_are_for_stderr(make):
    cell = make("c").run("#warning take care\nint main(void) { return 0; }")
    assert cell.error is None and b"take care" in cell.err


def test_what_the_linker_says(make):
    error = make("c").run("void no_such_function(void);\nint main(void) { no_such_function(); }").error
    assert error["name"] == "CompileError" and "no_such_function" in error["message"]


def test_a_compiler_that_says_too_much(make):
    error = make("c").run("\n".join(f"int f{i}(void) {{ return x{i} + \"\t\\\"'\xff\"; }}" for i in range(500))).error
    assert error["name"] == "CompileError" and len(error["traceback"]) == 100
    assert max(len(line) for line in error["traceback"]) <= 500


def test_bytes_and_much_output(make):
    cell = make("perl").run('binmode STDOUT; print "a\\0b\\xff"; print "x" x 5000000')
    assert cell.out[:4] == b"a\0b\xff" and len(cell.out) == 5000004


def test_interrupt(make):
    kernel = make("perl")
    kernel.begin('$| = 1; print "up"; sleep 300;')
    kernel.wait_for_output(b"up")
    kernel.interrupt()
    assert kernel.finish().error["name"] == "Interrupted"
    kernel.interrupt()
    time.sleep(0.2)
    assert kernel.run('print "on"').out == b"on"


def test_interrupted_compiler(make):
    kernel = make("cpp")
    kernel.begin("template <int N> struct S : S<N - 1>, S<N - 2> {};\n#include <regex>\n#include <iostream>\n"
                 + "\n".join(f"std::regex r{i}(\"a{i}\");" for i in range(3000)) + "\nint main() {}")
    time.sleep(1)
    kernel.interrupt()
    assert kernel.finish().error["name"] in ("Interrupted", "CompileError")
    assert kernel.run("int main() {}").error is None


@pytest.mark.parametrize("language", [needs("java")])
def test_java_classes(make, language):
    kernel = make(language)
    code = 'package a.b;\nrecord P(int x) {}\npublic class Main2 {\n  public static void main(String... a) { System.out.print(new P(3)); }\n}'
    assert kernel.run(code).out == b"P[x=3]"
    code = 'class Helper {}\nclass Other { public static void main(String[] a) { System.out.print("other"); } }\nclass Last {}'
    assert kernel.run(code).out == b"other"


@pytest.mark.parametrize("language", [needs("php")])
def test_php_without_its_mark(make, language):
    assert make(language).run('echo 1 + 1;').out == b"2"


def test_what_a_killed_kernel_left_is_removed(make, tmp_path):
    kernel = make("perl")
    old = tmp_path / "tmp" / ".cay-once.4194304999.abc"
    old.mkdir()
    (old / "main.pl").write_text("x")
    assert kernel.run("1").error is None
    assert not old.exists()


def test_a_full_disk(make):
    kernel = make("perl")
    kernel.open("perl", "/", {"TMPDIR": "/no/such/place"})
    assert "/no/such/place" in kernel.run("print 1").error["message"]
