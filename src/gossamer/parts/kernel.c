/* The hot loops of codecs that write an element in a few bits: sizes, draws, codes, and codes added up again.
 * Knows no Python and no torch: it is handed addresses of 32-bit floats. `kernel.py` calls it; `bits.py` and the codecs
 * say the same in torch operations. Code k of n lies in byte k mod m at place k div m, m the number of bytes. */
#include <features.h>
#include <math.h>
#include <stdint.h>
#include <string.h>

#if defined(__x86_64__) && defined(__GLIBC__) && defined(__has_attribute)
#if __has_attribute(target_clones)
#define CLONES __attribute__((target_clones("avx512f", "avx2", "default")))
#endif
#endif
#ifndef CLONES
#define CLONES
#endif

enum { LANES = 16, RUN = 256 };

typedef struct {
    double sum, squares, peak;
} sizes;

int64_t codec_stamp(void) { return STAMP; }

/* ---- draws: a number in [0, 1) decided by its place and two words of a key; `chance.py` says the same */

static inline uint32_t mixed(uint32_t x) {
    x ^= x >> 16;
    x *= 0x7feb352dU;
    x ^= x >> 15;
    x *= 0x846ca68bU;
    return x ^ x >> 16;
}

static inline float drawn(uint32_t place, uint32_t one, uint32_t other) {
    return (float)(int32_t)(mixed(mixed(place * 0x9E3779B9U + one) + other) >> 8) * 0x1p-24f;
}

CLONES void codec_uniform(float *into, int64_t count, uint32_t one, uint32_t other) {
    for (int64_t k = 0; k < count; k++)
        into[k] = drawn((uint32_t)k, one, other);
}

/* ---- sizes of a vector */

CLONES void codec_sizes(const float *x, int64_t count, sizes *found) {
    double sum[LANES] = {0}, squares[LANES] = {0};
    float peak[LANES] = {0};
    int64_t k = 0;
    for (; k + LANES <= count; k += LANES)
        for (int lane = 0; lane < LANES; lane++) {
            float v = x[k + lane], size = fabsf(v);
            sum[lane] += v;
            squares[lane] += (double)v * v;
            peak[lane] = size > peak[lane] ? size : peak[lane];
        }
    for (; k < count; k++) {
        float size = fabsf(x[k]);
        sum[0] += x[k];
        squares[0] += (double)x[k] * x[k];
        peak[0] = size > peak[0] ? size : peak[0];
    }
    *found = (sizes){0, 0, 0};
    for (int lane = 0; lane < LANES; lane++) {
        found->sum += sum[lane];
        found->squares += squares[lane];
        found->peak = peak[lane] > found->peak ? peak[lane] : found->peak;
    }
    if (!isfinite(found->squares)) /* what is not a number is larger than nothing */
        found->peak = NAN;
}

/* ---- where the large ones lie */

/* The places of all that are not smaller than `least`, in order; as many as fit, and how many there are in all. */
CLONES int64_t codec_above(const float *x, int64_t count, float least, int64_t *places, int64_t room) {
    int64_t found = 0;
    for (int64_t first = 0; first < count; first += 4 * LANES) {
        int64_t length = count - first < 4 * LANES ? count - first : 4 * LANES;
        int32_t any = 0;
        for (int64_t k = first; k < first + length; k++)
            any |= !(fabsf(x[k]) < least);
        for (int64_t k = first; any && k < first + length; k++)
            if (!(fabsf(x[k]) < least)) {
                if (found < room)
                    places[found] = k;
                found++;
            }
    }
    return found;
}

/* ---- the means of each column's elements that are not below zero, and of the others */

CLONES static void row_added(const float *x, int64_t columns, float *high, float *low, float *risen) {
    for (int64_t c = 0; c < columns; c++) {
        float v = x[c];
        high[c] += v >= 0 ? v : 0;
        low[c] += v >= 0 ? 0 : v;
        risen[c] += v >= 0 ? 1 : 0;
    }
}

CLONES static void column_added(const float *x, int64_t rows, double *high, double *low, double *risen) {
    double up[LANES] = {0}, down[LANES] = {0}, count[LANES] = {0};
    int64_t k = 0;
    for (; k + LANES <= rows; k += LANES)
        for (int lane = 0; lane < LANES; lane++) {
            float v = x[k + lane];
            up[lane] += v >= 0 ? v : 0;
            down[lane] += v >= 0 ? 0 : v;
            count[lane] += v >= 0 ? 1 : 0;
        }
    for (; k < rows; k++) {
        up[0] += x[k] >= 0 ? x[k] : 0;
        down[0] += x[k] >= 0 ? 0 : x[k];
        count[0] += x[k] >= 0 ? 1 : 0;
    }
    for (int lane = 0; lane < LANES; lane++)
        *high += up[lane], *low += down[lane], *risen += count[lane];
}

/* `room`: 3 x columns floats for RUN rows at a time, so that what is added up in 32 bits stays short; `sums`: 3 x
 * columns doubles. */
void codec_column_means(const float *x, int64_t rows, int64_t columns, float *high, float *low, float *room, double *sums) {
    memset(sums, 0, (size_t)(3 * columns) * sizeof(double));
    if (columns == 1) {
        column_added(x, rows, sums, sums + 1, sums + 2);
    } else {
        for (int64_t first = 0; first < rows; first += RUN) {
            memset(room, 0, (size_t)(3 * columns) * sizeof(float));
            for (int64_t row = first; row < rows && row < first + RUN; row++)
                row_added(x + row * columns, columns, room, room + columns, room + 2 * columns);
            for (int64_t k = 0; k < 3 * columns; k++)
                sums[k] += room[k];
        }
    }
    for (int64_t c = 0; c < columns; c++) {
        double risen = sums[2 * columns + c], fallen = (double)rows - risen;
        high[c] = (float)(sums[c] / (risen > 0 ? risen : 1));
        low[c] = (float)(sums[columns + c] / (fallen > 0 ? fallen : 1));
    }
}

/* ---- codes into bytes */

CLONES void codec_pack_signs(const float *x, int64_t count, uint8_t *body) {
    int64_t bytes = (count + 7) / 8;
    for (int64_t first = 0; first < bytes; first += RUN) {
        uint8_t run[RUN] = {0};
        int64_t length = bytes - first < RUN ? bytes - first : RUN;
        for (int place = 0; place < 8; place++) {
            int64_t start = place * bytes + first, left = count - start;
            int64_t here = left < length ? left : length;
            for (int64_t k = 0; k < here; k++)
                run[k] |= (uint8_t)((x[start + k] >= 0) << place);
        }
        memcpy(body + first, run, (size_t)length);
    }
}

CLONES void codec_pack(const uint8_t *codes, int64_t count, int32_t bits, uint8_t *body) {
    int places = 8 / bits;
    int64_t bytes = (count + places - 1) / places;
    memcpy(body, codes, (size_t)bytes);
    for (int place = 1; place < places; place++) {
        int64_t start = place * bytes, here = count - start < bytes ? count - start : bytes;
        for (int64_t k = 0; k < here; k++)
            body[k] |= (uint8_t)(codes[start + k] << (bits * place));
    }
}

/* ---- codes of what is rounded at random */

/* A bucket of v becomes floor(|v| / norm * most + draw), and above it the sign. */
CLONES void codec_levels(const float *x, int64_t first, int64_t count, float norm, int32_t bits, uint32_t one,
                         uint32_t other, uint8_t *codes) {
    int32_t most = (1 << (bits - 1)) - 1;
    float safe = norm > 0 ? norm : 1, top = (float)most;
    for (int64_t k = 0; k < count; k++) {
        float share = fabsf(x[k]) / safe * top + drawn((uint32_t)(first + k), one, other);
        share = share >= 0 && share < top ? share : top;
        codes[k] = (uint8_t)((int32_t)share | (x[k] < 0 ? most + 1 : 0));
    }
}

/* All buckets of a vector: their norms, and a code for each element. */
void codec_quantised(const float *x, int64_t count, int64_t bucket, int32_t bits, uint32_t one, uint32_t other,
                     float *norms, uint8_t *codes) {
    for (int64_t first = 0; first < count; first += bucket) {
        int64_t length = count - first < bucket ? count - first : bucket;
        sizes found;
        codec_sizes(x + first, length, &found);
        float norm = (float)sqrt(found.squares);
        *norms++ = norm;
        codec_levels(x + first, first, length, norm, bits, one, other, codes + first);
    }
}

/* The largest size of a bucket, no number if anything in it is none; and each element as 127ths of it. */
CLONES static float codec_peak(const float *x, int64_t count) {
    float peak = 0;
    int32_t odd = 0;
    for (int64_t k = 0; k < count; k++) {
        float size = fabsf(x[k]);
        odd |= size != size;
        peak = size > peak ? size : peak;
    }
    return odd ? NAN : peak;
}

CLONES static void codec_shares(const float *x, int64_t count, float safe, int8_t *codes) {
    for (int64_t k = 0; k < count; k++) {
        float share = rintf(x[k] / safe * 127.0f);
        codes[k] = (int8_t)(int32_t)(share == share ? share : 0.0f);
    }
}

void codec_bytes(const float *x, int64_t count, int64_t bucket, float *peaks, int8_t *codes) {
    for (int64_t first = 0; first < count; first += bucket) {
        int64_t length = count - first < bucket ? count - first : bucket;
        float peak = codec_peak(x + first, length);
        *peaks++ = peak;
        codec_shares(x + first, length, peak > 0 ? peak : 1.0f, codes + first);
    }
}

/* The exponent byte of an element, or with the probability that the rest of it says the next one; 255: not finite. */
CLONES void codec_powers(const float *x, int64_t count, uint32_t one, uint32_t other, uint8_t *codes) {
    for (int64_t k = 0; k < count; k++) {
        uint32_t bits;
        memcpy(&bits, x + k, sizeof bits);
        uint32_t lower = bits >> 23 & 255, rest = bits & 0x7fffff;
        uint32_t code = lower + (drawn((uint32_t)k, one, other) * 0x1p23f < (float)(int32_t)rest);
        codes[k] = (uint8_t)(lower == 255 ? 255 : code < 254 ? code : 254);
    }
}

/* Clipped to `bound`, an element is its sign with probability |v| / scale, else 0; written as 2, 0 or 1. */
CLONES void codec_trits(const float *x, int64_t first, int64_t count, float bound, float scale, uint32_t one,
                        uint32_t other, uint8_t *codes) {
    for (int64_t k = 0; k < count; k++) {
        float v = x[k] > bound ? bound : x[k] < -bound ? -bound : x[k];
        int32_t hit = drawn((uint32_t)(first + k), one, other) * scale < fabsf(v);
        codes[k] = (uint8_t)(1 + hit * ((v > 0) - (v < 0)));
    }
}

/* ---- what a body stands for, added up; a stretch of elements that lie at one place of neighbouring bytes at a time */

#define EACH_STRETCH(places)                                                                                           \
    int64_t bytes = (total + (places) - 1) / (places);                                                                 \
    for (int64_t at = 0, length; at < count; at += length)                                                             \
        if (length = bytes - (first + at) % bytes, length = length < count - at ? length : count - at, 1)

CLONES static void signs_added(const uint8_t *codes, int place, int64_t count, const float *high, const float *low,
                               float *into) {
    for (int64_t k = 0; k < count; k++)
        into[k] += codes[k] >> place & 1 ? high[k] : low[k];
}

CLONES static void sign_added(const uint8_t *codes, int place, int64_t count, float high, float low, float *into) {
    for (int64_t k = 0; k < count; k++)
        into[k] += codes[k] >> place & 1 ? high : low;
}

/* `count` elements from `first` of a body of `total`, that form rows of `columns`. */
void codec_add_signs(const uint8_t *body, int64_t total, int64_t first, int64_t count, int64_t columns,
                     const float *high, const float *low, float *into) {
    int64_t bytes = (total + 7) / 8;
    if (columns == 1) {
        EACH_STRETCH(8)
        sign_added(body + (first + at) % bytes, (int)((first + at) / bytes), length, *high, *low, into + at);
        return;
    }
    for (int64_t row = 0; row < count; row += columns)
        for (int64_t at = 0, length; at < columns; at += length) {
            int64_t place = first + row + at;
            length = bytes - place % bytes;
            length = length < columns - at ? length : columns - at;
            signs_added(body + place % bytes, (int)(place / bytes), length, high + at, low + at, into + row + at);
        }
}

CLONES static void levels_added(const uint8_t *codes, int shift, int32_t most, int64_t count, float unit, float *into) {
    for (int64_t k = 0; k < count; k++) {
        int32_t code = codes[k] >> shift;
        float value = (float)(code & most) * unit;
        into[k] += code & (most + 1) ? -value : value;
    }
}

/* All buckets of a body, each with its own unit. */
void codec_add_levels(const uint8_t *body, int64_t total, int64_t bucket, int32_t bits, const float *units, float *into) {
    int32_t most = (1 << (bits - 1)) - 1;
    for (int64_t first = 0; first < total; first += bucket) {
        int64_t count = total - first < bucket ? total - first : bucket;
        float unit = *units++;
        EACH_STRETCH(8 / bits)
        levels_added(body + (first + at) % bytes, bits * (int)((first + at) / bytes), most, length, unit, into + first + at);
    }
}

CLONES static void bytes_added(const int8_t *codes, int64_t count, float unit, float *into) {
    for (int64_t k = 0; k < count; k++)
        into[k] += (float)codes[k] * unit;
}

/* All buckets of whole numbers of eight bits, each with its own unit. */
void codec_add_bytes(const int8_t *body, int64_t total, int64_t bucket, const float *units, float *into) {
    for (int64_t first = 0; first < total; first += bucket)
        bytes_added(body + first, total - first < bucket ? total - first : bucket, *units++, into + first);
}

CLONES static void powers_added(const uint8_t *codes, const uint8_t *signs, int place, int64_t count, float weight,
                                float *into) {
    for (int64_t k = 0; k < count; k++) {
        uint32_t bits = (uint32_t)codes[k] << 23 | ((uint32_t)~signs[k] >> place & 1) << 31;
        float power;
        memcpy(&power, &bits, sizeof power);
        into[k] += power * weight;
    }
}

/* Exponent bytes, with a sign for each. */
void codec_add_powers(const uint8_t *codes, const uint8_t *signs, int64_t count, float weight, float *into) {
    int64_t total = count, first = 0;
    EACH_STRETCH(8)
    powers_added(codes + at, signs + at % bytes, (int)(at / bytes), length, weight, into + at);
}

CLONES static void trits_added(const uint8_t *codes, int shift, int64_t count, float unit, float *into) {
    for (int64_t k = 0; k < count; k++)
        into[k] += (float)((codes[k] >> shift & 3) - 1) * unit;
}

/* `count` elements from `first` of a body of `total`, with one unit. */
void codec_add_trits(const uint8_t *body, int64_t total, int64_t first, int64_t count, float unit, float *into) {
    EACH_STRETCH(4)
    trits_added(body + (first + at) % bytes, 2 * (int)((first + at) / bytes), length, unit, into + at);
}
