// SPDX-License-Identifier: GPL-2.0
/*
 * The programs of capture.bpf.c, for kernels that let programs read the processor's counter. A kernel that lacks it takes
 * them too, and they stamp by its clock; but it has to describe its types (BTF), which those need not.
 */
#define QUAVER_CYCLES 1
#include "capture.bpf.c"
