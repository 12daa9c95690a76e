// SPDX-License-Identifier: Apache-2.0
#include "git/check.h"

#include <stdio.h>
#include <string.h>

// -- URLs

static bool is_plain_path(const char *path)
{
    static const char plain[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
                                "-._~!$&'()*+,;=:@%";
    while (*path == '/') {
        size_t n = strspn(++path, plain);
        if (n > 0 && n <= 2 && strncmp(path, "..", n) == 0)
            return false;
        if (n == 0 && *path != '\0')
            return false; // nothing between two slashes
        path += n;
    }
    return *path == '\0';
}

int git_check_url(const char *text, char ret[GIT_URL_MAX], struct url *ret_parts, struct err *err)
{
    struct url url;
    char origin[URL_ORIGIN_MAX];
    if (url_parse(text, &url, err) < 0)
        return -1;
    if (url.has_user)
        return err_set(err, ERR_INVALID,
                       "credentials do not belong into it, where logs and the repository "
                       "keep them: PUT /secrets/{name} and name it as 'secret'");
    if (strlen(url.path) < 2 || !is_plain_path(url.path))
        return err_set(err, ERR_INVALID,
                       "must have a plain path, such as https://HOST/OWNER/NAME.git");
    (void)url_origin(&url, origin);
    if (snprintf(ret, GIT_URL_MAX, "%s%s", origin, url.path) >= GIT_URL_MAX)
        return err_set(err, ERR_INVALID, "is too long");
    *ret_parts = url;
    return 0;
}

int git_default_dir(const char *url, char ret[GIT_PATH_MAX], struct err *err)
{
    size_t end = strlen(url);
    while (end > 0 && url[end - 1] == '/')
        end--;
    if (end > 4 && strncmp(url + end - 4, ".git", 4) == 0)
        end -= 4;
    size_t start = end;
    while (start > 0 && url[start - 1] != '/')
        start--;
    if (end == start || memchr(url + start, '%', end - start) != NULL || url[start] == '.')
        return err_set(err, ERR_INVALID, "no directory's name can be made of it");
    int n = snprintf(ret, GIT_PATH_MAX, "/workspace/%.*s", (int)(end - start), url + start);
    return n < GIT_PATH_MAX ? 0 : err_set(err, ERR_INVALID, "its name is too long");
}

// -- directories

int git_check_dir(const char *dir, struct err *err)
{
    size_t len = strlen(dir);
    if (dir[0] != '/' || len >= GIT_PATH_MAX)
        return err_set(err, ERR_INVALID, "must be an absolute path of less than %d bytes",
                       GIT_PATH_MAX);
    for (const char *p = dir; *p != '\0'; p++) {
        if ((unsigned char)*p < ' ' || *p == 0x7f)
            return err_set(err, ERR_INVALID, "must not have control characters");
    }
    for (const char *p = dir; *p == '/';) {
        size_t n = strcspn(++p, "/");
        if (n > 0 && n <= 2 && strncmp(p, "..", n) == 0)
            return err_set(err, ERR_INVALID, "must not have '.' or '..' in it");
        p += n;
    }
    return 0;
}

// -- names

static int bad_ref(struct err *err)
{
    return err_set(err, ERR_INVALID, "is not a branch's or tag's name, by git's own rules");
}

static bool is_part(const char *part, size_t len)
{
    static const char lock[] = ".lock";
    if (len == 0 || part[0] == '.' || part[len - 1] == '.')
        return false;
    return len < sizeof lock || strncmp(part + len - (sizeof lock - 1), lock, sizeof lock - 1) != 0;
}

int git_check_ref(const char *name, struct err *err)
{
    size_t len = strlen(name);
    if (len == 0 || len > GIT_REF_MAX || name[0] == '-' || strcmp(name, "@") == 0 ||
        strstr(name, "..") != NULL || strstr(name, "@{") != NULL ||
        strpbrk(name, " ~^:?*[\\") != NULL)
        return bad_ref(err);
    for (size_t i = 0; i < len; i++) {
        if ((unsigned char)name[i] < ' ' || name[i] == 0x7f)
            return bad_ref(err);
    }
    for (const char *p = name;; p++) {
        size_t n = strcspn(p, "/");
        if (!is_part(p, n))
            return bad_ref(err);
        p += n;
        if (*p == '\0')
            return 0;
    }
}
