// SPDX-License-Identifier: Apache-2.0
// require and import as a file in the working directory would have them.
'use strict';

const Module = require('module');
const { join } = require('path');
const { pathToFileURL } = require('url');

const getCwd = process.cwd.bind(process);
const loaders = { cwd: null };

// A module that stands in the working directory, though no file does: names are looked up from there.
function make(cwd) {
  const filename = join(cwd, '[cell]');
  const module = new Module(filename);
  module.filename = filename;
  module.paths = Module._nodeModulePaths(cwd);
  module._compile('module.exports = { require, load: (name, options) => import(name, options) }', filename);
  const { require, load } = module.exports;
  module.exports = {};
  module.loaded = true;
  return { cwd, module, require, load };
}

function here() {
  const cwd = getCwd();
  if (loaders.cwd !== cwd) Object.assign(loaders, make(cwd));
  return loaders;
}

// The cell's line, for an error that comes when nothing of the cell is on the stack any more.
function withPlace(error, place) {
  if (error instanceof Error && !/cell \d+:/.test(error.stack)) error.stack += place.stack.slice('Error'.length);
  return error;
}

async function importOne(name, options) {
  const place = new Error();
  try {
    const { load } = here();
    return await (options === undefined ? load(name) : load(name, options));
  } catch (error) {
    throw withPlace(error, place);
  }
}

// As an import statement does: it is an error if the module has no such name. What a CommonJS module exports
// without Node's being able to tell is found, too.
async function importSome(name, options, names) {
  const place = new Error();
  const module = await importOne(name, options);
  const some = {};
  for (const wanted of names) {
    const from = wanted in module ? module : Object(module.default);
    if (!(wanted in from)) {
      const error = new SyntaxError(`The requested module '${name}' does not provide an export named '${wanted}'`);
      throw withPlace(error, place);
    }
    some[wanted] = from[wanted];
  }
  return some;
}

const meta = {
  get url() {
    return pathToFileURL(join(getCwd(), '[cell]')).href;
  },
  get dirname() {
    return getCwd();
  },
  get filename() {
    return join(getCwd(), '[cell]');
  },
  resolve: (name) => {
    const { require } = here();
    const path = require.resolve(String(name));
    return path.startsWith('/') ? pathToFileURL(path).href : path.replace(/^(?:node:)?/, 'node:');
  },
};

function define(name, value, enumerable = true) {
  Object.defineProperty(globalThis, name, { value, writable: true, configurable: true, enumerable });
}

function makeRequire() {
  const require = (name) => here().require(name);
  require.resolve = (name, options) => here().require.resolve(name, options);
  require.resolve.paths = (name) => here().require.resolve.paths(name);
  require.cache = Module._cache;
  require.extensions = Module._extensions;
  return require;
}

// In a context that has just been opened.
function install() {
  Module._initPaths?.(); // NODE_PATH of the new environment
  const { module } = here();
  const require = makeRequire();
  require.main = module; // so that `if (require.main === module)` is true
  const call = Object.assign((name, options) => importOne(name, options), { some: importSome, meta });
  define('$mport', call, false);
  define('require', require);
  define('module', module);
  define('exports', module.exports);
  define('__filename', join(getCwd(), '[cell]'));
  define('__dirname', getCwd());
}

module.exports = { install };
