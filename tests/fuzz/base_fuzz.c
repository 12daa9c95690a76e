// SPDX-License-Identifier: Apache-2.0
// Everything in base that reads what strangers write: the number parsers, UTF-8, the JSON writer,
// flags.
#include <assert.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/opt.h"
#include "base/text.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void fuzz_parsers(const char *text)
{
    struct err err;
    uint64_t u64;
    int64_t ms;
    uint32_t cpus;
    if (parse_size(text, &u64, &err) < 0)
        assert(err.code == ERR_INVALID);
    if (parse_duration(text, &ms, &err) == 0)
        assert(ms >= 0);
    if (parse_cpus(text, &cpus, &err) == 0)
        assert(cpus > 0);
    if (parse_u64(text, 5, 500, &u64, &err) == 0)
        assert(u64 >= 5 && u64 <= 500);
    (void)text_near(text, "memory");
}

// Whatever goes in, what comes out is UTF-8 in quotes without a raw control character.
static void fuzz_json(const uint8_t *data, size_t size)
{
    auto_buf buf;
    struct json json;
    buf_init(&buf, size * 6 + 2);
    json_init(&json, &buf);
    json_put_strn(&json, data, size);
    assert(json_finish(&json) == 0);
    assert(utf8_valid(buf.data, buf.len));
    for (size_t i = 0; i < buf.len; i++)
        assert((unsigned char)buf.data[i] >= 0x20);
}

static void fuzz_flags(char *text, size_t size)
{
    static const struct opt opts[] = {
        {.name = "memory", .letter = 'm', .metavar = "SIZE", .help = ""},
        {.name = "json",                .letter = 'j',                .help = ""    },
    };
    const struct opt_spec spec = {.opts = opts, .n_opts = 2, .stop_at_word = size % 2 == 0};
    char *argv[16] = {text};
    int argc = 0;
    for (size_t at = 0; at < size && argc < 16; at += strlen(text + at) + 1)
        argv[argc++] = text + at;
    struct opt_reader reader;
    struct err err;
    const char *value;
    opt_start(&reader, &spec, argc, argv);
    while (opt_next(&reader, &value, &err) >= 0)
        assert(reader.next <= argc);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = malloc(size + 1);
    if (text == NULL)
        return 0;
    memcpy(text, data, size);
    text[size] = '\0';
    fuzz_parsers(text);
    fuzz_json(data, size);
    fuzz_flags(text, size);
    free(text);
    return 0;
}
