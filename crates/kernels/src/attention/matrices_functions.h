// Eight queries for each simdgroup. A tile has as many lines for all of them as for keys.
#define THREADS (32u * SIMDGROUPS)
#define ROWS (8u * SIMDGROUPS)
#define STRIP_PITCH (KEYS + STRIP_GAP)
#define WEIGHT_PITCH (KEYS + WEIGHT_GAP)
