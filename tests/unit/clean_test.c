// SPDX-License-Identifier: Apache-2.0
// Code out of a model's words, whole and as it comes.
#include <stdlib.h>
#include <string.h>

#include "agents/clean.h"
#include "check.h"

static const struct {
    const char *language, *text, *code; // NULL: there is none
} cases[] = {
  // as it was asked for
    {"python",     "print(1)",                                                                  "print(1)\n"                     },
    {"python",     "import math\n\nprint(math.pi)\n",                                           "import math\n\nprint(math.pi)\n"},
    {"python",     "x = 1\n\n\n",                                                               "x = 1\n"                        },
    {"python",     "# the answer\n42",                                                          "# the answer\n42\n"             },
    {"python",     "x + 1",                                                                     "x + 1\n"                        },
    {"python",     "total - 2",                                                                 "total - 2\n"                    },
    {"python",     "a < b",                                                                     "a < b\n"                        },
    {"python",     "print",                                                                     "print\n"                        },
    {"javascript", "console.log(2 ** 10)",                                                      "console.log(2 ** 10)\n"         },
 // fences
    {"python",     "```python\nprint(1)\n```",                                                  "print(1)\n"                     },
    {"python",     "```\nprint(1)\n```\n",                                                      "print(1)\n"                     },
    {"python",     "```py\r\nprint(1)\r\n```\r\n",                                              "print(1)\n"                     },
    {"python",     "~~~python\nprint('```')\n~~~",                                              "print('```')\n"                 },
    {"python",     "````python\nx = '''\n```\n'''\n````",                                       "x = '''\n```\n'''\n"            },
    {"python",     "```Python3 title=\"a\"\nprint(1)",                                          "print(1)\n"                     },
    {"javascript", "```js\nlet a = 1\n```",                                                     "let a = 1\n"                    },
    {"python",     "```python:main.py\nprint(1)\n```",                                          "print(1)\n"                     },
 // sentences around
    {"python",     "Here is the code:\n\n```python\nprint(1)\n```\n\nIt prints 1.",             "print(1)\n"                     },
    {"python",     "Sure! Here it is:\nprint(1)\nThis prints the number one.",                  "print(1)\n"                     },
    {"python",     "Here you go:\nfor i in range(3):\n    print(i)\n",
     "for i in range(3):\n    print(i)\n"                                                                                        },
 // several blocks
    {"python",     "```python\na = 1\n```\nThen:\n```python\nprint(a)\n```",                    "a = 1\nprint(a)\n"              },
    {"python",     "```bash\npip install x\n```\n```python\nprint(1)\n```",                     "print(1)\n"                     },
    {"python",     "```python\nprint(1)\n```\nOutput:\n```\n1\n```",                            "print(1)\n"                     },
 // a fence within a text is none
    {"python",     "page = \"\"\"```html:index.html\n<h1>hi</h1>\n```\"\"\"\nprint(len(page))",
     "page = \"\"\"```html:index.html\n<h1>hi</h1>\n```\"\"\"\nprint(len(page))\n"                                               },
    {"python",     "md = '''\n```python\nx\n```\n'''\nprint(md)",
     "md = '''\n```python\nx\n```\n'''\nprint(md)\n"                                                                             },
    {"python",     "a = '''x'''\n```python\nprint(1)\n```",                                     "print(1)\n"                     },
 // none
    {"python",     "",                                                                          NULL                             },
    {"python",     " \n\t\n",                                                                   NULL                             },
    {"python",     "I cannot - as you may know - do that",                                      NULL                             },
    {"python",     "I'm sorry, but I cannot help with that.",                                   NULL                             },
    {"python",     "```bash\nls\n```",                                                          NULL                             },
    {"python",     "```python\n\n```",                                                          NULL                             },
    {"javascript", "```python\nprint(1)\n```",                                                  NULL                             },
};

CHECK_CASE(whole_texts)
{
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        auto_buf code;
        buf_init(&code, 4096);
        bool found = clean_code(cases[i].text, strlen(cases[i].text), cases[i].language, &code);
        if (found != (cases[i].code != NULL) ||
            (found && strcmp(buf_str(&code), cases[i].code) != 0))
            fail_msg("case %zu: got '%s'", i, buf_str(&code));
    }
}

// --- as it comes

static void on_code(void *data, const char *text, size_t len)
{
    assert_true(len > 0);
    (void)buf_append(data, text, len);
}

static void on_again(void *data)
{
    buf_reset(data);
}

static const struct clean_stream_ops ops = {.code = on_code, .again = on_again};

static void feed(const char *text, size_t piece, struct buf *ret)
{
    struct clean_stream *s = clean_stream_new(&ops, ret);
    size_t len = strlen(text);
    for (size_t at = 0; at < len; at += piece)
        clean_stream_feed(s, text + at, len - at < piece ? len - at : piece);
    clean_stream_end(s);
    clean_stream_free(s);
}

CHECK_CASE(streams_are_the_same_at_every_split)
{
    static const struct {
        const char *text, *code;
    } streams[] = {
        {"print(1)\nprint(2)\n",                             "print(1)\nprint(2)\n" },
        {"```python\nprint(1)\n```\nIt prints.",             "print(1)\n"           },
        {"Here is the code:\n```python\nprint(1)\n```",      "print(1)\n"           },
        {"x = f(1) is what it is\n```python\nprint(1)\n```", "print(1)\n"           },
        {"\n\nimport os\n    os.x\n",                        "import os\n    os.x\n"},
        {"```py\na = '`'\n    `b`\n```\n",                   "a = '`'\n    `b`\n"   },
        {"md = '''\n```python\nx\n```\n'''\nprint(md)",
         "md = '''\n```python\nx\n```\n'''\nprint(md)"                              },
        {"I cannot do that, I am afraid.",                   ""                     },
        {"```python\na\n```\nand\n```python\nb\n```",        "a\nb\n"               },
    };
    for (size_t i = 0; i < sizeof streams / sizeof *streams; i++) {
        for (size_t piece = 1; piece < 64; piece++) {
            auto_buf code;
            buf_init(&code, 4096);
            feed(streams[i].text, piece, &code);
            if (strcmp(buf_str(&code), streams[i].code) != 0)
                fail_msg("stream %zu in pieces of %zu: '%s'", i, piece, buf_str(&code));
        }
    }
}

// Nobody waits for the end of a line that is surely code.
CHECK_CASE(code_is_handed_out_at_once)
{
    auto_buf code;
    buf_init(&code, 4096);
    struct clean_stream *s = clean_stream_new(&ops, &code);
    clean_stream_feed(s, "print(", 6);
    assert_string_equal(buf_str(&code), "print(");
    clean_stream_feed(s, "'a long line", 12);
    assert_string_equal(buf_str(&code), "print('a long line");
    clean_stream_free(s);
}

// However long a line is, it is not kept.
CHECK_CASE(long_lines_are_not_held)
{
    auto_buf code;
    buf_init(&code, 1 << 20);
    struct clean_stream *s = clean_stream_new(&ops, &code);
    for (unsigned i = 0; i < 100000; i++)
        clean_stream_feed(s, "`", 1);
    clean_stream_end(s);
    assert_int_equal(code.len, 100000);
    clean_stream_free(s);
}

CHECK_MAIN(cmocka_unit_test(whole_texts), cmocka_unit_test(streams_are_the_same_at_every_split),
           cmocka_unit_test(code_is_handed_out_at_once), cmocka_unit_test(long_lines_are_not_held))
