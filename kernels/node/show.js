// SPDX-License-Identifier: Apache-2.0
// Values as representations (PROTOCOL.md), and display().
'use strict';

const util = require('util');
const plain = require('./plain');
const { quote, send, waitForAck } = require('./wire');

const { inspect } = util;
const { isUint8Array } = util.types;
const TEXT_MAX = 1024 * 1024;
const FORMAT = { depth: 5, maxArrayLength: 200, maxStringLength: TEXT_MAX, breakLength: 100 };
const METHODS = [Symbol.for('cay.display'), Symbol.for('Jupyter.display'), 'toMimeBundle'];

const BY_MIME = {
  __proto__: null,
  'text/plain': 'text',
  'text/html': 'html',
  'text/markdown': 'markdown',
  'image/svg+xml': 'svg',
  'text/latex': 'latex',
  'application/javascript': 'javascript',
  'image/png': 'png',
  'image/jpeg': 'jpeg',
  'application/json': 'json',
};

const KINDS = {
  __proto__: null,
  text: encodeText,
  html: encodeString,
  markdown: encodeString,
  svg: encodeString,
  latex: encodeString,
  javascript: encodeString,
  png: encodeImage,
  jpeg: encodeImage,
  json: plain.encode,
  chart: plain.encode,
  metadata: plain.encode,
};

function encodeText(value) {
  const text = String(value);
  return quote(text.length > TEXT_MAX ? `${text.slice(0, TEXT_MAX)}\n[cut at 1 MiB]` : text);
}

function encodeString(value) {
  const text = String(value);
  return text.length > plain.MAX ? null : quote(text);
}

// Bytes, or base64 of them, with or without "data:...," before.
function encodeImage(value) {
  if (isUint8Array(value)) {
    if (value.length > (plain.MAX / 4) * 3) return null;
    return `"${Buffer.from(value.buffer, value.byteOffset, value.length).base64Slice()}"`;
  }
  const text = String(value).replace(/^data:[^,]*,/, '').replace(/\s+/g, '');
  if (text.length > plain.MAX) return null;
  if (!/^[A-Za-z0-9+/]+={0,2}$/.test(text)) throw new TypeError('an image is bytes, or base64 of them');
  return `"${text}"`;
}

function textOf(value) {
  try {
    return inspect(value, FORMAT);
  } catch (error) {
    return `[a ${typeof value} that cannot be shown: ${String(error)}]`;
  }
}

// A bundle as JSON: names of representations, or MIME types, and what they are.
class Bundle {
  fields = [];
  data = [];
  lost = [];
  hasText = false;

  set(name, value) {
    if (value === undefined || value === null) return;
    const kind = BY_MIME[name] ?? name;
    if (kind === 'data' && typeof value === 'object') this.setAll(value);
    else if (kind in KINDS) this.setKind(kind, KINDS[kind](value));
    else if (name.includes('/')) this.setOther(name, value);
    else throw new TypeError(`no such representation: ${name}`);
  }

  setKind(kind, text) {
    if (text === null) {
      this.lost.push(kind);
      return;
    }
    this.hasText ||= kind === 'text';
    this.fields.push(`"${kind}":${text}`);
  }

  setOther(name, value) {
    const text = typeof value === 'string' ? encodeString(value) : plain.encode(value);
    if (text === null) this.lost.push(name);
    else this.data.push(`${quote(name)}:${text}`);
  }

  setAll(bundle) {
    for (const [name, value] of Object.entries(bundle)) this.set(name, value);
  }

  lostText() {
    return quote(`[left out, larger than 8 MiB or not plain: ${this.lost.join(', ')}]`);
  }

  encode() {
    const fields = this.fields.slice();
    if (this.lost.length && !this.hasText) fields.unshift(`"text":${this.lostText()}`);
    if (this.data.length) fields.push(`"data":{${this.data.join(',')}}`);
    return fields.length ? `{${fields.join(',')}}` : '{"text":""}';
  }
}

function encodeBundle(object) {
  const bundle = new Bundle();
  bundle.setAll(object);
  return bundle.encode();
}

function isBundle(value) {
  if (typeof value !== 'object' || value === null) return false;
  const names = Object.keys(value);
  return names.length > 0 && names.every((name) => name in KINDS || name in BY_MIME || name === 'data');
}

// What the value itself says that it looks like; undefined: nothing.
function ownBundle(value) {
  if ((typeof value !== 'object' && typeof value !== 'function') || value === null) return undefined;
  if (util.types.isProxy(value)) return undefined;
  for (const name of METHODS) {
    if (typeof value[name] === 'function') return value[name]();
  }
  return undefined;
}

const PNG = [0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a];
const JPEG = [0xff, 0xd8, 0xff];

function imageKind(value) {
  if (!isUint8Array(value)) return null;
  const starts = (magic) => magic.every((byte, i) => value[i] === byte);
  return starts(PNG) ? 'png' : starts(JPEG) ? 'jpeg' : null;
}

function encodeOrdinary(value) {
  const bundle = new Bundle();
  bundle.set('text', textOf(value));
  const kind = imageKind(value);
  if (kind !== null) bundle.set(kind, value);
  const json = plain.encodeContainer(value);
  if (json !== null) bundle.setKind('json', json);
  return bundle.encode();
}

// The representation of a value; or a promise, if the value says that it looks like one.
function encode(value) {
  const own = ownBundle(value);
  if (util.types.isPromise(own)) return own.then((made) => finish(value, made));
  return finish(value, own);
}

function finish(value, own) {
  if (typeof own !== 'object' || own === null) return encodeOrdinary(value);
  const hasText = 'text' in own || 'text/plain' in own;
  return encodeBundle(hasText ? own : { text: textOf(value), ...own });
}

// --- display()

let current = 0; // the cell that runs

function show(payload) {
  if (current === 0) throw new Error('display() is of use only while a cell runs');
  send('display', current, payload);
  waitForAck(current);
}

function display(...values) {
  for (const value of values) {
    const payload = isBundle(value) ? encodeBundle(value) : encode(value);
    if (typeof payload !== 'string') throw new TypeError('display() cannot wait: await the value first');
    show(payload);
  }
}

for (const kind of ['text', 'html', 'markdown', 'svg', 'latex', 'javascript', 'png', 'jpeg', 'json']) {
  display[kind] = (value) => show(encodeBundle({ [kind]: value }));
}

module.exports = {
  encode,
  display,
  setCell: (cell) => {
    current = cell;
  },
};
