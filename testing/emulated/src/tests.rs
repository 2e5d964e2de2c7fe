//! What the emulator is for: kernels that are wrong are found to be.

use streampool_device::{Activation, Axes, DType, MatMul, Op, ReduceKind};
use streampool_kernels::{Dialect, lower, lower_to_simdgroups};

use crate::compiler::{Code, Compiler};
use crate::emulator::{Emulator, Lowering};
use crate::group::{Bound, Launch, run};
use crate::guarded::Guarded;
use crate::random::Random;
use crate::same::{emulate, on_host};
use crate::tensor::Tensor;
use crate::text::Unit;

const THREADS: u32 = 128;

/// The code of an entry with this body, which gets words to write, and the bytes of `Params`.
fn code(compiler: &Compiler, body: &str) -> Code {
    let text = format!(
        "struct Params {{ unsigned none; }};\n\
         extern \"C\" __global__ void entry(unsigned* to, const Params p) {{\n\
         const unsigned lane = threadIdx.x;\n{body}\n}}\n"
    );
    let unit =
        Unit::cuda("entry", &text, 1, compiler.identity()).unwrap_or_else(|why| panic!("{why}"));
    compiler
        .compile(std::slice::from_ref(&unit))
        .unwrap_or_else(|why| panic!("{why}"));
    let mut codes = compiler.load(&unit).unwrap_or_else(|why| panic!("{why}"));
    codes.swap_remove(0)
}

/// What one group of this body wrote, a word for each thread.
fn written(body: &str) -> Option<Result<Vec<u32>, String>> {
    let compiler = match Compiler::installed() {
        Ok(compiler) => compiler,
        Err(why) => {
            println!("skipped: {why}");
            return None;
        }
    };
    let code = code(&compiler, body);
    let bound = |address, bytes| Bound {
        address,
        before: 0,
        bytes,
    };
    let mut params = [0; 8];
    let mut memory = Guarded::new(THREADS as usize * 4, 0);
    let launch = Launch {
        run: code.run,
        groups: [1; 3],
        threads: [THREADS, 1, 1],
        buffers: &[
            bound(memory.address(), THREADS as usize * 4),
            bound(params.as_mut_ptr(), params.len()),
        ],
        lengths: &[],
        shared_bytes: 4096,
    };
    let outcome = run(&launch, &mut Random::new(1)).and_then(|()| memory.check("to"));
    Some(outcome.map(|()| {
        let words = memory.bytes().as_chunks::<4>().0.iter();
        words.map(|&word| u32::from_ne_bytes(word)).collect()
    }))
}

#[track_caller]
fn assert_writes(body: &str, wanted: impl Fn(u32) -> u32) {
    let Some(words) = written(body) else { return };
    let wanted: Vec<u32> = (0..THREADS).map(wanted).collect();
    assert_eq!(words, Ok(wanted));
}

#[track_caller]
fn assert_fails(body: &str, with: &str) {
    let Some(words) = written(body) else { return };
    let why = words.expect_err("it is wrong");
    assert!(why.contains(with), "{why}");
}

#[test]
fn threads_meet_at_barriers() {
    let body = "__shared__ unsigned shared[128];\nshared[lane] = lane;\n__syncthreads();\nto[lane] = shared[127 - lane];";
    assert_writes(body, |lane| 127 - lane);
    let missing = body.replace("__syncthreads();", "");
    let Some(words) = written(&missing) else {
        return;
    };
    let right: Vec<u32> = (0..THREADS).map(|lane| 127 - lane).collect();
    assert_ne!(
        words.expect("it does not fail"),
        right,
        "a missing barrier shows"
    );
}

#[test]
fn threads_that_part_are_found() {
    assert_fails(
        "if (lane < 32) __syncthreads();\nto[lane] = 0;",
        "threads went apart",
    );
    assert_fails(
        "if (lane < 64) {\n__syncthreads();\n} else {\n__syncthreads();\n}",
        "line 5",
    );
    assert_fails(
        "if (lane % 2) to[lane] = __shfl_xor_sync(0xffffffffu, lane, 1);",
        "shuffle_xor",
    );
    assert_fails(
        "if (lane % 2) to[lane] = __shfl_xor_sync(0x55555555u, lane, 2);",
        "mask of its own",
    );
    assert_fails(
        "to[lane] = __shfl_sync(lane % 2 ? 0xaaaaaaaau : 0x55555555u, lane, 0);",
        "outside the mask",
    );
}

#[test]
fn warps_exchange_values() {
    assert_writes(
        "to[lane] = __shfl_xor_sync(0xffffffffu, lane, 5);",
        |lane| lane ^ 5,
    );
    assert_writes("to[lane] = __shfl_up_sync(0xffffffffu, lane, 3);", |lane| {
        if lane % 32 < 3 { lane } else { lane - 3 }
    });
    assert_writes(
        "to[lane] = __shfl_down_sync(0xffffffffu, lane, 3, 8);",
        |lane| {
            if lane % 8 < 5 { lane + 3 } else { lane }
        },
    );
    assert_writes(
        "to[lane] = __shfl_sync(0xffffffffu, lane, 9, 16);",
        |lane| lane / 16 * 16 + 9,
    );
    assert_writes(
        "to[lane] = __ballot_sync(0xffffffffu, lane % 4 == 0);",
        |_| 0x1111_1111,
    );
    assert_writes(
        "to[lane] = __any_sync(0xffffffffu, lane == 40) + 2 * __all_sync(0xffffffffu, lane < 64);",
        |lane| [2, 3, 0, 0][lane as usize / 32],
    );
    let some = "to[lane] = lane;\nif (lane % 2) to[lane] = __shfl_xor_sync(0xaaaaaaaau, lane, 2);";
    assert_writes(some, |lane| if lane % 2 == 1 { lane ^ 2 } else { lane });
}

#[test]
fn shared_memory_is_poisoned_and_bounded() {
    assert_writes(
        "__shared__ unsigned shared[128];\nto[lane] = shared[lane];",
        |_| u32::MAX,
    );
    assert_fails(
        "__shared__ unsigned shared[4];\nunsigned* at = shared;\nat[lane & 7] = 1;",
        "after the last array",
    );
    assert_fails(
        "__shared__ unsigned shared[2048];\nshared[lane] = 1;",
        "there are 4096",
    );
}

#[test]
fn writes_beside_memory_are_found() {
    assert_fails("to[lane + 1] = lane;", "0 bytes after its end");
    assert_fails("to[int(lane) - 1] = lane;", "before it begins");
}

#[test]
fn long_stacks_are_found() {
    let deep = "volatile unsigned char deep[300000];\n\
                for (unsigned at = 0; at < 300000; at += 16) deep[at] = 1;\nto[lane] = deep[lane];";
    assert_fails(deep, "longer stack");
}

#[test]
fn halves_are_rounded_to_the_nearest() {
    let body = "\
unsigned wrong = 0;
for (unsigned bits = lane; bits < 0x7c00; bits += 128) {
    const float low = load_f16(bits), high = load_f16(bits + 1);
    const double tie = bits + 1 < 0x7c00 ? (double(low) + high) / 2 : 65520.0;
    wrong += store_f16(low) != bits || store_f16(-low) != (bits | 0x8000);
    wrong += store_f16(tie) != (bits % 2 ? bits + 1 : bits);
    wrong += store_f16(nextafter(tie, 0.0)) != bits || store_f16(nextafter(tie, 1e9)) != bits + 1;
}
to[lane] = wrong + (store_f16(1e300) != 0x7c00) + (load_f16(0x7e00) == load_f16(0x7e00));";
    assert_writes(body, |_| 0);
}

#[test]
fn atomics_change_and_return_the_old_value() {
    let body = "\
__shared__ unsigned total[1];
if (lane == 0) total[0] = 0;
__syncthreads();
const unsigned old = atomicAdd(&total[0], lane);
__syncthreads();
to[lane] = total[0] + (old > total[0]);";
    assert_writes(body, |_| 127 * 128 / 2);
    let body = "\
__shared__ float best[1];
if (lane == 0) best[0] = 0.5f;
__syncthreads();
atomicAdd(&best[0], 0.25f);
__syncthreads();
to[lane] = __float_as_uint(best[0]);";
    assert_writes(body, |_| 32.5f32.to_bits());
}

#[test]
fn what_machines_differ_in_is_found() {
    assert_fails("to[lane] = ((uint2*)(to + 1))->x;", "aligned");
    assert_fails(
        "float wide[4] = {};\nto[lane] = wide[lane];",
        "beyond its array in line 5",
    );
    assert_fails("to[lane] = 1u << lane;", "longer than its type");
    assert_fails("to[lane] = 12u / lane;", "by zero");
    assert_fails("to[lane] = int(3e9f + lane);", "too large");
}

/// Whether whole numbers come to the same on the host and where `right` is replaced by `wrong` in kernel text.
fn is_right(
    (dialect, lowering): (Dialect, Lowering),
    op: &Op<Tensor>,
    right: &'static str,
    wrong: &'static str,
) -> Option<bool> {
    let emulator = Emulator::or_skip()?.with_dialect(dialect);
    let mut emulator = emulator.with_lowering(lowering);
    emulator.broken = Some((right, wrong));
    let host = on_host(op).unwrap_or_else(|why| panic!("{why}"));
    Some(emulate(&emulator, op).is_ok_and(|written| written == host))
}

#[test]
fn broken_kernels_are_found() {
    let whole = |shape: &[usize]| Tensor::new(DType::F32, shape).uniform(3, -8.0, 8.0);
    let rounded = |tensor: Tensor| {
        let values: Vec<f64> = (0..97).map(|value| f64::from(value % 13 - 6)).collect();
        tensor.values(&values)
    };
    let product = Op::MatMul(MatMul {
        a: rounded(whole(&[70, 90])),
        b: rounded(whole(&[90, 80])),
        out: Tensor::new(DType::F32, &[70, 80]),
        bias: None,
        activation: Activation::None,
        alpha: 1.0,
    });
    let sum = Op::Reduce {
        kind: ReduceKind::Sum,
        src: rounded(whole(&[3, 5000])),
        dst: Tensor::new(DType::F32, &[3, 1]),
        axes: Axes::new(&[1]).expect("an axis"),
    };
    let copy = Op::Copy {
        src: whole(&[7, 33]),
        dst: Tensor::new(DType::F32, &[7, 33]),
    };
    let breaks = [
        (
            &product,
            "        BARRIER();\n        a_from",
            "        a_from",
        ),
        (&product, "        BARRIER();\n    }", "    }"),
        (&product, "tile_row < rows && tile_column < columns", "true"),
        (
            &sum,
            "if (lane % 32 == 0) shared[lane / 32] = value;\n    BARRIER();",
            "if (lane % 32 == 0) shared[lane / 32] = value;",
        ),
        (&sum, "distance = width / 2", "distance = width / 4"),
        (&copy, "y0 = x0;", "y0 = x0 + 1;"),
    ];
    for dialect in [Dialect::Cuda, Dialect::Metal] {
        for (op, right, wrong) in breaks {
            let is_right = |wrong| is_right((dialect, lower), op, right, wrong);
            let (Some(sound), Some(broken)) = (is_right(right), is_right(wrong)) else {
                return;
            };
            assert!(sound && !broken, "{right} as {wrong}: {sound}, {broken}");
        }
    }
}

#[test]
fn a_broken_product_of_matrices_is_found() {
    let whole = |shape: &[usize]| {
        let values: Vec<f64> = (0..97).map(|value| f64::from(value % 13 - 6)).collect();
        Tensor::new(DType::F32, shape).values(&values)
    };
    let op = Op::MatMul(MatMul {
        a: whole(&[70, 90]),
        b: whole(&[90, 80]),
        out: Tensor::new(DType::F32, &[70, 80]),
        bias: None,
        activation: Activation::None,
        alpha: 1.0,
    });
    let lowering: Lowering = lower_to_simdgroups;
    for (right, wrong) in [
        ("        BARRIER();\n        a_from", "        a_from"),
        ("        BARRIER();\n    }", "    }"),
        (
            "simdgroup_barrier(mem_flags::mem_threadgroup);\n        // All",
            "// All",
        ),
        ("0, !A_ALONG_K", "0, A_ALONG_K"),
        ("part_row + row * 8, depth", "part_row + row * 8, 0"),
        ("tile_row < rows && tile_column < columns", "true"),
    ] {
        let is_right = |wrong| is_right((Dialect::Metal, lowering), &op, right, wrong);
        let (Some(sound), Some(broken)) = (is_right(right), is_right(wrong)) else {
            return;
        };
        assert!(sound && !broken, "{right} as {wrong}: {sound}, {broken}");
    }
}
