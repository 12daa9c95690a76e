// SPDX-License-Identifier: Apache-2.0
// Builds and tests in a fresh sandbox, which is gone afterwards, whatever happens. The exit code is that of the first step
// that fails.
//
//     node main.js                                                     # a small project of its own
//     REPO_URL=https://github.com/you/project.git node main.js 'make' 'make test'
import { getSandbox } from '@cay/sandbox';

const PROJECT = {
  'calc.py': 'def add(a, b):\n    return a + b\n',
  'test_calc.py': 'import calc\nimport unittest\n\n\nclass Test(unittest.TestCase):\n    def test_add(self):\n        self.assertEqual(calc.add(2, 2), 4)\n',
};
const STEPS = ['python3 -m compileall -q .', 'python3 -m unittest -v'];

const repoUrl = process.env['REPO_URL'] || undefined;
const steps = process.argv.length > 2 ? process.argv.slice(2) : STEPS;

// Nothing but the repository's host can be reached, and what runs wild is stopped by its limits.
const sandbox = getSandbox(`ci-${crypto.randomUUID()}`, {
  limits: { memory: '1g' },
  network: repoUrl === undefined ? 'none' : { allow: [new URL(repoUrl).host] },
});

async function fetchSource() {
  if (repoUrl !== undefined) {
    const { commit } = await sandbox.gitCheckout(repoUrl, { targetDir: '/workspace/src', depth: 1 });
    console.log(`== ${repoUrl} at ${commit.slice(0, 10)}`);
    return;
  }
  for (const [name, text] of Object.entries(PROJECT)) await sandbox.writeFile(`src/${name}`, text);
}

async function runSteps() {
  for (const step of steps) {
    console.log(`== ${step}`);
    const { success, exitCode, reason } = await sandbox.exec(step, {
      cwd: '/workspace/src',
      timeout: '10m',
      env: { CI: '1' },
      onOutput: (stream, data) => process[stream].write(data), // as it is written
    });
    if (success) continue;
    console.log(`== failed: exit code ${exitCode} (${reason})`);
    return exitCode;
  }
  console.log('== passed');
  return 0;
}

try {
  await fetchSource();
  process.exitCode = await runSteps();
} finally {
  await sandbox.destroy();
}
