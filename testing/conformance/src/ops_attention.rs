//! Attention against the reference.

use streampool_device::{Attention, DType, Op, OpKind};

use crate::execute::{Example, check};
use crate::fixture::Fixture;
use crate::num::Num;
use crate::operand::Operand;
use crate::random::{FLOATS, operand, read_operand, target};
use crate::rng::Rng;

const PLAIN: Attention<usize> = Attention {
    query: 0,
    key: 1,
    value: 2,
    mask: None,
    out: 3,
    scale: 1.0,
    causal: None,
    softcap: 0.0,
};

fn real(rng: &mut Rng) -> Num {
    Num::Float(rng.real(-1.0, 1.0))
}

fn attend(fixture: &Fixture, op: Attention<usize>, operands: &[Operand]) {
    check(
        fixture,
        &mut fixture.lane(),
        &Op::Attention(Box::new(op)),
        operands,
    );
}

/// Row-major operands of so many heads, queries, keys and elements.
fn row_major(
    rng: &mut Rng,
    dtype: DType,
    heads: usize,
    [queries, keys, width, value_width]: [usize; 4],
) -> Vec<Operand> {
    let mut of = |shape: [usize; 4]| {
        let count: usize = shape.iter().product();
        let values: Vec<Num> = (0..count).map(|_| real(rng)).collect();
        Operand::of(dtype, &shape, values)
    };
    let (query, key) = (of([1, heads, queries, width]), of([1, heads, keys, width]));
    let value = of([1, heads, keys, value_width]);
    let out = Operand::row_major(dtype, &[1, heads, queries, value_width]);
    vec![query, key, value, out]
}

/// Numbers of queries, keys and elements around the blocks that a device may work in, causal too.
pub fn attention_of_block_lengths(fixture: &Fixture) {
    if !fixture.supports(OpKind::Attention) {
        return;
    }
    let mut rng = Rng::new(70);
    for dtype in FLOATS {
        for shape in [
            [1, 1, 1, 1],
            [1, 300, 64, 64],
            [1, 700, 72, 80],
            [4, 300, 65, 130],
            [15, 17, 8, 8],
            [16, 16, 16, 16],
            [17, 15, 33, 31],
            [31, 64, 32, 32],
            [32, 65, 40, 24],
            [63, 33, 64, 64],
            [64, 128, 64, 64],
            [65, 129, 65, 63],
            [127, 31, 16, 129],
            [129, 257, 32, 40],
            [5, 9, 128, 128],
            [20, 70, 256, 256],
            [3, 4, 260, 300],
        ] {
            let operands = row_major(&mut rng, dtype, 2, shape);
            let scale = 1.0 / (shape[2] as f64).sqrt();
            attend(fixture, Attention { scale, ..PLAIN }, &operands);
            let causal = Some(rng.between(-3, 20));
            attend(
                fixture,
                Attention {
                    scale,
                    causal,
                    ..PLAIN
                },
                &operands,
            );
        }
    }
    let operands = row_major(&mut rng, DType::F32, 1, [210, 520, 24, 24]);
    attend(fixture, PLAIN, &operands);
}

/// Attention over any layouts, with shared heads, a mask, a bound or a cap.
pub(crate) fn any_attention(rng: &mut Rng, dtype: DType) -> Example {
    let [batch, key_heads, shares] = [0; 3].map(|_| 1 + rng.below(3));
    let heads = key_heads * shares;
    let mut size = |some: usize, many: usize| {
        let most = if rng.chance(4) { many } else { some };
        1 + rng.below(most)
    };
    let [queries, keys] = [0; 2].map(|_| size(12, 90));
    let [width, value_width] = [0; 2].map(|_| size(20, 70));
    let mut op = Attention {
        scale: rng.pick(&[1.0, 0.25, -0.5]),
        causal: rng.chance(3).then(|| rng.between(-4, 30)),
        softcap: if rng.chance(4) { 1.5 } else { 0.0 },
        ..PLAIN
    };
    let mut operands = vec![
        read_operand(rng, dtype, &[batch, heads, queries, width], real),
        read_operand(rng, dtype, &[batch, key_heads, keys, width], real),
        read_operand(rng, dtype, &[batch, key_heads, keys, value_width], real),
        target(rng, dtype, &[batch, heads, queries, value_width]),
    ];
    if rng.chance(2) {
        op.mask = Some(4);
        let full = [batch, heads, queries, keys];
        let shape: Vec<usize> = full[rng.below(4)..]
            .iter()
            .map(|&size| if rng.chance(3) { 1 } else { size })
            .collect();
        operands.push(if rng.chance(2) {
            read_operand(rng, DType::Bool, &shape, |rng| {
                Num::whole(rng.between(0, 1))
            })
        } else {
            read_operand(rng, dtype, &shape, |rng| {
                Num::Float(if rng.chance(4) {
                    f64::NEG_INFINITY
                } else {
                    rng.real(-2.0, 2.0)
                })
            })
        });
    }
    (Op::Attention(Box::new(op)), operands)
}

/// Operands of any layout with heads that are shared, masks that broadcast, bounds and a cap.
pub fn attention_of_any_layout(fixture: &Fixture) {
    if !fixture.supports(OpKind::Attention) {
        return;
    }
    let mut lane = fixture.lane();
    let mut rng = Rng::new(71);
    for _ in 0..300 {
        let dtype = rng.pick(&FLOATS);
        let (op, operands) = any_attention(&mut rng, dtype);
        check(fixture, &mut lane, &op, &operands);
    }
}

/// Dimensions of zero; queries that attend to no key give zeros, whatever was there before.
pub fn attention_to_nothing(fixture: &Fixture) {
    if !fixture.supports(OpKind::Attention) {
        return;
    }
    let mut rng = Rng::new(72);
    for dtype in FLOATS {
        for shape in [
            [0, 3, 2, 2],
            [3, 0, 2, 2],
            [3, 4, 0, 2],
            [3, 4, 2, 0],
            [0; 4],
        ] {
            attend(fixture, PLAIN, &row_major(&mut rng, dtype, 2, shape));
        }
        attend(fixture, PLAIN, &row_major(&mut rng, dtype, 0, [2, 3, 4, 5]));
        let shape = [70, 140, 16, 20];
        let mut operands = row_major(&mut rng, dtype, 1, shape);
        operands[3].set_all(std::iter::repeat_n(Num::Float(f64::NAN), 70 * 20));
        for causal in [-200, -70, -35].map(Some) {
            attend(fixture, Attention { causal, ..PLAIN }, &operands);
        }
        let empty_rows = |index: usize| (index / 140).is_multiple_of(3);
        let kept = (0..70 * 140).map(|index| Num::whole(i64::from(!empty_rows(index))));
        operands.push(Operand::of(DType::Bool, &[1, 1, 70, 140], kept));
        let op = Attention {
            mask: Some(4),
            ..PLAIN
        };
        attend(fixture, op, &operands);
        let added = (0..70 * 140).map(|index| {
            Num::Float(if empty_rows(index) {
                f64::NEG_INFINITY
            } else {
                0.5
            })
        });
        operands[4] = Operand::of(dtype, &[1, 1, 70, 140], added);
        attend(fixture, op, &operands);
    }
}

/// Scores of minus infinity alone give NaN, as any softmax of them, but zeros where a mask lets a query attend to nothing.
pub fn attention_without_scores(fixture: &Fixture) {
    if !fixture.supports(OpKind::Attention) {
        return;
    }
    let mut rng = Rng::new(76);
    let (queries, keys) = (70, 70);
    for dtype in fixture.of(FLOATS) {
        for value_width in [20, 300] {
            let mut operands = row_major(&mut rng, dtype, 1, [queries, keys, 1, value_width]);
            let special = |row: usize| if row % 5 < 2 { f64::NEG_INFINITY } else { 1.0 };
            operands[0].set_all((0..queries).map(|row| Num::Float(special(row))));
            operands[1].set_all((0..keys).map(|_| Num::Float(1.0)));
            attend(fixture, PLAIN, &operands);
            let causal = Some(-4);
            attend(fixture, Attention { causal, ..PLAIN }, &operands);
            let masked = Attention {
                mask: Some(4),
                ..PLAIN
            };
            // Of some rows all, of others nothing, and of others all but the first or the last key.
            let kept = |index: usize| match (index / keys % 4, index % keys) {
                (0, _) => false,
                (1, key) => key == 0,
                (2, key) => key == keys - 1,
                _ => true,
            };
            let kept = |rows: usize| (0..rows * keys).map(kept);
            for rows in [1, queries] {
                let shape = [1, 1, rows, keys];
                let bools = kept(rows).map(|kept| Num::whole(kept.into()));
                operands.push(Operand::of(DType::Bool, &shape, bools));
                attend(fixture, masked, &operands);
                let numbers = kept(rows).map(|kept| if kept { -0.5 } else { f64::NEG_INFINITY });
                operands[4] = Operand::of(dtype, &shape, numbers.map(Num::Float));
                attend(fixture, masked, &operands);
                operands.pop();
            }
        }
    }
}

/// Distances at the ends of their type count as every key and as none.
pub fn attention_at_any_distance(fixture: &Fixture) {
    if !fixture.supports(OpKind::Attention) {
        return;
    }
    let mut rng = Rng::new(73);
    for dtype in fixture.of(FLOATS) {
        let operands = row_major(&mut rng, dtype, 1, [9, 70, 16, 16]);
        let mut results = Vec::new();
        for distance in [i64::MAX, 1 << 40, i64::MIN, -1 << 40] {
            let op = Attention {
                causal: Some(distance),
                ..PLAIN
            };
            let op = Op::Attention(Box::new(op));
            let bits = crate::execute::bits(fixture, &mut fixture.lane(), &op, &operands);
            results.push(bits[3].clone());
        }
        assert_eq!(results[0], results[1], "every key");
        assert_eq!(results[2], results[3], "no key");
        attend(
            fixture,
            Attention {
                causal: Some(1 << 40),
                ..PLAIN
            },
            &operands,
        );
        attend(
            fixture,
            Attention {
                causal: Some(-1 << 40),
                ..PLAIN
            },
            &operands,
        );
    }
}

/// Scores far apart neither overflow nor vanish, and NaN and infinity reach the queries they belong to.
pub fn attention_of_extremes(fixture: &Fixture) {
    if !fixture.supports(OpKind::Attention) {
        return;
    }
    let mut rng = Rng::new(74);
    for dtype in FLOATS {
        let shape = [40, 150, 16, 16];
        let mut operands = row_major(&mut rng, dtype, 1, shape);
        // Whole numbers, so that large scores are exact in every type.
        for index in [0, 1] {
            let count = operands[index].layout.elements();
            let values: Vec<Num> = (0..count).map(|_| Num::whole(rng.between(-3, 3))).collect();
            operands[index].set_all(values.iter().map(|value| Num::Float(value.float())));
        }
        attend(
            fixture,
            Attention {
                scale: 64.0,
                ..PLAIN
            },
            &operands,
        );
        for special in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
            for (operand, place) in [(0, 5 * 16 + 3), (1, 130 * 16 + 2), (2, 77 * 16 + 9)] {
                let mut changed = operands.clone();
                let mut values = changed[operand].values();
                values[place] = Num::Float(special);
                changed[operand].set_all(values);
                attend(
                    fixture,
                    Attention {
                        scale: 0.0625,
                        ..PLAIN
                    },
                    &changed,
                );
            }
        }
    }
}

/// Strides as those of a packed projection: the heads of one tensor beside each other.
pub fn attention_of_packed_projections(fixture: &Fixture) {
    if !fixture.supports(OpKind::Attention) {
        return;
    }
    let mut rng = Rng::new(75);
    for dtype in FLOATS {
        for width in [16, 20, 32, 64] {
            let [batch, heads, length] = [2, 3, 70];
            let row = 3 * heads * width;
            let strides = [length * row, width, row, 1].map(|stride| stride as isize);
            let mut of = |part: usize| {
                let shape = [batch, heads, length, width];
                let layout =
                    streampool_device::Layout::strided(&shape, &strides, part * heads * width);
                let mut operand = Operand::blank(dtype, layout.expect("a layout"));
                let values: Vec<Num> = (0..batch * heads * length * width)
                    .map(|_| real(&mut rng))
                    .collect();
                operand.set_all(values);
                operand
            };
            let mut operands = vec![of(0), of(1), of(2)];
            let out = [0, width, heads * width, 1].map(|stride| stride as isize);
            let out = [(length * heads * width) as isize, out[1], out[2], 1];
            let layout =
                streampool_device::Layout::strided(&[batch, heads, length, width], &out, 0);
            operands.push(Operand::blank(dtype, layout.expect("a layout")));
            let scale = 0.2;
            attend(fixture, Attention { scale, ..PLAIN }, &operands);
            attend(
                fixture,
                Attention {
                    scale,
                    causal: Some(0),
                    ..PLAIN
                },
                &operands,
            );
        }
    }
    let mut lane = fixture.lane();
    let operands = [
        operand(&mut rng, DType::F16, &[1, 2, 40, 32], real),
        operand(&mut rng, DType::F16, &[1, 2, 40, 32], real),
        operand(&mut rng, DType::F16, &[1, 2, 40, 32], real),
        target(&mut rng, DType::F16, &[1, 2, 40, 32]),
    ];
    check(
        fixture,
        &mut lane,
        &Op::Attention(Box::new(PLAIN)),
        &operands,
    );
}
