# SPDX-License-Identifier: Apache-2.0
"""TypeScript in the Node kernel, with the tool that the build has, or Node's own."""

import os
import pathlib
import shutil
import subprocess

import pytest
from node_kernel import TOP, Kernel

pytestmark = pytest.mark.skipif(shutil.which("node") is None, reason="there is no node")


@pytest.fixture(name="tool", scope="module")
def the_tool(tmp_path_factory):
    """As the build has it, or fetched as the build would."""
    for build in ("build", "build-test"):
        made = TOP / build / "src" / "kernels" / "typescript-tool.js"
        if made.exists() and made.stat().st_size > 0:
            return made.read_bytes()
    folder = tmp_path_factory.mktemp("tool")
    files = [TOP / "kernels" / "node" / name for name in ("package.json", "package-lock.json")]
    subprocess.run([TOP / "scripts" / "typescript-tool", folder / "out.js", folder / "npm", *files], check=True)
    made = (folder / "out.js").read_bytes()
    if not made:
        pytest.skip("the tool cannot be fetched")
    return made


@pytest.fixture(name="kernel", scope="module")
def one_kernel(tool, tmp_path_factory):
    with Kernel("typescript", cwd=str(tmp_path_factory.mktemp("types")), tool=tool) as kernel:
        yield kernel


@pytest.mark.parametrize(
    "code, text",
    [
        ("const a1: number = 1; a1", "1"),
        ("interface I<T> { a: T }\nconst o1 = { a: 1 } satisfies I<number>; o1.a", "1"),
        ("type T1 = 'x' | 'y'; const t1: T1 = 'x'; t1", "'x'"),
        ("function id<T>(x: T): T { return x }\nid<number>(3) as unknown as number", "3"),
        ("const g1 = <T,>(q: T): T => q; g1<string>('s')!", "'s'"),
        ("enum Color { Red, Green = 5 }\nColor.Green", "5"),
        ("const enum CE { A = 'a' }\nCE.A", "'a'"),
        ("export enum E2 { A }\nE2[0]", "'A'"),
        ("namespace N1 { export const a = 1; export function f(): number { return a } }\nN1.f()", "1"),
        ("class P<T> { constructor(private readonly x: T, public y = 2) {} get(): T { return this.x } }\nnew P<string>('s').get()", "'s'"),
        ("abstract class Q { abstract m(): void; declare foo: string }\ntypeof Q", "'function'"),
        ("import type { X } from 'not-there'; import { type Stats, readFileSync } from 'fs'; typeof readFileSync", "'function'"),
        ("await Promise.resolve<number>(4)", "4"),
        ("declare const nowhere: number; 5", "5"),
        ("let n1: number = 'types are not checked' as any; n1", "'types are not checked'"),
        ("function over(a: string): string\nfunction over(a: number): string\nfunction over(a: any) { return typeof a }\nover(1)", "'number'"),
        ("for (const x of [1] as const) x", "1"),
        ("{a: 1}", "{ a: 1 }"),
    ],
)
def test_types_are_taken_out(kernel, code, text):
    assert kernel.run(code).text == text


def test_state_goes_over_cells(kernel):
    kernel.run("enum Kept { A = 7 }\ninterface Shape { n: number }\nclass Box { constructor(public s: Shape) {} }")
    assert kernel.run("const box: Box = new Box({n: Kept.A}); box.s.n").text == "7"
    assert kernel.run("const box: string = 'again'; box").text == "'again'"


@pytest.mark.parametrize(
    "code, name, line",
    [
        ("\n\nlet q: string = null.x", "TypeError", 3),
        ("enum L { A }\n\n\nthrow new Error('x')", "Error", 4),
        ("class W {\n  constructor(private a: number) {}\n  f(): never {\n    throw new Error('deep')\n  }\n}\nnew W(1).f()", "Error", 4),
        ("interface A {\n  a: string\n}\nconst y: number = ;", "SyntaxError", 4),
        ("enum M { A }\nlet bad: = 3", "SyntaxError", 2),
    ],
)
def test_lines_are_the_users(kernel, code, name, line):
    error = kernel.run(code).error
    assert (error["name"], error["lineNumber"]) == (name, line)
    shown = code.split("\n")[line - 1]
    assert shown in error["traceback"]


def test_decorators_are_refused_clearly(kernel):
    error = kernel.run("function log(v: any, c: any) { return v }\nclass D {\n  @log\n  m() { return 1 }\n}").error
    assert error["lineNumber"] == 3 and "decorators are not supported" in error["message"]


def test_without_a_tool(tmp_path):
    with Kernel(None) as kernel:
        kind, _, payload = kernel.open("typescript", str(tmp_path), {"PATH": os.environ["PATH"]})
        if kernel.ready[2]["stripsTypes"]:
            assert kind == "opened"
            assert kernel.run("enum A { B = 3 }\nconst a: A = A.B; a").text == "3"
            assert kernel.run("const b: number = 1; b").stderr == ""
        else:
            assert kind == "failed" and "TypeScript" in payload["message"]


def test_the_build_goes_on_without_npm(tmp_path):
    files = [TOP / "kernels" / "node" / name for name in ("package.json", "package-lock.json")]
    (tmp_path / "bin").mkdir()
    done = subprocess.run(
        ["/usr/bin/python3", TOP / "scripts" / "typescript-tool", tmp_path / "out.js", tmp_path / "npm", *files],
        env={"PATH": str(tmp_path / "bin")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0 and "npm" in done.stderr
    assert (tmp_path / "out.js").read_bytes() == b""


def test_the_lock_file_names_no_host():
    text = pathlib.Path(TOP / "kernels" / "node" / "package-lock.json").read_text()
    assert "resolved" not in text and "://" not in text
