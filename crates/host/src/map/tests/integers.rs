//! Every function of two values, comparison, cast and integer function, on every instruction set.

use streampool_device::{Compare, DType, Expr, Unary};

use super::reference::{Element, binary, cast, compare, evaluate, round_to};
use super::{BINARY, COMPARE, UNARY};
use super::{Numbers, on_each_level};

/// Values of a type that include its bounds and awkward ones.
fn samples(dtype: DType, count: usize, seed: u64) -> Vec<Element> {
    let mut numbers = Numbers::new(seed);
    (0..count)
        .map(|_| {
            let bits = numbers.next();
            let pick = numbers.below(8);
            match dtype {
                DType::Bool => Element::Bool(bits & 1 == 1),
                _ if dtype.is_float() => {
                    let special = [
                        0.0,
                        -0.0,
                        f64::NAN,
                        f64::INFINITY,
                        f64::NEG_INFINITY,
                        255.5,
                        -128.5,
                        1e19,
                    ];
                    let x = match pick {
                        0 => special[numbers.below(8)],
                        1 => f64::from(f32::from_bits(bits as u32)),
                        2 => (bits as i64 >> 40) as f64 / 16.0,
                        _ => (bits as i64 >> 54) as f64 / 8.0,
                    };
                    Element::Float(round_to(x, dtype))
                }
                _ => {
                    let special = [
                        0,
                        1,
                        -1,
                        i64::MIN,
                        i64::MAX,
                        i64::from(i32::MIN),
                        i64::from(i32::MAX),
                        i64::from(i16::MIN),
                    ];
                    let x = match pick {
                        0 => special[numbers.below(8)],
                        1 => bits as i64,
                        2 => bits as i64 >> 32,
                        _ => bits as i64 >> 59,
                    };
                    cast(Element::Int(i128::from(x)), dtype)
                }
            }
        })
        .collect()
}

fn bytes(elements: &[Element], dtype: DType) -> Vec<u8> {
    elements
        .iter()
        .flat_map(|element| element.write(dtype))
        .collect()
}

const COUNT: usize = 1500;

#[test]
fn functions_of_two_values() {
    for dtype in DType::ALL {
        let (xs, ys) = (samples(dtype, COUNT, 5), samples(dtype, COUNT, 6));
        let operands = [bytes(&xs, dtype), bytes(&ys, dtype)];
        for function in BINARY {
            let Ok(expr) = Expr::binary(function, dtype) else {
                continue;
            };
            for (level, results) in on_each_level(&expr, &[&operands[0], &operands[1]], COUNT) {
                for (index, got) in results[0].chunks(dtype.size()).enumerate() {
                    let (x, y) = (xs[index], ys[index]);
                    let got = Element::read(got, dtype);
                    let want = match (function, x, y) {
                        (streampool_device::Binary::Pow, Element::Float(x), Element::Float(y)) => {
                            Element::Float(round_to(f64::powf(x, y), dtype))
                        }
                        (
                            streampool_device::Binary::Atan2,
                            Element::Float(x),
                            Element::Float(y),
                        ) => Element::Float(round_to(f64::atan2(x, y), dtype)),
                        _ => binary(function, x, y, dtype),
                    };
                    let close = match (got, want) {
                        (Element::Float(got), Element::Float(want)) => {
                            (got / want - 1.0).abs() < 1e-6
                        }
                        _ => false,
                    };
                    let exact = !matches!(
                        function,
                        streampool_device::Binary::Pow | streampool_device::Binary::Atan2
                    );
                    assert!(
                        got.same(want) || close && !exact,
                        "{function:?}({x:?}, {y:?}) of {dtype} is {got:?}, not {want:?} on {level:?}"
                    );
                }
            }
        }
    }
}

#[test]
fn comparisons_and_choices() {
    for dtype in DType::ALL {
        let (xs, ys) = (samples(dtype, COUNT, 7), samples(dtype, COUNT, 8));
        let operands = [bytes(&xs, dtype), bytes(&ys, dtype)];
        for comparison in COMPARE {
            let mut expr = Expr::builder();
            let x = expr.input(dtype).unwrap();
            let y = expr.input(dtype).unwrap();
            let holds = expr.compare(comparison, x, y).unwrap();
            let chosen = expr.select(holds, x, y).unwrap();
            let expr = expr.finish(&[holds, chosen]).unwrap();
            for (level, results) in on_each_level(&expr, &[&operands[0], &operands[1]], COUNT) {
                for index in 0..COUNT {
                    let (x, y) = (xs[index], ys[index]);
                    let want = compare(comparison, x, y);
                    assert_eq!(
                        results[0][index],
                        u8::from(want),
                        "{comparison:?} {x:?} {y:?} {level:?}"
                    );
                    let size = dtype.size();
                    let got = Element::read(&results[1][index * size..][..size], dtype);
                    assert!(
                        got.same(if want { x } else { y }),
                        "{comparison:?} of {dtype} on {level:?}"
                    );
                }
            }
        }
    }
}

#[test]
fn casts() {
    for from in DType::ALL {
        let xs = samples(from, COUNT, 9);
        for to in DType::ALL {
            let mut expr = Expr::builder();
            let x = expr.input(from).unwrap();
            let y = expr.cast(x, to).unwrap();
            let expr = expr.finish(&[y]).unwrap();
            for (level, results) in on_each_level(&expr, &[&bytes(&xs, from)], COUNT) {
                for (&x, got) in xs.iter().zip(results[0].chunks(to.size())) {
                    let (got, want) = (Element::read(got, to), cast(x, to));
                    assert!(
                        got.same(want),
                        "{x:?} of {from} to {to}: {got:?}, not {want:?} on {level:?}"
                    );
                }
            }
        }
    }
}

#[test]
fn functions_of_one_integer_or_truth_value() {
    for dtype in DType::ALL.into_iter().filter(|dtype| !dtype.is_float()) {
        let xs = samples(dtype, COUNT, 10);
        for function in UNARY {
            let Ok(expr) = Expr::unary(function, dtype) else {
                continue;
            };
            for (level, results) in on_each_level(&expr, &[&bytes(&xs, dtype)], COUNT) {
                for (&x, got) in xs.iter().zip(results[0].chunks(dtype.size())) {
                    let (got, want) = (Element::read(got, dtype), evaluate(&expr, &[x])[1]);
                    assert_eq!(got, want, "{function:?}({x:?}) of {dtype} on {level:?}");
                }
            }
        }
    }
}

#[test]
fn truth_values_are_zero_or_one_whatever_comes_in() {
    let dirty = [0u8, 1, 2, 128, 255, 0];
    let mut expr = Expr::builder();
    let x = expr.input(DType::Bool).unwrap();
    let y = expr.input(DType::Bool).unwrap();
    let not = expr.unary(Unary::Not, x).unwrap();
    let equal = expr.compare(Compare::Eq, x, y).unwrap();
    let number = expr.cast(x, DType::I32).unwrap();
    let and = expr.binary(streampool_device::Binary::And, x, y).unwrap();
    let expr = expr.finish(&[x, not, equal, number, and]).unwrap();
    for (_, results) in on_each_level(&expr, &[&dirty, &[1u8; 6]], 6) {
        assert_eq!(results[0], [0, 1, 1, 1, 1, 0]);
        assert_eq!(results[1], [1, 0, 0, 0, 0, 1]);
        assert_eq!(results[2], [0, 1, 1, 1, 1, 0]);
        let numbers = results[3]
            .chunks(4)
            .map(|bytes| Element::read(bytes, DType::I32));
        assert!(numbers.eq([0, 1, 1, 1, 1, 0].map(Element::Int)));
        assert_eq!(results[4], [0, 1, 1, 1, 1, 0]);
    }
}
