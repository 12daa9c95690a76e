// SPDX-License-Identifier: Apache-2.0
// Text, bytes and base64, with what every JavaScript has.

const encoder = new TextEncoder();
// The bytes of a file are all of them: a byte order mark, too.
const decoder = new TextDecoder('utf-8', { ignoreBOM: true });

export function toBytes(text: string): Uint8Array {
  return encoder.encode(text);
}

/** Bytes that are not UTF-8 become U+FFFD. */
export function toText(bytes: Uint8Array): string {
  return decoder.decode(bytes);
}

export function fromBase64(text: string): Uint8Array {
  return Uint8Array.from(atob(text), (char) => char.charCodeAt(0));
}

const PIECE = 0x8000; // as many arguments as a call takes everywhere

export function toBase64(bytes: Uint8Array): string {
  let text = '';
  for (let at = 0; at < bytes.length; at += PIECE) text += String.fromCharCode(...bytes.subarray(at, at + PIECE));
  return btoa(text);
}

export function join(pieces: readonly Uint8Array[]): Uint8Array {
  const all = new Uint8Array(pieces.reduce((sum, piece) => sum + piece.length, 0));
  let at = 0;
  for (const piece of pieces) {
    all.set(piece, at);
    at += piece.length;
  }
  return all;
}
