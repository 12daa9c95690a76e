// SPDX-License-Identifier: Apache-2.0
// No timeout: a command that hangs is waited for without an end.
import { getSandbox } from '@cay/sandbox';

const sandbox = getSandbox(`error-${crypto.randomUUID()}`);

async function wrong() {
  const stop = new AbortController(); // only so that this program ends: it ends the command, too
  const answer = sandbox.exec('sleep 86400', { signal: stop.signal });
  const first = await Promise.race([answer, new Promise((resolve) => setTimeout(resolve, 1000, 'still waiting'))]);
  console.log('wrong:', first);
  stop.abort();
  await answer.catch(() => {});
}

async function right() {
  const result = await sandbox.exec('sleep 86400', { timeout: 500 });
  console.log('right:', result.reason, result.exitCode); // all of it was killed; the sandbox goes on
}

// What takes long is a process: it goes on when nobody waits, and its output can be read at any time.
async function alsoRight() {
  const process = await sandbox.spawn('for i in 1 2 3; do echo step $i; sleep 0.1; done', { timeout: '1h' });
  console.log('right:', (await process.waitForLog('step 2')).line);
  const { exitCode } = await process.waitForExit();
  console.log(`right: ended with ${exitCode}:`, (await process.getLogs()).stdout.trim().split('\n').at(-1));
}

try {
  await wrong();
  await right();
  await alsoRight();
} finally {
  await sandbox.destroy();
}
