// SPDX-License-Identifier: Apache-2.0
// A model writes Python, a sandbox runs it, and the value comes back; an error goes back to the model, once.
//
//     node main.js                              # a question of its own
//     node main.js 'the first ten primes'
//
// The model is asked by the server, whose key nobody else has to know (`ANTHROPIC_API_KEY=... cay serve`); put your own model
// into `askModel`. Where the server has no key, code that is here already is run. (`cay ask` and `POST /execute` do all of
// this on the server.)
import { getSandbox } from '@cay/sandbox';
import type { Execution } from '@cay/sandbox';

const QUESTION = 'the mean of 3, 5 and 10';
const CODE = "import statistics\nprint('computing')\nstatistics.mean([3, 5, 10])";
const SYSTEM = 'Write Python code that answers the question. Its last line is an expression with the answer. Only code, no words.';

async function askModel(prompt: string) {
  const response = await fetch(`${process.env['CAY_URL'] ?? 'http://127.0.0.1:8787'}/execute/sdk`, {
    method: 'POST',
    headers: { authorization: `Bearer ${process.env['CAY_TOKEN'] ?? ''}` },
    body: JSON.stringify({ prompt, options: { system_prompt: SYSTEM, allowed_tools: [], max_turns: 1 } }),
  });
  const answer = await response.json();
  if (answer.error_code === 'MISSING_API_KEY') return CODE;
  if (!answer.success) throw new Error(`the model did not answer: ${answer.error}`);
  return /```(?:python)?\n(.*?)```/s.exec(answer.result)?.[1] ?? answer.result; // without the fence around it
}

function show({ logs, results, error }: Execution) {
  console.log(`printed: ${logs.stdout.join('').trimEnd()}`);
  // A value in every form that it has: text, html of a table, png of a figure.
  for (const result of results) console.log(`${result.type}: ${result.text}  (${result.formats().join(', ')})`);
  if (error) console.log(`error in line ${error.lineNumber}: ${error.name}: ${error.message}`);
}

// The code is a stranger's: it reaches no network, has limits, and is gone with its sandbox.
const sandbox = getSandbox(`code-${crypto.randomUUID()}`, { languages: ['python'], limits: { memory: '512m' } });

async function tryOnce(prompt: string, context: string) {
  const code = await askModel(prompt);
  console.log(`${code.trimEnd()}\n--`);
  const execution = await sandbox.runCode(code, { context });
  show(execution);
  return execution;
}

try {
  const question = process.argv[2] ?? QUESTION;
  const { id } = await sandbox.createCodeContext({ language: 'python', timeout: '30s' });
  let execution = await tryOnce(question, id);
  if (execution.error) execution = await tryOnce(`${question}\n\nThis failed:\n${execution.code}\n\n${execution.error.traceback.join('\n')}`, id);
  process.exitCode = execution.success ? 0 : 1;
} finally {
  await sandbox.destroy();
}
