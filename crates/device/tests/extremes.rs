//! Extreme numbers, thrown at whatever takes numbers from outside: it answers or refuses, and never panics or wraps.

use std::sync::Arc;

use proptest::prelude::*;
use proptest::sample::select;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
use streampool_device::*;

const EXTREMES: [usize; 14] = [
    0,
    1,
    1,
    2,
    3,
    4,
    1 << 31,
    1 << 32,
    1 << 48,
    1 << 62,
    i64::MAX as usize,
    1 << 63,
    usize::MAX - 1,
    usize::MAX,
];

/// Draws the same cases each time.
fn run<S: Strategy>(cases: u32, strategy: &S, test: impl Fn(S::Value)) {
    let config = Config {
        cases,
        max_local_rejects: u32::MAX,
        failure_persistence: None,
        ..Config::default()
    };
    let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &[7; 32]);
    let outcome = TestRunner::new_with_rng(config, rng).run(strategy, |value| {
        test(value);
        Ok(())
    });
    outcome.unwrap();
}

fn number() -> impl Strategy<Value = usize> {
    select(&EXTREMES[..])
}

fn numbers(most: usize) -> impl Strategy<Value = Vec<usize>> {
    prop::collection::vec(number(), 0..=most)
}

fn stride() -> impl Strategy<Value = isize> {
    (number(), any::<bool>()).prop_map(|(number, negative)| match negative {
        true => (number as isize).wrapping_neg(),
        false => number as isize,
    })
}

fn layout() -> impl Strategy<Value = Layout> {
    let strides = prop::collection::vec(stride(), 9);
    let given = (numbers(9), strides, number(), any::<bool>());
    given.prop_filter_map("no layout", |(shape, strides, offset, plain)| match plain {
        true => Layout::contiguous(&shape).ok(),
        false => Layout::strided(&shape, &strides[..shape.len()], offset).ok(),
    })
}

fn span() -> impl Strategy<Value = Span> {
    let given = (select(&[0, 1, u64::MAX][..]), number(), number());
    given.prop_map(|(handle, offset, bytes)| Span {
        handle,
        offset,
        bytes,
    })
}

/// The lowest and the highest element, without regard to what a `usize` holds.
fn extent(layout: &Layout) -> (i128, i128) {
    let offset = layout.offset() as i128;
    let ends = layout.shape().iter().zip(layout.strides());
    ends.fold((offset, offset), |(low, high), (&size, &stride)| {
        let span = stride as i128 * (size as i128 - 1);
        (low + span.min(0), high + span.max(0))
    })
}

#[test]
fn layouts_name_what_they_say_or_are_refused() {
    let given = (layout(), numbers(9), number(), number(), number(), number());
    run(20_000, &given, |(layout, shape, axis, start, end, step)| {
        let made = [
            Ok(layout),
            layout.permute(&shape),
            layout.broadcast_to(&shape),
            layout.slice(axis, start, end, step),
            layout.slice(0, 1, 2, step),
        ];
        for layout in made.into_iter().flatten() {
            let elements = layout.shape().iter().try_fold(1, |all: usize, &size| {
                let wide = all as u128 * size as u128;
                usize::try_from(wide).ok()
            });
            assert!(elements.is_none_or(|elements| elements == layout.elements()));
            if let Some((first, last)) = layout.extent() {
                assert_eq!((first as i128, last as i128), extent(&layout), "{layout}");
            }
            let _ = (layout.overlaps(), layout.is_contiguous());
        }
    });
}

#[test]
fn spans_and_views_stay_in_bounds_or_are_refused() {
    let end = |span: &Span| span.offset as u128 + span.bytes as u128;
    let inside = |part: &Span, whole: &Span| {
        part.handle == whole.handle && whole.offset <= part.offset && end(part) <= end(whole)
    };
    let dtype = select(&DType::ALL[..]);
    let given = (layout(), span(), span(), number(), number(), dtype);
    run(
        20_000,
        &given,
        |(layout, span, other, offset, bytes, dtype)| {
            assert_eq!(span.contains(&other), inside(&other, &span));
            if let Ok(part) = span.part(offset, bytes) {
                assert!(inside(&part, &span));
            }
            let Ok(view) = View::new(span, dtype, layout) else {
                return;
            };
            assert!(view.reach().is_none_or(|reach| inside(&reach, &span)));
            let slots = Slots::new(&[other, span], 256);
            assert!(slots.holding(&view).is_some());
            if slots.check(&[span, other]).is_ok() {
                let op = Op::Fill {
                    dst: view,
                    value: Scalar::Int(0),
                };
                slots.bind(&op, &[span, other]);
            }
        },
    );
}

/// What an op is made of: operands whose sizes are often the same, and numbers.
#[derive(Debug, Clone)]
struct Parts {
    views: Vec<View>,
    numbers: Vec<usize>,
    slides: Vec<Slide>,
    float: f64,
    flag: bool,
}

fn parts() -> impl Strategy<Value = Parts> {
    let word = || number().prop_map(|number| number as u32);
    let slide = (word(), word(), word(), word(), word());
    let slide = slide.prop_map(|(kernel, stride, dilation, before, after)| Slide {
        kernel,
        stride,
        dilation,
        before,
        after,
    });
    let float = select(&[0.0, -1.0, 1e300, f64::MAX, f64::INFINITY, f64::NAN][..]);
    let numbers = prop::collection::vec(number(), 4);
    let slides = prop::collection::vec(slide, 3);
    (views(), numbers, slides, float, any::<bool>()).prop_map(
        |(views, numbers, slides, float, flag)| Parts {
            views,
            numbers,
            slides,
            float,
            flag,
        },
    )
}

/// Eleven operands. Their sizes are drawn from three, so that they fit each other at times.
fn views() -> impl Strategy<Value = Vec<View>> {
    let palette = [number(), number(), number()];
    let places = prop::collection::vec(0..3usize, 1..6);
    let operands = prop::collection::vec((places, number()), 11);
    let rank = select(&[None, Some(2), Some(3), Some(4)][..]);
    let dtype = select(&[DType::F32, DType::F32, DType::F64, DType::I64, DType::Bool][..]);
    (palette, operands, rank, dtype).prop_map(|(palette, operands, rank, dtype)| {
        let view = |(handle, (places, offset)): (usize, (Vec<usize>, usize))| {
            let sizes = places.iter().cycle().take(rank.unwrap_or(places.len()));
            let shape: Vec<usize> = sizes.map(|&place| palette[place]).collect();
            let zeros = vec![0; shape.len()];
            let span = |offset: usize| Span {
                handle: handle as u64,
                offset: offset & !7,
                bytes: usize::MAX - offset,
            };
            // What is too large to lie apart lies in one place, or is not there at all.
            let apart =
                Layout::contiguous(&shape).and_then(|it| View::new(span(offset), dtype, it));
            let together = || Layout::strided(&shape, &vec![0; shape.len()], offset);
            apart
                .or_else(|_| View::new(span(0), dtype, together()?))
                .or_else(|_| View::new(span(0), dtype, Layout::contiguous(&zeros)?))
                .unwrap()
        };
        operands.into_iter().enumerate().map(view).collect()
    })
}

/// An op of each kind of these parts; some have variants that numbers choose.
fn ops(parts: &Parts) -> Vec<Op> {
    let (views, float, flag) = (&parts.views, parts.float, parts.flag);
    let [a, b, c, d] = [views[0], views[1], views[2], views[3]];
    let some = |index: usize| flag.then_some(views[index]);
    let (axis, count) = (parts.numbers[0], parts.numbers[1]);
    let reduced = |kind| Op::Reduce {
        kind,
        src: a,
        dst: b,
        axes: Axes::new(&[axis]).unwrap_or_default(),
    };
    let indexing = [
        Indexing::Axis(axis),
        Indexing::Elements(axis),
        Indexing::Nd(axis),
    ][count % 3];
    let along = Along {
        scale: float,
        shift: float,
    };
    let mut ops = vec![
        Op::Nop,
        Op::Copy { src: a, dst: b },
        Op::Fill {
            dst: a,
            value: Scalar::Int(i64::MIN),
        },
        Op::Iota {
            dst: a,
            start: Scalar::Int(i64::MAX),
            step: Scalar::Int(i64::MAX),
        },
        Op::Map {
            expr: Arc::new(Expr::binary(Binary::Add, DType::F32).unwrap()),
            inputs: views[..count % 7].to_vec(),
            outputs: views[6..][..axis % 4].to_vec(),
        },
        reduced(ReduceKind::Sum),
        reduced(ReduceKind::ArgMax),
        Op::Softmax {
            src: a,
            dst: b,
            axis,
            log: flag,
        },
        Op::Norm(Norm {
            kind: NormKind::Layer,
            src: a,
            added: some(4),
            sum: some(7),
            dst: b,
            scale: some(5),
            bias: some(6),
            axis,
            epsilon: float,
        }),
        Op::MatMul(MatMul {
            a,
            b,
            out: c,
            bias: some(4),
            activation: Activation::None,
            alpha: float,
        }),
        Op::Attention(Box::new(Attention {
            query: a,
            key: b,
            value: c,
            mask: some(4),
            out: d,
            scale: float,
            causal: Some(axis as i64),
            softcap: float,
        })),
        Op::Resize(Resize {
            src: a,
            dst: b,
            along: Dims::new(&[along; MAX_RANK][..a.layout().rank()]).unwrap(),
            interpolation: Interpolation::Cubic(float),
            antialias: flag,
            exclude_outside: flag,
            outside: Some(float),
        }),
        Op::Gather(Gather {
            indexing,
            src: a,
            indices: b,
            dst: c,
        }),
        Op::Scatter(Scatter {
            indexing,
            combine: Combine::Add,
            src: a,
            indices: b,
            updates: c,
            dst: d,
        }),
        Op::Scan(Scan {
            kind: ScanKind::Sum,
            src: a,
            dst: b,
            axis,
            exclusive: flag,
            reverse: flag,
        }),
        Op::Sort(Sort {
            src: a,
            values: b,
            indices: some(2),
            axis,
            descending: flag,
        }),
        Op::Random(Random {
            distribution: Distribution::Integers {
                low: axis as i64,
                high: count as i64,
            },
            dst: a,
            seed: u64::MAX,
            offset: u64::MAX,
        }),
        Op::Rnn(Box::new(Rnn {
            cell: [Cell::Tanh, Cell::Lstm][count % 2],
            direction: [Direction::Forward, Direction::Both][axis % 2],
            src: a,
            weight: b,
            recurrent: c,
            bias: some(4),
            peephole: some(5),
            lengths: some(6),
            hidden: some(7),
            cell_state: some(8),
            dst: d,
            last_hidden: some(9),
            last_cell: some(10),
        })),
        Op::Linalg(Linalg::Lu {
            src: a,
            factors: b,
            pivots: c,
        }),
        Op::Linalg(Linalg::LuSolve {
            factors: a,
            pivots: b,
            rhs: c,
            dst: d,
        }),
        Op::Linalg(Linalg::Triangular {
            src: a,
            rhs: b,
            dst: c,
            upper: flag,
            unit: flag,
        }),
        Op::Linalg(Linalg::Cholesky { src: a, dst: b }),
        Op::Histogram(Histogram {
            src: a,
            weights: some(2),
            dst: b,
            low: -float,
            high: float,
        }),
        Op::NonZero(NonZero {
            src: a,
            indices: b,
            count: c,
        }),
    ];
    let dimensions = a.layout().rank().saturating_sub(2).clamp(1, 3);
    if let Ok(window) = Window::new(&parts.slides[..dimensions]) {
        ops.push(Op::Conv(Box::new(Conv {
            src: a,
            weight: b,
            bias: some(4),
            dst: c,
            window,
            groups: count,
            transposed: flag,
            activation: Activation::Relu,
            to_bytes: None,
            zero_point: 0,
        })));
        ops.push(Op::Pool(Pool {
            kind: [PoolKind::Max, PoolKind::Lp(float)][axis % 2],
            src: a,
            dst: b,
            indices: some(2),
            window,
        }));
    }
    ops
}

#[test]
fn every_validator_answers_whatever_it_is_given() {
    run(10_000, &parts(), |parts| {
        for op in ops(&parts) {
            let _ = op.validate();
        }
        for slide in &parts.slides {
            let size = parts.numbers[2];
            let _ = (slide.windows(size), slide.windows_ceil(size));
            let _ = (slide.reach(), slide.spread(size));
        }
    });
}

#[test]
fn sizes_that_are_too_large_when_multiplied_are_refused() {
    let view = |handle, shape: &[usize]| {
        let span = Span {
            handle,
            offset: 0,
            bytes: 0,
        };
        View::new(span, DType::F32, Layout::contiguous(shape).unwrap()).unwrap()
    };
    let conv = |transposed| {
        Op::Conv(Box::new(Conv {
            src: view(1, &[0, 0, 1]),
            weight: view(2, &[0, 4, 1]),
            bias: None,
            dst: view(3, &[0, 0, 1]),
            window: Window::new(&[Slide::new(1)]).unwrap(),
            groups: 1 << 62,
            transposed,
            activation: Activation::None,
            to_bytes: None,
            zero_point: 0,
        }))
    };
    let rnn = |hidden| {
        Op::Rnn(Box::new(Rnn {
            cell: Cell::Lstm,
            direction: Direction::Forward,
            src: view(1, &[0, 0, 0]),
            weight: view(2, &[1, 0, 0]),
            recurrent: view(3, &[1, 0, hidden]),
            bias: Some(view(4, &[1, 0])),
            peephole: None,
            lengths: None,
            hidden: None,
            cell_state: None,
            dst: view(5, &[0, 1, 0, hidden]),
            last_hidden: None,
            last_cell: None,
        }))
    };
    // With the groups or the gates, it is more than any layout has.
    for op in [conv(false), conv(true), rnn(1 << 48), rnn(1 << 46)] {
        let told = op.validate().unwrap_err().to_string();
        assert!(told.contains("elements along an axis"), "{told}");
    }
}

/// A view of one element, seen wherever the shape has one.
fn broadcast(handle: u64, shape: &[usize]) -> View {
    let span = Span {
        handle,
        offset: 0,
        bytes: 4,
    };
    let layout = Layout::contiguous(&[]).unwrap();
    View::new(span, DType::F32, layout.broadcast_to(shape).unwrap()).unwrap()
}

/// A result: what it has no room for may be refused, but not before what is asked of the shapes.
fn result(handle: u64, shape: &[usize]) -> View {
    let span = Span {
        handle,
        offset: 0,
        bytes: usize::MAX,
    };
    View::new(span, DType::F32, Layout::contiguous(shape).unwrap()).unwrap()
}

#[test]
fn what_kernels_multiply_is_bounded() {
    let far = Slide {
        dilation: (1 << 30) - 1,
        before: 1 << 29,
        after: 1 << 29,
        ..Slide::new(2)
    };
    let conv = |rank: usize| {
        let ones = [1; 3];
        let shape = |first: [usize; 2], spatial: &[usize]| [&first[..], &spatial[..rank]].concat();
        let (src, kernel) = (shape([1, 1], &ones), shape([1, 1], &[2; 3]));
        let outputs = [far.windows(1); 3];
        Op::Conv(Box::new(Conv {
            src: broadcast(1, &src),
            weight: broadcast(2, &kernel),
            bias: None,
            dst: result(3, &shape([1, 1], &outputs)),
            window: Window::new(&vec![far; rank]).unwrap(),
            groups: 1,
            transposed: false,
            activation: Activation::None,
            to_bytes: None,
            zero_point: 0,
        }))
    };
    let wide = Slide {
        before: 250_000_000,
        after: 249_999_996,
        ..Slide::new(500_000_000)
    };
    let pool = Op::Pool(Pool {
        kind: PoolKind::Mean {
            count_padding: true,
        },
        src: broadcast(1, &[1, 1, 4, 4]),
        dst: result(2, &[1, 1, 1, 1]),
        indices: None,
        window: Window::new(&[wide; 2]).unwrap(),
    });
    let matmul = Op::MatMul(MatMul {
        a: broadcast(1, &[1 << 20, 1 << 28]),
        b: broadcast(2, &[1 << 28, 1 << 20]),
        out: result(3, &[1 << 20, 1 << 20]),
        bias: None,
        activation: Activation::None,
        alpha: 1.0,
    });
    let attention = Op::Attention(Box::new(Attention {
        query: broadcast(1, &[1, 1, 1 << 30, 1]),
        key: broadcast(2, &[1, 1, 1 << 30, 1]),
        value: broadcast(3, &[1, 1, 1 << 30, 1]),
        mask: None,
        out: result(4, &[1, 1, 1 << 30, 1]),
        scale: 1.0,
        causal: None,
        softcap: 0.0,
    }));
    let resize = Op::Resize(Resize {
        src: broadcast(1, &[1, 1 << 40]),
        dst: result(2, &[1 << 10, 1]),
        along: Dims::new(&[Along::default(); 2]).unwrap(),
        interpolation: Interpolation::Linear,
        antialias: false,
        exclude_outside: false,
        outside: None,
    });
    let rnn = Op::Rnn(Box::new(Rnn {
        cell: Cell::Lstm,
        direction: Direction::Forward,
        src: broadcast(1, &[1 << 46, 1, 1]),
        weight: broadcast(2, &[1, 16, 1]),
        recurrent: broadcast(3, &[1, 16, 4]),
        bias: None,
        peephole: None,
        lengths: None,
        hidden: None,
        cell_state: None,
        dst: result(4, &[1 << 46, 1, 1, 4]),
        last_hidden: None,
        last_cell: None,
    }));
    for op in [conv(2), conv(3), pool, matmul, attention, resize, rnn] {
        let error = op.validate().unwrap_err();
        let told = error.to_string();
        assert!(matches!(error, Error::InvalidOp { .. }), "{told}");
        assert!(told.contains("expected at most"), "{told}");
    }
}

#[test]
fn factors_that_no_float_holds_are_refused() {
    let attention = |scale, softcap| {
        Op::Attention(Box::new(Attention {
            query: broadcast(1, &[1, 1, 2, 1]),
            key: broadcast(2, &[1, 1, 2, 1]),
            value: broadcast(3, &[1, 1, 2, 1]),
            mask: None,
            out: result(4, &[1, 1, 2, 1]),
            scale,
            causal: None,
            softcap,
        }))
    };
    for softcap in [0.0, 1e-30, 50.0, 1e30] {
        assert_eq!(attention(1.0, softcap).validate(), Ok(()));
    }
    // In `f32` the first two are infinite and zero, and what they are multiplied with is not a number.
    for softcap in [1e300, 1e-300, -1.0, f64::NAN] {
        let told = attention(1.0, softcap).validate().unwrap_err().to_string();
        assert!(told.contains("softcap"), "{told}");
    }
    let product = |alpha| {
        Op::MatMul(MatMul {
            a: broadcast(1, &[2, 2]),
            b: broadcast(2, &[2, 2]),
            out: result(3, &[2, 2]),
            bias: None,
            activation: Activation::None,
            alpha,
        })
    };
    for factor in [1e300, -1e300, f64::INFINITY, f64::NAN] {
        for op in [attention(factor, 0.0), product(factor)] {
            let told = op.validate().unwrap_err().to_string();
            assert!(told.contains("at most 1e38 from zero"), "{told}");
        }
    }
    assert_eq!(product(-1e38).validate(), Ok(()));
}
