// SPDX-License-Identifier: Apache-2.0
// Runs one command in a sandbox and says how it ended.
//
//     node main.js                          # a command of its own
//     node main.js 'ls -la /; exit 3'       # yours
import { getSandbox } from '@cay/sandbox';

const command = process.argv[2] ?? 'echo "hello from $(uname -s)"; python3 -c "print(6 * 7)"';

// The id is all that it takes: the sandbox is made when it is first used, and found again later.
const sandbox = getSandbox('basic-executor');

const result = await sandbox.exec(command, { timeout: '30s' });
process.stdout.write(result.stdout);
process.stderr.write(result.stderr);

// A command that fails is a result, not an exception: look at it.
console.log(result.success ? 'it worked' : `it failed: exit code ${result.exitCode} (${result.reason})`);

// Its files would stay for the next time. This one has none worth keeping.
await sandbox.destroy();
process.exitCode = result.exitCode;
