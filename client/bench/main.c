/* `tesup bench`: latency and bandwidth of transfers with their notifications, verified. */
#include "client/bench/initiator.h"
#include "client/bench/local.h"
#include "client/bench/options.h"
#include "client/bench/target.h"

int main(int argc, char **argv)
{
    struct bench_options options;

    options_parse(&options, argc, argv);
    switch (options.mode) {
    case BENCH_MODE_LOCAL:
        return local_run(&options, argc, argv);
    case BENCH_MODE_TARGET:
        return target_run(&options);
    case BENCH_MODE_INITIATOR:
        return initiator_run(&options);
    }
    return OPTIONS_EXIT_USAGE;
}
