// SPDX-License-Identifier: Apache-2.0
// The kernel for JavaScript and TypeScript: PROTOCOL.md.
'use strict';

const { Socket } = require('net');
const wire = require('./wire');
const interrupt = require('./interrupt');
const streams = require('./streams');
const errors = require('./errors');
const cell = require('./cell');
const show = require('./show');
const types = require('./types');

const { apply } = Reflect;
const { includes } = String.prototype;
let isTypeScript = false;
let tool = null;
let cellEnv = [];

function replaceEnv(strings) {
  for (const name of Object.keys(process.env)) delete process.env[name];
  strings.forEach(wire.setEnv);
}

function loadTool() {
  if (tool === null) return;
  types.load(tool);
  tool = null;
}

function fail(message) {
  wire.send('failed', 0, `{"message":${wire.quote(message)}}`);
}

function open(payload) {
  const [language, cwd, ...env] = wire.strings(payload);
  isTypeScript = language === 'typescript';
  if (isTypeScript && !types.canStrip() && tool === null) return fail('nothing here can take types out of TypeScript');
  try {
    process.chdir(cwd);
  } catch (error) {
    return fail(error.code === 'ENOENT' ? `no such directory: ${cwd}` : `cannot enter ${cwd}: ${error.code}`);
  }
  replaceEnv(env);
  require('./modules').install();
  Object.defineProperty(globalThis, 'display', { value: show.display, writable: true, configurable: true });
  wire.send('opened', 0, '{}');
  if (tool !== null) setImmediate(loadTool);
}

// The code as V8 takes it, or null: then the cell has its error.
function prepare(made) {
  let source = made.code;
  if (isTypeScript) {
    loadTool();
    const stripped = types.strip(source);
    if (stripped.complaint !== undefined) {
      const { message, line, column } = stripped.complaint;
      const payload = errors.describeSyntax(made.number, source, message, { line, column });
      cell.settle(made, { __proto__: null, payload });
      return null;
    }
    if (stripped.map !== undefined) errors.keepMap(made.number, stripped.map);
    source = stripped.code;
  }
  const isModule = apply(includes, source, ['import']) || apply(includes, source, ['export']);
  return isModule ? require('./imports').rewrite(source) : source;
}

const HANDLERS = {
  __proto__: null,
  tool: ({ payload }) => {
    tool = wire.text(payload);
  },
  open: ({ payload }) => open(payload),
  env: ({ payload }) => {
    cellEnv = wire.strings(payload);
  },
  run: ({ cell: number, payload }) => {
    const env = cellEnv;
    cellEnv = [];
    cell.begin(number, wire.text(payload), env, prepare);
  },
  ping: ({ cell: number }) => {
    if (!cell.isRunning()) wire.send('pong', number, '{}');
  },
};

function onData(bytes) {
  wire.feed(bytes);
  for (let frame = wire.next(); frame !== null; frame = wire.next()) {
    try {
      HANDLERS[frame.type]?.(frame);
    } catch {
      cell.giveUp();
    }
  }
}

// What a first cell would have to wait for: V8 compiles functions when they are first called.
function warmUp() {
  show.encode({ a: [1] });
  interrupt.guarded(() => {});
}

function start() {
  interrupt.install();
  streams.install();
  errors.install();
  process.argv.length = 1;
  process.execArgv = [];
  const socket = new Socket({ fd: wire.control.async, readable: true, writable: false });
  socket.on('data', onData);
  socket.on('end', () => wire.exit(0));
  socket.on('error', () => wire.exit(1));
  cell.install(socket);
  const { node } = process.versions;
  wire.send('ready', 0, `{"language":"javascript","version":"${node}","stripsTypes":${types.hasOwn}}`);
  setImmediate(warmUp);
}

start();
