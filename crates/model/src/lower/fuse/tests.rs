//! Listings before and after.

use rustc_hash::FxHashMap;

use streampool_device::{Attention, NormKind};

use super::*;
use crate::lower::testing::whole;
use crate::trace::{Made, Memory, Outcome, TensorKind};

const SHAPE: [usize; 2] = [4, 8];

fn unary(function: Unary, from: u64, to: u64) -> ListedOp {
    unary_of(function, &SHAPE, from, to)
}

fn unary_of(function: Unary, shape: &[usize], from: u64, to: u64) -> ListedOp {
    let op = Op::Map {
        expr: Arc::new(Expr::unary(function, DType::F32).unwrap()),
        inputs: vec![whole(from, shape)],
        outputs: vec![whole(to, shape)],
    };
    ListedOp::new(op, 0)
}

fn binary(a: u64, b: u64, to: u64) -> ListedOp {
    let op = Op::Map {
        expr: Arc::new(Expr::binary(streampool_device::Binary::Add, DType::F32).unwrap()),
        inputs: vec![whole(a, &SHAPE), whole(b, &SHAPE)],
        outputs: vec![whole(to, &SHAPE)],
    };
    ListedOp::new(op, 0)
}

fn listing(steps: Vec<ListedOp>, output: u64, shape: &[usize]) -> Listing {
    let mut graph = crate::graph::Graph::default();
    let id = graph.add_value(crate::graph::ValueInfo::default());
    let made = Made {
        memory: Memory::of(whole(output, shape).span()),
        kind: TensorKind {
            dtype: DType::F32,
            shape: shape.to_vec(),
        },
    };
    Listing {
        steps,
        sources: FxHashMap::default(),
        outputs: vec![(id, Outcome::Tensor(made))],
    }
}

#[test]
fn a_chain_becomes_one_op_that_reads_each_input_once() {
    let steps = vec![
        unary(Unary::Exp, 1, 2),
        binary(2, 1, 3),
        unary(Unary::Tanh, 3, 4),
    ];
    let mut chain = listing(steps, 4, &SHAPE);
    assert_eq!(fuse(&mut chain), Fused { maps: 2, copies: 0 });
    let [ListedOp { op, .. }] = &chain.steps[..] else {
        panic!("{:?}", chain.steps)
    };
    let map = Map::of(op).unwrap();
    assert_eq!(map.inputs, [whole(1, &SHAPE)]);
    assert_eq!(map.outputs, [whole(4, &SHAPE)]);
    assert_eq!(map.expr.nodes().len(), 4);
}

#[test]
fn what_is_read_twice_by_one_op_in_the_end_is_joined_too() {
    let steps = vec![
        unary(Unary::Exp, 1, 2),
        unary(Unary::Tanh, 2, 3),
        binary(2, 3, 4),
    ];
    let mut diamond = listing(steps, 4, &SHAPE);
    assert_eq!(fuse(&mut diamond), Fused { maps: 2, copies: 0 });
    assert_eq!(diamond.steps.len(), 1);
}

#[test]
fn what_others_read_stays() {
    let flat = Op::Copy {
        src: whole(2, &[32]),
        dst: whole(5, &[32]),
    };
    let by_two = vec![
        unary(Unary::Exp, 1, 2),
        unary(Unary::Tanh, 2, 3),
        ListedOp::new(flat, 0),
    ];
    let by_the_caller = vec![unary(Unary::Exp, 1, 2), unary(Unary::Tanh, 2, 3)];
    for (steps, output) in [(by_two, 3), (by_the_caller, 2)] {
        let count = steps.len();
        let mut listing = listing(steps, output, &SHAPE);
        assert_eq!(fuse(&mut listing), Fused::default());
        assert_eq!(listing.steps.len(), count);
    }
}

#[test]
fn what_several_ops_wrote_before_is_read_later_too() {
    let half = |first: usize| {
        let layout = Layout::strided(&[2, 8], &[8, 1], 8 * first).unwrap();
        View::new(whole(1, &SHAPE).span(), DType::F32, layout).unwrap()
    };
    let copy = |from: u64, first: usize| {
        let (src, dst) = (whole(from, &[2, 8]), half(first));
        ListedOp::new(Op::Copy { src, dst }, 0)
    };
    let [exp, tanh] = [unary(Unary::Exp, 1, 2), unary(Unary::Tanh, 2, 3)];
    let before = vec![copy(8, 0), copy(9, 2), exp.clone(), tanh.clone()];
    let mut before = listing(before, 3, &SHAPE);
    assert_eq!(fuse(&mut before), Fused { maps: 1, copies: 0 });
    // Something else is there when the second reads.
    let meanwhile = vec![copy(8, 0), copy(9, 2), exp, copy(7, 0), tanh];
    let mut meanwhile = listing(meanwhile, 3, &SHAPE);
    assert_eq!(fuse(&mut meanwhile), Fused::default());
}

/// The normalisation of memory 3 to 4.
fn norm() -> ListedOp {
    let op = Op::Norm(Norm {
        kind: NormKind::Rms,
        src: whole(3, &SHAPE),
        added: None,
        sum: None,
        dst: whole(4, &SHAPE),
        scale: None,
        bias: None,
        axis: 1,
        epsilon: 1e-5,
    });
    ListedOp::new(op, 1)
}

/// What a normalisation adds and the sum it writes, by memory.
fn sums(listing: &Listing) -> Option<(u64, Option<u64>)> {
    listing.steps.iter().find_map(|step| match &*step.op {
        Op::Norm(norm) => {
            let memory = |view: View| view.span().handle;
            Some((memory(norm.added?), norm.sum.map(memory)))
        }
        _ => None,
    })
}

#[test]
fn a_normalisation_adds_and_writes_the_sum_for_those_who_read_it_later() {
    let alone = vec![binary(1, 2, 3), norm()];
    let mut alone = listing(alone, 4, &SHAPE);
    assert_eq!(fuse(&mut alone), Fused { maps: 1, copies: 0 });
    assert_eq!(sums(&alone), Some((2, None)));
    let later = vec![binary(1, 2, 3), norm(), binary(4, 3, 5)];
    let mut later = listing(later, 5, &SHAPE);
    assert_eq!(fuse(&mut later), Fused { maps: 1, copies: 0 });
    assert_eq!(sums(&later), Some((2, Some(3))));
    let given = vec![binary(1, 2, 3), norm()];
    let mut given = listing(given, 3, &SHAPE);
    assert_eq!(fuse(&mut given), Fused { maps: 1, copies: 0 });
    assert_eq!(sums(&given), Some((2, Some(3))));
    // Who reads it before would read what is not there yet.
    let before = vec![binary(1, 2, 3), unary(Unary::Exp, 3, 6), norm()];
    let mut before = listing(before, 6, &SHAPE);
    assert_eq!(fuse(&mut before), Fused::default());
}

#[test]
fn how_far_it_is_along_an_axis_of_one_element_does_not_matter() {
    let plain = Layout::contiguous(&[1, 4, 8]).unwrap();
    let with = |strides: [isize; 3]| {
        let layout = Layout::strided(&[1, 4, 8], &strides, 0).unwrap();
        View::new(whole(1, &[32]).span(), DType::F32, layout).unwrap()
    };
    let laid = laid_as(&with([8, 8, 1]), &plain).unwrap();
    assert_eq!(laid.layout().strides(), plain.strides());
    assert_eq!(laid_as(&with([32, 1, 4]), &plain), None);
    let shorter = Layout::contiguous(&[1, 4, 4]).unwrap();
    assert_eq!(laid_as(&with([32, 8, 1]), &shorter), None);
}

#[test]
fn another_shape_is_not_joined() {
    let flat = whole(2, &[32]);
    let tanh = Op::Map {
        expr: Arc::new(Expr::unary(Unary::Tanh, DType::F32).unwrap()),
        inputs: vec![flat],
        outputs: vec![whole(3, &[32])],
    };
    let steps = vec![unary(Unary::Exp, 1, 2), ListedOp::new(tanh, 1)];
    assert_eq!(fuse(&mut listing(steps, 3, &[32])), Fused::default());
}

/// Attention, and a copy of what it makes with the heads side by side, from memory 4 to 5.
fn turned_heads() -> [ListedOp; 2] {
    let heads = [1, 3, 4, 8];
    let attention = Op::Attention(Box::new(Attention {
        query: whole(1, &heads),
        key: whole(2, &heads),
        value: whole(3, &heads),
        mask: None,
        out: whole(4, &heads),
        scale: 1.0,
        causal: None,
        softcap: 0.0,
    }));
    let turned = whole(4, &heads).layout().permute(&[0, 2, 1, 3]).unwrap();
    let copy = Op::Copy {
        src: View::new(whole(4, &heads).span(), DType::F32, turned).unwrap(),
        dst: whole(5, &[1, 4, 3, 8]),
    };
    [(attention, 0), (copy, 1)].map(|(op, node)| ListedOp::new(op, node))
}

#[test]
fn what_another_wrote_stays_below() {
    let [attention, copy] = turned_heads();
    let (dst, value) = (whole(5, &[1, 4, 3, 8]), 0.0.into());
    let fill = ListedOp::new(Op::Fill { dst, value }, 2);
    let mut listing = listing(vec![attention, fill, copy], 5, &[1, 4, 3, 8]);
    assert_eq!(fuse(&mut listing), Fused::default());
}

/// The one op of the listing.
fn only_attention(listing: &Listing) -> &Attention {
    let [step] = &listing.steps[..] else {
        panic!("{:?}", listing.steps)
    };
    match &*step.op {
        Op::Attention(attention) => attention,
        other => panic!("{other:?}"),
    }
}

#[test]
fn heads_are_written_side_by_side() {
    let heads = [1, 3, 4, 8];
    let mut listing = listing(turned_heads().into(), 5, &[1, 4, 3, 8]);
    assert_eq!(fuse(&mut listing), Fused { maps: 0, copies: 1 });
    let attention = only_attention(&listing);
    assert_eq!(attention.out.span(), whole(5, &heads).span());
    assert_eq!(attention.out.shape(), heads);
    assert_eq!(attention.out.layout().strides(), [96, 8, 24, 1]);
}

/// Copies of three parts of a packed projection, from memory 1 to 2, 3 and 4, where attention reads them as heads.
fn unpacked_heads() -> Vec<ListedOp> {
    let (rows, part) = ([4, 2, 24], [2, 3, 4, 8]);
    let mut steps = Vec::new();
    for number in 0..3 {
        let packed = Layout::strided(&rows, &[144, 72, 1], 24 * number).unwrap();
        let op = Op::Copy {
            src: View::new(whole(1, &[4, 2, 72]).span(), DType::F32, packed).unwrap(),
            dst: whole(2 + number as u64, &rows),
        };
        steps.push((op, number));
    }
    let heads = |number| {
        let layout = Layout::strided(&part, &[24, 8, 48, 1], 0).unwrap();
        View::new(whole(number, &rows).span(), DType::F32, layout).unwrap()
    };
    let attention = Attention {
        query: heads(2),
        key: heads(3),
        value: heads(4),
        mask: None,
        out: whole(5, &part),
        scale: 1.0,
        causal: None,
        softcap: 0.0,
    };
    steps.push((Op::Attention(Box::new(attention)), 3));
    let listed = |(op, node)| ListedOp::new(op, node);
    steps.into_iter().map(listed).collect()
}

#[test]
fn heads_are_read_where_the_projection_wrote_them() {
    let mut packed = listing(unpacked_heads(), 5, &[2, 3, 4, 8]);
    assert_eq!(fuse(&mut packed), Fused { maps: 0, copies: 3 });
    let attention = only_attention(&packed);
    assert_eq!(packed.steps[0].nodes[..], [3, 0, 1, 2]);
    for (number, view) in [attention.query, attention.key, attention.value]
        .iter()
        .enumerate()
    {
        assert_eq!(view.span(), whole(1, &[4, 2, 72]).span());
        assert_eq!(view.layout().strides(), [72, 8, 144, 1]);
        assert_eq!(view.layout().offset(), 24 * number);
    }
}

#[test]
fn a_copy_that_others_read_or_that_is_read_across_its_rows_stays() {
    let mut others = unpacked_heads();
    others.push(unary_of(Unary::Exp, &[4, 2, 24], 2, 6));
    let mut listing_of_others = listing(others, 6, &[4, 2, 24]);
    assert_eq!(
        fuse(&mut listing_of_others),
        Fused { maps: 0, copies: 2 },
        "only the first copy has another reader"
    );
    let mut across = unpacked_heads();
    let Op::Attention(attention) = &mut *across[3].op else {
        panic!("it attends")
    };
    // Its rows of 44 begin in one row of the copy and end in another.
    let wide = Layout::strided(&[2, 3, 4, 8], &[24, 8, 44, 1], 4).unwrap();
    attention.query = View::new(attention.query.span(), DType::F32, wide).unwrap();
    let mut listing_across = listing(across, 5, &[2, 3, 4, 8]);
    assert_eq!(fuse(&mut listing_across), Fused { maps: 0, copies: 2 });
}

/// Copies that repeat two heads of keys and of values, from memory 1 and 2 to 3 and 4, for attention of so many heads that begins
/// with the head `first` of the copies.
fn repeated_heads(heads: usize, times: usize, first: usize) -> Listing {
    let (read, wide) = ([1, 2, times, 5, 8], [1, heads, 5, 8]);
    let mut steps = Vec::new();
    for number in [1, 2] {
        let once = Layout::strided(&read, &[80, 40, 0, 8, 1], 0).unwrap();
        let op = Op::Copy {
            src: View::new(whole(number, &[2, 5, 8]).span(), DType::F32, once).unwrap(),
            dst: whole(number + 2, &read),
        };
        steps.push(ListedOp::new(op, 0));
    }
    let part = |number: u64| {
        let strides = [80 * times as isize, 40, 8, 1];
        let layout = Layout::strided(&wide, &strides, 40 * first).unwrap();
        View::new(whole(number, &read).span(), DType::F32, layout).unwrap()
    };
    let attention = Attention {
        query: whole(6, &wide),
        key: part(3),
        value: part(4),
        mask: None,
        out: whole(5, &wide),
        scale: 1.0,
        causal: None,
        softcap: 0.0,
    };
    steps.push(ListedOp::new(Op::Attention(Box::new(attention)), 1));
    listing(steps, 5, &wide)
}

#[test]
fn heads_that_serve_several_are_read_where_they_are_once() {
    let mut all = repeated_heads(6, 3, 0);
    assert_eq!(fuse(&mut all), Fused { maps: 0, copies: 2 });
    let attention = only_attention(&all);
    for (number, view) in [(1, attention.key), (2, attention.value)] {
        assert_eq!(view.span(), whole(number, &[2, 5, 8]).span());
        assert_eq!(view.shape(), [1, 2, 5, 8]);
        assert_eq!(view.layout().strides()[1..], [40, 8, 1]);
    }
    let mut second = repeated_heads(3, 3, 3);
    assert_eq!(fuse(&mut second), Fused { maps: 0, copies: 2 });
    let attention = only_attention(&second);
    assert_eq!(attention.key.layout().offset(), 40);
    // These begin among the repetitions of one head, or end there.
    for (heads, first) in [(3, 1), (4, 0)] {
        let mut across = repeated_heads(heads, 3, first);
        assert_eq!(fuse(&mut across), Fused::default());
    }
}

#[test]
fn a_factor_of_queries_and_keys_becomes_part_of_the_scale() {
    let times = |function, number: f64, from: u64, to: u64| {
        let mut expr = Expr::builder();
        let x = expr.input(DType::F32).unwrap();
        let number = expr.constant(number, DType::F32).unwrap();
        let y = expr.binary(function, x, number).unwrap();
        let op = Op::Map {
            expr: Arc::new(expr.finish(&[y]).unwrap()),
            inputs: vec![whole(from, &[1, 3, 4, 8])],
            outputs: vec![whole(to, &[1, 3, 4, 8])],
        };
        ListedOp::new(op, 2)
    };
    let scaled = |function, number| {
        let [attention, _] = turned_heads();
        let steps = vec![
            times(function, number, 6, 1),
            times(Binary::Mul, 0.25, 7, 2),
            attention,
        ];
        let mut scaled = listing(steps, 4, &[1, 3, 4, 8]);
        let fused = fuse(&mut scaled);
        match &*scaled.steps[scaled.steps.len() - 1].op {
            Op::Attention(attention) => (fused.maps, attention.scale, attention.query.span()),
            other => panic!("{other:?}"),
        }
    };
    let span = |number| whole(number, &[1, 3, 4, 8]).span();
    assert_eq!(scaled(Binary::Mul, 0.5), (2, 0.125, span(6)));
    assert_eq!(scaled(Binary::Div, 2.0), (2, 0.125, span(6)));
    // What it makes infinite is to stay infinite, and nothing else is a factor.
    assert_eq!(scaled(Binary::Mul, 2.0), (1, 0.25, span(1)));
    assert_eq!(scaled(Binary::Add, 0.5), (1, 0.25, span(1)));
}

#[test]
fn a_factor_behind_a_narrower_type_is_none() {
    let through = |dtype| {
        let mut expr = Expr::builder();
        let x = expr.input(DType::F32).unwrap();
        let half = expr.constant(0.5, DType::F32).unwrap();
        let other = expr.cast(x, dtype).unwrap();
        let back = expr.cast(other, DType::F32).unwrap();
        let y = expr.binary(Binary::Mul, back, half).unwrap();
        factor(&expr.finish(&[y]).unwrap())
    };
    assert_eq!(through(DType::F64), Some(0.5));
    // What is too large for it would be infinite.
    assert_eq!(through(DType::F16), None);
    assert_eq!(through(DType::I64), None);
}
