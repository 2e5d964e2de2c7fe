//! What operators give that newer versions have otherwise, and quantised ones, as ONNX Runtime 1.31 computes it.

use super::{bytes, expected, floats, given, onnx, positive, signed};

#[test]
fn resize_10_takes_the_upper_neighbour_where_it_shrinks() {
    onnx("Resize", 10).string("mode", "nearest").check(
        &[
            floats(&[1, 1, 3, 2], 1),
            given::<f32>(&[4], &[1.0, 1.0, 0.7, 1.5]),
        ],
        &[expected(
            &[1, 1, 2, 3],
            &[-0.25, -0.25, 1.5, 0.25, 0.25, -1.25],
        )],
    );
}

#[test]
fn upsample_7_has_its_scales_as_attribute() {
    onnx("Upsample", 7)
        .floats("scales", &[1.0, 1.0, 2.0, 1.0])
        .string("mode", "linear")
        .check(
            &[floats(&[1, 1, 2, 2], 1)],
            &[expected(
                &[1, 1, 4, 2],
                &[-0.25, 1.5, -0.125, 0.0, 0.0, -1.5, 0.0, -1.5],
            )],
        );
}

#[test]
fn resize_11_by_centres() {
    onnx("Resize", 11)
        .string("mode", "nearest")
        .string("coordinate_transformation_mode", "tf_half_pixel_for_nn")
        .string("nearest_mode", "floor")
        .check(
            &[
                floats(&[1, 1, 4, 3], 1),
                given::<f32>(&[0], &[]),
                given::<f32>(&[0], &[]),
                given::<i64>(&[4], &[1, 1, 6, 2]),
            ],
            &[expected(
                &[1, 1, 6, 2],
                &[
                    -0.25, 0.0, -1.5, -1.25, -1.5, -1.25, 0.5, 0.75, -0.75, -0.5, -0.75, -0.5,
                ],
            )],
        );
}

#[test]
fn dropout_7_keeps_all() {
    onnx("Dropout", 7).float("ratio", 0.5).check(
        &[floats(&[2, 2], 1)],
        &[expected(&[2, 2], &[-0.25, 1.5, 0.0, -1.5])],
    );
}

#[test]
fn softmax_11_is_over_all_axes_from_one_on() {
    onnx("Softmax", 11).int("axis", 1).check(
        &[floats(&[2, 2, 2], 1)],
        &[expected(
            &[2, 2, 2],
            &[
                0.12012, 0.69123, 0.15423, 0.034414, 0.35795, 0.07987, 0.45962, 0.10256,
            ],
        )],
    );
}

#[test]
fn hardmax_11_is_over_all_axes_from_one_on() {
    onnx("Hardmax", 11).int("axis", 1).check(
        &[floats(&[2, 2, 2], 1)],
        &[expected(
            &[2, 2, 2],
            &[0.0, 1.0, 0.0, 0.0, 0.0, 0.0, 1.0, 0.0],
        )],
    );
}

#[test]
fn batch_norm_7() {
    onnx("BatchNormalization", 7).check(
        &[
            floats(&[1, 2, 2], 1),
            floats(&[2], 2),
            floats(&[2], 3),
            floats(&[2], 4),
            positive(&[2], 5),
        ],
        &[expected(&[1, 2, 2], &[-1.6325, 0.58113, 0.19099, 0.8618])],
    );
}

#[test]
fn squeeze_11() {
    onnx("Squeeze", 11).ints("axes", &[-1]).check(
        &[floats(&[1, 2, 1], 1)],
        &[expected(&[1, 2], &[-0.25, 1.5])],
    );
}

#[test]
fn unsqueeze_11() {
    onnx("Unsqueeze", 11)
        .ints("axes", &[0, 2])
        .check(&[floats(&[2], 1)], &[expected(&[1, 2, 1], &[-0.25, 1.5])]);
}

#[test]
fn split_11() {
    onnx("Split", 11).ints("split", &[1, 2]).check(
        &[floats(&[3], 1)],
        &[expected(&[1], &[-0.25]), expected(&[2], &[1.5, 0.0])],
    );
}

#[test]
fn split_11_evenly() {
    onnx("Split", 11).check(
        &[floats(&[4], 1)],
        &[expected(&[2], &[-0.25, 1.5]), expected(&[2], &[0.0, -1.5])],
    );
}

#[test]
fn slice_9() {
    onnx("Slice", 9)
        .ints("starts", &[1, -2])
        .ints("ends", &[1000, -1])
        .ints("axes", &[0, 1])
        .check(&[floats(&[3, 3], 1)], &[expected(&[2, 1], &[0.25, -1.0])]);
}

#[test]
fn pad_10() {
    onnx("Pad", 10)
        .ints("pads", &[0, 1, 1, 0])
        .float("value", 2.5)
        .check(
            &[floats(&[2, 2], 1)],
            &[expected(
                &[3, 3],
                &[2.5, -0.25, 1.5, 2.5, 0.0, -1.5, 2.5, 2.5, 2.5],
            )],
        );
}

#[test]
fn clip_10() {
    onnx("Clip", 10).float("min", -0.5).float("max", 0.5).check(
        &[floats(&[5], 1)],
        &[expected(&[5], &[-0.25, 0.5, 0.0, -0.5, 0.25])],
    );
}

#[test]
fn clip_12_without_a_lower_bound() {
    onnx("Clip", 12).check(
        &[floats(&[5], 1), None, given::<f32>(&[], &[0.25])],
        &[expected(&[5], &[-0.25, 0.25, 0.0, -1.5, 0.25])],
    );
}

#[test]
fn top_k_9() {
    onnx("TopK", 9).int("k", 2).check(
        &[floats(&[2, 3], 1)],
        &[
            expected(&[2, 2], &[1.5, 0.0, 0.25, -1.25]),
            expected(&[2, 2], &[1.0, 2.0, 1.0, 2.0]),
        ],
    );
}

#[test]
fn reduce_sum_11() {
    onnx("ReduceSum", 11)
        .ints("axes", &[-1, 0])
        .int("keepdims", 0)
        .check(&[floats(&[2, 2, 2], 1)], &[expected(&[2], &[0.25, -2.0])]);
}

#[test]
fn scatter_9() {
    onnx("Scatter", 9).check(
        &[
            floats(&[2, 2], 1),
            given::<i64>(&[1, 2], &[1, 0]),
            floats(&[1, 2], 2),
        ],
        &[expected(&[2, 2], &[-0.25, -0.5, 1.0, -1.5])],
    );
}

#[test]
fn mean_variance_norm_9() {
    onnx("MeanVarianceNormalization", 9).check(
        &[floats(&[1, 2, 2, 2], 1)],
        &[expected(
            &[1, 2, 2, 2],
            &[
                -0.17586, 1.4655, 0.058621, -1.3483, 0.82199, -1.1508, 1.1508, -0.82199,
            ],
        )],
    );
}

#[test]
fn affine() {
    onnx("Affine", 7)
        .float("alpha", 2.0)
        .float("beta", 1.0)
        .check(&[floats(&[3], 1)], &[expected(&[3], &[0.5, 4.0, 1.0])]);
}

#[test]
fn scaled_tanh() {
    onnx("ScaledTanh", 7)
        .float("alpha", 2.0)
        .float("beta", 0.5)
        .check(
            &[floats(&[3], 1)],
            &[expected(&[3], &[-0.24871, 1.2703, 0.0])],
        );
}

#[test]
fn parametric_softplus() {
    onnx("ParametricSoftplus", 7)
        .float("alpha", 2.0)
        .float("beta", 0.5)
        .check(
            &[floats(&[3], 1)],
            &[expected(&[3], &[1.2652, 2.2737, 1.3863])],
        );
}

#[test]
fn matmul_integer_with_zero_points_of_columns() {
    onnx("MatMulInteger", 10).check(
        &[
            bytes(&[2, 3], 1),
            signed(&[3, 2], 2),
            given::<u8>(&[], &[120]),
            given::<i8>(&[2], &[3, -4]),
        ],
        &[expected(&[2, 2], &[13036.0, 3532.0, 1381.0, 6529.0])],
    );
}

#[test]
fn matmul_integer_of_signed_batches() {
    onnx("MatMulInteger", 10).check(
        &[signed(&[2, 2, 3], 1), signed(&[3, 2], 2)],
        &[expected(
            &[2, 2, 2],
            &[
                13156.0, 4276.0, 2500.0, 5941.0, -10716.0, -13898.0, 5764.0, 5431.0,
            ],
        )],
    );
}

#[test]
fn conv_integer() {
    onnx("ConvInteger", 10).ints("pads", &[1, 0, 0, 0]).check(
        &[
            bytes(&[1, 1, 3, 3], 1),
            bytes(&[1, 1, 2, 2], 2),
            given::<u8>(&[], &[120]),
            given::<u8>(&[], &[130]),
        ],
        &[expected(
            &[1, 1, 3, 2],
            &[3490.0, 2343.0, 16933.0, 9163.0, -7145.0, -6211.0],
        )],
    );
}

#[test]
fn quantised_conv() {
    onnx("QLinearConv", 10).check(
        &[
            bytes(&[1, 1, 3, 3], 1),
            given::<f32>(&[], &[0.0625]),
            given::<u8>(&[], &[120]),
            signed(&[2, 1, 2, 2], 2),
            given::<f32>(&[2], &[0.02, 0.01]),
            given::<i8>(&[2], &[0, 0]),
            given::<f32>(&[], &[1.5]),
            given::<u8>(&[], &[128]),
            given::<i32>(&[2], &[5, -600]),
        ],
        &[expected(
            &[1, 2, 2, 2],
            &[142.0, 136.0, 122.0, 123.0, 122.0, 124.0, 139.0, 129.0],
        )],
    );
}

#[test]
fn quantised_product() {
    onnx("QLinearMatMul", 10).check(
        &[
            bytes(&[2, 3], 1),
            given::<f32>(&[], &[0.0625]),
            given::<u8>(&[], &[120]),
            signed(&[3, 2], 2),
            given::<f32>(&[2], &[0.02, 0.01]),
            given::<i8>(&[2], &[0, 0]),
            given::<f32>(&[], &[0.5]),
            given::<u8>(&[], &[128]),
        ],
        &[expected(&[2, 2], &[159.0, 133.0, 132.0, 136.0])],
    );
}

#[test]
fn dynamic_quantisation_of_zeros() {
    onnx("DynamicQuantizeLinear", 11).check(
        &[given::<f32>(&[2], &[0.0, 0.0])],
        &[
            expected(&[2], &[0.0, 0.0]),
            expected(&[], &[1.0]),
            expected(&[], &[0.0]),
        ],
    );
}
