// SPDX-License-Identifier: Apache-2.0
// Pasting strangers' words into a command line: they become commands. A list of "dangerous" patterns is no way out: there is
// always one more.
import { getSandbox } from '@cay/sandbox';

const NAME = 'Ada; touch /workspace/broken-in';
const sandbox = getSandbox(`error-${crypto.randomUUID()}`, { limits: { memory: '256m', pids: 64 } });

async function isBrokenIn() {
  return (await sandbox.exists('broken-in')).exists;
}

async function wrong() {
  await sandbox.exec(`echo Hello ${NAME}`);
  console.log('wrong: broken in:', await isBrokenIn());
  await sandbox.deleteFile('broken-in');
}

async function right() {
  const results = [
    await sandbox.exec(['echo', 'Hello', NAME]), // without a shell nothing has to be quoted
    await sandbox.exec('echo "Hello $NAME"', { env: { NAME } }),
    await sandbox.exec('cat', { stdin: `Hello ${NAME}\n` }),
  ];
  for (const { stdout } of results) console.log('right:', stdout.trim());
  console.log('right: broken in:', await isBrokenIn());
}

// Whole programs of strangers are what a sandbox is for: without a network, within limits, and no secret in reach.
async function evenSo() {
  const { error } = await sandbox.runCode("import urllib.request\nurllib.request.urlopen('http://example.com', timeout=5).status");
  console.log('right: reached something outside:', error === undefined);
}

try {
  await wrong();
  await right();
  await evenSo();
} finally {
  await sandbox.destroy();
}
