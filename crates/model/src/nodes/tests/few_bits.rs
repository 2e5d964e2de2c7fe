//! Products with weights of few bits, and what ONNX Runtime makes of quantised numbers, against sums of `f64`.

use super::{Given, byte, bytes, expected, floats, given, made, microsoft};

/// As [`floats`] has them.
fn float(place: usize, seed: usize) -> f64 {
    ((place * 7 + seed * 5) % 13) as f64 / 4.0 - 1.5
}

/// Where the zero points of blocks are.
#[derive(Clone, Copy, PartialEq)]
enum Zeros {
    Middle,
    Packed,
    Floats,
}

/// The product of `[2, k]` and a packed matrix of `n` rows, as the operator and as plain sums have it.
fn product(bits: usize, size: usize, (n, k): (usize, usize), zeros: Zeros, bias: bool) {
    let blocks = k.div_ceil(size);
    let per_byte = 8 / bits;
    let zero_bytes = blocks.div_ceil(per_byte);
    let number = |bytes: &dyn Fn(usize) -> u8, row_bytes: usize, row: usize, place: usize| {
        let byte = bytes(row * row_bytes + place / per_byte);
        f64::from(byte >> (place % per_byte * bits) & (((1u16 << bits) - 1) as u8))
    };
    let row_bytes = blocks * size / per_byte;
    let scale = |place: usize| 0.125 + (place % 5) as f64 / 16.0;
    let zero = |row: usize, block: usize| match zeros {
        Zeros::Middle => (1 << (bits - 1)) as f64,
        Zeros::Packed => number(&|place| byte(place, 3), zero_bytes, row, block),
        Zeros::Floats => float(row * blocks + block, 4),
    };
    let weight = |row: usize, column: usize| {
        let block = column / size;
        let value = number(&|place| byte(place, 2), row_bytes, row, column);
        (value - zero(row, block)) * scale(row * blocks + block)
    };
    let cell = |place: usize| {
        let (line, row) = (place / n, place % n);
        let sum: f64 = (0..k)
            .map(|column| float(line * k + column, 1) * weight(row, column))
            .sum();
        sum + if bias { float(row, 5) } else { 0.0 }
    };
    let values: Vec<f64> = (0..2 * n).map(cell).collect();
    let zeros: Option<Given> = match zeros {
        Zeros::Middle => None,
        Zeros::Packed => bytes(&[n * zero_bytes], 3),
        Zeros::Floats => floats(&[n, blocks], 4),
    };
    microsoft("MatMulNBits")
        .int("K", k as i64)
        .int("N", n as i64)
        .int("bits", bits as i64)
        .int("block_size", size as i64)
        .check(
            &[
                floats(&[2, k], 1),
                bytes(&[n, blocks, size / per_byte], 2),
                made(&[n * blocks], |place| scale(place) as f32),
                zeros,
                None,
                if bias { floats(&[n], 5) } else { None },
            ],
            &[expected(&[2, n], &values)],
        );
}

#[test]
fn few_bits_are_widened_block_by_block() {
    for bits in [2, 4, 8] {
        for zeros in [Zeros::Middle, Zeros::Packed, Zeros::Floats] {
            product(bits, 16, (3, 32), zeros, false);
            // The last block is not full, and there is an odd number of them.
            product(bits, 16, (5, 40), zeros, true);
        }
    }
    product(4, 32, (4, 20), Zeros::Packed, false);
}

#[test]
fn a_quantised_gemm_adds_its_bias_before_it_scales() {
    let (a, b) = (
        |place| f64::from(byte(place, 1)) - 120.0,
        |place| f64::from(byte(place, 2)) - 100.0,
    );
    let bias = [7.0, -40.0];
    let sum = |row: usize, column: usize| -> f64 {
        let product: f64 = (0..3).map(|k| a(row * 3 + k) * b(column * 3 + k)).sum();
        (product + bias[column]) * 0.5 * 0.0625 * [0.03125, 0.25][column]
    };
    let values: Vec<f64> = (0..4).map(|place| sum(place / 2, place % 2)).collect();
    let inputs = || {
        vec![
            bytes(&[2, 3], 1),
            given::<f32>(&[], &[0.0625]),
            given::<u8>(&[], &[120]),
            bytes(&[2, 3], 2),
            given::<f32>(&[2], &[0.03125, 0.25]),
            given::<u8>(&[2], &[100, 100]),
            given::<i32>(&[2], &[7, -40]),
        ]
    };
    let gemm = || microsoft("QGemm").int("transB", 1).float("alpha", 0.5);
    gemm().check(&inputs(), &[expected(&[2, 2], &values)]);
    let back = |value: &f64| (value / 4.0 + 128.0).round_ties_even().clamp(0.0, 255.0);
    let quantised: Vec<f64> = values.iter().map(back).collect();
    let mut scaled = inputs();
    scaled.extend([given::<f32>(&[], &[4.0]), given::<u8>(&[], &[128])]);
    gemm().check(&scaled, &[expected(&[2, 2], &quantised)]);
}

#[test]
fn quantised_means_and_choices() {
    let value = |place: usize| (f64::from(byte(place, 1)) - 120.0) * 0.0625;
    let back = |value: f64| {
        (value / 0.03125 + 128.0)
            .round_ties_even()
            .clamp(0.0, 255.0)
    };
    let x = |shape: &[usize]| {
        [
            bytes(shape, 1),
            given::<f32>(&[], &[0.0625]),
            given::<u8>(&[], &[120]),
            given::<f32>(&[], &[0.03125]),
            given::<u8>(&[], &[128]),
        ]
    };
    let rows: Vec<f64> = (0..2)
        .map(|row| back((0..3).map(|k| value(row * 3 + k)).sum::<f64>() / 3.0))
        .collect();
    microsoft("QLinearReduceMean")
        .ints("axes", &[1])
        .int("keepdims", 0)
        .check(&x(&[2, 3]), &[expected(&[2], &rows)]);
    let windows: Vec<f64> = (0..2)
        .map(|row| back((value(row * 3) + value(row * 3 + 1)) / 2.0))
        .collect();
    microsoft("QLinearAveragePool")
        .ints("kernel_shape", &[2])
        .ints("strides", &[2])
        .check(&x(&[1, 2, 3]), &[expected(&[1, 2, 1], &windows)]);
    let other = |place: usize| (f64::from(byte(place, 2)) - 100.0) * 0.125;
    let chosen: Vec<f64> = (0..4)
        .map(|place| {
            back(if place % 2 == 0 {
                value(place)
            } else {
                other(place)
            })
        })
        .collect();
    microsoft("QLinearWhere").check(
        &[
            given::<bool>(&[4], &[true, false, true, false]),
            bytes(&[4], 1),
            given::<f32>(&[], &[0.0625]),
            given::<u8>(&[], &[120]),
            bytes(&[4], 2),
            given::<f32>(&[], &[0.125]),
            given::<u8>(&[], &[100]),
            given::<f32>(&[], &[0.03125]),
            given::<u8>(&[], &[128]),
        ],
        &[expected(&[4], &chosen)],
    );
}
