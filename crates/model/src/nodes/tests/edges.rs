//! Sizes, numbers and types at the edge of what operators take. The numbers expected are those of ONNX Runtime 1.32, those of
//! attention with windows also those of ONNX's reference.

use half::f16;

use super::{One, expected, given, onnx};

const NAN: f32 = f32::NAN;

fn halves(shape: &[usize], values: &[f32]) -> Option<super::Given> {
    let values: Vec<f16> = values.iter().map(|&value| f16::from_f32(value)).collect();
    given(shape, &values)
}

#[test]
fn a_cubic_at_the_border_repeats_the_edge() {
    let picture: Vec<f32> = (0..9).map(|place| (place * place) as f32 / 4.0).collect();
    let places = [-1.5f32, 0.0, 0.3, 0.9, 1.4, -0.8, 0.1, 1.2];
    for (corners, values) in [
        (0, [2.25, 15.251898, 0.496000, 13.198518]),
        (1, [2.085938, 12.959440, 1.795630, 13.567502]),
    ] {
        onnx("GridSample", 20)
            .string("mode", "cubic")
            .string("padding_mode", "border")
            .int("align_corners", corners)
            .check(
                &[
                    given(&[1, 1, 3, 3], &picture),
                    given(&[1, 2, 2, 2], &places),
                ],
                &[expected(&[1, 1, 2, 2], &values)],
            );
    }
}

fn attended(node: One, batch: usize, lengths: Option<&[i64]>, values: &[f64]) {
    let query = [1.0f32, 0.0, 2.0, 1.0, -1.0, 1.0].repeat(batch);
    let key = [1.0f32, 2.0, 0.0, 1.0, -1.0, 0.5, 2.0, 2.0].repeat(batch);
    let value = [1.0f32, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0].repeat(batch);
    let mut inputs = vec![
        given(&[batch, 1, 3, 2], &query),
        given(&[batch, 1, 4, 2], &key),
        given(&[batch, 1, 4, 2], &value),
    ];
    if let Some(lengths) = lengths {
        inputs.extend([None, None, None, given(&[batch], lengths)]);
    }
    node.check(&inputs, &[expected(&[batch, 1, 3, 2], values)]);
}

#[test]
fn attention_keeps_to_its_window() {
    let causal = [1.0, 2.0, 1.2140836, 2.2140834, 4.1749578, 5.1749578];
    attended(
        onnx("Attention", 25).int("left_window_size", 1),
        1,
        None,
        &[
            4.7529669, 5.7529669, 5.7588634, 6.7588634, 4.6524515, 5.6524515,
        ],
    );
    let window = onnx("Attention", 25).int("left_window_size", 1);
    attended(window.int("right_window_size", 0), 1, None, &causal);
    let window = onnx("Attention", 25).int("left_window_size", 1);
    let window = window.int("right_window_size", 1).int("is_causal", 1);
    attended(window, 1, None, &causal);
}

#[test]
fn causal_attention_counts_from_the_end_of_each_sequence() {
    let values = [
        1.6604769, 2.6604769, 1.2820239, 2.2820239, 3.7200353, 4.7200353, 0.0, 0.0, 1.0, 2.0, 2.0,
        3.0,
    ];
    let node = onnx("Attention", 24).int("is_causal", 1);
    attended(node, 2, Some(&[4, 2]), &values);
}

#[test]
fn weights_of_a_row_without_keys_are_zero() {
    let mask = [
        true, false, true, false, false, false, false, false, true, true, true, true,
    ];
    let query = [1.0f32, 0.0, 2.0, 1.0, -1.0, 1.0];
    let key = [1.0f32, 2.0, 0.0, 1.0, -1.0, 0.5, 2.0, 2.0];
    let value = [1.0f32, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0];
    let inputs = [
        given(&[1, 1, 3, 2], &query),
        given(&[1, 1, 4, 2], &key),
        given(&[1, 1, 4, 2], &value),
        given(&[3, 4], &mask),
    ];
    let weights = [
        0.8044297, 0.0, 0.1955703, 0.0, 0.0, 0.0, 0.0, 0.0, 0.2552852, 0.2552852, 0.3635565,
        0.1258731,
    ];
    let mixed = [1.7822813, 2.7822814, 0.0, 0.0, 3.7200353, 4.7200353];
    let outputs = [
        expected(&[1, 1, 3, 2], &mixed),
        None,
        None,
        expected(&[1, 1, 3, 4], &weights),
    ];
    let node = onnx("Attention", 24).int("qk_matmul_output_mode", 3);
    node.check(&inputs, &outputs);
    let node = onnx("Attention", 24).float("scale", -0.5);
    assert!(node.refused(&inputs, 1).contains("scale"));
}

#[test]
fn scales_make_sizes_in_their_own_type() {
    for (size, scale, made) in [(10, 0.7, 7), (5, 2.6, 13), (100, 0.29, 29)] {
        let x = || given(&[size], &vec![1.0f32; size]);
        let ones = vec![1.0; made];
        onnx("Resize", 13).check(
            &[x(), None, given(&[1], &[scale])],
            &[expected(&[made], &ones)],
        );
        if scale > 1.0 {
            onnx("Upsample", 9).check(&[x(), given(&[1], &[scale])], &[expected(&[made], &ones)]);
        }
    }
    for scale in [0.0, -1.0, NAN, f32::INFINITY] {
        let inputs = [given(&[2], &[1.0f32, 2.0]), None, given(&[1], &[scale])];
        let why = onnx("Resize", 13).refused(&inputs, 1);
        assert!(why.contains("a scale is"), "{why}");
    }
}

#[test]
fn halves_are_added_in_a_wider_type() {
    let x = || halves(&[1, 1, 2, 2], &[-600.0, -200.0, 200.0, 600.0]);
    let normal = [-1.3416408, -0.4472136, 0.4472136, 1.3416408];
    // The nearest halves are a little off.
    let normal = normal.map(|value| f64::from(f16::from_f64(value).to_f32()));
    let node = onnx("MeanVarianceNormalization", 13);
    node.check(&[x()], &[expected(&[1, 1, 2, 2], &normal)]);
    let node = onnx("GlobalLpPool", 18);
    node.check(&[x()], &[expected(&[1, 1, 1, 1], &[894.5])]);
    let large = |sign: f32| halves(&[1], &[sign * 60000.0]);
    let inputs = || [large(1.0), large(1.0), large(-1.0)];
    onnx("Sum", 13).check(&inputs(), &[expected(&[1], &[60000.0])]);
    onnx("Mean", 13).check(&inputs(), &[expected(&[1], &[20000.0])]);
}

#[test]
fn a_region_of_no_size_has_no_samples() {
    let picture: Vec<f32> = (0..16).map(|place| place as f32).collect();
    for (mode, values) in [
        ("half_pixel", [0.0; 4]),
        ("output_half_pixel", [6.25, 6.75, 8.25, 8.75]),
    ] {
        onnx("RoiAlign", 16)
            .int("output_height", 2)
            .int("output_width", 2)
            .int("sampling_ratio", 0)
            .string("coordinate_transformation_mode", mode)
            .check(
                &[
                    given(&[1, 1, 4, 4], &picture),
                    given(&[1, 4], &[1.0f32; 4]),
                    given(&[1], &[0i64]),
                ],
                &[expected(&[1, 1, 2, 2], &values)],
            );
    }
}

#[test]
fn no_number_meets_no_condition() {
    let x = || given(&[4], &[NAN, 1.0, -1.0, 0.25]);
    let node = onnx("Shrink", 9).float("lambd", 0.5).float("bias", 0.125);
    node.check(&[x()], &[expected(&[4], &[0.0, 0.875, -0.875, 0.0])]);
    let node = onnx("ThresholdedRelu", 10).float("alpha", 0.5);
    node.check(&[x()], &[expected(&[4], &[0.0, 1.0, 0.0, 0.0])]);
}

#[test]
fn the_mean_of_integers_is_whole() {
    let axes = || given(&[1], &[1i64]);
    let x = given(&[2, 3], &[1i32, 2, 2, -3, -4, -4]);
    let node = onnx("ReduceMean", 18);
    node.check(&[x, axes()], &[expected(&[2, 1], &[1.0, -3.0])]);
    let x = given(&[1, 2], &[(1i64 << 53) + 1, (1 << 53) + 3]);
    let node = onnx("ReduceMean", 18).int("keepdims", 0);
    let mean = ((1i64 << 53) + 2) as f64;
    node.check(&[x, axes()], &[expected(&[1], &[mean])]);
}

#[test]
fn the_largest_of_nothing_is_nowhere() {
    let x = given::<f32>(&[2, 0], &[]);
    onnx("Hardmax", 13).check(&[x], &[expected(&[2, 0], &[])]);
}

#[test]
fn padding_wraps_as_often_as_it_takes() {
    for (before, after, values) in [
        (
            3,
            4,
            &[1.0, 2.0, 3.0, 1.0, 2.0, 3.0, 1.0, 2.0, 3.0, 1.0][..],
        ),
        (7, 0, &[3.0, 1.0, 2.0, 3.0, 1.0, 2.0, 3.0, 1.0, 2.0, 3.0]),
        (
            0,
            8,
            &[1.0, 2.0, 3.0, 1.0, 2.0, 3.0, 1.0, 2.0, 3.0, 1.0, 2.0],
        ),
    ] {
        onnx("Pad", 19).string("mode", "wrap").check(
            &[
                given(&[3], &[1.0f32, 2.0, 3.0]),
                given(&[2], &[before, after as i64]),
            ],
            &[expected(&[values.len()], values)],
        );
    }
}

#[test]
fn what_counts_for_nothing_is_not_read() {
    let ones = || given(&[2, 2], &[1.0f32; 4]);
    onnx("Gemm", 13).float("beta", 0.0).check(
        &[ones(), ones(), given(&[2, 2], &[NAN; 4])],
        &[expected(&[2, 2], &[2.0; 4])],
    );
}

#[test]
fn as_many_parts_as_outputs() {
    let x = || given(&[3], &[1.0f32, 2.0, 3.0]);
    for parts in [3, 1 << 40] {
        let node = onnx("Split", 18).int("num_outputs", parts);
        let why = node.refused(&[x()], 2);
        assert!(why.contains("num_outputs"), "{why}");
    }
    let node = onnx("Split", 18).int("num_outputs", 2);
    let parts = [expected(&[2], &[1.0, 2.0]), expected(&[1], &[3.0])];
    node.check(&[x()], &parts);
}

#[test]
fn a_block_may_be_larger_than_its_axis() {
    let x = || given(&[1, 5], &[1.0f32, 2.0, 3.0, 4.0, 5.0]);
    let node = |block| {
        onnx("QuantizeLinear", 21)
            .int("axis", 1)
            .int("block_size", block)
    };
    let scales = || given(&[1, 2], &[0.5f32, 0.25]);
    let bytes = [2.0, 4.0, 6.0, 16.0, 20.0];
    node(3).check(&[x(), scales()], &[expected(&[1, 5], &bytes)]);
    let bytes = [2.0, 4.0, 6.0, 8.0, 10.0];
    let scale = given(&[1, 1], &[0.5f32]);
    node(1 << 31).check(&[x(), scale], &[expected(&[1, 5], &bytes)]);
    let why = node(1 << 31).refused(&[x(), scales()], 1);
    assert!(why.contains("the number of scales"), "{why}");
}

#[test]
fn a_slice_backwards_from_before_the_first_has_the_first() {
    let x = given(&[5], &[7.0f32, 1.0, 2.0, 3.0, 4.0]);
    let number = |number: i64| given(&[1], &[number]);
    let inputs = [x, number(-10), number(-20), number(0), number(-1)];
    onnx("Slice", 13).check(&inputs, &[expected(&[1], &[7.0])]);
}
