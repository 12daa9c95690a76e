// SPDX-License-Identifier: Apache-2.0
#include "cli/signals.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

static int wake[2] = {-1, -1};
static volatile sig_atomic_t caught, times;

static void note_signal(int number)
{
    int kept = errno;
    caught = number;
    times = times + 1;
    if (times >= SIGNALS_MAX) // whatever it is that we wait for, it does not come
        _exit(128 + number);
    (void)!write(wake[1], "", 1);
    errno = kept;
}

int signals_catch(struct err *err)
{
    static const int numbers[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT};
    const struct sigaction action = {.sa_handler = note_signal, .sa_flags = SA_RESTART};
    if (wake[0] < 0 && pipe2(wake, O_CLOEXEC | O_NONBLOCK) < 0)
        return err_sys(err, errno, "make a pipe");
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        struct sigaction old;
        if (sigaction(numbers[i], NULL, &old) == 0 && old.sa_handler != SIG_IGN) // as with nohup
            (void)sigaction(numbers[i], &action, NULL);
    }
    return 0;
}

int signals_fd(void)
{
    return wake[0];
}

int signals_take(void)
{
    char bytes[16];
    int number = 0;
    while (read(wake[0], bytes, sizeof bytes) > 0)
        number = caught;
    return number;
}

void signals_forgive(void)
{
    times = 0;
}
