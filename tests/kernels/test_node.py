# SPDX-License-Identifier: Apache-2.0
"""The Node kernel: state, results, output, modules, and what a cell may do to the process it runs in."""

import base64
import os
import re
import select
import shutil
import time

import pytest
from node_kernel import Ended, Kernel

pytestmark = pytest.mark.skipif(shutil.which("node") is None, reason="there is no node")
PNG = base64.b64decode("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==")


@pytest.fixture(name="shared", scope="module")
def shared_kernel(tmp_path_factory):
    """One for cells that leave nothing behind."""
    with Kernel(cwd=str(tmp_path_factory.mktemp("node"))) as kernel:
        yield kernel


@pytest.fixture(name="kernel")
def own_kernel(tmp_path):
    with Kernel(cwd=str(tmp_path)) as kernel:
        yield kernel


def test_ready_says_what_it_is():
    with Kernel(language=None) as kernel:
        kind, cell, payload = kernel.ready
        assert (kind, cell, payload["language"]) == ("ready", 0, "javascript")
        assert re.fullmatch(r"\d+\.\d+\.\d+", payload["version"])
        assert isinstance(payload["stripsTypes"], bool)


# -- state


def test_state_stays(kernel):
    assert kernel.run("let a = 1; const b = {n: 2}; var c = 3; function f() { return a + b.n + c }").nothing
    assert kernel.run("a = 10; f()").text == "15"
    answer = kernel.run("class K { m() { return 7 } }\nnew K().m()")
    assert (answer.text, answer.count) == ("7", 3)


@pytest.mark.parametrize("first", ["const n = 1", "let n = 1", "var n = 1", "function n() {}", "class n {}"])
@pytest.mark.parametrize(
    "second",
    ["const n = 2; n", "let n = 2; n", "class n { static v = 2 }\nn.v", "function n() { return 2 }\nn()", "var n = 2; n"],
)
def test_a_later_cell_declares_a_name_again(kernel, first, second):
    assert kernel.run(first).nothing
    assert kernel.run(second).text == "2"
    assert kernel.run("typeof n").error is None


def test_a_name_twice_in_one_cell_is_an_error(shared):
    assert shared.run("let twice = 1; let twice = 2").error["name"] == "SyntaxError"


def test_a_failed_cell_leaves_the_state(kernel):
    kernel.run("let a = 1")
    assert kernel.run("a = 2; throw new Error('x')").error["message"] == "x"
    assert kernel.run("a").text == "2"


# -- results


@pytest.mark.parametrize(
    "code, text",
    [
        ("1 + 1", "2"),
        ("'a' + 'b'", "'ab'"),
        ("12n", "12n"),
        ("NaN", "NaN"),
        ("-0", "-0"),
        ("null", "null"),
        ("Symbol('q')", "Symbol(q)"),
        ("x => 1", "[Function (anonymous)]"),
        ("new Map([[1, 2]])", "Map(1) { 1 => 2 }"),
        ("if (true) 5", "5"),
        ("await 6", "6"),
        ("(async () => 7)()", "7"),
        ("await new Promise(r => setTimeout(() => r(8), 10))", "8"),
        ("for await (const x of [1]) x", "1"),
    ],
)
def test_the_last_expression_is_the_result(shared, code, text):
    assert shared.run(code).result == {"text": text}


@pytest.mark.parametrize("code", ["undefined", "var nothing1 = 1", "", "// only this", "void 0", "(async () => {})()"])
def test_no_value_no_result(shared, code):
    assert shared.run(code).nothing


@pytest.mark.parametrize(
    "code, value",
    [
        ("({a: [1, 'x', null, true]})", {"a": [1, "x", None, True]}),
        ("{a: 1}", {"a": 1}),
        ("[1.5, NaN, 1e20, 2**50]", [1.5, None, 1e20, 2**50]),
        ("({d: new Date(0), u: undefined})", {"d": "1970-01-01T00:00:00.000Z"}),
        ("[undefined, , 1]", [None, None, 1]),
        ("['\\ud800', '\\u{1f600}']", ["\ufffd", "\U0001f600"]),
        ("Object.assign(Object.create(null), {a: 1})", {"a": 1}),
    ],
)
def test_plain_objects_are_json_too(shared, code, value):
    result = shared.run(code).result
    assert result["json"] == value
    assert result["text"]


@pytest.mark.parametrize(
    "code",
    [
        "var round = {}; round.self = round; round",
        "[() => 1]",
        "[1n]",
        "({get a() { throw 1 }})",
        "new (class P { x = 1 })",
        "var deep = []; for (let i = 0; i < 5000; i++) deep = [deep]; deep",
        "new Proxy({}, {ownKeys() { throw 1 }})",
        "Array(3e6).fill(12345678)",
    ],
)
def test_what_is_not_plain_has_no_json(shared, code):
    assert set(shared.run(code).result) == {"text"}


def test_large_texts_are_cut(shared):
    text = shared.run("'x'.repeat(5e6)").text
    assert 1024 * 1024 <= len(text) < 1024 * 1024 + 100
    text = shared.run("({[require('util').inspect.custom]: () => 'y'.repeat(1e8)})").text
    assert text.endswith("[cut at 1 MiB]")


def test_a_value_that_cannot_be_shown(shared):
    assert "cannot be shown" in shared.run("({[require('util').inspect.custom]() { throw new Error('no') }})").text


def test_images_are_known_by_their_first_bytes(shared):
    result = shared.run(f"Buffer.from('{base64.b64encode(PNG).decode()}', 'base64')").result
    assert base64.b64decode(result["png"]) == PNG
    assert "jpeg" in shared.run("new Uint8Array([0xff, 0xd8, 0xff, 0xe0])").result


@pytest.mark.parametrize("name", ["[Symbol.for('cay.display')]", "[Symbol.for('Jupyter.display')]", "toMimeBundle"])
def test_a_value_may_say_what_it_looks_like(shared, name):
    code = "({%s() { return {'text/html': '<b>', 'application/x-own': {a: 1}} }})" % name
    result = shared.run(code).result
    assert result["html"] == "<b>" and result["data"] == {"application/x-own": {"a": 1}} and "text" in result
    assert shared.run("({async %s() { return {markdown: '# x', text: 't'} }})" % name).result == {"text": "t", "markdown": "# x"}


def test_display(shared):
    answer = shared.run(
        "display({html: '<i>', text: 't'}); display.markdown('# a'); display.svg('<svg/>');"
        "display.png('data:image/png;base64,AAAA'); display.json([1]); display([2]); display('s', 3); 4"
    )
    assert answer.displays == [
        {"html": "<i>", "text": "t"},
        {"markdown": "# a"},
        {"svg": "<svg/>"},
        {"png": "AAAA"},
        {"json": [1]},
        {"text": "[ 2 ]", "json": [2]},
        {"text": "'s'"},
        {"text": "3"},
    ]
    assert answer.text == "4"


def test_display_waits_for_the_daemon_and_keeps_order(shared):
    seen = []

    def on_display(kernel):
        kernel.settle()
        seen.append(kernel.streams["out"])

    shared.begin("console.log('before'); display.text('d'); console.log('after')")
    answer = shared.end(on_display)
    assert seen == [b"before\n"] and answer.out == b"before\nafter\n"


def test_a_display_that_is_too_large_is_left_out(shared):
    (shown,) = shared.run("display({html: 'x'.repeat(9 * 2 ** 20)})").displays
    assert set(shown) == {"text"} and "html" in shown["text"]


def test_bad_displays_are_the_cells_errors(shared):
    error = shared.run("1;\ndisplay({png: 'not base64!'})").error
    assert error["name"] == "TypeError" and error["lineNumber"] == 2


# -- output


def test_output_is_live_and_apart(shared):
    shared.begin("console.log('one'); console.error('two'); await new Promise(r => setTimeout(r, 300)); console.log('three')")
    shared.wait_for("one")
    assert b"three" not in shared.streams["out"]
    answer = shared.end()
    assert (answer.out, answer.err) == (b"one\nthree\n", b"two\n")


def test_ten_megabytes(shared):
    assert len(shared.run("for (let i = 0; i < 1e5; i++) console.log('x'.repeat(99))").out) == 10**7
    assert len(shared.run("process.stdout.write(Buffer.alloc(1e7, 120))").out) == 10**7


def test_output_is_whole_on_a_pipe_that_does_not_block(kernel):
    """A program that shares the pipe may have made it so."""
    assert kernel.run("require('child_process').spawnSync(process.execPath, ['-e', 'process.stdout.write(`hello`)'], {stdio: 'inherit'})").error is None
    os.set_blocking(os.open(f"/proc/{kernel.process.pid}/fd/1", os.O_WRONLY), False)
    assert len(kernel.run("for (let i = 0; i < 3000; i++) console.log('x'.repeat(999))").out) == 3 * 10**6


def test_timers_go_on_between_cells(kernel):
    kernel.run("globalThis.n = 0; setInterval(() => n++, 1)")
    deadline = time.monotonic() + 60
    while int(kernel.run("n").text) < 3:
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_a_server_answers_between_cells(kernel):
    kernel.run("const server = require('http').createServer((q, r) => r.end('hi')); await new Promise(r => server.listen(0, '127.0.0.1', r))")
    assert kernel.run("(await (await fetch('http://127.0.0.1:' + server.address().port)).text())").text == "'hi'"


# -- modules


def test_imports(kernel, tmp_path):
    (tmp_path / "own.mjs").write_text("export const a = 1; export default 'd'; export const stop = () => { throw new Error('in it') }")
    (tmp_path / "old.cjs").write_text("module.exports = {x: 5}; module.exports['y'] = 6")
    package = tmp_path / "node_modules" / "pack"
    package.mkdir(parents=True)
    (package / "package.json").write_text('{"name": "pack", "exports": {"import": "./m.mjs", "require": "./c.cjs"}}')
    (package / "m.mjs").write_text("export const kind = 'esm'")
    (package / "c.cjs").write_text("exports.kind = 'cjs'")
    assert kernel.run("import d, {a as b} from './own.mjs'\nd + b").text == "'d1'"
    assert kernel.run("import * as all from './own.mjs'; Object.keys(all).length").text == "3"
    assert kernel.run("import e, * as too from './own.mjs'; e + too.a").text == "'d1'"
    assert kernel.run("import {x} from './old.cjs'; x").text == "5"
    assert kernel.run("import './own.mjs'").nothing
    assert kernel.run("import { kind } from 'pack'; kind + require('pack').kind").text == "'esmcjs'"
    assert kernel.run("(await import('pack')).kind").text == "'esm'"
    assert kernel.run("require('./old.cjs').y").text == "6"
    assert kernel.run("import fs, { readFileSync } from 'node:fs'; fs.readFileSync === readFileSync").text == "true"
    assert kernel.run("import.meta.dirname").text == f"'{tmp_path}'"
    assert kernel.run("require.main === module").text == "true"
    (tmp_path / "d.json").write_text('{"j": 1}')
    assert kernel.run("require('./d.json').j").text == "1"


@pytest.mark.parametrize(
    "code, name, message",
    [
        ("\nimport x from 'no-such-package'", "Error", "Cannot find package 'no-such-package'"),
        ("\nimport { nope } from 'fs'", "SyntaxError", "does not provide an export named 'nope'"),
        ("\nrequire('./nowhere')", "Error", "Cannot find module './nowhere'"),
        ("\nawait import('./nowhere.mjs')", "Error", "Cannot find module"),
    ],
)
def test_modules_that_are_not_there(shared, code, name, message):
    error = shared.run(code).error
    assert error["name"] == name and message in error["message"] and error["lineNumber"] == 2


@pytest.mark.parametrize(
    "code, text",
    [
        ("`import x from 'y'`", "\"import x from 'y'\""),
        ("/import 'x'/.source", "\"import 'x'\""),
        ("// import 'x'\n/* export {} */ 1", "1"),
        ("({import: 1}).import", "1"),
        ("const s1 = 4; s1 / 2 // import 'x' /", "2"),
        ("`${await import('path').then(m => m.sep)}`", "'/'"),
        ("export const ex = 3; ex", "3"),
        ("export default function named() {}\nnamed.name", "'named'"),
        ("export default {a: 1}; module.exports.default.a", "1"),
        ("const li = 1; export { li }; 2", "2"),
        ("import {\n  sep,\n  // a comment, with from 'x'\n  posix as p\n} from 'path'; sep + typeof p", "'/object'"),
    ],
)
def test_words_that_are_imports_and_that_are_not(shared, code, text):
    assert shared.run(code).text == text


# -- the process


def test_open_replaces_the_environment(tmp_path):
    with Kernel(cwd=str(tmp_path), env={"ONE": "1=2", "EMPTY": ""}) as kernel:
        assert kernel.run("({...process.env})").result["json"] == {"ONE": "1=2", "EMPTY": ""}
        assert kernel.run("process.cwd()").text == f"'{tmp_path}'"


def test_a_directory_that_is_not_there_can_be_asked_again(tmp_path):
    with Kernel(language=None) as kernel:
        kind, _, payload = kernel.open("javascript", "/no/such", {})
        assert kind == "failed" and "/no/such" in payload["message"]
        assert kernel.open("javascript", str(tmp_path), {})[0] == "opened"
        assert kernel.run("1").text == "1"


def test_variables_of_one_cell(kernel):
    assert kernel.run("process.env.A + process.env.HOME", env={"A": "x", "HOME": "/h"}).text == "'x/h'"
    assert kernel.run("process.env.A + process.env.HOME").text == "'undefined/root'"


def test_the_directory_can_be_changed(kernel, tmp_path):
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "m.js").write_text("exports.v = 1")
    kernel.run("process.chdir('sub')")
    assert kernel.run("require('./m').v + (await import('./m.js')).v").text == "2"


@pytest.mark.parametrize("code", ["process.exit(3)", "await new Promise(r => setTimeout(r, 5)); process.exit(3)"])
def test_process_exit_ends_the_kernel(tmp_path, code):
    kernel = Kernel(cwd=str(tmp_path))
    kernel.begin("console.log('last words'); " + code)
    with pytest.raises(Ended):
        kernel.end()
    kernel.settle()
    assert kernel.streams["out"] == b"last words\n"
    assert kernel.close() == 3


def test_the_end_of_control_in_is_its_end(tmp_path):
    kernel = Kernel(cwd=str(tmp_path))
    kernel.run("setInterval(() => {}, 1000)")
    assert kernel.close() == 0


def test_programs_do_not_get_the_control_pipes(kernel):
    for call in ("spawnSync('ls', ['-l', '/proc/self/fd']).stdout", "execSync('ls -l /proc/self/fd')"):
        listing = kernel.run(f"String(require('child_process').{call})").text
        for fd in (kernel.control_in, kernel.control_out):
            assert os.readlink(f"/proc/self/fd/{fd}") not in listing


def test_there_is_no_input(shared):
    assert shared.run("let t = ''; for await (const c of process.stdin) t += c; t").text == "''"
    error = shared.run("await require('readline/promises').createInterface({input: process.stdin}).question('?')").error
    assert "never happen" in error["message"] or "closed" in error["message"]


def test_waiting_for_nothing_is_told(shared):
    assert "can never happen" in shared.run("await new Promise(() => {})").error["message"]
    assert shared.run("1").text == "1"


PATCHES = [
    "JSON.stringify = JSON.parse = null",
    "Buffer.from = Buffer.concat = Buffer.byteLength = null",
    "console = null",
    "process.stdout.write = null; process.stdout = null",
    "Promise.prototype.then = null",
    "require('fs').writeSync = require('fs').readSync = null",
    "Reflect.apply = Atomics.wait = null",
    "globalThis.Symbol = null",
    "Array.prototype.toJSON = () => 2",
    "process.removeAllListeners()",
    "Object.prototype.value = 3; Object.prototype.payload = 'x'",
    "Function.prototype.call = Function.prototype.bind = null",
    "Object.freeze(globalThis)",
]


@pytest.mark.parametrize("patch", PATCHES)
def test_replaced_builtins_do_not_break_the_protocol(kernel, patch):
    kernel.run(patch)
    assert kernel.run("2 + 2").text == "4"
    assert kernel.run("({a: ['x']})").result["json"] == {"a": ["x"]}
    assert kernel.run("throw new Error('mine')").error["message"] == "mine"
    assert kernel.run("display({html: 'h'})").displays == [{"html": "h"}]


@pytest.mark.parametrize("patch", ["Array.prototype.map = Array.prototype.push = null", "Error = null", "RegExp.prototype.exec = null"])
def test_worse_ones_are_told(kernel, patch):
    """A cell that breaks what everything is made of breaks what can be said, not the frames."""
    kernel.run(patch)
    assert kernel.run("throw new Error('mine')").count == 2
    assert kernel.run("undefined").nothing


def test_junk_on_the_streams_of_the_protocol_is_not_ours(kernel):
    """Bytes that a cell writes to its own standard streams never are frames."""
    answer = kernel.run("process.stdout.write('done 1 2\\n{}'); 1")
    assert answer.out == b"done 1 2\n{}" and answer.text == "1"


def test_large_cells(kernel):
    assert kernel.run("/*" + "x" * (3 * 2**20) + "*/ 5").text == "5"
    assert kernel.run("1").text == "1"


@pytest.mark.long
def test_many_cells_leave_no_memory(kernel):
    code = "({big: new Array(1e5).fill(0)})"
    for _ in range(30):
        kernel.run(code)
    before = int(kernel.run("gcless = process.memoryUsage().heapUsed").text)
    for _ in range(300):
        kernel.run(code)
    assert int(kernel.run("process.memoryUsage().heapUsed").text) - before < 150 * 2**20


def test_nothing_is_said_when_nothing_is_asked(kernel):
    kernel.run("Promise.resolve(1)")
    assert select.select([kernel.control_out], [], [], 0.2)[0] == []
