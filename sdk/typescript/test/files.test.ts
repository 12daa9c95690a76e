// SPDX-License-Identifier: Apache-2.0
import assert from 'node:assert/strict';
import test from 'node:test';
import { ConflictError, FileExistsError, FileNotFoundError, IsDirectoryError, NotDirectoryError, PreconditionFailedError } from '@cay/sandbox';
import { makeSandbox, Proxy } from './helper.js';

const sandbox = makeSandbox();

test('a text goes in and comes out', async () => {
  const written = await sandbox.writeFile('/workspace/a/b/ä ö.txt', 'grüße\n');
  assert.deepEqual([written.success, written.path, written.size, written.created], [true, '/workspace/a/b/ä ö.txt', 8, true]);
  assert.equal(await sandbox.readFile('/workspace/a/b/ä ö.txt'), 'grüße\n');
  assert.equal(await sandbox.readFile('a//b/./../b/ä ö.txt'), 'grüße\n');
  await sandbox.writeFile('bom', '\uFEFFx');
  assert.equal(await sandbox.readFile('bom'), '\uFEFFx');
});

test('bytes, base64, blobs and streams', async () => {
  const bytes = Uint8Array.from({ length: 100_000 }, (_, i) => i % 251);
  await sandbox.writeFile('bytes', bytes);
  assert.deepEqual(await sandbox.readFile('bytes', { encoding: 'bytes' }), bytes);
  await sandbox.writeFile('copy', await sandbox.readFile('bytes', { encoding: 'base64' }), { encoding: 'base64' });
  assert.deepEqual(await sandbox.readFile('copy', { encoding: 'bytes' }), bytes);
  await sandbox.writeFile('blob', new Blob(['a', 'b']));
  assert.equal(await sandbox.readFile('blob'), 'ab');
  await sandbox.writeFile('piped', await sandbox.readFileStream('bytes'));
  assert.deepEqual(await sandbox.readFile('piped', { encoding: 'bytes' }), bytes);
  assert.deepEqual(await sandbox.readFile('bytes', { encoding: 'bytes', start: 10, end: 13 }), bytes.slice(10, 13));
  assert.deepEqual(await sandbox.readFile('bytes', { encoding: 'bytes', start: 99_999 }), bytes.slice(99_999));
  assert.equal(await sandbox.readFile('bytes', { start: 5, end: 5 }), '');
  assert.equal(await new Response(await sandbox.readFileStream('bytes', { start: 5, end: 5 })).text(), '');
});

test('a stream of a file can be left, and aborted', async () => {
  await sandbox.exec('head -c 20000000 /dev/zero > zeros');
  const stream = await sandbox.readFileStream('zeros');
  const reader = stream.getReader();
  await reader.read();
  await reader.cancel();
  const stop = new AbortController();
  const aborted = (await sandbox.readFileStream('zeros', { signal: stop.signal })).getReader();
  await aborted.read();
  stop.abort();
  await assert.rejects(async () => {
    while (!(await aborted.read()).done);
  }, { name: 'AbortError' });
});

test('an empty file is one', async () => {
  await sandbox.writeFile('empty', '');
  assert.equal(await sandbox.readFile('empty'), '');
  assert.equal(await new Response(await sandbox.readFileStream('empty')).text(), '');
});

test('a large file over connections that break is whole', async () => {
  await sandbox.exec('seq 1 1000000 > large'); // 6.9 MB
  const proxy = await Proxy.start();
  const broken = makeSandbox({ url: proxy.url });
  await broken.exec('seq 1 1000000 > large');
  proxy.decide = (request, count) => (request.path.endsWith('/large') && count < 3 ? { cut: 1_000_000 } : 'pass');
  const whole = await sandbox.readFile('large');
  assert.equal(await new Response(await broken.readFileStream('large')).text(), whole);
  const ranges = proxy.seen.filter(({ path }) => path.endsWith('/large')).map(({ headers }) => headers.range);
  assert.equal(ranges.length, 4);
  assert.ok(ranges.slice(1).every((range) => range !== undefined), String(ranges));
  proxy.seen.length = 0;
  assert.equal(await broken.readFile('large'), whole);
});

test('a file that is changed while its stream is broken is not mixed', async () => {
  const proxy = await Proxy.start();
  const broken = makeSandbox({ url: proxy.url });
  await broken.exec('seq 1 1000000 > large');
  proxy.decide = (request) => (request.path.endsWith('/large') ? { cut: 1_000_000 } : 'pass');
  const reader = (await broken.readFileStream('large')).getReader();
  await reader.read();
  await broken.exec('seq 2 1000001 > large');
  await assert.rejects(async () => {
    while (!(await reader.read()).done);
  }, PreconditionFailedError);
});

test('directories', async () => {
  assert.equal((await sandbox.mkdir('/workspace/d/e', { recursive: true })).recursive, true);
  await assert.rejects(sandbox.mkdir('d'), FileExistsError);
  await sandbox.writeFile('d/.hidden', '');
  await sandbox.writeFile('d/run.sh', 'x', { mode: '0755' });
  assert.deepEqual(await sandbox.readdir('/workspace/d'), ['.hidden', 'e', 'run.sh']);
  const { files, count, path } = await sandbox.listFiles('d');
  assert.deepEqual([count, path], [2, '/workspace/d']);
  const file = files.find(({ name }) => name === 'run.sh');
  assert.deepEqual([file?.absolutePath, file?.relativePath, file?.type, file?.size, file?.mode, file?.permissions],
    ['/workspace/d/run.sh', 'run.sh', 'file', 1, 'rwxr-xr-x', { readable: true, writable: true, executable: true }]);
  assert.equal((await sandbox.listFiles('d', { includeHidden: true, recursive: true })).count, 3);
  assert.ok((await sandbox.readdir('/')).includes('workspace'));
});

test('moving, copying, deleting, what is there', async () => {
  await sandbox.writeFile('m/1', 'one');
  await sandbox.writeFile('m/2', 'two');
  assert.equal((await sandbox.renameFile('m/1', 'm/3')).newPath, '/workspace/m/3');
  await assert.rejects(sandbox.moveFile('m/3', 'm/2', { replace: false }), FileExistsError);
  await sandbox.moveFile('m/3', 'm/2');
  assert.equal(await sandbox.readFile('m/2'), 'one');
  await sandbox.copyFile('m', 'n');
  assert.equal(await sandbox.readFile('n/2'), 'one');
  await sandbox.deleteFile('n/2');
  assert.equal((await sandbox.exists('n/2')).exists, false);
  assert.equal((await sandbox.exists('n')).exists, true);
  assert.equal((await sandbox.exists('/etc/passwd/n')).exists, false);
  await assert.rejects(sandbox.deleteFile('m'), ConflictError);
  await sandbox.deleteFile('m', { recursive: true });
  await sandbox.chmod('n', '0700');
  assert.equal((await sandbox.stat('n')).mode, '0700');
});

test('errors by their names', async () => {
  await assert.rejects(sandbox.readFile('/nowhere'), (error: unknown) => {
    assert.ok(error instanceof FileNotFoundError);
    assert.deepEqual([error.name, error.status, error.code, error.retryable], ['FileNotFoundError', 404, 'NOT_FOUND', false]);
    assert.match(error.message, /there is no '\/nowhere'/);
    assert.match(error.requestId ?? '', /./);
    return true;
  });
  await assert.rejects(sandbox.readFile('/etc'), IsDirectoryError);
  await assert.rejects(sandbox.readFileStream('/nowhere'), FileNotFoundError);
  await assert.rejects(sandbox.readdir('/etc/passwd'), NotDirectoryError);
  const { etag } = await sandbox.writeFile('once', '1', { ifNoneMatch: '*' });
  await assert.rejects(sandbox.writeFile('once', '2', { ifNoneMatch: '*' }), PreconditionFailedError);
  await sandbox.writeFile('once', '2', { ifMatch: etag });
  await assert.rejects(sandbox.writeFile('once', '3', { ifMatch: etag }), PreconditionFailedError);
});

test('archives', async () => {
  await sandbox.writeFile('tree/a/b.txt', 'deep');
  const other = makeSandbox();
  assert.ok((await other.writeArchive('/workspace/copy', await sandbox.readArchive('/workspace/tree'))).entries >= 2);
  assert.equal(await other.readFile('copy/a/b.txt'), 'deep');
});

test('what changes is told from when it is watched', async () => {
  await sandbox.mkdir('w/node_modules', { recursive: true });
  const watched = await sandbox.watch('w');
  await sandbox.exec('echo x > node_modules/no; echo x > yes', { cwd: '/workspace/w' });
  for await (const event of watched) {
    if (event.type === 'watching') continue;
    assert.ok(event.type === 'event', JSON.stringify(event));
    assert.deepEqual([event.eventType, event.path, event.isDirectory], ['create', '/workspace/w/yes', false]);
    break;
  }
  await assert.rejects(sandbox.watch('/nowhere'), FileNotFoundError);
});
