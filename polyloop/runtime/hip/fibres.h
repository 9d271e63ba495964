// What HIP C++ has besides CUDA C, on fibres: functions of waves without masks, and matrix instructions.
#define __shfl(...) polyloop::shfl(__LINE__, polyloop::TOGETHER, __VA_ARGS__)
#define __shfl_xor(...) polyloop::shfl_xor(__LINE__, polyloop::TOGETHER, __VA_ARGS__)
#define __shfl_up(...) polyloop::shfl_up(__LINE__, polyloop::TOGETHER, __VA_ARGS__)
#define __shfl_down(...) polyloop::shfl_down(__LINE__, polyloop::TOGETHER, __VA_ARGS__)
#define __ballot(p) polyloop::ballot(__LINE__, polyloop::TOGETHER, p)
#define __any(p) (polyloop::ballot(__LINE__, polyloop::TOGETHER, p) != 0)
#define __all(p) (polyloop::ballot(__LINE__, polyloop::TOGETHER, !(p)) == 0)
#define __builtin_amdgcn_fence(order, scope) ((void)0)
#define __builtin_amdgcn_wave_barrier() polyloop::meet(__LINE__, polyloop::TOGETHER)

#define POLYLOOP_DEVICE static inline
namespace polyloop {
static inline float widened(unsigned short bits) {
    float found;
    ptx_cvt_f32_f16(found, bits);
    return found;
}
static inline unsigned short narrowed(double value) {
    unsigned short found;
    ptx_cvt_rn_f16_f64(found, value);
    return found;
}

// {{{ matrix instructions: AMD Instinct MI200 and MI300, and RDNA3 Instruction Set Architecture

struct Half { unsigned short bits; };
template <class T, int n> struct Vector {
    T e[n];
    T operator[](int k) const { return e[k]; }
};
static inline double number(Half x) { return widened(x.bits); }
static inline double number(short bits) { return float_of((unsigned)(unsigned short)bits << 16); }
static inline double number(float x) { return x; }
static inline double number(double x) { return x; }
template <class T, int n> static inline double entry(const Vector<T, n> &operand, int k) { return number(operand.e[k]); }
static inline double entry(float operand, int) { return operand; }
static inline double entry(double operand, int) { return operand; }

template <class V> struct Operands { const V *a, *b; };

// v_mfma: a lane has a column of results; operands lie along k in groups of lanes, each with some neighbours.
template <int size, int depth, class V, class T, int count>
static inline Vector<T, count> mfma(int line, V a, V b, Vector<T, count> sums, int, int, int) {
    static_assert(WAVE == 64 && count == size * size / 64, "a wave of 64 lanes has the results");
    const int each = size * depth / 64;
    Operands<V> mine = {&a, &b};
    show(line, &mine);
    for (int r = 0; r < count; r++) {
        int i, j = lane() % size;
        if (sizeof(T) == 8) i = 4 * r + lane() / 16;
        else if (size == 16) i = 4 * (lane() / 16) + r;
        else i = 8 * (r / 4) + 4 * (lane() / 32) + r % 4;
        double sum = sums.e[r];
        for (int k = 0; k < depth; k++)
            sum += entry(*of_lane<Operands<V>>(size * (k / each) + i)->a, k % each) *
                   entry(*of_lane<Operands<V>>(size * (k / each) + j)->b, k % each);
        sums.e[r] = (T)sum;
    }
    wait_at(AT_WARP_BARRIER, line, EVERY);
    return sums;
}

// v_wmma in waves of 32 lanes: a lane has a row of a or a column of b, and the other half of the wave has the same.
template <class V> static inline Vector<float, 8> wmma(int line, V a, V b, Vector<float, 8> sums) {
    static_assert(WAVE == 32 && sizeof(V) > 0, "waves have 32 lanes");
    Operands<V> mine = {&a, &b};
    show(line, &mine);
    const Operands<V> *other = of_lane<Operands<V>>(lane() ^ 16);
    bool is_same = !memcmp(other->a, &a, sizeof(V)) && !memcmp(other->b, &b, sizeof(V));
    for (int r = 0; r < 8; r++) {
        int i = 2 * r + lane() / 16, j = lane() % 16;
        double sum = is_same ? sums.e[r] : NAN;
        for (int k = 0; k < 16; k++)
            sum += entry(*of_lane<Operands<V>>(i)->a, k) * entry(*of_lane<Operands<V>>(j)->b, k);
        sums.e[r] = (float)sum;
    }
    wait_at(AT_WARP_BARRIER, line, EVERY);
    return sums;
}

// }}}
}  // namespace polyloop

#define __builtin_amdgcn_mfma_f32_16x16x16f16(...) polyloop::mfma<16, 16>(__LINE__, __VA_ARGS__)
#define __builtin_amdgcn_mfma_f32_32x32x8f16(...) polyloop::mfma<32, 8>(__LINE__, __VA_ARGS__)
#define __builtin_amdgcn_mfma_f32_16x16x16bf16_1k(...) polyloop::mfma<16, 16>(__LINE__, __VA_ARGS__)
#define __builtin_amdgcn_mfma_f32_32x32x8bf16_1k(...) polyloop::mfma<32, 8>(__LINE__, __VA_ARGS__)
#define __builtin_amdgcn_mfma_f32_16x16x4f32(...) polyloop::mfma<16, 4>(__LINE__, __VA_ARGS__)
#define __builtin_amdgcn_mfma_f32_32x32x2f32(...) polyloop::mfma<32, 2>(__LINE__, __VA_ARGS__)
#define __builtin_amdgcn_mfma_f64_16x16x4f64(...) polyloop::mfma<16, 4>(__LINE__, __VA_ARGS__)
#define __builtin_amdgcn_wmma_f32_16x16x16_f16_w32(...) polyloop::wmma(__LINE__, __VA_ARGS__)
#define __builtin_amdgcn_wmma_f32_16x16x16_bf16_w32(...) polyloop::wmma(__LINE__, __VA_ARGS__)
