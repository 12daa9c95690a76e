// SPDX-License-Identifier: Apache-2.0
// TypeScript: types are taken out of a cell, and not checked. Where it is enough to put spaces in their place,
// that is done, and every place stays what it was; enums and the like are written anew, with a map of places.
'use strict';

const Module = require('module');

// Node's own, as long as it can do both.
const [major, minor] = process.versions.node.split('.').map(Number);
const hasOwn = typeof Module.stripTypeScriptTypes === 'function' && (major > 22 || minor >= 13) && major < 26;
let tool = null;

function load(source) {
  const module = new Module('/cay/typescript.js');
  module.paths = [];
  module._compile(source, '/cay/typescript.js');
  tool = module.exports;
}

// Node warns that this is an experiment; the author of a cell has not chosen it.
function stripWithNode(code, mode) {
  const { emitWarning } = process;
  process.emitWarning = () => {};
  try {
    const made = Module.stripTypeScriptTypes(code, { mode, sourceMap: mode === 'transform' });
    const found = /\n\/\/# sourceMappingURL=data:application\/json;base64,(\S+)\s*$/.exec(made);
    if (found === null) return { code: made };
    return { code: made.slice(0, found.index), map: Buffer.from(found[1], 'base64').toString() };
  } finally {
    process.emitWarning = emitWarning;
  }
}

function stripWithTool(code, mode) {
  return tool.transformSync(code, {
    mode: mode === 'strip' ? 'strip-only' : mode,
    module: true,
    sourceMap: mode === 'transform',
    filename: 'cell',
    transform: { verbatimModuleSyntax: true, noEmptyExport: true },
  });
}

const DIGITS = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/';

function* numbers(text) {
  let value = 0;
  let shift = 0;
  for (const char of text) {
    const digit = DIGITS.indexOf(char);
    value += (digit & 31) << shift;
    shift += 5;
    if (digit & 32) continue;
    yield value & 1 ? -(value >> 1) : value >> 1;
    value = shift = 0;
  }
}

// For each line of what was made: [column, line before, column before], all from 0.
function readMappings(mappings) {
  let line = 0;
  let column = 0;
  return mappings.split(';').map((text) => {
    let made = 0;
    const segments = [];
    for (const segment of text.split(',')) {
      const [step, , lines, columns] = numbers(segment);
      made += step ?? 0;
      if (lines === undefined) continue;
      line += lines;
      column += columns;
      segments.push([made, line, column]);
    }
    return segments;
  });
}

function makeMap(map) {
  let lines = null; // read when it is first needed
  return (line, column) => {
    lines ??= readMappings(JSON.parse(map).mappings);
    const before = (lines[line - 1] ?? []).filter(([made]) => made < column);
    const [, oldLine, oldColumn] = before.at(-1) ?? lines[line - 1]?.[0] ?? [];
    return oldLine === undefined ? null : [oldLine + 1, oldColumn + 1];
  };
}

// The tool's complaint as {message, line, column}.
function complaint(error) {
  const text = String(error?.message ?? error);
  if (error?.startLine > 0) return { message: text, line: error.startLine, column: (error.startColumn ?? 0) + 1 };
  const place = /\[(\d+):(\d+)\]/.exec(text);
  const message = /^\s*(?:x|×)\s*(.*)/m.exec(text)?.[1] ?? text.split('\n')[0];
  return { message, line: Number(place?.[1] ?? 1), column: Number(place?.[2] ?? 1) };
}

// {code, map?}, or {complaint}. map tells where a place of the made code was before.
function strip(code) {
  const with_ = tool === null ? stripWithNode : stripWithTool;
  try {
    return { code: with_(code, 'strip').code };
  } catch {
    // Perhaps something that takes more than spaces.
  }
  try {
    const made = with_(code, 'transform');
    return { code: made.code, map: made.map === undefined ? undefined : makeMap(made.map) };
  } catch (error) {
    return { complaint: complaint(error) };
  }
}

module.exports = { hasOwn, load, strip, canStrip: () => hasOwn || tool !== null };
