// SPDX-License-Identifier: Apache-2.0
// Cells are scripts, which know no import and no export: these are written anew as what a script can say, with
// as many lines as before. `import` becomes $mport, as long a word, where it is called.
'use strict';

const KEYWORDS_BEFORE_REGEX = new Set(
  'return typeof instanceof in of new delete void throw case do else yield await default extends'.split(' '),
);
const PAREN_BEFORE_REGEX = new Set(['if', 'while', 'for', 'with']);
const WORD = /[\p{ID_Start}$_\\#][\p{ID_Continue}$\u200c\u200d\\]*/uy;
const NUMBER = /(?:\d|\.\d)[\w.]*/y;
const STRING = /'(?:[^'\\\n]|\\[^])*'|"(?:[^"\\\n]|\\[^])*"/y;
const REGEX = /\/(?:[^/\\[\n]|\\.|\[(?:[^\]\\\n]|\\.)*\])+\/[\w$]*/y;
const COMMENT = /\/\/[^\n]*|\/\*[^]*?\*\//y;

// Finds the words import and export that are code. `text` has spaces in place of comments.
class Lexer {
  constructor(code) {
    this.code = code;
    this.at = 0;
    this.open = []; // what is open: ( [ { or ` for ${, with the word before a (
    this.last = ''; // the token before
    this.comments = [];
    this.found = [];
  }

  match(pattern) {
    pattern.lastIndex = this.at;
    const found = pattern.exec(this.code);
    if (found === null) return null;
    this.at = pattern.lastIndex;
    return found[0];
  }

  regexMayFollow() {
    if (this.last === ')') return PAREN_BEFORE_REGEX.has(this.closed);
    if (this.last === '}') return /\n\s*$/.test(this.code.slice(Math.max(0, this.at - 80), this.at));
    return KEYWORDS_BEFORE_REGEX.has(this.last) || /^(?:[^\w$\])}'"`\p{ID_Start}]+)?$/u.test(this.last);
  }

  // The text of a template up to its end or to ${, at which code begins again.
  template() {
    const { code } = this;
    for (; this.at < code.length; this.at++) {
      if (code[this.at] === '\\') this.at++;
      else if (code[this.at] === '`') break;
      else if (code.startsWith('${', this.at)) {
        this.at += 2;
        this.open.push('`');
        this.last = '{';
        return;
      }
    }
    this.at++;
    this.last = '`';
  }

  slash() {
    const start = this.at;
    if (this.match(COMMENT) !== null) {
      this.comments.push([start, this.at]);
      return;
    }
    if (this.regexMayFollow() && this.match(REGEX) !== null) this.last = "'";
    else this.mark('/');
  }

  close(char) {
    const opened = this.open.pop();
    this.at++;
    if (opened === '`' && char === '}') this.template();
    else {
      this.closed = opened;
      this.last = char;
    }
  }

  mark(char) {
    this.at++;
    this.last = char;
  }

  word(word) {
    const isKey = this.last === '.' || this.last === '?.';
    if (!isKey && (word === 'import' || word === 'export')) {
      this.found.push({ word, at: this.at - word.length, depth: this.open.length, last: this.last });
    }
    this.last = isKey ? 'x' : word;
  }

  token() {
    const char = this.code[this.at];
    if (char === '/') return this.slash();
    if (char === '`') return this.at++, this.template();
    if (char === '"' || char === "'") return this.match(STRING) === null ? this.at++ : (this.last = "'");
    if (char === '(' || char === '[' || char === '{') {
      this.open.push(char === '(' ? this.last : char);
      return this.mark(char);
    }
    if (char === ')' || char === ']' || char === '}') return this.close(char);
    if (this.match(NUMBER) !== null) return (this.last = '0');
    const word = this.match(WORD);
    if (word !== null) return this.word(word);
    if (/\s/.test(char)) return this.at++;
    return this.mark(char);
  }

  run() {
    while (this.at < this.code.length) this.token();
    let text = this.code;
    for (const [start, end] of this.comments) {
      const blank = this.code.slice(start, end).replace(/[^\n]/g, ' ');
      text = text.slice(0, start) + blank + text.slice(end);
    }
    return { text, found: this.found };
  }
}

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
  if (!/\b(?:import|export)\b/.test(code)) return code;
  const { text, found } = new Lexer(code).run();
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
