//! Listings before and after.

use std::sync::Arc;

use streampool_device::{Activation, DType, Expr, Slide, Unary, Window};
use streampool_tensor::Tensor;

use super::*;
use crate::lower::testing::whole;
use crate::testing::host_pool;
use crate::trace::{ListedOp, Made, Outcome, TensorKind};

const PICTURE: [usize; 4] = [2, 4, 3, 5];
const LAST: [isize; 4] = [60, 1, 20, 4];

const HOST: ChannelsLast = ChannelsLast {
    dtypes: &[DType::F32],
    simple: &[],
    throughout: false,
};
const THROUGHOUT: ChannelsLast = ChannelsLast {
    throughout: true,
    ..HOST
};

fn conv(from: View, to: View) -> Op {
    let channels = [to.shape()[1], from.shape()[1]];
    Op::Conv(Box::new(Conv {
        src: from,
        weight: whole(100, &[channels[0], channels[1], 1, 1]),
        bias: None,
        dst: to,
        window: Window::new(&[Slide::new(1); 2]).unwrap(),
        groups: 1,
        transposed: false,
        activation: Activation::None,
        to_bytes: None,
        zero_point: 0,
    }))
}

fn exp(from: View, to: View) -> Op {
    Op::Map {
        expr: Arc::new(Expr::unary(Unary::Exp, DType::F32).unwrap()),
        inputs: vec![from],
        outputs: vec![to],
    }
}

fn listing(ops: Vec<Op>, output: View) -> Listing {
    let mut graph = crate::graph::Graph::default();
    let id = graph.add_value(crate::graph::ValueInfo::default());
    let made = Made {
        memory: Memory::of(output.span()),
        kind: TensorKind {
            dtype: DType::F32,
            shape: output.shape().to_vec(),
        },
    };
    let steps = ops.into_iter().map(|op| ListedOp::new(op, 0));
    Listing {
        steps: steps.collect(),
        sources: FxHashMap::from_iter([(
            Memory::of(whole(1, &PICTURE).span()),
            crate::trace::Source::Input(0),
        )]),
        outputs: vec![(id, Outcome::Tensor(made))],
    }
}

/// The strides of the views of each op.
fn strides(listing: &Listing) -> Vec<Vec<Vec<isize>>> {
    let of = |step: &ListedOp| {
        let mut all = Vec::new();
        step.op
            .for_each_operand(|_, _, view| all.push(view.layout().strides().to_vec()));
        all
    };
    listing.steps.iter().map(of).collect()
}

#[test]
fn what_lies_between_convolutions_has_channels_last() {
    let [x, a, b, y] = [1, 2, 3, 4].map(|number| whole(number, &PICTURE));
    let mut steps = listing(vec![conv(x, a), exp(a, b), conv(b, y)], y);
    assert_eq!(channels_last(&mut steps, HOST), 2);
    let rows = x.layout().strides().to_vec();
    let [first, map, second] = &strides(&steps)[..] else {
        panic!("{:?}", steps.steps)
    };
    // What callers give and get stays as it is.
    assert_eq!((&first[0], &first[2][..]), (&rows, &LAST[..]));
    assert_eq!(map[..], [LAST, LAST]);
    assert_eq!((&second[0][..], &second[2]), (&LAST[..], &rows));
}

#[test]
fn only_simple_convolutions_may_gain() {
    let [x, a, b, y] = [1, 2, 3, 4].map(|number| whole(number, &PICTURE));
    let each = |from: View, to: View| {
        let mut op = conv(from, to);
        if let Op::Conv(conv) = &mut op {
            (conv.groups, conv.weight) = (4, whole(100, &[4, 1, 1, 1]));
        }
        op
    };
    let wanted = ChannelsLast {
        dtypes: &[],
        simple: &[DType::F32],
        throughout: true,
    };
    let count = |ops| channels_last(&mut listing(ops, y), wanted);
    assert_eq!(count(vec![each(x, a), exp(a, b), each(b, y)]), 2);
    // One that sums over channels is beside them.
    assert_eq!(count(vec![each(x, a), exp(a, b), conv(b, y)]), 0);
    assert_eq!(count(vec![conv(x, a), exp(a, b), each(b, y)]), 0);
    // Patches are seen once.
    let halves = whole(5, &[2, 4, 6, 10]);
    let mut patches = conv(halves, a);
    if let Op::Conv(conv) = &mut patches {
        let half = Slide {
            stride: 2,
            ..Slide::new(2)
        };
        conv.weight = whole(100, &[4, 4, 2, 2]);
        conv.window = Window::new(&[half; 2]).unwrap();
    }
    assert_eq!(count(vec![patches, exp(a, b), each(b, y)]), 3);
}

#[test]
fn pictures_of_few_channels_stay() {
    let few = [2, 3, 3, 5];
    let [x, a] = [1, 2].map(|number| whole(number, &few));
    let y = whole(3, &PICTURE);
    let ops = || vec![exp(x, a), conv(a, y)];
    assert_eq!(channels_last(&mut listing(ops(), y), HOST), 0);
    // Where all that a convolution reads has to lie so, they do.
    assert_eq!(channels_last(&mut listing(ops(), y), THROUGHOUT), 1);
}

#[test]
fn parts_of_channels_stay_parts() {
    let [x, a, y] = [1, 2, 4].map(|number| whole(number, &PICTURE));
    let half = |view: View| {
        let layout = Layout::strided(&[2, 2, 3, 5], view.layout().strides(), 30).unwrap();
        View::new(view.span(), DType::F32, layout).unwrap()
    };
    let b = whole(3, &[2, 2, 3, 5]);
    let mut steps = listing(vec![conv(x, a), exp(half(a), b), conv(b, y)], y);
    assert_eq!(channels_last(&mut steps, HOST), 2);
    let Op::Map { inputs, .. } = &*steps.steps[1].op else {
        panic!("{:?}", steps.steps)
    };
    assert_eq!(inputs[0].layout().strides(), LAST);
    assert_eq!(inputs[0].layout().offset(), 2);
}

#[test]
fn what_is_read_across_channels_and_places_stays() {
    let [x, a, y] = [1, 2, 4].map(|number| whole(number, &PICTURE));
    let flat = |number, rows: usize| whole(number, &[rows, 120 / rows]);
    for rows in [1, 2] {
        let ops = vec![conv(x, a), exp(flat(2, rows), flat(3, rows)), conv(x, y)];
        let mut steps = listing(ops, y);
        let before = strides(&steps);
        assert_eq!(channels_last(&mut steps, HOST), 0);
        assert_eq!(strides(&steps), before);
    }
    // An operator that asks for rows keeps them.
    let softmax = Op::Softmax {
        src: a,
        dst: whole(3, &PICTURE),
        axis: 3,
        log: false,
    };
    let mut steps = listing(vec![conv(x, a), softmax, conv(x, y)], y);
    assert_eq!(channels_last(&mut steps, HOST), 0);
}

#[test]
fn parts_of_a_concatenation_are_written_directly() {
    let [x, a, b] = [1, 2, 3].map(|number| whole(number, &[1, 4, 3, 5]));
    let (joined, y) = (whole(5, &[1, 8, 3, 5]), whole(6, &[1, 4, 3, 5]));
    let part = |channel: usize| {
        let layout = Layout::strided(x.shape(), x.layout().strides(), channel * 15).unwrap();
        View::new(joined.span(), DType::F32, layout).unwrap()
    };
    let copy = |src: View, dst: View| Op::Copy { src, dst };
    let copies = [copy(a, part(0)), copy(b, part(4))];
    let ops = [&[conv(x, a), conv(x, b)][..], &copies, &[conv(joined, y)]];
    let mut steps = listing(ops.concat(), y);
    assert_eq!(channels_last(&mut steps, HOST), 1);
    let [first, second, third] = &strides(&steps)[..] else {
        panic!("{:?}", steps.steps)
    };
    // There is one image, and from it to the next no step.
    let last = [1, 40, 8];
    for strides in [&first[2], &second[2], &third[0]] {
        assert_eq!(strides[1..], last);
    }
    // What is read meanwhile is not there sooner.
    let ops = [
        &[
            conv(x, a),
            conv(x, b),
            conv(joined, whole(7, &[1, 4, 3, 5])),
        ][..],
        &copies,
        &[conv(joined, y)],
    ];
    let mut steps = listing(ops.concat(), y);
    channels_last(&mut steps, HOST);
    assert_eq!(steps.steps.len(), 6);
}

#[test]
fn convolutions_may_want_all_that_they_touch_alike() {
    let [x, a, b, y] = [1, 2, 3, 4].map(|number| whole(number, &PICTURE));
    let mut first = conv(x, a);
    let Op::Conv(window) = &mut first else {
        unreachable!("it was just made")
    };
    // A window of more than one place, so that it matters how its weights lie.
    window.weight = whole(100, &[4, 4, 3, 1]);
    window.window = Window::new(&[
        Slide {
            before: 1,
            after: 1,
            ..Slide::new(3)
        },
        Slide::new(1),
    ])
    .unwrap();
    let mut steps = listing(vec![first, exp(a, b), conv(b, y)], y);
    let known = Tensor::zeros(&host_pool(), &[4, 4, 3, 1], DType::F32).unwrap();
    let weight = Memory::of(window_weight(&steps, 0).span());
    steps.sources.insert(weight, Source::Constant(known, None));
    assert_eq!(channels_last(&mut steps, THROUGHOUT), 2);
    let kinds: Vec<_> = steps.steps.iter().map(|step| step.op.kind()).collect();
    use streampool_device::OpKind::{Conv, Copy, Map};
    // What callers give and get is copied; weights that are known are laid out when they are moved.
    assert_eq!(kinds, [Copy, Conv, Map, Conv, Copy]);
    let all = strides(&steps);
    assert_eq!(all[1], [LAST, [12, 1, 4, 4], LAST].map(Vec::from));
    assert_eq!((&all[3][0][..], &all[3][2][..]), (&LAST[..], &LAST[..]));
    let rows = x.layout().strides();
    assert_eq!((&all[0][0][..], &all[4][1][..]), (rows, rows));
    let laid_out = Memory::of(window_weight(&steps, 1).span());
    assert_ne!(laid_out, weight);
    let Some(Source::Constant(_, Some(picture))) = steps.sources.get(&laid_out) else {
        panic!("the weights are a constant")
    };
    assert_eq!((picture.channels, picture.places), (4, 3));
    // Each piece of memory is one.
    let mut memory: Vec<_> = Vec::new();
    for step in &steps.steps {
        step.op
            .for_each_operand(|_, _, view| memory.push(Memory::of(view.span())));
    }
    memory.sort_unstable();
    memory.dedup();
    assert_eq!(memory.len(), 8);
}

fn window_weight(listing: &Listing, step: usize) -> View {
    match &*listing.steps[step].op {
        Op::Conv(conv) => conv.weight,
        other => panic!("{other:?}"),
    }
}

#[test]
fn what_alone_reads_a_convolution_works_in_place() {
    let [x, a, b, y] = [1, 2, 3, 4].map(|number| whole(number, &PICTURE));
    let mut steps = listing(vec![conv(x, a), exp(a, b), conv(b, y)], y);
    assert_eq!(direct::work_in_place(&mut steps), 1);
    let ops: Vec<Op> = steps.steps.iter().map(|step| Op::clone(&step.op)).collect();
    assert_eq!(ops, [conv(x, b), exp(b, b), conv(b, y)]);

    let softmax = |src: View, dst: View| Op::Softmax {
        src,
        dst,
        axis: 3,
        log: false,
    };
    for (ops, output) in [
        // Another reads it, or the caller does.
        (vec![conv(x, a), exp(a, b), softmax(a, y)], y),
        (vec![conv(x, a), exp(a, b)], a),
        // Something else lies there before: what an earlier op left, or an input.
        (vec![exp(x, b), softmax(b, y), conv(x, a), exp(a, b)], b),
        (vec![conv(b, a), exp(a, x)], x),
        // It is no convolution's.
        (vec![softmax(x, a), exp(a, b)], b),
    ] {
        let mut steps = listing(ops.clone(), output);
        assert_eq!(direct::work_in_place(&mut steps), 0);
        let after: Vec<Op> = steps.steps.into_iter().map(|step| *step.op).collect();
        assert_eq!(after, ops);
    }
}
