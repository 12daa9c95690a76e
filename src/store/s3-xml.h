// SPDX-License-Identifier: Apache-2.0
// As much of XML as answers of an S3 have: elements, text, character references; attributes are
// skipped. No document types, so no entities of theirs; nesting, names and length have bounds.
#pragma once

#include <stddef.h>

enum { XML_DEPTH_MAX = 8, XML_NAME_MAX = 64, XML_PATH_MAX = 256 };

// At the end of each element: "ListBucketResult/Contents/Key" and the text in it ("" where elements
// were in it). Not 0: stop, with that.
typedef int (*xml_fn)(void *data, const char *path, const char *text);
// 0, what the function answered, -EBADMSG: this is not XML, -E2BIG, -ENOMEM.
int xml_read(const char *text, size_t len, xml_fn fn, void *data);
