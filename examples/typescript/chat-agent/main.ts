// SPDX-License-Identifier: Apache-2.0
// A conversation in which each message finds what the last one left: directory, variables, files. A message is a command
// here; where an agent answers, it is what the agent runs.
//
//     node main.js                               # some messages of its own
//     node main.js 'cd /tmp' 'pwd'               # yours; run it again, and it goes on where it was
//     CONVERSATION=bob node main.js 'pwd'        # another conversation has another sandbox
//     node main.js --end                         # it is over
import { ConflictError, getSandbox, SessionTerminatedError } from '@cay/sandbox';

const MESSAGES = ['mkdir -p notes && cd notes', 'export TOPIC=islands', 'echo small and sandy > $TOPIC', 'pwd; cat $TOPIC'];

// The ids are all that has to be remembered of a conversation. After ten minutes without a message the sandbox falls asleep:
// programs end; files, directory and exported variables stay, and the next message wakes it. After a week it is destroyed.
const sandbox = getSandbox(`chat-${process.env['CONVERSATION'] ?? 'ada'}`, { sleepAfter: '10m', destroyAfter: '7d' });
const session = 'chat';

async function answer(message: string) {
  try {
    const { stdout, stderr, success, exitCode } = await sandbox.exec(message, { session, timeout: '1m' });
    return `${stdout}${stderr}${success ? '' : `(exit code ${exitCode})\n`}`;
  } catch (error) {
    if (!(error instanceof SessionTerminatedError)) throw error;
    return `(the shell ended with ${error.exitCode})\n`; // somebody said `exit`: the next message gets a new shell
  }
}

async function talk(messages: string[]) {
  try {
    await sandbox.createSession({ id: session });
  } catch (error) {
    if (!(error instanceof ConflictError)) throw error; // else the conversation has begun before
  }
  for (const message of messages) {
    console.log(`> ${message}`);
    process.stdout.write(await answer(message));
  }
}

const given = process.argv.slice(2);
if (given[0] === '--end') await sandbox.destroy();
else await talk(given.length > 0 ? given : MESSAGES);
