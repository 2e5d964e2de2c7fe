// Puts `wanted` where `expected` is; gives what was there.
FUNCTION u32 swap_if(u32* at, u32 expected, u32 wanted) { return atomicCAS(at, expected, wanted); }
FUNCTION u64 swap_if(u64* at, u64 expected, u64 wanted) { return atomicCAS(at, expected, wanted); }
FUNCTION void add_at(u32* at, u32 value) { atomicAdd(at, value); }
FUNCTION void add_at(i32* at, i32 value) { atomicAdd(at, value); }
FUNCTION void add_at(u64* at, u64 value) { atomicAdd(at, value); }
FUNCTION void add_at(i64* at, i64 value) { atomicAdd(reinterpret_cast<u64*>(at), u64(value)); }
FUNCTION void add_at(f32* at, f32 value) { atomicAdd(at, value); }
FUNCTION void add_at(f64* at, f64 value) { atomicAdd(at, value); }
// Gives what was there.
FUNCTION f32 added_at(f32* at, f32 value) { return atomicAdd(at, value); }
