// SPDX-License-Identifier: Apache-2.0
// What answers that are not good mean, and which setting to look at.
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "store/s3-internal.h"
#include "store/s3-xml.h"

struct said {
    char code[64], message[160];
};

static void copy(char *to, size_t size, const char *text)
{
    size_t n = 0;
    for (; *text != '\0' && n + 1 < size; text++)
        to[n++] = (unsigned char)*text >= ' ' && *text != 0x7f ? *text : ' ';
    to[n] = '\0';
}

static int on_element(void *data, const char *path, const char *text)
{
    struct said *said = data;
    if (strcmp(path, "Error/Code") == 0)
        copy(said->code, sizeof said->code, text);
    else if (strcmp(path, "Error/Message") == 0)
        copy(said->message, sizeof said->message, text);
    return 0;
}

struct meaning {
    long status;      // 0: any
    const char *code; // NULL: any
    enum s3_end end;
    enum err_code err;
    const char *say; // what is wrong, and what to do
};

// The first that fits.
static const struct meaning meanings[] = {
    {0,   "NoSuchKey",                    S3_BAD,   ERR_NOT_FOUND,   "there is no such object"                        },
    {0,   "NoSuchUpload",                 S3_BAD,   ERR_NOT_FOUND,   "there is no such upload"                        },
    {0,   "NoSuchBucket",                 S3_BAD,   ERR_DENIED,      "s3-bucket: there is no such bucket"             },
    {0,   "InvalidBucketName",            S3_BAD,   ERR_DENIED,      "s3-bucket: that is no name for a bucket"        },
    {0,   "InvalidAccessKeyId",           S3_BAD,   ERR_DENIED,      "s3-access-key: it is not known there"           },
    {0,   "SignatureDoesNotMatch",        S3_BAD,   ERR_DENIED,
     "s3-secret-key: it does not belong to s3-access-key"                                                             },
    {0,   "RequestTimeTooSkewed",         S3_BAD,   ERR_DENIED,      "this machine's clock is wrong: set it"          },
    {0,   "RequestExpired",               S3_BAD,   ERR_DENIED,      "this machine's clock is wrong: set it"          },
    {0,   "AuthorizationHeaderMalformed", S3_BAD,   ERR_DENIED,      "s3-region: the bucket is in another"            },
    {0,   "PermanentRedirect",            S3_BAD,   ERR_DENIED,      "s3-endpoint, s3-region: the bucket is elsewhere"},
    {0,   "AccessDenied",                 S3_BAD,   ERR_DENIED,      "s3-access-key: it may not do this in the bucket"},
    {0,   "RequestTimeout",               S3_AGAIN, ERR_UNAVAILABLE, "it waited too long"                             },
    {0,   "OperationAborted",             S3_AGAIN, ERR_UNAVAILABLE, "something else was in the way"                  },
    {0,   "BadDigest",                    S3_AGAIN, ERR_UNAVAILABLE, "something else arrived than was sent"           },
    {0,   "XAmzContentSHA256Mismatch",    S3_AGAIN, ERR_UNAVAILABLE,
     "something else arrived than was sent"                                                                           },
    {0,   "IncompleteBody",               S3_AGAIN, ERR_UNAVAILABLE, "less arrived than was sent"                     },
    {0,   "QuotaExceeded",                S3_BAD,   ERR_EXHAUSTED,   "the bucket is full"                             },
    {0,   "EntityTooLarge",               S3_BAD,   ERR_EXHAUSTED,   "the object is too large for it"                 },
    {0,   "KeyTooLongError",              S3_BAD,   ERR_INVALID,     "the key is too long"                            },
    {301, NULL,                           S3_BAD,   ERR_DENIED,      "s3-endpoint, s3-region: the bucket is elsewhere"},
    {302, NULL,                           S3_BAD,   ERR_DENIED,      "s3-endpoint: it sends us elsewhere"             },
    {307, NULL,                           S3_BAD,   ERR_DENIED,      "s3-endpoint, s3-region: the bucket is elsewhere"},
    {308, NULL,                           S3_BAD,   ERR_DENIED,      "s3-endpoint: it sends us elsewhere"             },
    {401, NULL,                           S3_BAD,   ERR_DENIED,      "s3-access-key, s3-secret-key: they are refused" },
    {403, NULL,                           S3_BAD,   ERR_DENIED,      "s3-access-key, s3-secret-key: they are refused" },
    {404, NULL,                           S3_BAD,   ERR_NOT_FOUND,   "there is no such object"                        },
    {408, NULL,                           S3_AGAIN, ERR_UNAVAILABLE, "it waited too long"                             },
    {412, NULL,                           S3_BAD,   ERR_UNAVAILABLE, "the object was replaced meanwhile"              },
    {416, NULL,                           S3_BAD,   ERR_INVALID,     "the object ends before that"                    },
    {429, NULL,                           S3_AGAIN, ERR_UNAVAILABLE, "too many requests"                              },
    {500, NULL,                           S3_AGAIN, ERR_UNAVAILABLE, "it failed"                                      },
    {501, NULL,                           S3_BAD,   ERR_UNSUPPORTED, "it does not know how to do that"                },
    {502, NULL,                           S3_AGAIN, ERR_UNAVAILABLE, "it failed"                                      },
    {503, NULL,                           S3_AGAIN, ERR_UNAVAILABLE, "it is overloaded, or down"                      },
    {504, NULL,                           S3_AGAIN, ERR_UNAVAILABLE, "it failed"                                      },
    {507, NULL,                           S3_BAD,   ERR_EXHAUSTED,   "it is full"                                     },
};

static const struct meaning *find(long status, const char *code)
{
    for (size_t i = 0; i < sizeof meanings / sizeof *meanings; i++) {
        const struct meaning *m = &meanings[i];
        if (m->code != NULL ? strcmp(m->code, code) == 0 : m->status == status)
            return m;
    }
    return NULL;
}

int s3_say_no_s3(struct err *err)
{
    return err_set(err, ERR_UNAVAILABLE, "s3-endpoint: what answers there is no S3");
}

enum s3_end s3_read_error(struct s3 *s3, struct s3_call *call, struct err *err)
{
    struct said said = {0};
    if (xml_read(buf_str(&call->answer), call->answer.len, on_element, &said) < 0)
        said = (struct said){0};
    copy(call->code, sizeof call->code, said.code);
    if (strcmp(said.code, "NoSuchKey") == 0)
        s3->bucket_seen_ns = clock_ns();
    const struct meaning *m = find(call->status, said.code);
    if (m == NULL) {
        (void)err_set(err, ERR_UNAVAILABLE, "the store answered %ld %s %s", call->status, said.code,
                      said.message);
        return call->status >= 500 ? S3_AGAIN : S3_BAD;
    }
    (void)err_set(err, m->err, "%s (the store answered %ld%s%s%s%s)", m->say, call->status,
                  said.code[0] != '\0' ? " " : "", said.code, said.message[0] != '\0' ? ": " : "",
                  said.message);
    return m->end;
}
