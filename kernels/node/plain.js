// SPDX-License-Identifier: Apache-2.0
// Plain values as JSON, and only those: made by hand, so that it ends at its limit, runs none of the
// cell's code (toJSON, getters) and says nothing that the daemon's reader would refuse.
'use strict';

const { quote } = require('./wire');
const { isDate, isProxy } = require('util').types;

const MAX = 8 * 1024 * 1024;
const DEPTH_MAX = 64;
const INTEGER_MAX = 2 ** 63;
const NOT_PLAIN = Symbol('not plain');
const { getPrototypeOf, getOwnPropertyDescriptor, keys } = Object;
const { isArray } = Array;
const { isFinite: isFiniteNumber } = Number;
const toISOString = Date.prototype.toISOString;

function isPlainObject(value) {
  if (isProxy(value)) return false;
  const proto = getPrototypeOf(value);
  return proto === null || proto === Object.prototype;
}

function number(value) {
  if (!isFiniteNumber(value)) return 'null';
  return Math.abs(value) < INTEGER_MAX ? `${value}` : value.toExponential();
}

class Writer {
  length = 0;
  seen = [];

  keep(text) {
    this.length += text.length + 1;
    if (this.length > MAX) throw NOT_PLAIN;
    return text;
  }

  primitive(value) {
    switch (typeof value) {
      case 'string':
        return this.keep(value.length > MAX ? '' : quote(value));
      case 'number':
        return this.keep(number(value));
      case 'boolean':
        return this.keep(value ? 'true' : 'false');
      default:
        throw NOT_PLAIN;
    }
  }

  array(value) {
    let text = '';
    for (let i = 0; i < value.length; i++) {
      const member = getOwnPropertyDescriptor(value, i);
      if (member !== undefined && !('value' in member)) throw NOT_PLAIN;
      text += (i ? ',' : '') + this.any(member?.value ?? null);
    }
    return `[${text}]`;
  }

  object(value) {
    let text = '';
    for (const key of keys(value)) {
      const member = getOwnPropertyDescriptor(value, key);
      if (!('value' in member)) throw NOT_PLAIN;
      if (member.value === undefined) continue;
      text += `${text === '' ? '' : ','}${this.keep(quote(key))}:${this.any(member.value)}`;
    }
    return `{${text}}`;
  }

  inside(value, fn) {
    if (this.seen.length >= DEPTH_MAX || this.seen.includes(value)) throw NOT_PLAIN;
    this.seen.push(value);
    const text = fn();
    this.seen.pop();
    return text;
  }

  any(value) {
    if (value === null) return this.keep('null');
    if (typeof value !== 'object') return this.primitive(value);
    if (isArray(value) && !isProxy(value)) return this.inside(value, () => this.array(value));
    if (isDate(value)) return isFiniteNumber(+value) ? this.keep(quote(Reflect.apply(toISOString, value, []))) : 'null';
    if (!isPlainObject(value)) throw NOT_PLAIN;
    return this.inside(value, () => this.object(value));
  }
}

// The JSON of a value, or null if it has none that is faithful, or too much of it.
function encode(value) {
  try {
    return new Writer().any(value);
  } catch (error) {
    if (error === NOT_PLAIN) return null;
    throw error;
  }
}

// Objects and lists; a mere string or number is told by its text.
function encodeContainer(value) {
  if (typeof value !== 'object' || value === null || isDate(value)) return null;
  return encode(value);
}

module.exports = { encode, encodeContainer, MAX };
