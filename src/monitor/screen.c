// SPDX-License-Identifier: Apache-2.0
#include "monitor/screen.h"

#include <langinfo.h>
#include <locale.h>
#include <ncurses.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>
#include <wchar.h>
#include <wctype.h>

#include "base/text.h"

// The sanitizers tell of these faults themselves.
#ifdef __SANITIZE_ADDRESS__
enum { SANITIZED = 1 };
#else
enum { SANITIZED = 0 };
#endif

enum { ESCAPE_MS = 50, LINE_MAX_COLS = 1024, SUBSTITUTE = '?' };

static SCREEN *screen;
static bool is_open, is_utf8;
static struct termios before;
static bool has_before;
static attr_t attributes[STYLE_MAX];
static short pairs[STYLE_MAX];

// -- opening and closing

// A fault of ours must not leave a terminal behind that shows nothing of what is typed.
static void on_fault(int number)
{
    static const char give_back[] = "\x1b[?1049l\x1b[?25h\x1b[0m\r\n";
    if (is_open && has_before) {
        (void)!write(STDOUT_FILENO, give_back, sizeof give_back - 1);
        (void)tcsetattr(STDIN_FILENO, TCSANOW, &before);
    }
    (void)raise(number); // its own way now: the handler was for once
}

static void catch_faults(void)
{
    static const int numbers[] = {SIGABRT, SIGSEGV, SIGBUS, SIGFPE, SIGILL};
    const struct sigaction action = {.sa_handler = on_fault, .sa_flags = (int)SA_RESETHAND};
    for (size_t i = 0; i < (SANITIZED ? 1 : sizeof numbers / sizeof *numbers); i++)
        (void)sigaction(numbers[i], &action, NULL);
}

static void choose_styles(void)
{
    static const struct {
        enum screen_style style;
        short colour, back;
    } rows[] = {
        {STYLE_TITLE, COLOR_CYAN,   -1       },
        {STYLE_HEAD,  COLOR_CYAN,   -1       },
        {STYLE_GOOD,  COLOR_GREEN,  -1       },
        {STYLE_WARN,  COLOR_YELLOW, -1       },
        {STYLE_BAD,   COLOR_RED,    -1       },
        {STYLE_ALARM, COLOR_WHITE,  COLOR_RED},
    };
    const char *no = getenv("NO_COLOR");
    attributes[STYLE_DIM] = A_DIM;
    attributes[STYLE_BOLD] = attributes[STYLE_BAD] = A_BOLD;
    attributes[STYLE_TITLE] = attributes[STYLE_CHOSEN] = A_REVERSE;
    attributes[STYLE_ALARM] = A_REVERSE | A_BOLD;
    attributes[STYLE_HEAD] = A_BOLD;
    if ((no != NULL && no[0] != '\0') || !has_colors() || start_color() == ERR ||
        use_default_colors() == ERR)
        return;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        short pair = (short)(i + 1);
        if (init_pair(pair, rows[i].colour, rows[i].back) != ERR)
            pairs[rows[i].style] = pair;
    }
    if (pairs[STYLE_ALARM] != 0)
        attributes[STYLE_ALARM] = A_BOLD;
}

int screen_open(struct err *err)
{
    const char *term = getenv("TERM");
    (void)setlocale(LC_ALL, "");
    is_utf8 = strcmp(nl_langinfo(CODESET), "UTF-8") == 0;
    has_before = tcgetattr(STDIN_FILENO, &before) == 0;
    screen = newterm(NULL, stdout, stdin);
    if (screen == NULL)
        return err_set(
            err, ERR_UNSUPPORTED,
            "a terminal of the type '%.40s' cannot be drawn on: try 'cay monitor --once'",
            term != NULL ? term : "");
    is_open = true;
    (void)atexit(screen_close);
    catch_faults();
    choose_styles();
    (void)cbreak();
    (void)noecho();
    (void)nonl();
    (void)intrflush(stdscr, FALSE);
    (void)keypad(stdscr, TRUE);
    (void)nodelay(stdscr, TRUE);
    (void)curs_set(0);
    (void)set_escdelay(ESCAPE_MS);
    return 0;
}

void screen_close(void)
{
    if (!is_open)
        return;
    is_open = false;
    (void)endwin();
    delscreen(screen);
    screen = NULL;
}

void screen_resized(void)
{
    struct winsize size;
    if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_row > 0 && size.ws_col > 0)
        (void)resizeterm(size.ws_row, size.ws_col);
    (void)clearok(stdscr, TRUE); // what a terminal does with its content then is its own affair
}

int screen_rows(void)
{
    return LINES;
}

int screen_cols(void)
{
    return COLS;
}

// -- characters

// One that may be shown, and how wide it is; 0: nothing is drawn for it.
static wchar_t shown(uint32_t c, int *ret_width)
{
    int width = c < 0x80 || is_utf8 ? wcwidth((wchar_t)c) : -1;
    bool plain = c >= ' ' && c != 0x7f && width >= 0 && iswprint((wint_t)c);
    *ret_width = plain ? width : 1;
    return plain ? (wchar_t)c : SUBSTITUTE;
}

// How many columns are taken. Marks that stand on another character are left out: of those any
// number could be piled up.
static int to_wide(const char *text, int width, wchar_t *ret)
{
    size_t left = strlen(text), n = 0;
    int used = 0;
    while (left > 0) {
        size_t step = utf8_step(text, left);
        int columns;
        wchar_t c = shown(step > 0 ? utf8_decode(text, step) : 0, &columns);
        step = step > 0 ? step : 1;
        text += step;
        left -= step;
        if (columns == 0)
            continue;
        if (used + columns > width)
            break;
        ret[n++] = c;
        used += columns;
    }
    ret[n] = L'\0';
    return used;
}

int screen_width(const char *text)
{
    wchar_t wide[LINE_MAX_COLS + 1];
    return to_wide(text, LINE_MAX_COLS, wide);
}

static int fit(int row, int col, int width)
{
    if (row < 0 || row >= LINES || col < 0 || col >= COLS || width <= 0)
        return 0;
    width = width < COLS - col ? width : COLS - col;
    return width < LINE_MAX_COLS ? width : LINE_MAX_COLS;
}

static void draw(int row, int col, int width, enum screen_style style, const char *text, bool right)
{
    wchar_t wide[LINE_MAX_COLS + 1];
    width = fit(row, col, width);
    if (width == 0)
        return;
    int used = to_wide(text, width, wide), pad = width - used;
    (void)attr_set(attributes[style], pairs[style], NULL);
    (void)mvhline(row, col, ' ', width);
    (void)mvaddwstr(row, col + (right ? pad : 0), wide);
    (void)attr_set(A_NORMAL, 0, NULL);
}

void screen_put(int row, int col, int width, enum screen_style style, const char *text)
{
    draw(row, col, width, style, text, false);
}

void screen_right(int row, int col, int width, enum screen_style style, const char *text)
{
    draw(row, col, width, style, text, true);
}

void screen_putf(int row, int col, int width, enum screen_style style, const char *fmt, ...)
{
    char text[2048];
    va_list ap;
    va_start(ap, fmt);
    (void)vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    screen_put(row, col, width, style, text);
}

void screen_bar(int row, int col, int width, double share)
{
    char text[LINE_MAX_COLS + 1];
    width = fit(row, col, width);
    if (width < 3)
        return;
    int inside = width - 2;
    share = share < 0 ? 0 : share > 1 ? 1 : share;
    int full = (int)(share * inside + 0.5);
    text[0] = '[';
    memset(text + 1, '|', (size_t)full);
    memset(text + 1 + full, ' ', (size_t)(inside - full));
    text[1 + inside] = ']';
    text[2 + inside] = '\0';
    enum screen_style style = share < 0.7 ? STYLE_GOOD : share < 0.9 ? STYLE_WARN : STYLE_BAD;
    screen_put(row, col, width, style, text);
}

void screen_cursor(int row, int col)
{
    (void)move(row, col);
    (void)curs_set(1);
}

void screen_begin(void)
{
    (void)curs_set(0);
    (void)erase();
}

void screen_end(void)
{
    (void)refresh();
}

int screen_key(void)
{
    int key = getch();
    return key == ERR ? SCREEN_NO_KEY : key;
}
