//! Products of sizes wrap in a program as it is shipped: what a shape, a file or a request says is multiplied checked, or is known
//! to fit, because a layout with these sizes was made.

use super::lists::chain_start;
use super::{assert_none, sources};

/// The crates that multiply sizes of others.
const CRATES: [&str; 8] = [
    "crates/device/src/",
    "crates/tensor/src/",
    "crates/model/src/",
    "crates/batch/src/",
    "crates/host/src/",
    "crates/kernels/src/",
    "crates/cuda/src/",
    "crates/metal/src/",
];

/// Whose sizes are multiplied: any of a layout's, one or more of them, are at most `MAX_ELEMENTS`, whatever the others are. An
/// array's are what it was counted with.
const BOUNDED: [&str; 1] = ["shape()"];

/// Other factors, by the file and how they begin, and why their product fits.
const REASONS: [(&str, &str, &str); 41] = [
    ("device/src/layout.rs", "self.shape.iter()", LAYOUT),
    ("tensor/src/shape.rs", "from.iter()", LAYOUT),
    ("tensor/src/views.rs", "joined.iter()", LAYOUT),
    (
        "tensor/src/array/rows.rs",
        "self.shape[axis + 1..].iter()",
        "there are bytes, so the sizes are counted",
    ),
    ("ops/einsum.rs", "sizes.iter()", LAYOUT),
    ("ops/fourier.rs", "kept.iter()", LAYOUT),
    (
        "ops/fourier.rs",
        "shape.iter()",
        "as many as there are numbers",
    ),
    ("ops/grid.rs", "sizes.iter()", LAYOUT),
    ("ops/join.rs", "outer.iter()", LAYOUT),
    ("ops/join.rs", "inner.iter()", LAYOUT),
    ("ops/pool.rs", "spatial.iter()", LAYOUT),
    ("ops/rearrange.rs", "outer.iter()", LAYOUT),
    (
        "nn/weights.rs",
        "shape.iter().skip(1).map(|&size| size as f64)",
        "floats",
    ),
    ("nodes/layout.rs", "rows.iter()", LAYOUT),
    ("nodes/layout.rs", "columns.iter()", LAYOUT),
    ("nodes/pool.rs", "spatial(x)?.iter()", LAYOUT),
    ("nodes/pool.rs", "sizes[..axis].iter()", LAYOUT),
    ("model/src/testing.rs", "shape.iter()", "what a test draws"),
    (
        "trace/listing.rs",
        "self.shape.iter()",
        "a layout's, or an array's",
    ),
    (
        "conv/plan.rs",
        "axes.iter().map(|axis| axis.taps.len())",
        WEIGHT,
    ),
    ("conv/plan.rs", "outputs.iter()", LAYOUT),
    (
        "conv/weights.rs",
        "axes.iter().map(|axis| axis.taps.len())",
        WEIGHT,
    ),
    ("matmul/ready.rs", "shape[..shape.len() - 2].iter()", LAYOUT),
    ("kernels/norm.rs", "inner.iter()", LAYOUT),
    ("resize/passes.rs", "to[first..].iter()", LAYOUT),
    ("resize/passes.rs", "to[..first].iter()", LAYOUT),
    ("resize/passes.rs", "sizes.iter()", BETWEEN),
    ("resize/passes.rs", "sizes[..at].iter()", BETWEEN),
    ("resize/passes.rs", "sizes[at + 1..].iter()", BETWEEN),
    ("kernels/strided.rs", "shape.iter()", LAYOUT),
    ("map/plan.rs", "target.iter()", LAYOUT),
    ("elementwise/space.rs", "shape.iter()", LAYOUT),
    (
        "elementwise/space.rs",
        "self.sizes[..self.rank].iter()",
        LAYOUT,
    ),
    (
        "elementwise/transpose.rs",
        "(0..space.rank).map(parts)",
        "no more than elements",
    ),
    ("linalg/plan.rs", "batch.iter()", LAYOUT),
    ("matmul/problem.rs", "self.batch().iter()", LAYOUT),
    ("src/numbered.rs", "self.0.iter()", LAYOUT),
    (
        "kernels/src/rnn/mod.rs",
        "shape.iter()",
        "the weights of steps, otherwise arranged",
    ),
    ("rows/dims.rs", "self.as_slice().iter()", LAYOUT),
    ("rows/reduce/mod.rs", "inner()", LAYOUT),
    ("kernels/src/spatial.rs", "shape.iter()", LAYOUT),
];

/// They are some of the sizes of one layout, or all.
const LAYOUT: &str = "a layout's";
const WEIGHT: &str = "the taps of a weight, a layout's";
/// What shrinks is resized before what grows, so there are never more than before the first step or after the last.
const BETWEEN: &str = "a source's or a result's, or fewer";

/// The chains that end in a product, and at which byte of the code that is.
fn products(code: &str) -> Vec<(usize, &str)> {
    let found = code.match_indices(".product").filter(|(at, name)| {
        let next = &code[at + name.len()..];
        next.starts_with("()") || next.starts_with("::<")
    });
    let of = |(at, _)| (at, code[chain_start(&code[..at])..at].trim());
    found.map(of).collect()
}

#[test]
fn products_of_sizes_are_known_to_fit() {
    let (mut violations, mut used) = (Vec::new(), [false; REASONS.len()]);
    for source in sources("src") {
        let is_test = source.path.contains("/tests/");
        if is_test || !CRATES.iter().any(|folder| source.path.starts_with(folder)) {
            continue;
        }
        let shipped = source.shipped();
        let code: Vec<&str> = shipped.iter().map(|(_, line)| &*line.code).collect();
        let code = code.join("\n");
        for (at, factors) in products(&code) {
            let reason = REASONS.iter().position(|(file, known, _)| {
                source.path.ends_with(file) && factors.starts_with(known)
            });
            if let Some(reason) = reason {
                used[reason] = true;
            } else if !BOUNDED.iter().any(|known| factors.contains(known)) {
                let (number, _) = shipped[code[..at].matches('\n').count()];
                violations.push(format!("{}:{number}: {factors}", source.path));
            }
        }
    }
    for ((file, known, _), used) in REASONS.iter().zip(used) {
        if !used {
            violations.push(format!(
                "{file} multiplies no {known} any more: drop its reason"
            ));
        }
    }
    assert_none(
        "Multiply checked, through `Count` or `shape::elements`, or say in REASONS of this test why the product fits:",
        &violations,
    );
}

#[test]
fn what_is_multiplied_is_seen() {
    let of = |code| {
        let products = products(code).into_iter();
        products.map(|(_, factors)| factors).collect::<Vec<_>>()
    };
    assert_eq!(
        of("let all: usize = sizes[..axis]\n    .iter()\n    .product();"),
        ["sizes[..axis]\n    .iter()"]
    );
    assert_eq!(
        of("f(a.iter().product::<usize>(), b.product)"),
        ["a.iter()"]
    );
}
