// SPDX-License-Identifier: Apache-2.0
#include "hand/tar-links.h"

#include <stddef.h>
#include <string.h>

// Where it is, or would be: half of the slots are always free.
static uint32_t slot_of(const struct tar_links *links, dev_t dev, ino_t ino)
{
    uint64_t hash = (ino ^ dev * 0x100000001b3u) * 0x9e3779b97f4a7c15u;
    uint32_t i = (uint32_t)(hash >> 32) % TAR_LINKS_SLOTS;
    while (links->slot[i].text != 0 && (links->slot[i].dev != dev || links->slot[i].ino != ino))
        i = (i + 1) % TAR_LINKS_SLOTS;
    return i;
}

const char *tar_links_find(const struct tar_links *links, dev_t dev, ino_t ino)
{
    uint32_t i = slot_of(links, dev, ino);
    return links->slot[i].text == 0 ? NULL : links->text + links->slot[i].text - 1;
}

void tar_links_add(struct tar_links *links, dev_t dev, ino_t ino, const char *name)
{
    size_t len = strlen(name) + 1;
    uint32_t i = slot_of(links, dev, ino);
    if (links->slot[i].text != 0 || links->n == TAR_LINKS_MAX ||
        len > sizeof links->text - links->text_len)
        return;
    links->n++;
    links->slot[i].dev = dev;
    links->slot[i].ino = ino;
    links->slot[i].text = links->text_len + 1;
    memcpy(links->text + links->text_len, name, len);
    links->text_len += (uint32_t)len;
}
