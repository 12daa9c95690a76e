// SPDX-License-Identifier: Apache-2.0
import assert from 'node:assert/strict';
import test from 'node:test';
import { ContextDeadError, ContextNotFoundError, NotSupportedError } from '@cay/sandbox';
import type { CodeEvent } from '@cay/sandbox';
import { makeSandbox } from './helper.js';

const sandbox = makeSandbox();

test('code in a context: its value, what it wrote, what it remembers', async () => {
  const context = await sandbox.createCodeContext({ language: 'python', cwd: '/tmp', envVars: { STAGE: 'dev' } });
  assert.deepEqual([context.language, context.cwd, context.createdAt instanceof Date, context.status], ['python', '/tmp', true, 'idle']);
  const first = await sandbox.runCode('import os\nprint("hello")\nx = 6 * 7\n[x, os.getcwd(), os.environ["STAGE"]]', { context });
  assert.deepEqual(first.logs, { stdout: ['hello\n'], stderr: [] });
  assert.deepEqual([first.success, first.error, first.executionCount], [true, undefined, 1]);
  assert.deepEqual(first.results[0]?.json, [42, '/tmp', 'dev']);
  assert.deepEqual(first.results[0]?.formats().sort(), ['json', 'text']);
  assert.equal(JSON.stringify(first.results[0]).includes('formats'), false);
  assert.equal((await sandbox.runCode('x', { context: context.id })).results[0]?.text, '42');
  assert.ok((await sandbox.listCodeContexts()).some(({ id }) => id === context.id));
  await sandbox.deleteCodeContext(context);
  await assert.rejects(sandbox.runCode('x', { context }), ContextNotFoundError);
});

test('without a context the default one of a language', async () => {
  await sandbox.runCode('y = 1');
  assert.equal((await sandbox.runCode('y')).results[0]?.text, '1');
  assert.equal((await sandbox.runCode('const a: number = 2; a', { language: 'typescript' })).results[0]?.text, '2');
  assert.deepEqual((await sandbox.runCode('echo $A', { language: 'bash', env: { A: 'a' } })).logs.stdout, ['a\n']);
  await assert.rejects(sandbox.runCode('x', { language: 'ruby' }), NotSupportedError);
});

test('code that fails is a result', async () => {
  const { success, error, reason } = await sandbox.runCode('def f():\n    return 1 / 0\nf()');
  assert.deepEqual([success, error?.name, error?.message, error?.lineNumber, reason], [false, 'ZeroDivisionError', 'division by zero', 2, 'error']);
  assert.ok(error?.traceback.at(-1)?.includes('ZeroDivisionError'));
  const late = await sandbox.runCode('while True: pass', { timeout: 200 });
  assert.deepEqual([late.success, late.reason], [false, 'timeout']);
});

test('callbacks, as it happens', async () => {
  const told: string[] = [];
  const execution = await sandbox.runCode('import sys\nprint("out")\nprint("err", file=sys.stderr)\ndisplay("shown")\n1/0', {
    onStdout: ({ text }) => told.push(`out ${text}`),
    onStderr: ({ text }) => told.push(`err ${text}`),
    onResult: ({ type, text }) => told.push(`${type} ${text}`),
    onError: ({ name }) => told.push(name),
  });
  assert.deepEqual(told.sort(), ['ZeroDivisionError', "display 'shown'", 'err err\n', 'out out\n']);
  assert.deepEqual([execution.logs.stdout, execution.error?.name, execution.results[0]?.formats()], [['out\n'], 'ZeroDivisionError', ['text']]);
});

test('a stream of events', async () => {
  const events: CodeEvent[] = [];
  for await (const event of await sandbox.runCodeStream('print("a")\n{"k": 1}')) events.push(event);
  assert.deepEqual(events.map(({ type }) => type), ['start', 'stdout', 'result', 'execution_complete']);
  const [, , result, end] = events;
  assert.ok(result?.type === 'result' && (result.json as { k: number }).k === 1);
  assert.ok(end?.type === 'execution_complete' && end.success && typeof end.execution_count === 'number');
});

test('a signal, and leaving the stream, interrupt the code and keep its context', async () => {
  const context = await sandbox.createCodeContext();
  await sandbox.runCode('z = 5', { context });
  const stop = new AbortController();
  const running = sandbox.runCode('import time\nprint("begun")\ntime.sleep(600)', { context, signal: stop.signal, onStdout: () => stop.abort() });
  await assert.rejects(running, { name: 'AbortError' });
  for await (const event of await sandbox.runCodeStream('print("begun")\ntime.sleep(600)', { context })) if (event.type === 'stdout') break;
  assert.equal((await sandbox.runCode('z', { context })).results[0]?.text, '5');
});

test('a context that died says so until it is restarted', async () => {
  const context = await sandbox.createCodeContext();
  const end = await sandbox.runCode('import os\nos._exit(3)', { context });
  assert.deepEqual([end.success, end.reason, end.contextDied], [false, 'exit', true]);
  await assert.rejects(sandbox.runCode('1', { context }), ContextDeadError);
  assert.equal((await sandbox.restartCodeContext(context)).status, 'idle');
  assert.equal((await sandbox.runCode('1', { context })).executionCount, 1);
});
