// What an entry is told where a parameter has an attribute: the function of its name. Counts become numbers or vectors.

struct Counts {
    Place at;
    operator ushort() const { return (ushort)at.x; }
    operator uint() const { return at.x; }
    template <typename T> operator metal::vec<T, 2>() const {
        metal::vec<T, 2> counts;
        counts.x = (T)at.x, counts.y = (T)at.y;
        return counts;
    }
    template <typename T> operator metal::vec<T, 3>() const {
        metal::vec<T, 3> counts;
        counts.x = (T)at.x, counts.y = (T)at.y, counts.z = (T)at.z;
        return counts;
    }
};

namespace attribute {
static inline uint group_size() { return machine->threads.x * machine->threads.y * machine->threads.z; }
static inline Counts thread_position_in_threadgroup() { return {machine->thread}; }
static inline Counts threads_per_threadgroup() { return {machine->threads}; }
static inline Counts threadgroup_position_in_grid() { return {machine->block}; }
static inline Counts threadgroups_per_grid() { return {machine->blocks}; }
static inline Counts thread_position_in_grid() {
    const Place thread = machine->thread, block = machine->block, threads = machine->threads;
    return {{block.x * threads.x + thread.x, block.y * threads.y + thread.y, block.z * threads.z + thread.z}};
}
static inline Counts threads_per_grid() {
    const Place threads = machine->threads, blocks = machine->blocks;
    return {{blocks.x * threads.x, blocks.y * threads.y, blocks.z * threads.z}};
}
static inline uint thread_index_in_threadgroup() { return machine->number; }
static inline uint thread_index_in_simdgroup() { return machine->number % 32; }
static inline uint simdgroup_index_in_threadgroup() { return machine->number / 32; }
static inline uint threads_per_simdgroup() { return 32; }
static inline uint simdgroups_per_threadgroup() { return (group_size() + 31) / 32; }
}
