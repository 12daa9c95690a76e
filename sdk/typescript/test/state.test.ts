// SPDX-License-Identifier: Apache-2.0
// What stays: snapshots, forks, backups, syncs, sleep.
import assert from 'node:assert/strict';
import test from 'node:test';
import { BackupNotFoundError, getSandbox, listSandboxes, SnapshotNotFoundError } from '@cay/sandbox';
import { makeSandbox, newId } from './helper.js';

test('files and the directory of a session survive sleep', async () => {
  const sandbox = makeSandbox();
  const session = await sandbox.createSession();
  await session.exec('cd /tmp; export A=1');
  await sandbox.writeFile('kept', 'kept');
  assert.equal((await sandbox.sleep()).status, 'sleeping');
  assert.deepEqual(await sandbox.listProcesses(), []); // looking does not wake it
  assert.equal((await sandbox.getState()).status, 'stopped');
  assert.equal(await sandbox.readFile('kept'), 'kept');
  assert.equal((await session.exec('pwd; echo $A')).stdout, '/tmp\n1\n');
  await sandbox.sleep();
  assert.equal((await sandbox.wake()).status, 'running');
});

test('a snapshot, back to it, and forks of it', async () => {
  const sandbox = makeSandbox();
  await sandbox.writeFile('note', 'one');
  const snapshot = await sandbox.snapshot('before');
  await sandbox.writeFile('note', 'two');
  assert.deepEqual((await sandbox.listSnapshots()).map(({ id, name }) => [id, name]), [[snapshot.id, 'before']]);
  const child = await sandbox.fork(newId(), { snapshot });
  assert.equal(await child.readFile('note'), 'one');
  const prefix = newId();
  const children = await sandbox.forkMany(2, prefix);
  assert.deepEqual(children.map(({ id }) => id), [`${prefix}-1`, `${prefix}-2`]);
  assert.deepEqual(await Promise.all(children.map((one) => one.readFile('note'))), ['two', 'two']);
  await Promise.all([child, ...children].map((one) => one.destroy()));
  await sandbox.rollback(snapshot);
  assert.equal(await sandbox.readFile('note'), 'one');
  await sandbox.deleteSnapshot(snapshot);
  await assert.rejects(sandbox.rollback(snapshot.id), SnapshotNotFoundError);
});

test('backups and a sync', async () => {
  const sandbox = makeSandbox();
  await sandbox.writeFile('data/a', 'a');
  const backup = await sandbox.createBackup({ dir: '/workspace/data', name: 'mine', ttl: '1h' });
  assert.deepEqual((await sandbox.listBackups()).map(({ id, name }) => [id, name]), [[backup.id, 'mine']]);
  const second = await sandbox.createBackup({ dir: '/workspace', name: 'second' });
  assert.deepEqual((await sandbox.listBackups({ pageSize: 1 })).map(({ id }) => id), [second.id, backup.id]);
  await sandbox.deleteBackup(second);
  await sandbox.deleteFile('data/a');
  assert.deepEqual(await sandbox.restoreBackup(backup), { success: true, dir: '/workspace/data', id: backup.id });
  assert.equal(await sandbox.readFile('data/a'), 'a');
  await sandbox.deleteBackup(backup);
  await assert.rejects(sandbox.restoreBackup(backup.id), BackupNotFoundError);
  assert.equal((await sandbox.sync()).files, 1);
});

test('settings', async () => {
  const sandbox = makeSandbox({ limits: { memory: '256m' }, cpus: 0.5 });
  await sandbox.exec('true');
  await sandbox.setSleepAfter('2m');
  await sandbox.setKeepAlive(true);
  await sandbox.setLabels({ team: sandbox.id });
  await sandbox.configure({ memory: '512m' });
  const info = await sandbox.info();
  assert.deepEqual([info.sleepAfter, info.keepAlive, info.labels, info.limits.memory, info.limits.cpus], [120, true, { team: sandbox.id }, 512 * 2 ** 20, 0.5]);
  const found: string[] = [];
  for await (const { id } of listSandboxes({ label: `team=${sandbox.id}` })) found.push(id);
  assert.deepEqual(found, [sandbox.id]);
  assert.equal(typeof (await sandbox.stats())['stats'], 'object');
  assert.equal((await getSandbox(sandbox.id).exec('nproc')).success, true);
});
