//! Every kernel is text that its compiler takes: CUDA's is compiled to PTX, Metal's is read by clang.

#[path = "text/clang.rs"]
mod clang;
#[path = "text/nvrtc.rs"]
mod nvrtc;
#[path = "text/ops.rs"]
mod ops;
#[path = "text/sources.rs"]
mod sources;

use std::collections::HashSet;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use clang::Clang;
use nvrtc::Nvrtc;
use sources::kernels;
use streampool_device::{DType, Op};
use streampool_kernels::{Dialect, Kernel, Product, Rows, Source};

/// The texts of these kernels.
fn sources(ops: &[Op], dialect: Dialect) -> Vec<Source> {
    let kernels = kernels(ops, dialect).into_iter();
    kernels.map(|(_, source)| source).collect()
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

macro_rules! entries {
    ($($kind:pat => [$($entry:literal),* $(,)?],)*) => {
        /// All of them.
        const ENTRIES: &[&str] = &[$($($entry,)*)*];

        /// The entries that kernels of this kind have in Metal's dialect. A kind that is added does not compile here
        /// before it says which.
        fn entries(kernel: &Kernel) -> &'static [&'static str] {
            match kernel {
                $($kind => &[$($entry),*],)*
            }
        }
    };
}

entries! {
    Kernel::Nop => ["nop"],
    Kernel::Elementwise(_) => [
            "elementwise", "elementwise_transposed", "transpose", "elementwise_groups"
        ],
    Kernel::Rows(Rows::Reduce(_)) => ["reduce"],
    Kernel::Rows(Rows::Softmax(_)) => ["softmax"],
    Kernel::Rows(Rows::Norm(_)) => ["normalise"],
    Kernel::Product(Product::Tiled(_)) => ["product_tiled"],
    Kernel::Product(Product::Dots(_)) => ["product_dots"],
    Kernel::Product(Product::Sums(_)) => ["product_sums"],
    Kernel::Product(Product::Blocks(_)) => ["product_blocks"],
    Kernel::Product(Product::Split(_)) => [],
    Kernel::Product(Product::Warpgroup(_)) => [],
    Kernel::Product(Product::Fetched(_)) => [],
    Kernel::Product(Product::Short(_)) => [],
    Kernel::Attention(_) => [
            "attention_few",
            "attention_merge",
            "attention_tiles",
            "attention_matrices",
            "attention_blocks",
            "attention_single",
        ],
    Kernel::Rnn(_) => ["rnn_tiles", "rnn_matrices", "rnn_step", "rnn_sums"],
    Kernel::Conv(_) => ["conv_tiled", "conv_direct", "conv_channelwise"],
    Kernel::Pool(_) => ["pool"],
    Kernel::Resize(_) => ["resize"],
    Kernel::Regions(_) => ["regions"],
    Kernel::Index(_) => ["gather", "scatter"],
    Kernel::Scan(_) => ["scan"],
    Kernel::Sort(_) => ["sort_blocks_of_lines", "merge_runs"],
    Kernel::Tally(_) => ["clear_bins", "add_to_bins", "add_up_bins", "count_nonzero", "nonzero"],
    Kernel::Trees(_) => ["walk_trees", "combine_leaves"],
    Kernel::Random(_) => ["random"],
    Kernel::Linalg(_) => [
        "linalg_prepare", "linalg_panel", "linalg_lu", "linalg_cholesky", "linalg_solve", "linalg_update"
    ],
}

/// So `metal_text_is_read` is about each of them.
#[test]
fn every_kind_of_kernel_is_made_for_some_op() {
    let mut missing: HashSet<&str> = ENTRIES.iter().copied().collect();
    for (kernel, source) in kernels(&ops::all(), Dialect::Metal) {
        let known = entries(&kernel);
        assert!(
            known.contains(&source.entry),
            "{} is not listed",
            source.entry
        );
        missing.remove(source.entry);
    }
    assert!(missing.is_empty(), "{missing:?} are made for no op");
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

/// The same of a product by simdgroup matrices.
const MATRIX_BREAKS: [(&str, &str); 5] = [
    ("#include <metal_simdgroup_matrix>", ""),
    ("matrix<f32, 8, 8> sums", "matrix<f32, 4, 4> sums"),
    (
        "simdgroup_load(a_parts[row], a_tile",
        "simdgroup_load(a_parts[row], a",
    ),
    ("simdgroup_store(sums[", "simdgroup_store(&sums["),
    (
        "SHARED f32* const strip = (SHARED f32*)",
        "PRIVATE f32* const strip = (PRIVATE f32*)",
    ),
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
    let copy = a_copy(Dialect::Metal);
    let product = a_product_of_matrices();
    let breaks = BREAKS.map(|of_copy| (&copy, of_copy)).into_iter();
    for (source, (right, wrong)) in
        breaks.chain(MATRIX_BREAKS.map(|of_product| (&product, of_product)))
    {
        clang.check(source).expect("the kernel is right");
        let text = source.text.replacen(right, wrong, 1);
        assert_ne!(text, source.text, "there is {right}");
        let entry = source.entry;
        assert!(
            clang.check(&changed(entry, text)).is_err(),
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
    let code = String::from_utf8_lossy(&code);
    assert!(code.contains(".target sm_90"), "{code}");
    let text = source.text.replacen("y0 = x0;", "y0 = x1;", 1);
    let entry = source.entry;
    let log = nvrtc
        .compile(&changed(entry, text))
        .expect_err("there is no x1");
    assert!(log.contains("x1"), "{log}");
}

fn changed(entry: &'static str, text: String) -> Source {
    Source {
        entry,
        text,
        brought: 0,
    }
}

/// The kernel that copies floats.
fn a_copy(dialect: Dialect) -> Source {
    let copies = ops::all().into_iter().filter(|op| match op {
        Op::Copy { src, dst } => (src.dtype(), dst.dtype()) == (DType::F32, DType::F32),
        _ => false,
    });
    sources(&copies.collect::<Vec<_>>(), dialect).swap_remove(0)
}

/// A product by simdgroup matrices of halves.
fn a_product_of_matrices() -> Source {
    let products = ops::all().into_iter().filter(|op| match op {
        Op::MatMul(op) => op.a.dtype() == DType::F16,
        _ => false,
    });
    let sources = sources(&products.collect::<Vec<_>>(), Dialect::Metal);
    let product = sources
        .into_iter()
        .find(|source| source.entry == "product_blocks");
    product.expect("there are large ones")
}
