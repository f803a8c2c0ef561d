/* Status codes: zero or positive is a documented outcome, negative is an error.
 *
 * The same numbers are in the public header tesup.h; client/abi.c holds both equal at compile time.
 * Codes travel in completions and in peer frames, so a number is never reused or renumbered.
 */
#ifndef TESUP_SHM_ERR_H
#define TESUP_SHM_ERR_H

enum tesup_code {
    TS_OK = 0,
    TS_AGAIN = 1,             /* no room now: nothing was accepted, retry after a completion */
    TS_ERR_INVALID = -1,      /* an argument or descriptor makes no sense */
    TS_ERR_DENIED = -2,       /* the owner's access flags or the trust rule forbid it */
    TS_ERR_GONE = -3,         /* the handle's object existed and is gone */
    TS_ERR_NOT_FOUND = -4,    /* no such segment, pair or handle */
    TS_ERR_UNREACHABLE = -5,  /* no connection to the peer; nothing was sent */
    TS_ERR_TIMEOUT = -6,      /* the deadline passed; no byte can land any more */
    TS_ERR_CANCELLED = -7,    /* cancelled; no byte can land any more */
    TS_ERR_UNCERTAIN = -8,    /* posted, outcome unknown; never replayed */
    TS_ERR_FAULT = -9,        /* memory vanished or could not be touched */
    TS_ERR_LIMIT = -10,       /* a limit was reached (named in the text) */
    TS_ERR_NO_MEMORY = -11,   /* the system refused memory */
    TS_ERR_NO_DAEMON = -12,   /* no supervisor at the socket */
    TS_ERR_FORKED = -13,      /* called in a child of the process that attached */
    TS_ERR_VERSION = -14,     /* the two sides speak different versions */
    TS_ERR_PROTOCOL = -15,    /* the other side broke the protocol */
    TS_ERR_EXISTS = -16,      /* the name is taken */
    TS_ERR_UNSUPPORTED = -17, /* not possible here; the text says what is */
    TS_ERR_TOO_LONG = -18,    /* name + message exceed the limit */
    TS_ERR_AUTH = -19,        /* the peer did not prove that it knows the key */
    TS_ERR_SYSTEM = -20,      /* a system call failed; errno is in the text */
    TS_ERR_SKIPPED = -21,     /* not started: the transfer it was bound to failed */
    TS_ERR_LAST = -21,
};

/* One short English phrase per code; never NULL, also for unknown codes.  Thread-safe. */
const char *err_name(int code);

#endif
