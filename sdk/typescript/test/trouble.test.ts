// SPDX-License-Identifier: Apache-2.0
// Networks that break, servers that are full: what is done twice, what never is, and what is never taken for complete.
import assert from 'node:assert/strict';
import test from 'node:test';
import { ConnectionError, FileNotFoundError, getSandbox, RateLimitedError, StreamInterruptedError, UnauthorizedError, UnavailableError } from '@cay/sandbox';
import type { Sandbox } from '@cay/sandbox';
import { makeSandbox, Proxy } from './helper.js';

async function behindProxy(): Promise<{ proxy: Proxy; sandbox: Sandbox }> {
  const proxy = await Proxy.start();
  const sandbox = makeSandbox({ url: proxy.url });
  await sandbox.exec('true');
  proxy.seen.length = 0;
  return { proxy, sandbox };
}

const LINES = Array.from({ length: 2000 }, (_, i) => `line ${i}\n`).join('');
const PRINT_LINES = 'for i in $(seq 0 1999); do echo "line $i"; done';

test('a command whose answer is lost is not run again', async () => {
  const { proxy, sandbox } = await behindProxy();
  proxy.decide = (request, count) => (request.path.endsWith('/exec') && count === 0 ? 'lose' : 'pass');
  const result = await sandbox.exec('echo run >> runs; cat runs');
  assert.equal(result.stdout, 'run\n');
  assert.equal(proxy.count('POST', '/exec'), 2);
  const [first, second] = proxy.seen;
  assert.ok(first?.headers['idempotency-key'] !== undefined && first.headers['idempotency-key'] === second?.headers['idempotency-key']);
});

test('a command that still runs when its connection breaks is waited for', async () => {
  const { proxy, sandbox } = await behindProxy();
  const running = sandbox.exec('echo run >> runs; until [ -e go ]; do sleep 0.05; done; cat runs');
  while (!(await getSandbox(sandbox.id).exists('runs')).exists);
  proxy.hangUp();
  while (proxy.count('POST', '/exec') < 2) await new Promise((resolve) => setTimeout(resolve, 20));
  await sandbox.writeFile('go', '');
  assert.equal((await running).stdout, 'run\n');
  assert.equal((await sandbox.readFile('runs')), 'run\n');
});

test('the same for code, processes and contexts', async () => {
  const { proxy, sandbox } = await behindProxy();
  proxy.decide = (request, count) => (request.method === 'POST' && count === 0 ? 'lose' : 'pass');
  assert.equal((await sandbox.runCode('n = globals().get("n", 0) + 1\nn')).results[0]?.text, '1');
  await sandbox.createCodeContext({ language: 'bash' });
  assert.equal((await sandbox.listCodeContexts()).filter(({ isDefault }) => !isDefault).length, 1);
  const process = await sandbox.startProcess('echo x >> started; sleep 600');
  assert.equal((await sandbox.listProcesses()).length, 1);
  await process.kill('SIGKILL').catch(() => {});
  assert.equal(await sandbox.readFile('started'), 'x\n');
});

test('what is not safe twice is not sent twice', async () => {
  const { proxy, sandbox } = await behindProxy();
  await sandbox.writeFile('a', 'a');
  proxy.decide = () => 'lose';
  proxy.seen.length = 0;
  await assert.rejects(sandbox.moveFile('a', 'b'), (error: unknown) => error instanceof ConnectionError && error.code === 'CONNECTION_BROKEN');
  await assert.rejects(sandbox.snapshot(), ConnectionError);
  assert.equal(proxy.seen.length, 2);
  proxy.decide = () => 'pass';
  assert.equal(await sandbox.readFile('b'), 'a');
  assert.equal((await sandbox.listSnapshots()).length, 1);
});

test('a server that is full is asked again, and after a while no more', async () => {
  const { proxy, sandbox } = await behindProxy();
  const full = { status: 503, headers: { 'retry-after': '0' }, body: { error: 'full', error_code: 'UNAVAILABLE', request_id: 'r-1' } };
  proxy.decide = (_, count) => (count < 3 ? full : 'pass');
  assert.equal((await sandbox.exec('echo done')).stdout, 'done\n');
  await sandbox.mkdir('made', { recursive: true });
  assert.equal(proxy.count('POST', '/exec') + proxy.count('POST', '/files:mkdir'), 8);
  proxy.decide = () => full;
  const impatient = getSandbox(sandbox.id, { url: proxy.url, retries: 2 });
  proxy.seen.length = 0;
  await assert.rejects(impatient.exec('true'), (error: unknown) => {
    assert.ok(error instanceof UnavailableError);
    assert.deepEqual([error.status, error.retryable, error.requestId, error.message], [503, true, 'r-1', 'full']);
    return true;
  });
  assert.equal(proxy.seen.length, 3);
});

test('what a server that is full may have done is not asked for again', async () => {
  const { proxy, sandbox } = await behindProxy();
  await sandbox.writeFile('a', 'a');
  for (const code of ['UNAVAILABLE', 'STORE_UNAVAILABLE']) {
    const full = { status: 503, headers: { 'retry-after': '0' }, body: { error: 'full', error_code: code } };
    proxy.seen.length = 0;
    proxy.decide = (_, count) => (count === 0 ? full : 'pass');
    await assert.rejects(sandbox.moveFile('a', 'b'), UnavailableError);
    await assert.rejects(sandbox.copyFile('a', 'b', { replace: false }), UnavailableError);
    await assert.rejects(sandbox.mkdir('b'), UnavailableError);
    await assert.rejects(sandbox.writeFile('b', 'b', { ifNoneMatch: '*' }), UnavailableError);
    assert.equal(proxy.seen.length, 4);
    proxy.seen.length = 0;
    await sandbox.copyFile('a', 'c');
    await sandbox.deleteFile('c');
    await sandbox.exec('true');
    assert.equal(proxy.seen.length, 6);
  }
});

test('what is deleted while its connection breaks is deleted once', async () => {
  const { proxy, sandbox } = await behindProxy();
  await sandbox.writeFile('a', 'a');
  await sandbox.createSession({ id: 'work' });
  proxy.decide = (request, count) => (request.method === 'DELETE' && count === 0 ? 'lose' : 'pass');
  const { success, path } = await sandbox.deleteFile('a');
  assert.deepEqual([success, path], [true, '/workspace/a']);
  await sandbox.deleteSession('work');
  assert.equal(proxy.seen.filter(({ method }) => method === 'DELETE').length, 4);
  assert.deepEqual([await sandbox.readdir('.'), await sandbox.listSessions()], [[], []]);
  await assert.rejects(sandbox.deleteFile('a'), FileNotFoundError);
});

test('a server that wants to be left alone for long is', async () => {
  const { proxy, sandbox } = await behindProxy();
  proxy.decide = () => ({ status: 429, headers: { 'retry-after': '3600' }, body: { error: 'too many', error_code: 'RATE_LIMITED' } });
  await assert.rejects(sandbox.exec('true'), (error: unknown) => error instanceof RateLimitedError && error.retryAfter === 3600 && error.retryable);
  assert.equal(proxy.seen.length, 1);
});

test('a stream that breaks, again and again, is gone on with and whole', async () => {
  const { proxy, sandbox } = await behindProxy();
  proxy.decide = (request, count) => (request.path.endsWith('/exec') && count < 4 ? { cut: 4000 } : 'pass');
  let text = '';
  let starts = 0;
  let end: number | undefined;
  for await (const event of await sandbox.execStream(`echo run >> runs; ${PRINT_LINES}; exit 5`)) {
    if (event.type === 'start') starts++;
    if (event.type === 'stdout') text += event.data;
    if (event.type === 'complete') end = event.exitCode;
  }
  assert.equal(text, LINES);
  assert.deepEqual([starts, end], [1, 5]);
  assert.equal(await getSandbox(sandbox.id).readFile('runs'), 'run\n');
  const posts = proxy.seen.filter(({ path }) => path.endsWith('/exec'));
  assert.equal(posts.length, 5);
  assert.ok(posts.slice(1).every(({ headers }) => headers['last-event-id'] !== undefined));
});

test('a stream that breaks before its first event is begun once', async () => {
  const { proxy, sandbox } = await behindProxy();
  proxy.decide = (request, count) => (request.path.endsWith('/exec') && count === 0 ? { cut: 0 } : 'pass');
  assert.equal((await sandbox.exec('echo run >> runs; cat runs', { stream: true })).stdout, 'run\n');
});

test('the log of a process, over connections that break', async () => {
  const { proxy, sandbox } = await behindProxy();
  const process = await sandbox.startProcess(PRINT_LINES);
  await process.waitForExit();
  proxy.decide = (request, count) => (request.path.endsWith('/logs') && count < 3 ? { cut: 5000 } : 'pass');
  let text = '';
  const types = new Set<string>();
  for await (const event of await process.streamLogs()) {
    types.add(event.type);
    if (event.type === 'stdout') text += event.data;
  }
  assert.equal(text, LINES);
  assert.deepEqual([...types], ['stdout', 'exit']);
});

test('code as a stream, over connections that break', async () => {
  const { proxy, sandbox } = await behindProxy();
  proxy.decide = (request, count) => (request.path.endsWith('/code') && count < 3 ? { cut: 300 } : 'pass');
  const code = 'import sys\nn = globals().get("n", 0) + 1\nfor i in range(50):\n    print("line", i); sys.stdout.flush()\nn';
  const execution = await sandbox.runCode(code, { onStdout: () => {} });
  assert.equal(execution.logs.stdout.join(''), Array.from({ length: 50 }, (_, i) => `line ${i}\n`).join(''));
  assert.deepEqual([execution.results[0]?.text, execution.success, execution.executionCount], ['1', true, 1]);
});

test('a stream that cannot be gone on with throws, and what has come is not taken for all', async () => {
  const { proxy, sandbox: patient } = await behindProxy();
  const sandbox = getSandbox(patient.id, { url: proxy.url, retries: 1 });
  const types: string[] = [];
  await assert.rejects(async () => {
    for await (const event of await sandbox.execStream('echo one; sleep 600')) {
      types.push(event.type);
      if (event.type !== 'stdout') continue;
      proxy.decide = () => 'drop';
      proxy.hangUp();
    }
  }, (error: unknown) => error instanceof StreamInterruptedError && /not complete/.test(error.message));
  assert.deepEqual(types, ['start', 'stdout']);
  await assert.rejects(sandbox.exec('true', { stream: true }), ConnectionError);
});

test('the sandbox is destroyed under a stream: it throws, or tells how the command ended', async () => {
  const sandbox = makeSandbox();
  let last = '';
  try {
    for await (const event of await sandbox.execStream('echo begun; sleep 600')) {
      if (event.type === 'stdout') await getSandbox(sandbox.id).destroy();
      last = event.type === 'complete' ? `${event.type} ${event.success}` : event.type;
    }
  } catch (error) {
    assert.ok(error instanceof StreamInterruptedError, String(error));
    return;
  }
  assert.equal(last, 'complete false');
});

test('a watch that breaks throws', async () => {
  const { proxy, sandbox } = await behindProxy();
  proxy.decide = (request) => (request.path.includes('/watch') ? { cut: 150 } : 'pass');
  const watched = await sandbox.watch('/workspace');
  await sandbox.exec('for i in 1 2 3 4 5; do echo x > $i; done');
  await assert.rejects(async () => {
    for await (const event of watched) void event;
  }, StreamInterruptedError);
});

test('no server, a wrong token', async () => {
  const closed = await Proxy.start();
  await closed.close();
  const nobody = getSandbox('x', { url: closed.url, retries: 1 });
  await assert.rejects(nobody.exec('true'), (error: unknown) => {
    assert.ok(error instanceof ConnectionError);
    assert.deepEqual([error.status, error.code, error.retryable], [0, 'CONNECTION_FAILED', true]);
    assert.match(error.message, /cay serve/);
    return true;
  });
  await assert.rejects(getSandbox('x', { token: 'nonsense' }).exec('true'), UnauthorizedError);
});

test('a broken upload is not sent again by half', async () => {
  const { proxy, sandbox } = await behindProxy();
  await sandbox.writeFile('whole', 'old');
  const failing = new ReadableStream<Uint8Array>({
    start(controller) {
      controller.enqueue(new Uint8Array(1000));
    },
    pull(controller) {
      controller.error(new Error('the source is gone'));
    },
  });
  await assert.rejects(sandbox.writeFile('whole', failing));
  proxy.decide = (request, count) => (request.method === 'PUT' && count === 0 ? 'drop' : 'pass');
  assert.equal(await sandbox.readFile('whole'), 'old');
  await sandbox.writeFile('whole', 'new');
  assert.equal(await sandbox.readFile('whole'), 'new');
});
