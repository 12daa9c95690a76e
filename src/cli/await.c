// SPDX-License-Identifier: Apache-2.0
#include "cli/await.h"

#include "cli/spinner.h"

static int on_wake(void *data, struct err *err)
{
    (void)err;
    spinner_tick(data);
    return 0;
}

int remote_await(struct remote *remote, const char *method, const struct buf *target,
                 const struct buf *body, const char *what, struct answer *ret, struct err *err)
{
    struct spinner spinner;
    if (target->failed != 0 || (body != NULL && body->failed != 0))
        return err_set(err, ERR_INVALID, "that is more than a request may hold");
    spinner_init(&spinner, !remote->json);
    const struct http_call call = {
        .method = method,
        .target = buf_str(target),
        .body = body != NULL ? buf_str(body) : NULL,
        .body_len = body != NULL ? body->len : 0,
        .wake_fd = spinner_fd(&spinner),
        .on_wake = spinner_fd(&spinner) >= 0 ? on_wake : NULL,
        .wake_data = &spinner,
    };
    spinner_start(&spinner, what);
    int r = remote_ask(remote, &call, ret, err);
    spinner_done(&spinner);
    return r;
}
