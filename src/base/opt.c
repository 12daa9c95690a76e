// SPDX-License-Identifier: Apache-2.0
#include "base/opt.h"

#include <string.h>

#include "base/text.h"

void opt_start(struct opt_reader *reader, const struct opt_spec *spec, int argc, char **argv)
{
    *reader = (struct opt_reader){.spec = spec, .argc = argc, .argv = argv, .next = 1};
}

static int find_name(const struct opt_spec *spec, const char *name, size_t len)
{
    for (size_t i = 0; i < spec->n_opts; i++) {
        if (strlen(spec->opts[i].name) == len && memcmp(spec->opts[i].name, name, len) == 0)
            return (int)i;
    }
    return -1;
}

static int find_letter(const struct opt_spec *spec, char letter)
{
    for (size_t i = 0; i < spec->n_opts; i++) {
        if (spec->opts[i].letter == letter)
            return (int)i;
    }
    return -1;
}

static int fail_unknown(const struct opt_spec *spec, const char *name, size_t len, struct err *err)
{
    char word[48];
    const char *best = NULL;
    size_t best_distance = SIZE_MAX;
    if (len == 0)
        len = strlen(name); // "--=x"
    (void)snprintf(word, sizeof word, "%.*s", (int)(len < sizeof word ? len : sizeof word - 1),
                   name);
    for (size_t i = 0; i < spec->n_opts; i++) {
        size_t distance = text_distance(word, spec->opts[i].name);
        if (distance < best_distance && text_near(word, spec->opts[i].name)) {
            best = spec->opts[i].name;
            best_distance = distance;
        }
    }
    if (best != NULL)
        (void)err_set(err, ERR_INVALID, "unknown flag --%s, did you mean --%s?", word, best);
    else
        (void)err_set(err, ERR_INVALID, "unknown flag --%s (--help lists the flags)", word);
    return OPT_FAILED;
}

static int fail_no_value(const struct opt *opt, struct err *err)
{
    (void)err_set(err, ERR_INVALID, "--%s needs a value: --%s %s", opt->name, opt->name,
                  opt->metavar);
    return OPT_FAILED;
}

// The value of a flag when it is the argument after it.
static int take_value(struct opt_reader *reader, int which, const char **ret_value, struct err *err)
{
    if (reader->next >= reader->argc)
        return fail_no_value(&reader->spec->opts[which], err);
    *ret_value = reader->argv[reader->next++];
    return which;
}

static int read_long(struct opt_reader *reader, const char *name, const char **ret_value,
                     struct err *err)
{
    size_t len = strcspn(name, "=");
    const char *value = name[len] == '=' ? name + len + 1 : NULL;
    int which = find_name(reader->spec, name, len);
    if (which < 0) {
        if (value == NULL && strcmp(name, "help") == 0)
            return OPT_HELP;
        return fail_unknown(reader->spec, name, len, err);
    }
    const struct opt *opt = &reader->spec->opts[which];
    if (opt->metavar != NULL && value == NULL)
        return take_value(reader, which, ret_value, err);
    if (opt->metavar == NULL && value != NULL) {
        (void)err_set(err, ERR_INVALID, "--%s takes no value", opt->name);
        return OPT_FAILED;
    }
    *ret_value = value;
    return which;
}

// One letter of "-abc"; what follows a letter that takes a value is the value: "-m64m".
static int read_letter(struct opt_reader *reader, const char **ret_value, struct err *err)
{
    char letter = *reader->cluster++;
    const char *rest = reader->cluster;
    int which = find_letter(reader->spec, letter);
    if (*rest == '\0')
        reader->cluster = NULL;
    if (which < 0) {
        if (letter == 'h')
            return OPT_HELP;
        (void)err_set(err, ERR_INVALID, "unknown flag -%c (--help lists the flags)", letter);
        return OPT_FAILED;
    }
    if (reader->spec->opts[which].metavar == NULL) {
        *ret_value = NULL;
        return which;
    }
    if (*rest == '\0')
        return take_value(reader, which, ret_value, err);
    reader->cluster = NULL;
    *ret_value = rest;
    return which;
}

int opt_next(struct opt_reader *reader, const char **ret_value, struct err *err)
{
    if (reader->cluster != NULL)
        return read_letter(reader, ret_value, err);
    if (reader->next >= reader->argc)
        return OPT_END;
    const char *arg = reader->argv[reader->next];
    if (!reader->only_words && strcmp(arg, "--") == 0) {
        reader->next++;
        reader->only_words = true;
        return reader->spec->stop_at_word ? OPT_END : opt_next(reader, ret_value, err);
    }
    // A lone dash is a word: by custom it stands for standard input.
    if (reader->only_words || arg[0] != '-' || arg[1] == '\0') {
        if (reader->spec->stop_at_word)
            return OPT_END;
        *ret_value = reader->argv[reader->next++];
        return OPT_WORD;
    }
    reader->next++;
    if (arg[1] == '-')
        return read_long(reader, arg + 2, ret_value, err);
    reader->cluster = arg + 1;
    return read_letter(reader, ret_value, err);
}

// -- help

// "  -m, --memory SIZE" into text; returns its width.
static int left_column(char *text, size_t size, const struct opt *opt)
{
    char letter[8] = "    ";
    if (opt->letter != '\0')
        (void)snprintf(letter, sizeof letter, "-%c, ", opt->letter);
    return snprintf(text, size, "  %s--%s%s%s", letter, opt->name, opt->metavar != NULL ? " " : "",
                    opt->metavar != NULL ? opt->metavar : "");
}

static void print_row(FILE *out, const struct opt *opt, int width)
{
    char left[80];
    (void)left_column(left, sizeof left, opt);
    (void)fprintf(out, "%-*s  %s", width, left, opt->help);
    if (opt->default_text != NULL)
        (void)fprintf(out, " (default %s)", opt->default_text);
    (void)fputc('\n', out);
}

void opt_print_help(FILE *out, const struct opt_spec *spec)
{
    static const struct opt help = {.name = "help", .letter = 'h', .help = "show this"};
    char text[80];
    int width = left_column(text, sizeof text, &help);
    for (size_t i = 0; i < spec->n_opts; i++) {
        int n = left_column(text, sizeof text, &spec->opts[i]);
        width = n > width ? n : width;
    }
    (void)fprintf(out, "usage: %s\n\n%s\n\nflags:\n", spec->usage, spec->summary);
    for (size_t i = 0; i < spec->n_opts; i++)
        print_row(out, &spec->opts[i], width);
    print_row(out, &help, width);
    if (spec->more != NULL)
        (void)fprintf(out, "\n%s\n", spec->more);
}
