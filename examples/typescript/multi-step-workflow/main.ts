// SPDX-License-Identifier: Apache-2.0
// Steps that build on each other, in one session: directory, environment and what was activated stay.
//
//     node main.js
import { getSandbox } from '@cay/sandbox';

const MAIN = `import os, sys
from greeting import greet

print(greet(os.environ["NAME"]))
print("in an environment of its own:", sys.prefix != sys.base_prefix)
`;

const sandbox = getSandbox(`workflow-${crypto.randomUUID()}`);

// One step. The session, by its id, is where it finds what the steps before it left.
async function step(command: string, session: string) {
  const result = await sandbox.exec(command, { session, timeout: '2m' });
  if (!result.success) throw new Error(`'${command}' failed with ${result.exitCode}: ${result.stderr}`);
  return result.stdout;
}

try {
  const { id: session } = await sandbox.createSession({ env: { NAME: 'islander' } });

  // Step 1: a place. The session stays in it.
  await step('mkdir project && cd project', session);

  // Step 2: an environment, which the session stays in, too. (Packages need a network: the option network: { allow:
  // ['pypi.org', 'files.pythonhosted.org'] }, then `pip install -r requirements.txt` here.)
  await step('python3 -m venv --without-pip .venv && . .venv/bin/activate', session);

  // Step 3: files. These need no session: the disk is the same for all.
  await sandbox.writeFile('project/greeting.py', "def greet(name):\n    return f'hello, {name}'\n");
  await sandbox.writeFile('project/main.py', MAIN);

  // Step 4: run it. Nothing has to be said again of where, and with what.
  process.stdout.write(await step('python main.py', session));
  process.stdout.write(`still in ${await step('pwd', session)}`);
} finally {
  await sandbox.destroy();
}
