// SPDX-License-Identifier: Apache-2.0
// processes.* and ports.* of the low-level client.

import assert from "node:assert/strict";
import { before, test } from "node:test";
import { Events, eventually, fails, gather, newClient, post, textOf } from "./kit.mjs";

const S = "main";
const SERVE = "import http.server as h, sys\nh.HTTPServer(('127.0.0.1', int(sys.argv[1])), h.SimpleHTTPRequestHandler).serve_forever()";
let client;
let processes;

before(async () => {
  client = await newClient();
  processes = client.processes;
  await client.files.writeFile("/workspace/serve.py", SERVE, S);
});

async function ended(id) {
  const events = await gather(await processes.streamProcessLogs(id));
  assert.equal(events.at(-1).type, "exit", JSON.stringify(events));
  return events.at(-1).exitCode;
}

async function statusOf(id) {
  return (await processes.getProcess(id)).process.status;
}

test("start, look, read its logs", async () => {
  const started = await processes.startProcess("echo out; echo err >&2; exit 0", S, { processId: "one" });
  assert.deepEqual([started.success, started.processId, started.command], [true, "one", "echo out; echo err >&2; exit 0"]);
  assert.ok(started.pid > 0);
  assert.equal(await ended("one"), 0);
  const { process } = await processes.getProcess("one");
  assert.deepEqual([process.id, process.status, process.exitCode], ["one", "completed", 0]);
  assert.equal(process.command, "echo out; echo err >&2; exit 0");
  assert.ok(Date.parse(process.startTime) <= Date.parse(process.endTime));
  const logs = await processes.getProcessLogs("one");
  assert.deepEqual([logs.success, logs.processId, logs.stdout, logs.stderr], [true, "one", "out\n", "err\n"]);
});

test("a process without a name gets one", async () => {
  const started = await processes.startProcess("true", S);
  assert.ok(started.processId.length > 0);
  assert.equal(await ended(started.processId), 0);
});

test("cwd and env", async () => {
  await processes.startProcess("pwd; echo $A", S, { processId: "where", cwd: "/tmp", env: { A: "b" } });
  await ended("where");
  assert.equal((await processes.getProcessLogs("where")).stdout, "/tmp\nb\n");
});

test("a process has its session's directory and variables", async () => {
  await client.commands.execute("cd /tmp && export FROM=session", "parent");
  await processes.startProcess("pwd; echo $FROM", "parent", { processId: "child" });
  await ended("child");
  assert.equal((await processes.getProcessLogs("child")).stdout, "/tmp\nsession\n");
});

test("states: failed, killed", async () => {
  await processes.startProcess("exit 3", S, { processId: "bad" });
  assert.equal(await ended("bad"), 3);
  assert.equal(await statusOf("bad"), "failed");
  await processes.startProcess("sleep 600", S, { processId: "long" });
  assert.equal(await statusOf("long"), "running");
  const killed = await processes.killProcess("long");
  assert.deepEqual([killed.success, killed.processId], [true, "long"]);
  assert.equal(await ended("long"), 143);
  assert.equal(await statusOf("long"), "killed");
});

test("a killed one that is over: CommandNotFoundError", async () => {
  await processes.startProcess("true", S, { processId: "over" });
  await ended("over");
  await fails(processes.killProcess("over"), "CommandNotFoundError", "COMMAND_NOT_FOUND", 404);
});

test("the list, and of one state", async () => {
  await processes.startProcess("sleep 600", S, { processId: "listed" });
  const { processes: all } = await processes.listProcesses();
  const listed = all.find((process) => process.id === "listed");
  assert.deepEqual([listed.status, listed.command], ["running", "sleep 600"]);
  assert.ok(listed.pid > 0 && !Number.isNaN(Date.parse(listed.startTime)));
  const running = await post(client, "/api/process/list?status=running", "", "GET");
  assert.ok(running.json.processes.every((process) => process.status === "running"));
  assert.ok(running.json.processes.some((process) => process.id === "listed"));
  await processes.killProcess("listed");
});

test("logs as a stream: what was, what comes, the end", async () => {
  const command = "echo one; until [ -e /workspace/go ]; do sleep 0.01; done; echo two >&2; exit 5";
  await processes.startProcess(command, S, { processId: "told" });
  await eventually(async () => (await processes.getProcessLogs("told")).stdout === "one\n");
  const stream = new Events(await processes.streamProcessLogs("told"));
  const first = await stream.until((event) => event.type === "stdout");
  assert.deepEqual([first[0].type, first[0].processId, first[0].command, first[0].status], ["process_info", "told", command, "running"]);
  await client.commands.execute("touch /workspace/go", S);
  const events = await stream.all();
  assert.deepEqual([textOf(events), textOf(events, "stderr")], ["one\n", "two\n"]);
  assert.deepEqual([events.at(-1).type, events.at(-1).exitCode, events.at(-1).processId], ["exit", 5, "told"]);
  const again = await gather(await processes.streamProcessLogs("told")); // also when it is over
  assert.deepEqual([textOf(again), textOf(again, "stderr"), again.at(-1).exitCode], ["one\n", "two\n", 5]);
});

test("a log with a hole: the stream says what is missing, and goes on to the end", async () => {
  const size = 12_000_000;
  await processes.startProcess(`head -c ${size} /dev/zero | tr '\\0' x; exit 3`, S, { processId: "loud" });
  assert.equal(await ended("loud"), 3);
  const events = await gather(await processes.streamProcessLogs("loud"));
  const [hole, ...more] = events.filter((event) => event.type === "error");
  assert.deepEqual([more.length, hole.processId], [0, "loud"]);
  assert.equal(textOf(events).length + Number(/^(\d+) bytes of stdout were lost/.exec(hole.data)[1]), size);
  assert.deepEqual([events.at(-1).type, events.at(-1).exitCode, events.at(-1).truncated], ["exit", 3, true]);
});

test("kill all", async () => {
  for (const id of ["k1", "k2", "k3"]) await processes.startProcess("sleep 600", S, { processId: id });
  const { cleanedCount, success } = await processes.killAllProcesses();
  assert.deepEqual([success, cleanedCount], [true, 3]);
  for (const id of ["k1", "k2", "k3"]) assert.equal(await ended(id), 143);
});

test("what nobody has started: ProcessNotFoundError", async () => {
  for (const what of ["getProcess", "getProcessLogs", "streamProcessLogs", "killProcess"]) {
    const error = await fails(processes[what]("no"), "ProcessNotFoundError", "PROCESS_NOT_FOUND", 404);
    assert.equal(error.processId, "no");
  }
});

test("a process without a session", async () => {
  await processes.startProcess("pwd", "__DISABLE_SESSION__", { processId: "free" });
  await ended("free");
  assert.equal((await processes.getProcessLogs("free")).stdout, "/workspace\n");
});

test("port watch: ready by http and by tcp", async () => {
  await processes.startProcess("python3 serve.py 8123", S, { processId: "web" });
  const watch = (more) => client.ports.watchPort({ port: 8123, interval: 100, ...more });
  const http = await gather(await watch({ mode: "http", path: "/", statusMin: 200, statusMax: 399, processId: "web" }));
  assert.deepEqual([http[0].type, http[0].port], ["watching", 8123]);
  assert.deepEqual([http.at(-1).type, http.at(-1).port, http.at(-1).statusCode], ["ready", 8123, 200]);
  const tcp = await gather(await watch({ mode: "tcp" }));
  assert.equal(tcp.at(-1).type, "ready");
  const missing = await gather(await watch({ mode: "http", path: "/none", statusMin: 404, statusMax: 404 }));
  assert.deepEqual([missing.at(-1).type, missing.at(-1).statusCode], ["ready", 404]);
  await processes.killProcess("web");
});

test("port watch: waits for one that comes later", async () => {
  const stream = new Events(await client.ports.watchPort({ port: 8124, mode: "http", path: "/", interval: 100 }));
  await stream.until((event) => event.type === "watching");
  await processes.startProcess("python3 serve.py 8124", S, { processId: "late" });
  assert.equal((await stream.all()).at(-1).type, "ready");
  await processes.killProcess("late");
});

test("port watch: the process ends before", async () => {
  await processes.startProcess("exit 9", S, { processId: "early" });
  const events = await gather(await client.ports.watchPort({ port: 8125, mode: "tcp", processId: "early", interval: 100 }));
  assert.deepEqual([events.at(-1).type, events.at(-1).exitCode], ["process_exited", 9]);
});
