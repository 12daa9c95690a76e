// SPDX-License-Identifier: Apache-2.0
// Counting on a set-up that may not be there: the first use of an id is a new, empty sandbox.
import { getSandbox } from '@cay/sandbox';

const MAKEFILE = 'build:\n\t@echo built\n';
const sandbox = getSandbox(`error-${crypto.randomUUID()}`);

async function wrong() {
  const result = await sandbox.exec('cd /workspace/project && make build');
  console.log('wrong:', result.exitCode, result.stderr.trim());
}

async function right() {
  const there = await sandbox.readdir('/workspace/project').catch(() => null);
  if (there === null) {
    console.log('right: setting up');
    await sandbox.writeFile('/workspace/project/Makefile', MAKEFILE); // or gitCheckout, and what has to be installed
  }
  const { stdout } = await sandbox.exec('make build', { cwd: '/workspace/project' });
  console.log('right:', stdout.trim());
}

try {
  await wrong();
  await right();
  await right(); // now it is there
} finally {
  await sandbox.destroy();
}
