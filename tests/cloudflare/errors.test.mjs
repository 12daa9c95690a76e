// SPDX-License-Identifier: Apache-2.0
// Errors: each class that the server can be the cause of, and bodies that no client of theirs would send.

import assert from "node:assert/strict";
import { before, test } from "node:test";
import { SandboxClient } from "@cloudflare/sandbox";
import { cay, eventually, fails, killBox, newClient, newId, post } from "./kit.mjs";

const S = "main";
let client;
let files;

before(async () => {
  client = await newClient();
  files = client.files;
  await client.commands.execute("mkdir -p /workspace/dir; echo 1 > /workspace/file; ln -s loop /workspace/loop", S);
});

test("FileNotFoundError", async () => {
  const error = await fails(files.readFile("/workspace/none", S), "FileNotFoundError", "FILE_NOT_FOUND", 404);
  assert.equal(error.path, "/workspace/none");
  assert.match(error.message, /not found/);
  assert.equal(JSON.parse(JSON.stringify(error)).code, "FILE_NOT_FOUND");
});

test("FileExistsError", async () => {
  await fails(files.mkdir("/workspace/dir", S), "FileExistsError", "FILE_EXISTS", 409);
});

test("FileSystemError: of directories and files in each other's place", async () => {
  await fails(files.readFile("/workspace/dir", S), "FileSystemError", "IS_DIRECTORY", 400);
  await fails(files.writeFile("/workspace/dir", "x", S), "FileSystemError", "IS_DIRECTORY", 400);
  await fails(files.writeFile("/workspace/file/below", "x", S), "FileSystemError", "NOT_DIRECTORY", 400);
});

test("FileSystemError: names too long, links in a circle", async () => {
  await fails(files.writeFile(`/workspace/${"x".repeat(300)}`, "x", S), "FileSystemError", "NAME_TOO_LONG", 400);
  await fails(files.readFile("/workspace/loop", S), "FileSystemError", "FILESYSTEM_ERROR", 500);
});

test("FileSystemError: what is only read, what is in use", async () => {
  await fails(files.renameFile("/proc", "/workspace/proc", S), "FileSystemError", "RESOURCE_BUSY", 409);
  const fixed = "while read -r _ at _ how _; do [ -d $at ] && [[ $how == ro* ]] && echo $at; done < /proc/mounts | head -n 1";
  const { stdout } = await client.commands.execute(fixed, S);
  await fails(files.mkdir(`${stdout}/x`, S), "FileSystemError", "READ_ONLY", 403);
});

test("FileSystemError: the disk is full", async () => {
  const id = newId();
  await cay("PUT", `/sandbox/${id}`, { disk: "16m" });
  const small = await newClient(id);
  const text = "0123456789abcdef".repeat(1_500_000);
  await fails(small.files.writeFile("/workspace/big", text, S), "FileSystemError", "NO_SPACE", 500);
});

test("PermissionDeniedError", async () => {
  await fails(client.watch.watch({ path: "/etc" }), "PermissionDeniedError", "PERMISSION_DENIED", 403);
});

test("FileTooLargeError", async () => {
  await client.commands.execute("truncate -s 300M /workspace/huge", S);
  const error = await fails(files.readFile("/workspace/huge", S), "FileTooLargeError", "FILE_TOO_LARGE", 413);
  assert.equal(error.context.actualSize, 300 << 20);
  assert.ok(error.context.maxSize >= 32 << 20);
});

test("CommandError, CommandNotFoundError", async () => {
  await fails(client.commands.execute("sleep 600", S, { timeoutMs: 100 }), "CommandError", "COMMAND_EXECUTION_ERROR", 500);
  await client.processes.startProcess("true", S, { processId: "over" });
  await new Response(await client.processes.streamProcessLogs("over")).text();
  await fails(client.processes.killProcess("over"), "CommandNotFoundError", "COMMAND_NOT_FOUND", 404);
});

test("ProcessNotFoundError", async () => {
  await fails(client.processes.getProcess("none"), "ProcessNotFoundError", "PROCESS_NOT_FOUND", 404);
});

test("SessionAlreadyExistsError, SessionTerminatedError", async () => {
  await client.utils.createSession({ id: "twice" });
  await fails(client.utils.createSession({ id: "twice" }), "SessionAlreadyExistsError", "SESSION_ALREADY_EXISTS", 409);
  await fails(client.commands.execute("kill -9 $$", "twice"), "SessionTerminatedError", "SESSION_TERMINATED", 410);
});

test("SessionDestroyedError: deleted while its command runs", async () => {
  await client.utils.createSession({ id: "doomed" });
  const running = client.commands.execute("touch /workspace/doomed; sleep 600", "doomed");
  const failure = fails(running, "SessionDestroyedError", "SESSION_DESTROYED", 410);
  while (!(await files.exists("/workspace/doomed", S)).exists);
  await client.utils.deleteSession("doomed");
  assert.equal((await failure).sessionId, "doomed");
});

test("ContextNotFoundError", async () => {
  await fails(client.interpreter.deleteCodeContext("none"), "ContextNotFoundError", "CONTEXT_NOT_FOUND", 404);
});

test("InvalidPortError", async () => {
  for (const port of [0, 70000]) {
    const { status, json } = await post(client, "/api/port-watch", { port, mode: "tcp" });
    assert.equal(status, 400);
    assert.ok(["INVALID_PORT", "INVALID_PORT_NUMBER", "VALIDATION_FAILED"].includes(json.code), json.code);
  }
});

test("OperationInterruptedError: the box is gone, and the command with it; then it is there again", async () => {
  const victim = await newClient(newId(), { retryTimeoutMs: undefined }); // their own: 503 is tried again for two minutes
  await victim.commands.execute("true", S);
  const sleep = `sleep 600.${process.pid}`;
  const running = victim.commands.execute(`echo run >> runs; ${sleep}`, S);
  const failure = fails(running, "OperationInterruptedError", "OPERATION_INTERRUPTED", 409);
  await killBox(sleep);
  const { context } = await failure;
  assert.deepEqual([context.retryable, context.admitted, context.operation], [false, true, "command.execute"]);
  assert.equal((await victim.commands.execute("cat runs", S)).stdout, "run");
});

test("ContainerUnavailableError: the box is gone before the command began; tried again, it runs", async () => {
  for (const options of [{}, { retryTimeoutMs: undefined }]) {
    const victim = await newClient(newId(), options);
    const sleep = `sleep 601.${process.pid}`;
    const running = victim.commands.execute(`touch begun; ${sleep}`, S);
    const failure = fails(running, "OperationInterruptedError", "OPERATION_INTERRUPTED", 409);
    const begun = async () => (await victim.files.exists("/workspace/begun", S)).exists;
    await eventually(begun);
    const waiting = victim.commands.execute("echo run >> runs; cat runs", S);
    const end = waiting.then(({ stdout }) => stdout, (error) => [error.name, error.context.retryable]);
    await begun(); // by then the other has come, too
    await killBox(sleep);
    await failure;
    assert.deepEqual(await end, "retryTimeoutMs" in options ? "run" : ["ContainerUnavailableError", true]);
  }
});

test("SandboxError: a route that nobody has", async () => {
  const { status, json } = await post(client, "/api/nothing", {});
  assert.deepEqual([status, json.code], [404, "UNKNOWN_ERROR"]);
  assert.equal(json.httpStatus, 404);
});

test("an address that was revoked or made up opens nothing", async () => {
  const victim = await newClient();
  await victim.commands.execute("true", S);
  await cay("DELETE", `/sandbox/${victim.id}/container-urls/${victim.urlId}`);
  for (const baseUrl of [victim.baseUrl, `${client.baseUrl}x`]) {
    const revoked = new SandboxClient({ baseUrl, retryTimeoutMs: 0 });
    await assert.rejects(revoked.commands.execute("true", S), (error) => [401, 403, 404].includes(error.httpStatus));
  }
});

// Bodies as no client of theirs sends them. Each is refused by their kind of error, and the code is right.
const BODIES = [
  ["/api/execute", "{", 400],
  ["/api/execute", "[]", 400],
  ["/api/execute", {}, 400, "command"],
  ["/api/execute", { command: 7 }, 400, "command"],
  ["/api/execute", { command: "true", timeoutMs: "soon" }, 400, "timeoutMs"],
  ["/api/execute", { command: "true", env: { A: 1 } }, 400, "env"],
  ["/api/execute", { command: "true", env: [] }, 400, "env"],
  ["/api/execute", { command: "true", cwd: 1 }, 400, "cwd"],
  ["/api/execute", { command: "true", sessionId: {} }, 400, "sessionId"],
  ["/api/execute/stream", {}, 400, "command"],
  ["/api/read", {}, 400, "path"],
  ["/api/read", { path: "" }, 400, "path"],
  ["/api/read", { path: "a\0b" }, 400, "path"],
  ["/api/read", { path: "x".repeat(5000) }, 400, "path"],
  ["/api/read", { path: "/workspace/file", encoding: "rot13" }, 400, "encoding"],
  ["/api/write", { path: "/workspace/w" }, 400, "content"],
  ["/api/write", { path: "/workspace/w", content: 7 }, 400, "content"],
  ["/api/write", { path: "/workspace/w", content: "!", encoding: "base64" }, 400, "content"],
  ["/api/delete", {}, 400, "path"],
  ["/api/rename", { oldPath: "/workspace/file" }, 400, "newPath"],
  ["/api/move", { sourcePath: "/workspace/file" }, 400, "destinationPath"],
  ["/api/mkdir", { path: "/workspace/q", recursive: "yes" }, 400, "recursive"],
  ["/api/list-files", { path: "/workspace", options: { recursive: 1 } }, 400, "recursive"],
  ["/api/exists", { path: [] }, 400, "path"],
  ["/api/port-watch", { port: "x", mode: "tcp" }, 400, "port"],
  ["/api/port-watch", { port: 8080, mode: "udp" }, 400, "mode"],
  ["/api/process/start", {}, 400, "command"],
  ["/api/process/start", { command: "true", processId: 7 }, 400, "processId"],
  ["/api/git/checkout", {}, 400, "repoUrl"],
  ["/api/git/checkout", { repoUrl: "http://127.0.0.2:9/x.git", depth: "all" }, 400, "depth"],
  ["/api/session/create", { id: 7 }, 400, "id"],
  ["/api/session/create", { id: "s", env: "A=1" }, 400, "env"],
  ["/api/session/delete", {}, 400, "sessionId"],
  ["/api/contexts", { language: 7 }, 400, "language"],
  ["/api/execute/code", { code: 7 }, 400, "code"],
  ["/api/watch", {}, 400, "path"],
  ["/api/watch", { path: "/workspace", recursive: "no" }, 400, "recursive"],
  ["/api/watch", { path: "/workspace", include: "x" }, 400, "include"],
  ["/api/watch/check", { path: "/workspace", since: 7 }, 400, "since"],
  ["/api/backup/create", {}, 400, "dir"],
  ["/api/backup/restore", { dir: "/workspace" }, 400, "archivePath"],
];

test("bodies with fields missing and mistyped", async () => {
  const wrong = [];
  for (const [route, body, status, field] of BODIES) {
    const answer = await post(client, route, body);
    const { code, message, context, httpStatus, timestamp } = answer.json;
    const whole = typeof code === "string" && message && context && httpStatus === answer.status && timestamp;
    const named = !field || `${message} ${JSON.stringify(context)}`.includes(field);
    if (answer.status !== status || !whole || !named) wrong.push([route, body, answer.status, answer.json]);
  }
  assert.deepEqual(wrong, []);
});

test("a body that is too large", async () => {
  const long = client.commands.execute(`: ${"x".repeat(33 << 20)}`, S);
  await assert.rejects(long, (error) => error.httpStatus === 413 && error.context !== undefined);
  assert.equal((await client.commands.execute("echo fine", S)).stdout, "fine");
});

test("an archive that shall go to a bucket: 501, and why", async () => {
  const parts = [{ partNumber: 1, url: "https://example.com/p", offset: 0, size: 1 }];
  const upload = client.backup.uploadParts({ archivePath: "/var/backups/x.sqsh", parts }, S);
  await assert.rejects(upload, (error) => error.httpStatus === 501 && error.message.length > 20);
});
