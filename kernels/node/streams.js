// SPDX-License-Identifier: Apache-2.0
// process.stdout and process.stderr: written at once, so that what a cell prints is live, in order
// with what its programs print, and not lost when it ends the process.
'use strict';

const { Writable } = require('stream');
const { writeAll } = require('./wire');

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
}

function say(text) {
  writeAll(2, Buffer.from(text));
}

module.exports = { install, say };
