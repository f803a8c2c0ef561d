/* The options of `tesup serve`: command line over environment over config file over default.
 *
 * One table (options_table.c) names each option once; parsing, the config file, --help and the
 * config reference are made from it.
 */
#ifndef TESUP_SUPERVISOR_OPTIONS_OPTIONS_H
#define TESUP_SUPERVISOR_OPTIONS_OPTIONS_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

#include "shm/layout.h"
#include "shm/name.h"
#include "shm/proto.h"
#include "supervisor/options/paths.h"
#include "topology/topology.h"

#define OPTIONS_HOST_MAX NAME_HOST_MAX
#define OPTIONS_UIDS_MAX 64u
#define OPTIONS_TEXT_MAX 1024u /* an error sentence */

/* Same numbers as enum proto_fabric. */
enum option_fabric {
    OPTION_FABRIC_AUTO = 0,
    OPTION_FABRIC_TCP = 1,
    OPTION_FABRIC_LOCAL = 2,
    OPTION_FABRIC_VERBS = 3,
};
/* Same numbers as enum proto_idle. */
enum option_idle { OPTION_IDLE_ADAPTIVE = 0, OPTION_IDLE_BUSY = 1, OPTION_IDLE_SLEEP = 2 };
enum option_peer_auth { OPTION_PEER_AUTH_NONE = 0, OPTION_PEER_AUTH_PSK = 1 };

struct option_uids {
    bool all; /* "*" */
    uint32_t count;
    uid_t uid[OPTIONS_UIDS_MAX];
};

struct serve_options {
    char name[OPTIONS_NAME_MAX];
    char runtime_dir[PATH_MAX];
    char config[PATH_MAX];   /* "" = none */
    char topology[PATH_MAX]; /* hwloc XML; "" = this machine */
    bool foreground;
    uint32_t drain_ms;
    uint32_t exit_idle_ms; /* 0 = never */

    char listen[LAYOUT_NAME_MAX];       /* as given, HOST:PORT */
    char listen_host[OPTIONS_HOST_MAX]; /* split; IPv6 without brackets */
    uint16_t listen_port;               /* 0 = any free one */
    char advertise[OPTIONS_HOST_MAX];   /* IPv6 without brackets */
    char peer_key[PATH_MAX];            /* "" only when peer_auth is none */
    uint32_t peer_auth;                 /* enum option_peer_auth */
    uint32_t connect_ms;
    uint32_t handshake_ms;
    uint32_t endpoint_max;

    uint32_t workers;            /* 0 = as planned */
    struct topology_rules rules; /* exclude, reserved_cpus and the [pair] sections */
    uint32_t fabric;             /* enum option_fabric */
    uint32_t idle;               /* enum option_idle */
    uint32_t spin_us;
    uint32_t slice_bytes;
    uint32_t tcp_window;
    uint32_t request_ms; /* 0 = no default deadline */

    struct proto_rdma rdma;
    struct option_uids rdma_uids; /* besides our own: may register memory with the device */

    bool notify_native;
    bool notify_oob_fallback;

    uint32_t restart_window_ms;
    uint32_t restart_max_deaths;
    uint32_t restart_backoff_max_ms;

    uint32_t sessions_max;
    uint32_t sessions_per_uid;
    uint32_t channels_per_session;
    uint32_t regions_per_session;
    struct option_uids allow_uids;

    uint32_t slots;
    uint64_t shm_counter_start;
};

/* Fills `o` from arguments (argv[0] is not one), environment, config file and defaults.
 * 0; or 2 after a sentence was printed to stderr. --help and --help-config print and exit(0). */
int options_parse(int argc, char **argv, struct serve_options *o);

/* The config file alone, over what `o` holds. `path` is for messages. 0, or -1 with text. */
int options_config_read(FILE *file, const char *path, struct serve_options *o, char *text,
                        size_t text_size);

/* All defaults that need no look at the system. */
void options_defaults(struct serve_options *o);

/* Prints a config file that holds every key, commented out, with its explanation. */
void options_reference_print(FILE *out);

#endif
