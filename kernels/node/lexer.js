// SPDX-License-Identifier: Apache-2.0
// Finds words that are code and not text: enough of the language's tokens for that, and no more.
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

class Lexer {
  constructor(code, wanted) {
    this.code = code;
    this.wanted = wanted;
    this.ends = []; // where a } closes the last thing that was open
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
    if (char === '}' && this.open.length === 0) this.ends.push(this.at);
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
    if (!isKey && this.wanted.has(word)) {
      this.found.push({ word, at: this.at - word.length, depth: this.open.length });
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
    return { text, found: this.found, ends: this.ends };
  }
}

// found: {word, at, depth} for each of the words; depth 0: not inside anything. text: the code with spaces in
// place of comments. ends: places after a } that is followed by depth 0.
function findWords(code, words) {
  return new Lexer(code, new Set(words)).run();
}

module.exports = { findWords };
