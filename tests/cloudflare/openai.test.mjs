// SPDX-License-Identifier: Apache-2.0
// `@cloudflare/sandbox/openai`: the helpers for OpenAI's agents.

import assert from "node:assert/strict";
import { before, test } from "node:test";
import { Editor, Shell } from "@cloudflare/sandbox/openai";
import { newSandbox } from "./kit.mjs";

let sandbox;

before(() => {
  sandbox = newSandbox();
});

test("Shell runs commands one after another", async () => {
  const shell = new Shell(sandbox);
  const { output, providerData } = await shell.run({ commands: ["echo a > f; pwd", "cat f; (exit 3)"] });
  assert.deepEqual(providerData, { working_directory: "/workspace" });
  assert.deepEqual(output, [
    { command: "echo a > f; pwd", stdout: "/workspace", stderr: "", outcome: { type: "exit", exitCode: 0 } },
    { command: "cat f; (exit 3)", stdout: "a", stderr: "", outcome: { type: "exit", exitCode: 3 } },
  ]);
});

test("Shell stops at a timeout, and goes on afterwards", async () => {
  const shell = new Shell(sandbox);
  const { output } = await shell.run({ commands: ["sleep 600", "echo never"], timeoutMs: 200 });
  assert.deepEqual(output.map((one) => one.outcome), [{ type: "timeout" }]);
  const next = await shell.run({ commands: ["echo again"], timeoutMs: 60_000 });
  assert.equal(next.output[0].stdout, "again");
});

test("Editor creates, updates and deletes", async () => {
  const editor = new Editor(sandbox);
  const created = await editor.createFile({ type: "create_file", path: "src/a.txt", diff: "+one\n+two\n" });
  assert.equal(created.status, "completed");
  assert.equal((await sandbox.readFile("/workspace/src/a.txt")).content.trimEnd(), "one\ntwo");
  const updated = await editor.updateFile({ type: "update_file", path: "src/a.txt", diff: "@@\n one\n-two\n+three\n" });
  assert.equal(updated.status, "completed");
  assert.equal((await sandbox.readFile("/workspace/src/a.txt")).content.trimEnd(), "one\nthree");
  await editor.deleteFile({ type: "delete_file", path: "src/a.txt" });
  assert.equal((await sandbox.exists("/workspace/src/a.txt")).exists, false);
  const missing = editor.updateFile({ type: "update_file", path: "none.txt", diff: "@@\n-a\n+b\n" });
  await assert.rejects(missing, /Cannot update missing file: none.txt/);
  await assert.rejects(editor.createFile({ type: "create_file", path: "../../etc/x", diff: "+x\n" }), /outside workspace/);
});
