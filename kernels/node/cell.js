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
const { apply } = Reflect;
const { then } = Promise.prototype;
const symbolValue = Symbol.prototype.valueOf;
const GROUP = 'cell';

let active = null; // the cell that runs
let count = 0;
let control = null; // the socket that frames come from
let wasStopped = false; // by the thread of interrupt.js
let taken; // a value on its way out of the inspector

Object.defineProperty(globalThis, 'cay.take', {
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
  const functionDeclaration = "function(){(function(){return this})()['cay.take'](this)}";
  post('Runtime.callFunctionOn', { functionDeclaration, objectId }, () => {});
  const value = taken;
  taken = undefined;
  return remote.type === 'symbol' ? apply(symbolValue, value, []) : value; // the only one that is put into an object
}

// --- the end of a cell

// outcome: {value}, or {error}, or {payload}: an error that is told already.
function settle(cell, outcome) {
  if (cell !== active || cell.outcome !== null) return;
  cell.outcome = outcome;
  if (!cell.isEntered) conclude(cell);
}

const INTERRUPTED = ['error', errors.describeText('Interrupted', 'the cell was interrupted')];
const NEVER = [
  'error',
  errors.describeText('Error', 'what the cell waits for can never happen: nothing is left that could wake it'),
];
// When even the telling fails, as with builtin functions that the cell has replaced.
const UNTOLD = ['error', errors.describeText('Error', 'what came of the cell cannot be told')];

// What is said about the end: [type, payload], or null for nothing; or a promise of it.
function tell(cell, outcome) {
  if ('payload' in outcome) return ['error', outcome.payload];
  if ('error' in outcome) return ['error', errors.describe(cell.number, cell.code, outcome.error)];
  if (outcome.value === undefined) return null;
  const payload = show.encode(outcome.value);
  if (!isPromise(payload)) return ['result', payload];
  const late = (text) => finish(cell, ['result', text]);
  apply(then, payload, [late, (error) => conclude(cell, { __proto__: null, error })]);
  return undefined;
}

function conclude(cell, outcome = cell.outcome) {
  if (cell !== active) return;
  let done = interrupt.guarded(() => tell(cell, outcome));
  if (done !== null && 'error' in done) {
    const { error } = done;
    done = interrupt.guarded(() => tell(cell, { __proto__: null, error }));
  }
  if (done === null) finish(cell, INTERRUPTED);
  else if ('error' in done) finish(cell, UNTOLD);
  else if (done.value !== undefined) finish(cell, done.value);
  else pend();
}

function restoreEnv(cell) {
  for (let i = 0; i < cell.before.length; i++) {
    const { name, before } = cell.before[i];
    if (before === undefined) delete process.env[name];
    else process.env[name] = before;
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

function syntaxMessage(details) {
  const text = details.exception?.description ?? details.text;
  return text.split('\n')[0].replace(/^\w*Error: /, '');
}

function onSyntaxError(cell, details) {
  const [line, column] = errors.original(cell.number, details.lineNumber + 1, details.columnNumber + 1);
  const hint = /^\s*@/.test(cell.code.split('\n')[line - 1] ?? '') ? ' (decorators are not supported)' : '';
  const message = syntaxMessage(details) + hint;
  settle(cell, { __proto__: null, payload: errors.describeSyntax(cell.number, cell.code, message, { line, column }) });
}

function onReply(cell, failure, reply) {
  try {
    take(cell, failure, reply);
  } catch (error) {
    settle(cell, { __proto__: null, error });
  }
}

function take(cell, failure, reply) {
  if (failure !== null && /terminated/.test(failure.message)) {
    settle(cell, { __proto__: null, payload: INTERRUPTED[1] });
    return;
  }
  if (failure !== null) {
    if (wire.isEnding()) return;
    // A process that sends itself a signal has ended for Node, even if it lives: no cell can run again.
    say(`the interpreter has lost its state: ${failure.message}\n`);
    wire.exit(1);
  }
  const { result, exceptionDetails: details } = reply;
  cell.hasObjects ||= result.objectId !== undefined;
  if (details !== undefined) {
    settle(cell, { __proto__: null, error: valueOf(details.exception ?? result) });
    return;
  }
  const value = valueOf(result);
  if (!isPromise(value)) settle(cell, { __proto__: null, value });
  else apply(then, value, [(later) => settle(cell, { __proto__: null, value: later }), (error) => settle(cell, { __proto__: null, error })]);
}

// null; or, if it cannot be parsed and nothing has run, what the inspector says about that.
function evaluate(cell, source) {
  let isReturning = false;
  let details = null;
  cell.isPosted = true;
  const expression = `${source}\n//# sourceURL=cell-${cell.number}`;
  const options = { expression, replMode: true, awaitPromise: true, silent: true, objectGroup: GROUP };
  post('Runtime.evaluate', options, (failure, reply) => {
    const isSyntax = !isReturning && reply?.exceptionDetails?.exception?.className === 'SyntaxError';
    if (isSyntax) details = reply.exceptionDetails;
    else onReply(cell, failure, reply);
  });
  isReturning = true;
  return details;
}

// Names that were declared otherwise before: each may have to be written in two ways.
function evaluateAnew(cell, source, details, left = 8) {
  const { nameTaken, waysAround } = require('./redeclare');
  const name = nameTaken(syntaxMessage(details));
  if (name === undefined || left === 0) return details;
  for (const way of waysAround(source, name)) {
    const still = evaluate(cell, way);
    if (still === null) return null;
    const other = nameTaken(syntaxMessage(still));
    if (other !== undefined && other !== name) return evaluateAnew(cell, way, still, left - 1);
  }
  return details;
}

// As at a prompt, what looks like an object is one.
function run(cell) {
  const source = cell.prepare();
  if (source === null) return;
  const isWrapped = /^\s*\{/.test(source) && /\}\s*$/.test(source) && evaluate(cell, `(${source}\n)`) === null;
  if (!isWrapped) {
    let bad = evaluate(cell, source);
    if (bad !== null) bad = evaluateAnew(cell, source, bad);
    if (bad !== null) onSyntaxError(cell, bad);
  }
  interrupt.drain();
}

// Node's count of what keeps it awake may be wrong after a callback of a timer was stopped: then the end of all
// waiting is not noticed any more, but nothing is taken for it that is none.
function pend() {
  interrupt.watch(onInterrupt);
  if (!wasStopped) control?.unref();
}

function onInterrupt(number) {
  wasStopped = true;
  if (active?.number === number) finish(active, INTERRUPTED);
}

// prepare(cell) gives what is to be run of its code, or settles it and gives null.
function begin(number, code, env, prepare) {
  count++;
  const cell = { number, code, before: [], outcome: null, isEntered: true, isPosted: false, hasObjects: false };
  cell.prepare = () => prepare(cell);
  for (let i = 0; i < env.length; i++) cell.before[i] = wire.setEnv(env[i]);
  active = cell;
  show.setCell(number);
  interrupt.arm(number);
  const entered = interrupt.guarded(() => run(cell));
  cell.isEntered = false;
  if (entered === null) finish(cell, INTERRUPTED);
  else if ('error' in entered && cell.isPosted) onUncaught(entered.error);
  else if ('error' in entered) cell.outcome = entered;
  if (active !== cell) return;
  if (cell.outcome !== null) conclude(cell);
  else pend();
}

// Something of ours has failed under it.
function giveUp() {
  if (active !== null) finish(active, UNTOLD);
}

// --- what nobody caught

// An error that comes out of the running cell's own lines is that cell's; others are only told.
function onUncaught(error) {
  const cell = active;
  if (cell !== null && errors.isError(error) && errors.placeIn(cell.number, error) !== null && !cell.isEntered) {
    settle(cell, { __proto__: null, error });
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
    if (active === null) return;
    if (interrupt.isInterrupted(active.number)) onInterrupt(active.number);
    else finish(active, NEVER);
  });
}

function isRunning() {
  return active !== null;
}

module.exports = { begin, install, settle, giveUp, isRunning };
