/* The hot loops of the shared-memory lane: words and futexes to wait by, sums over slots, the scaled and checked copy-in.
 * Knows no Python and no torch: it is handed addresses. `kernel.py` mirrors `struct lane`; change both together. */
#define _GNU_SOURCE
#include <errno.h>
#include <features.h>
#include <linux/futex.h>
#include <stdatomic.h>
#include <stdint.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#if defined(__x86_64__)
#include <emmintrin.h>
#define pause_briefly() _mm_pause()
#define fence_if(past) ((past) ? _mm_sfence() : (void)0) /* copies past the caches must be there first */
#else
#define pause_briefly() ((void)0)
#define fence_if(past) ((void)(past))
#endif

/* One loop, compiled for several instruction sets; the loader picks. */
#if defined(__x86_64__) && defined(__GLIBC__) && defined(__has_attribute)
#if __has_attribute(target_clones)
#define CLONES __attribute__((target_clones("avx512f", "avx2", "default")))
#endif
#endif
#ifndef CLONES
#define CLONES
#endif

enum { FINISHED = 0, NOT_YET = 1, OUT_OF_TURN = -1 };
enum { IDLE, ANNOUNCED, REDUCED, DONE };
enum { EVERY, ONCE, OWN };
enum { FLOAT32, FLOAT64 };
enum { LINE = 64, BLOCK = 4096, TRIES = 5, FUTEX_ALL = INT32_MAX };

typedef _Atomic uint32_t word;

/* A part of my share that lies in memory of my own: it is summed, and its mean laid down, where it lies. */
struct stay {
    int64_t first, last; /* elements */
    char *at;
};

/* How a way of writing has done so far. Which one is quicker differs from machine to machine, by half as much again. */
struct way {
    int64_t tried;
    double taken; /* nanoseconds for a byte, of the first tries together */
};

struct lane {
    int32_t member, size, buckets, kind, spins, pad;
    int64_t slice;          /* nanoseconds after which a wait comes back to its caller */
    int64_t stream;         /* bytes from which a share written once may go past the caches */
    char *slots;            /* every member's numbers, one slot after the other */
    int64_t stride;         /* bytes from one slot to the next */
    char *whole;            /* the one shared result, or NULL */
    char *words;            /* every member's own words: announced by bucket, then done by bucket */
    int64_t apart;          /* bytes from one member's words to the next */
    char *counters;         /* by bucket, a line each: arrived, finished, claimed */
    const int64_t *shares;  /* by bucket, by member: first element and the one after the last */
    const int32_t *small;   /* by bucket: 1 if one member sums it for all */
    uint32_t *rounds;       /* by bucket: how often I announced */
    int32_t *progress;      /* by bucket: IDLE .. DONE */
    struct stay **stays;    /* by bucket, in order: what of my share stays where it is, ended by one of no elements */
    int32_t *sick;          /* by bucket: the first of these that held a NaN or an infinity, or -1 */
    struct way *ways;       /* two ways to write a share once: through the caches, and past them */
};

static word *announced(const struct lane *l, int m) { return (word *)(l->words + m * l->apart); }
static word *done(const struct lane *l, int m) { return announced(l, m) + l->buckets; }
static word *arrived(const struct lane *l, int b) { return (word *)(l->counters + (int64_t)b * 3 * LINE); }
static word *finished(const struct lane *l, int b) { return arrived(l, b) + LINE / 4; }
static word *claimed(const struct lane *l, int b) { return arrived(l, b) + 2 * LINE / 4; }
static uint32_t target(const struct lane *l, int b) { return l->rounds[b] * (uint32_t)l->size; }

/* The checksum of this very file when it was compiled: `kernel.py` compares it with the file beside it. */
int64_t lane_stamp(void) { return STAMP; }

/* ---- waiting ---- */

static int reached(word *w, uint32_t goal) {
    return (int32_t)(atomic_load_explicit(w, memory_order_acquire) - goal) >= 0; /* right after a wrap, too */
}

static void count_in(word *w, uint32_t by, uint32_t goal) {
    if (atomic_fetch_add_explicit(w, by, memory_order_acq_rel) + by == goal)
        syscall(SYS_futex, w, FUTEX_WAKE, FUTEX_ALL, NULL, NULL, 0); /* only the last arriver wakes */
}

static int wait_for(const struct lane *l, word *w, uint32_t goal) {
    for (int i = 0; i <= l->spins; i++) {
        if (reached(w, goal)) return FINISHED;
        pause_briefly();
    }
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_nsec += l->slice;
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    for (;;) {
        uint32_t seen = atomic_load_explicit(w, memory_order_acquire);
        if ((int32_t)(seen - goal) >= 0) return FINISHED;
        if (syscall(SYS_futex, w, FUTEX_WAIT_BITSET, seen, &until, NULL, FUTEX_BITSET_MATCH_ANY) == -1 && errno != EAGAIN)
            return reached(w, goal) ? FINISHED : NOT_YET; /* time is up, or a signal wants to be heard */
    }
}

/* ---- sums ---- */

/* total = (slot 0 + slot 1 + ...) / size, or the sum of weight * slot, always in the order of members.
 * Four slots are read at a time: reading one after the other was 5 to 15 % slower. */
#define EACH(SUM) for (int64_t i = 0; i < n; i++) total[i] = (SUM)
#define FROM(M) ((M) == member ? own : slots + (M) * stride) /* a member's own may lie elsewhere than in its slot */
#define DEFINE_SUM(T, NAME)                                                                                           \
    CLONES static void NAME(T *restrict total, const char *slots, int64_t stride, int member, const char *own,        \
                            int size, int64_t n, const double *w) {                                                   \
        for (int m = 0; m < size; m += 4) {                                                                           \
            const int left = size - m;                                                                                \
            const T *restrict a = (const T *)FROM(m);                                                                 \
            const T *restrict b = (const T *)FROM(m + 1);                                                             \
            const T *restrict c = (const T *)FROM(m + 2);                                                             \
            const T *restrict d = (const T *)FROM(m + 3);                                                             \
            const T by = left > 4 ? 1 : (T)1 / (T)size;                                                               \
            if (w)                                                                                                    \
                for (int k = m; k < size && k < m + 4; k++) {                                                         \
                    const T *restrict x = (const T *)FROM(k);                                                         \
                    const T weight = (T)w[k];                                                                         \
                    if (k == 0) EACH(weight * x[i]);                                                                  \
                    else EACH(total[i] + weight * x[i]);                                                              \
                }                                                                                                     \
            else if (m == 0 && left >= 4) EACH((((a[i] + b[i]) + c[i]) + d[i]) * by);                                 \
            else if (m == 0 && left == 3) EACH(((a[i] + b[i]) + c[i]) * by);                                          \
            else if (m == 0 && left == 2) EACH((a[i] + b[i]) * by);                                                   \
            else if (m == 0) EACH(a[i]);                                                                              \
            else if (left >= 4) EACH(((((total[i] + a[i]) + b[i]) + c[i]) + d[i]) * by);                              \
            else if (left == 3) EACH((((total[i] + a[i]) + b[i]) + c[i]) * by);                                       \
            else if (left == 2) EACH(((total[i] + a[i]) + b[i]) * by);                                                \
            else EACH((total[i] + a[i]) * by);                                                                        \
        }                                                                                                             \
    }
DEFINE_SUM(float, sum32)
DEFINE_SUM(double, sum64)

/* A copy that leaves the caches alone: what is written here is next read by somebody else, much later. */
static void copy_past_caches(char *to, const char *from, int64_t bytes) {
#if defined(__x86_64__)
    int64_t head = (-(intptr_t)to) & 15;
    if (head > bytes) head = bytes;
    memcpy(to, from, head);
    int64_t i = head;
    for (; i + 16 <= bytes; i += 16) _mm_stream_si128((__m128i *)(to + i), _mm_loadu_si128((const __m128i *)(from + i)));
    memcpy(to + i, from + i, bytes - i);
#else
    memcpy(to, from, bytes);
#endif
}

/* Whether any of it is a NaN or an infinity: all bits of the exponent set. */
#define DEFINE_LOOK(T, BITS, EXPONENT, NAME)                  \
    CLONES static int NAME(const T *from, int64_t n) {        \
        BITS bad = 0;                                         \
        for (int64_t i = 0; i < n; i++) {                     \
            BITS bits;                                        \
            memcpy(&bits, from + i, sizeof bits);             \
            bad |= (bits & EXPONENT) == EXPONENT;             \
        }                                                     \
        return bad != 0;                                      \
    }
#define EXPONENT32 0x7f800000u
#define EXPONENT64 0x7ff0000000000000ull
DEFINE_LOOK(float, uint32_t, EXPONENT32, look32)
DEFINE_LOOK(double, uint64_t, EXPONENT64, look64)

static int look(int kind, const char *from, int64_t bytes) {
    return kind == FLOAT32 ? look32((const float *)from, bytes / 4) : look64((const double *)from, bytes / 8);
}

/* `own`: where the owner's part lies. */
static void put(const struct lane *l, int owner, char *own, int into, int64_t at, const char *total, int64_t bytes, int past) {
    if (into == ONCE && past) copy_past_caches(l->whole + at, total, bytes);
    else if (into == ONCE) memcpy(l->whole + at, total, bytes);
    else if (into == OWN) memcpy(own, total, bytes);
    else
        for (int m = 0; m < l->size; m++) memcpy(m == owner ? own : l->slots + m * l->stride + at, total, bytes);
}

/* Whether to write past the caches: both ways are tried in turns, then the one that was quicker is taken. */
static int goes_past(const struct way *ways) {
    if (ways[0].tried < TRIES || ways[1].tried < TRIES) return ways[1].tried < ways[0].tried;
    return ways[1].taken < ways[0].taken;
}

static double nanoseconds(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return 1e9 * (double)t.tv_sec + (double)t.tv_nsec;
}

static void tried(struct way *w, double taken) {
    if (w->tried++ < TRIES) w->taken += taken;
}

/* Sums the bytes from `at` to `stop`, which are `owner`'s to write and lie at `own`; returns whether its were sick. */
static int sum_bytes(const struct lane *l, int64_t at, int64_t stop, int owner, char *own, int stays, int into, const double *weights) {
    const int large = into == ONCE && stop - at >= l->stream, past = large && goes_past(l->ways);
    const double length = (double)(stop - at), began = large ? nanoseconds() : 0.0;
    int sick = 0;
    char total[BLOCK] __attribute__((aligned(64)));
    for (int64_t bytes; at < stop; at += bytes, own += bytes) {
        bytes = stop - at < BLOCK ? stop - at : BLOCK;
        if (l->kind == FLOAT32) sum32((float *)total, l->slots + at, l->stride, owner, own, l->size, bytes / 4, weights);
        else sum64((double *)total, l->slots + at, l->stride, owner, own, l->size, bytes / 8, weights);
        if (stays && !sick && look(l->kind, total, bytes)) sick = look(l->kind, own, bytes); /* nobody else will look */
        put(l, owner, own, into, at, total, bytes, past);
    }
    fence_if(past);
    if (large) tried(&l->ways[past], (nanoseconds() - began) / length);
    return sick;
}

/* Sums the elements from `first` to the one before `last`, which are `owner`'s to write. */
static void sum_span(const struct lane *l, int64_t first, int64_t last, int owner, int into, const double *weights) {
    const int64_t width = l->kind == FLOAT32 ? 4 : 8, at = first * width;
    if (l->size == 1 && !weights && into != ONCE) return; /* the mean of one is where it belongs */
    sum_bytes(l, at, last * width, owner, l->slots + owner * l->stride + at, 0, into, weights);
}

static void sum_share(const struct lane *l, int b, int owner, int into, const double *weights) {
    const int64_t *span = l->shares + 2 * ((int64_t)b * l->size + owner);
    const int64_t width = l->kind == FLOAT32 ? 4 : 8;
    int64_t first = span[0];
    l->sick[b] = -1;
    for (const struct stay *s = l->stays[b]; s && s->first < s->last; first = (s++)->last) {
        sum_span(l, first, s->first, owner, into, weights);
        if (sum_bytes(l, s->first * width, s->last * width, owner, s->at, 1, into, weights) && l->sick[b] < 0)
            l->sick[b] = (int32_t)(s - l->stays[b]);
    }
    sum_span(l, first, span[1], owner, into, weights);
}

/* For who has gathered a bucket and sums another part of it than its share. */
void lane_sum(const struct lane *l, int64_t first, int64_t last, int into, const double *weights) {
    sum_span(l, first, last, l->member, into, weights);
}

/* ---- a mix, piece by piece ---- */

int lane_announce(struct lane *l, int b) {
    if (l->progress[b] != IDLE) return OUT_OF_TURN;
    l->progress[b] = ANNOUNCED;
    uint32_t round = ++l->rounds[b];
    atomic_store_explicit(announced(l, l->member) + b, round, memory_order_release);
    count_in(arrived(l, b), 1, target(l, b));
    return FINISHED;
}

int lane_ready(struct lane *l, int b) { return l->progress[b] != IDLE && reached(arrived(l, b), target(l, b)); }

int lane_gather(struct lane *l, int b) {
    if (l->progress[b] != ANNOUNCED) return OUT_OF_TURN;
    return wait_for(l, arrived(l, b), target(l, b));
}

/* A small bucket is summed by one member for all, so that everybody sleeps at most once: whoever comes last claims it. */
static int reduce_small(struct lane *l, int b, int into, const double *weights) {
    uint32_t round = l->rounds[b], before = round - 1;
    if (reached(arrived(l, b), target(l, b)) && atomic_compare_exchange_strong(claimed(l, b), &before, round)) {
        for (int m = 0; m < l->size; m++) sum_share(l, b, m, into, weights);
        atomic_store_explicit(done(l, l->member) + b, round, memory_order_release);
        count_in(finished(l, b), (uint32_t)l->size, target(l, b));
        return FINISHED;
    }
    atomic_store_explicit(done(l, l->member) + b, round, memory_order_release);
    return wait_for(l, finished(l, b), target(l, b));
}

int lane_reduce(struct lane *l, int b, int into, const double *weights) {
    if (l->progress[b] != ANNOUNCED) return OUT_OF_TURN;
    int code = l->small[b] ? reduce_small(l, b, into, weights) : wait_for(l, arrived(l, b), target(l, b));
    if (code) return code;
    if (!l->small[b]) sum_share(l, b, l->member, into, weights);
    l->progress[b] = REDUCED;
    return FINISHED;
}

int lane_done(struct lane *l, int b) {
    if (l->progress[b] != REDUCED && (l->small[b] || l->progress[b] != ANNOUNCED)) return OUT_OF_TURN;
    l->progress[b] = DONE;
    atomic_store_explicit(done(l, l->member) + b, l->rounds[b], memory_order_release);
    if (!l->small[b]) /* else whoever summed it has counted everybody */
        count_in(finished(l, b), 1, target(l, b));
    return FINISHED;
}

int lane_settle(struct lane *l, int b) {
    if (l->progress[b] != DONE) return OUT_OF_TURN;
    int code = wait_for(l, finished(l, b), target(l, b));
    if (code) return code;
    l->progress[b] = IDLE;
    l->stays[b] = NULL;
    return FINISHED;
}

/* All of it; called again after NOT_YET it goes on where it was. */
int lane_mix(struct lane *l, int b, int into, const double *weights) {
    int code;
    if (l->progress[b] == IDLE) lane_announce(l, b);
    if (l->progress[b] == ANNOUNCED && (code = lane_reduce(l, b, into, weights))) return code;
    if (l->progress[b] == REDUCED) lane_done(l, b);
    return lane_settle(l, b);
}

/* ---- copying in ---- */

/* to[i] = scale * from[i]; returns whether any of it is a NaN or an infinity. */
#define DEFINE_COPY(T, BITS, EXPONENT, NAME)                             \
    CLONES static int NAME(T *to, const T *from, int64_t n, T scale) {   \
        BITS bad = 0;                                                    \
        for (int64_t i = 0; i < n; i++) {                                \
            T x = scale * from[i];                                       \
            BITS bits;                                                   \
            memcpy(&bits, &x, sizeof bits);                              \
            to[i] = x;                                                   \
            bad |= (bits & EXPONENT) == EXPONENT;                        \
        }                                                                \
        return bad != 0;                                                 \
    }
DEFINE_COPY(float, uint32_t, EXPONENT32, copy32)
DEFINE_COPY(double, uint64_t, EXPONENT64, copy64)

static int copy_in(int kind, char *into, const char *from, int64_t count, double scale) {
    if (into == from && scale == 1.0) return look(kind, into, count * (kind == FLOAT32 ? 4 : 8));
    return kind == FLOAT32 ? copy32((float *)into, (const float *)from, count, (float)scale)
                           : copy64((double *)into, (const double *)from, count, scale);
}

/* Copies `n` arrays one after the other, but for those without an address, whose place is left as it is;
 * returns the first that holds a NaN or an infinity, or -1. */
int64_t lane_load(const struct lane *l, char *into, char *const *sources, const int64_t *counts, int64_t n, double scale) {
    int64_t found = -1;
    for (int64_t s = 0; s < n; into += counts[s++] * (l->kind == FLOAT32 ? 4 : 8))
        if (sources[s] && copy_in(l->kind, into, sources[s], counts[s], scale) && found < 0) found = s;
    return found;
}
