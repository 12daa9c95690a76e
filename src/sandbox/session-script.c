// SPDX-License-Identifier: Apache-2.0
#include "sandbox/session-script.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"

enum {
    TEXT_MAX = 512, // a longer one goes as a blob, which costs the shell a fork
    STATUS_MAX = 255,
};

// It has to live with whatever a command does to the shell:
// - 59, 62 and 63 are the real streams. A command gets them for itself only, so `exec >file` ends
//   with it; the loop's own are /dev/null, so `set -x` does not show it.
//   (bash takes 63 and below for its own, too, so what is opened later has a lower number.)
// - Functions may have any builtin's name, hence `builtin`; for one named `builtin` the loop ends.
// - `set -u`, IFS and options: nothing unset is used, everything is quoted.
// - `set -e`, errors that end a shell, `break` out of the loop, closed descriptors, SIGTERM: the
//   EXIT trap hands the state over, and another shell goes on with it. It forks nothing, because
//   what the command started is killed at that time.
// - `exit` is told apart by a function of that name.
// `set -n` alone makes it deaf, until a timeout replaces it.
// All in one line, so that messages say "line 1". Names begin with __cay_: s status, q sequence
// number, u how to undo what a command had for itself, i its standard input, c command, k key.
const char session_script[] =
    "exec 59</dev/null 62>&1 63>&2 0<&59 1>/dev/null 2>/dev/null;"
    "__cay_s=0 __cay_q=0 __cay_u= __cay_i=59 __cay_c= __cay_k= __cay_m=;"
    "__cay_st() { [[ $- == *e* ]] || builtin return \"$__cay_s\"; };"
    "exit() { __cay_s=$?; [[ $BASHPID != \"$$\" ]] || builtin printf 'X %s\\0' \"$__cay_q\" >&61;"
    " builtin exit \"${@:-$__cay_s}\"; };"
    "__cay_end() { __cay_o=$-; [[ ! -o posix ]] || __cay_o+=P; builtin set +eux +o posix;"
    " __cay_s=$1; builtin shift; {"
    " builtin trap - DEBUG ERR RETURN;"
    " [[ -z $__cay_u ]] || builtin eval \"$__cay_u\"; __cay_u=;"
    " [[ -z $__cay_m ]] || builtin printf 'M %s %s\\0' \"$__cay_q\" \"$__cay_m\";"
    " builtin printf 'T %s %s %s\\0' \"$__cay_q\" \"$__cay_s\" \"${PWD-}\";"
    " builtin declare -p; builtin declare -f; builtin shopt -p; builtin set +o; builtin umask -p;"
    " builtin trap -p;"
    " [[ $__cay_o != *u* ]] || builtin echo 'builtin set -u';"
    " [[ $__cay_o != *x* ]] || builtin echo 'builtin set -x';"
    " [[ $__cay_o != *P* ]] || builtin echo 'builtin set -o posix';"
    " [[ $# == 0 ]] || { builtin printf 'builtin set --'; builtin printf ' %q' \"$@\"; };"
    " builtin printf '\\0'; } >&61 2>/dev/null; };"
    "builtin trap '__cay_end $? \"$@\"' EXIT;"
    "while IFS= builtin read -r -d '' -u 60 __cay_c && [[ $__cay_c ]]; do"
    " __cay_k=${__cay_c%%:*} __cay_c=${__cay_c#*:} __cay_q=${__cay_k%%[mx]*} __cay_m=;"
    " if [[ $__cay_k != \"$__cay_q\" ]]; then"
    " [[ $__cay_k != *m* ]] || builtin read -r _ _ _ _ __cay_m </proc/loadavg;"
    " [[ $__cay_k != *x* ]] || builtin eval \"$__cay_c\"; fi;"
    " __cay_st; builtin eval \"$__cay_c\" 0<&\"$__cay_i\" 1>&62 2>&63; __cay_s=$? __cay_c=;"
    " [[ -z $__cay_u ]] || { builtin eval \"$__cay_u\"; __cay_u=; };"
    " [[ -e /dev/fd/59 && -e /dev/fd/62 && -e /dev/fd/63 ]] || builtin exit \"$__cay_s\";"
    " [[ $__cay_s != 1 ]] || { builtin :; } 0<&59 1>&62 2>&63 || builtin exit 1;"
    " builtin printf 'R %s %s %s\\0' \"$__cay_q\" \"$__cay_s\" \"${PWD-}\" >&61 ||"
    " builtin exit \"$__cay_s\";"
    "done";

// Code that sets the variable to `len` bytes that follow; what keeps its last newlines is the dot.
static void read_blob(struct buf *code, struct buf *blobs, const char *name, const void *data,
                      size_t len)
{
    (void)buf_printf(code,
                     "__cay_%s=$(/usr/bin/head -c %zu <&60)||builtin exit 126;"
                     "__cay_%s=${__cay_%s%%.};",
                     name, len + 1, name, name);
    (void)buf_append(blobs, data, len);
    (void)buf_append_char(blobs, '.');
}

static int finish(struct buf *out, const struct buf *code, const struct buf *blobs, struct err *err)
{
    (void)buf_append(out, code->data, code->len);
    (void)buf_append_char(out, '\0');
    (void)buf_append(out, blobs->data, blobs->len);
    return out->failed == 0 && code->failed == 0 && blobs->failed == 0
               ? 0
               : err_set(err, ERR_EXHAUSTED, "the command is too long");
}

// Sends code that prepares a command, itself as a blob when it is long. `blobs` is what it reads.
static int send_code(struct buf *out, uint32_t seq, bool mark, const struct buf *code,
                     const struct buf *blobs, struct err *err)
{
    (void)buf_printf(out, "%u%sx:", seq, mark ? "m" : "");
    if (code->len <= TEXT_MAX)
        return finish(out, code, blobs, err);
    auto_buf reader, all;
    buf_init(&reader, TEXT_MAX);
    buf_init(&all, out->max);
    read_blob(&reader, &all, "k", code->data, code->len);
    (void)buf_append_str(&reader, "builtin eval \"$__cay_k\"");
    (void)buf_append(&all, blobs->data, blobs->len);
    return finish(out, &reader, &all, err);
}

// --- what one command has for itself: how it was, how to undo it, how it shall be

struct scope {
    struct buf before, undo, apply;
};

static int is_name(const char *text, size_t len)
{
    if (len == 0 || isdigit((unsigned char)text[0]))
        return 0;
    for (size_t i = 0; i < len; i++) {
        if (!isalnum((unsigned char)text[i]) && text[i] != '_')
            return 0;
    }
    return 1;
}

static int scope_variable(struct scope *s, unsigned i, const char *setting, struct err *err)
{
    int len = (int)strcspn(setting, "=");
    if (!is_name(setting, (size_t)len))
        return err_set(err, ERR_INVALID, "'%.*s' is not a name of a shell variable",
                       len < 64 ? len : 64, setting);
    (void)buf_printf(&s->before,
                     "__cay_h%u=${%.*s+x} __cay_v%u=${%.*s-} __cay_a%u=${%.*s+${%.*s@a}};", i, len,
                     setting, i, len, setting, i, len, setting, len, setting);
    (void)buf_printf(&s->undo,
                     "if [[ $__cay_h%u ]];then %.*s=$__cay_v%u;[[ $__cay_a%u == *x* ]]||"
                     "builtin export -n %.*s;else builtin unset -v %.*s;fi;",
                     i, len, setting, i, i, len, setting, len, setting);
    (void)buf_printf(&s->apply, "builtin export %.*s=", len, setting);
    shell_quote(&s->apply, setting + len + 1);
    (void)buf_append_char(&s->apply, ';');
    return 0;
}

static void scope_cwd(struct scope *s, const char *cwd)
{
    (void)buf_append_str(&s->before, "__cay_d=${PWD-} __cay_l=${OLDPWD-};");
    (void)buf_append_str(&s->undo, "CDPATH= builtin cd -- \"$__cay_d\";OLDPWD=$__cay_l;");
    (void)buf_append_str(&s->apply, "CDPATH= builtin cd -- ");
    shell_quote(&s->apply, cwd);
    (void)buf_append_str(&s->apply, " 2>&63||__cay_c='! builtin :';");
}

static void scope_stdin(struct scope *s, struct buf *blobs, const void *data, size_t len)
{
    auto_buf text;
    buf_init(&text, SCRIPT_STDIN_MAX * 2);
    (void)base64_append(&text, data, len);
    read_blob(&s->before, blobs, "j", text.data, text.len);
    (void)buf_append_str(&s->undo, "exec 40<&-;__cay_i=59;");
    (void)buf_append_str(&s->apply, "exec 40< <(builtin printf %s \"$__cay_j\"|/usr/bin/base64 -d);"
                                    "__cay_i=40 __cay_j=;");
}

static int prepare(const struct script_command *c, struct buf *code, struct buf *blobs,
                   struct scope *s, struct err *err)
{
    size_t len = strlen(c->command);
    if (len > TEXT_MAX) {
        read_blob(code, blobs, "c", c->command, len);
    } else {
        (void)buf_append_str(code, "__cay_c=");
        shell_quote(code, c->command);
        (void)buf_append_char(code, ';');
    }
    for (unsigned i = 0; c->envp != NULL && c->envp[i] != NULL; i++) {
        if (scope_variable(s, i, c->envp[i], err) < 0)
            return -1;
    }
    if (c->stdin_data != NULL)
        scope_stdin(s, blobs, c->stdin_data, c->stdin_len);
    if (c->cwd != NULL)
        scope_cwd(s, c->cwd);
    (void)buf_append(code, s->before.data, s->before.len);
    (void)buf_append_str(code, "__cay_u=");
    shell_quote(code, buf_str(&s->undo));
    (void)buf_append_char(code, ';');
    (void)buf_append(code, s->apply.data, s->apply.len);
    return s->before.failed || s->undo.failed || s->apply.failed
               ? err_set(err, ERR_EXHAUSTED, "the command's variables are too long")
               : 0;
}

int script_command(struct buf *out, const struct script_command *c, struct err *err)
{
    int plain = c->cwd == NULL && c->envp == NULL && c->stdin_data == NULL;
    if (c->stdin_len > SCRIPT_STDIN_MAX)
        return err_set(err, ERR_INVALID, "more than 4 MiB of standard input for a session");
    if (plain && strlen(c->command) <= TEXT_MAX) {
        (void)buf_printf(out, "%u%s:%s", c->seq, c->mark ? "m" : "", c->command);
        (void)buf_append_char(out, '\0');
        return out->failed ? err_set(err, ERR_EXHAUSTED, "the command is too long") : 0;
    }
    auto_buf code, blobs;
    struct scope s;
    buf_init(&code, out->max);
    buf_init(&blobs, out->max);
    buf_init(&s.before, out->max);
    buf_init(&s.undo, out->max);
    buf_init(&s.apply, out->max);
    int r = prepare(c, &code, &blobs, &s, err);
    if (r == 0)
        r = send_code(out, c->seq, c->mark, &code, &blobs, err);
    buf_done(&s.before);
    buf_done(&s.undo);
    buf_done(&s.apply);
    return r;
}

int script_begin(struct buf *out, uint32_t seq, const char *cwd, const char *state, struct err *err)
{
    auto_buf code, blobs;
    buf_init(&code, out->max);
    buf_init(&blobs, out->max);
    if (state != NULL) {
        read_blob(&code, &blobs, "c", state, strlen(state));
        (void)buf_printf(&code, "builtin eval \"$__cay_c\";builtin set +e;__cay_q=%u __cay_u=;",
                         seq);
    }
    (void)buf_append_str(&code, "CDPATH= builtin cd -- ");
    shell_quote(&code, cwd);
    (void)buf_append_str(&code, "||builtin cd /;__cay_s=0 __cay_i=59 __cay_c='builtin :'");
    return send_code(out, seq, false, &code, &blobs, err);
}

int script_exports(struct buf *out, uint32_t seq, struct err *err)
{
    auto_buf code, blobs;
    buf_init(&code, TEXT_MAX);
    buf_init(&blobs, 1);
    (void)buf_append_str(&code, "builtin printf 'E %s\\0' \"$__cay_q\" >&61;"
                                "/usr/bin/env -0 >&61;__cay_c=__cay_st");
    return send_code(out, seq, false, &code, &blobs, err);
}

// --- what it says

static const char *parse_number(const char *text, uint64_t max, uint64_t *ret)
{
    uint64_t n = 0;
    if (*text != ' ' || !isdigit((unsigned char)text[1]))
        return NULL;
    for (text++; isdigit((unsigned char)*text); text++) {
        n = n * 10 + (uint64_t)(*text - '0');
        if (n > max)
            return NULL;
    }
    *ret = n;
    return text;
}

int script_parse(const char *text, struct script_record *ret)
{
    uint64_t seq = 0, number = 0;
    char type = text[0];
    if (type == '\0' || strchr("MRXTE", type) == NULL)
        return -1;
    const char *p = parse_number(text + 1, UINT32_MAX, &seq);
    if (p != NULL && strchr("MRT", type) != NULL)
        p = parse_number(p, type == 'M' ? INT32_MAX : STATUS_MAX, &number);
    if (p == NULL || (strchr("RT", type) != NULL ? *p != ' ' : *p != '\0'))
        return -1;
    *ret = (struct script_record){type, (uint32_t)seq, (int64_t)number, *p == ' ' ? p + 1 : ""};
    return 0;
}
