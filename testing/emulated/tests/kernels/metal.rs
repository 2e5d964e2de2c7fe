//! Libraries of Metal text, as an imitation of Metal runs them.

use std::collections::HashSet;

use streampool_emulated::metal::{Binding, Function, Library, Space};

const TEXT: &str = r"#include <metal_stdlib>
using namespace metal;
struct Params { float factor; uint length; };

kernel void scale(device const float* from [[buffer(1)]], device float* to [[buffer(0)]],
                  constant Params& p [[buffer(2)]], uint place [[thread_position_in_grid]]) {
    if (place < p.length) { to[place] = p.factor * from[place]; }
}

// Sums the numbers of each threadgroup by halves.
[[max_total_threads_per_threadgroup(64)]]
kernel void sum(device atomic_uint* total [[buffer(0)]], threadgroup uint* brought [[threadgroup(0)]],
                uint3 group [[threadgroup_position_in_grid]], uint lane [[thread_index_in_threadgroup]],
                ushort2 at [[thread_position_in_threadgroup]]) {
    threadgroup uint named[64];
    named[lane] = lane + 100 * group.x + 0 * at.y;
    for (uint half_way = 32; half_way > 0; half_way /= 2) {
        threadgroup_barrier(mem_flags::mem_threadgroup);
        brought[lane] = lane < half_way ? named[lane] + named[lane + half_way] : 0;
        threadgroup_barrier(mem_flags::mem_threadgroup);
        named[lane] = brought[lane];
    }
    if (lane == 0) { atomic_fetch_add_explicit(total, named[0], memory_order_relaxed); }
}

kernel void shift(device const uchar* from [[buffer(0)]], device uchar* to [[buffer(1)]], constant int& by [[buffer(2)]],
                  uint place [[thread_position_in_grid]]) {
    to[place] = from[int(place) + by];
}

// Whether everything is as it should be, and what a neighbour and the machine say.
kernel void functions(device uint* to [[buffer(0)]], uint2 at [[thread_position_in_grid]],
                      uint lane [[thread_index_in_simdgroup]], uint group [[threadgroup_position_in_grid]],
                      ushort all [[threads_per_simdgroup]]) {
    const uint neighbour = simd_shuffle_xor(lane, ushort(5));
    const float nine = simd_shuffle(float(lane), ushort(9));
    const half near = half(1.0f + 0x1p-11f + 0x1p-20f);
    vec<ushort, 4> words = {};
    words[2] = as_type<ushort>(near);
    const bool right = nine == 9.0f && float(near) == 1.0f + 0x1p-10f && words[2] == 0x3c01 && clz(1u) == 31 && clz(0u) == 32
        && mulhi(0x80000000u, 6u) == 3 && fma(2.0f, 3.0f, 1.0f) == 7.0f && clamp(-3.0f, -1.0f, 1.0f) == -1.0f
        && fabs(precise::exp(1.0f) - 2.7182817f) < 1e-6f && rint(2.5f) == 2.0f && copysign(2.0f, -0.0f) == -2.0f
        && as_type<uint>(1.0f) == 0x3f800000u && all == 32 && abs(-3) == 3 && min(2u, 3u) == 2u;
    to[32 * group + lane] = right ? neighbour + 100 * at.x + 10000 * at.y : 0;
}

// Of matrices that hold 100 rows + columns: each way to load one, and sums of products.
kernel void matrices(device const float* from [[buffer(0)]], device float* to [[buffer(1)]],
                     uint lane [[thread_index_in_threadgroup]]) {
    threadgroup half halves[64];
    threadgroup bfloat brains[64];
    for (uint place = lane; place < 64; place += 32) {
        halves[place] = half(place / 8 == place % 8 ? 0.5f : 0.0f);
        brains[place] = bfloat(float(place == 1));
    }
    threadgroup_barrier(mem_flags::mem_threadgroup);
    simdgroup_float8x8 plain, part, turned;
    simdgroup_load(plain, from, 16);
    simdgroup_load(part, from, 16, ulong2(8), false);
    simdgroup_load(turned, from + 8, 16, 0, true);
    simdgroup_store(plain, to);
    simdgroup_store(part, to + 64);
    simdgroup_store(turned, to + 128);
    simdgroup_store(turned, to + 192, 8, 0, true);
    // Half of a matrix, added to what is one everywhere; then its second row as the first, and three on the diagonal.
    simdgroup_half8x8 half_of;
    simdgroup_bfloat8x8 second_row;
    simdgroup_load(half_of, halves);
    simdgroup_load(second_row, brains);
    simdgroup_float8x8 sum = make_filled_simdgroup_matrix<float, 8, 8>(1.0f), other = simdgroup_float8x8(3.0f);
    simdgroup_multiply_accumulate(sum, plain, half_of, sum);
    simdgroup_multiply_accumulate(other, second_row, plain, other);
    simdgroup_store(sum, to + 256);
    simdgroup_store(other, to + 320);
    // Element by element; which these are is not known.
    for (int index = 0; index < 2; ++index) { plain.thread_elements()[index] *= turned.thread_elements()[index]; }
    simdgroup_store(plain, to + 384);
    to[448 + lane * 2] = part.thread_elements()[0];
    to[448 + lane * 2 + 1] = part.thread_elements()[1];
}

// Some threads stay away, or are about something else.
kernel void apart(device float* at [[buffer(0)]], constant uint& how [[buffer(1)]],
                  uint lane [[thread_index_in_threadgroup]]) {
    simdgroup_float8x8 matrix = simdgroup_float8x8(1.0f), other;
    if (how == 0 && lane % 32 < 8) { simdgroup_load(other, at); }
    if (how == 1) { simdgroup_load(other, lane % 32 < 8 ? at : at + 8); }
    if (how == 2 && lane % 32 > 30) { simdgroup_multiply_accumulate(matrix, matrix, matrix, matrix); }
    if (how == 3) { simdgroup_load(other, at + 1); }
    if (how == 4) { simdgroup_load(other, at, 8, ulong2(1), true); }
}

kernel void part(uint lane [[thread_index_in_threadgroup]]) {
    if (lane > 3) { threadgroup_barrier(mem_flags::mem_none); }
}
";

/// The library, unless there is no compiler.
fn library() -> Option<Library> {
    match Library::compile(TEXT) {
        Ok(library) => Some(library),
        Err(why) if why.contains("there is no C++ compiler") => {
            assert!(std::env::var_os("REQUIRE_PACKAGES").is_none(), "{why}");
            println!("skipped: {why}");
            None
        }
        Err(why) => panic!("{why}"),
    }
}

fn function(library: &Library, name: &str) -> Function {
    library
        .function(name)
        .unwrap_or_else(|| panic!("there is {name}"))
}

fn bound<T>(index: u32, memory: &mut [T]) -> Binding {
    Binding {
        index,
        address: memory.as_mut_ptr().cast(),
        before: 0,
        bytes: size_of_val(memory),
    }
}

#[test]
#[cfg_attr(
    any(sanitize_address, sanitize_thread),
    ignore = "runs a compiler, whose code no sanitizer watches"
)]
fn a_library_tells_what_its_kernels_declare() {
    let Some(library) = library() else { return };
    assert_eq!(
        library.functions().collect::<Vec<_>>(),
        [
            "scale",
            "sum",
            "shift",
            "functions",
            "matrices",
            "apart",
            "part"
        ]
    );
    assert!(library.function("sums").is_none());
    let scale = function(&library, "scale");
    let buffers: Vec<_> = scale
        .buffers()
        .map(|(buffer, least)| {
            (
                buffer.index,
                buffer.name.as_str(),
                buffer.space,
                buffer.written,
                least,
            )
        })
        .collect();
    assert_eq!(
        buffers,
        [
            (1, "from", Space::Device, false, 4),
            (0, "to", Space::Device, true, 4),
            (2, "p", Space::Constant, false, 8),
        ]
    );
    assert_eq!(scale.max_total_threads_per_threadgroup(), None);
    let sum = function(&library, "sum");
    assert_eq!(sum.max_total_threads_per_threadgroup(), Some(64));
    assert_eq!(sum.static_threadgroup_bytes(), 256);
    assert_eq!(sum.threadgroup_bindings().collect::<Vec<_>>(), [0]);
}

#[test]
#[cfg_attr(
    any(sanitize_address, sanitize_thread),
    ignore = "runs a compiler, whose code no sanitizer watches"
)]
fn kernels_run_on_what_is_bound() {
    let Some(library) = library() else { return };
    let mut from: Vec<f32> = (0..100).map(|place| place as f32).collect();
    let mut to = vec![-1.0f32; 100];
    let mut params = [f32::to_bits(0.5), 99];
    let buffers = [
        bound(2, &mut params),
        bound(0, &mut to),
        bound(1, &mut from),
    ];
    // SAFETY: all of it is ours, and as long as it says.
    let ran = unsafe { function(&library, "scale").run([3, 1, 1], [40, 1, 1], &buffers, &[]) };
    assert_eq!(ran, Ok(()));
    let wanted: Vec<f32> = (0..99)
        .map(|place| place as f32 / 2.0)
        .chain([-1.0])
        .collect();
    assert_eq!(to, wanted);
}

#[test]
#[cfg_attr(
    any(sanitize_address, sanitize_thread),
    ignore = "runs a compiler, whose code no sanitizer watches"
)]
fn functions_are_those_of_metal() {
    let Some(library) = library() else { return };
    let mut to = [0u32; 64];
    let buffers = [bound(0, &mut to)];
    // SAFETY: as above.
    let ran = unsafe { function(&library, "functions").run([2, 1, 1], [8, 4, 1], &buffers, &[]) };
    assert_eq!(ran, Ok(()));
    let wanted: Vec<u32> = (0..64)
        .map(|place: u32| {
            let (group, lane) = (place / 32, place % 32);
            let (x, y) = (lane % 8 + 8 * group, lane / 8);
            (lane ^ 5) + 100 * x + 10_000 * y
        })
        .collect();
    assert_eq!(to[..], wanted);
}

#[test]
#[cfg_attr(
    any(sanitize_address, sanitize_thread),
    ignore = "runs a compiler, whose code no sanitizer watches"
)]
fn simdgroups_multiply_matrices() {
    let Some(library) = library() else { return };
    let value = |row: usize, column: usize| (100 * row + column) as f32;
    let mut from: Vec<f32> = (0..256).map(|at| value(at / 16, at % 16)).collect();
    let mut to = vec![-1.0f32; 8 * 64];
    let buffers = [bound(0, &mut from), bound(1, &mut to)];
    // SAFETY: as above.
    let ran = unsafe { function(&library, "matrices").run([1; 3], [32, 1, 1], &buffers, &[]) };
    assert_eq!(ran, Ok(()));
    let diagonal = |row, column| if row == column { 3.0 } else { 0.0 };
    let wanted: [&dyn Fn(usize, usize) -> f32; 7] = [
        &value,
        &|row, column| value(8 + row, 8 + column),
        &|row, column| value(column, 8 + row),
        &|row, column| value(row, 8 + column),
        &|row, column| 1.0 + value(row, column) / 2.0,
        &|row, column| match row {
            0 => diagonal(row, column) + value(1, column),
            _ => diagonal(row, column),
        },
        &|row, column| value(row, column) * value(column, 8 + row),
    ];
    // Each element is some thread's, but not where a GPU may have it: in order, or in quarters of a matrix.
    let held = to.split_off(7 * 64);
    let all: HashSet<u32> = held.iter().map(|&held| held as u32).collect();
    assert_eq!(all.len(), 64);
    let neighbours = held
        .chunks(2)
        .filter(|pair| pair[1] == pair[0] + 1.0)
        .count();
    assert_eq!(neighbours, 0);
    for (number, (wanted, got)) in wanted.iter().zip(to.chunks(64)).enumerate() {
        let wanted: Vec<f32> = (0..64).map(|at| wanted(at / 8, at % 8)).collect();
        assert_eq!(got, wanted, "matrix {number}");
    }
}

#[test]
#[cfg_attr(
    any(sanitize_address, sanitize_thread),
    ignore = "runs a compiler, whose code no sanitizer watches"
)]
fn threads_that_are_not_together_at_a_matrix_are_told() {
    let Some(library) = library() else { return };
    let apart = function(&library, "apart");
    let run = |how: u32, threads: u32| {
        let (mut at, mut how) = ([0.0f32; 64], [how]);
        let buffers = [bound(0, &mut at), bound(1, &mut how)];
        // SAFETY: as above.
        let ran = unsafe { apart.run([1; 3], [threads, 1, 1], &buffers, &[]) };
        ran.expect_err("it is wrong")
    };
    for (how, threads, why) in [
        (0, 32, "matrix load"),
        (1, 32, "different things for one matrix"),
        (2, 64, "matrix product"),
        (3, 32, "0 bytes from buffer 0, after its end"),
        (4, 32, "origin of a transposed matrix"),
        (5, 48, "a simdgroup of 32 threads"),
    ] {
        let told = run(how, threads);
        assert!(told.contains(why), "{how}: {told}");
    }
}

#[test]
#[cfg_attr(
    any(sanitize_address, sanitize_thread),
    ignore = "runs a compiler, whose code no sanitizer watches"
)]
fn threads_may_run_one_function_at_a_time() {
    let Some(library) = library() else { return };
    let sum = function(&library, "sum");
    let run = || {
        let mut total = [0u32];
        for _ in 0..20 {
            let buffers = [bound(0, &mut total)];
            // SAFETY: as above.
            unsafe { sum.run([3, 1, 1], [16, 4, 1], &buffers, &[(0, 256)]) }.expect("it runs");
        }
        total[0]
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..4).map(|_| scope.spawn(run)).collect();
        for thread in threads {
            let total = thread.join().expect("it does not panic");
            assert_eq!(total, 20 * (3 * 64 * 63 / 2 + 64 * 300));
        }
    });
}

#[test]
#[cfg_attr(
    any(sanitize_address, sanitize_thread),
    ignore = "runs a compiler, whose code no sanitizer watches"
)]
fn accesses_beside_what_is_bound_are_told() {
    let Some(library) = library() else { return };
    let shift = function(&library, "shift");
    // More is there than is bound, so that nothing else can tell.
    let (mut from, mut to) = ([7u32; 24], [0u32; 24]);
    let mut run = |by: i32, words: usize| {
        let mut by = [by];
        let buffers = [
            bound(0, &mut from[4..20]),
            bound(1, &mut to[..words]),
            bound(2, &mut by),
        ];
        // SAFETY: what lies beside the bound memory is ours, too.
        unsafe { shift.run([1; 3], [64, 1, 1], &buffers, &[]) }
    };
    assert_eq!(run(0, 16), Ok(()));
    for (by, words, why) in [
        (1, 16, "0 bytes from buffer 0, after its end"),
        (-1, 16, "1 bytes from buffer 0, before it begins"),
        (0, 15, "from buffer 1, after its end"),
    ] {
        let told = run(by, words).expect_err("it is wrong");
        assert!(told.contains(why), "{told}");
    }
}

#[test]
#[cfg_attr(
    any(sanitize_address, sanitize_thread),
    ignore = "runs a compiler, whose code no sanitizer watches"
)]
fn what_is_wrong_is_told() {
    let Some(library) = library() else { return };
    let run = |name: &str, buffers: &[Binding], lengths: &[(u32, usize)]| {
        // SAFETY: as above.
        let ran = unsafe { function(&library, name).run([1; 3], [64, 1, 1], buffers, lengths) };
        ran.expect_err("it is wrong")
    };
    let mut word = [0u32];
    for (name, buffers, lengths, why) in [
        (
            "sum",
            vec![],
            vec![(0, 256)],
            "buffer 0 (total) is not bound",
        ),
        (
            "sum",
            vec![bound(0, &mut word)],
            vec![],
            "memory 0 has no length",
        ),
        (
            "sum",
            vec![bound(0, &mut word)],
            vec![(0, 64)],
            "shared memory is written",
        ),
        ("part", vec![], vec![], "threads went apart"),
    ] {
        let told = run(name, &buffers, &lengths);
        assert!(told.contains(why), "{told}");
    }
    for (text, why) in [
        ("kernel void f(device int* x) {}", "no attribute"),
        (
            "kernel void f(uint x [[thread_index_on_mars]]) {}",
            "thread_index_on_mars",
        ),
        (
            "kernel void f(uint x [[thread_index_in_threadgroup]]) { x = y; }",
            "'y'",
        ),
        (
            "kernel void f(uint x [[thread_index_in_threadgroup]]) {\n  threadgroup uint one;\n}",
            "TYPE NAME[LENGTH]",
        ),
    ] {
        let told = Library::compile(text).err().expect("it is wrong");
        assert!(told.replace(['‘', '’'], "'").contains(why), "{told}");
    }
}
