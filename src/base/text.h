// SPDX-License-Identifier: Apache-2.0
// Small things about text: is it UTF-8, base64, and what people write for sizes, durations and
// counts. The parsers take the whole string or refuse it with ERR_INVALID and a message that quotes
// it and says what would do; a caller puts the flag's name before it with err_wrap. They write the
// result only on success. No state, any thread.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"

// Length of the one character that starts at data (1 to 4), or 0 when none is well formed there:
// overlong forms, surrogates and what lies past U+10FFFF are refused, as RFC 3629 says.
size_t utf8_step(const void *data, size_t len);
uint32_t utf8_decode(const void *data, size_t step); // that character, of so many bytes
bool utf8_valid(const void *data, size_t len);
// How many bytes at the end (0 to 3) are the beginning of a character whose rest may still come:
// for text that is told piece by piece.
size_t utf8_unfinished(const void *data, size_t len);

// Appends a word of a shell's command line that is this text, whatever is in it.
void shell_quote(struct buf *buf, const char *text);

// Standard alphabet, padded. 0, -E2BIG or -ENOMEM.
int base64_append(struct buf *buf, const void *data, size_t len);

// Bytes: "1048576", "64k", "1.5g", "2GiB"; k, m, g and t are powers of 1024.
int parse_size(const char *text, uint64_t *ret_bytes, struct err *err);
// Milliseconds: "500ms", "1.5s", "2m", "1h", "1d"; a plain number is seconds. Parts of a
// millisecond round up, so that a short timeout never turns into none.
int parse_duration(const char *text, int64_t *ret_ms, struct err *err);
// Thousandths of a cpu: "0.5" is 500. Zero is refused.
int parse_cpus(const char *text, uint32_t *ret_millicpus, struct err *err);
// Decimal digits only.
int parse_u64(const char *text, uint64_t min, uint64_t max, uint64_t *ret, struct err *err);

// How many slips of the hand (a letter more, less, other, or swapped with its neighbour) lie
// between two words; SIZE_MAX when one is too long to be a name.
size_t text_distance(const char *a, const char *b);
// Whether `name` is near enough to `word` to be suggested for it.
bool text_near(const char *word, const char *name);
