// SPDX-License-Identifier: Apache-2.0
// Ignoring exit codes: a command that fails is a result, and what it should have printed is not there.
import { getSandbox } from '@cay/sandbox';

const SCRIPT = "import json\nprint(json.load(open('nosuch.json'))['answer'])\n";
const sandbox = getSandbox(`error-${crypto.randomUUID()}`);

async function wrong() {
  const result = await sandbox.exec('python3 script.py');
  return result.stdout; // empty, since the script failed
}

async function right() {
  const result = await sandbox.exec('python3 script.py');
  if (!result.success) throw new Error(`exit code ${result.exitCode}: ${result.stderr.trim().split('\n').at(-1)}`);
  return result.stdout;
}

try {
  await sandbox.writeFile('script.py', SCRIPT);
  console.log('wrong: the answer is', JSON.stringify(await wrong()));
  console.log('right:', await right().catch((error: Error) => error.message));
} finally {
  await sandbox.destroy();
}
