//! Which kernel a product becomes, in how many groups and with which parameters.

use streampool_device::{Activation, DType, Layout, MatMul, Op, Span, View};

use super::{
    Product, matmul, product_of_many, simdgroup_product, small_product, tensor_core_product,
    warpgroup_product,
};
use crate::text::{Dialect, Field};
use crate::{Dispatch, Kernel, Limits, MAP_BYTES, Operand, TensorMap};

const LARGE_GPU: Limits = Limits {
    compute_units: 132,
    shared_bytes: 48 << 10,
    buffers: 480,
};
const A: u64 = 1;
const B: u64 = 2;
const OUT: u64 = 3;
const BIAS: u64 = 4;

fn view(handle: u64, dtype: DType, layout: Layout) -> View {
    let last = layout.extent().map_or(-1, |(_, last)| last);
    let span = Span {
        handle,
        offset: 0,
        bytes: (last + 1) as usize * dtype.size(),
    };
    View::new(span, dtype, layout).unwrap()
}

fn row_major(shape: &[usize]) -> Layout {
    Layout::contiguous(shape).unwrap()
}

/// The matrix `[columns, rows]` in memory, seen as `[rows, columns]`.
fn turned([rows, columns]: [usize; 2]) -> Layout {
    row_major(&[columns, rows]).permute(&[1, 0]).unwrap()
}

fn product(dtype: DType, [a, b, out]: [Layout; 3]) -> MatMul {
    let result = if dtype.is_float() { dtype } else { DType::I32 };
    let op = MatMul {
        a: view(A, dtype, a),
        b: view(B, dtype, b),
        out: view(OUT, result, out),
        bias: None,
        activation: Activation::None,
        alpha: 1.0,
    };
    Op::MatMul(op).validate().unwrap();
    op
}

/// `[m, k]` by weights `[n, k]`, as a linear layer has them.
fn linear(dtype: DType, [m, k, n]: [usize; 3]) -> MatMul {
    product(
        dtype,
        [row_major(&[m, k]), turned([k, n]), row_major(&[m, n])],
    )
}

fn plain(dtype: DType, [m, k, n]: [usize; 3]) -> MatMul {
    product(
        dtype,
        [[m, k], [k, n], [m, n]].map(|shape| row_major(&shape)),
    )
}

fn only(op: &MatMul) -> Box<Dispatch> {
    let mut plan = matmul(op, &LARGE_GPU);
    assert_eq!((plan.dispatches.len(), plan.scratch), (1, 0));
    plan.dispatches.remove(0)
}

fn form(dispatch: &Dispatch) -> Product {
    match dispatch.kernel {
        Kernel::Product(product) => product,
        _ => panic!("{:?} is no product", dispatch.kernel),
    }
}

fn entry(op: &MatMul) -> &'static str {
    form(&only(op)).text(Dialect::Cuda).unwrap().entry
}

/// The value of a parameter, by its name.
fn parameter(dispatch: &Dispatch, name: &str) -> i64 {
    let bytes = dispatch.params.as_bytes();
    let mut at = 0usize;
    for field in form(dispatch).text(Dialect::Cuda).unwrap().params {
        let size = if matches!(field.ty, "i64" | "f64") {
            8
        } else {
            4
        };
        at = at.next_multiple_of(size);
        if field.name == name {
            let mut value = [0u8; 8];
            value[..size].copy_from_slice(&bytes[at..at + size]);
            return i64::from_le_bytes(value);
        }
        at += size;
    }
    panic!("no parameter is named {name}");
}

/// What so many parameters take.
fn bytes(fields: &[Field]) -> usize {
    let end = fields.iter().fold(0usize, |at, field| {
        let (size, alignment) = match field.ty {
            "i64" | "f64" => (8, 8),
            "TensorMap" => (MAP_BYTES, 64),
            _ => (4, 4),
        };
        at.next_multiple_of(alignment) + size
    });
    end.next_multiple_of(8)
}

/// The value of a constant in the text.
fn constant(dispatch: &Dispatch, name: &str) -> u32 {
    let text = form(dispatch).text(Dialect::Cuda).unwrap().functions;
    let definition = format!("#define {name} ");
    let line = text.lines().find_map(|line| line.strip_prefix(&definition));
    line.unwrap().trim_end_matches('u').parse().unwrap()
}

#[test]
fn nothing_is_launched_for_nothing() {
    for shape in [[0, 3, 2], [3, 2, 0], [0, 0, 0]] {
        assert!(
            matmul::<Kernel>(&plain(DType::F32, shape), &LARGE_GPU)
                .dispatches
                .is_empty()
        );
        assert!(small_product::<Kernel>(&plain(DType::F32, shape), &LARGE_GPU).is_none());
    }
    // An empty sum is a result.
    let dispatch = only(&plain(DType::F32, [3, 0, 2]));
    assert!(matches!(form(&dispatch), Product::Tiled(_)));
    assert_eq!(parameter(&dispatch, "k"), 0);
}

#[test]
fn the_form_follows_the_order_of_the_weights() {
    assert_eq!(entry(&linear(DType::F32, [4, 256, 128])), "product_dots");
    assert_eq!(entry(&plain(DType::F32, [4, 256, 128])), "product_sums");
    assert_eq!(entry(&plain(DType::F32, [17, 256, 128])), "product_tiled");
    assert_eq!(entry(&linear(DType::F64, [4, 256, 128])), "product_tiled");
    assert_eq!(entry(&linear(DType::I8, [4, 256, 128])), "product_tiled");
}

#[test]
fn small_layers_are_spread_over_the_device() {
    let dispatch = only(&linear(DType::F32, [4, 256, 128]));
    assert_eq!((dispatch.groups, dispatch.threads), ([128, 1, 1], 32));
    assert_eq!(
        (constant(&dispatch, "ROWS"), constant(&dispatch, "WIDTH")),
        (4, 4)
    );

    let dispatch = only(&linear(DType::F32, [1, 1024, 1024]));
    assert_eq!((dispatch.groups, dispatch.threads), ([128, 1, 1], 256));
    // All of a column is under way at once.
    assert_eq!(
        constant(&dispatch, "TURNS") * 32 * constant(&dispatch, "WIDTH"),
        1024
    );

    let dispatch = only(&plain(DType::F32, [1, 1024, 1024]));
    assert_eq!((dispatch.groups, dispatch.threads), ([128, 1, 1], 256));
}

#[test]
fn loads_are_as_wide_as_the_alignment_allows() {
    let width = |op: &MatMul| constant(&only(op), "WIDTH");
    assert_eq!(width(&linear(DType::BF16, [2, 64, 8])), 8);
    assert_eq!(width(&linear(DType::BF16, [2, 68, 8])), 4);
    assert_eq!(width(&linear(DType::F32, [2, 65, 8])), 1);
    // Along the columns of the result it is their number that counts.
    assert_eq!(width(&plain(DType::F32, [2, 65, 8])), 4);
    assert_eq!(width(&plain(DType::F32, [2, 64, 6])), 2);
    let mut op = linear(DType::F32, [2, 64, 8]);
    let shifted = Layout::strided(&[2, 64], &[64, 1], 2).unwrap();
    op.a = view(A, DType::F32, shifted);
    assert_eq!(width(&op), 2);
}

#[test]
fn matrices_that_share_weights_are_rows() {
    let op = product(
        DType::F32,
        [
            row_major(&[2, 3, 64]),
            turned([64, 40]),
            row_major(&[2, 3, 40]),
        ],
    );
    let dispatch = only(&op);
    assert_eq!((parameter(&dispatch, "m"), dispatch.groups[1]), (6, 1));
    // Without a bias that differs between them, that is.
    let bias = view(BIAS, DType::F32, row_major(&[2, 1, 40]));
    let dispatch = only(&MatMul {
        bias: Some(bias),
        ..op
    });
    assert_eq!((parameter(&dispatch, "m"), dispatch.groups[1]), (3, 2));
    assert_eq!(parameter(&dispatch, "bias_batch"), 40);
    // One row each: the distance between matrices is that between rows.
    let apart = Layout::strided(&[5, 1, 64], &[100, 64, 1], 0).unwrap();
    let op = product(
        DType::F32,
        [apart, turned([64, 40]), row_major(&[5, 1, 40])],
    );
    let dispatch = only(&op);
    assert_eq!(
        (parameter(&dispatch, "m"), parameter(&dispatch, "a_row")),
        (5, 100)
    );
}

#[test]
fn few_columns_are_computed_as_few_rows() {
    let dispatch = only(&plain(DType::F32, [1000, 64, 1]));
    let handles = dispatch.operands.iter().map(|operand| match operand {
        Operand::Memory(span) => span.handle,
        Operand::Scratch(_) => panic!("it needs no scratch"),
    });
    assert!(handles.eq([B, A, OUT]));
    assert_eq!(
        (parameter(&dispatch, "m"), parameter(&dispatch, "n")),
        (1, 1000)
    );
    assert_eq!(parameter(&dispatch, "out_column"), 1);
    assert!(matches!(form(&dispatch), Product::Dots(_)));
}

#[test]
fn results_are_written_along_their_dense_dimension() {
    let op = product(
        DType::F64,
        [row_major(&[40, 50]), row_major(&[50, 70]), turned([40, 70])],
    );
    let dispatch = only(&op);
    assert_eq!(
        (parameter(&dispatch, "m"), parameter(&dispatch, "n")),
        (70, 40)
    );
    assert_eq!(parameter(&dispatch, "out_column"), 1);
    assert_eq!(
        (
            constant(&dispatch, "A_ALONG_K"),
            constant(&dispatch, "B_ALONG_K")
        ),
        (0, 1)
    );
}

#[test]
fn tiles_grow_with_the_product() {
    let groups = |shape| only(&plain(DType::F32, shape)).groups;
    assert_eq!(groups([2048, 64, 2048]), [256, 1, 1]);
    assert_eq!(groups([1024, 64, 1024]), [256, 1, 1]);
    assert_eq!(groups([300, 64, 300]), [100, 1, 1]);
    assert_eq!(groups([17, 64, 17]), [1, 1, 1]);
}

#[test]
fn any_number_of_matrices_fits_the_grid() {
    let cubes = [[70_000, 2, 3], [70_000, 3, 2], [70_000, 2, 2]].map(|shape| row_major(&shape));
    let dispatch = only(&product(DType::F64, cubes));
    assert_eq!(dispatch.groups, [1, 65_535, 2]);
    assert_eq!(parameter(&dispatch, "matrices"), 70_000);
}

#[test]
fn batch_dimensions_collapse_where_all_agree() {
    let whole = product(
        DType::F64,
        [[2, 3, 4, 5, 6], [2, 3, 4, 6, 7], [2, 3, 4, 5, 7]].map(|shape| row_major(&shape)),
    );
    assert_eq!(parameter(&only(&whole), "size_0"), 24);

    let sizes = [2, 3, 2, 3, 2, 3];
    let shape = |last: [usize; 2]| [&sizes[..], &last].concat();
    // Every second dimension repeats in one operand or the other, so that none agrees with the next.
    let mut narrow = shape([5, 6]);
    (0..6).step_by(2).for_each(|axis| narrow[axis] = 1);
    let mixed = product(
        DType::F64,
        [narrow, shape([6, 7]), shape([5, 7])].map(|shape| row_major(&shape)),
    );
    let dispatch = only(&mixed);
    let found = [0, 1, 2, 3, 4, 5].map(|axis| parameter(&dispatch, &format!("size_{axis}")));
    assert_eq!(found, sizes.map(|size| size as i64));
    assert_eq!(parameter(&dispatch, "a_batch_4"), 0);
    assert_eq!(parameter(&dispatch, "a_batch_3"), 3 * 30);
}

#[test]
fn a_library_is_left_what_it_is_better_at() {
    let ours = |op: MatMul| small_product::<Kernel>(&op, &LARGE_GPU).is_some();
    assert!(ours(linear(DType::F32, [4, 256, 128])));
    assert!(ours(linear(DType::BF16, [1, 4096, 4096])));
    assert!(ours(plain(DType::F32, [1, 1024, 1024])));
    // Matrix units, long sums for few groups, many rows.
    assert!(!ours(linear(DType::BF16, [16, 4096, 4096])));
    assert!(!ours(linear(DType::F32, [1, 1 << 20, 1])));
    assert!(!ours(linear(DType::F32, [64, 256, 128])));
    // Without a library they are ours, but for the last.
    assert_eq!(
        entry(&linear(DType::BF16, [16, 4096, 4096])),
        "product_dots"
    );
}

#[test]
fn parameters_fill_what_the_text_declares() {
    let bias = |op: MatMul| MatMul {
        bias: Some(view(BIAS, op.out.dtype(), row_major(&[1]))),
        ..op
    };
    let three = |dtype| {
        product(
            dtype,
            [[3, 40, 5], [3, 5, 30], [3, 40, 30]].map(|shape| row_major(&shape)),
        )
    };
    for op in [
        linear(DType::F32, [4, 256, 128]),
        bias(plain(DType::F16, [4, 256, 128])),
        three(DType::F64),
        bias(three(DType::F64)),
        bias(three(DType::I8)),
        three(DType::BF16),
    ] {
        let dispatch = only(&op);
        let text = form(&dispatch).text(Dialect::Cuda).unwrap();
        assert_eq!(dispatch.params.as_bytes().len(), bytes(&text.params));
        assert_eq!(dispatch.operands.len(), text.buffers.len());
        assert_eq!(text.threads, Some(dispatch.threads));
    }
}

#[test]
fn metal_has_all_but_doubles() {
    let text = |dtype| form(&only(&plain(dtype, [20, 20, 20]))).text(Dialect::Metal);
    assert!(text(DType::F64).is_none());
    for dtype in [DType::F32, DType::F16, DType::BF16, DType::I8, DType::U8] {
        let text = text(dtype).unwrap();
        assert!(!text.functions.contains("f64") && !text.body.contains("f64"));
        let rendered = text.render(Dialect::Metal).text;
        assert!(rendered.contains("kernel void product_tiled("));
    }
}

#[test]
fn equal_text_is_one_kernel() {
    let kernel = |shape| only(&linear(DType::F32, shape)).kernel;
    assert_eq!(kernel([3, 256, 128]), kernel([4, 256, 129]));
    assert_ne!(kernel([1, 256, 128]), kernel([4, 256, 128]));
    let mut op = linear(DType::F32, [4, 256, 128]);
    let before = only(&op).kernel;
    op.alpha = 0.5;
    assert_eq!(only(&op).kernel, before);
    op.activation = Activation::Relu;
    assert_ne!(only(&op).kernel, before);
}

/// The launch by simdgroup matrices, as on an Apple GPU.
fn by_matrices(op: &MatMul) -> Option<Box<Dispatch>> {
    let limits = Limits {
        compute_units: 16,
        shared_bytes: 32 << 10,
        buffers: 30,
    };
    let mut plan = simdgroup_product(op, &limits)?;
    assert_eq!((plan.dispatches.len(), plan.scratch), (1, 0));
    Some(plan.dispatches.remove(0))
}

#[test]
fn simdgroups_multiply_what_fills_their_matrices() {
    let taken = |op: MatMul| by_matrices(&op).is_some();
    for dtype in [DType::F32, DType::F16, DType::BF16] {
        assert!(taken(plain(dtype, [17, 16, 17])));
        assert!(taken(linear(dtype, [1024, 1024, 1024])));
    }
    // Few rows or columns, short sums, other types, nothing.
    assert!(!taken(linear(DType::F32, [16, 64, 64])));
    assert!(!taken(plain(DType::F32, [64, 64, 16])));
    assert!(!taken(plain(DType::F16, [64, 15, 64])));
    assert!(!taken(plain(DType::F64, [64, 64, 64])));
    assert!(!taken(plain(DType::I8, [64, 64, 64])));
    assert!(!taken(plain(DType::F32, [64, 0, 64])));
    assert!(!taken(plain(DType::F32, [0, 64, 64])));
}

#[test]
fn matrices_of_simdgroups_are_words_of_metal_only() {
    for (dtype, factor) in [
        (DType::F32, "f32"),
        (DType::F16, "half"),
        (DType::BF16, "bfloat"),
    ] {
        let product = form(&by_matrices(&linear(dtype, [100, 64, 100])).unwrap());
        assert!(product.text(Dialect::Cuda).is_none());
        let text = product.text(Dialect::Metal).unwrap();
        let bytes = text.shared[0].length * 16;
        assert!(bytes <= 16 << 10, "{bytes} bytes leave no room for others");
        let rendered = text.render(Dialect::Metal).text;
        let factors = format!("typedef {factor} Factor;");
        for part in [
            "kernel void product_blocks(",
            "#include <metal_simdgroup_matrix>",
            &factors,
        ] {
            assert!(rendered.contains(part), "{part}");
        }
    }
}

#[test]
fn tiles_of_matrices_grow_with_the_product() {
    let groups = |shape| by_matrices(&plain(DType::F32, shape)).unwrap().groups;
    assert_eq!(groups([1024, 64, 1024]), [256, 1, 1]);
    assert_eq!(groups([256, 64, 256]), [16, 1, 1]);
    assert_eq!(groups([255, 64, 128]), [32, 1, 1]);
    assert_eq!(groups([32, 64, 4096]), [128, 1, 1]);
}

#[test]
fn parameters_of_matrices_fill_what_the_text_declares() {
    let turned_out = product(
        DType::F32,
        [row_major(&[40, 50]), row_major(&[50, 70]), turned([40, 70])],
    );
    let batch = product(
        DType::F16,
        [[3, 40, 20], [3, 20, 30], [3, 40, 30]].map(|shape| row_major(&shape)),
    );
    for op in [turned_out, batch] {
        let bias = Some(view(BIAS, op.out.dtype(), row_major(&[1])));
        for op in [op, MatMul { bias, ..op }] {
            let dispatch = by_matrices(&op).unwrap();
            let text = form(&dispatch).text(Dialect::Metal).unwrap();
            assert_eq!(dispatch.params.as_bytes().len(), bytes(&text.params));
            assert_eq!(dispatch.operands.len(), text.buffers.len());
            assert_eq!(text.threads, Some(dispatch.threads));
        }
    }
}

#[test]
fn tiles_of_short_floats_leave_no_large_gpu_idle() {
    let groups = |shape| {
        let op = linear(DType::F16, shape);
        let plan = tensor_core_product::<Kernel>(&op, &LARGE_GPU)?;
        let text = form(&plan.dispatches[0]).text(Dialect::Cuda).unwrap();
        let words = text.shared[0].length * 16;
        assert!(words <= 48 << 10, "{shape:?}: {words} bytes");
        Some(plan.dispatches[0].groups[0])
    };
    // 32 x 32, 32 x 64, 64 x 64, and a library's.
    assert_eq!(groups([128, 384, 384]), Some(48));
    assert_eq!(groups([128, 384, 1152]), Some(72));
    assert_eq!(groups([197, 768, 2304]), Some(144));
    assert_eq!(groups([1024, 384, 1536]), None);
    // So many terms are divided.
    assert_eq!(groups([197, 3072, 768]), Some(168));
}

#[test]
fn tiles_of_one_of_many_streams_are_larger() {
    let groups = |shape| {
        let op = linear(DType::F16, shape);
        let plan = product_of_many::<Kernel>(&op, &LARGE_GPU)?;
        let text = form(&plan.dispatches[0]).text(Dialect::Cuda).unwrap();
        let words = text.shared[0].length * 16;
        assert!(words <= 48 << 10, "{shape:?}: {words} bytes");
        Some((plan.dispatches[0].groups[0], plan.dispatches[0].threads))
    };
    assert_eq!(groups([128, 384, 384]), Some((6, 256)));
    assert_eq!(groups([100, 3072, 768]), Some((12, 256)));
    assert_eq!(groups([256, 768, 2304]), Some((72, 256)));
    // More rows would be empty, or columns; or it is a library's.
    assert_eq!(groups([197, 768, 2304]), None);
    assert_eq!(groups([32, 384, 1152]), None);
    assert_eq!(groups([128, 384, 40]), None);
    assert_eq!(groups([1024, 384, 1536]), None);
}

#[test]
fn tensor_maps_say_where_factors_lie() {
    // Three matrices of 70 lines of 72, each line 80 apart, and weights that they share.
    let a = Layout::strided(&[3, 70, 72], &[70 * 80, 80, 1], 16).unwrap();
    let b = row_major(&[72, 96]);
    let out = Layout::strided(&[3, 70, 96], &[96, 288, 1], 0).unwrap();
    let op = product(DType::BF16, [a, b, out]);
    let plan = warpgroup_product::<Kernel>(&op, &LARGE_GPU, false).unwrap();
    let [launch] = &plan.dispatches[..] else {
        panic!("{plan:?}");
    };
    let map = |operand, offset, sizes, strides, tile| TensorMap {
        operand,
        offset,
        dtype: DType::BF16,
        sizes,
        strides,
        tile,
    };
    let expected = [
        map(0, 32, [72, 70, 3], [160, 70 * 160], [64, 64]),
        map(1, 0, [96, 72, 1], [192, 192], [32, 64]),
    ];
    assert_eq!(launch.params.maps(), expected);
    let declared = form(launch).text(Dialect::Cuda).unwrap().params;
    assert_eq!(launch.params.as_bytes().len(), bytes(&declared));
    let (maps, fields) = launch.params.as_bytes().split_at(2 * MAP_BYTES);
    assert!(maps.iter().all(|&byte| byte == 0));
    assert_eq!(fields[..8], 16i64.to_le_bytes());
    // Lines that overlap, or begin anywhere, are left to others.
    for (row, offset) in [(64, 0), (80, 4), (76, 0)] {
        let a = Layout::strided(&[70, 72], &[row, 1], offset).unwrap();
        let op = product(DType::BF16, [a, row_major(&[72, 96]), row_major(&[70, 96])]);
        assert!(warpgroup_product::<Kernel>(&op, &LARGE_GPU, false).is_none());
    }
}
