/* For LD_PRELOAD: between begin_step() and end_step() the n-th aligned allocation of this process fails.
   Torch's CPU allocator uses posix_memalign, so this reaches what no dispatch mode sees: the reducer, AccumulateGrad. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdatomic.h>
#include <stddef.h>

static _Atomic long count, fails;
static _Atomic int counting, struck;

void begin_step(long n) { count = 0; fails = n; struck = 0; counting = 1; }
long allocations(void) { return count; }
int end_step(void) { counting = 0; return struck; }

int posix_memalign(void **memory, size_t alignment, size_t size) {
  static int (*real)(void **, size_t, size_t);
  if (!real) real = (int (*)(void **, size_t, size_t))dlsym(RTLD_NEXT, "posix_memalign");
  if (counting && alignment >= 64 && size && ++count == fails) { struck = 1; return ENOMEM; }
  return real(memory, alignment, size);
}
