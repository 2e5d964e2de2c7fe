// As BARRIER, and the group's threads see what they wrote to device memory.
#define BARRIER_ALL() threadgroup_barrier(mem_flags::mem_threadgroup | mem_flags::mem_device)
