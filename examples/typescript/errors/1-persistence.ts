// SPDX-License-Identifier: Apache-2.0
// Counting on files after a while of idleness. Elsewhere they are gone when the container stops; here they stay.
import { FileNotFoundError, getSandbox } from '@cay/sandbox';

// What is lost with idleness elsewhere is lost here only by one who asks for it: an ephemeral sandbox.
async function wrong() {
  const sandbox = getSandbox(`error-${crypto.randomUUID()}`, { ephemeral: true });
  try {
    await sandbox.writeFile('/workspace/data.txt', 'content');
    await sandbox.sleep(); // as ten minutes without use do
    console.log('wrong:', await sandbox.readFile('/workspace/data.txt'));
  } catch (error) {
    if (!(error instanceof FileNotFoundError)) throw error;
    console.log('wrong:', error.message);
  } finally {
    await sandbox.destroy();
  }
}

// Nothing has to be done for files to be there after sleep. What shall outlive the sandbox itself is stored outside of it.
async function right() {
  const sandbox = getSandbox(`error-${crypto.randomUUID()}`);
  const other = getSandbox(`error-${crypto.randomUUID()}`);
  try {
    await sandbox.writeFile('/workspace/data.txt', 'content');
    await sandbox.sleep();
    console.log('right:', await sandbox.readFile('/workspace/data.txt'));
    const backup = await sandbox.createBackup({ dir: '/workspace', ttl: '1h' });
    await sandbox.destroy();
    await other.restoreBackup(backup);
    console.log('right, in another sandbox:', await other.readFile('/workspace/data.txt'));
  } finally {
    await Promise.all([sandbox.destroy(), other.destroy()]);
  }
}

await wrong();
await right();
