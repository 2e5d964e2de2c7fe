//! What ONNX Runtime's own operators give, as ONNX Runtime 1.31 computes it.

use super::{Given, bytes, expected, floats, given, microsoft, signed};

#[test]
fn attention_projects_masks_and_adds() {
    microsoft("Attention").int("num_heads", 2).check(
        &[
            floats(&[2, 3, 4], 1),
            floats(&[4, 12], 2),
            floats(&[12], 3),
            given::<i32>(&[2, 3], &[1, 1, 0, 1, 1, 1]),
            None,
            floats(&[1, 2, 3, 3], 4),
        ],
        &[expected(
            &[2, 3, 4],
            &[
                0.68143, -1.241, -1.4976, 1.6847, -1.3745, 1.8117, 0.8592, -1.0442, -1.3487,
                1.7734, 0.86666, -1.0528, -3.8747, -0.18766, 2.5952, -3.3338, 3.621, -3.7782,
                1.7816, -2.8651, 2.7458, -4.4783, -0.63649, -1.3327,
            ],
        )],
    );
}

#[test]
fn attention_knows_lengths() {
    microsoft("Attention")
        .int("num_heads", 2)
        .float("scale", 0.5)
        .check(
            &[
                floats(&[2, 3, 4], 1),
                floats(&[4, 12], 2),
                floats(&[12], 3),
                given::<i32>(&[2], &[2, 3]),
            ],
            &[expected(
                &[2, 3, 4],
                &[
                    0.595, -1.1127, -1.4391, 1.6169, -1.3542, 1.7817, 0.85517, -1.0395, -1.3425,
                    1.7643, 0.75502, -0.92358, -3.8671, -0.19189, 0.9958, -2.3898, 3.2338, -4.088,
                    0.43101, -2.0483, 3.1851, -4.127, 0.0050524, -1.7107,
                ],
            )],
        );
}

#[test]
fn attention_knows_where_sequences_begin() {
    microsoft("Attention").int("num_heads", 2).check(
        &[
            floats(&[2, 3, 4], 1),
            floats(&[4, 12], 2),
            floats(&[12], 3),
            given::<i32>(&[4], &[3, 3, 1, 0]),
        ],
        &[expected(
            &[2, 3, 4],
            &[
                -2.149, 1.1933, -1.9101, 1.4141, -1.8641, 1.4212, -1.8205, 1.4738, -1.9312, 1.3675,
                -1.8246, 1.4711, -3.8746, -0.1877, 0.94358, -2.3374, 3.2529, -4.0727, 0.15728,
                -1.8547, 3.184, -4.1278, -0.4389, -1.377,
            ],
        )],
    );
}

#[test]
fn attention_follows_a_past() {
    microsoft("Attention")
        .int("num_heads", 2)
        .int("unidirectional", 1)
        .check(
            &[
                floats(&[1, 2, 4], 1),
                floats(&[4, 12], 2),
                floats(&[12], 3),
                None,
                floats(&[2, 1, 2, 1, 2], 5),
            ],
            &[
                expected(
                    &[1, 2, 4],
                    &[
                        0.56245, -1.1371, -0.97585, 0.72666, -1.3604, 1.6853, 0.86921, -1.0564,
                    ],
                ),
                expected(
                    &[2, 1, 2, 3, 2],
                    &[
                        1.5, 0.0, -0.5, 1.625, 1.3125, -2.0, -1.5, 0.25, 0.5, -3.0625, 0.375,
                        1.9375, -1.25, 0.5, 0.6875, -1.25, -1.375, 1.8125, -1.0, 0.75, 0.875,
                        -1.0625, -1.5, 1.6875,
                    ],
                ),
            ],
        );
}

#[test]
fn multi_head_attention_with_bias_and_mask() {
    microsoft("MultiHeadAttention").int("num_heads", 2).check(
        &[
            floats(&[1, 3, 4], 1),
            floats(&[1, 2, 4], 2),
            floats(&[1, 2, 4], 3),
            floats(&[12], 4),
            given::<i32>(&[1, 2], &[1, 0]),
        ],
        &[expected(
            &[1, 3, 4],
            &[
                0.25, 0.5, 0.75, 1.0, 0.25, 0.5, 0.75, 1.0, 0.25, 0.5, 0.75, 1.0,
            ],
        )],
    );
}

#[test]
fn multi_head_attention_with_keys_by_head() {
    microsoft("MultiHeadAttention").int("num_heads", 2).check(
        &[
            floats(&[1, 3, 4], 1),
            floats(&[1, 2, 2, 2], 2),
            floats(&[1, 2, 2, 2], 3),
            floats(&[12], 4),
        ],
        &[expected(
            &[1, 3, 4],
            &[
                -0.87224, 0.87776, -0.45449, 1.2955, -0.89687, 0.85313, -0.48059, 1.2694, -0.88602,
                0.86398, -0.49229, 1.2577,
            ],
        )],
    );
}

#[test]
fn multi_head_attention_follows_a_past() {
    microsoft("MultiHeadAttention")
        .int("num_heads", 2)
        .int("unidirectional", 1)
        .check(
            &[
                floats(&[1, 2, 4], 1),
                floats(&[1, 2, 4], 2),
                floats(&[1, 2, 4], 3),
                None,
                None,
                None,
                floats(&[1, 2, 1, 2], 4),
                floats(&[1, 2, 1, 2], 5),
            ],
            &[
                expected(
                    &[1, 2, 4],
                    &[
                        -0.14979, 0.49494, -1.2668, 0.48324, 0.35222, 0.47851, -1.0789, 0.67113,
                    ],
                ),
                expected(
                    &[1, 2, 3, 2],
                    &[
                        0.25, -1.25, 1.0, -0.5, 1.5, 0.0, 0.5, -1.0, 1.25, -0.25, -1.5, 0.25,
                    ],
                ),
                expected(
                    &[1, 2, 3, 2],
                    &[
                        1.5, 0.0, -1.0, 0.75, -0.5, 1.25, -1.5, 0.25, -0.75, 1.0, -0.25, 1.5,
                    ],
                ),
            ],
        );
}

#[test]
fn skip_layer_norm() {
    microsoft("SkipLayerNormalization")
        .float("epsilon", 1e-05)
        .check(
            &[
                floats(&[1, 2, 4], 1),
                floats(&[1, 2, 4], 2),
                floats(&[4], 3),
                floats(&[4], 4),
                floats(&[4], 5),
            ],
            &[
                expected(
                    &[1, 2, 4],
                    &[
                        -1.0916, -0.91459, 0.83541, -2.3416, -1.383, -1.5999, 1.2873, -1.1166,
                    ],
                ),
                None,
                None,
                expected(
                    &[1, 2, 4],
                    &[2.25, 1.0, -0.25, -1.5, 3.25, -1.25, -2.5, -0.5],
                ),
            ],
        );
}

#[test]
fn skip_rms_norm() {
    microsoft("SkipSimplifiedLayerNormalization").check(
        &[
            floats(&[1, 2, 4], 1),
            floats(&[1, 2, 4], 2),
            floats(&[4], 3),
        ],
        &[
            expected(
                &[1, 2, 4],
                &[
                    -0.60302, 0.60302, -0.75378, -1.4071, -1.4071, -0.75378, 0.60302, -0.60302,
                ],
            ),
            None,
            None,
            expected(
                &[1, 2, 4],
                &[0.75, 1.0, 1.25, -1.75, 1.75, -1.25, -1.0, -0.75],
            ),
        ],
    );
}

#[test]
fn embeddings_are_summed_and_normalised() {
    microsoft("EmbedLayerNormalization").check(
        &[
            given::<i32>(&[1, 2], &[0, 2]),
            given::<i32>(&[1, 2], &[1, 0]),
            floats(&[3, 4], 1),
            floats(&[3, 4], 2),
            floats(&[2, 4], 3),
            floats(&[4], 4),
            floats(&[4], 5),
            given::<i32>(&[1, 2], &[1, 0]),
        ],
        &[
            expected(
                &[1, 2, 4],
                &[
                    1.3507, -1.9082, -1.4004, 1.3783, 1.7821, 0.2489, -2.2633, -0.34735,
                ],
            ),
            expected(&[1], &[1.0]),
            expected(
                &[1, 2, 4],
                &[0.25, 2.25, 1.0, -0.25, 1.25, 0.0, -1.25, 0.75],
            ),
        ],
    );
}

#[test]
fn fast_gelu() {
    microsoft("FastGelu").check(
        &[floats(&[2, 3], 1), floats(&[3], 2)],
        &[expected(
            &[2, 3],
            &[0.57996, 0.84119, 1.1177, -0.15429, -0.10032, 0.0],
        )],
    );
}

#[test]
fn quick_gelu() {
    microsoft("QuickGelu").check(
        &[floats(&[2, 3], 1)],
        &[expected(
            &[2, 3],
            &[-0.0988, 1.3917, 0.0, -0.10834, 0.1512, -0.13307],
        )],
    );
}

#[test]
fn bias_gelu() {
    microsoft("BiasGelu").check(
        &[floats(&[2, 3], 1), floats(&[3], 2)],
        &[expected(
            &[2, 3],
            &[0.58003, 0.84134, 1.1179, -0.15427, -0.10032, 0.0],
        )],
    );
}

#[test]
fn fused_matmul_turns_matrices() {
    microsoft("FusedMatMul")
        .int("transA", 1)
        .int("transB", 1)
        .float("alpha", 0.5)
        .check(
            &[floats(&[3, 2], 1), floats(&[2, 3], 2)],
            &[expected(&[2, 2], &[0.03125, 0.03125, 0.34375, -1.3125])],
        );
}

#[test]
fn fused_matmul_turns_batches() {
    microsoft("FusedMatMul")
        .int("transBatchA", 1)
        .int("transBatchB", 1)
        .check(
            &[floats(&[2, 2, 3], 1), floats(&[3, 2, 1], 2)],
            &[expected(&[2, 2, 1], &[1.625, 0.375, 0.6875, 0.125])],
        );
}

#[test]
fn fused_gemm() {
    microsoft("FusedGemm")
        .int("transB", 1)
        .float("alpha", 0.5)
        .float("beta", 2.0)
        .string("activation", "LeakyRelu")
        .float("activation_alpha", 0.25)
        .check(
            &[floats(&[2, 3], 1), floats(&[2, 3], 2), floats(&[2], 3)],
            &[expected(&[2, 2], &[-0.625, 2.6562, -0.89844, 1.875])],
        );
}

#[test]
fn fused_conv_adds_before_it_activates() {
    microsoft("FusedConv")
        .string("activation", "LeakyRelu")
        .floats("activation_params", &[0.25])
        .check(
            &[
                floats(&[1, 1, 3, 3], 1),
                floats(&[2, 1, 2, 2], 2),
                floats(&[2], 3),
                floats(&[1, 2, 2, 2], 4),
            ],
            &[expected(
                &[1, 2, 2, 2],
                &[
                    -0.92188, -0.03125, -0.3125, -0.64062, 3.4375, 1.5625, -0.375, 2.3125,
                ],
            )],
        );
}

#[test]
fn rotary_embedding_by_positions() {
    microsoft("RotaryEmbedding").check(
        &[
            floats(&[1, 2, 8], 1),
            given::<i64>(&[1, 2], &[2, 0]),
            floats(&[3, 2], 2),
            floats(&[3, 2], 3),
        ],
        &[expected(
            &[1, 2, 8],
            &[
                -0.375, 1.875, 0.125, 1.875, 0.625, 1.25, 0.625, -1.5625, 1.75, 0.75, 0.25,
                -0.3125, 2.75, 0.125, 0.25, -0.1875,
            ],
        )],
    );
}

#[test]
fn rotary_embedding_from_an_offset() {
    microsoft("RotaryEmbedding").int("interleaved", 1).check(
        &[
            floats(&[1, 2, 8], 1),
            given::<i64>(&[1], &[1]),
            floats(&[3, 2], 2),
            floats(&[3, 2], 3),
        ],
        &[expected(
            &[1, 2, 8],
            &[
                0.8125, 2.0625, 1.5, 0.375, -0.625, -1.75, 0.875, 0.75, 0.75, -1.5, 0.625, 1.25,
                1.75, -1.0, 0.0, 1.875,
            ],
        )],
    );
}

/// Two quantised tensors, the second of this shape, and the scale and zero point of what is made of them.
fn two_quantised(second: &[usize], scale: f32) -> [Option<Given>; 8] {
    [
        bytes(&[2, 3], 1),
        given::<f32>(&[], &[0.0625]),
        given::<u8>(&[], &[120]),
        bytes(second, 2),
        given::<f32>(&[], &[0.03125]),
        given::<u8>(&[], &[100]),
        given::<f32>(&[], &[scale]),
        given::<u8>(&[], &[128]),
    ]
}

#[test]
fn quantised_sums() {
    microsoft("QLinearAdd").check(
        &two_quantised(&[2, 3], 0.125),
        &[expected(&[2, 3], &[54.0, 82.0, 110.0, 137.0, 165.0, 193.0])],
    );
}

#[test]
fn quantised_products() {
    microsoft("QLinearMul").check(
        &two_quantised(&[3], 0.25),
        &[expected(
            &[2, 3],
            &[194.0, 151.0, 129.0, 127.0, 116.0, 126.0],
        )],
    );
}

#[test]
fn quantised_sigmoid() {
    microsoft("QLinearSigmoid").check(
        &[
            bytes(&[2, 3], 1),
            given::<f32>(&[], &[0.0625]),
            given::<u8>(&[], &[120]),
            given::<f32>(&[], &[0.0039062]),
            given::<u8>(&[], &[0]),
        ],
        &[expected(&[2, 3], &[0.0, 3.0, 26.0, 136.0, 235.0, 254.0])],
    );
}

#[test]
fn quantised_leaky_relu() {
    microsoft("QLinearLeakyRelu").float("alpha", 0.25).check(
        &[
            bytes(&[2, 3], 1),
            given::<f32>(&[], &[0.0625]),
            given::<u8>(&[], &[120]),
            given::<f32>(&[], &[0.0625]),
            given::<u8>(&[], &[60]),
        ],
        &[expected(&[2, 3], &[33.0, 42.0, 51.0, 62.0, 99.0, 136.0])],
    );
}

#[test]
fn quantised_average_with_channels_last() {
    microsoft("QLinearGlobalAveragePool")
        .int("channels_last", 1)
        .check(
            &[
                bytes(&[1, 2, 2, 3], 1),
                given::<f32>(&[], &[0.0625]),
                given::<u8>(&[], &[120]),
                given::<f32>(&[], &[0.03]),
                given::<u8>(&[], &[128]),
            ],
            &[expected(&[1, 1, 1, 3], &[114.0, 58.0, 135.0])],
        );
}

#[test]
fn quantised_pieces_join() {
    microsoft("QLinearConcat").int("axis", 1).check(
        &[
            given::<f32>(&[], &[0.1]),
            given::<u8>(&[], &[110]),
            bytes(&[2, 2], 1),
            given::<f32>(&[], &[0.0625]),
            given::<u8>(&[], &[120]),
            bytes(&[2, 1], 2),
            given::<f32>(&[], &[0.25]),
            given::<u8>(&[], &[100]),
        ],
        &[expected(&[2, 3], &[42.0, 65.0, 0.0, 88.0, 111.0, 8.0])],
    );
}

#[test]
fn dynamic_quantised_product() {
    microsoft("DynamicQuantizeMatMul").check(
        &[
            floats(&[2, 3], 1),
            signed(&[3, 2], 2),
            given::<f32>(&[1], &[0.02]),
            given::<i8>(&[1], &[3]),
            floats(&[2], 3),
        ],
        &[expected(&[2, 2], &[-1.5073, 1.1655, 1.1372, 1.0328])],
    );
}

#[test]
fn quantised_product_as_floats() {
    microsoft("MatMulIntegerToFloat").check(
        &[
            bytes(&[2, 3], 1),
            signed(&[3, 2], 2),
            given::<f32>(&[1], &[0.02]),
            given::<f32>(&[1], &[0.5]),
            given::<u8>(&[1], &[120]),
            given::<i8>(&[1], &[3]),
            floats(&[2], 3),
        ],
        &[expected(&[2, 2], &[129.36, 51.19, 12.81, 57.85])],
    );
}

#[test]
fn inverse() {
    microsoft("Inverse").check(
        &[given::<f32>(&[2, 2], &[2.0, 1.0, 1.0, 1.0])],
        &[expected(&[2, 2], &[1.0, -1.0, -1.0, 2.0])],
    );
}

#[test]
fn pad() {
    microsoft("Pad").check(
        &[
            floats(&[2, 2], 1),
            given::<i64>(&[4], &[1, 0, 0, 1]),
            given::<f32>(&[], &[1.5]),
        ],
        &[expected(
            &[3, 3],
            &[1.5, 1.5, 1.5, -0.25, 1.5, 1.5, 0.0, -1.5, 1.5],
        )],
    );
}

#[test]
fn unique() {
    microsoft("Unique").check(
        &[given::<f32>(&[5], &[2.0, 1.0, 1.0, 3.0, 2.0])],
        &[
            expected(&[3], &[2.0, 1.0, 3.0]),
            expected(&[5], &[0.0, 1.0, 1.0, 2.0, 0.0]),
            expected(&[3], &[2.0, 2.0, 1.0]),
        ],
    );
}

#[test]
fn largest_of_windows_with_channels_last() {
    microsoft("NhwcMaxPool")
        .ints("kernel_shape", &[2, 2])
        .check(
            &[bytes(&[1, 2, 2, 3], 1)],
            &[expected(&[1, 1, 1, 3], &[233.0, 159.0, 196.0])],
        );
}
