// SPDX-License-Identifier: Apache-2.0
// Runs the cases one after the other, here: in a page that was loaded, or in a worker that it has started.

import { getSandbox } from '/sdk/index.js';
import { cases } from '/cases.mjs';

const LIMIT = 60_000; // of one case; only a hang gets that far

function late() {
  return new Promise((_, reject) => { setTimeout(() => reject(new Error('it hangs')), LIMIT); });
}

export async function runAll(config) {
  const sandbox = getSandbox(config.id, { url: config.url, token: config.token });
  const results = {};
  for (const { name, run } of cases) {
    const began = performance.now();
    const error = await Promise.race([run({ ...config, sandbox }), late()]).then(() => null, (thrown) => `${thrown?.stack ?? thrown}`);
    results[name] = { error, ms: Math.round(performance.now() - began) };
  }
  await sandbox.destroy();
  return results;
}

if (typeof document === 'undefined')
  self.onmessage = async ({ data }) => self.postMessage(await runAll(data));
