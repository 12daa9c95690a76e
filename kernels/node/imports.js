// SPDX-License-Identifier: Apache-2.0
// Cells are scripts, which know no import and no export: these are written anew as what a script can say, with
// as many lines as before. `import` becomes $mport, as long a word, where it is called.
'use strict';

const { findWords } = require('./lexer');

const NAME = String.raw`[\p{ID_Start}$_][\p{ID_Continue}$]*`;
const QUOTED = String.raw`(?:'[^'\n]*'|"[^"\n]*")`;
const FROM = String.raw`(?<from>${QUOTED})(?:\s*(?:with|assert)\s*(?<with>\{[^}]*\}))?[ \t]*;?`;
const BINDINGS = String.raw`(?<one>${NAME})?\s*,?\s*(?:\*\s*as\s+(?<all>${NAME})|(?<some>\{[^}]*\}))?`;
const IMPORT = new RegExp(String.raw`import\s*(?:${BINDINGS}\s*from\s*)?${FROM}`, 'uy');
const EXPORT_FROM = new RegExp(String.raw`export\s*(?:\*(?:\s*as\s+(?:${NAME}|${QUOTED}))?|\{[^}]*\})\s*from\s*${FROM}`, 'uy');
const EXPORT_LIST = /export\s*\{[^}]*\}[ \t]*;?/uy;
const EXPORT_NAMED_DEFAULT = new RegExp(String.raw`export\s+default\s+(?=(?:async\s+)?function\s*\*?\s*${NAME}|class\s+(?!extends\b)${NAME})`, 'uy');
const EXPORT_DEFAULT = /export\s+default\b/uy;
const EXPORT_DECLARATION = /export\s+(?=(?:const|let|var|function|async|class)\b)/uy;
const MEMBER = new RegExp(String.raw`^(?<name>${NAME}|${QUOTED})(?:\s+as\s+(?<local>${NAME}))?$`, 'u');

function members(list) {
  return list
    .slice(1, -1)
    .split(',')
    .map((text) => text.trim())
    .filter((text) => text !== '')
    .map((text) => MEMBER.exec(text)?.groups);
}

function writeImport({ one, all, some, from, with: attributes }) {
  const options = attributes === undefined ? 'undefined' : `{with:${attributes}}`;
  if (one === undefined && all === undefined && some === undefined) return `void await $mport(${from},${options});`;
  if (all !== undefined) {
    const rest = one === undefined ? '' : `,{default:${one}}=${all}`;
    return `const ${all}=await $mport(${from},${options})${rest};`;
  }
  const wanted = some === undefined ? [] : members(some);
  if (wanted.includes(undefined)) return null;
  if (one !== undefined) wanted.unshift({ name: 'default', local: one });
  const pattern = wanted.map(({ name, local }) => `${name}:${local ?? name}`).join(',');
  const names = wanted.map(({ name }) => (/^['"]/.test(name) ? name : `'${name}'`)).join(',');
  return `const {${pattern}}=await $mport.some(${from},${options},[${names}]);`;
}

function matchAt(pattern, text, at) {
  pattern.lastIndex = at;
  return pattern.exec(text);
}

const RULES = {
  import: [[IMPORT, writeImport]],
  export: [
    [EXPORT_FROM, ({ from }) => `void await $mport(${from});`],
    [EXPORT_LIST, () => ''],
    [EXPORT_NAMED_DEFAULT, () => ''],
    [EXPORT_DEFAULT, () => 'module.exports.default ='],
    [EXPORT_DECLARATION, () => ''],
  ],
};

// What the statement at this place becomes, and how long it was.
function rewriteStatement(text, { word, at }) {
  for (const [pattern, write] of RULES[word]) {
    const found = matchAt(pattern, text, at);
    if (found === null) continue;
    const made = write(found.groups ?? {});
    if (made === null) return null;
    const lines = found[0].split('\n').length - 1;
    return { made: made + '\n'.repeat(lines), length: found[0].length };
  }
  return null;
}

// `import(` and `import.meta`, wherever they stand.
function isCall(text, at) {
  return /^import\s*[.(]/.test(text.slice(at, at + 64)) && !/^import\s*\.\s*(?!meta\b)/.test(text.slice(at, at + 64));
}

function rewrite(code) {
  const { text, found } = findWords(code, ['import', 'export']);
  let out = '';
  let done = 0;
  for (const place of found) {
    if (place.at < done) continue;
    let change = null;
    if (place.word === 'import' && isCall(text, place.at)) change = { made: '$mport', length: 6 };
    else if (place.depth === 0) change = rewriteStatement(text, place);
    if (change === null) continue;
    out += code.slice(done, place.at) + change.made;
    done = place.at + change.length;
  }
  return out + code.slice(done);
}

module.exports = { rewrite };
