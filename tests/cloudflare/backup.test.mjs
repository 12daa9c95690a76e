// SPDX-License-Identifier: Apache-2.0
// backup.* of the low-level client: its archives are backups of Cay's own.

import assert from "node:assert/strict";
import { before, test } from "node:test";
import { fails, newClient, post } from "./kit.mjs";

const S = "main";
const ARCHIVE = "/var/backups/one.sqsh";
let client;

before(async () => {
  client = await newClient();
  await client.commands.execute("mkdir -p /workspace/app/sub && cd /workspace/app && echo 1 > a && echo 2 > sub/b && echo 3 > skip.log", S);
});

function sh(command) {
  return client.commands.execute(command, S);
}

test("a directory is stored and comes back", async () => {
  const made = await client.backup.createArchive("/workspace/app", ARCHIVE, S, { excludes: ["*.log"] });
  assert.deepEqual([made.success, made.archivePath], [true, ARCHIVE]);
  assert.ok(made.sizeBytes > 0);
  await sh("rm -rf /workspace/app");
  const back = await client.backup.restoreArchive("/workspace/app", ARCHIVE, S);
  assert.deepEqual([back.success, back.dir], [true, "/workspace/app"]);
  assert.equal((await sh("cd /workspace/app && find . -type f | sort | xargs head")).stdout, "==> ./a <==\n1\n\n==> ./sub/b <==\n2");
});

test("an archive that nobody has made", async () => {
  const missing = client.backup.restoreArchive("/workspace/app", "/var/backups/none.sqsh", S);
  await fails(missing, "BackupNotFoundError", "BACKUP_NOT_FOUND", 404);
});

test("a directory that is not there", async () => {
  const missing = client.backup.createArchive("/workspace/none", "/var/backups/two.sqsh", S);
  await assert.rejects(missing, (error) => error.code === "BACKUP_CREATE_FAILED" || error.code === "FILE_NOT_FOUND");
});

test("a place for archives that is none", async () => {
  const { status, json } = await post(client, "/api/backup/create", { dir: "/workspace/app", archivePath: "/etc/x.sqsh" });
  assert.deepEqual([status, json.code], [400, "INVALID_BACKUP_CONFIG"]);
});
