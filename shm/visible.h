/* Which GPU a process means by "my second one".
 *
 * An index counts the GPUs that this process sees: those of CUDA_VISIBLE_DEVICES, in its order;
 * else those that NVIDIA's driver shows here (a container shows some), by PCI bus id, as CUDA
 * numbers them with CUDA_DEVICE_ORDER=PCI_BUS_ID.  Nothing of CUDA is loaded for it.
 */
#ifndef TESUP_SHM_VISIBLE_H
#define TESUP_SHM_VISIBLE_H

#include <stddef.h>

#define VISIBLE_GPU_MAX 64
/* Where NVIDIA's driver has a folder for each GPU, named by its bus id. */
#define VISIBLE_DRIVER "/proc/driver/nvidia/gpus"

/* `visible` is the value of CUDA_VISIBLE_DEVICES or NULL. Writes a bus id, a UUID ("GPU-…", or
 * "MIG-…" for an instance), or a number in PCI order when `driver` is no folder. TS_OK, or an error
 * with a phrase in why. */
int visible_gpu(const char *visible, const char *driver, unsigned index, char gpu[VISIBLE_GPU_MAX],
                char *why, size_t why_size);

#endif
