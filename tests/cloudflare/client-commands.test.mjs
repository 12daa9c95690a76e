// SPDX-License-Identifier: Apache-2.0
// utils.* and commands.* of the low-level client.

import assert from "node:assert/strict";
import { before, test } from "node:test";
import { Events, cay, eventually, fails, gather, newClient, newId, newTokenClient, textOf } from "./kit.mjs";

let client;

before(async () => {
  client = await newClient();
});

function run(command, session = "main", options = undefined) {
  return client.commands.execute(command, session, options);
}

test("a sandbox that nobody has made is there at once, with the internet", async () => {
  const id = newId();
  const fresh = newTokenClient(id);
  const result = await fresh.commands.execute("pwd", "first");
  assert.equal(result.stdout.trim(), "/workspace");
  const { status, json } = await cay("GET", `/sandbox/${id}`);
  assert.equal(status, 200);
  assert.equal(json.network, "internet");
});

test("utils: ping, version, commands", async () => {
  assert.equal(await client.utils.ping(), "pong");
  assert.match(await client.utils.getVersion(), /^\d+\.\d+\.\d+/);
  const commands = await client.utils.getCommands();
  assert.ok(commands.includes("bash") && commands.includes("ls"), String(commands.length));
});

test("a result has all its fields", async () => {
  const result = await run("echo out; echo err >&2");
  assert.deepEqual(
    { ...result, duration: 0, timestamp: "" },
    {
      success: true,
      exitCode: 0,
      stdout: "out",
      stderr: "err",
      command: "echo out; echo err >&2",
      duration: 0,
      timestamp: "",
      sessionId: "main",
    },
  );
  assert.equal(typeof result.duration, "number");
  assert.ok(!Number.isNaN(Date.parse(result.timestamp)));
});

test("a command that fails is no exception", async () => {
  const result = await run("(exit 7)");
  assert.deepEqual([result.success, result.exitCode], [false, 7]);
  const missing = await run("no-such-program-anywhere");
  assert.deepEqual([missing.success, missing.exitCode], [false, 127]);
  assert.match(missing.stderr, /not found/);
});

test("a session keeps directory, variables and functions; its options are for one command", async () => {
  await run("mkdir -p /workspace/deep && cd /workspace/deep && export KEPT=1 && f() { echo from-f; }");
  assert.equal((await run("pwd; echo $KEPT; f")).stdout, "/workspace/deep\n1\nfrom-f");
  const other = await run("pwd; echo $KEPT $EXTRA", "main", { cwd: "/tmp", env: { EXTRA: "2", KEPT: "3" }, origin: "user" });
  assert.equal(other.stdout, "/tmp\n3 2");
  assert.equal((await run("pwd; echo $KEPT-$EXTRA-")).stdout, "/workspace/deep\n1--");
  await run("cd /workspace");
});

test("in a session the last newline goes, without one everything stays", async () => {
  assert.equal((await run("printf 'a\\n\\n'")).stdout, "a\n");
  assert.equal((await run("printf 'a\\n\\n'", "__DISABLE_SESSION__")).stdout, "a\n\n");
  assert.equal((await run("printf 'a\\0b'", "__DISABLE_SESSION__")).stdout, "a\0b");
});

test("without a session nothing is left behind", async () => {
  const first = await run("cd /tmp; export GONE=1; pwd", "__DISABLE_SESSION__");
  assert.equal(first.stdout, "/tmp\n");
  const second = await run("pwd; echo -$GONE-", "__DISABLE_SESSION__", { env: { X: "1" } });
  assert.equal(second.stdout, "/workspace\n--\n");
});

test("standard input is empty", async () => {
  assert.equal((await run("cat; echo end")).stdout, "end");
  assert.equal((await run("cat; echo end", "__DISABLE_SESSION__")).stdout, "end\n");
});

test("megabytes of output, whole", async () => {
  for (const session of ["main", "__DISABLE_SESSION__"]) {
    const result = await run("head -c 3000000 /dev/zero | tr '\\0' x; head -c 70000 /dev/zero | tr '\\0' y >&2", session);
    assert.equal(result.stdout, "x".repeat(3_000_000));
    assert.equal(result.stderr, "y".repeat(70_000));
  }
});

test("characters of several bytes", async () => {
  assert.equal((await run("echo 'grüße, 世界 🏝'")).stdout, "grüße, 世界 🏝");
});

test("sessions: made, found, deleted", async () => {
  const made = await client.utils.createSession({ id: "own", env: { A: "b c" }, cwd: "/tmp" });
  assert.equal(made.success, true);
  assert.notEqual(made.containerPlacementId, undefined);
  assert.equal((await run("pwd; echo $A", "own")).stdout, "/tmp\nb c");
  const error = await fails(client.utils.createSession({ id: "own" }), "SessionAlreadyExistsError", "SESSION_ALREADY_EXISTS", 409);
  assert.equal(error.sessionId, "own");
  assert.equal(error.containerPlacementId, made.containerPlacementId);
  const deleted = await client.utils.deleteSession("own");
  assert.deepEqual([deleted.success, deleted.sessionId], [true, "own"]);
  assert.equal((await run("pwd; echo -$A-", "own")).stdout, "/workspace\n--"); // a new one
  const unknown = await fails(client.utils.deleteSession("never-seen"), "SandboxError", "INTERNAL_ERROR", 500);
  assert.match(unknown.message, /never-seen/);
});

test("a session of its own is made with an id", async () => {
  const made = await client.utils.createSession({});
  assert.equal(made.success, true);
});

test("sessions run side by side, commands of one in order", async () => {
  const blocked = run("until [ -e /workspace/released ]; do sleep 0.01; done; echo first", "one");
  const queued = run("echo second >> /workspace/order; cat /workspace/order", "one");
  await run("echo other >> /workspace/order; touch /workspace/released", "two");
  assert.equal((await blocked).stdout, "first");
  assert.equal((await queued).stdout, "other\nsecond");
});

test("a shell that ends: SessionTerminatedError, then a new one", async () => {
  await run("export LOST=1", "mortal");
  const error = await fails(run("exit 3", "mortal"), "SessionTerminatedError", "SESSION_TERMINATED", 410);
  assert.deepEqual([error.sessionId, error.exitCode], ["mortal", 3]);
  assert.equal((await run("echo -$LOST-", "mortal")).stdout, "--");
});

test("a timeout is an error in a session, and 124 without one", async () => {
  const error = await fails(run("sleep 600", "slow", { timeoutMs: 200 }), "CommandError", "COMMAND_EXECUTION_ERROR", 500);
  assert.match(error.message, /tim(ed |e)out/i);
  const result = await run("echo before; sleep 600", "__DISABLE_SESSION__", { timeoutMs: 500 });
  assert.deepEqual([result.success, result.exitCode], [false, 124]);
  assert.equal(result.stdout, "before\n");
  assert.match(result.stderr, /tim(ed |e)out/i);
});

test("commandTimeoutMs of a session is for all its commands", async () => {
  await client.utils.createSession({ id: "bounded", commandTimeoutMs: 300 });
  await fails(run("sleep 600", "bounded"), "CommandError", "COMMAND_EXECUTION_ERROR", 500);
  assert.equal((await run("echo fine", "bounded")).stdout, "fine");
});

async function streams(session) {
  const events = await gather(await client.commands.executeStream("echo out; echo err >&2; (exit 4)", session));
  assert.deepEqual([events[0].type, events.at(-1).type], ["start", "complete"]);
  assert.equal(events[0].command, "echo out; echo err >&2; (exit 4)");
  assert.equal(textOf(events), "out\n");
  assert.equal(textOf(events, "stderr"), "err\n");
  assert.equal(events.at(-1).exitCode, 4);
  for (const event of events) assert.ok(!Number.isNaN(Date.parse(event.timestamp)), JSON.stringify(event));
}

async function streamsLive(session, go) {
  const command = `echo one; until [ -e ${go} ]; do sleep 0.01; done; pwd; echo $A`;
  const stream = await client.commands.executeStream(command, session, { cwd: "/tmp", env: { A: "1" } });
  const events = new Events(stream);
  await events.until((event) => event.type === "stdout" && event.data.includes("one"));
  await run(`touch ${go}`, "other");
  assert.equal(textOf(await events.all()), "one\n/tmp\n1\n");
}

async function streamsMuch(session) {
  const command = "python3 -c \"import sys; sys.stdout.write('ä世🏝' * 120000)\"";
  assert.equal(textOf(await gather(await client.commands.executeStream(command, session))), "ä世🏝".repeat(120_000));
}

test("stream in a session", () => streams("stream"));
test("stream without a session", () => streams("__DISABLE_SESSION__"));
test("stream in a session: output comes while the command runs", () => streamsLive("stream", "/workspace/go-1"));
test("stream without a session: output comes while the command runs", () => streamsLive("__DISABLE_SESSION__", "/workspace/go-2"));
test("stream in a session: a megabyte, and characters cut nowhere", () => streamsMuch("stream"));
test("stream without a session: a megabyte, and characters cut nowhere", () => streamsMuch("__DISABLE_SESSION__"));

test("callbacks of the client", async () => {
  const seen = [];
  const watched = await newClient(client.id, {
    onCommandComplete: (...args) => seen.push(args),
    onError: (...args) => seen.push(args),
  });
  await watched.commands.execute("echo a", "main");
  await assert.rejects(watched.commands.execute("exit 1", "gone"));
  assert.deepEqual(seen[0], [true, 0, "a", "", "echo a"]);
  assert.ok(seen.length >= 2);
});

test("background: true starts a process", async () => {
  const response = await fetch(`${client.baseUrl}/api/execute`, {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify({ command: "echo later", sessionId: "main", background: true }),
  });
  const started = await response.json();
  assert.equal(response.status, 200, JSON.stringify(started));
  await eventually(async () => (await client.processes.getProcessLogs(started.processId)).stdout === "later\n");
});
