// SPDX-License-Identifier: Apache-2.0
// The page's own part: what it is asked for by its fragment, and where the results are looked for.

import { runAll } from '/run.mjs';

const { place, ...config } = JSON.parse(decodeURIComponent(location.hash.slice(1)));

function inWorker() {
  return new Promise((resolve, reject) => {
    const worker = new Worker('/run.mjs', { type: 'module' });
    worker.onmessage = ({ data }) => resolve(data);
    worker.onerror = (event) => reject(new Error(event.message));
    worker.postMessage(config);
  });
}

(place === 'worker' ? inWorker() : runAll(config)).then(
  (results) => { window.results = { results }; },
  (error) => { window.results = { error: String(error) }; },
);
