/* Numbers that the functions return: positive ones inside, and the way out of a function that
 * gives negative ones. */
#ifndef TESUP_COMPAT_MOONCAKE_CODE_H
#define TESUP_COMPAT_MOONCAKE_CODE_H

#include "client/compat/mooncake/include/transfer_engine_c.h"
#include "client/include/tesup.h"

#define CODE_NOT_IMPLEMENTED_NEGATIVE (-303)

static inline int code_negative(int code)
{
    return code == TRANSFER_ENGINE_NOT_IMPLEMENTED ? CODE_NOT_IMPLEMENTED_NEGATIVE : -code;
}

/* What a status of libtesup is called here. */
static inline int code_of_tesup(int status)
{
    switch (status) {
    case TESUP_OK:
        return 0;
    case TESUP_ERR_INVALID:
        return TRANSFER_ENGINE_INVALID_ARGUMENT;
    case TESUP_ERR_LIMIT:
    case TESUP_ERR_NO_MEMORY:
    case TESUP_ERR_FAULT:
        return TRANSFER_ENGINE_MEMORY;
    case TESUP_ERR_UNSUPPORTED:
    case TESUP_ERR_TOO_LONG:
        return TRANSFER_ENGINE_NOT_IMPLEMENTED;
    case TESUP_ERR_UNREACHABLE:
    case TESUP_ERR_AUTH:
    case TESUP_ERR_NOT_FOUND:
        return TRANSFER_ENGINE_ENDPOINT;
    default:
        return TRANSFER_ENGINE_CONTEXT;
    }
}

#endif
