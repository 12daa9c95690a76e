// SPDX-License-Identifier: Apache-2.0
// Errors as a cell's author should see them: their lines, not ours.
'use strict';

const { inspect } = require('util');
const { quote } = require('./wire');

const MESSAGE_MAX = 64 * 1024;
const LINES_MAX = 200;
const LINE_MAX = 4096;
const MAPS_MAX = 256;
const OURS = /^(?:\/cay\/|node:inspector|node:vm)/;
const PLACE = /cell-(\d+):(\d+):(\d+)/g;

const maps = []; // the last {cell, map}: where its lines were before types were taken out

function keepMap(cell, map) {
  maps.push({ cell, map });
  if (maps.length > MAPS_MAX) maps.shift();
}

function original(cell, line, column) {
  const found = maps.find((kept) => kept.cell === cell);
  return found?.map(line, column) ?? [line, column];
}

function showPlaces(text) {
  return text.replace(PLACE, (all, cell, line, column) => {
    const place = original(Number(cell), Number(line), Number(column));
    return `cell ${cell}:${place[0]}:${place[1]}`;
  });
}

const { apply } = Reflect;
const { startsWith } = String.prototype;
const objectToString = Object.prototype.toString;
const errorToString = Error.prototype.toString;

function headline(error) {
  try {
    return apply(errorToString, error, []);
  } catch {
    return '<error>';
  }
}

function isCell(frame) {
  return apply(startsWith, String(frame.getFileName() ?? frame.getScriptNameOrSourceURL()), ['cell-']);
}

// What is below the cell on the stack is how we called it; what is above may be something of ours that it called.
function prepareStackTrace(error, frames) {
  let text = headline(error);
  const last = frames.findLastIndex(isCell);
  for (let i = 0; i < frames.length; i++) {
    if (!OURS.test(frames[i].getFileName() ?? '')) text += `\n    at ${frames[i]}`;
    else if (i > last && last >= 0) break;
  }
  return showPlaces(text);
}

function install() {
  Object.defineProperty(Error, 'prepareStackTrace', {
    value: prepareStackTrace,
    writable: true,
    configurable: true,
  });
}

function stackOf(error) {
  const { stack } = error;
  return typeof stack === 'string' ? showPlaces(stack) : '';
}

// The place in this cell that is nearest to where the error was made.
function placeIn(cell, error) {
  const found = new RegExp(`cell ${cell}:(\\d+):(\\d+)`).exec(stackOf(error));
  return found === null ? null : { line: Number(found[1]), column: Number(found[2]) };
}

function cut(text, max) {
  return text.length > max ? `${text.slice(0, max)}...` : text;
}

// The line itself, with a mark below the column.
function excerpt(cell, code, place) {
  const line = code.split('\n')[place.line - 1];
  if (line === undefined || line.length > LINE_MAX) return [`cell ${cell}:${place.line}`];
  const lead = line.slice(0, place.column - 1).replace(/[^\t]/g, ' ');
  return [`cell ${cell}:${place.line}`, line, `${lead}^`, ''];
}

function encode(name, message, lines, line) {
  const kept = lines.slice(0, LINES_MAX).map((text) => quote(cut(text, LINE_MAX)));
  const fields = [
    `"name":${quote(cut(name, 256))}`,
    `"message":${quote(cut(message, MESSAGE_MAX))}`,
    `"traceback":[${kept.join(',')}]`,
    `"lineNumber":${line ?? 'null'}`,
  ];
  return `{${fields.join(',')}}`;
}

function isError(value) {
  return value instanceof Error || apply(objectToString, value, []) === '[object Error]';
}

function inspectError(error) {
  try {
    return showPlaces(inspect(error, { depth: 2, maxStringLength: MESSAGE_MAX }));
  } catch {
    return headline(error);
  }
}

// Frames of Node itself say nothing about a cell.
function isOfUse(line) {
  return !/^ +at .*\(?node:(?:internal|inspector|vm)/.test(line);
}

function describe(cell, code, error) {
  if (!isError(error)) {
    const shown = inspect(error);
    return encode('Uncaught', shown, [`Uncaught ${cut(shown, LINE_MAX)}`], null);
  }
  const place = placeIn(cell, error);
  const lines = inspectError(error).split('\n').filter(isOfUse);
  const head = place === null ? [] : excerpt(cell, code, place);
  return encode(String(error.name), String(error.message), head.concat(lines), place?.line);
}

// One that the parser found: it has no stack.
function describeSyntax(cell, code, message, place) {
  const lines = code.split('\n').length;
  const at = { line: Math.min(place.line, lines), column: place.column };
  const head = excerpt(cell, code, at);
  return encode('SyntaxError', message, head.concat(`SyntaxError: ${message}`), at.line);
}

function describeText(name, message) {
  return encode(name, message, [`${name}: ${message}`], null);
}

module.exports = { install, keepMap, original, placeIn, isError, inspectError, describe, describeSyntax, describeText };
