// Simdgroup matrices. A text is not told which elements a thread holds, only that it holds the same of all matrices of
// a type. So here they are in an order that no GPU has, another one for each size of elements.

namespace matrices {
// The thread's elements, by row and column, and the thread's that holds one.
template <typename T> static inline uint place(uint element) {
    return ((own_lane() * 2 + element) * 37 + 11 * sizeof(T)) % 64;
}
template <typename T> static inline uint holder(uint place) { return (place + 64 - 11 * sizeof(T)) * 45 % 64; }

// What each thread of the simdgroup gives. All come to the same function.
UNCHECKED static const unsigned long long* exchanged(uint kind, unsigned long long given) {
    if (machine->number / 32 * 32 + 32 > attribute::group_size()) {
        machine->fail(machine, "a matrix takes a simdgroup of 32 threads", 0);
    }
    return machine->exchange(machine, kind, 0xffffffffu, given);
}
// They pass it the same, too.
UNCHECKED static void meet(uint kind, unsigned long long passed) {
    const unsigned long long* others = exchanged(kind, passed);
    for (uint lane = 0; lane < 32; ++lane) {
        if (others[lane] != passed) machine->fail(machine, "threads of a simdgroup pass different things for one matrix", 0);
    }
}

// Where in memory each element of a matrix lies.
struct Lines {
    ulong elements_per_row;
    bool transposed;
    ulong at(uint place) const {
        const uint row = place / 8, column = place % 8;
        return transposed ? column * elements_per_row + row : row * elements_per_row + column;
    }
};
template <typename T> static Lines meet_at(uint kind, T*& from, ulong elements_per_row, ulong2 origin, bool transposed) {
    if (transposed && (origin[0] != 0 || origin[1] != 0)) {
        machine->fail(machine, "nobody says what the origin of a transposed matrix counts", 0);
    }
    from += origin[1] * elements_per_row + origin[0];
    meet(kind, (unsigned long long)from ^ (elements_per_row * 2 + transposed) << 47);
    return {elements_per_row, transposed};
}

// All elements of a matrix, from the threads that have them.
template <typename T> struct Gathered {
    unsigned long long pairs[32];
    UNCHECKED explicit Gathered(const metal::ThreadElements<T>& own) {
        unsigned long long pair = 0;
        __builtin_memcpy(&pair, &own, 2 * sizeof(T));
        __builtin_memcpy(pairs, exchanged(MATRIX_PRODUCT, pair), sizeof(pairs));
    }
    UNCHECKED float at(uint row, uint column) const {
        T pair[2];
        const uint at = holder<T>(row * 8 + column);
        __builtin_memcpy(pair, &pairs[at / 2], sizeof(pair));
        return (float)pair[at % 2];
    }
};

// Adds to the thread's two sums of type C.
template <typename C, typename A, typename B>
UNCHECKED static void multiplied(const metal::ThreadElements<A>& a, const metal::ThreadElements<B>& b, float* sums) {
    const Gathered<A> left(a);
    const Gathered<B> right(b);
    for (uint element = 0; element < 2; ++element) {
        const uint row = place<C>(element) / 8, column = place<C>(element) % 8;
        for (uint k = 0; k < 8; ++k) sums[element] += left.at(row, k) * right.at(k, column);
    }
}
}

// Nobody knows what it holds: no number.
template <typename T, int Cols, int Rows> inline metal::simdgroup_matrix<T, Cols, Rows>::simdgroup_matrix() {
    __builtin_memset((void*)&elements, 0xff, sizeof(elements));
}
template <typename T, int Cols, int Rows> inline metal::simdgroup_matrix<T, Cols, Rows>::simdgroup_matrix(T value) {
    matrices::meet(MATRIX_MADE, same_bits<uint>((float)value));
    for (uint element = 0; element < 2; ++element) {
        const uint place = matrices::place<T>(element);
        elements[element] = place / 8 == place % 8 ? value : T(0.0f);
    }
}
template <typename T, int Cols, int Rows>
inline metal::simdgroup_matrix<T, Cols, Rows> metal::make_filled_simdgroup_matrix(T value) {
    matrices::meet(MATRIX_MADE, same_bits<uint>((float)value));
    simdgroup_matrix<T, Cols, Rows> matrix;
    matrix.elements[0] = matrix.elements[1] = value;
    return matrix;
}

template <typename T, int Cols, int Rows>
inline void metal::simdgroup_load(
    simdgroup_matrix<T, Cols, Rows>& matrix, const T* from, ulong elements_per_row, ulong2 origin, bool transposed) {
    const matrices::Lines lines = matrices::meet_at(MATRIX_LOAD, from, elements_per_row, origin, transposed);
    for (uint element = 0; element < 2; ++element) {
        matrix.elements[element] = from[lines.at(matrices::place<T>(element))];
    }
}
template <typename T, int Cols, int Rows>
inline void metal::simdgroup_store(
    simdgroup_matrix<T, Cols, Rows> matrix, T* to, ulong elements_per_row, ulong2 origin, bool transposed) {
    const matrices::Lines lines = matrices::meet_at(MATRIX_STORE, to, elements_per_row, origin, transposed);
    for (uint element = 0; element < 2; ++element) {
        to[lines.at(matrices::place<T>(element))] = matrix.elements[element];
    }
}

template <typename D, typename A, typename B, typename C, int Cols, int Rows, int K>
inline void metal::simdgroup_multiply_accumulate(
    simdgroup_matrix<D, Cols, Rows>& d, simdgroup_matrix<A, K, Rows>& a, simdgroup_matrix<B, Cols, K>& b,
    simdgroup_matrix<C, Cols, Rows>& c) {
    static_assert(sizeof(D) == sizeof(C), "sums of one type");
    float sums[2] = {(float)c.elements[0], (float)c.elements[1]};
    matrices::multiplied<C>(a.elements, b.elements, sums);
    for (uint element = 0; element < 2; ++element) d.elements[element] = D(sums[element]);
}
