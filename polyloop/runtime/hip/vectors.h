// Operators of HIP's vectors, which have 2 to 4 components: each works on components, and a number stands for all.
#define POLYLOOP_BINARY(type, T, symbol, both, right, left) \
    POLYLOOP_DEVICE type operator symbol(type a, type b) { return both; } \
    POLYLOOP_DEVICE type operator symbol(type a, T b) { return right; } \
    POLYLOOP_DEVICE type operator symbol(T a, type b) { return left; }
#define POLYLOOP_TWO(type, T, symbol) POLYLOOP_BINARY(type, T, symbol, \
    (type{(T)(a.x symbol b.x), (T)(a.y symbol b.y)}), (type{(T)(a.x symbol b), (T)(a.y symbol b)}), \
    (type{(T)(a symbol b.x), (T)(a symbol b.y)}))
#define POLYLOOP_THREE(type, T, symbol) POLYLOOP_BINARY(type, T, symbol, \
    (type{(T)(a.x symbol b.x), (T)(a.y symbol b.y), (T)(a.z symbol b.z)}), \
    (type{(T)(a.x symbol b), (T)(a.y symbol b), (T)(a.z symbol b)}), \
    (type{(T)(a symbol b.x), (T)(a symbol b.y), (T)(a symbol b.z)}))
#define POLYLOOP_FOUR(type, T, symbol) POLYLOOP_BINARY(type, T, symbol, \
    (type{(T)(a.x symbol b.x), (T)(a.y symbol b.y), (T)(a.z symbol b.z), (T)(a.w symbol b.w)}), \
    (type{(T)(a.x symbol b), (T)(a.y symbol b), (T)(a.z symbol b), (T)(a.w symbol b)}), \
    (type{(T)(a symbol b.x), (T)(a symbol b.y), (T)(a symbol b.z), (T)(a symbol b.w)}))
#define POLYLOOP_EACH(T, name, symbol) \
    POLYLOOP_TWO(name##2, T, symbol) POLYLOOP_THREE(name##3, T, symbol) POLYLOOP_FOUR(name##4, T, symbol)
#define POLYLOOP_OPERATORS(T, name) \
    POLYLOOP_EACH(T, name, +) POLYLOOP_EACH(T, name, -) POLYLOOP_EACH(T, name, *) POLYLOOP_EACH(T, name, /) \
    POLYLOOP_DEVICE name##2 operator-(name##2 a) { return {(T)-a.x, (T)-a.y}; } \
    POLYLOOP_DEVICE name##3 operator-(name##3 a) { return {(T)-a.x, (T)-a.y, (T)-a.z}; } \
    POLYLOOP_DEVICE name##4 operator-(name##4 a) { return {(T)-a.x, (T)-a.y, (T)-a.z, (T)-a.w}; }
POLYLOOP_OPERATORS(signed char, char)
POLYLOOP_OPERATORS(unsigned char, uchar)
POLYLOOP_OPERATORS(short, short)
POLYLOOP_OPERATORS(unsigned short, ushort)
POLYLOOP_OPERATORS(int, int)
POLYLOOP_OPERATORS(unsigned int, uint)
POLYLOOP_OPERATORS(long long, longlong)
POLYLOOP_OPERATORS(unsigned long long, ulonglong)
POLYLOOP_OPERATORS(float, float)
POLYLOOP_OPERATORS(double, double)
