# SPDX-License-Identifier: Apache-2.0
"""The Node kernel: errors with the user's lines, and interrupts."""

import shutil
import time

import pytest
from node_kernel import Kernel

pytestmark = pytest.mark.skipif(shutil.which("node") is None, reason="there is no node")


@pytest.fixture(name="kernel", scope="module")
def one_kernel(tmp_path_factory):
    with Kernel(cwd=str(tmp_path_factory.mktemp("node"))) as kernel:
        yield kernel


# -- errors


def test_the_traceback_shows_the_users_lines(kernel):
    error = kernel.run("function f() {\n  null.x\n}\n\nf()").error
    cell = kernel.cell
    assert (error["name"], error["lineNumber"]) == ("TypeError", 2)
    assert error["message"] == "Cannot read properties of null (reading 'x')"
    assert error["traceback"] == [
        f"cell {cell}:2",
        "  null.x",
        "       ^",
        "",
        "TypeError: Cannot read properties of null (reading 'x')",
        f"    at f (cell {cell}:2:8)",
        f"    at cell {cell}:5:1",
    ]


def test_a_function_of_an_earlier_cell(kernel):
    kernel.run("\n\nfunction earlier() { throw new RangeError('r') }")
    first = kernel.cell
    error = kernel.run("\nearlier()").error
    assert error["lineNumber"] == 2
    assert f"    at earlier (cell {first}:3:28)" in error["traceback"]


@pytest.mark.parametrize(
    "code, line",
    [
        ("let y = ;", 1),
        ("1\n2\nfunction (", 3),
        ("if (1) {\n\n", 3),
        ("`never ended\n\n", 3),
        ("a b", 1),
        ("const q = 1\n  'x' 'y'", 2),
        ("\n\n1 = 2", 3),
        ("import {a, from 'x'", 1),
        ("{a: 1, b: }", 1),
    ],
)
def test_syntax_errors_have_their_line(kernel, code, line):
    error = kernel.run(code).error
    assert (error["name"], error["lineNumber"]) == ("SyntaxError", line)
    assert error["traceback"][-1].startswith("SyntaxError: ")


def test_a_syntax_error_at_run_time_is_another_thing(kernel):
    error = kernel.run("1;\nJSON.parse('{')").error
    assert (error["name"], error["lineNumber"]) == ("SyntaxError", 2)


@pytest.mark.parametrize("code, message", [("throw 'text'", "'text'"), ("throw null", "null"), ("throw {a: 1}", "{ a: 1 }")])
def test_what_is_thrown_need_not_be_an_error(kernel, code, message):
    error = kernel.run(code).error
    assert (error["name"], error["message"], error["lineNumber"]) == ("Uncaught", message, None)


@pytest.mark.parametrize(
    "code",
    [
        "await null;\nthrow new Error('e')",
        "await new Promise(r => setTimeout(r, 5));\nthrow new Error('e')",
        "(async () => {\nthrow new Error('e') })()",
        "1;\nawait Promise.reject(new Error('e'))",
        "1;\nnew (class E2 extends Error { get message() { return 'e' } })().f()",
    ],
)
def test_errors_after_await(kernel, code):
    assert kernel.run(code).error["lineNumber"] == 2


def test_causes_and_properties_are_shown(kernel):
    lines = kernel.run("throw Object.assign(new Error('o', {cause: new Error('inner')}), {code: 'E'})").error["traceback"]
    assert any("[cause]: Error: inner" in line for line in lines) and any("code: 'E'" in line for line in lines)


def test_stacks_that_a_cell_prints_are_its_own(kernel):
    answer = kernel.run("console.error(new Error('x'))")
    assert answer.stderr == f"Error: x\n    at cell {kernel.cell}:1:15\n"


def test_hostile_errors(kernel):
    assert kernel.run("throw {get message() { throw 1 }, __proto__: Error.prototype}").error is not None
    assert kernel.run("throw new Proxy({}, {get() { throw 1 }})").error is not None
    assert len(kernel.run("throw new Error('x'.repeat(1e7))").error["message"]) < 100_000
    assert kernel.run("function deep() { deep() }\ndeep()").error["name"] == "RangeError"
    assert kernel.run("1").text == "1"


def test_what_nobody_catches_is_told_and_the_context_lives(kernel):
    answer = kernel.run("Promise.reject(new Error('lost')); 5")
    assert answer.text == "5" and "Uncaught Error: lost" in answer.stderr
    kernel.run("setTimeout(() => { throw new Error('later') }, 1)")
    answer = kernel.run("await new Promise(r => setTimeout(r, 100)); 6")
    assert answer.text == "6"
    assert kernel.run("process.nextTick(() => { throw new Error('tick') }); 7").error["message"] == "tick"
    assert kernel.run("require('events').EventEmitter.prototype.emit.call(process, 'x'); 8").text == "8"


def test_what_nobody_catches_ends_the_cell_that_waits_for_it(kernel):
    error = kernel.run("setTimeout(() => {\n  throw new Error('mine') }, 5);\nawait new Promise(r => setTimeout(r, 1e6))").error
    assert (error["message"], error["lineNumber"]) == ("mine", 2)


def test_a_cell_may_catch_what_nobody_catches(tmp_path):
    with Kernel(cwd=str(tmp_path)) as kernel:
        kernel.run("process.on('uncaughtException', e => console.log('caught', e.message))")
        answer = kernel.run("setTimeout(() => { throw new Error('u') }, 1); await new Promise(r => setTimeout(r, 50))")
        assert answer.stdout == "caught u\n"


# -- interrupts

STARTED = "console.log('started');"
ENDLESS = [
    STARTED + "while (true) {}",
    STARTED + "while (true) { try { while (true) {} } catch {} finally {} }",
    "await null;" + STARTED + "for (;;);",
    "process.nextTick(() => {" + STARTED + "for (;;); }); 1",
    STARTED + "await new Promise(r => setTimeout(r, 1e8))",
    "await new Promise(r => setTimeout(r, 20));" + STARTED + "for (;;);",
    "await new Promise(() => setTimeout(() => {" + STARTED + "for (;;); }, 20))",
    "await new Promise(() => setImmediate(() => Promise.resolve().then(() => {" + STARTED + "for (;;); })))",
    "await new Promise(r => require('fs').readFile('/dev/null', () => {" + STARTED + "for (;;); }))",
    STARTED + "Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0)",
    STARTED + "/(a+)+$/.test('a'.repeat(60) + 'b')",
    "({[require('util').inspect.custom]() {" + STARTED + "for (;;); }})",
    "process.on('SIGINT', () => {});" + STARTED + "for (;;);",
]


@pytest.mark.parametrize("code", ENDLESS)
def test_an_interrupt_ends_the_cell_and_leaves_the_state(tmp_path, code):
    with Kernel(cwd=str(tmp_path)) as kernel:
        kernel.run("let kept = 1")
        for _ in range(2):
            error = kernel.run_interrupted(code).error
            assert error["name"] == "Interrupted"
        assert kernel.run("kept").text == "1"
        assert kernel.run("await new Promise(r => setTimeout(r, 5)); 2").text == "2"


def test_an_interrupt_that_nobody_waits_for_is_ignored(tmp_path):
    with Kernel(cwd=str(tmp_path)) as kernel:
        for code in ("1", "await new Promise(r => setTimeout(r, 5))", "process.on('SIGINT', () => {}); process.removeAllListeners('SIGINT'); 1"):
            for _ in range(3):
                kernel.interrupt()
            time.sleep(0.1)
            assert kernel.run(code).error is None


def test_interrupts_at_any_moment(tmp_path):
    """Each cell ends one way or the other, and the kernel lives."""
    with Kernel(cwd=str(tmp_path)) as kernel:
        kernel.run("await new Promise(r => setTimeout(r, 5))")
        for i in range(150):
            kernel.begin("for (let i = 0; i < 2e4; i++) {}" if i % 2 else "await new Promise(r => setTimeout(r, 1)); [1, 2]")
            for _ in range(i % 4):
                kernel.interrupt()
            answer = kernel.end()
            assert answer.error is None or answer.error["name"] == "Interrupted"
        assert kernel.run("3").count == 152
