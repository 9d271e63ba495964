// What all programs on fibres have in common: threads and their barriers, copies and products under way, faults.
// It is compiled once, and linked to each program; fibres.h is in front of it.
#pragma GCC visibility push(hidden)
uint3 threadIdx, blockIdx;
dim3 blockDim, gridDim;
alignas(1024) char polyloop_dynamic_shared[256 * 1024];
char polyloop_dynamic_seen[256 * 1024];

namespace polyloop {

// A thread has 512 KiB of local memory at most; below each stack is a page that nothing may touch.
static const size_t STACK = 2048 * 1024, GUARD = 64 * 1024;
static char *stacks;
Fibre *fibres;
static int *turn;
int threads, current;
static ucontext_t scheduler;
static Report *report;
static void (*body)();
void **parameters;
Order order;
static uint64_t random_state;
static Box *boxes;
static int box_count, box_room;

// The blocks of a cluster.  The variables above, and shared memory, are those of the block that runs; what the other
// blocks have there is kept here.
struct Member { Fibre *fibres; Box *boxes; int box_count, box_room; char *shared, *seen; uint3 index; bool has_begun, has_ended; };
static const int MOST_IN_CLUSTER = 8;
static Member members[MOST_IN_CLUSTER];
static int cluster, member;
static size_t dynamic_bytes;
static const char *places[1 << 14];  // by 14 bits of their address

unsigned next_random(unsigned below) {
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

void fail(Fault fault, int line, int64_t value) {
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

// Blocks that count their arrivals.  A thread counts what all threads of its block have stored before the last barrier,
// and all of them read behind the next one what other blocks have stored: a fence has to stand on both sides.
void fence() {
    fibres[current].is_fenced = true;
    fibres[current].has_counted = false;
}
unsigned count_arrival(int line, unsigned *arrived, unsigned last) {
    Fibre &me = fibres[current];
    if (!me.is_fenced) fail(UNFENCED, line, 0);
    me.has_counted = true;
    unsigned before = *arrived;
    *arrived = before >= last ? 0 : before + 1;
    return before;
}
static void pass_barrier(int line) {
    Fibre &me = fibres[current];
    if (me.has_counted) fail(UNFENCED, line, 0);
    me.is_fenced = false;
}

void wait_at(State state, int line, Lanes mask) {
    if (state == AT_BLOCK_BARRIER || state == AT_ROLE_BARRIER) pass_barrier(line);
    Fibre &me = fibres[current];
    me.state = state, me.line = line, me.mask = mask;
    yield_to_scheduler();
}

// Waits for the lanes of a mask, and returns those that met.
Lanes meet(int line, Lanes mask) {
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
            bool is_early = false;  // others are still on their way here
            for (int k = first; k < end; k++)
                is_early = is_early || ((mask >> (k - first) & 1) && (fibres[k].state == AT_RING || fibres[k].state == PAUSED));
            if (is_early) continue;
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

// Lets the block go on whose threads all stand at one barrier; 0: all threads are done, or wait for the cluster.
static int release_block() {
    int leader = -1;
    for (int k = 0; k < threads && leader < 0; k++) if (fibres[k].state != DONE) leader = k;
    if (leader < 0) return 0;
    for (int k = 0; k < threads; k++) {
        if (fibres[k].state == AT_RING || fibres[k].state == AT_ROLE_BARRIER) return diverged(NEVER, k, k), -1;
        // a barrier of a cluster waits for the threads that have not exited (PTX ISA, "barrier.cluster")
        if (fibres[k].state == DONE && fibres[leader].state == AT_CLUSTER_BARRIER) continue;
        if (fibres[k].state == DONE) return diverged(EXITED, leader, k), -1;
        if (fibres[k].line != fibres[leader].line) return diverged(DIFFERENT_BARRIERS, leader, k), -1;
    }
    if (fibres[leader].state == AT_CLUSTER_BARRIER) return 0;
    for (int k = 0; k < threads; k++) fibres[k].state = READY;
    return 1;
}

// Lets the threads of a role go on that all stand at one barrier of it; 0: there are none.
static int release_roles() {
    int released = 0;
    for (int leader = 0; leader < threads; leader++) {
        if (fibres[leader].state != AT_ROLE_BARRIER) continue;
        int number = (int)(fibres[leader].mask >> 32), count = (int)(fibres[leader].mask & 0xffffffffu), met = 0;
        for (int k = 0; k < threads; k++)
            met += fibres[k].state == AT_ROLE_BARRIER && (int)(fibres[k].mask >> 32) == number;
        if (met != count) continue;
        for (int k = 0; k < threads; k++)
            if (fibres[k].state == AT_ROLE_BARRIER && (int)(fibres[k].mask >> 32) == number) fibres[k].state = READY;
        released = 1;
    }
    return released;
}

void meet_in_role(int line, int number, int count) { wait_at(AT_ROLE_BARRIER, line, (Lanes)number << 32 | (Lanes)count); }

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

void start_copy(void *to, const void *from, int size) {
    Fibre &me = fibres[current];
    if (me.copy_count == me.copy_room) {
        me.copy_room = me.copy_room ? 2 * me.copy_room : 64;
        me.copies = (Copy *)realloc(me.copies, sizeof(Copy) * me.copy_room);
    }
    memset(to, 0xFF, size);  // what lay there may be overwritten at any time from now on
    me.copies[me.copy_count++] = {(char *)to, (const char *)from, size, me.group};
}

void end_group() { fibres[current].group++; }

// Delivers all copies of groups that have ended, but those of the last groups.
void await_groups(int pending) {
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

void issue_product(float *into, int count, unsigned long long a, unsigned long long b,
                          void (*read)(double *, const Product &), bool is_whole, const double (*rows)[16]) {
    Fibre &me = fibres[current];
    Sums &sums = sums_of(into, count);
    bool is_late = rows ? me.has_new_rows || !me.is_ordered : !sums.under_way && !me.is_ordered;
    for (int r = 0; r < count; r++) if (is_late || memcmp(into + r, "\377\377\377\377", 4)) sums.value[r] = NAN;  // set meanwhile
    sums.under_way++;
    Product &product = another(me.products, me.product_count, me.product_room);
    product.into = into, product.a = a, product.b = b, product.read = read, product.group = me.product_group;
    product.is_whole = is_whole;
    if (rows) memcpy(product.rows, rows, sizeof(product.rows));
    product.is_read = order == FORWARD || (order == RANDOM && next_random(2));
    if (product.is_read) read(product.terms, product);
}

// What a thread did with registers comes before the products from here on.
void order_registers() { fibres[current].is_ordered = true, fibres[current].has_new_rows = false; }

void end_products() { fibres[current].product_group++, fibres[current].has_new_rows = true; }

// Adds all products of groups that have ended, but those of the last groups.
void await_products(int pending) {
    Fibre &me = fibres[current];
    int kept = 0;
    if (me.products_known < me.product_group - pending) me.products_known = me.product_group - pending;
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
        if (!--sums.under_way) memcpy(sums.into, sums.value, sizeof(float) * sums.count), me.is_ordered = false;
    }
    me.product_count = kept;
}

// }}}

// {{{ copies of boxes

int64_t bytes_of(const Described &map) {
    int64_t bytes = map.size;
    for (int d = 0; d < map.rank; d++) bytes *= map.box[d];
    return bytes;
}

static void next_phase(Ring &ring) {
    if (ring.arrived && ring.arrived == ring.expected && !ring.bytes) ring.phase++, ring.arrived = 0;
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
void move(const Box &copy) {
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
        if (!copy.ring && is_there) memcpy(map.begin + there, seen_at((void *)place), map.size);
        else if (copy.ring && is_there && map.rounds) round_to_tf32((void *)place, map.begin + there);
        else if (copy.ring && is_there) memcpy((void *)place, map.begin + there, map.size);
        else if (copy.ring) memset((void *)place, 0, map.size);
        if (copy.ring) memcpy(seen_at((void *)place), (void *)place, map.size);
    }
}

void deliver(const Box &copy) {
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

void open_ring(void *slot, int expected) { *(Ring *)slot = {0, 0, 0, (unsigned char)expected}; }

// The ring of a slot, which has to be open.
static Ring &opened(void *slot) {
    if (((Ring *)slot)->expected == 0xFF) fail(NEVER, 0, 0);
    return *(Ring *)slot;
}

void free_slot(void *slot) {
    Ring &ring = opened(slot);
    ring.arrived++;
    next_phase(ring);
    if (order == REVERSE || (order == RANDOM && next_random(2))) wait_at(PAUSED, 0, 0);  // the slot may be filled at once
}

// One thread of four warps frees the slot for all.  The products that it has waited for are those of the whole group: all
// threads have issued them, and their operands have been read.  Nothing else is known of the others, which may be late.
void free_slot_of_group(void *slot) {
    int first = current / 128 * 128, known = fibres[current].products_known;
    for (int k = first; k < first + 128 && k < threads; k++)
        for (int tries = 0; fibres[k].product_group < known; tries++) {
            if (tries == 1 << 16) fail(NEVER, 0, 0);
            wait_at(PAUSED, 0, 0);
        }
    for (int me = current, k = first; k < first + 128 && k < threads; k++) {
        current = k;
        for (int n = 0; n < fibres[k].product_count; n++) {
            Product &product = fibres[k].products[n];
            if (product.group < known && !product.is_read) product.read(product.terms, product), product.is_read = true;
        }
        current = me;
    }
    for (int k = first; order == FORWARD && k < first + 128 && k < threads; k++)
        if (k != current && fibres[k].state == READY) fibres[k].state = PAUSED;
    free_slot(slot);
}

static int release_paused() {
    int released = 0;
    for (int k = 0; k < threads; k++) if (fibres[k].state == PAUSED) fibres[k].state = READY, released = 1;
    return released;
}

void expect_bytes(void *slot, int bytes) {
    Ring &ring = opened(slot);
    if (ring.arrived) fail(NEVER, 0, 0);  // a second arrival in one phase
    ring.bytes += bytes, ring.arrived = 1;
    next_phase(ring);
}

void keep(const Box &copy) {
    if (box_count == box_room) boxes = (Box *)realloc(boxes, sizeof(Box) * (box_room = box_room ? 2 * box_room : 16));
    boxes[box_count++] = copy;
}

void await_stores() {
    int kept = 0;
    for (int k = 0; k < box_count; k++) {
        if (!boxes[k].ring && boxes[k].thread == current) move(boxes[k]);
        else boxes[kept++] = boxes[k];
    }
    box_count = kept;
}

void await_bytes(int line, void *slot, unsigned parity) {
    Fibre &me = fibres[current];
    if ((opened(slot).phase & 1) != (int)parity) return;
    me.ring = (Ring *)slot;
    wait_at(AT_RING, line, parity);
}

// }}}

static size_t static_bytes() { return __start_polyloop_shared ? __stop_polyloop_shared - __start_polyloop_shared : 0; }

static char *static_view;

char *static_seen(const void *place) {
    ptrdiff_t from = (const char *)place - __start_polyloop_shared;
    if (from < 0 || from >= (ptrdiff_t)static_bytes()) fail(OUT_OF_BOUNDS, 0, (int64_t)(intptr_t)place);
    return static_view + from;
}

// A fence between proxies: from here on matrix instructions and copy engines see what was stored.
void publish() {
    if (static_bytes()) memcpy(static_view, __start_polyloop_shared, static_bytes());
    memcpy(polyloop_dynamic_seen, polyloop_dynamic_shared, dynamic_bytes);
}

static void begin_block() {
    if (static_bytes()) memset(__start_polyloop_shared, 0xFF, static_bytes());
    memset(polyloop_dynamic_shared, 0xFF, dynamic_bytes);
    publish();
    for (int k = 0; k < threads; k++) {
        Fibre &fibre = fibres[k];
        fibre.state = READY, fibre.copy_count = fibre.group = 0, fibre.has_arrived = false, fibre.is_fenced = fibre.has_counted = fibre.is_ordered = false;
        fibre.product_count = fibre.sums_count = fibre.product_group = fibre.products_known = 0;
    }
    box_count = 0;
}

// {{{ clusters

static void enter(int which) {
    Member &it = members[member = which];
    fibres = it.fibres, boxes = it.boxes, box_count = it.box_count, box_room = it.box_room, blockIdx = it.index;
    if (cluster == 1 || !it.has_begun) return;
    if (static_bytes()) memcpy(__start_polyloop_shared, it.shared, static_bytes());
    memcpy(polyloop_dynamic_shared, it.shared + static_bytes(), dynamic_bytes);
    if (static_bytes()) memcpy(static_view, it.seen, static_bytes());
    memcpy(polyloop_dynamic_seen, it.seen + static_bytes(), dynamic_bytes);
}

static void leave() {
    Member &it = members[member];
    it.boxes = boxes, it.box_count = box_count, it.box_room = box_room;
    if (cluster == 1) return;
    if (static_bytes()) memcpy(it.shared, __start_polyloop_shared, static_bytes());
    memcpy(it.shared + static_bytes(), polyloop_dynamic_shared, dynamic_bytes);
    if (static_bytes()) memcpy(it.seen, static_view, static_bytes());
    memcpy(it.seen + static_bytes(), polyloop_dynamic_seen, dynamic_bytes);
}

void cluster_arrive(int line) {
    Fibre &me = fibres[current];
    me.line = line;
    if (me.has_arrived) fail(NEVER, line, 0);  // a second arrival before the wait
    me.has_arrived = true;
}

void cluster_wait(int line) {
    fibres[current].line = line;
    if (!fibres[current].has_arrived) fail(NEVER, line, 0);
    wait_at(AT_CLUSTER_BARRIER, line, 0);
}

// The place in the shared memory of a block of the cluster of which the one that runs has the like.
void *in_block(const void *here, unsigned rank) {
    if (rank >= (unsigned)cluster) fail(OUT_OF_BOUNDS, 0, rank);
    if ((int)rank == member) return (void *)here;
    if (members[rank].has_ended) fail(GONE, 0, rank);
    ptrdiff_t from = (const char *)here - __start_polyloop_shared;
    if (static_bytes() && from >= 0 && from < (ptrdiff_t)static_bytes()) return members[rank].shared + from;
    from = (const char *)here - polyloop_dynamic_shared;
    if (from < 0 || from >= (ptrdiff_t)dynamic_bytes) fail(OUT_OF_BOUNDS, 0, from);
    return members[rank].shared + static_bytes() + from;
}

// Runs the blocks of a cluster in turns, each as far as it comes by itself.
static void run_cluster() {
    for (int k = 0; k < cluster; k++) members[k].has_begun = members[k].has_ended = false;
    for (;;) {
        int places[MOST_IN_CLUSTER], ended = 0;
        arrange(places, cluster);
        for (int k = 0; k < cluster; k++) {
            Member &it = members[places[k]];
            enter(places[k]);
            if (!it.has_begun) begin_block(), it.has_begun = true;
            while (run_warps() && (release_rings() || release_paused() || release_roles() || release_block() > 0)) {}
            if (report->fault) return;
            it.has_ended = fibres[0].state == DONE;
            ended += it.has_ended;
            leave();
        }
        if (ended == cluster) return;
        for (int k = 0; ended && k < cluster; k++)
            if (!members[k].has_ended) { enter(k), diverged(EXITED, 0, 0); return; }
        for (int k = 0; k < cluster; k++)
            for (int t = 0; t < threads; t++)
                if (members[k].fibres[t].state != DONE) members[k].fibres[t].has_arrived = false, members[k].fibres[t].state = READY;
    }
}

// }}}

static void prepare_fibres() {
    fibres = (Fibre *)malloc(sizeof(Fibre) * threads * cluster);
    turn = (int *)malloc(sizeof(int) * threads);
    stacks = (char *)mmap(NULL, (STACK + GUARD) * threads * cluster, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (stacks == (char *)MAP_FAILED) abort();
    for (int k = 0; k < threads * cluster; k++) {
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
        fibres[k].thread.z = k / blockDim.x / blockDim.y % blockDim.z;
    }
    for (int k = 0; k < cluster; k++) {
        members[k].fibres = fibres + k * threads, members[k].boxes = NULL, members[k].box_count = members[k].box_room = 0;
        members[k].shared = cluster > 1 ? (char *)malloc(static_bytes() + dynamic_bytes) : NULL;
        members[k].seen = cluster > 1 ? (char *)malloc(static_bytes() + dynamic_bytes) : NULL;
    }
    static_view = (char *)malloc(static_bytes());
}

static void free_fibres() {
    fibres = members[0].fibres;
    for (int k = 0; k < threads * cluster; k++) free(fibres[k].copies), free(fibres[k].products), free(fibres[k].sums);
    munmap(stacks, (STACK + GUARD) * threads * cluster);
    for (int k = 0; k < cluster; k++) free(members[k].boxes), free(members[k].shared), free(members[k].seen);
    free(static_view), free(fibres), free(turn), boxes = NULL, box_room = 0;
}

int run_grid(void (*kernel)(), void **arguments, const int *grid, const int *block, size_t dynamic_shared,
                    int of_cluster, int how, uint64_t seed, Report *into) {
    body = kernel, parameters = arguments, report = into, order = (Order)how;
    random_state = seed * 0x9E3779B97F4A7C15u + 0x2545F4914F6CDD1Du;
    gridDim.x = grid[0], gridDim.y = grid[1], gridDim.z = grid[2];
    blockDim.x = block[0], blockDim.y = block[1], blockDim.z = block[2];
    threads = block[0] * block[1] * block[2];
    cluster = of_cluster, dynamic_bytes = dynamic_shared;
    memset(places, 0, sizeof(places));
    prepare_fibres();
    int along = grid[0] / cluster, blocks = along * grid[1] * grid[2];  // or clusters of them
    int *sequence = (int *)malloc(sizeof(int) * blocks);
    arrange(sequence, blocks);
    for (int k = 0; k < blocks && !into->fault; k++) {
        int b = sequence[k];
        for (unsigned n = 0; n < (unsigned)cluster; n++)
            members[n].index = {b % along * cluster + n, (unsigned)(b / along % grid[1]), (unsigned)(b / along / grid[1])};
        run_cluster();
    }
    free(sequence);
    free_fibres();
    return into->fault;
}

// {{{ values exchanged within a warp or a block; numbers

Lanes ballot(int line, Lanes mask, int predicate) {
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
void show(int line, const void *mine) {
    static_assert(sizeof(mine) <= 8, "a slot holds a pointer");
    memcpy(fibres[current].slot, &mine, sizeof(mine));
    wait_at(AT_WARP_BARRIER, line, EVERY);
}
float float_of(unsigned bits) {
    float found;
    memcpy(&found, &bits, sizeof(found));
    return found;
}
float half_of(unsigned bits) {
    int exponent = bits >> 10 & 31, mantissa = bits & 1023;
    float size = exponent == 31 ? (mantissa ? NAN : INFINITY)
                                : ldexpf((float)(exponent ? mantissa + 1024 : mantissa), (exponent ? exponent : 1) - 25);
    return bits >> 15 & 1 ? -size : size;
}
float e4m3_values[256], e5m2_values[256];
static const bool has_values = [] {
    for (int bits = 0; bits < 256; bits++) {
        int size = bits & 127;
        float value = size == 127 ? NAN : size < 8 ? ldexpf((float)size, -9) : ldexpf((float)(size % 8 + 8), size / 8 - 10);
        e4m3_values[bits] = bits & 128 ? -value : value;
        e5m2_values[bits] = half_of(bits << 8);
    }
    return true;
}();
size_t shared_place(const void *place) {
    places[(uintptr_t)place >> 4 & 0x3fff] = (const char *)((uintptr_t)place & ~(uintptr_t)15);
    // as many bits as addresses in shared memory have; in a cluster, the number of the block stands above them
    return ((uintptr_t)place & 0x3ffff) | (cluster > 1 ? (size_t)member << 24 : 0);
}
const char *place_of(unsigned bits) {
    unsigned apart = 0;
    while (!places[(bits - apart) & 0x3fff] && apart < 1 << 14) apart++;
    const char *&found = places[bits];
    return found ? found : (found = places[(bits - apart) & 0x3fff] + 16 * apart);
}
int count_block(int line, int predicate) {
    int value = predicate != 0, result = 0;
    memcpy(fibres[current].slot, &value, sizeof(int));
    wait_at(AT_BLOCK_BARRIER, line, 0);
    for (int k = 0; k < threads; k++) result += *(int *)fibres[k].slot;
    wait_at(AT_BLOCK_BARRIER, line, 0);
    return result;
}
unsigned existing(unsigned mask) {
    int alive = threads - first_lane();
    return alive >= 32 ? mask : mask & ((1u << alive) - 1);
}
void ptx_cvt_f32_f16(float &to, unsigned short from) {
    int exponent = from >> 10 & 31, mantissa = from & 1023;
    double size = exponent == 31 ? (mantissa ? NAN : INFINITY)
                                 : ldexp(exponent ? mantissa + 1024 : mantissa, (exponent ? exponent : 1) - 25);
    to = (float)(from >> 15 ? -size : size);
}
void ptx_cvt_rn_f16_f64(unsigned short &to, double from) {
    double size = fabs(from);
    int sign = signbit(from) ? 0x8000 : 0, exponent;
    if (from != from) { to = 0x7fff; return; }
    if (size >= 65520.0) { to = (unsigned short)(sign | 0x7c00); return; }
    frexp(size, &exponent);
    if (exponent < -13 || size == 0) exponent = -13;
    to = (unsigned short)(sign | (((exponent + 13) << 10) + (int)nearbyint(ldexp(size, 11 - exponent))));
}
double sinpi_of(double x) {
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
double cospi_of(double x) {
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

// }}}

}  // namespace polyloop
#pragma GCC visibility pop

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
