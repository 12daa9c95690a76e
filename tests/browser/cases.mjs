// SPDX-License-Identifier: Apache-2.0
// What the client has to do in a browser: run by run.mjs in a page and in a worker, and told to test_browser.py.

import * as cay from '/sdk/index.js';

const { getSandbox } = cay;
export const cases = [];

function test(name, run) {
  cases.push({ name, run });
}

function same(got, want) {
  const [a, b] = [got, want].map((value) => JSON.stringify(value));
  if (a !== b) throw new Error(`${a} is not ${b}`);
}

async function thrown(promise) {
  return await promise.then(() => { throw new Error('it did not fail'); }, (error) => error);
}

async function all(stream) {
  const events = [];
  for await (const event of stream) events.push(event);
  return events;
}

function textOf(events, type = 'stdout') {
  return events.filter((event) => event.type === type).map((event) => event.data).join('');
}

const BYTES = Uint8Array.from({ length: 70_000 }, (_, i) => (i * 31) & 255);

function streamOf(bytes) {
  return new Blob([bytes]).stream();
}

test("exec", async ({ sandbox }) => {
  const result = await sandbox.exec('echo out; echo err >&2; exit 3', { cwd: '/tmp', env: { A: 'b' } });
  same([result.stdout, result.stderr, result.exitCode, result.success], ['out\n', 'err\n', 3, false]);
  let told = '';
  await sandbox.exec(['printf', '%s', 'héllo'], { onOutput: (stream, data) => { told += stream + data; } });
  same(told, 'stdouthéllo');
});

test("execStream", async ({ sandbox }) => {
  const events = await all(await sandbox.execStream('for i in 1 2 3; do echo $i; sleep 0.05; done; echo e >&2; exit 4'));
  same([textOf(events), textOf(events, 'stderr'), events.at(-1).type, events.at(-1).exitCode], ['1\n2\n3\n', 'e\n', 'complete', 4]);
});

test("sessions", async ({ sandbox }) => {
  const session = await sandbox.createSession();
  await session.exec('cd /tmp && export NAME=Ada');
  same((await session.exec('echo $NAME in $PWD')).stdout, 'Ada in /tmp\n');
  const ended = await thrown(session.exec('exit 7'));
  same([ended instanceof cay.SessionTerminatedError, ended.exitCode], [true, 7]);
});

test("files: text", async ({ sandbox }) => {
  const written = await sandbox.writeFile('a/text.txt', 'grüße\n');
  same([written.success, await sandbox.readFile('a/text.txt')], [true, 'grüße\n']);
  same(await sandbox.readFile('a/text.txt', { start: 0, end: 2 }), 'gr');
  same(await sandbox.readdir('a'), ['text.txt']);
  const stale = await thrown(sandbox.writeFile('a/text.txt', 'x', { ifMatch: '"other"' }));
  same([stale instanceof cay.PreconditionFailedError, stale.status], [true, 412]);
  await sandbox.deleteFile('a', { recursive: true });
  same((await sandbox.exists('a')).exists, false);
});

test("files: bytes, blobs and streams", async ({ sandbox }) => {
  const sum = async () => (await sandbox.exec('sha256sum < f')).stdout;
  await sandbox.writeFile('f', BYTES);
  const want = await sum();
  same([...await sandbox.readFile('f', { encoding: 'bytes' })], [...BYTES]);
  for (const content of [BYTES.buffer, new Blob([BYTES]), streamOf(BYTES)]) {
    await sandbox.writeFile('f', 'something else');
    await sandbox.writeFile('f', content);
    same(await sum(), want);
  }
  const read = new Uint8Array(await new Response(await sandbox.readFileStream('f')).arrayBuffer());
  same([...read], [...BYTES]);
  const part = new Uint8Array(await new Response(await sandbox.readFileStream('f', { start: 10, end: 20 })).arrayBuffer());
  same([...part], [...BYTES.subarray(10, 20)]);
});

test("archives", async ({ sandbox }) => {
  await sandbox.writeFile('tree/x', '1');
  await sandbox.writeArchive('copy', await sandbox.readArchive('tree'));
  same(await sandbox.readFile('copy/x'), '1');
});

test("runCode", async ({ sandbox }) => {
  const lines = [];
  const execution = await sandbox.runCode('print("computing")\n[1, 2, 3]', { language: 'python', onStdout: ({ text }) => lines.push(text) });
  same([execution.results[0].json ?? execution.results[0].text, lines.join('').trim()], [execution.results[0].json ? [1, 2, 3] : '[1, 2, 3]', 'computing']);
  same((await sandbox.runCode('1/0', { language: 'python' })).error.name, 'ZeroDivisionError');
});

test("watch", async ({ sandbox }) => {
  await sandbox.mkdir('/workspace/w', { recursive: true });
  const watched = await sandbox.watch('/workspace/w');
  await sandbox.writeFile('w/new', '1');
  await sandbox.writeFile('w/new', '2');
  await sandbox.writeFile('w/end', '');
  const seen = [];
  for await (const event of watched) {
    if (event.type === 'event') seen.push([event.eventType, event.path]);
    if (event.path === '/workspace/w/end') break;
  }
  same(seen, [['create', '/workspace/w/new'], ['modify', '/workspace/w/new'], ['create', '/workspace/w/end']]);
});

test("processes", async ({ sandbox }) => {
  const process = await sandbox.startProcess('echo one; read line; echo got $line >&2; exit 5', { stdin: true });
  const told = all(await process.streamLogs());
  await process.waitForLog('one');
  await process.write('a line\n');
  same((await process.waitForExit()).exitCode, 5);
  const events = await told;
  same([textOf(events), textOf(events, 'stderr'), events.at(-1).type, events.at(-1).exitCode], ['one\n', 'got a line\n', 'exit', 5]);
  same((await process.getLogs()).stdout, 'one\n');
});

test("a server in the sandbox", async ({ sandbox }) => {
  await sandbox.writeFile('site/hello.txt', 'hello');
  const server = await sandbox.startProcess('cd site && exec python3 -m http.server 8000');
  await server.waitForPort(8000);
  const answer = await sandbox.containerFetch('http://sandbox/hello.txt', 8000);
  same([answer.status, await answer.text()], [200, 'hello']);
  const request = new Request('http://sandbox/hello.txt', { headers: { 'x-mine': '1' } });
  same((await sandbox.containerFetch(request, 8000)).status, 200);
  const post = new Request('http://sandbox/hello.txt', { method: 'POST', body: 'x' });
  same((await sandbox.containerFetch(post, 8000)).status, 501); // which is that server's own answer
  await sandbox.mkdir('site/sub');
  same((await sandbox.containerFetch('http://sandbox/sub', 8000)).type, 'opaqueredirect'); // it leads to /sub/
  await server.waitForPort(8000, { path: '/sub', timeout: 20_000 });
  const nobody = await sandbox.containerFetch('http://sandbox/', 8001);
  same([nobody.status, (await nobody.json()).error_code], [502, 'BAD_GATEWAY']);
  await server.kill();
});

test("terminal", async ({ sandbox }) => {
  const terminal = await (await sandbox.terminal({ cols: 100, rows: 30 })).connect();
  terminal.write('stty size; exit 3\r');
  let shown = '';
  for await (const data of terminal) shown += new TextDecoder().decode(data);
  same([shown.includes('30 100'), (await terminal.exited).code], [true, 3]);
});

test("a terminal without the right token", async ({ sandbox, url }) => {
  const { protocols, ...address } = await sandbox.terminal();
  const Refused = class extends WebSocket {
    constructor(where) { super(where, ['cay', 'cay.bearer.cay_wrong']); }
  };
  const refused = await thrown((await sandbox.terminal()).connect(Refused));
  same([refused instanceof cay.ConnectionError, protocols[0], address.url.startsWith(url.replace('http', 'ws'))], [true, 'cay', true]);
});

test("errors by their class", async ({ sandbox, url, token }) => {
  const missing = await thrown(sandbox.readFile('nowhere'));
  same([missing instanceof cay.FileNotFoundError, missing.name, missing.status, missing.code], [true, 'FileNotFoundError', 404, 'NOT_FOUND']);
  same([typeof missing.requestId, missing.requestId.length > 4, missing.retryable], ['string', true, false]);
  same((await thrown(sandbox.readFile('/etc'))) instanceof cay.IsDirectoryError, true);
  same((await thrown(sandbox.getProcess('nobody').then((process) => process ?? Promise.reject(new cay.ProcessNotFoundError(''))))) instanceof cay.ProcessNotFoundError, true);
  const stranger = await thrown(getSandbox('x', { url, token: 'cay_wrong' }).exec('true'));
  same([stranger instanceof cay.UnauthorizedError, stranger.status], [true, 401]);
  const none = await thrown(getSandbox(`none-${Math.random()}`, { url, token }).info());
  same(none instanceof cay.SandboxNotFoundError, true);
});

test("what a header says: the time to wait", async ({ url, slowToken }) => {
  const sandbox = getSandbox('slow', { url, token: slowToken, retries: 0 });
  let error;
  for (let i = 0; i < 10 && !(error instanceof cay.RateLimitedError); i++) error = await sandbox.info().catch((told) => told);
  same([error instanceof cay.RateLimitedError, error.retryAfter > 0], [true, true]);
});

test("a header that the page can read", async ({ url, token }) => {
  const answer = await fetch(`${url}/health`, { headers: { authorization: `Bearer ${token}` } });
  same([answer.ok, typeof answer.headers.get('x-request-id')], [true, 'string']);
});

test("a server that is not there", async () => {
  const error = await thrown(getSandbox('x', { url: 'http://127.0.0.1:9', retries: 0 }).exec('true'));
  same([error instanceof cay.ConnectionError, error.status, error.message.includes('--cors')], [true, 0, true]);
});

test("abort", async ({ sandbox }) => {
  const began = Date.now();
  const stopped = await thrown(sandbox.exec('echo $$ > pid; sleep 100', { signal: AbortSignal.timeout(300) }));
  same(stopped.name, 'TimeoutError');
  const controller = new AbortController();
  const stream = await sandbox.execStream('echo begun; sleep 100', { signal: controller.signal });
  let cut;
  try {
    for await (const event of stream) if (event.type === 'stdout') controller.abort();
  } catch (error) {
    cut = error;
  }
  same(cut?.name, 'AbortError');
  const early = new AbortController();
  early.abort(new Error('no more'));
  same((await thrown(sandbox.readFile('f', { signal: early.signal }))).message, 'no more');
  // What they ran is ended, too.
  let left = 'some';
  while (left !== '' && Date.now() - began < 30_000) left = (await sandbox.exec('grep -slx "sleep" /proc/[0-9]*/comm || true')).stdout;
  same(left, '');
});

test("streams side by side", async ({ sandbox }) => {
  const streams = await Promise.all(Array.from({ length: 4 }, () => sandbox.execStream('echo a; sleep 0.2; echo b')));
  same((await sandbox.exec('echo between')).stdout, 'between\n');
  same((await Promise.all(streams.map(all))).map((events) => textOf(events)), ['a\nb\n', 'a\nb\n', 'a\nb\n', 'a\nb\n']);
});
