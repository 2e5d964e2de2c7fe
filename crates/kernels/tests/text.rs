//! Every kernel is text that its compiler takes: CUDA's is compiled to machine code, Metal's is read by clang.

#[path = "text/clang.rs"]
mod clang;
#[path = "text/nvrtc.rs"]
mod nvrtc;
#[path = "text/ops.rs"]
mod ops;

use std::collections::HashSet;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use clang::Clang;
use nvrtc::Nvrtc;
use streampool_device::{Combine, DType, Op};
use streampool_kernels::{Dialect, Kernel, Limits, Plan, Source, lower, split_product};

/// A large GPU and a small one. Which it is makes a difference for no element type that it does not make for `f32`, so
/// where compiling takes long, other types are left out for the small one.
const LIMITS: [Limits; 2] = [
    Limits {
        compute_units: 132,
        shared_bytes: 48 * 1024,
        buffers: 480,
    },
    Limits {
        compute_units: 8,
        shared_bytes: 32 * 1024,
        buffers: 30,
    },
];

/// What an Apple GPU has.
const APPLE: Limits = LIMITS[1];

/// The texts of the kernels that `ops` are made of, each once.
fn sources(ops: &[Op], dialect: Dialect) -> Vec<Source> {
    let mut known: HashSet<Kernel> = HashSet::new();
    let mut sources = Vec::new();
    for op in ops {
        let (mut doubles, mut singles) = (false, true);
        // Metal changes at most 32 bits at once.
        let lacking = match op {
            Op::Scatter(op) => op.combine != Combine::Replace && op.dst.dtype().size() == 8,
            Op::Map { expr, .. } => expr.nodes().iter().any(|(_, dtype)| *dtype == DType::F64),
            _ => false,
        };
        op.for_each_operand(|_, _, view| {
            doubles |= view.dtype() == DType::F64;
            singles &= view.dtype() == DType::F32;
        });
        let metal = dialect == Dialect::Metal;
        for limits in &LIMITS[..1 + usize::from(singles || metal)] {
            let limits = match dialect {
                Dialect::Cuda => limits,
                Dialect::Metal => &Limits {
                    compute_units: limits.compute_units,
                    ..APPLE
                },
            };
            let plan = lower(op, limits).unwrap_or_else(|| panic!("there is no kernel for {op:?}"));
            let split = match (op, dialect) {
                (Op::MatMul(op), Dialect::Cuda) => split_product(op, limits).unwrap_or_default(),
                _ => Plan::default(),
            };
            for dispatch in plan.dispatches.into_iter().chain(split.dispatches) {
                if !known.insert(dispatch.kernel.clone()) {
                    continue;
                }
                let source = dispatch.kernel.source(dialect);
                assert!(
                    source.is_some() || (doubles || lacking) && metal,
                    "{op:?} has no text"
                );
                sources.extend(source);
            }
        }
    }
    sources
}

/// Compiles each source on as many threads as there are processors.
fn compile_all<T>(sources: &[Source], compile: impl Fn(&Source) -> Result<T, String> + Sync) {
    let next = AtomicUsize::new(0);
    let failures = Mutex::new(Vec::new());
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                while let Some(source) = sources.get(next.fetch_add(1, Ordering::Relaxed)) {
                    if let Err(log) = compile(source) {
                        let mut failures = failures.lock().expect("no thread panics with it");
                        failures.push(format!("{}\n{log}", source.text));
                    }
                }
            });
        }
    });
    let failures = failures.into_inner().expect("no thread panics with it");
    if let Some(first) = failures.first() {
        panic!(
            "{} of {} kernels do not compile; the first:\n{first}",
            failures.len(),
            sources.len()
        );
    }
}

#[test]
#[cfg_attr(
    any(sanitize_address, sanitize_thread),
    ignore = "runs the compilers of others, which leak"
)]
fn cuda_text_compiles() {
    let nvrtc = match Nvrtc::installed() {
        Ok(nvrtc) => nvrtc,
        Err(why) => return println!("skipped: {why}"),
    };
    let sources = sources(&ops::all(), Dialect::Cuda);
    compile_all(&sources, |source| nvrtc.compile(source));
}

#[test]
#[cfg_attr(
    any(sanitize_address, sanitize_thread),
    ignore = "runs the compilers of others, which leak"
)]
fn metal_text_is_read() {
    let clang = match Clang::installed() {
        Ok(clang) => clang,
        Err(why) => return println!("skipped: {why}"),
    };
    let sources = sources(&[ops::all(), ops::drawn()].concat(), Dialect::Metal);
    compile_all(&sources, |source| clang.check(source));
}

/// What is right about a kernel, and a way to break it.
const BREAKS: [(&str, &str); 5] = [
    (
        "load_pack(const device T* from)",
        "load_pack(const T* from)",
    ),
    ("PRIVATE u32& y0", "GLOBAL u32& y0"),
    ("UNROLL for", "double wrong = 1.0; for"),
    ("y0 = x0;", "y0 = x1;"),
    ("load_pack<4>(in0", "load_pack<4>(p"),
];

#[test]
#[cfg_attr(
    any(sanitize_address, sanitize_thread),
    ignore = "runs the compilers of others, which leak"
)]
fn wrong_metal_text_is_refused() {
    let clang = match Clang::installed() {
        Ok(clang) => clang,
        Err(why) => return println!("skipped: {why}"),
    };
    let source = a_copy(Dialect::Metal);
    clang.check(&source).expect("the kernel is right");
    for (right, wrong) in BREAKS {
        let text = source.text.replacen(right, wrong, 1);
        assert_ne!(text, source.text, "there is {right}");
        let entry = source.entry;
        assert!(
            clang.check(&Source { entry, text }).is_err(),
            "{wrong} is accepted"
        );
    }
}

#[test]
#[cfg_attr(
    any(sanitize_address, sanitize_thread),
    ignore = "runs the compilers of others, which leak"
)]
fn wrong_cuda_text_is_refused_with_a_log() {
    let nvrtc = match Nvrtc::installed() {
        Ok(nvrtc) => nvrtc,
        Err(why) => return println!("skipped: {why}"),
    };
    let source = a_copy(Dialect::Cuda);
    let code = nvrtc.compile(&source).expect("the kernel is right");
    assert!(code.starts_with(b"\x7fELF"));
    let text = source.text.replacen("y0 = x0;", "y0 = x1;", 1);
    let entry = source.entry;
    let log = nvrtc
        .compile(&Source { entry, text })
        .expect_err("there is no x1");
    assert!(log.contains("x1"), "{log}");
}

/// The kernel that copies floats.
fn a_copy(dialect: Dialect) -> Source {
    let copies = ops::all().into_iter().filter(|op| match op {
        Op::Copy { src, dst } => (src.dtype(), dst.dtype()) == (DType::F32, DType::F32),
        _ => false,
    });
    sources(&copies.collect::<Vec<_>>(), dialect).swap_remove(0)
}
