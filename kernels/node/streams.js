// SPDX-License-Identifier: Apache-2.0
// process.stdout and process.stderr: written at once, so that what a cell prints is live, in order
// with what its programs print, and not lost when it ends the process.
'use strict';

const { Writable } = require('stream');
const { writeAll, writeText } = require('./wire');

const { apply } = Reflect;

function make(fd) {
  const stream = new Writable({
    write(chunk, encoding, done) {
      writeAll(fd, chunk);
      done();
    },
    // Standard streams cannot be closed.
    destroy(error, done) {
      done(error);
    },
  });
  // What is written almost always comes this way: nothing has to be queued.
  const { write } = stream;
  stream.write = function (chunk, encoding, done) {
    if (typeof chunk !== 'string' || typeof encoding === 'string' || this.writableLength > 0 || this.writableEnded) {
      return apply(write, this, [chunk, encoding, done]);
    }
    writeText(fd, chunk);
    const then = typeof encoding === 'function' ? encoding : done;
    if (typeof then === 'function') process.nextTick(then);
    return true;
  };
  stream.fd = fd;
  stream._isStdio = true;
  stream.destroySoon = stream.destroy;
  return stream;
}

function install() {
  for (const [name, fd] of [['stdout', 1], ['stderr', 2]]) {
    let stream;
    Object.defineProperty(process, name, {
      configurable: true,
      enumerable: true,
      get: () => (stream ??= make(fd)),
      set: (value) => {
        stream = value;
      },
    });
  }
  replaceConsole();
}

// With an inspector at work, Node's own console tells it everything that is written, and it keeps that.
function replaceConsole() {
  const { stdout, stderr } = process;
  const plain = new console.Console({ stdout, stderr });
  for (const name of Object.keys(plain)) {
    if (typeof console[name] === 'function' && name !== 'Console') console[name] = plain[name];
  }
}

function say(text) {
  writeText(2, text);
}

module.exports = { install, say };
