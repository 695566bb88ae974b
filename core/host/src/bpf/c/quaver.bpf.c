// SPDX-License-Identifier: GPL-2.0
/* All programs of the BPF tier, as one object. What they share with user space is in shared.h. */
#include "threads.h"
#include "calls.h"
