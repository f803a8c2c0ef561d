/* Failures on demand: the N-th call of a function, or the N-th piece of its work. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/standin/cuda.h"

struct fail_rule {
    unsigned long left; /* this many more are well */
    enum cuda_result code;
    bool work;
    char call[64];
};

static struct fail_rule rules[16];
static int rule_count = -1; /* not read yet */

static void rules_read(void)
{
    const char *text = standin_env("STANDIN_CUDA_FAIL", "");

    rule_count = 0;
    while (*text) {
        struct fail_rule *rule = &rules[rule_count];
        size_t length = strcspn(text, ",");
        char one[128], kind;
        unsigned long number;
        int code;

        snprintf(one, sizeof(one), "%.*s", (int)length, text);
        if (rule_count == (int)(sizeof(rules) / sizeof(rules[0])) ||
            /* NOLINTNEXTLINE(cert-err34-c): what does not fit is no valid rule */
            sscanf(one, "%63[^:@]%c%lu:%d", rule->call, &kind, &number, &code) != 4 || number == 0)
            standin_die("STANDIN_CUDA_FAIL: \"%s\" is not CALL:N:CODE or CALL@N:CODE", one);
        rule->work = kind == '@';
        rule->left = number - 1;
        rule->code = (enum cuda_result)code;
        rule_count++;
        text += length + (text[length] == ',');
    }
}

static enum cuda_result rule_apply(const char *call, bool work)
{
    if (rule_count < 0)
        rules_read();
    for (int i = 0; i < rule_count; i++) {
        struct fail_rule *rule = &rules[i];

        if (rule->work != work || strcmp(rule->call, call) != 0 || rule->code == CUDA_OK)
            continue;
        if (rule->left-- == 0) {
            enum cuda_result code = rule->code;

            rule->code = CUDA_OK;
            return code;
        }
    }
    return CUDA_OK;
}

enum cuda_result standin_fail_call(const char *call)
{
    return rule_apply(call, false);
}

enum cuda_result standin_fail_work(const char *call)
{
    return rule_apply(call, true);
}

bool standin_is_sticky(enum cuda_result code)
{
    switch (code) {
    case CUDA_ECC_UNCORRECTABLE:
    case CUDA_NVLINK_UNCORRECTABLE:
    case CUDA_CONTAINED:
    case CUDA_ILLEGAL_ADDRESS:
    case CUDA_HARDWARE_STACK_ERROR:
    case CUDA_MISALIGNED_ADDRESS:
    case CUDA_INVALID_PC:
    case CUDA_LAUNCH_FAILED:
    case CUDA_EXTERNAL_DEVICE:
        return true;
    default:
        return false;
    }
}
