// SPDX-License-Identifier: Apache-2.0
// Elsewhere the first request decides for good in which part of the world a sandbox is, and so people make one for each
// region. Here a server is a place, and an id is one sandbox on it: nobody is locked in, but two ids are two sandboxes.
import { getSandbox } from '@cay/sandbox';

const user = `traveller-${process.pid}`;

async function wrong() {
  const europe = getSandbox(`${user}-eu`);
  const america = getSandbox(`${user}-us`);
  try {
    await europe.writeFile('notes.txt', 'written in Europe');
    console.log('wrong: the notes are there:', (await america.exists('notes.txt')).exists);
  } finally {
    await Promise.all([europe.destroy(), america.destroy()]);
  }
}

async function right() {
  const sandbox = getSandbox(user);
  const moved = getSandbox(`${user}-moved`);
  try {
    await sandbox.writeFile('notes.txt', 'written anywhere');
    console.log('right: the notes are there:', (await getSandbox(user).exists('notes.txt')).exists);
    // To another place (the option `url` of another server with the same store), or to another id: by a backup.
    await moved.restoreBackup(await sandbox.createBackup({ dir: '/workspace', ttl: '1h' }));
    console.log('right: moved:', await moved.readFile('notes.txt'));
  } finally {
    await Promise.all([sandbox.destroy(), moved.destroy()]);
  }
}

await wrong();
await right();
