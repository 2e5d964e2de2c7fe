/* What agx-fix tells a program that is written in C. The figures are explained in docs/src/agx-fix.md. */
#ifndef AGX_FIX_H
#define AGX_FIX_H

#include <stddef.h>
#include <stdint.h>

struct agx_fix_statistics {
    uint64_t classes;
    uint64_t methods;
    uint64_t methods_left_out;
    uint64_t created;
    uint64_t unannounced;
    uint64_t ended;
    uint64_t destroyed;
    uint64_t deferred;
    uint64_t calls;
    uint64_t nested_calls;
    uint64_t waits;
    uint64_t wait_nanoseconds;
    uint64_t longest_wait_nanoseconds;
    uint64_t long_waits;
    uint64_t given_up;
    uint64_t after_end;
    uint64_t after_destruction;
    uint64_t abandoned;
    uint64_t too_deep;
    uint64_t kept;
    uint64_t buffers;
    uint64_t committed;
    uint64_t after_commit;
};

/* Writes as much of the statistics as `size` bytes have room for, and returns how many bytes they have: figures may be
   added at the end. */
size_t agx_fix_statistics(struct agx_fix_statistics *to, size_t size);

/* How many wrapped methods run something else by now, because somebody else replaced them; each is named on standard
   error. -1, if nothing is wrapped. */
ptrdiff_t agx_fix_check(void);

#endif
