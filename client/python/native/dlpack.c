/* DLPack: the tensor of another library, as an address and a length.
 *
 * The structs are those that DLPack 0.x fixes for the capsule "dltensor"; libraries that know later
 * versions give this one to whoever does not ask for more.
 */
#include <stdio.h>

#include "native.h"

#define DLPACK_CPU       1
#define DLPACK_CUDA      2
#define DLPACK_CUDA_HOST 3  /* pinned, and read and written like any other memory */
#define DLPACK_ROCM_HOST 11 /* the same */

struct dlpack_tensor {
    void *data;
    struct {
        int32_t kind, index;
    } device;
    int32_t dimensions;
    struct {
        uint8_t code, bits;
        uint16_t lanes;
    } type;
    const int64_t *shape, *strides; /* strides in elements; NULL: compact */
    uint64_t byte_offset;
};

struct dlpack_managed {
    struct dlpack_tensor tensor;
    void *context;
    void (*deleter)(struct dlpack_managed *self);
};

/* Elements, or -1 when they do not lie side by side in C order. */
static int64_t tensor_count(const struct dlpack_tensor *tensor)
{
    int64_t count = 1;

    for (int32_t i = tensor->dimensions - 1; i >= 0; i--) {
        int64_t extent = tensor->shape[i];

        if (tensor->strides != NULL && extent > 1 && tensor->strides[i] != count)
            return -1;
        if (extent < 0 || __builtin_mul_overflow(count, extent, &count))
            return -1;
    }
    return count;
}

static int tensor_range(const struct dlpack_tensor *tensor, struct dlpack_range *range)
{
    uint64_t bits = (uint64_t)tensor->type.bits * tensor->type.lanes;
    int64_t count = tensor_count(tensor);
    char text[192];

    range->gpu = tensor->device.kind == DLPACK_CUDA;
    if (tensor->device.kind != DLPACK_CPU && !range->gpu &&
        tensor->device.kind != DLPACK_CUDA_HOST && tensor->device.kind != DLPACK_ROCM_HOST) {
        snprintf(text, sizeof(text),
                 "a tensor on DLPack device type %d: memory of the host and of CUDA devices can be "
                 "registered; copy it there, or into Session.alloc()",
                 (int)tensor->device.kind);
        error_raise_text(TESUP_ERR_UNSUPPORTED, text);
        return -1;
    }
    if (count < 0) {
        error_raise_text(TESUP_ERR_INVALID, "the tensor's elements do not lie side by side; "
                                            "register a contiguous one");
        return -1;
    }
    range->address = (char *)tensor->data + tensor->byte_offset;
    if (__builtin_mul_overflow((uint64_t)count, bits, &range->length)) {
        error_raise_text(TESUP_ERR_INVALID, "the tensor's size makes no sense");
        return -1;
    }
    range->length = (range->length + 7) / 8;
    return 0;
}

void *dlpack_take(PyObject *capsule, struct dlpack_range *range)
{
    struct dlpack_managed *managed = PyCapsule_GetPointer(capsule, "dltensor");

    if (managed == NULL || tensor_range(&managed->tensor, range) < 0)
        return NULL;
    if (PyCapsule_SetName(capsule, "used_dltensor") < 0) /* from now on the tensor is ours */
        return NULL;
    return managed;
}

void dlpack_release(void *tensor)
{
    struct dlpack_managed *managed = tensor;

    if (managed->deleter != NULL)
        managed->deleter(managed);
}
