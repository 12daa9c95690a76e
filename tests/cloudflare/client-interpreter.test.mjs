// SPDX-License-Identifier: Apache-2.0
// interpreter.* of the low-level client, and CodeInterpreter over it.

import assert from "node:assert/strict";
import { before, test } from "node:test";
import { CodeInterpreter } from "@cloudflare/sandbox";
import { Events, fails, gather, newClient, post, textOf } from "./kit.mjs";

const PLOT = `
import matplotlib.pyplot as plt
plt.plot([1, 2, 3])
plt.show()
`;
const FRAME = `
import pandas as pd
pd.DataFrame({"a": [1, 2]})
`;
let client;
let code;

before(async () => {
  client = await newClient();
  code = new CodeInterpreter(client.interpreter);
});

test("health", async () => {
  const { status, json } = await post(client, "/api/interpreter/health", "", "GET");
  assert.deepEqual([status, json.success, json.status], [200, true, "healthy"]);
});

test("contexts: made, listed, deleted", async () => {
  const made = await client.interpreter.createCodeContext({ language: "python" });
  assert.deepEqual([made.language, made.cwd], ["python", "/workspace"]);
  assert.ok(made.createdAt instanceof Date && !Number.isNaN(made.createdAt.getTime()));
  const listed = (await client.interpreter.listCodeContexts()).find((context) => context.id === made.id);
  assert.deepEqual([listed.language, listed.cwd], ["python", "/workspace"]);
  await client.interpreter.deleteCodeContext(made.id);
  assert.ok(!(await client.interpreter.listCodeContexts()).some((context) => context.id === made.id));
  const gone = await fails(client.interpreter.deleteCodeContext(made.id), "ContextNotFoundError", "CONTEXT_NOT_FOUND", 404);
  assert.equal(gone.contextId, made.id);
  await fails(client.interpreter.streamCode(made.id, "1"), "ContextNotFoundError", "CONTEXT_NOT_FOUND", 404);
});

test("python: what it prints, what it is, what it remembers", async () => {
  const context = await code.createCodeContext({ language: "python" });
  const first = await code.runCode("import sys\nx = 6 * 7\nprint('out')\nprint('err', file=sys.stderr)\nx", { context });
  assert.deepEqual([first.logs.stdout.join(""), first.logs.stderr.join("")], ["out\n", "err\n"]);
  assert.deepEqual([first.error, first.results.length, first.results[0].text], [undefined, 1, "42"]);
  assert.deepEqual(first.results[0].formats(), ["text"]);
  assert.equal((await code.runCode("x + 1", { context })).results[0].text, "43");
});

test("python: an error has its name, message and traceback", async () => {
  const { error } = await code.runCode("def f():\n    return 1 / 0\nf()", { language: "python" });
  assert.deepEqual([error.name, error.message], ["ZeroDivisionError", "division by zero"]);
  assert.match(error.traceback.join("\n"), /1 \/ 0/);
});

test("python: rich results", async () => {
  const [plot, frame, json] = [
    await code.runCode(PLOT, { language: "python" }),
    await code.runCode(FRAME, { language: "python" }),
    await code.runCode('{"a": [1, {"b": None}]}', { language: "python" }),
  ];
  const png = plot.results.find((result) => result.png).png;
  assert.equal(Buffer.from(png, "base64").subarray(1, 4).toString(), "PNG");
  const table = frame.results.find((result) => result.html);
  assert.match(table.html, /<table/);
  assert.deepEqual(json.results.find((result) => result.json).json, { a: [1, { b: null }] });
});

test("python: displayed html, markdown, latex, svg, javascript", async () => {
  const shown = await code.runCode(
    `from IPython.display import display, HTML, Markdown, Latex, SVG, Javascript
display(HTML("<b>h</b>"), Markdown("**m**"), Latex("$l$"), SVG("<svg xmlns='http://www.w3.org/2000/svg'/>"), Javascript("j()"))`,
    { language: "python" },
  );
  assert.equal(shown.error, undefined, JSON.stringify(shown.error));
  const formats = new Set(shown.results.flatMap((result) => result.formats()));
  for (const format of ["html", "markdown", "latex", "svg", "javascript"]) assert.ok(formats.has(format), `${format}: ${[...formats]}`);
});

test("javascript and typescript", async () => {
  const js = await code.runCode("const y = [1, 2].map((n) => n * 2); console.log('hm'); console.error('oh'); await Promise.resolve(y)", {
    language: "javascript",
  });
  assert.deepEqual([js.logs.stdout.join(""), js.logs.stderr.join("")], ["hm\n", "oh\n"]);
  assert.deepEqual(js.results[0].json ?? JSON.parse(js.results[0].text), [2, 4]);
  const bad = await code.runCode("null.x", { language: "javascript" });
  assert.equal(bad.error.name, "TypeError");
  const ts = await code.runCode("const n: number = 41; n + 1", { language: "typescript" });
  assert.equal(ts.error, undefined, JSON.stringify(ts.error));
  assert.equal(ts.results[0].text, "42");
});

test("callbacks as it comes", async () => {
  const seen = [];
  const execution = await code.runCode("print('a')\n7\n", {
    language: "python",
    onStdout: (output) => seen.push(["stdout", output.text]),
    onResult: (result) => seen.push(["result", result.text]),
    onError: (error) => seen.push(["error", error.name]),
  });
  assert.deepEqual(seen, [
    ["stdout", "a\n"],
    ["result", "7"],
  ]);
  assert.equal(execution.code, "print('a')\n7\n");
});

test("as a stream: output before the cell ends", async () => {
  const context = await code.createCodeContext({ language: "python" });
  const waits = "import os, time\nprint('begun', flush=True)\nwhile not os.path.exists('/workspace/go'): time.sleep(0.01)\nprint('over')\n5";
  const stream = new Events(await code.runCodeStream(waits, { context }));
  await stream.until((event) => event.type === "stdout" && event.text.includes("begun"));
  await client.commands.execute("touch /workspace/go", "main");
  const events = await stream.all();
  assert.equal(textOf(events), "begun\nover\n");
  const result = events.find((event) => event.type === "result");
  assert.equal(result.text, "5");
  assert.equal(events.at(-1).type, "execution_complete");
  assert.equal(typeof events.at(-1).execution_count, "number");
});

test("as a stream: an error", async () => {
  const events = await gather(await code.runCodeStream("raise ValueError('no')", { language: "python" }));
  const error = events.find((event) => event.type === "error");
  assert.deepEqual([error.ename, error.evalue], ["ValueError", "no"]);
  assert.ok(Array.isArray(error.traceback));
});

test("contexts are apart", async () => {
  const [a, b] = await Promise.all([code.createCodeContext({ language: "python" }), code.createCodeContext({ language: "python" })]);
  await code.runCode("mine = 1", { context: a });
  const other = await code.runCode("mine", { context: b });
  assert.equal(other.error.name, "NameError");
});

test("a language that nobody has is refused by the client, and by the server", async () => {
  await assert.rejects(code.createCodeContext({ language: "cobol" }), /Unsupported language/);
  const { status, json } = await post(client, "/api/contexts", { language: "cobol", cwd: "/workspace" });
  assert.equal(status, 400, JSON.stringify(json));
});
