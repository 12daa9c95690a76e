// SPDX-License-Identifier: Apache-2.0
// What Cloudflare's container takes and ignores, or does wrong: here it is done.

import assert from "node:assert/strict";
import { before, test } from "node:test";
import { CodeInterpreter } from "@cloudflare/sandbox";
import { Events, eventually, fails, gather, killBox, newClient, newSandbox, post, textOf, until } from "./kit.mjs";

const S = "main";
let client;

before(async () => {
  client = await newClient();
  await client.processes.startProcess("true", S, { processId: "tidy", autoCleanup: true });
});

function run(command, session = S, options = undefined) {
  return client.commands.execute(command, session, options);
}

// Whether a command with this word in it runs in the sandbox.
async function runs(word) {
  const pattern = `[${word[0]}]${word.slice(1)}`;
  return (await run(`pgrep -f '${pattern}' > /dev/null && echo yes || echo no`, "looks")).stdout === "yes";
}

test("a timeout in a session ends the command, and the session goes on", async () => {
  await run("export KEPT=1");
  await fails(run("sleep 611", S, { timeoutMs: 200 }), "CommandError", "COMMAND_EXECUTION_ERROR", 500);
  assert.equal((await run("echo $KEPT")).stdout, "1");
  assert.equal(await runs("sleep 611"), false);
});

test("a timeout of a stream ends the command, and the stream says so", async () => {
  for (const session of [S, "__DISABLE_SESSION__"]) {
    const stream = await client.commands.executeStream("echo a; sleep 612", session, { timeoutMs: 400 });
    const events = await gather(stream);
    assert.equal(textOf(events), "a\n");
    const last = events.at(-1);
    assert.ok(last.type === "error" || (last.type === "complete" && last.exitCode === 124), JSON.stringify(events));
    assert.equal(await runs("sleep 612"), false);
  }
});

test("a stream that is cancelled ends its command", async () => {
  for (const session of [S, "__DISABLE_SESSION__"]) {
    const stream = await client.commands.executeStream("echo a; sleep 613", session);
    await until(stream, (event) => event.type === "stdout");
    await eventually(async () => !(await runs("sleep 613")));
  }
  assert.equal((await run("echo fine")).stdout, "fine");
});

test("an exec whose client goes away ends", async () => {
  const controller = new AbortController();
  const body = JSON.stringify({ command: "touch /workspace/begun; sleep 614", sessionId: "given-up" });
  const headers = { "Content-Type": "application/json" };
  const request = fetch(`${client.baseUrl}/api/execute`, { method: "POST", headers, body, signal: controller.signal });
  await eventually(() => runs("sleep 614"));
  controller.abort();
  await assert.rejects(request);
  await eventually(async () => !(await runs("sleep 614")));
});

test("a process in a session has its timeout", async () => {
  await client.processes.startProcess("sleep 615", S, { processId: "timed", timeoutMs: 200 });
  const events = await gather(await client.processes.streamProcessLogs("timed"));
  assert.equal(events.at(-1).type, "exit");
  assert.notEqual((await client.processes.getProcess("timed")).process.status, "running");
  assert.equal(await runs("sleep 615"), false);
});

test("a process of a session is not the default session's", async () => {
  const sandbox = newSandbox();
  const session = await sandbox.createSession({ id: "own", cwd: "/tmp", env: { OWN: "1" } });
  const process = await session.startProcess("pwd; echo $OWN");
  await process.waitForExit();
  assert.deepEqual((await process.getLogs()).stdout, "/tmp\n1\n");
});

test("encoding: base64 gives logs as bytes", async () => {
  await client.processes.startProcess("printf '\\377\\0'", S, { processId: "bytes", encoding: "base64" });
  await gather(await client.processes.streamProcessLogs("bytes"));
  assert.equal((await client.processes.getProcessLogs("bytes")).stdout, "/wA=");
});

test("a signal that is asked for is sent", async () => {
  // Their client drops it, so by hand.
  const trap = "trap 'echo got-int; exit 5' INT; echo ready; while :; do sleep 0.01; done";
  await client.processes.startProcess(trap, S, { processId: "trapped" });
  await eventually(async () => (await client.processes.getProcessLogs("trapped")).stdout.includes("ready"));
  const { status } = await post(client, "/api/process/trapped?signal=SIGINT", "", "DELETE");
  assert.equal(status, 200);
  const events = await gather(await client.processes.streamProcessLogs("trapped"));
  assert.deepEqual([textOf(events).includes("got-int"), events.at(-1).exitCode], [true, 5]);
});

test("a kill reaches grandchildren that were given away", async () => {
  await client.processes.startProcess("setsid sleep 616 & disown; sleep 616", S, { processId: "family" });
  await eventually(() => runs("sleep 616"));
  await client.processes.killProcess("family");
  await eventually(async () => !(await runs("sleep 616")));
});

test("a context has its directory and variables", async () => {
  await run("mkdir -p /workspace/ctx");
  const code = new CodeInterpreter(client.interpreter);
  const context = await code.createCodeContext({ language: "python", cwd: "/workspace/ctx", envVars: { STAGE: "dev" } });
  assert.equal(context.cwd, "/workspace/ctx");
  const shown = await code.runCode("import os\nprint(os.getcwd(), os.environ['STAGE'])", { context });
  assert.equal(shown.logs.stdout.join(""), "/workspace/ctx dev\n");
});

test("a cell has its timeout", async () => {
  const context = await client.interpreter.createCodeContext({ language: "python" });
  let error;
  await client.interpreter.runCodeStream(context.id, "import time\ntime.sleep(617)", "python", { onError: (e) => (error = e) }, 300);
  assert.match(`${error.name} ${error.message}`, /tim(ed |e)out/i);
});

test("a cell whose reader goes away is interrupted", async () => {
  const context = await client.interpreter.createCodeContext({ language: "python" });
  const stream = await client.interpreter.streamCode(context.id, "print('on', flush=True)\nimport time\ntime.sleep(618)");
  await until(stream, (event) => event.type === "stdout");
  const next = await gather(await client.interpreter.streamCode(context.id, "print('free')"));
  assert.equal(textOf(next), "free\n");
});

test("ping and the commands answer as their client expects", async () => {
  assert.equal(await client.utils.ping(), "pong");
  assert.ok((await client.utils.getCommands()).length > 10);
});

test("a stream that was cut never reads as complete", async () => {
  const victim = await newClient();
  const sleep = `sleep 619.${process.pid}`;
  const stream = new Events(await victim.commands.executeStream(`echo a; ${sleep}`, S));
  await stream.until((event) => event.type === "stdout");
  await killBox(sleep);
  const events = await stream.all().catch((error) => [{ type: "cut", error }]);
  assert.ok(!events.some((event) => event.type === "complete" && event.exitCode === 0), JSON.stringify(events));
});

test("an error in a stream brings its message", async () => {
  const victim = newSandbox();
  await victim.exec("true");
  const heard = [];
  const running = victim.exec("echo a; sleep 620", { stream: true, timeout: 300, onOutput: (_, data) => heard.push(data) });
  const outcome = await running.then(
    (result) => result,
    (error) => error,
  );
  if (outcome instanceof Error) assert.match(outcome.message, /tim(ed |e)out/i);
  else assert.deepEqual([outcome.success, outcome.exitCode], [false, 124]);
});

test("autoCleanup forgets a process when it is over", async () => {
  // The first that was started here: it is kept for a while, for those who want its logs.
  await eventually(async () => !(await client.processes.listProcesses()).processes.some((one) => one.id === "tidy"));
});
