#include "supervisor/worker/cpu_list.h"

#include <stdlib.h>

bool cpu_list_contains(const char *list, int cpu)
{
    while (*list != '\0') {
        char *end;
        long first = strtol(list, &end, 10), last = first;

        if (end == list)
            return false;
        if (*end == '-')
            last = strtol(end + 1, &end, 10);
        if (cpu >= first && cpu <= last)
            return true;
        list = *end == ',' ? end + 1 : end;
    }
    return false;
}
