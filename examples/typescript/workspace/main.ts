// SPDX-License-Identifier: Apache-2.0
// A place for each person that is there again tomorrow. Run it several times.
//
//     node main.js ada                     # what is in Ada's workspace
//     node main.js ada 'date >> visits'    # does something in it; what fails is undone
//     node main.js ada --reset             # begins anew
import { getSandbox } from '@cay/sandbox';

const [user = 'ada', command] = process.argv.slice(2);

// The same id is the same sandbox, from wherever it is asked for. It sleeps when nobody is there, and keeps its files.
const sandbox = getSandbox(`workspace-${user}`, { sleepAfter: '5m', labels: { user } });

async function welcome() {
  if ((await sandbox.exists('.welcome')).exists) return;
  await sandbox.writeFile('.welcome', '');
  await sandbox.writeFile('README.txt', `This is ${user}'s.\n`);
}

async function run(line: string) {
  const before = await sandbox.snapshot(); // a few milliseconds, whatever there is
  const { stdout, stderr, success, exitCode } = await sandbox.exec(line, { timeout: '2m' });
  process.stdout.write(stdout + stderr);
  if (!success) {
    await sandbox.rollback(before);
    console.log(`that failed with ${exitCode}: all is as it was`);
  }
  await sandbox.deleteSnapshot(before);
}

if (command === '--reset') {
  await sandbox.destroy();
  console.log(`the workspace of ${user} is empty`);
} else {
  await welcome();
  if (command !== undefined) await run(command);
  const { files } = await sandbox.listFiles('/workspace', { recursive: true });
  for (const { type, size, absolutePath } of files) console.log(`${type.padEnd(10)} ${String(size).padStart(8)}  ${absolutePath}`);
}
