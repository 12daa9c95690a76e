// SPDX-License-Identifier: Apache-2.0
// A coding agent works on a repository, and you get the difference to look at.
//
//     node main.js 'add a CONTRIBUTING.md'
//     REPO_URL=https://github.com/you/project.git node main.js 'fix the typos in the README'
//     AGENT='my-agent --task' node main.js 'whatever it can do'
//
// The agent is Claude Code unless AGENT says otherwise. It needs an image that has it (`cay image build agents`) and a model:
// the server's key, or a secret of the name `anthropic`, which the sandbox uses without ever seeing it.
import { getSandbox } from '@cay/sandbox';
import type { SandboxOptions } from '@cay/sandbox';

const repoUrl = process.env['REPO_URL'] ?? 'https://github.com/octocat/Hello-World.git';
const agent = process.env['AGENT'] ?? 'claude --dangerously-skip-permissions -p'; // it may do all it likes: it is in a sandbox
const task = process.argv.slice(2).join(' ') || 'add a CONTRIBUTING.md';
const repo = '/workspace/repo';

const CLAUDE: SandboxOptions = {
  image: 'agents',
  limits: { memory: '2g' },
  secrets: ['anthropic'],
  env: { ANTHROPIC_BASE_URL: 'http://anthropic.cay', ANTHROPIC_API_KEY: 'put-in-outside', IS_SANDBOX: '1' },
  budget: { usd: 2 },
};

function quoted(text: string) {
  return `'${text.replaceAll("'", "'\\''")}'`;
}

const sandbox = getSandbox(`agent-${crypto.randomUUID()}`, {
  network: { allow: [new URL(repoUrl).host] },
  ...(process.env['AGENT'] === undefined ? CLAUDE : {}),
});

try {
  await sandbox.gitCheckout(repoUrl, repo);
  const result = await sandbox.exec(`${agent} ${quoted(task)}`, {
    cwd: repo,
    timeout: '15m',
    onOutput: (_, data) => process.stderr.write(data),
  });
  if (!result.success) throw new Error(`the agent failed: exit code ${result.exitCode} (${result.reason})`);
  const { diff, files } = await sandbox.gitDiff(repo);
  for (const { status, path } of files) console.error(`${status}: ${path}`);
  process.stdout.write(diff);
} finally {
  await sandbox.destroy();
}
