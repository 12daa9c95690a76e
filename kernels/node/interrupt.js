// SPDX-License-Identifier: Apache-2.0
// SIGINT ends the cell that runs, whatever it does, and nothing else.
//
// Node has one thing that can stop code which does not let go: the watchdog behind the vm module's
// breakOnSigint. A cell is entered through it (`guarded`), with the microtasks that follow: that
// stops most of what runs for ever, and costs nothing to set up. Code that is called later, after a real
// await, is entered by Node itself. So before the first cell waits, a thread is started that has a watchdog of
// its own: it tells this thread, and if there is no answer stops it by way of the inspector.
'use strict';

const vm = require('vm');

// The signal stays in the watchdog's hands: started twice, it is never stopped.
function findWatchdog() {
  try {
    const { startSigintWatchdog: start, stopSigintWatchdog: stop } = process.binding('contextify');
    return { start, stop };
  } catch {
    return null;
  }
}

const watchdog = findWatchdog();
const tick = process._tickCallback;
const { load, store, add, notify } = Atomics;
const THREAD = `
const vm = require('vm');
const { parentPort, workerData } = require('worker_threads');
const { Session } = require('inspector');
const { readFileSync } = require('fs');
const { startSigintWatchdog, stopSigintWatchdog } = process.binding('contextify');
// Signals that come before the watchdog is there are found, later ones end the script.
globalThis.sleep = () => {
  startSigintWatchdog();
  if (!stopSigintWatchdog()) Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0);
};
const script = new vm.Script('sleep()');
function stop() {
  const session = new Session();
  session.connectToMainThread();
  session.post('Runtime.terminateExecution', () => {});
  session.disconnect();
}
// What the main thread is doing: R or S..., and for how long it has run.
function look() {
  const text = readFileSync('/proc/self/task/' + process.pid + '/stat', 'latin1');
  const fields = text.slice(text.lastIndexOf(')') + 2).split(' ');
  return { isAsleep: fields[0] === 'S', ticks: Number(fields[11]) + Number(fields[12]) };
}
// It hears nothing: it has run for a while, or slept, since it was told. On a busy machine it may do neither.
function isDeaf(cell, heard) {
  const { ticks } = look();
  for (let asleep = 0; asleep < 10; ) {
    if (Atomics.wait(workerData, 1, heard, 50) !== 'timed-out') return false;
    if (Atomics.load(workerData, 0) !== cell) return false;
    const now = look();
    if (now.ticks - ticks >= 10) return true;
    asleep = now.isAsleep ? asleep + 1 : 0;
  }
  return true;
}
function interrupted() {
  const cell = Atomics.load(workerData, 0);
  if (cell === 0) return;
  const heard = Atomics.load(workerData, 1);
  Atomics.store(workerData, 2, cell);
  parentPort.postMessage(cell);
  if (isDeaf(cell, heard)) stop();
}
for (;;) {
  try {
    script.runInThisContext({ breakOnSigint: true });
  } catch {}
  interrupted();
}`;

const shared = new Int32Array(new SharedArrayBuffer(12)); // the cell that may be stopped; messages heard; the cell of the last one
const options = Object.freeze({ breakOnSigint: true, displayErrors: false });
let thread = null;
let task = null;
let outcome = null;

function enter() {
  const fn = task;
  task = null;
  try {
    outcome = { __proto__: null, value: fn() };
  } catch (error) {
    outcome = { __proto__: null, error };
  }
}

Object.defineProperty(globalThis, 'cay.enter', { value: enter });
const script = new vm.Script("this['cay.enter']()", { filename: '/cay/enter.js' });
const run = script.runInThisContext.bind(script, options);

// Calls fn. {value}, {error}, or null when it was interrupted.
function guarded(fn) {
  task = fn;
  outcome = null;
  try {
    run();
  } catch {
    return null; // fn's own errors do not come this way
  }
  return outcome;
}

// What has been promised by now, while the watchdog watches.
function drain() {
  if (tick !== undefined) tick();
}

// A cell begins, and signals that came before are not meant for it. 0: it has ended.
function arm(cell) {
  if (cell !== 0 && watchdog !== null) {
    watchdog.start();
    watchdog.stop(); // forgets them
  }
  store(shared, 0, cell);
}

function listen(onInterrupt, message) {
  add(shared, 1, 1);
  notify(shared, 1);
  onInterrupt(message);
}

// Was it interrupted, though the message may not have come yet?
function isInterrupted(cell) {
  return load(shared, 2) === cell;
}

function watch(onInterrupt) {
  if (thread !== null) return;
  const { Worker } = require('worker_threads');
  thread = new Worker(THREAD, {
    eval: true,
    workerData: shared,
    env: {},
    execArgv: [],
    stdin: false,
    resourceLimits: { maxOldGenerationSizeMb: 16, maxYoungGenerationSizeMb: 1 },
  });
  thread.on('message', (message) => listen(onInterrupt, message));
  thread.on('error', () => {});
  thread.unref();
}

// Node would give the signal to listeners, and take it from the watchdog for that.
function keepSignal() {
  const name = 'newListener';
  const start = process.listeners(name).find((fn) => fn.name === 'startListeningIfSignal');
  if (start === undefined) return;
  process.removeListener(name, start);
  process.on(name, (type) => type !== 'SIGINT' && start(type));
}

function install() {
  if (watchdog === null) {
    process.on('SIGINT', () => {});
    return;
  }
  watchdog.start();
  keepSignal();
}

module.exports = { install, guarded, drain, arm, watch, isInterrupted };
