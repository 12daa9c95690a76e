// SPDX-License-Identifier: Apache-2.0
// Clones a repository, changes something, shows the difference and commits it. Nothing is pushed.
//
//     node main.js
//     REPO_URL=https://github.com/you/project.git node main.js
//
// A private repository takes a secret, which never gets into the sandbox: `cay secret set NAME`, then the option
// `secrets: ['NAME']`, and `secret: 'NAME'` of gitCheckout.
import { getSandbox } from '@cay/sandbox';

const repoUrl = process.env['REPO_URL'] ?? 'https://github.com/octocat/Hello-World.git';
const repo = '/workspace/repo';

// A sandbox reaches nothing by itself: git needs its host.
const sandbox = getSandbox(`git-${crypto.randomUUID()}`, { network: { allow: [new URL(repoUrl).host] } });

try {
  const clone = await sandbox.gitCheckout(repoUrl, { targetDir: repo, depth: 1 });
  console.log(`cloned ${clone.branch} at ${clone.commit.slice(0, 10)}`);
  const { files } = await sandbox.listFiles(repo);
  console.log(`files: ${files.map(({ name }) => name).join(', ')}`);

  await sandbox.writeFile(`${repo}/NOTES.md`, '# Notes\n\nWritten in a sandbox.\n');
  for (const { status, path } of (await sandbox.gitStatus(repo)).files) console.log(`${status}: ${path}`);
  console.log((await sandbox.gitDiff(repo)).diff);

  const { commit } = await sandbox.gitCommit(repo, 'Add notes', { author: { name: 'Ada', email: 'ada@example.com' } });
  console.log(`committed ${commit.slice(0, 10)}; ${(await sandbox.gitStatus(repo)).ahead} ahead of ${clone.branch}`);
  const log = await sandbox.exec("git log --oneline -1 --format='%an: %s'", { cwd: repo });
  process.stdout.write(log.stdout);
} finally {
  await sandbox.destroy();
}
