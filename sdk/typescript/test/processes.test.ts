// SPDX-License-Identifier: Apache-2.0
import assert from 'node:assert/strict';
import test from 'node:test';
import { getSandbox, Process, ProcessExitedBeforeReadyError, ProcessNotFoundError, ProcessReadyTimeoutError } from '@cay/sandbox';
import type { LogEvent } from '@cay/sandbox';
import { makeSandbox } from './helper.js';

const sandbox = makeSandbox();

test('spawn, isProcessRunning and killProcess take the number of a process', async () => {
  const process = await sandbox.spawn('sleep 600');
  assert.ok(process instanceof Process);
  assert.deepEqual([process.command, process.status, process.exitCode], ['sleep 600', 'running', undefined]);
  assert.ok(process.startTime instanceof Date);
  assert.equal(await sandbox.isProcessRunning(process.pid), true);
  await sandbox.killProcess(process.pid);
  assert.deepEqual(await process.waitForExit(), { exitCode: 143, reason: 'signal' });
  assert.equal(await sandbox.isProcessRunning(process.pid), false);
  assert.equal(await process.getStatus(), 'killed');
  await process.kill(); // one that has ended is left alone
  await assert.rejects(sandbox.killProcess('nobody'), ProcessNotFoundError);
});

test('the signal that is given is the one that is sent', async () => {
  const process = await sandbox.startProcess("trap 'echo usr1' USR1; trap 'echo hup; exit 9' HUP; echo ready; while :; do sleep 0.05; done");
  await process.waitForLog('ready');
  await process.kill('SIGUSR1');
  await process.waitForLog('usr1');
  await process.kill('SIGHUP');
  assert.equal((await process.waitForExit()).exitCode, 9);
  assert.equal((await process.getLogs()).stdout, 'ready\nusr1\nhup\n');
});

test('by id: list, get, logs', async () => {
  const process = await sandbox.startProcess('echo out; echo err >&2', { processId: 'named', env: { A: 'a' }, cwd: '/tmp' });
  assert.equal(process.id, 'named');
  await process.waitForExit();
  const found = await sandbox.getProcess('named');
  assert.deepEqual([found?.status, found?.exitCode, found?.endTime instanceof Date], ['completed', 0, true]);
  assert.equal(await sandbox.getProcess('nobody'), null);
  assert.deepEqual(await sandbox.getProcessLogs('named'), { stdout: 'out\n', stderr: 'err\n', processId: 'named' });
  assert.ok((await sandbox.listProcesses()).some(({ id }) => id === 'named'));
  assert.ok(await sandbox.cleanupCompletedProcesses() >= 1);
  assert.equal(await sandbox.getProcess('named'), null);
});

test('its log as a stream, from the beginning', async () => {
  const process = await sandbox.startProcess('echo one; until [ -e go ]; do sleep 0.05; done; echo two; exit 3');
  const events: LogEvent[] = [];
  for await (const event of await sandbox.streamProcessLogs(process)) {
    events.push(event);
    if (event.type === 'stdout' && event.data === 'one\n') await sandbox.writeFile('go', '');
  }
  assert.deepEqual(events.map((event) => ('data' in event ? event.data : '')), ['one\n', 'two\n', '']);
  const last = events.at(-1);
  assert.ok(last?.type === 'exit' && last.exitCode === 3 && last.processId === process.id);
});

test('callbacks', async () => {
  const told: string[] = [];
  const exited = new Promise<number>((resolve) => {
    void sandbox.startProcess('echo hi; exit 4', {
      processId: 'told', autoCleanup: true, onStart: () => told.push('start'), onOutput: (stream, data) => told.push(stream + data), onExit: resolve,
    });
  });
  assert.equal(await exited, 4);
  assert.deepEqual(told, ['start', 'stdouthi\n']);
  while (await sandbox.getProcess('told') !== null);
});

test('waiting for a line', async () => {
  const process = await sandbox.startProcess('printf "a\\nlistening on 80"; sleep 600; echo 80');
  const { line, match } = await process.waitForLog(/on (\d+)/g);
  assert.deepEqual([line, match?.[1]], ['listening on 80', '80']);
  await assert.rejects(process.waitForLog('never', 100), ProcessReadyTimeoutError);
  const ending = process.waitForLog('never');
  await process.kill('SIGKILL');
  await assert.rejects(ending, (error: unknown) => error instanceof ProcessExitedBeforeReadyError && error.details['exitCode'] === 137);
  await assert.rejects((await sandbox.startProcess('sleep 600')).waitForExit(50), ProcessReadyTimeoutError);
});

const SERVE = `import http.server
class Handler(http.server.BaseHTTPRequestHandler):
    asked = 0
    def do_GET(self):
        Handler.asked += 1
        self.send_response(503 if self.path == "/ready" and Handler.asked < 3 else 200)
        self.end_headers()
        self.wfile.write(b"you asked for " + self.path.encode())
http.server.HTTPServer(("127.0.0.1", 3001), Handler).serve_forever()`;

test('waiting for a port, and asking it', async () => {
  await sandbox.writeFile('serve.py', SERVE);
  const process = await sandbox.startProcess('python3 serve.py');
  await process.waitForPort(3001, { mode: 'tcp' });
  await process.waitForPort(3001, { path: '/ready', interval: 20 });
  const response = await sandbox.containerFetch('http://anything/a?b=c', 3001);
  assert.deepEqual([response.status, await response.text()], [200, 'you asked for /a?b=c']);
  await assert.rejects(process.waitForPort(3002, { timeout: 100 }), ProcessReadyTimeoutError);
  await process.kill('SIGKILL');
  await assert.rejects(process.waitForPort(3003), ProcessExitedBeforeReadyError);
});

const LEAD = `import http.server, sys
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(307)
        self.send_header("Location", sys.argv[1])
        self.end_headers()
    do_DELETE = do_GET
http.server.HTTPServer(("127.0.0.1", 3004), Handler).serve_forever()`;

test('a redirect of a server in the sandbox leads nowhere with the token', async () => {
  const other = makeSandbox();
  await other.exec('true');
  await sandbox.writeFile('lead.py', LEAD);
  const process = await sandbox.startProcess(['python3', 'lead.py', `/sandbox/${other.id}`]);
  await process.waitForPort(3004, { mode: 'tcp' });
  const response = await sandbox.containerFetch(new Request('http://anything/', { method: 'DELETE' }), 3004);
  assert.deepEqual([response.status, response.headers.get('location')], [307, `/sandbox/${other.id}`]);
  assert.equal((await other.info()).status, 'running');
  await process.kill('SIGKILL');
});

// As a browser has it: of a redirect nothing is told but that it is one.
async function fetchInBrowser(...[input, init]: Parameters<typeof fetch>): Promise<Response> {
  const response = await fetch(input, init);
  if (init?.redirect !== 'manual' || response.headers.get('location') === null) return response;
  return Object.defineProperty(Response.error(), 'type', { value: 'opaqueredirect' });
}

test('a redirect is an answer to who waits for a port', async () => {
  await sandbox.writeFile('lead.py', LEAD);
  const process = await sandbox.startProcess(['python3', 'lead.py', '/elsewhere']);
  await process.waitForPort(3004, { timeout: 20_000 });
  await process.waitForPort(3004, { status: 307, timeout: 20_000 });
  await assert.rejects(process.waitForPort(3004, { status: 200, timeout: 100 }), ProcessReadyTimeoutError);
  const seen = await getSandbox(sandbox.id, { fetch: fetchInBrowser }).getProcess(process.id);
  await seen?.waitForPort(3004, { timeout: 20_000 });
  await process.kill('SIGKILL');
});

test('standard input', async () => {
  const process = await sandbox.startProcess('cat');
  await process.write('one ');
  await process.write(new Uint8Array([116, 119, 111]), { end: true });
  await process.waitForExit();
  assert.equal((await process.getLogs()).stdout, 'one two');
});

test('all of them at once', async () => {
  const own = makeSandbox();
  await Promise.all([own.startProcess('sleep 600'), own.startProcess(['sleep', '601'])]);
  assert.equal(await own.killAllProcesses('SIGKILL'), 2);
  for (const process of await own.listProcesses()) await process.waitForExit();
  assert.equal(await own.killAllProcesses(), 0);
});
