// SPDX-License-Identifier: Apache-2.0
// An id just works: the sandbox is made, found, or made again.
import assert from 'node:assert/strict';
import test from 'node:test';
import { ConflictError, getSandbox, listSandboxes, SandboxNotFoundError } from '@cay/sandbox';
import { makeSandbox, newId, Proxy } from './helper.js';

test('the first uses of an id share one PUT, and later ones need none', async () => {
  const proxy = await Proxy.start();
  const sandbox = makeSandbox({ url: proxy.url });
  const results = await Promise.all(Array.from({ length: 10 }, (_, i) => sandbox.exec(`echo ${i}`)));
  assert.deepEqual(results.map(({ stdout }) => stdout), Array.from({ length: 10 }, (_, i) => `${i}\n`));
  await sandbox.exec('true');
  assert.equal(proxy.count('PUT', `/sandbox/${sandbox.id}`), 1);
});

test('a namespace before the id is ignored', async () => {
  const id = newId();
  const sandbox = getSandbox({ any: 'binding' }, id, { labels: { from: 'a namespace' } });
  assert.equal(sandbox.id, id);
  await sandbox.exec('true');
  assert.deepEqual((await getSandbox(undefined, id).info()).labels, { from: 'a namespace' });
  await sandbox.destroy();
});

test('one that others made with other settings just works, and keeps them', async () => {
  const made = makeSandbox({ env: { COLOUR: 'blue' }, labels: { a: 'b' } });
  await made.exec('true');
  assert.equal((await getSandbox(made.id).exec('echo $COLOUR')).stdout, 'blue\n');
  assert.deepEqual((await made.info()).labels, { a: 'b' });
});

test('settings that are asked for are set on one that is there, and no others', async () => {
  const made = makeSandbox({ labels: { a: 'b' }, limits: { pids: 100 } });
  await made.exec('true');
  await getSandbox(made.id, { sleepAfter: '5m', keepAlive: true }).exec('true');
  const { sleepAfter, keepAlive, labels, limits } = await made.info();
  assert.deepEqual({ sleepAfter, keepAlive, labels, pids: limits.pids }, { sleepAfter: 300, keepAlive: true, labels: { a: 'b' }, pids: 100 });
});

test('what cannot be changed is a conflict that says so', async () => {
  const made = makeSandbox();
  await made.exec('true');
  const other = getSandbox(made.id, { ephemeral: true });
  await assert.rejects(other.exec('true'), (error: unknown) => error instanceof ConflictError && /exists with ephemeral false/.test(error.message));
});

test('one that somebody else destroys is made again, once for all who notice', async () => {
  const proxy = await Proxy.start();
  const sandbox = makeSandbox({ url: proxy.url });
  await sandbox.writeFile('a', 'a');
  await getSandbox(sandbox.id).destroy();
  const results = await Promise.all(Array.from({ length: 5 }, () => sandbox.exec('ls')));
  assert.deepEqual(results.map(({ stdout }) => stdout), ['', '', '', '', '']);
  assert.equal(proxy.count('PUT', `/sandbox/${sandbox.id}`), 2);
});

test('one that is made again has what was configured', async () => {
  const sandbox = makeSandbox({ labels: { a: 'b' }, limits: { pids: 100 } });
  await sandbox.configure({ labels: { c: 'd' }, sleepAfter: '5m', pids: undefined });
  await getSandbox(sandbox.id).destroy();
  await sandbox.exec('true');
  const { labels, sleepAfter, limits } = await sandbox.info();
  assert.deepEqual({ labels, sleepAfter, pids: limits.pids }, { labels: { c: 'd' }, sleepAfter: 300, pids: 100 });
});

test('destroying it again and again is fine, and the next use makes a new one', async () => {
  const sandbox = makeSandbox();
  await sandbox.writeFile('a', 'a');
  await Promise.all([sandbox.destroy(), sandbox.destroy()]);
  await sandbox.destroy();
  assert.deepEqual(await sandbox.readdir('/workspace'), []);
});

test('made while it is being destroyed: it is there in the end', async () => {
  const sandbox = makeSandbox();
  await sandbox.exec('true');
  const [, result] = await Promise.all([sandbox.destroy(), getSandbox(sandbox.id).exec('echo there')]);
  assert.ok(result.success || result.reason === 'box_lost' || result.reason === 'killed', result.reason);
  assert.equal((await getSandbox(sandbox.id).exec('echo again')).stdout, 'again\n');
});

test('looking at one that is not there makes none', async () => {
  const sandbox = makeSandbox();
  await assert.rejects(sandbox.info(), SandboxNotFoundError);
  await assert.rejects(sandbox.sleep(), SandboxNotFoundError);
  for await (const { id } of listSandboxes()) assert.notEqual(id, sandbox.id);
  assert.deepEqual(await sandbox.listProcesses(), []); // this one makes it
  assert.equal((await sandbox.info()).status, 'running');
});

test('ids and options that make no sense fail before anything is sent', () => {
  assert.throws(() => getSandbox('-x'), /no id of a sandbox/);
  assert.throws(() => getSandbox('a/b'), /no id of a sandbox/);
  assert.throws(() => getSandbox({} as never), /id of a sandbox is missing/);
  assert.throws(() => getSandbox('x', { sleepAftr: 1 } as never), /no option 'sleepAftr'/);
  assert.throws(() => getSandbox('x', { url: 'localhost' }), /no URL|must begin/);
  assert.equal(getSandbox('User-1', { normalizeId: true }).id, 'user-1');
  assert.equal(getSandbox(`session-${Date.now()}-${Math.random()}`).id.startsWith('session-'), true);
});
