// SPDX-License-Identifier: Apache-2.0
// Counting on the directory of the last command: each has a shell of its own, unless a session is given.
import { getSandbox } from '@cay/sandbox';

const sandbox = getSandbox(`error-${crypto.randomUUID()}`);

async function wrong() {
  await sandbox.exec('cd /tmp; export STAGE=dev');
  const { stdout } = await sandbox.exec('echo $PWD "[$STAGE]"');
  console.log('wrong:', stdout.trim());
}

async function right() {
  const sessionId = await sandbox.createSession();
  await sandbox.exec('cd /tmp; export STAGE=dev', { session: sessionId });
  const { stdout } = await sandbox.exec('echo $PWD "[$STAGE]"', { session: sessionId });
  console.log('right:', stdout.trim());
}

// For one command there is a shorter way.
async function alsoRight() {
  const { stdout } = await sandbox.exec('echo $PWD "[$STAGE]"', { cwd: '/tmp', env: { STAGE: 'dev' } });
  console.log('right:', stdout.trim());
}

try {
  await wrong();
  await right();
  await alsoRight();
} finally {
  await sandbox.destroy();
}
