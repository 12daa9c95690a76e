// SPDX-License-Identifier: Apache-2.0
// What leads out of a sandbox and into it: ports, terminals, git.
import assert from 'node:assert/strict';
import http from 'node:http';
import test from 'node:test';
import { ConnectionError, GitError } from '@cay/sandbox';
import { makeSandbox, Proxy } from './helper.js';

const sandbox = makeSandbox({ network: { allow: ['127.0.0.2:*'] } });

// The address of a preview is below localhost, which leads here without a name server.
function fetchPreview(address: string): Promise<string> {
  const url = new URL(address);
  return new Promise((resolve, reject) => {
    http.get({ host: '127.0.0.1', port: url.port, path: url.pathname, headers: { host: url.host }, agent: false }, (answer) => {
      let text = '';
      answer.on('data', (chunk) => { text += chunk; }).on('end', () => resolve(text));
    }).on('error', reject);
  });
}

test('a port gets an address', async () => {
  await sandbox.writeFile('public/index.html', 'hello from inside');
  const server = await sandbox.startProcess('python3 -m http.server 3100 --bind 127.0.0.1', { cwd: 'public' });
  await server.waitForPort(3100);
  const exposed = await sandbox.exposePort(3100, { name: 'web', hostname: 'ignored.example.com' });
  assert.deepEqual([exposed.port, exposed.name, exposed.status], [3100, 'web', 'active']);
  assert.equal(await fetchPreview(exposed.url), 'hello from inside');
  assert.deepEqual((await sandbox.getExposedPorts()).map(({ url }) => url), [exposed.url]);
  assert.equal(await sandbox.validatePortToken(3100, exposed.token), true);
  assert.equal(await sandbox.validatePortToken(3100, 'nonsense'), false);
  await sandbox.unexposePort(3100);
  await sandbox.unexposePort(3100);
  assert.equal(await sandbox.isPortExposed(3100), false);
});

test('a terminal', async () => {
  const address = await sandbox.terminal({ session: 'pair', cols: 100, rows: 30 });
  assert.match(address.url, /^ws:\/\/.*\/terminal\?session=pair&cols=100&rows=30$|^ws:\/\/.*session=pair/);
  assert.ok(!address.url.includes(process.env['CAY_TOKEN'] as string));
  const terminal = await address.connect();
  terminal.write('stty size; exit 6\r');
  let text = '';
  for await (const bytes of terminal) text += new TextDecoder().decode(bytes);
  assert.match(text, /30 100/);
  assert.equal((await terminal.exited).code, 6);
});

test('a terminal whose program was killed says by what', async () => {
  const terminal = await (await sandbox.terminal({ session: 'killed', command: 'kill -KILL $$' })).connect();
  const { code, signal }: { code: number; signal?: string } = await terminal.exited;
  assert.deepEqual([code, signal], [137, 'SIGKILL']);
});

test('a terminal whose connection breaks says so, and can be come back to', async () => {
  const terminal = await (await sandbox.terminal({ session: 'back' })).connect();
  terminal.write('echo o""ne\r');
  let text = '';
  for await (const bytes of terminal) {
    text += new TextDecoder().decode(bytes);
    if (text.includes('one')) break;
  }
  const again = await (await sandbox.terminal({ session: 'back', resume: terminal.process, offset: terminal.offset })).connect();
  terminal.close();
  again.resize(90, 20);
  again.write('stty size; exit\r');
  let rest = '';
  again.onData((bytes) => { rest += new TextDecoder().decode(bytes); });
  await again.exited;
  assert.match(rest, /20 90/);
  assert.ok(!rest.includes('one\r'), rest);
  const proxy = await Proxy.start(); // which knows no WebSockets
  const broken = makeSandbox({ url: proxy.url });
  await assert.rejects((await broken.terminal()).connect(), ConnectionError);
  await assert.rejects((await broken.terminal()).connect(null as never), ConnectionError);
});

test('git: clone, change, difference, commit', async () => {
  const cloned = await sandbox.gitCheckout(process.env['REPO_URL'] as string, { targetDir: '/workspace/repo', depth: 1 });
  assert.deepEqual([cloned.success, cloned.branch, cloned.targetDir], [true, 'main', '/workspace/repo']);
  await sandbox.writeFile('repo/README.md', 'changed\n');
  const status = await sandbox.gitStatus('repo');
  assert.deepEqual([status.clean, status.files.map(({ path, status: how }) => [path, how])], [false, [['README.md', 'modified']]]);
  assert.match((await sandbox.gitDiff('repo')).diff, /\+changed/);
  const { commit } = await sandbox.gitCommit('repo', 'Change it', { author: { name: 'Ada', email: 'ada@example.com' } });
  assert.equal((await sandbox.exec('git log -1 --format=%H/%an', { cwd: 'repo' })).stdout, `${commit}/Ada\n`);
  const second = await sandbox.gitCheckout(process.env['REPO_URL'] as string, '/workspace/second');
  assert.equal(second.targetDir, '/workspace/second');
});

test('git that cannot', async () => {
  const closed = makeSandbox();
  await assert.rejects(closed.gitCheckout(process.env['REPO_URL'] as string), (error: unknown) => error instanceof GitError && error.code === 'GIT_NETWORK_DENIED');
  const wrong = (process.env['REPO_URL'] as string).replace('project', 'nothing');
  await assert.rejects(sandbox.gitCheckout(wrong), (error: unknown) => error instanceof GitError && error.status === 404);
});
