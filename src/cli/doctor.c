// SPDX-License-Identifier: Apache-2.0
// `cay doctor`: which checks there are, and how what they found is told.
#include "cli/doctor.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/fd.h"
#include "base/json.h"
#include "base/opt.h"
#include "box/data.h"
#include "cli/cli.h"

// The last one makes a box, and with it decides whether boxes work here; the others say why not, or
// how well.
static const struct check checks[] = {
    {"root",              "making boxes",                                      check_root,         false, NULL         },
    {"kernel",            "everything",                                        check_kernel,       false, NULL         },
    {"container",         "reaching the machine's own kernel",                 check_container,    false, NULL         },
    {"capabilities",      "making boxes",                                      check_capabilities, true,  NULL         },
    {"user namespaces",   "root in a box being nobody outside",                check_userns,       true,  NULL         },
    {"namespaces",        "a box seeing only its own",                         check_namespaces,   true,  NULL         },
    {"new /proc",         "a box seeing only its own processes",               check_proc,         true,  NULL         },
    {"clone3 and pidfds", "starting programs and hearing of their end",        check_pidfd,        false, NULL         },
    {"seccomp",           "keeping programs from most of the kernel",          check_seccomp,      false, NULL         },
    {"detached mounts",   "roots that nobody else can reach",                  check_detached,     true,  NULL         },
    {"overlayfs",         "boxes sharing an image, each with its own changes", check_overlay,      true,  NULL         },
    {"volatile overlay",  "boxes ending without waiting for the disk",         check_volatile,     true,  NULL         },
    {"idmap /usr",        "owners of files in the image `host`",               check_idmap,        true,  "/usr"       },
    {"idmap tmpfs",       "owners of files on tmpfs",                          check_idmap,        true,  "tmpfs"      },
    {"idmap data",        "owners of files in other images",                   check_idmap,        true,  "data"       },
    {"cgroups",           "limits on what a box takes",                        check_cgroups,      true,  NULL         },
    {"limits",            "memory, processes and processor time of a box",     check_limits,       true,  NULL         },
    {"killing",           "ending all of a program, whatever it has started",  check_kill,         true,  NULL         },
    {"joining cgroups",   "the speed of a new box",                            check_joins,        true,  NULL         },
    {"data directory",    "images and disks",                                  check_data,         false, NULL         },
    {"btrfs volume",      "disks that are kept, snapshot and forked",          check_btrfs,        true,  NULL         },
    {"mkfs.btrfs",        "making the volume of disks",                        check_program,      false, "btrfs-progs"},
    {"mmdebstrap",        "`cay image build`",                                 check_program,      false, "mmdebstrap" },
    {"tar",               "`cay image import`",                                check_program,      false, "tar"        },
    {"zstd",              "`cay image import` of .tar.zst",                    check_program,      false, "zstd"       },
    {"languages",         "code in boxes of the image `host`",                 check_languages,    false, NULL         },
    {"memory",            "running many boxes",                                check_memory,       false, NULL         },
    {"open files",        "running many boxes",                                check_files,        false, NULL         },
    {"processes",         "running many boxes",                                check_pids,         false, NULL         },
    {"slots",             "running many boxes",                                check_slots,        false, NULL         },
    {"kernel settings",   "the rest of the machine",                           check_settings,     false, NULL         },
    {"box",               "everything",                                        check_box,          true,  NULL         },
};

enum {
    N_CHECKS = sizeof checks / sizeof *checks,
    LAST = N_CHECKS - 1,
    MARK_WIDTH = 7,
    JSON_MAX = 256 * 1024,
};

static const struct {
    const char *name, *mark, *colour;
} states[DOCTOR_STATE_MAX] = {
    [DOCTOR_OK] = {"ok",      "ok",      "\033[32m"  },
    [DOCTOR_NOTE] = {"note",    "note",    "\033[33m"  },
    [DOCTOR_MISSING] = {"missing", "MISSING", "\033[1;31m"},
    [DOCTOR_UNTRIED] = {"untried", "-",       "\033[2m"   },
};

enum doctor_flag { FLAG_DATA, FLAG_JSON };

static const struct opt opts[] = {
    [FLAG_DATA] = {"data", 0,   "DIR", "the data directory to look at; else the variable CAY_DATA",
                   DATA_DEFAULT                                                                         },
    [FLAG_JSON] = {"json", 'j', NULL,  "print one JSON object",                                     NULL},
};

static const struct opt_spec spec = {
    .usage = "cay doctor [flags]",
    .summary =
        "Tries what boxes need of this machine, one thing after the other, and says what is there,\n"
        "what falls back to something slower or weaker, what is missing, and what to do about it.\n"
        "Last it makes a box. Nothing of all this stays.",
    .opts = opts,
    .n_opts = sizeof opts / sizeof *opts,
    .more = "Exit codes: 0 boxes work, if need be with what falls back; 125 they do not; 2 usage.",
};

// --- the verdict ---

static unsigned count(const struct finding *findings, enum doctor_state state)
{
    unsigned n = 0;
    for (unsigned i = 0; i < N_CHECKS; i++)
        n += findings[i].state == state;
    return n;
}

static bool boxes_work(const struct finding *findings)
{
    return findings[LAST].state == DOCTOR_OK || findings[LAST].state == DOCTOR_NOTE;
}

static void verdict(const struct finding *findings, struct buf *out)
{
    unsigned notes = count(findings, DOCTOR_NOTE), missing = count(findings, DOCTOR_MISSING);
    if (findings[LAST].state == DOCTOR_UNTRIED) {
        (void)buf_append_str(out,
                             "Boxes need root, so the rest could not be tried: run this as root, "
                             "with sudo for instance.");
        return;
    }
    if (!boxes_work(findings)) {
        (void)buf_printf(out, "Boxes do not work here: %s.", findings[LAST].detail);
        return;
    }
    (void)buf_append_str(out, "Boxes work on this machine");
    if (missing > 0)
        (void)buf_printf(out, "; %u %s missing", missing, missing == 1 ? "thing is" : "things are");
    if (notes > 0)
        (void)buf_printf(out, "%s %u %s worth a look", missing > 0 ? " and" : ";", notes,
                         notes == 1 ? "note is" : "notes are");
    (void)buf_append_str(out, missing + notes > 0 ? " (above)." : ".");
}

// --- for people ---

struct style {
    bool colour;
    int columns; // 0: lines are not broken
    int name_width;
};

static struct style choose_style(void)
{
    struct style style = {0};
    struct winsize size;
    const char *term = getenv("TERM");
    for (unsigned i = 0; i < N_CHECKS; i++) {
        int len = (int)strlen(checks[i].name);
        style.name_width = len > style.name_width ? len : style.name_width;
    }
    if (!isatty(STDOUT_FILENO))
        return style;
    style.colour = getenv("NO_COLOR") == NULL && (term == NULL || strcmp(term, "dumb") != 0);
    if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col >= 60)
        style.columns = size.ws_col;
    return style;
}

// Prints words from the present column on; further lines begin `indent` columns in.
static void print_words(const struct style *style, int column, int indent, const char *text)
{
    while (*text != '\0') {
        int len = (int)strcspn(text, " ");
        if (style->columns > 0 && column > indent && column + 1 + len > style->columns) {
            (void)printf("\n%*s", indent, "");
            column = indent;
        } else if (column > indent) {
            (void)putchar(' ');
            column++;
        }
        (void)printf("%.*s", len, text);
        column += len;
        text += len;
        text += strspn(text, " ");
    }
    (void)putchar('\n');
}

static void print_finding(const struct style *style, const struct check *check,
                          const struct finding *finding)
{
    const char *on = style->colour ? states[finding->state].colour : "";
    const char *off = style->colour ? "\033[0m" : "";
    int indent = MARK_WIDTH + 2 + style->name_width + 2;
    (void)printf("%s%-*s%s  %-*s  ", on, MARK_WIDTH, states[finding->state].mark, off,
                 style->name_width, check->name);
    print_words(style, indent, indent, finding->detail);
    if (finding->state == DOCTOR_MISSING) {
        (void)printf("%*sneeded for", indent, "");
        print_words(style, indent + 10, indent, check->purpose);
    }
    if (finding->advice[0] != '\0') {
        (void)printf("%*s->", indent, "");
        print_words(style, indent + 2, indent, finding->advice);
    }
    (void)fflush(stdout);
}

static void tell(const struct doctor *doctor, struct finding *findings)
{
    auto_buf text;
    struct style style = choose_style();
    for (unsigned i = 0; i < N_CHECKS; i++) {
        doctor_try(&checks[i], doctor, &findings[i]);
        if (findings[i].state != DOCTOR_UNTRIED)
            print_finding(&style, &checks[i], &findings[i]);
    }
    buf_init(&text, 1024);
    verdict(findings, &text);
    (void)putchar('\n');
    print_words(&style, 0, 0, buf_str(&text));
}

// --- for programs ---

static void tell_json(const struct doctor *doctor, struct finding *findings)
{
    auto_buf text, line;
    struct json j;
    buf_init(&text, JSON_MAX);
    buf_init(&line, 1024);
    for (unsigned i = 0; i < N_CHECKS; i++)
        doctor_try(&checks[i], doctor, &findings[i]);
    verdict(findings, &line);
    json_init(&j, &text);
    json_open_object(&j);
    json_key(&j, "ok");
    json_put_bool(&j, boxes_work(findings));
    json_key(&j, "verdict");
    json_put_str(&j, buf_str(&line));
    json_key(&j, "checks");
    json_open_array(&j);
    for (unsigned i = 0; i < N_CHECKS; i++) {
        json_open_object(&j);
        json_key(&j, "name");
        json_put_str(&j, checks[i].name);
        json_key(&j, "state");
        json_put_str(&j, states[findings[i].state].name);
        json_key(&j, "detail");
        json_put_str(&j, findings[i].detail);
        json_key(&j, "advice");
        json_put_str(&j, findings[i].advice[0] != '\0' ? findings[i].advice : NULL);
        json_close_object(&j);
    }
    json_close_array(&j);
    json_close_object(&j);
    (void)json_finish(&j); // fixed in number and size, so it fits
    (void)puts(buf_str(&text));
}

// --- the command ---

static int parse(int argc, char **argv, struct doctor *doctor, bool *ret_json, struct err *err)
{
    struct opt_reader reader;
    const char *value;
    int which;
    opt_start(&reader, &spec, argc, argv);
    while ((which = opt_next(&reader, &value, err)) >= 0) {
        if (which == OPT_WORD) {
            (void)err_set(err, ERR_INVALID, "takes no '%s', only flags", value);
            return OPT_FAILED;
        }
        if (which == FLAG_JSON) {
            *ret_json = true;
        } else if (value[0] == '\0') {
            (void)err_set(err, ERR_INVALID, "--data: an empty name is no directory");
            return OPT_FAILED;
        } else {
            doctor->data = value;
        }
    }
    return which;
}

int cmd_doctor(int argc, char **argv)
{
    static struct finding findings[N_CHECKS];
    struct doctor doctor = {.root = geteuid() == 0};
    struct err err = {0};
    bool json = false;
    int which = parse(argc, argv, &doctor, &json, &err);
    if (which == OPT_HELP) {
        opt_print_help(stdout, &spec);
        return CLI_OK;
    }
    if (which == OPT_FAILED)
        return cli_usage("doctor", &err);
    doctor.data = data_path(doctor.data);
    if (json)
        tell_json(&doctor, findings);
    else
        tell(&doctor, findings);
    if (fflush(stdout) != 0) {
        (void)err_set(&err, ERR_INTERNAL, "the findings could not be printed");
        return cli_fail(&err);
    }
    return boxes_work(findings) ? CLI_OK : CLI_FAILED;
}
