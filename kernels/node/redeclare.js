// SPDX-License-Identifier: Apache-2.0
// A later cell may declare a name again. V8 allows that where the kind stays the same: let and class, const, or var and
// function. Where it does not, the later declaration is written as one of the kind that is there.
'use strict';

const { findWords } = require('./lexer');

const TAKEN = /^Identifier '(.+)' has already been declared$/;
const WORDS = ['const', 'let', 'var', 'class', 'function'];

function nameTaken(message) {
  return TAKEN.exec(message)?.[1];
}

// Kinds that the name may have been declared with before.
function kindsOf(name) {
  return Object.prototype.hasOwnProperty.call(globalThis, name) ? ['var'] : ['let', 'const'];
}

function startsWithName(text, name) {
  const after = text.replace(/^\s*\*?\s*/, '');
  return after.startsWith(name) && !/^[\p{ID_Continue}$]/u.test(after.slice(name.length));
}

// Does the statement that begins here declare the name among others: `let a, b`, `const {a, b} =`?
function declaresAmongOthers(text, name) {
  const head = text.slice(0, 2000).split(/;|\n\s*\n/)[0];
  return head.split(/[^\p{ID_Continue}$]+/u).includes(name);
}

function change(code, start, end, made) {
  return code.slice(0, start) + made + code.slice(end);
}

function asExpression(code, place, name, kind, ends) {
  const end = ends.find((at) => at > place.at) ?? code.length;
  const isAsync = /\basync\s+$/.exec(code.slice(0, place.at));
  const start = isAsync === null ? place.at : isAsync.index;
  return change(change(code, end, end, ';'), start, start, `${kind} ${name}=`);
}

// The code with that declaration changed; or null.
function redeclare(code, name, kind) {
  const { found, text, ends } = findWords(code, WORDS);
  const top = found.filter(({ depth }) => depth === 0);
  for (const place of top) {
    const end = place.at + place.word.length;
    const rest = text.slice(end);
    const isStatement = place.word !== 'class' && place.word !== 'function';
    if (isStatement && (startsWithName(rest, name) || declaresAmongOthers(rest, name))) {
      return change(code, place.at, end, kind.padEnd(place.word.length));
    }
    if (!isStatement && startsWithName(rest, name)) return asExpression(code, place, name, kind, ends);
  }
  return null;
}

// All ways to write the code so that the name is declared in a kind that fits.
function waysAround(code, name) {
  return kindsOf(name)
    .map((kind) => redeclare(code, name, kind))
    .filter((made) => made !== null && made !== code);
}

module.exports = { nameTaken, waysAround };
