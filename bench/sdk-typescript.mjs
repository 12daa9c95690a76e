#!/usr/bin/env node
// SPDX-License-Identifier: Apache-2.0
// What a call through the TypeScript SDK costs beyond the same request by a bare fetch: `exec true` in a session and a small
// file, one after the other by both, so that what else the machine does hits both. The server is $CAY_URL's; the SDK is the
// one that `cay init` gives. A table for people, or with --rounds the records of bench/table.py.
//
//     CAY_URL=http://127.0.0.1:8787 CAY_TOKEN=... bench/sdk-typescript.mjs [--rounds N]
import { execFileSync } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';

const LIMIT = 1.2;
const ROUNDS = 400;
const WARM_UP = 20;
const TEXT = 'x'.repeat(1024);
const cay = process.env.CAY ?? path.join(path.dirname(fileURLToPath(import.meta.url)), '../build/cay');

function bare(id, session) {
  const base = `${process.env.CAY_URL ?? 'http://127.0.0.1:8787'}/sandbox/${id}`;
  const authorization = `Bearer ${process.env.CAY_TOKEN ?? ''}`;
  return {
    exec: async () => {
      const headers = { authorization, 'content-type': 'application/json', 'idempotency-key': crypto.randomUUID() };
      return await (await fetch(`${base}/exec`, { method: 'POST', headers, body: JSON.stringify({ command: 'true', session }) })).json();
    },
    write: async () => await (await fetch(`${base}/files/workspace/bench`, { method: 'PUT', headers: { authorization }, body: TEXT })).json(),
    read: async () => await (await fetch(`${base}/files/workspace/bench`, { headers: { authorization } })).text(),
  };
}

async function timed(work) {
  const start = process.hrtime.bigint();
  await work();
  return Number(process.hrtime.bigint() - start);
}

// Nearest rank, of sorted nanoseconds.
function percentile(times, percent) {
  return times[Math.max(0, Math.ceil((times.length * percent) / 100) - 1)];
}

// Nanoseconds of both, taking turns, sorted.
async function measure(rounds, raw, sdk) {
  const times = { raw: [], sdk: [] };
  for (let i = 0; i < rounds; i++) {
    times.raw.push(await timed(raw));
    times.sdk.push(await timed(sdk));
  }
  for (const one of Object.values(times)) one.sort((a, b) => a - b);
  return times;
}

function printRecords(name, times) {
  for (const [who, one] of Object.entries(times))
    console.log(['time', 'sdk-typescript', `${name} ${who}`, one.length, ...[10, 50, 90, 99].map((percent) => percentile(one, percent))].join('\t'));
}

function printLine(name, { raw, sdk }) {
  const [ours, theirs] = [sdk, raw].map((times) => percentile(times, 50) / 1000);
  const ratio = ours / theirs;
  const say = ratio <= LIMIT ? '' : 'above 1.20x';
  console.log(`${name.padEnd(22)} ${theirs.toFixed(0).padStart(9)} us ${ours.toFixed(0).padStart(9)} us ${ratio.toFixed(2).padStart(7)}x  ${say}`);
}

async function main(folder) {
  const { values } = parseArgs({ options: { rounds: { type: 'string' } } });
  const rounds = Number(values.rounds ?? ROUNDS);
  const print = values.rounds === undefined ? printLine : printRecords;
  execFileSync(cay, ['init', 'basic-executor', folder], { stdio: ['ignore', 'ignore', 'inherit'] });
  const { getSandbox } = await import(path.join(folder, 'cay-sandbox/dist/index.js'));
  const sandbox = getSandbox(`bench-${process.pid}`);
  try {
    const session = await sandbox.createSession();
    const raw = bare(sandbox.id, session.id);
    const sdk = {
      exec: () => sandbox.exec('true', { session }),
      write: () => sandbox.writeFile('bench', TEXT),
      read: () => sandbox.readFile('bench'),
    };
    if (print === printLine) console.log(`${`median of ${rounds}`.padEnd(22)} ${'fetch'.padStart(12)} ${'SDK'.padStart(12)}`);
    for (const name of ['exec', 'write', 'read']) {
      await measure(WARM_UP, raw[name], sdk[name]);
      print(name, await measure(rounds, raw[name], sdk[name]));
    }
  } finally {
    await sandbox.destroy();
  }
}

const scratch = mkdtempSync(path.join(tmpdir(), 'cay-bench-'));
try {
  await main(path.join(scratch, 'sdk'));
} finally {
  rmSync(scratch, { recursive: true });
}
