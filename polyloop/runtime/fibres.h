// Runs CUDA C and HIP C++ on the CPU: every thread of a block is a fibre (ucontext), blocks run one after the
// other, those of a cluster in turns from one barrier of it to the next.  What CUDA leaves open is varied (order of threads and blocks) and what it forbids is
// reported (divergent barriers, indices outside an array, misaligned vectors, signed overflow).
// The text of a kernel follows this header in the same translation unit; fibres.cpp is compiled once, for all.
#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <type_traits>
#include <ucontext.h>
#include <utility>

#define __global__
#define __device__
#define __host__
#define __constant__
#define __forceinline__ inline
#define __noinline__ __attribute__((noinline))
#define __launch_bounds__(...)
#define __cluster_dims__(...)
#define __align__(n) __attribute__((aligned(n)))
#define __grid_constant__
// All variables of a block lie in one section, so that they can be poisoned between blocks.
#define __shared__ static __attribute__((section("polyloop_shared")))
#ifndef __restrict__
#define __restrict__ __restrict
#endif

struct uint3 { unsigned int x, y, z; };
struct dim3 { unsigned int x, y, z; };

extern "C" {
// Not static: the compiler must expect them to change at every barrier.
extern __attribute__((visibility("hidden"))) uint3 threadIdx, blockIdx;
extern __attribute__((visibility("hidden"))) dim3 blockDim, gridDim;
extern __attribute__((visibility("hidden"), aligned(1024))) char polyloop_dynamic_shared[256 * 1024];
extern __attribute__((visibility("hidden"))) char polyloop_dynamic_seen[256 * 1024];
extern char __start_polyloop_shared[] __attribute__((visibility("hidden"), weak));
extern char __stop_polyloop_shared[] __attribute__((visibility("hidden"), weak));
}
#ifndef POLYLOOP_WAVE  // threads of a warp
#define POLYLOOP_WAVE 32
#endif
static const int warpSize = POLYLOOP_WAVE;

namespace polyloop {

enum Fault { NONE, DIFFERENT_BARRIERS, EXITED, OUT_OF_BOUNDS, OVERFLOW_, DIVISION, MISALIGNED, NEVER, GONE, UNFENCED };
enum State { READY, AT_BLOCK_BARRIER, AT_WARP_BARRIER, AT_ROLE_BARRIER, AT_RING, AT_CLUSTER_BARRIER, PAUSED, DONE };
enum Order { FORWARD, REVERSE, RANDOM };

// A set of lanes: a bit for each.  Without masks, as in HIP, those meet that come to one place together.
typedef uint64_t Lanes;
static const Lanes TOGETHER = 0, EVERY = ~(Lanes)0;
static const int WAVE = POLYLOOP_WAVE;

struct Report { int32_t fault, line, other_line, thread, other_thread, block[3]; int64_t value; };

// An asynchronous copy under way: what it reads is delivered when it is waited for, and no sooner; zeros from nowhere.
struct Copy { char *to; const char *from; int size, group; };

// A product of tiles under way.  Its operands are read when it is issued, or when it is waited for, and no sooner.
struct Product {
    float *into;
    unsigned long long a, b;
    void (*read)(double *terms, const Product &product);
    int group;
    bool is_read, is_whole;  // whole: sums of 32-bit integers, which wrap
    double terms[128], rows[2][16];  // rows: those of the first operand that the thread needs, if registers have them
};
// Sums to which products add: their value by the complete ones; the thread has poison in its place.
struct Sums { float *into; int count, under_way; float value[128]; };

// A slot of a ring: bytes that are still to come in this phase, and how many have arrived, of how many: the thread that
// starts copies, or warps that free the slot.
struct Ring { int bytes; unsigned short phase; unsigned char arrived, expected; };

// What describes an array to the copy engine: runtime/cuda/tensormaps.py.
struct Described {
    char *begin;
    int64_t extents[5], strides[5];
    int box[5];
    unsigned short swizzle;
    unsigned char rank, size, rounds;
};
// The copy of a box under way; to the array if it has no ring.
struct Box { char *tile; Described map; Ring *ring; int at[5], thread; };

struct Fibre {
    ucontext_t context;
    char *stack;
    State state;
    int line;
    Lanes mask, met;
    struct Ring *ring;
    uint3 thread;
    alignas(16) char slot[16];
    bool has_arrived;  // at the barrier of the cluster
    bool is_fenced, has_counted;  // since the last barrier of the block
    bool is_ordered, has_new_rows;  // registers before products; rows of another group since then
    Copy *copies;
    int copy_count, copy_room, group;
    Product *products;
    Sums *sums;
    int product_count, product_room, sums_count, sums_room, product_group, products_known;  // known: groups waited for
};

// What fibres.cpp defines, which is compiled once.
#pragma GCC visibility push(hidden)
extern Fibre *fibres;
extern int threads, current;
extern void **parameters;
extern Order order;
extern float e4m3_values[256], e5m2_values[256];
unsigned next_random(unsigned below);
void fail(Fault fault, int line, int64_t value);
void wait_at(State state, int line, Lanes mask);
Lanes meet(int line, Lanes mask);
void start_copy(void *to, const void *from, int size);
void end_group();
void await_groups(int pending);
void issue_product(float *into, int count, unsigned long long a, unsigned long long b,
                   void (*read)(double *, const Product &), bool is_whole, const double (*rows)[16] = nullptr);
void order_registers();
void publish();
void end_products();
void await_products(int pending);
int64_t bytes_of(const Described &map);
void move(const Box &copy);
void deliver(const Box &copy);
void keep(const Box &copy);
void open_ring(void *slot, int expected);
void free_slot_of_group(void *slot);
void free_slot(void *slot);
void meet_in_role(int line, int number, int count);
void expect_bytes(void *slot, int bytes);
void await_stores();
void await_bytes(int line, void *slot, unsigned parity);
void cluster_arrive(int line);
void cluster_wait(int line);
void *in_block(const void *here, unsigned rank);
void fence();
unsigned count_arrival(int line, unsigned *arrived, unsigned last);
int run_grid(void (*kernel)(), void **arguments, const int *grid, const int *block, size_t dynamic_shared,
             int of_cluster, int how, uint64_t seed, Report *into);
float float_of(unsigned bits);
float half_of(unsigned bits);
Lanes ballot(int line, Lanes mask, int predicate);
void show(int line, const void *mine);
size_t shared_place(const void *place);
const char *place_of(unsigned bits);
int count_block(int line, int predicate);
unsigned existing(unsigned mask);
void ptx_cvt_f32_f16(float &to, unsigned short from);
static inline void ptx_ex2_approx_ftz_f32(float &to, float from) { to = exp2f(from); }
static inline void ptx_rcp_approx_ftz_f32(float &to, float from) { to = 1.0f / from; }
void ptx_cvt_rn_f16_f64(unsigned short &to, double from);
double sinpi_of(double x);
double cospi_of(double x);
#pragma GCC visibility pop

// {{{ copies of boxes

char *static_seen(const void *place);
// What matrix instructions and copy engines see in a place of shared memory: what they have stored there, and what threads
// have stored and published.
static inline char *seen_at(const void *place) {
    ptrdiff_t from = (const char *)place - polyloop_dynamic_shared;
    return from >= 0 && from < (ptrdiff_t)sizeof(polyloop_dynamic_seen) ? polyloop_dynamic_seen + from : static_seen(place);
}

template <int rank> static Box box_between(const void *tile, const void *map, void *ring, const int (&at)[rank]) {
    Box copy;
    copy.tile = (char *)tile, copy.ring = (Ring *)ring, copy.thread = current;
    memcpy(&copy.map, map, sizeof(Described));
    for (int d = 0; d < rank; d++) copy.at[d] = at[d];
    if ((uintptr_t)tile % (copy.map.swizzle ? 1024 : 128)) fail(MISALIGNED, 0, (int64_t)(intptr_t)tile);
    if ((int64_t)at[0] * copy.map.size % 16) fail(MISALIGNED, 0, (int64_t)at[0] * copy.map.size);
    return copy;
}

template <int rank> static void copy_box(void *to, const void *map, void *slot, const int (&at)[rank]) {
    Box copy = box_between(to, map, slot, at);
    memset(to, 0xFF, bytes_of(copy.map));  // what lay there may be overwritten at any time from now on
    memset(seen_at(to), 0xFF, bytes_of(copy.map));
    if (order == FORWARD || (order == RANDOM && next_random(2))) deliver(copy);
    else keep(copy);
}

template <int rank> static void store_box(const void *from, const void *map, const int (&at)[rank]) {
    Box copy = box_between(from, map, NULL, at);
    if (order == FORWARD) move(copy);
    else keep(copy);
}

// }}}

template <class... A, size_t... I>
static inline void apply(void (*kernel)(A...), std::index_sequence<I...>) {
    kernel(*(typename std::remove_cv<A>::type *)parameters[I]...);
}
template <class... A> static inline void apply(void (*kernel)(A...)) { apply(kernel, std::index_sequence_for<A...>()); }
template <auto kernel> static void thunk() { apply(kernel); }
template <class... A> static int sizes(void (*)(A...), int *into) {
    int found[] = {0, (int)sizeof(A)...};
    for (size_t k = 0; k < sizeof...(A); k++) into[k] = found[k + 1];
    return (int)sizeof...(A);
}

// {{{ values exchanged within a warp or a block

static inline unsigned lane() { return current % WAVE; }
static inline int first_lane() { return current - current % WAVE; }

template <class T> static inline T exchange(int line, Lanes mask, T value, unsigned source) {
    static_assert(sizeof(T) <= 8 && (!std::is_class<T>::value || sizeof(T) == 4), "a shuffle moves a number");
    memcpy(fibres[current].slot, &value, sizeof(T));
    mask = meet(line, mask);
    T result;
    int from = first_lane() + (int)source;
    if ((mask >> source & 1) && from < threads) memcpy(&result, fibres[from].slot, sizeof(T));
    else memset((void *)&result, 0xFF, sizeof(T));  // undefined
    wait_at(AT_WARP_BARRIER, line, mask);
    return result;
}
template <class T> static inline T shfl(int line, Lanes mask, T value, int source, int width = WAVE) {
    return exchange(line, mask, value, (lane() & ~(width - 1)) | (source & (width - 1)));
}
template <class T> static inline T shfl_up(int line, Lanes mask, T value, unsigned delta, int width = WAVE) {
    unsigned in_segment = lane() & (width - 1);
    return exchange(line, mask, value, in_segment >= delta ? lane() - delta : lane());
}
template <class T> static inline T shfl_down(int line, Lanes mask, T value, unsigned delta, int width = WAVE) {
    unsigned in_segment = lane() & (width - 1);
    return exchange(line, mask, value, in_segment + delta < (unsigned)width ? lane() + delta : lane());
}
template <class T> static inline T shfl_xor(int line, Lanes mask, T value, int bits, int width = WAVE) {
    unsigned source = lane() ^ bits;
    return exchange(line, mask, value, source / width <= lane() / width ? source : lane());
}
template <class T, class F> static inline T reduce(int line, Lanes mask, T value, F combine) {
    static_assert(std::is_integral<T>::value && sizeof(T) == 4, "a warp reduces integers of 32 bits");
    memcpy(fibres[current].slot, &value, sizeof(T));
    wait_at(AT_WARP_BARRIER, line, mask);
    T result = value;
    for (int k = 0; k < WAVE; k++) {
        int from = first_lane() + k;
        if ((mask >> k & 1) && from < threads && from != current) result = combine(result, *(T *)fibres[from].slot);
    }
    wait_at(AT_WARP_BARRIER, line, mask);
    return result;
}
// Matrix instructions: PTX ISA, "Matrix Fragments for mma.m16n8k16" and "mma.m16n8k8", and "ldmatrix".  Each lane shows
// the others where its operands are.
template <class T> static inline const T *of_lane(int number) {
    const T *found;
    memcpy(&found, fibres[first_lane() + number].slot, sizeof(found));
    return found;
}
struct Registers { const unsigned *a, *b; };
static inline void add_up(float &to, double sum) { to = (float)sum; }
static inline void add_up(int &to, double sum) { to = (int)(unsigned)(long long)sum; }
template <int depth, class Result, class Decode>
static inline void multiply(int line, Result *const (&d)[4], const unsigned *a, const unsigned *b, Decode decode) {
    const int each = depth / 8;  // elements in a register: four of 8 bits, two of 16 bits, or one of 32
    Registers mine = {a, b};
    show(line, &mine);
    Result sums[4];
    for (int r = 0; r < 4; r++) {
        int i = lane() / 4 + 8 * (r / 2), j = 2 * (lane() % 4) + r % 2;
        double sum = *d[r];
        for (int k = 0; k < depth; k++) {
            int group = k % (4 * each) / each, half = k / (4 * each);
            unsigned x = of_lane<Registers>(4 * (i % 8) + group)->a[2 * half + i / 8];
            unsigned y = of_lane<Registers>(4 * j + group)->b[half];
            sum += (double)decode(x, k % each) * decode(y, k % each);
        }
        add_up(sums[r], sum);
    }
    wait_at(AT_WARP_BARRIER, line, EVERY);
    for (int r = 0; r < 4; r++) *d[r] = sums[r];
}
static inline void mma_m16n8k16_bf16(int line, float *const (&d)[4], const unsigned *a, const unsigned *b) {
    multiply<16>(line, d, a, b, [](unsigned x, int odd) { return float_of(odd ? x & 0xffff0000u : x << 16); });
}
static inline void mma_m16n8k16_f16(int line, float *const (&d)[4], const unsigned *a, const unsigned *b) {
    multiply<16>(line, d, a, b, [](unsigned x, int odd) { return half_of(odd ? x >> 16 : x & 0xffff); });
}
static inline void mma_m16n8k8_tf32(int line, float *const (&d)[4], const unsigned *a, const unsigned *b) {
    multiply<8>(line, d, a, b, [](unsigned x, int) { return float_of(x & 0xffffe000u); });
}
// Numbers of 8 bits: e4m3, e5m2 (the upper half of a float16), and integers.
static inline float e4m3_of(unsigned bits) { return e4m3_values[bits & 255]; }
static inline float e5m2_of(unsigned bits) { return e5m2_values[bits & 255]; }
static inline float s8_of(unsigned bits) { return (float)(signed char)bits; }
static inline float u8_of(unsigned bits) { return (float)(unsigned char)bits; }
template <class Result, class Decode>
static inline void mma_of_bytes(int line, Result *const (&d)[4], const unsigned *a, const unsigned *b, Decode decode) {
    multiply<32>(line, d, a, b, [=](unsigned x, int number) { return decode(x >> 8 * number & 255); });
}
struct Doubles { const double *a, *b; };
template <int rows, int depth> static inline void mma_f64(int line, double *const (&d)[rows / 4], const double *a,
                                                          const double *b) {
    Doubles mine = {a, b};
    show(line, &mine);
    double sums[rows / 4];
    for (int r = 0; r < rows / 4; r++) {
        int i = lane() / 4 + 8 * (r / 2), j = 2 * (lane() % 4) + r % 2;
        sums[r] = *d[r];
        for (int k = 0; k < depth; k++)
            sums[r] += of_lane<Doubles>(4 * (i % 8) + k % 4)->a[rows / 8 * (k / 4) + i / 8] *
                       of_lane<Doubles>(4 * j + k % 4)->b[k / 4];
    }
    wait_at(AT_WARP_BARRIER, line, EVERY);
    for (int r = 0; r < rows / 4; r++) *d[r] = sums[r];
}
// Matrix instructions of four warps: PTX ISA, "Asynchronous Warpgroup Level Matrix".  A descriptor has 14 bits of an address in shared memory: here, of a place, or of one that is so far behind a place.
enum Kind { FLOAT16, BFLOAT16, TF32, E4M3, E5M2, S8, U8 };
static constexpr int bytes_of(Kind kind) { return kind == TF32 ? 4 : kind < TF32 ? 2 : 1; }
// The element in a row and column of a tile: rows of 128 bytes, swizzled, eight of them in a group.
template <Kind kind> static inline double of_tile(unsigned long long tile, int row, int column) {
    const int size = bytes_of(kind), width = 128 / size;
    size_t panels = (tile >> 16 & 0x3fff) << 4, groups = (tile >> 32 & 0x3fff) << 4;
    size_t offset = row / 8 * groups + row % 8 * 128 + column / width * panels + column % width * size;
    uintptr_t place = (uintptr_t)place_of(tile & 0x3fff) + offset;
    unsigned bits = 0;
    memcpy(&bits, seen_at((const void *)(place ^ (place >> 7 & 7) << 4)), size);
    switch (kind) {
    case TF32: return float_of(bits & 0xffffe000u);
    case BFLOAT16: return float_of(bits << 16);
    case E4M3: return e4m3_of(bits);
    case E5M2: return e5m2_of(bits);
    case S8: return s8_of(bits);
    case U8: return u8_of(bits);
    default: return half_of(bits);
    }
}
template <int n, Kind kind, bool a_turned, bool b_turned>
static void read_tiles(double *terms, const Product &product) {
    unsigned long long a = product.a, b = product.b;
    int number = current % 128;
    for (int r = 0; r < n / 2; r++) {
        int i = number / 32 * 16 + number % 32 / 4 + 8 * (r / 2 % 2), j = r / 4 * 8 + 2 * (number % 4) + r % 2;
        terms[r] = 0;
        for (int k = 0; k < 32 / bytes_of(kind); k++)
            terms[r] += (a_turned ? of_tile<kind>(a, k, i) : of_tile<kind>(a, i, k)) *
                        (b_turned ? of_tile<kind>(b, k, j) : of_tile<kind>(b, j, k));
    }
}
template <int n, Kind kind, bool a_turned, bool b_turned>
static inline void wgmma(int line, void *d, unsigned long long a, unsigned long long b) {
    if (current / 128 * 128 + 127 >= threads) fail(EXITED, line, 0);
    for (int s = 0; s < 2; s++) {
        unsigned long long mine = s ? b : a;
        show(line, (const void *)mine);
        for (int k = 0; k < 32; k++) if ((unsigned long long)of_lane<char>(k) != mine) fail(DIFFERENT_BARRIERS, line, k);
        wait_at(AT_WARP_BARRIER, line, EVERY);
    }
    issue_product((float *)d, n / 2, a, b, read_tiles<n, kind, a_turned, b_turned>, kind == S8 || kind == U8);
}
// The first operand in registers: PTX ISA, "Register Fragments for wgmma.mma_async".
template <int n, Kind kind, bool b_turned> static void read_tile(double *terms, const Product &product) {
    for (int r = 0; r < n / 2; r++) {
        int j = r / 4 * 8 + 2 * (current % 4) + r % 2;
        terms[r] = 0;
        for (int k = 0; k < 16; k++)
            terms[r] += product.rows[r / 2 % 2][k] * (b_turned ? of_tile<kind>(product.b, k, j) : of_tile<kind>(product.b, j, k));
    }
}
template <int n, Kind kind, bool b_turned>
static inline void wgmma_of_rows(int line, void *d, const unsigned *a, unsigned long long b) {
    if (current / 128 * 128 + 127 >= threads) fail(EXITED, line, 0);
    show(line, (const void *)b);
    for (int k = 0; k < 32; k++) if ((unsigned long long)of_lane<char>(k) != b) fail(DIFFERENT_BARRIERS, line, k);
    wait_at(AT_WARP_BARRIER, line, EVERY);
    show(line, a);
    double rows[2][16];
    for (int half = 0; half < 2; half++)
        for (int k = 0; k < 16; k++) {
            unsigned bits = of_lane<unsigned>((int)lane() / 4 * 4 + k % 8 / 2)[2 * (k / 8) + half] >> 16 * (k % 2) & 0xffff;
            rows[half][k] = kind == BFLOAT16 ? float_of(bits << 16) : half_of(bits);
        }
    wait_at(AT_WARP_BARRIER, line, EVERY);
    issue_product((float *)d, n / 2, 0, b, read_tile<n, kind, b_turned>, false, rows);
}
template <int count>
static inline void ldmatrix(int line, unsigned *const (&into)[count], const void *row, bool transposed) {
    if ((int)lane() < 8 * count && (uintptr_t)row % 16) fail(MISALIGNED, line, (int64_t)(intptr_t)row);
    show(line, row);
    for (int m = 0; m < count; m++) {
        unsigned found = 0;
        for (int half = 0; half < 2; half++) {
            int y = lane() / 4, x = 2 * (lane() % 4) + half;
            unsigned short bits;
            memcpy(&bits, of_lane<char>(8 * m + (transposed ? x : y)) + 2 * (transposed ? y : x), 2);
            found |= (unsigned)bits << 16 * half;
        }
        *into[m] = found;
    }
    wait_at(AT_WARP_BARRIER, line, EVERY);
}

// }}}

struct Location { const char *file; uint32_t line, column; };

}  // namespace polyloop

#define __syncthreads() polyloop::wait_at(polyloop::AT_BLOCK_BARRIER, __LINE__, 0)
#define __syncthreads_count(p) polyloop::count_block(__LINE__, p)
#define __syncthreads_or(p) (polyloop::count_block(__LINE__, p) != 0)
#define __syncthreads_and(p) (polyloop::count_block(__LINE__, !(p)) == 0)
#define POLYLOOP_MASK(...) polyloop::sync_mask(__VA_ARGS__)
namespace polyloop { static inline unsigned sync_mask(unsigned mask = 0xffffffffu) { return mask; } }
#define __syncwarp(...) polyloop::wait_at(polyloop::AT_WARP_BARRIER, __LINE__, POLYLOOP_MASK(__VA_ARGS__))
#define __shfl_sync(...) polyloop::shfl(__LINE__, __VA_ARGS__)
#define __shfl_up_sync(...) polyloop::shfl_up(__LINE__, __VA_ARGS__)
#define __shfl_down_sync(...) polyloop::shfl_down(__LINE__, __VA_ARGS__)
#define __shfl_xor_sync(...) polyloop::shfl_xor(__LINE__, __VA_ARGS__)
#define __reduce_add_sync(mask, x) \
    polyloop::reduce(__LINE__, mask, x, [](auto a, auto b) { return (decltype(a))((unsigned)a + (unsigned)b); })
#define __reduce_min_sync(mask, x) polyloop::reduce(__LINE__, mask, x, [](auto a, auto b) { return b < a ? b : a; })
#define __reduce_max_sync(mask, x) polyloop::reduce(__LINE__, mask, x, [](auto a, auto b) { return a < b ? b : a; })
#define __ballot_sync(mask, p) polyloop::ballot(__LINE__, mask, p)
#define __any_sync(mask, p) (polyloop::ballot(__LINE__, mask, p) != 0)
#define __all_sync(mask, p) (polyloop::ballot(__LINE__, mask, !(p)) == 0)
#define __activemask() polyloop::existing(0xffffffffu)
#define __threadfence() polyloop::fence()
#define __nanosleep(time) ((void)0)
#define __cvta_generic_to_shared(place) polyloop::shared_place((const void *)(place))
#define __threadfence_block() ((void)0)

// {{{ vector types

#define POLYLOOP_VECTORS(T, name, align2, align4) \
    struct alignas(align2) name##2 { T x, y; }; \
    struct alignas(align4) name##4 { T x, y, z, w; }; \
    static inline name##2 make_##name##2(T x, T y) { return {x, y}; } \
    static inline name##3 make_##name##3(T x, T y, T z) { return {x, y, z}; } \
    static inline name##4 make_##name##4(T x, T y, T z, T w) { return {x, y, z, w}; }
typedef unsigned char uchar;
typedef unsigned short ushort;
typedef unsigned int uint;
typedef unsigned long ulong;
typedef long long longlong;
typedef unsigned long long ulonglong;
struct char3 { signed char x, y, z; };
struct uchar3 { uchar x, y, z; };
struct short3 { short x, y, z; };
struct ushort3 { ushort x, y, z; };
struct int3 { int x, y, z; };
struct longlong3 { longlong x, y, z; };
struct ulonglong3 { ulonglong x, y, z; };
struct float3 { float x, y, z; };
struct double3 { double x, y, z; };
POLYLOOP_VECTORS(signed char, char, 2, 4)
POLYLOOP_VECTORS(unsigned char, uchar, 2, 4)
POLYLOOP_VECTORS(short, short, 4, 8)
POLYLOOP_VECTORS(unsigned short, ushort, 4, 8)
POLYLOOP_VECTORS(int, int, 8, 16)
POLYLOOP_VECTORS(unsigned int, uint, 8, 16)
POLYLOOP_VECTORS(long long, longlong, 16, 16)
POLYLOOP_VECTORS(unsigned long long, ulonglong, 16, 16)
POLYLOOP_VECTORS(float, float, 8, 16)
POLYLOOP_VECTORS(double, double, 16, 16)

// }}}

// {{{ device functions

template <class A, class B> static inline auto min(A a, B b) -> typename std::common_type<A, B>::type {
    typedef typename std::common_type<A, B>::type T;
    return (T)b < (T)a ? (T)b : (T)a;
}
template <class A, class B> static inline auto max(A a, B b) -> typename std::common_type<A, B>::type {
    typedef typename std::common_type<A, B>::type T;
    return (T)a < (T)b ? (T)b : (T)a;
}
static inline float min(float a, float b) { return fminf(a, b); }
static inline float max(float a, float b) { return fmaxf(a, b); }
static inline double min(double a, double b) { return fmin(a, b); }
static inline double max(double a, double b) { return fmax(a, b); }
static inline float rsqrtf(float x) { return 1.0f / sqrtf(x); }
static inline double rsqrt(double x) { return 1.0 / sqrt(x); }
static inline float rsqrt(float x) { return rsqrtf(x); }
static inline float __saturatef(float x) { return x > 0 ? (x < 1 ? x : 1.0f) : 0.0f; }
static inline long long llmin(long long a, long long b) { return a < b ? a : b; }
static inline long long llmax(long long a, long long b) { return a > b ? a : b; }
static inline unsigned umin(unsigned a, unsigned b) { return a < b ? a : b; }
static inline unsigned umax(unsigned a, unsigned b) { return a > b ? a : b; }

namespace polyloop {
template <class To, class From> static inline To bits(From from) {
    static_assert(sizeof(To) == sizeof(From), "reinterpreted values have one size");
    To to;
    memcpy(&to, &from, sizeof(to));
    return to;
}
}
static inline float __int_as_float(int x) { return polyloop::bits<float>(x); }
static inline int __float_as_int(float x) { return polyloop::bits<int>(x); }
static inline float __uint_as_float(unsigned x) { return polyloop::bits<float>(x); }
static inline unsigned __float_as_uint(float x) { return polyloop::bits<unsigned>(x); }
static inline double __longlong_as_double(long long x) { return polyloop::bits<double>(x); }
static inline long long __double_as_longlong(double x) { return polyloop::bits<long long>(x); }
static inline double __hiloint2double(int hi, int lo) {
    return __longlong_as_double((long long)((unsigned long long)(unsigned)hi << 32 | (unsigned)lo));
}

// PTX instructions that emitted text contains; run_on_fibres turns their asm statements into these calls.
namespace polyloop {
static inline void ptx_cvt_rn_f16_f32(unsigned short &to, float from) { ptx_cvt_rn_f16_f64(to, from); }
static inline void ptx_cvt_rna_tf32_f32(unsigned &to, float from) {
    unsigned bits = __float_as_uint(from);
    to = from - from != 0 ? bits : (bits + 0x1000) & 0xffffe000u;
}
static inline void ptx_cvt_rn_tf32_f32(unsigned &to, float from) {
    unsigned bits = __float_as_uint(from);
    to = from - from != 0 ? bits : (bits + 0xfff + (bits >> 13 & 1)) & 0xffffe000u;
}
static inline void ptx_cvt_rn_bf16_f32(unsigned short &to, float from) {
    unsigned bits = __float_as_uint(from);
    to = from != from ? 0x7fff : (unsigned short)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}
}

// Some C libraries declare functions of these names, too.
namespace polyloop {
}
#define exp10f(x) powf(10.0f, x)
#define exp10(x) pow(10.0, x)
#define sinpif(x) (float)polyloop::sinpi_of(x)
#define cospif(x) (float)polyloop::cospi_of(x)
#define sinpi(x) polyloop::sinpi_of(x)
#define cospi(x) polyloop::cospi_of(x)

static inline float __fadd_rn(float a, float b) { return a + b; }
static inline float __fsub_rn(float a, float b) { return a - b; }
static inline float __fmul_rn(float a, float b) { return a * b; }
static inline float __fdiv_rn(float a, float b) { return a / b; }
static inline float __fdividef(float a, float b) { return a / b; }
static inline float __fmaf_rn(float a, float b, float c) { return fmaf(a, b, c); }
static inline float __fsqrt_rn(float a) { return sqrtf(a); }
static inline float __frcp_rn(float a) { return 1.0f / a; }
static inline float __frsqrt_rn(float a) { return rsqrtf(a); }
static inline double __dadd_rn(double a, double b) { return a + b; }
static inline double __dmul_rn(double a, double b) { return a * b; }
static inline double __fma_rn(double a, double b, double c) { return fma(a, b, c); }
static inline double __dsqrt_rn(double a) { return sqrt(a); }
// glibc declares functions of these names
#define __cosf(x) cosf(x)
#define __tanf(x) tanf(x)
#define __log2f(x) log2f(x)
#define __log10f(x) log10f(x)
#define __exp10f(x) powf(10.0f, x)
#define __sinf(x) sinf(x)
#define __expf(x) expf(x)
#define __logf(x) logf(x)
#define __powf(x, y) powf(x, y)

static inline int __float2int_rn(float x) { return (int)lrintf(x); }
static inline int __float2int_rz(float x) { return (int)x; }
static inline int __float2int_rd(float x) { return (int)floorf(x); }
static inline int __float2int_ru(float x) { return (int)ceilf(x); }
static inline int __double2int_rn(double x) { return (int)lrint(x); }
static inline int __popc(unsigned x) { return __builtin_popcount(x); }
static inline int __popcll(unsigned long long x) { return __builtin_popcountll(x); }
static inline int __clz(int x) { return x ? __builtin_clz((unsigned)x) : 32; }
static inline int __clzll(long long x) { return x ? __builtin_clzll((unsigned long long)x) : 64; }
static inline int __ffs(int x) { return __builtin_ffs(x); }
static inline int __ffsll(long long x) { return __builtin_ffsll(x); }
static inline int __mul24(int a, int b) { return (int)((long long)(a << 8 >> 8) * (b << 8 >> 8)); }
static inline unsigned __umulhi(unsigned a, unsigned b) { return (unsigned)((unsigned long long)a * b >> 32); }
static inline int __mulhi(int a, int b) { return (int)((long long)a * b >> 32); }
template <class T> static inline T __ldg(const T *p) { return *p; }
template <class T> static inline T __ldcs(const T *p) { return *p; }
template <class T, class U> static inline void __stcs(T *p, const U &value) { *p = value; }
template <class T> static inline T __ldca(const T *p) { return *p; }
template <class T> static inline T __ldcg(const T *p) { return *p; }
template <class T> static inline void __stcs(T *p, T value) { *p = value; }
template <class T> static inline void __stcg(T *p, T value) { *p = value; }
static inline void __trap() { polyloop::fail(polyloop::OUT_OF_BOUNDS, 0, 0); }

#define POLYLOOP_ATOMIC(name, expression) \
    template <class T, class U> static inline T name(T *p, U given) { \
        T old = *p, value = (T)given; \
        (void)value; \
        *p = (T)(expression); \
        return old; \
    }
template <class T> static inline T polyloop_plus(T a, T b) { return a + b; }
static inline int polyloop_plus(int a, int b) { return (int)((unsigned)a + (unsigned)b); }
static inline float2 polyloop_plus(float2 a, float2 b) { return {a.x + b.x, a.y + b.y}; }
static inline float4 polyloop_plus(float4 a, float4 b) { return {a.x + b.x, a.y + b.y, a.z + b.z, a.w + b.w}; }
POLYLOOP_ATOMIC(atomicAdd, polyloop_plus(old, value))
POLYLOOP_ATOMIC(atomicSub, polyloop_plus(old, (T)(0u - value)))
POLYLOOP_ATOMIC(atomicExch, value)
POLYLOOP_ATOMIC(atomicMin, value < old ? value : old)
POLYLOOP_ATOMIC(atomicMax, old < value ? value : old)
POLYLOOP_ATOMIC(atomicAnd, old & value)
POLYLOOP_ATOMIC(atomicOr, old | value)
POLYLOOP_ATOMIC(atomicXor, old ^ value)
POLYLOOP_ATOMIC(atomicInc, old >= value ? 0 : old + 1)
POLYLOOP_ATOMIC(atomicDec, old == 0 || old > value ? value : old - 1)
template <class T, class U, class V> static inline T atomicCAS(T *p, U expected, V value) {
    T old = *p;
    if (old == (T)expected) *p = (T)value;
    return old;
}

#ifdef __FLT16_MAX__
typedef _Float16 __half;
typedef _Float16 half;
struct alignas(4) __half2 { _Float16 x, y; };
typedef __half2 half2;
static inline __half __float2half(float x) { return (__half)x; }
static inline __half __float2half_rn(float x) { return (__half)x; }
static inline __half __double2half(double x) { return (__half)x; }
static inline float __half2float(__half x) { return (float)x; }
static inline __half2 __halves2half2(__half x, __half y) { return {x, y}; }
static inline __half __hadd(__half a, __half b) { return (__half)(a + b); }
static inline __half __hsub(__half a, __half b) { return (__half)(a - b); }
static inline __half __hmul(__half a, __half b) { return (__half)(a * b); }
static inline __half __hfma(__half a, __half b, __half c) { return (__half)fma((double)a, (double)b, (double)c); }
static inline __half __hmax(__half a, __half b) { return (__half)fmaxf((float)a, (float)b); }
static inline __half __hmin(__half a, __half b) { return (__half)fminf((float)a, (float)b); }
static inline __half __ushort_as_half(unsigned short x) { return polyloop::bits<__half>(x); }
static inline unsigned short __half_as_ushort(__half x) { return polyloop::bits<unsigned short>(x); }
#endif

// }}}
