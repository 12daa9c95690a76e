// SPDX-License-Identifier: Apache-2.0
// Answers that wait for their readers, and requests that go on without who has sent them. They may
// be asked for again and again, by somebody who reads none of them: so all together have their
// limit, and so has each token, lest the others are the ones who pay for it. The addresses that a
// token has made are no further ones.
#include "api/auth.h"
#include "api/call.h"

static struct token *payer_of(const struct call *call)
{
    struct token *token = call->token;
    return token != NULL && token->payer != NULL ? token->payer : token;
}

bool call_has_room(const struct call *call, size_t len)
{
    const struct token *payer = payer_of(call);
    size_t more = call->asked + len - call->held; // or less: it wraps, and so does the sum
    return len <= CALL_SMALL || (call->api->held + more <= CALL_HELD_MAX &&
                                 (payer == NULL || payer->held + more <= CALL_HELD_MAX / 2));
}

void call_holds(struct call *call, size_t len)
{
    struct token *payer = payer_of(call);
    size_t more = call->asked + len - call->held;
    call->api->held += more;
    if (payer != NULL)
        payer->held += more;
    call->held += more;
}

bool call_hold_request(struct call *call, size_t len)
{
    if (!call_has_room(call, len))
        return false;
    call->asked = len;
    call_holds(call, 0);
    return true;
}

void call_hold_nothing(struct call *call)
{
    call->asked = 0;
    call_holds(call, 0);
}

bool call_hold(struct call *call, size_t len)
{
    if (!call_has_room(call, len))
        return false;
    call_holds(call, len);
    return true;
}

void call_scarce(struct call *call)
{
    call_error(call, ERROR_UNAVAILABLE, NULL,
               "too much waits in memory, for its readers or to be done: try again later");
}
