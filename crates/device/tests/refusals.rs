//! An op of each kind that is right, and the same with one thing wrong: each mistake is refused, and the argument is named.

use streampool_device::*;

fn view(handle: u64, dtype: DType, shape: &[usize]) -> View {
    let span = Span {
        handle,
        offset: 0,
        bytes: 1 << 20,
    };
    View::new(span, dtype, Layout::contiguous(shape).unwrap()).unwrap()
}

fn floats(handle: u64, shape: &[usize]) -> View {
    view(handle, DType::F32, shape)
}

fn refused(op: &Op, argument: &str) {
    match op.validate() {
        Err(Error::InvalidOp { argument: told, .. }) => assert_eq!(told, argument, "{op:?}"),
        other => panic!("{other:?} for {op:?}"),
    }
}

/// Each operand of one more element along each axis, of one more axis, and of another type is refused; but for what `may` says:
/// the argument, and the axis that may have any size.
fn all_operands_matter(op: &Op, may: &[(&str, usize)]) {
    assert_eq!(op.validate(), Ok(()), "{op:?}");
    let mut operands = Vec::new();
    op.for_each_operand(|argument, _, view| operands.push((argument, *view)));
    for (place, &(argument, right)) in operands.iter().enumerate() {
        let shape = right.layout().shape();
        let mut wrong = vec![view(99, right.dtype(), &[shape, &[1]].concat())];
        for axis in 0..shape.len() {
            let mut larger = shape.to_vec();
            larger[axis] += 1;
            if !may.contains(&(argument, axis)) {
                wrong.push(view(99, right.dtype(), &larger));
            }
        }
        let other = match right.dtype() {
            DType::F32 => DType::I64,
            _ => DType::F32,
        };
        wrong.push(view(99, other, shape));
        for wrong in wrong {
            let mut at = 0;
            let changed: Result<Op> = op.try_map(&mut |_, _, view: &View| {
                at += 1;
                Ok(if at == place + 1 { wrong } else { *view })
            });
            let changed = changed.unwrap();
            assert!(
                matches!(changed.validate(), Err(Error::InvalidOp { .. })),
                "{argument} may be {wrong:?} in {op:?}"
            );
        }
    }
}

fn conv(transposed: bool, dst: &[usize], slide: Slide) -> Op {
    Op::Conv(Box::new(Conv {
        src: floats(1, &[1, 4, 5]),
        weight: floats(2, &[4, 2, 2]),
        bias: Some(floats(3, &[dst[1]])),
        dst: floats(4, dst),
        window: Window::new(&[slide]).unwrap(),
        groups: 2,
        transposed,
        activation: Activation::None,
        to_bytes: None,
        zero_point: 0,
    }))
}

#[test]
fn a_convolution_of_bytes_is_plain_and_makes_sums() {
    let conv = |change: &dyn Fn(&mut Conv)| {
        let mut conv = Conv {
            src: view(1, DType::U8, &[1, 4, 5, 6]),
            weight: view(2, DType::I8, &[4, 2, 2, 2]),
            bias: Some(view(3, DType::I32, &[4])),
            dst: view(4, DType::I32, &[1, 4, 4, 5]),
            window: Window::new(&[Slide::new(2); 2]).unwrap(),
            groups: 2,
            transposed: false,
            activation: Activation::None,
            to_bytes: None,
            zero_point: 0,
        };
        change(&mut conv);
        Op::Conv(Box::new(conv))
    };
    assert_eq!(conv(&|_| ()).validate(), Ok(()));
    refused(&conv(&|conv| conv.activation = Activation::Relu), "src");
    refused(&conv(&|conv| conv.transposed = true), "src");
    let signed = view(1, DType::I8, &[1, 4, 5, 6]);
    refused(&conv(&|conv| conv.src = signed), "src");
    let unsigned = view(2, DType::U8, &[4, 2, 2, 2]);
    refused(&conv(&|conv| conv.weight = unsigned), "weight");
    refused(&conv(&|conv| conv.dst = floats(4, &[1, 4, 4, 5])), "dst");
    refused(&conv(&|conv| conv.bias = Some(floats(3, &[4]))), "bias");
    let to_bytes = |scale: View| {
        move |conv: &mut Conv| {
            conv.to_bytes = Some(ToBytes {
                scale,
                zero_point: 7,
            });
            conv.dst = view(4, DType::U8, &[1, 4, 4, 5]);
            conv.bias = Some(floats(3, &[4]));
        }
    };
    assert_eq!(conv(&to_bytes(floats(5, &[4]))).validate(), Ok(()));
    refused(&conv(&to_bytes(floats(5, &[5]))), "scale");
    refused(&conv(&to_bytes(view(5, DType::I32, &[4]))), "scale");
}

#[test]
fn a_convolution_has_the_sizes_that_its_window_makes() {
    let slide = Slide::new(2);
    all_operands_matter(&conv(false, &[1, 4, 4], slide), &[]);
    let wide = Slide { stride: 3, ..slide };
    // Of what is spread from five elements, up to two more may follow.
    for size in 14..=16 {
        assert_eq!(conv(true, &[1, 4, size], wide).validate(), Ok(()));
    }
    for size in [13, 17] {
        refused(&conv(true, &[1, 4, size], wide), "dst");
    }
    for groups in [0, 3] {
        let Op::Conv(mut parts) = conv(false, &[1, 4, 4], slide) else {
            unreachable!();
        };
        parts.groups = groups;
        refused(&Op::Conv(parts), "groups");
    }
}

#[test]
fn a_pool_of_all_is_a_reduction_and_no_other_is() {
    let pool = |kind, slide: Slide, size| Pool {
        kind,
        src: floats(1, &[2, 3, 4]),
        dst: floats(2, &[2, 3, size]),
        indices: None,
        window: Window::new(&[slide]).unwrap(),
    };
    let all = pool(PoolKind::Max, Slide::new(4), 1);
    assert_eq!(
        all.as_reduction().map(|(kind, _)| kind),
        Some(ReduceKind::Max)
    );
    let mean = PoolKind::Mean {
        count_padding: false,
    };
    let mean = pool(mean, Slide::new(4), 1).as_reduction();
    assert_eq!(mean, Some((ReduceKind::Mean, Axes::new(&[2]).unwrap())));
    assert_eq!(
        pool(PoolKind::Lp(2.0), Slide::new(4), 1).as_reduction(),
        None
    );
    let padded = Slide {
        after: 1,
        ..Slide::new(4)
    };
    for other in [
        pool(PoolKind::Max, Slide::new(3), 2),
        pool(PoolKind::Max, padded, 2),
        pool(PoolKind::Max, padded, 1),
        pool(PoolKind::Max, Slide::new(3), 1),
    ] {
        assert_eq!(other.as_reduction(), None, "{other:?}");
    }
    let indexed = Pool {
        indices: Some(view(3, DType::I64, &[2, 3, 1])),
        ..all
    };
    assert_eq!(indexed.as_reduction(), None);
    all_operands_matter(&Op::Pool(indexed), &[]);
}

#[test]
fn what_is_resized_has_a_type_and_finite_parameters() {
    let resize_of = |dtype, rows: [usize; 2], along: [Along; 2], interpolation, antialias| {
        Op::Resize(Resize {
            src: view(1, dtype, &[rows[0], 3]),
            dst: view(2, dtype, &[rows[1], 6]),
            along: Dims::new(&along).unwrap(),
            interpolation,
            antialias,
            exclude_outside: false,
            outside: None,
        })
    };
    let resize = |dtype, along, interpolation, antialias| {
        resize_of(dtype, [2, 2], along, interpolation, antialias)
    };
    let usual = [Along::default(); 2];
    let nearest = Interpolation::Nearest(Rounding::Floor);
    let linear = Interpolation::Linear;
    assert_eq!(resize(DType::I64, usual, nearest, false).validate(), Ok(()));
    assert_eq!(resize(DType::F32, usual, linear, true).validate(), Ok(()));
    refused(&resize(DType::F32, usual, nearest, true), "antialias");
    let rows = |rows| resize_of(DType::F32, rows, usual, linear, false);
    refused(&rows([0, 2]), "src");
    for none in [[0, 0], [2, 0]] {
        assert_eq!(rows(none).validate(), Ok(()));
    }
    refused(&resize(DType::I64, usual, linear, false), "src");
    let [scale, shift] = [
        Along {
            scale: f64::NAN,
            ..Along::default()
        },
        Along {
            shift: f64::INFINITY,
            ..Along::default()
        },
    ];
    for odd in [scale, shift] {
        refused(&resize(DType::F32, [usual[0], odd], linear, false), "along");
    }
    let cubic = Interpolation::Cubic(f64::NAN);
    refused(&resize(DType::F32, usual, cubic, false), "interpolation");
}

#[test]
fn what_is_drawn_is_bounded() {
    let random = |distribution, dtype| {
        Op::Random(Random {
            distribution,
            dst: view(1, dtype, &[4]),
            seed: 1,
            offset: 0,
        })
    };
    let uniform = |low, high| Distribution::Uniform { low, high };
    let normal = |mean, deviation| Distribution::Normal { mean, deviation };
    let odd = f64::INFINITY;
    for right in [uniform(0.0, 1.0), uniform(1.0, 1.0), normal(-1.0, 0.0)] {
        assert_eq!(random(right, DType::F32).validate(), Ok(()), "{right:?}");
    }
    for wrong in [
        uniform(1.0, 0.0),
        uniform(0.0, odd),
        uniform(f64::MIN, f64::MAX),
        normal(odd, 1.0),
        normal(0.0, -1.0),
        normal(0.0, odd),
        Distribution::Exponential { rate: 0.0 },
        Distribution::Exponential { rate: odd },
        Distribution::Bernoulli { probability: 1.5 },
    ] {
        assert!(random(wrong, DType::F32).validate().is_err(), "{wrong:?}");
    }
    for (low, high, is_right) in [(0, 2, true), (2, 2, false), (3, 2, false)] {
        let integers = Distribution::Integers { low, high };
        assert_eq!(random(integers, DType::I64).validate().is_ok(), is_right);
        assert!(random(integers, DType::Bool).validate().is_err());
    }
    assert!(random(Distribution::Bits, DType::F32).validate().is_err());
}

#[test]
fn attention_has_heads_that_divide_and_operands_that_fit() {
    let attention = |heads, key_heads| {
        Op::Attention(Box::new(Attention {
            query: floats(1, &[2, heads, 3, 4]),
            key: floats(2, &[2, key_heads, 5, 4]),
            value: floats(3, &[2, key_heads, 5, 6]),
            mask: None,
            out: floats(4, &[2, heads, 3, 6]),
            scale: 1.0,
            causal: None,
            softcap: 0.0,
        }))
    };
    all_operands_matter(&attention(6, 2), &[]);
    assert_eq!(attention(0, 2).validate(), Ok(()));
    refused(&attention(6, 4), "key");
    refused(&attention(6, 0), "key");
}

#[test]
fn what_is_found_has_room_for_all() {
    let found = NonZero {
        src: floats(1, &[2, 3]),
        indices: view(2, DType::I64, &[2, 6]),
        count: view(3, DType::I64, &[1]),
    };
    let op = Op::NonZero(found);
    assert_eq!(op.validate(), Ok(()));
    let wrong = [
        ("indices", view(2, DType::I64, &[2, 5])),
        ("indices", view(2, DType::I64, &[3, 6])),
        ("indices", view(2, DType::I32, &[2, 6])),
        ("count", view(3, DType::I64, &[2])),
        ("count", view(3, DType::I32, &[1])),
    ];
    for (argument, wrong) in wrong {
        let op: Result<Op> = op
            .try_map(&mut |name, _, view: &View| Ok(if name == argument { wrong } else { *view }));
        refused(&op.unwrap(), argument);
    }
}

#[test]
fn only_staging_memory_has_an_address_of_the_hosts() {
    let memory = |handle, space| Memory {
        handle,
        bytes: 8,
        space,
    };
    let address = memory(4096, Space::Staging).staging_address().unwrap();
    assert_eq!(address.addr().get(), 4096);
    for none in [memory(4096, Space::Device), memory(0, Space::Staging)] {
        assert!(none.staging_address().is_err());
    }
}

#[test]
fn a_tick_that_was_never_appended_is_not_waited_for() {
    assert_eq!(commands::check_wait(3, 3), Ok(()));
    assert!(commands::check_wait(4, 3).is_err());
}

#[test]
fn operands_fit_each_other() {
    let (f, i64s) = (floats, |handle, shape: &[usize]| {
        view(handle, DType::I64, shape)
    });
    let axis = 1;
    let right: Vec<(Op, Vec<(&str, usize)>)> = vec![
        (
            Op::Reduce {
                kind: ReduceKind::Sum,
                src: f(1, &[2, 3]),
                dst: f(2, &[2, 1]),
                axes: Axes::new(&[1]).unwrap(),
            },
            vec![("src", 1)],
        ),
        (
            Op::Softmax {
                src: f(1, &[2, 3]),
                dst: f(2, &[2, 3]),
                axis,
                log: false,
            },
            vec![],
        ),
        (
            Op::Norm(Norm {
                kind: NormKind::Layer,
                src: f(1, &[2, 3]),
                added: Some(f(5, &[2, 3])),
                sum: Some(f(6, &[2, 3])),
                dst: f(2, &[2, 3]),
                scale: Some(f(3, &[3])),
                bias: Some(f(4, &[3])),
                axis,
                epsilon: 1e-5,
            }),
            vec![],
        ),
        (
            Op::MatMul(MatMul {
                a: f(1, &[2, 3]),
                b: f(2, &[3, 4]),
                out: f(3, &[2, 4]),
                bias: Some(f(4, &[4])),
                activation: Activation::None,
                alpha: 1.0,
            }),
            vec![],
        ),
        (
            Op::Gather(Gather {
                indexing: Indexing::Axis(axis),
                src: f(1, &[2, 3]),
                indices: i64s(2, &[4]),
                dst: f(3, &[2, 4]),
            }),
            vec![("src", 1)],
        ),
        (
            Op::Scatter(Scatter {
                indexing: Indexing::Elements(axis),
                combine: Combine::Add,
                src: f(1, &[2, 3]),
                indices: i64s(2, &[2, 4]),
                updates: f(3, &[2, 4]),
                dst: f(4, &[2, 3]),
            }),
            vec![],
        ),
        (
            Op::Scan(Scan {
                kind: ScanKind::Sum,
                src: f(1, &[2, 3]),
                dst: f(2, &[2, 3]),
                axis,
                exclusive: false,
                reverse: false,
            }),
            vec![],
        ),
        (
            Op::Sort(Sort {
                src: f(1, &[2, 3]),
                values: f(2, &[2, 2]),
                indices: Some(i64s(3, &[2, 2])),
                axis,
                descending: false,
            }),
            vec![("src", 1)],
        ),
        (
            Op::Rnn(Box::new(Rnn {
                cell: Cell::Lstm,
                direction: Direction::Forward,
                src: f(1, &[5, 2, 3]),
                weight: f(2, &[1, 16, 3]),
                recurrent: f(3, &[1, 16, 4]),
                bias: Some(f(4, &[1, 32])),
                peephole: Some(f(5, &[1, 12])),
                lengths: Some(view(6, DType::I32, &[2])),
                hidden: Some(f(7, &[1, 2, 4])),
                cell_state: Some(f(8, &[1, 2, 4])),
                dst: f(9, &[5, 1, 2, 4]),
                last_hidden: Some(f(10, &[1, 2, 4])),
                last_cell: Some(f(11, &[1, 2, 4])),
            })),
            vec![],
        ),
        (
            Op::Linalg(Linalg::LuSolve {
                factors: f(1, &[3, 3]),
                pivots: view(2, DType::I32, &[3]),
                rhs: f(3, &[3, 2]),
                dst: f(4, &[3, 2]),
            }),
            vec![],
        ),
        (
            Op::Linalg(Linalg::Triangular {
                src: f(1, &[3, 3]),
                rhs: f(2, &[3, 2]),
                dst: f(3, &[3, 2]),
                upper: true,
                unit: false,
            }),
            vec![],
        ),
        (
            Op::Linalg(Linalg::Cholesky {
                src: f(1, &[3, 3]),
                dst: f(2, &[3, 3]),
            }),
            vec![],
        ),
        (
            Op::Linalg(Linalg::Lu {
                src: f(1, &[3, 3]),
                factors: f(2, &[3, 3]),
                pivots: view(3, DType::I32, &[3]),
            }),
            vec![],
        ),
    ];
    for (op, may) in &right {
        all_operands_matter(op, may);
    }
}
