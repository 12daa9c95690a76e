// SPDX-License-Identifier: Apache-2.0
// Runs cells. V8's inspector knows what a REPL needs without a parser of ours: later cells may declare a name
// again, await stands anywhere, the last expression has a value. The code runs in the process's own realm.
'use strict';

const { Session } = require('inspector');
const { isPromise } = require('util').types;
const errors = require('./errors');
const interrupt = require('./interrupt');
const show = require('./show');
const wire = require('./wire');
const { say } = require('./streams');

const session = new Session();
session.connect();
const post = session.post.bind(session);
const then = Promise.prototype.then;
const GROUP = 'cell';
const NEVER = 'what the cell waits for can never happen: nothing is left that could wake it';

let active = null; // the cell that runs
let count = 0;
let control = null; // the socket that frames come from
let taken; // a value on its way out of the inspector

const TAKE = Symbol.for('cay.take');
Object.defineProperty(globalThis, TAKE, {
  value: (value) => {
    taken = value;
  },
});
const UNSERIALIZABLE = { __proto__: null, NaN, Infinity, '-Infinity': -Infinity, '-0': -0 };

// The value that the inspector describes.
function valueOf(remote) {
  if (remote.objectId === undefined) {
    const text = remote.unserializableValue;
    if (text === undefined) return remote.subtype === 'null' ? null : remote.value;
    return text in UNSERIALIZABLE ? UNSERIALIZABLE[text] : BigInt(text.slice(0, -1));
  }
  const { objectId } = remote;
  const functionDeclaration = "function(v){globalThis[Symbol.for('cay.take')](v)}";
  post('Runtime.callFunctionOn', { functionDeclaration, objectId, arguments: [{ objectId }] }, () => {});
  const value = taken;
  taken = undefined;
  return value;
}

// --- the end of a cell

// outcome: {value}, or {error}, or {payload}: an error that is told already.
function settle(cell, outcome) {
  if (cell !== active || cell.outcome !== null) return;
  cell.outcome = outcome;
  if (!cell.isEntered) conclude(cell);
}

const INTERRUPTED = { payload: errors.describeText('Interrupted', 'the cell was interrupted') };

// What is said about the end: [type, payload], or null for nothing; or a promise of it.
function tell(cell, outcome) {
  if ('payload' in outcome) return ['error', outcome.payload];
  if ('error' in outcome) return ['error', errors.describe(cell.number, cell.code, outcome.error)];
  if (outcome.value === undefined) return null;
  const payload = show.encode(outcome.value);
  if (!isPromise(payload)) return ['result', payload];
  const late = (text) => finish(cell, ['result', text]);
  then.call(payload, late, (error) => conclude(cell, { error }));
  return undefined;
}

function conclude(cell, outcome = cell.outcome) {
  if (cell !== active) return;
  let done = interrupt.guarded(() => tell(cell, outcome));
  if (done?.error !== undefined) done = interrupt.guarded(() => tell(cell, { error: done.error }));
  if (done === null || 'error' in done) done = { value: ['error', INTERRUPTED.payload] };
  if (done.value !== undefined) finish(cell, done.value);
  else pend();
}

function restoreEnv(cell) {
  for (const [name, value] of cell.before) {
    if (value === undefined) delete process.env[name];
    else process.env[name] = value;
  }
}

function finish(cell, frame) {
  if (cell !== active) return;
  active = null;
  interrupt.arm(0);
  show.setCell(0);
  restoreEnv(cell);
  if (frame !== null) wire.put(frame[0], cell.number, frame[1]);
  wire.put('done', cell.number, `{"count":${count}}`);
  wire.flush();
  control?.ref();
  if (cell.hasObjects) post('Runtime.releaseObjectGroup', { objectGroup: GROUP }, () => {});
}

// --- its beginning

function onSyntaxError(cell, details, isWrapped) {
  const text = details.exception?.description ?? details.text;
  const message = text.split('\n')[0].replace(/^\w*Error: /, '');
  const made = [details.lineNumber + 1, details.columnNumber + 1 - (isWrapped && details.lineNumber === 0 ? 1 : 0)];
  const [line, column] = errors.original(cell.number, ...made);
  const hint = /^\s*@/.test(cell.code.split('\n')[line - 1] ?? '') ? ' (decorators are not supported)' : '';
  return { payload: errors.describeSyntax(cell.number, cell.code, message + hint, { line, column }) };
}

function onReply(cell, failure, reply) {
  if (failure !== null) {
    settle(cell, { payload: errors.describeText('Error', `the inspector cannot run code: ${failure.message}`) });
    return;
  }
  const { result, exceptionDetails: details } = reply;
  cell.hasObjects ||= result.objectId !== undefined;
  if (details !== undefined) {
    settle(cell, { error: valueOf(details.exception ?? result) });
    return;
  }
  const value = valueOf(result);
  if (!isPromise(value)) settle(cell, { value });
  else then.call(value, (later) => settle(cell, { value: later }), (error) => settle(cell, { error }));
}

// 'syntax' when it cannot be parsed, and nothing has run.
function evaluate(cell, source, isWrapped) {
  let isReturning = false;
  let details;
  const expression = `${source}\n//# sourceURL=cell-${cell.number}`;
  const options = { expression, replMode: true, awaitPromise: true, silent: true, objectGroup: GROUP };
  post('Runtime.evaluate', options, (failure, reply) => {
    const isSyntax = !isReturning && reply?.exceptionDetails?.exception?.className === 'SyntaxError';
    if (isSyntax) details = reply.exceptionDetails;
    else onReply(cell, failure, reply);
  });
  isReturning = true;
  return details === undefined ? null : onSyntaxError(cell, details, isWrapped);
}

// As at a prompt, what looks like an object is one.
function run(cell) {
  const source = cell.prepare();
  if (source === null) return;
  let bad = null;
  const isWrapped = /^\s*\{/.test(source) && /\}\s*$/.test(source);
  if (isWrapped) bad = evaluate(cell, `(${source}\n)`, true);
  if (!isWrapped || bad !== null) bad = evaluate(cell, source, false);
  if (bad !== null) settle(cell, bad);
  interrupt.drain();
}

function pend() {
  interrupt.watch(onInterrupt);
  control?.unref();
}

function onInterrupt(number) {
  if (active?.number === number) finish(active, ['error', INTERRUPTED.payload]);
}

// prepare(cell) gives what is to be run of its code, or settles it and gives null.
function begin(number, code, env, prepare) {
  count++;
  const cell = { number, code, before: [], outcome: null, isEntered: true, hasObjects: false };
  cell.prepare = () => prepare(cell);
  for (const [name, value] of env) {
    cell.before.push([name, process.env[name]]);
    process.env[name] = value;
  }
  active = cell;
  show.setCell(number);
  interrupt.arm(number);
  const entered = interrupt.guarded(() => run(cell));
  cell.isEntered = false;
  if (entered === null) finish(cell, ['error', INTERRUPTED.payload]);
  else if ('error' in entered) onUncaught(entered.error);
  if (active !== cell) return;
  if (cell.outcome !== null) conclude(cell);
  else pend();
}

// --- what nobody caught

// An error that comes out of the running cell's own lines is that cell's; others are only told.
function onUncaught(error) {
  const cell = active;
  if (cell !== null && errors.isError(error) && errors.placeIn(cell.number, error) !== null && !cell.isEntered) {
    settle(cell, { error });
    return;
  }
  const text = errors.isError(error) ? errors.inspectError(error) : require('util').inspect(error);
  say(`Uncaught ${text}\n`);
}

function onException(error) {
  if (process.listenerCount('uncaughtException') === 0) onUncaught(error);
  else process.emit('uncaughtException', error, 'uncaughtException');
}

function install(socket) {
  control = socket;
  process.setUncaughtExceptionCaptureCallback(onException);
  process.on('beforeExit', () => {
    if (active !== null) finish(active, ['error', errors.describeText('Error', NEVER)]);
  });
}

module.exports = { begin, install, settle };
