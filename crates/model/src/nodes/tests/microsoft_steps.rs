//! One step of attention over a cache, as ONNX Runtime 1.32 computes it.

use super::{expected, floats, given, microsoft};

#[test]
fn one_step_is_put_into_a_cache() {
    microsoft("DecoderMaskedMultiHeadAttention")
        .int("num_heads", 2)
        .int("past_present_share_buffer", 1)
        .check(
            &[
                floats(&[2, 1, 8], 1),
                floats(&[2, 1, 8], 2),
                floats(&[2, 1, 8], 3),
                None,
                None,
                floats(&[2, 2, 5, 4], 4),
                floats(&[2, 2, 5, 4], 5),
                given::<i32>(&[1], &[2]),
            ],
            &[
                expected(
                    &[2, 1, 8],
                    &[
                        -0.20519, 0.40443, -1.0956, 0.65443, 1.0207, -0.083025, 1.2707, 0.16697,
                        0.18083, -1.3192, 0.43083, -1.0692, -0.67653, 0.90832, -0.42653, 1.0937,
                    ],
                ),
                expected(
                    &[2, 2, 5, 4],
                    &[
                        0.25, -1.25, 0.5, -1.0, 0.75, -0.75, 1.0, -0.5, 1.0, -0.5, 1.25, -0.25,
                        -1.5, 0.25, -1.25, 0.5, -1.0, 0.75, -0.75, 1.0, -0.5, 1.25, -0.25, 1.5,
                        0.0, -1.5, 0.25, -1.25, 1.5, 0.0, -1.5, 0.25, 1.0, -0.5, 1.25, -0.25, 1.5,
                        0.0, -1.5, 0.25, -1.25, 0.5, -1.0, 0.75, -0.75, 1.0, -0.5, 1.25, -1.25,
                        0.5, -1.0, 0.75, 0.25, -1.25, 0.5, -1.0, 0.75, -0.75, 1.0, -0.5, 1.25,
                        -0.25, 1.5, 0.0, -1.5, 0.25, -1.25, 0.5, -0.75, 1.0, -0.5, 1.25, -0.5,
                        1.25, -0.25, 1.5, 0.0, -1.5, 0.25, -1.25,
                    ],
                ),
            ],
        );
    microsoft("DecoderMaskedMultiHeadAttention")
        .int("num_heads", 2)
        .int("past_present_share_buffer", 1)
        .check(
            &[
                floats(&[2, 1, 8], 1),
                floats(&[2, 1, 8], 2),
                floats(&[2, 1, 8], 3),
                given::<i32>(&[2, 3], &[1, 0, 1, 0, 1, 1]),
                None,
                floats(&[2, 2, 5, 4], 4),
                floats(&[2, 2, 5, 4], 5),
                given::<i32>(&[1], &[2]),
            ],
            &[expected(
                &[2, 1, 8],
                &[
                    0.30855, 0.35743, -1.1426, 0.60743, -0.24138, 0.83621, 0.0086176, 1.0862,
                    0.2656, -1.2344, 0.5156, -0.9844, 0.28895, -0.29649, 0.53895, -0.96105,
                ],
            )],
        );
    microsoft("DecoderMaskedMultiHeadAttention")
        .int("num_heads", 2)
        .int("past_present_share_buffer", 1)
        .check(
            &[
                floats(&[2, 1, 8], 1),
                floats(&[2, 1, 8], 2),
                floats(&[2, 1, 8], 3),
                None,
                None,
                floats(&[2, 2, 5, 4], 4),
                floats(&[2, 2, 5, 4], 5),
                given::<i32>(&[1], &[2]),
                None,
                None,
                floats(&[24], 7),
            ],
            &[expected(
                &[2, 1, 8],
                &[
                    -0.10042, 0.45874, -1.2143, 0.73758, 1.2326, -0.25657, 1.4841, -0.0050186,
                    0.26108, -1.1941, 0.51748, -0.93768, -0.74948, 0.99942, -0.49943, 1.248,
                ],
            )],
        );
    microsoft("DecoderMaskedMultiHeadAttention")
        .int("num_heads", 2)
        .int("past_present_share_buffer", 1)
        .check(
            &[
                floats(&[2, 1, 8], 1),
                floats(&[2, 1, 8], 2),
                floats(&[2, 1, 8], 3),
                None,
                floats(&[1, 2, 1, 3], 7),
                floats(&[2, 2, 5, 4], 4),
                floats(&[2, 2, 5, 4], 5),
                given::<i32>(&[1], &[2]),
            ],
            &[expected(
                &[2, 1, 8],
                &[
                    0.028951, 0.41268, -1.0873, 0.66268, 1.1927, -0.20672, 1.4428, 0.043278,
                    0.049833, -1.4502, 0.29983, -1.2002, -0.62484, 0.93396, -0.37484, 0.8484,
                ],
            )],
        );
}

#[test]
fn each_beam_follows_its_own_past() {
    microsoft("DecoderMaskedMultiHeadAttention")
        .int("num_heads", 2)
        .int("past_present_share_buffer", 1)
        .check(
            &[
                floats(&[2, 1, 8], 1),
                floats(&[2, 1, 8], 2),
                floats(&[2, 1, 8], 3),
                None,
                None,
                floats(&[2, 2, 5, 4], 4),
                floats(&[2, 2, 5, 4], 5),
                given::<i32>(&[1], &[2]),
                given::<i32>(&[1], &[2]),
                given::<i32>(&[1, 2, 5], &[0, 1, 0, 0, 0, 1, 0, 0, 0, 0]),
            ],
            &[expected(
                &[2, 1, 8],
                &[
                    0.37983, -0.14794, -0.43797, 0.10206, -0.24401, 1.0384, 0.0059928, 0.29848,
                    -1.0784, 0.22545, -0.82841, 0.47545, -0.36435, 0.70626, -0.11435, 0.95626,
                ],
            )],
        );
}

#[test]
fn a_cache_may_be_whole() {
    microsoft("DecoderMaskedMultiHeadAttention")
        .int("num_heads", 2)
        .check(
            &[
                floats(&[2, 1, 8], 1),
                floats(&[2, 2, 3, 4], 2),
                floats(&[2, 2, 3, 4], 3),
            ],
            &[expected(
                &[2, 1, 8],
                &[
                    -0.45025, -0.019273, -0.20025, 0.23073, 1.3795, -0.12052, -0.97984, 0.12948,
                    -0.95954, 0.79046, -0.70954, 0.93045, 1.0115, -0.48855, 1.2615, -0.23855,
                ],
            )],
        );
}
