// SPDX-License-Identifier: Apache-2.0
// Never destroying sandboxes that were for one thing only: each keeps its disk, and counts for quotas.
import { getSandbox, listSandboxes } from '@cay/sandbox';

const labels = { example: `cleaning-up-${process.pid}` };

async function leftBehind() {
  let count = 0;
  for await (const _ of listSandboxes({ label: `example=${labels.example}` })) count++;
  return count;
}

async function wrong() {
  const sandbox = getSandbox(`temp-${crypto.randomUUID()}`, { labels });
  await sandbox.exec('true');
  return sandbox;
}

async function right() {
  const sandbox = getSandbox(`temp-${crypto.randomUUID()}`, { labels });
  try {
    await sandbox.exec('true');
  } finally {
    await sandbox.destroy();
  }
}

// Where nobody is sure to come back: the server destroys what was not used for so long.
async function alsoRight() {
  const sandbox = getSandbox(`temp-${crypto.randomUUID()}`, { labels, destroyAfter: '1h' });
  await sandbox.exec('true');
  console.log(`right: destroyed after ${(await sandbox.info()).destroyAfter} seconds without use, or now`);
  await sandbox.destroy();
}

const forgotten = await wrong();
console.log('wrong: left behind:', await leftBehind());
await forgotten.destroy();
await right();
await alsoRight();
console.log('right: left behind:', await leftBehind());
