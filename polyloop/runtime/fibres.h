// Runs CUDA C and HIP C++ on the CPU: every thread of a block is a fibre (ucontext), blocks run one after the
// other.  What CUDA leaves open is varied (order of threads and blocks) and what it forbids is
// reported (divergent barriers, indices outside an array, misaligned vectors, signed overflow).
// The text of a kernel follows this header in the same translation unit.
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
__attribute__((visibility("hidden"))) uint3 threadIdx, blockIdx;
__attribute__((visibility("hidden"))) dim3 blockDim, gridDim;
__attribute__((visibility("hidden"), aligned(1024))) char polyloop_dynamic_shared[256 * 1024];
extern char __start_polyloop_shared[] __attribute__((visibility("hidden"), weak));
extern char __stop_polyloop_shared[] __attribute__((visibility("hidden"), weak));
}
#ifndef POLYLOOP_WAVE  // threads of a warp
#define POLYLOOP_WAVE 32
#endif
static const int warpSize = POLYLOOP_WAVE;

namespace polyloop {

enum Fault { NONE, DIFFERENT_BARRIERS, EXITED, OUT_OF_BOUNDS, OVERFLOW_, DIVISION, MISALIGNED, NEVER };
enum State { READY, AT_BLOCK_BARRIER, AT_WARP_BARRIER, AT_RING, DONE };
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

// A slot of a ring: bytes that are still to come in this phase, and whether the thread that starts copies has arrived.
struct Ring { int bytes; short phase, arrived; };

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
    Copy *copies;
    int copy_count, copy_room, group;
    Product *products;
    Sums *sums;
    int product_count, product_room, sums_count, sums_room, product_group;
};

// A thread has 512 KiB of local memory at most; below each stack is a page that nothing may touch.
static const size_t STACK = 2048 * 1024, GUARD = 64 * 1024;
static char *stacks;
static Fibre *fibres;
static int *turn;
static int threads, current;
static ucontext_t scheduler;
static Report *report;
static void (*body)();
static void **parameters;
static Order order;
static uint64_t random_state;
static Box *boxes;
static int box_count, box_room;

static inline unsigned next_random(unsigned below) {
    random_state ^= random_state << 13, random_state ^= random_state >> 7, random_state ^= random_state << 17;
    return (unsigned)((random_state >> 11) % below);
}

static void arrange(int *items, int count) {
    for (int k = 0; k < count; k++) items[k] = order == REVERSE ? count - 1 - k : k;
    if (order == RANDOM)
        for (int k = count - 1; k > 0; k--) { int j = (int)next_random(k + 1), t = items[k]; items[k] = items[j]; items[j] = t; }
}

__attribute__((noinline)) static void yield_to_scheduler() {
    int me = current;
    swapcontext(&fibres[me].context, &scheduler);
}

static void fail(Fault fault, int line, int64_t value) {
    if (report->fault == NONE) {
        report->fault = fault, report->line = line, report->thread = current, report->value = value;
        report->block[0] = blockIdx.x, report->block[1] = blockIdx.y, report->block[2] = blockIdx.z;
    }
    yield_to_scheduler();  // never comes back
}

static void diverged(Fault fault, int one, int other) {
    current = one;
    report->fault = fault, report->line = fibres[one].line, report->thread = one;
    report->other_line = fibres[other].line, report->other_thread = other;
    report->block[0] = blockIdx.x, report->block[1] = blockIdx.y, report->block[2] = blockIdx.z;
}

static void run_fibre() {
    for (;;) {
        body();
        fibres[current].state = DONE;
        yield_to_scheduler();
    }
}

static void wait_at(State state, int line, Lanes mask) {
    Fibre &me = fibres[current];
    me.state = state, me.line = line, me.mask = mask;
    yield_to_scheduler();
}

// Waits for the lanes of a mask, and returns those that met.
static Lanes meet(int line, Lanes mask) {
    wait_at(AT_WARP_BARRIER, line, mask);
    return fibres[current].met;
}

// Lets the lanes of a warp go on that stand at the barrier of the leader, when nothing else of the warp can run.
static void release_together(int leader, int first, int end) {
    Lanes met = 0;
    for (int pass = 0; pass < 2; pass++) {
        for (int k = first; k < end; k++) {
            bool is_here = fibres[k].state == AT_WARP_BARRIER && fibres[k].line == fibres[leader].line && fibres[k].mask == TOGETHER;
            if (!pass && is_here) met |= (Lanes)1 << (k - first);
            if (pass && met >> (k - first) & 1) fibres[k].state = READY, fibres[k].met = met;
        }
    }
}

// Lets the warps of [begin, end) go on whose threads all stand at one warp barrier.
// 1: some did, 0: none, -1: divergence.
static int release_warps(int begin, int end_of_all) {
    int released = 0;
    for (int first = begin; first < end_of_all; first += WAVE) {
        int end = first + WAVE < end_of_all ? first + WAVE : end_of_all;
        for (int leader = first; leader < end; leader++) {
            if (fibres[leader].state != AT_WARP_BARRIER) continue;
            Lanes mask = fibres[leader].mask;
            if (mask == TOGETHER) {
                release_together(leader, first, end);
                released = 1;
                continue;
            }
            for (int k = first; k < end; k++) {
                if (!(mask >> (k - first) & 1)) continue;
                if (fibres[k].state == DONE) return diverged(EXITED, leader, k), -1;
                if (fibres[k].state != AT_WARP_BARRIER || fibres[k].line != fibres[leader].line || fibres[k].mask != mask)
                    return diverged(DIFFERENT_BARRIERS, leader, k), -1;
            }
            for (int k = first; k < end; k++) if (mask >> (k - first) & 1) fibres[k].state = READY, fibres[k].met = mask;
            fibres[leader].state = READY, fibres[leader].met = mask;
            released = 1;
        }
    }
    return released;
}

// Lets the block go on whose threads all stand at one barrier; 0: all threads are done.
static int release_block() {
    int leader = -1;
    for (int k = 0; k < threads && leader < 0; k++) if (fibres[k].state != DONE) leader = k;
    if (leader < 0) return 0;
    for (int k = 0; k < threads; k++) {
        if (fibres[k].state == AT_RING) return diverged(NEVER, k, k), -1;
        if (fibres[k].state == DONE) return diverged(EXITED, leader, k), -1;
        if (fibres[k].line != fibres[leader].line) return diverged(DIFFERENT_BARRIERS, leader, k), -1;
    }
    for (int k = 0; k < threads; k++) fibres[k].state = READY;
    return 1;
}

// Runs the threads of [begin, end) until each has ended or stands at a block barrier.
static bool run_threads(int begin, int end) {
    int moved = 1;
    while (moved > 0) {
        if (order == RANDOM) arrange(turn, threads);
        for (int k = begin; k < end; k++) {
            int next = order == FORWARD ? k : order == REVERSE ? end - 1 - (k - begin) : turn[k];
            if (fibres[next].state != READY) continue;
            current = next, threadIdx = fibres[next].thread;
            swapcontext(&scheduler, &fibres[next].context);
            if (report->fault) return false;
        }
        moved = release_warps(begin, end);
    }
    return moved == 0;
}

// Warps run one after the other, as far as block barriers let them, or all interleaved at random.
static bool run_warps() {
    if (order == RANDOM) return run_threads(0, threads);
    int warps = (threads + WAVE - 1) / WAVE;
    for (int k = 0; k < warps; k++) {
        int begin = WAVE * (order == FORWARD ? k : warps - 1 - k);
        if (!run_threads(begin, begin + WAVE < threads ? begin + WAVE : threads)) return false;
    }
    return true;
}

// {{{ asynchronous copies

static void start_copy(void *to, const void *from, int size) {
    Fibre &me = fibres[current];
    if (me.copy_count == me.copy_room) {
        me.copy_room = me.copy_room ? 2 * me.copy_room : 64;
        me.copies = (Copy *)realloc(me.copies, sizeof(Copy) * me.copy_room);
    }
    memset(to, 0xFF, size);  // what lay there may be overwritten at any time from now on
    me.copies[me.copy_count++] = {(char *)to, (const char *)from, size, me.group};
}

static void end_group() { fibres[current].group++; }

// Delivers all copies of groups that have ended, but those of the last groups.
static void await_groups(int pending) {
    Fibre &me = fibres[current];
    int kept = 0;
    for (int k = 0; k < me.copy_count; k++) {
        const Copy copy = me.copies[k];
        if (copy.group < me.group - pending) copy.from ? memcpy(copy.to, copy.from, copy.size) : memset(copy.to, 0, copy.size);
        else me.copies[kept++] = copy;
    }
    me.copy_count = kept;
}

template <typename T> static T &another(T *&all, int &count, int &room) {
    if (count == room) all = (T *)realloc(all, sizeof(T) * (room = room ? 2 * room : 8));
    return all[count++];
}

static Sums &sums_of(float *into, int count) {
    Fibre &me = fibres[current];
    for (int k = 0; k < me.sums_count; k++) if (me.sums[k].into == into && me.sums[k].under_way) return me.sums[k];
    int k = 0;
    while (k < me.sums_count && me.sums[k].under_way) k++;
    Sums &found = k < me.sums_count ? me.sums[k] : another(me.sums, me.sums_count, me.sums_room);
    found.into = into, found.count = count, found.under_way = 0;
    memcpy(found.value, into, sizeof(float) * count);
    memset(into, 0xFF, sizeof(float) * count);
    return found;
}

static void issue_product(float *into, int count, unsigned long long a, unsigned long long b,
                          void (*read)(double *, const Product &), bool is_whole, const double (*rows)[16] = nullptr) {
    Fibre &me = fibres[current];
    Sums &sums = sums_of(into, count);
    for (int r = 0; r < count; r++) if (memcmp(into + r, "\377\377\377\377", 4)) sums.value[r] = NAN;  // set meanwhile
    sums.under_way++;
    Product &product = another(me.products, me.product_count, me.product_room);
    product.into = into, product.a = a, product.b = b, product.read = read, product.group = me.product_group;
    product.is_whole = is_whole;
    if (rows) memcpy(product.rows, rows, sizeof(product.rows));
    product.is_read = order == FORWARD || (order == RANDOM && next_random(2));
    if (product.is_read) read(product.terms, product);
}

static void end_products() { fibres[current].product_group++; }

// Adds all products of groups that have ended, but those of the last groups.
static void await_products(int pending) {
    Fibre &me = fibres[current];
    int kept = 0;
    for (int k = 0; k < me.product_count; k++) {
        Product &product = me.products[k];
        if (product.group >= me.product_group - pending) {
            if (kept != k) me.products[kept] = product;
            kept++;
            continue;
        }
        if (!product.is_read) product.read(product.terms, product);
        Sums &sums = sums_of(product.into, 0);
        for (int r = 0; r < sums.count; r++) {
            if (product.is_whole) {
                unsigned sum;
                memcpy(&sum, sums.value + r, sizeof(sum));
                sum += (unsigned)(long long)product.terms[r];
                memcpy(sums.value + r, &sum, sizeof(sum));
            } else sums.value[r] = (float)(sums.value[r] + product.terms[r]);
        }
        if (!--sums.under_way) memcpy(sums.into, sums.value, sizeof(float) * sums.count);
    }
    me.product_count = kept;
}

// }}}

// {{{ copies of boxes

static int64_t bytes_of(const Described &map) {
    int64_t bytes = map.size;
    for (int d = 0; d < map.rank; d++) bytes *= map.box[d];
    return bytes;
}

static void next_phase(Ring &ring) {
    if (ring.arrived && !ring.bytes) ring.phase++, ring.arrived = 0;
}

// Keeps 11 bits of a float32, rounded to nearest, ties to even; infinities and NaN as they are.
static void round_to_tf32(void *to, const void *from) {
    uint32_t bits;
    memcpy(&bits, from, 4);
    if ((bits & 0x7f800000u) != 0x7f800000u) bits += 0xfff + (bits >> 13 & 1), bits &= 0xffffe000u;
    memcpy(to, &bits, 4);
}

// Moves the elements of a box in order, rows of 128 bytes swizzled as the tile says.  Zeros come from beyond the array,
// and nothing goes there.
static void move(const Box &copy) {
    const Described &map = copy.map;
    int64_t count = bytes_of(map) / map.size;
    for (int64_t k = 0; k < count; k++) {
        int64_t rest = k, there = 0;
        bool is_there = true;
        for (int d = 0; d < map.rank; d++) {
            int64_t x = copy.at[d] + rest % map.box[d];
            rest /= map.box[d];
            is_there = is_there && x >= 0 && x < map.extents[d];
            there += x * (d ? map.strides[d] : map.size);
        }
        uintptr_t place = (uintptr_t)copy.tile + k * map.size;
        if (map.swizzle == 128) place ^= (place >> 7 & 7) << 4;
        if (!copy.ring && is_there) memcpy(map.begin + there, (void *)place, map.size);
        else if (copy.ring && is_there && map.rounds) round_to_tf32((void *)place, map.begin + there);
        else if (copy.ring && is_there) memcpy((void *)place, map.begin + there, map.size);
        else if (copy.ring) memset((void *)place, 0, map.size);
    }
}

static void deliver(const Box &copy) {
    move(copy);
    const Described &map = copy.map;
    copy.ring->bytes -= (int)bytes_of(map);
    next_phase(*copy.ring);
}

// Lets the threads go on for which a phase has ended; 0: none.  Copies that are late arrive if nothing else moves.
static int release_rings() {
    int released = 0;
    for (int late = 0; late < 2 && !released; late++) {
        int kept = 0;
        for (int k = 0; late && k < box_count; k++) {
            bool is_awaited = false;
            for (int t = 0; t < threads; t++) is_awaited = is_awaited || (fibres[t].state == AT_RING && fibres[t].ring == boxes[k].ring);
            if (is_awaited) deliver(boxes[k]);
            else boxes[kept++] = boxes[k];
        }
        if (late) box_count = kept;
        for (int k = 0; k < threads; k++)
            if (fibres[k].state == AT_RING && (fibres[k].ring->phase & 1) != (int)fibres[k].mask) fibres[k].state = READY, released = 1;
    }
    return released;
}

static void open_ring(void *slot) { *(Ring *)slot = {0, 0, 0}; }

static void expect_bytes(void *slot, int bytes) {
    Ring &ring = *(Ring *)slot;
    if (ring.arrived) fail(NEVER, 0, 0);  // a second arrival in one phase
    ring.bytes += bytes, ring.arrived = 1;
    next_phase(ring);
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

static void keep(const Box &copy) {
    if (box_count == box_room) boxes = (Box *)realloc(boxes, sizeof(Box) * (box_room = box_room ? 2 * box_room : 16));
    boxes[box_count++] = copy;
}

template <int rank> static void copy_box(void *to, const void *map, void *slot, const int (&at)[rank]) {
    Box copy = box_between(to, map, slot, at);
    memset(to, 0xFF, bytes_of(copy.map));  // what lay there may be overwritten at any time from now on
    if (order == FORWARD || (order == RANDOM && next_random(2))) deliver(copy);
    else keep(copy);
}

template <int rank> static void store_box(const void *from, const void *map, const int (&at)[rank]) {
    Box copy = box_between(from, map, NULL, at);
    if (order == FORWARD) move(copy);
    else keep(copy);
}

static void await_stores() {
    int kept = 0;
    for (int k = 0; k < box_count; k++) {
        if (!boxes[k].ring && boxes[k].thread == current) move(boxes[k]);
        else boxes[kept++] = boxes[k];
    }
    box_count = kept;
}

static void await_bytes(int line, void *slot, unsigned parity) {
    Fibre &me = fibres[current];
    if ((((Ring *)slot)->phase & 1) != (int)parity) return;
    me.ring = (Ring *)slot;
    wait_at(AT_RING, line, parity);
}

// }}}

static void run_block(size_t dynamic_shared) {
    if (__start_polyloop_shared) memset(__start_polyloop_shared, 0xFF, __stop_polyloop_shared - __start_polyloop_shared);
    memset(polyloop_dynamic_shared, 0xFF, dynamic_shared);
    for (int k = 0; k < threads; k++) {
        Fibre &fibre = fibres[k];
        fibre.state = READY, fibre.copy_count = fibre.group = 0;
        fibre.product_count = fibre.sums_count = fibre.product_group = 0;
    }
    box_count = 0;
    while (run_warps() && (release_rings() || release_block() > 0)) {}
}

static void prepare_fibres() {
    fibres = (Fibre *)malloc(sizeof(Fibre) * threads);
    turn = (int *)malloc(sizeof(int) * threads);
    stacks = (char *)mmap(NULL, (STACK + GUARD) * threads, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (stacks == (char *)MAP_FAILED) abort();
    for (int k = 0; k < threads; k++) {
        fibres[k].stack = stacks + (STACK + GUARD) * k + GUARD;
        mprotect(fibres[k].stack - GUARD, GUARD, PROT_NONE);
        fibres[k].copies = NULL, fibres[k].products = NULL, fibres[k].sums = NULL;
        fibres[k].copy_room = fibres[k].product_room = fibres[k].sums_room = 0;
        getcontext(&fibres[k].context);
        fibres[k].context.uc_stack.ss_sp = fibres[k].stack;
        fibres[k].context.uc_stack.ss_size = STACK;
        fibres[k].context.uc_link = &scheduler;
        makecontext(&fibres[k].context, run_fibre, 0);
        fibres[k].thread.x = k % blockDim.x;
        fibres[k].thread.y = k / blockDim.x % blockDim.y;
        fibres[k].thread.z = k / blockDim.x / blockDim.y;
    }
}

static void free_fibres() {
    for (int k = 0; k < threads; k++) free(fibres[k].copies), free(fibres[k].products), free(fibres[k].sums);
    munmap(stacks, (STACK + GUARD) * threads);
    free(fibres), free(turn), free(boxes), boxes = NULL, box_room = 0;
}

static int run_grid(void (*kernel)(), void **arguments, const int *grid, const int *block, size_t dynamic_shared,
                    int how, uint64_t seed, Report *into) {
    body = kernel, parameters = arguments, report = into, order = (Order)how;
    random_state = seed * 0x9E3779B97F4A7C15u + 0x2545F4914F6CDD1Du;
    gridDim.x = grid[0], gridDim.y = grid[1], gridDim.z = grid[2];
    blockDim.x = block[0], blockDim.y = block[1], blockDim.z = block[2];
    threads = block[0] * block[1] * block[2];
    prepare_fibres();
    int blocks = grid[0] * grid[1] * grid[2];
    int *sequence = (int *)malloc(sizeof(int) * blocks);
    arrange(sequence, blocks);
    for (int k = 0; k < blocks && !into->fault; k++) {
        int b = sequence[k];
        blockIdx.x = b % grid[0], blockIdx.y = b / grid[0] % grid[1], blockIdx.z = b / grid[0] / grid[1];
        run_block(dynamic_shared);
    }
    free(sequence);
    free_fibres();
    return into->fault;
}

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
static inline Lanes ballot(int line, Lanes mask, int predicate) {
    int value = predicate != 0;
    memcpy(fibres[current].slot, &value, sizeof(int));
    mask = meet(line, mask);
    Lanes result = 0;
    for (int k = 0; k < WAVE; k++) {
        int from = first_lane() + k;
        if ((mask >> k & 1) && from < threads && *(int *)fibres[from].slot) result |= (Lanes)1 << k;
    }
    wait_at(AT_WARP_BARRIER, line, mask);
    return result;
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
static inline void show(int line, const void *mine) {
    static_assert(sizeof(mine) <= 8, "a slot holds a pointer");
    memcpy(fibres[current].slot, &mine, sizeof(mine));
    wait_at(AT_WARP_BARRIER, line, EVERY);
}
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
static inline float float_of(unsigned bits) {
    float found;
    memcpy(&found, &bits, sizeof(found));
    return found;
}
static inline float half_of(unsigned bits) {
    int exponent = bits >> 10 & 31, mantissa = bits & 1023;
    float size = exponent == 31 ? (mantissa ? NAN : INFINITY)
                                : ldexpf((float)(exponent ? mantissa + 1024 : mantissa), (exponent ? exponent : 1) - 25);
    return bits >> 15 & 1 ? -size : size;
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
static float e4m3_values[256], e5m2_values[256];
static const bool has_values = [] {
    for (int bits = 0; bits < 256; bits++) {
        int size = bits & 127;
        float value = size == 127 ? NAN : size < 8 ? ldexpf((float)size, -9) : ldexpf((float)(size % 8 + 8), size / 8 - 10);
        e4m3_values[bits] = bits & 128 ? -value : value;
        e5m2_values[bits] = half_of(bits << 8);
    }
    return true;
}();
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
// Matrix instructions of four warps: PTX ISA, "Asynchronous Warpgroup Level Matrix".  A descriptor has 14 bits of an address in shared memory: here, the last place that had them.
static const char *places[1 << 14];
static inline size_t shared_place(const void *place) {
    places[(uintptr_t)place >> 4 & 0x3fff] = (const char *)place;
    return (size_t)place;
}
enum Kind { FLOAT16, BFLOAT16, TF32, E4M3, E5M2, S8, U8 };
static constexpr int bytes_of(Kind kind) { return kind == TF32 ? 4 : kind < TF32 ? 2 : 1; }
// The element in a row and column of a tile: rows of 128 bytes, swizzled, eight of them in a group.
template <Kind kind> static inline double of_tile(unsigned long long tile, int row, int column) {
    const int size = bytes_of(kind), width = 128 / size;
    size_t panels = (tile >> 16 & 0x3fff) << 4, groups = (tile >> 32 & 0x3fff) << 4;
    size_t offset = row / 8 * groups + row % 8 * 128 + column / width * panels + column % width * size;
    uintptr_t place = (uintptr_t)places[tile & 0x3fff] + offset;
    unsigned bits = 0;
    memcpy(&bits, (const char *)(place ^ (place >> 7 & 7) << 4), size);
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
    if (current / 128 != (current / 128 * 128 + 127) / 128 || threads % 128) fail(EXITED, line, 0);
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
    if (current / 128 != (current / 128 * 128 + 127) / 128 || threads % 128) fail(EXITED, line, 0);
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
static inline int count_block(int line, int predicate) {
    int value = predicate != 0, result = 0;
    memcpy(fibres[current].slot, &value, sizeof(int));
    wait_at(AT_BLOCK_BARRIER, line, 0);
    for (int k = 0; k < threads; k++) result += *(int *)fibres[k].slot;
    wait_at(AT_BLOCK_BARRIER, line, 0);
    return result;
}
static inline unsigned existing(unsigned mask) {
    int alive = threads - first_lane();
    return alive >= 32 ? mask : mask & ((1u << alive) - 1);
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
#define __threadfence() ((void)0)
#define __nanosleep(time) ((void)0)
#define __cvta_generic_to_shared(place) polyloop::shared_place((const void *)(place))
#define __threadfence_block() ((void)0)

// {{{ instrumentation: the handlers that -fsanitize= calls

extern "C" {
#define POLYLOOP_HANDLER __attribute__((visibility("hidden"), used)) void
POLYLOOP_HANDLER __ubsan_handle_out_of_bounds(polyloop::Location *at, uintptr_t index) {
    polyloop::fail(polyloop::OUT_OF_BOUNDS, at->line, (int64_t)(intptr_t)index);
}
POLYLOOP_HANDLER __ubsan_handle_add_overflow(polyloop::Location *at, uintptr_t, uintptr_t) { polyloop::fail(polyloop::OVERFLOW_, at->line, 0); }
POLYLOOP_HANDLER __ubsan_handle_sub_overflow(polyloop::Location *at, uintptr_t, uintptr_t) { polyloop::fail(polyloop::OVERFLOW_, at->line, 0); }
POLYLOOP_HANDLER __ubsan_handle_mul_overflow(polyloop::Location *at, uintptr_t, uintptr_t) { polyloop::fail(polyloop::OVERFLOW_, at->line, 0); }
POLYLOOP_HANDLER __ubsan_handle_negate_overflow(polyloop::Location *at, uintptr_t) { polyloop::fail(polyloop::OVERFLOW_, at->line, 0); }
POLYLOOP_HANDLER __ubsan_handle_divrem_overflow(polyloop::Location *at, uintptr_t, uintptr_t) { polyloop::fail(polyloop::DIVISION, at->line, 0); }
POLYLOOP_HANDLER __ubsan_handle_type_mismatch_v1(polyloop::Location *at, uintptr_t address) {
    polyloop::fail(polyloop::MISALIGNED, at->line, (int64_t)address);
}
}

// }}}

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
static inline void ptx_cvt_f32_f16(float &to, unsigned short from) {
    int exponent = from >> 10 & 31, mantissa = from & 1023;
    double size = exponent == 31 ? (mantissa ? NAN : INFINITY)
                                 : ldexp(exponent ? mantissa + 1024 : mantissa, (exponent ? exponent : 1) - 25);
    to = (float)(from >> 15 ? -size : size);
}
static inline void ptx_ex2_approx_ftz_f32(float &to, float from) { to = exp2f(from); }
static inline void ptx_cvt_rn_f16_f64(unsigned short &to, double from) {
    double size = fabs(from);
    int sign = signbit(from) ? 0x8000 : 0, exponent;
    if (from != from) { to = 0x7fff; return; }
    if (size >= 65520.0) { to = (unsigned short)(sign | 0x7c00); return; }
    frexp(size, &exponent);
    if (exponent < -13 || size == 0) exponent = -13;
    to = (unsigned short)(sign | (((exponent + 13) << 10) + (int)nearbyint(ldexp(size, 11 - exponent))));
}
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
static inline double sinpi_of(double x) {
    double turn = fmod(x, 2.0), quarter = rint(2.0 * turn), r = M_PI * (turn - 0.5 * quarter);
    if (!isfinite(x)) return NAN;
    if (x == trunc(x)) return copysign(0.0, x);
    switch ((int)quarter & 3) {
    case 0: return sin(r);
    case 1: return cos(r);
    case 2: return -sin(r);
    default: return -cos(r);
    }
}
static inline double cospi_of(double x) {
    double turn = fmod(x, 2.0), quarter = rint(2.0 * turn), r = M_PI * (turn - 0.5 * quarter);
    if (!isfinite(x)) return NAN;
    if (fabs(x - trunc(x)) == 0.5) return 0.0;
    switch ((int)quarter & 3) {
    case 0: return cos(r);
    case 1: return -sin(r);
    case 2: return -cos(r);
    default: return sin(r);
    }
}
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
