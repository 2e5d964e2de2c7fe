// The matrices of a simdgroup, as Metal's library declares them: but for factors, which Apple's compiler takes in other
// types than sums. Whoever includes this has its types, and says with EACH_SPACE what pointers there are.
namespace metal {
// In Metal a vector of two, of which kernels only use that they are numbered.
template <typename T> struct ThreadElements {
    T both[2];
    thread T& operator[](int index) thread { return both[index]; }
};
template <typename T, int Cols, int Rows> struct simdgroup_matrix {
    static_assert(Cols == 8 && Rows == 8, "there are no others");
    simdgroup_matrix();
    // With this on its diagonal.
    explicit simdgroup_matrix(T);
    // Two for each thread; which of the matrix, nobody is told. They are the same of all matrices of one type.
    thread ThreadElements<T>& thread_elements() thread { return elements; }
    ThreadElements<T> elements;
};
typedef simdgroup_matrix<float, 8, 8> simdgroup_float8x8;
typedef simdgroup_matrix<half, 8, 8> simdgroup_half8x8;
typedef simdgroup_matrix<bfloat, 8, 8> simdgroup_bfloat8x8;

template <typename T, int Cols, int Rows = Cols> simdgroup_matrix<T, Cols, Rows> make_filled_simdgroup_matrix(T);

#define MOVES(SPACE) \
    template <typename T, int Cols, int Rows> \
    void simdgroup_load(thread simdgroup_matrix<T, Cols, Rows>&, const SPACE T*, ulong elements_per_row = Cols, \
                        ulong2 matrix_origin = 0, bool transpose_matrix = false); \
    template <typename T, int Cols, int Rows> \
    void simdgroup_store(simdgroup_matrix<T, Cols, Rows>, SPACE T*, ulong elements_per_row = Cols, \
                         ulong2 matrix_origin = 0, bool transpose_matrix = false);
EACH_SPACE(MOVES)
#undef MOVES
#undef EACH_SPACE

template <typename D, typename A, typename B, typename C, int Cols, int Rows, int K>
void simdgroup_multiply_accumulate(thread simdgroup_matrix<D, Cols, Rows>&, thread simdgroup_matrix<A, K, Rows>&,
                                   thread simdgroup_matrix<B, Cols, K>&, thread simdgroup_matrix<C, Cols, Rows>&);
}
