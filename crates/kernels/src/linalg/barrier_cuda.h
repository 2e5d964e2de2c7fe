// As BARRIER, and the group's threads see what they wrote to device memory.
#define BARRIER_ALL() BARRIER()
