// SPDX-License-Identifier: Apache-2.0
import assert from 'node:assert/strict';
import test from 'node:test';
import { ExecutionSession, parseSSEStream, SessionNotFoundError, SessionTerminatedError } from '@cay/sandbox';
import type { ExecEvent } from '@cay/sandbox';
import { makeSandbox } from './helper.js';

const sandbox = makeSandbox();

test('a command and its result', async () => {
  const result = await sandbox.exec('echo out; echo err >&2; exit 3', { env: { A: 'a' } });
  assert.equal(result.success, false);
  assert.equal(result.exitCode, 3);
  assert.equal(result.reason, 'exit');
  assert.equal(result.stdout, 'out\n');
  assert.equal(result.stderr, 'err\n');
  assert.equal(result.command, 'echo out; echo err >&2; exit 3');
  assert.equal(typeof result.duration, 'number');
  assert.ok(!Number.isNaN(Date.parse(result.timestamp)));
});

test('directory, variables, standard input, arguments without a shell', async () => {
  assert.equal((await sandbox.exec('pwd; echo $A; cat', { cwd: '/tmp', env: { A: 'a', B: undefined }, stdin: 'typed' })).stdout, '/tmp\na\ntyped');
  assert.equal((await sandbox.exec(['printf', '%s|', '$A', 'b c'])).stdout, '$A|b c|');
  assert.equal((await sandbox.exec('id -u', { user: 'user' })).stdout, '1000\n');
});

test('a timeout ends the command', async () => {
  const result = await sandbox.exec('sleep 600', { timeout: 200 });
  assert.deepEqual([result.success, result.exitCode, result.reason], [false, 124, 'timeout']);
});

test('output that is no text is exact when asked for', async () => {
  const command = "printf 'a\\377\\000b'";
  const text = await sandbox.exec(command);
  assert.equal(text.binary, true);
  assert.equal(text.stdout, 'a\uFFFD\u0000b');
  assert.deepEqual((await sandbox.exec(command, { encoding: 'bytes' })).stdout, new Uint8Array([97, 255, 0, 98]));
  assert.equal((await sandbox.exec(command, { encoding: 'base64' })).stdout, 'Yf8AYg==');
  assert.deepEqual((await sandbox.exec('printf x', { encoding: 'bytes' })).stdout, new Uint8Array([120]));
  const told = await sandbox.exec(command, { encoding: 'bytes', stream: true });
  assert.deepEqual(told.stdout, new Uint8Array([97, 255, 0, 98]));
});

test('output is told as it comes', async () => {
  const told: string[] = [];
  let completed = 0;
  const result = await sandbox.exec('echo one; echo two >&2', {
    onOutput: (stream, data) => told.push(`${stream}:${data}`),
    onComplete: ({ exitCode }) => { completed = exitCode + 1; },
  });
  assert.deepEqual(told.sort(), ['stderr:two\n', 'stdout:one\n']);
  assert.deepEqual([result.stdout, result.stderr, result.exitCode, completed], ['one\n', 'two\n', 0, 1]);
  assert.equal(result.command, 'echo one; echo two >&2');
});

test('a stream of events', async () => {
  const events: ExecEvent[] = [];
  for await (const event of await sandbox.execStream('echo one; exit 4')) events.push(event);
  assert.deepEqual(events.map(({ type }) => type), ['start', 'stdout', 'complete']);
  const [start, output, end] = events;
  assert.ok(start?.type === 'start' && start.command === 'echo one; exit 4' && start.processId !== undefined);
  assert.ok(output?.type === 'stdout' && output.data === 'one\n');
  assert.ok(end?.type === 'complete' && end.exitCode === 4 && !end.success);
});

test('a stream is a ReadableStream, and parseSSEStream takes it', async () => {
  const reader = (await sandbox.execStream('echo one')).getReader();
  const types: string[] = [];
  for (let next = await reader.read(); !next.done; next = await reader.read()) types.push(next.value.type);
  assert.deepEqual(types, ['start', 'stdout', 'complete']);
  const parsed: string[] = [];
  for await (const event of parseSSEStream<ExecEvent>(await sandbox.execStream('echo two'))) parsed.push(event.type);
  assert.deepEqual(parsed, ['start', 'stdout', 'complete']);
});

async function isGone(mark: string): Promise<boolean> {
  for (let i = 0; i < 600; i++) {
    if ((await sandbox.exec(`pgrep -f 'slee[p] ${mark}' || echo none`)).stdout === 'none\n') return true;
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
  return false;
}

test('a signal ends the command', async () => {
  const stop = new AbortController();
  const running = sandbox.exec('echo begun; sleep 4001', { signal: stop.signal, onOutput: () => stop.abort() });
  await assert.rejects(running, { name: 'AbortError' });
  assert.ok(await isGone('4001'));
  await assert.rejects(sandbox.exec('true', { signal: AbortSignal.abort() }), { name: 'AbortError' });
});

test('leaving a stream ends its command', async () => {
  for await (const event of await sandbox.execStream('echo begun; sleep 4002')) {
    if (event.type === 'stdout') break;
  }
  assert.ok(await isGone('4002'));
  const stream = await sandbox.execStream('echo begun; sleep 4003');
  await stream.cancel();
  assert.ok(await isGone('4003'));
});

test('calls without a session know nothing of each other', async () => {
  await sandbox.exec('cd /tmp; export A=1');
  assert.equal((await sandbox.exec('pwd; echo "[$A]"')).stdout, '/workspace\n[]\n');
});

test("a session by its id, as an object, or by its own methods", async () => {
  const session = await sandbox.createSession({ env: { STAGE: 'dev' } });
  await sandbox.exec('cd /tmp; export A=1', { session });
  assert.equal((await sandbox.exec('pwd; echo $A$STAGE', { session: session.id })).stdout, '/tmp\n1dev\n');
  assert.equal((await sandbox.exec('pwd', { sessionId: `${session}` })).stdout, '/tmp\n');
  const { kept } = JSON.parse(JSON.stringify({ kept: session })) as { kept: string };
  const same = await sandbox.getSession(kept);
  assert.ok(same instanceof ExecutionSession);
  const result = await same.exec('pwd');
  assert.deepEqual([result.stdout, result.sessionId], ['/tmp\n', session.id]);
  assert.ok((await sandbox.listSessions()).some(({ id, cwd }) => id === session.id && cwd === '/tmp'));
  await sandbox.deleteSession(session);
  await assert.rejects(same.exec('true'), SessionNotFoundError);
});

test("in a session relative paths begin in its directory, and processes do", async () => {
  const session = await sandbox.createSession({ cwd: '/tmp' });
  await session.writeFile('there.txt', 'x');
  assert.equal(await sandbox.readFile('/tmp/there.txt'), 'x');
  const process = await session.startProcess('pwd');
  await process.waitForExit();
  assert.equal((await process.getLogs()).stdout, '/tmp\n');
});

test('output of a session can be told, too', async () => {
  const session = await sandbox.createSession({ commandTimeoutMs: 60_000 });
  const told: string[] = [];
  const result = await session.exec('echo x; cd /tmp', { onOutput: (_, data) => told.push(data) });
  assert.deepEqual([told, result.stdout], [['x\n'], 'x\n']);
  const types: string[] = [];
  for await (const event of await session.execStream('pwd')) types.push(event.type === 'stdout' ? event.data : event.type);
  assert.deepEqual(types, ['start', '/tmp\n', 'complete']);
});

test('that there was more than is kept is said, also where output is told', async () => {
  const session = await sandbox.createSession();
  const result = await session.exec('head -c 17000000 /dev/zero', { encoding: 'bytes', stream: true });
  assert.deepEqual([result.truncated, result.stdout.length, result.limitsHit], [true, 16 << 20, ['output']]);
});

test('a signal ends a command in a session, and the session goes on', async () => {
  const session = await sandbox.createSession();
  await session.exec('cd /tmp');
  const stop = new AbortController();
  const running = session.exec('echo x > begun; sleep 4004', { signal: stop.signal });
  while (!(await sandbox.exists('/tmp/begun')).exists);
  stop.abort();
  await assert.rejects(running, { name: 'AbortError' });
  assert.ok(await isGone('4004'));
  assert.equal((await session.exec('pwd')).stdout, '/tmp\n');
});

test('a command that ends its shell is an error of its own, and the next one has a new shell', async () => {
  const session = await sandbox.createSession();
  await assert.rejects(session.exec('echo bye; exit 7'), (error: unknown) => {
    assert.ok(error instanceof SessionTerminatedError);
    assert.deepEqual([error.exitCode, error.result['stdout'], error.status, error.code], [7, 'bye\n', 410, 'SESSION_TERMINATED']);
    return true;
  });
  assert.equal((await session.exec('echo hello')).stdout, 'hello\n');
});

test('with a default session calls share a shell; it is made anew with the sandbox', async () => {
  const shared = makeSandbox({ enableDefaultSession: true });
  await shared.exec('cd /tmp; export A=1');
  assert.equal((await shared.exec('pwd; echo $A')).stdout, '/tmp\n1\n');
  await shared.setEnvVars({ B: "it's", A: undefined });
  assert.equal((await shared.exec('echo "[$A]$B"')).stdout, "[]it's\n");
  await (await import('@cay/sandbox')).getSandbox(shared.id).destroy();
  assert.equal((await shared.exec('pwd')).stdout, '/workspace\n');
});

test('variables reach what is started beside the default session, too', async () => {
  const shared = makeSandbox({ enableDefaultSession: true });
  await shared.setEnvVars({ A: '1', B: '2' });
  const process = await shared.startProcess('echo $A$B', { env: { B: '3' } });
  await process.waitForExit();
  assert.equal((await process.getLogs()).stdout, '13\n');
  assert.equal((await shared.runCode('import os\nos.environ["A"] + os.environ["B"]', { env: { B: '3' } })).results[0]?.text, "'13'");
  const context = await shared.createCodeContext({ env: { B: '4' } });
  assert.equal((await shared.runCode('import os\nos.environ["A"] + os.environ["B"]', { context })).results[0]?.text, "'14'");
});

test('variables for all that is started from now on', async () => {
  const own = makeSandbox();
  await own.setEnvVars({ A: '1', B: '2' });
  assert.equal((await own.exec('echo $A$B$C', { env: { B: '3' } })).stdout, '13\n');
  await own.setEnvVars({ A: undefined, C: '4' });
  assert.equal((await own.exec('echo $A$B$C')).stdout, '24\n');
  const session = await own.createSession();
  assert.equal((await session.exec('echo $B$C')).stdout, '24\n');
  await session.setEnvVars({ B: '$x "y"' });
  assert.equal((await session.exec('echo $B')).stdout, '$x "y"\n');
});
