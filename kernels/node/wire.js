// SPDX-License-Identifier: Apache-2.0
// Frames to and from the daemon (PROTOCOL.md), and the bytes of the two streams. What this needs of
// the language is taken here, before a cell can put something else in its place.
'use strict';

const fs = require('fs');
const { readSync, writeSync, openSync, closeSync } = fs;
const { from, concat, allocUnsafeSlow, byteLength } = Buffer;
const reallyExit = process.reallyExit.bind(process);
const wait = Atomics.wait;
const naps = new Int32Array(new SharedArrayBuffer(4));

const CHUNK = 1 << 16;
let isOver = false;

function exit(code) {
  isOver = true;
  reallyExit(code);
}

function isEnding() {
  return isOver || process._exiting === true;
}

// Another open file of the same pipe, which is closed in programs that a cell starts. Node offers no
// other way to that; where there is no /proc the first one has to do.
function own(fd, flags) {
  try {
    return openSync('/proc/self/fd/' + fd, flags);
  } catch {
    return fd;
  }
}

const control = { sync: own(60, 'r'), async: own(60, 'r'), out: own(61, 'w') };
if (control.sync !== 60 && control.async !== 60) closeSync(60);
if (control.out !== 61) closeSync(61);

function nap() {
  wait(naps, 0, 0, 1);
}

// A program that a cell started may have made the pipe one that does not block: it is shared.
function writeAll(fd, bytes) {
  let at = 0;
  while (at < bytes.length) {
    try {
      at += writeSync(fd, bytes, at, bytes.length - at);
    } catch (error) {
      if (error.code !== 'EAGAIN' && error.code !== 'EINTR') return false;
      nap();
    }
  }
  return true;
}

function writeText(fd, text) {
  let done = 0;
  try {
    done = writeSync(fd, text);
  } catch {
    // Slowly, then.
  }
  const left = byteLength(text) - done;
  if (left > 0) writeAll(fd, apply(subarray, from(text, 'utf8'), [done]));
}

const { stringify } = JSON;
const { apply } = Reflect;
const { replace, indexOf: findText, slice: sliceText } = String.prototype;
const { indexOf, subarray, latin1Slice, utf8Slice } = Buffer.prototype;
const LONE = /[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]/g;

// As JSON. Half a surrogate pair is no text, and not let through.
function quote(text) {
  return stringify(apply(replace, text, [LONE, '\ufffd']));
}

const queue = [];

function put(type, cell, payload) {
  const text = `${type} ${cell} ${byteLength(payload)}\n${payload}`;
  queue[queue.length] = from(text, 'utf8');
}

function flush() {
  const bytes = queue.length === 1 ? queue[0] : concat(queue);
  queue.length = 0;
  if (!writeAll(control.out, bytes)) exit(1);
}

function send(type, cell, payload) {
  put(type, cell, payload);
  flush();
}

// --- what comes in

const NEWLINE = 10;
let waiting = allocUnsafeSlow(0);

function take(bytes) {
  waiting = waiting.length ? concat([waiting, bytes]) : bytes;
}

const pieces = { list: [], missing: 0 };

// Large payloads are not put together again for each piece that comes.
function feed(bytes) {
  if (pieces.missing > bytes.length) {
    pieces.list[pieces.list.length] = bytes;
    pieces.missing -= bytes.length;
    return;
  }
  if (pieces.missing > 0) {
    pieces.list[pieces.list.length] = bytes;
    bytes = concat(pieces.list);
    pieces.list = [];
    pieces.missing = 0;
  }
  take(bytes);
}

// "run 3 120": what is before the first space, between the two, and behind the second.
function readHeader(text) {
  const first = apply(findText, text, [' ']);
  const second = apply(findText, text, [' ', first + 1]);
  const part = (...ends) => apply(sliceText, text, ends);
  return { type: part(0, first), cell: +part(first + 1, second), length: +part(second + 1) };
}

// The next whole frame, or null.
function next() {
  if (pieces.missing > 0) return null;
  const end = apply(indexOf, waiting, [NEWLINE]);
  if (end < 0) return null;
  const { type, cell, length } = readHeader(apply(latin1Slice, waiting, [0, end]));
  const stop = end + 1 + length;
  if (waiting.length < stop) {
    pieces.list = [waiting];
    pieces.missing = stop - waiting.length;
    waiting = allocUnsafeSlow(0);
    return null;
  }
  const payload = apply(subarray, waiting, [end + 1, stop]);
  waiting = apply(subarray, waiting, [stop]);
  return { type, cell, payload };
}

// Waits for bytes without letting anything else happen.
function readSome() {
  const bytes = allocUnsafeSlow(CHUNK);
  for (;;) {
    try {
      const n = readSync(control.sync, bytes, 0, CHUNK, null);
      if (n === 0) exit(0);
      return apply(subarray, bytes, [0, n]);
    } catch (error) {
      if (error.code !== 'EAGAIN' && error.code !== 'EINTR') exit(1);
      nap();
    }
  }
}

// Until the display of this cell is dealt with. The daemon sends nothing else meanwhile.
function waitForAck(cell) {
  for (;;) {
    const frame = next();
    if (frame === null) feed(readSome());
    else if (frame.type === 'ack' && (frame.cell === cell || frame.cell === 0)) return;
  }
}

function text(payload) {
  return apply(utf8Slice, payload, [0, payload.length]);
}

// Each ended by NUL.
function strings(payload) {
  const list = [];
  const all = text(payload);
  for (let at = 0; at < all.length; ) {
    const end = apply(findText, all, ['\0', at]);
    list[list.length] = apply(sliceText, all, [at, end]);
    at = end + 1;
  }
  return list;
}

// NAME=value
function setEnv(variable) {
  const at = apply(findText, variable, ['=']);
  const name = apply(sliceText, variable, [0, at]);
  const before = process.env[name];
  process.env[name] = apply(sliceText, variable, [at + 1]);
  return { name, before };
}

module.exports = { control, writeAll, writeText, quote, put, flush, send, feed, next, waitForAck, text, strings, setEnv, exit, isEnding };
