//! Mixtures of experts, as ONNX Runtime 1.32 computes them.

use super::{bytes, expected, floats, microsoft, positive};

#[test]
fn experts_are_mixed() {
    microsoft("MoE")
        .int("k", 2)
        .string("activation_type", "relu")
        .check(
            &[
                floats(&[2, 4], 1),
                floats(&[2, 3], 2),
                floats(&[3, 5, 4], 3),
                floats(&[3, 5], 4),
                floats(&[3, 4, 5], 5),
                floats(&[3, 4], 6),
            ],
            &[expected(
                &[2, 4],
                &[
                    -0.085701, -0.31751, 0.84717, 0.08323, 1.8085, -2.0505, -0.0054905, 1.5289,
                ],
            )],
        );
    microsoft("MoE")
        .int("k", 2)
        .string("activation_type", "gelu")
        .check(
            &[
                floats(&[2, 4], 1),
                floats(&[2, 3], 2),
                floats(&[3, 5, 4], 3),
                floats(&[3, 5], 4),
                floats(&[3, 4, 5], 5),
                floats(&[3, 4], 6),
            ],
            &[expected(
                &[2, 4],
                &[
                    0.059705, -0.24367, 0.67084, 0.18922, 1.9039, -2.0174, -0.031455, 1.5403,
                ],
            )],
        );
    microsoft("MoE")
        .int("k", 2)
        .string("activation_type", "silu")
        .int("normalize_routing_weights", 1)
        .check(
            &[
                floats(&[2, 4], 1),
                floats(&[2, 3], 2),
                floats(&[3, 5, 4], 3),
                floats(&[3, 5], 4),
                floats(&[3, 4, 5], 5),
                floats(&[3, 4], 6),
            ],
            &[expected(
                &[2, 4],
                &[
                    0.027825, 0.014078, 0.46665, 0.062938, 2.0127, -2.394, 0.17923, 1.4368,
                ],
            )],
        );
    microsoft("MoE")
        .int("k", 2)
        .string("activation_type", "swiglu")
        .int("swiglu_fusion", 1)
        .float("activation_alpha", 1.702)
        .float("activation_beta", 1.0)
        .float("swiglu_limit", 0.7)
        .check(
            &[
                floats(&[2, 4], 1),
                floats(&[2, 3], 2),
                floats(&[3, 10, 4], 3),
                floats(&[3, 10], 4),
                floats(&[3, 4, 5], 5),
                floats(&[3, 4], 6),
            ],
            &[expected(
                &[2, 4],
                &[
                    0.18814, 0.064739, 0.19369, 0.28664, 0.073621, -2.3695, -0.22727, -0.62376,
                ],
            )],
        );
    microsoft("MoE")
        .int("k", 2)
        .string("activation_type", "relu")
        .check(
            &[
                floats(&[1, 4], 1),
                floats(&[1, 3], 2),
                floats(&[3, 5, 4], 3),
                floats(&[3, 5], 4),
                floats(&[3, 4, 5], 5),
                floats(&[3, 4], 6),
            ],
            &[expected(&[1, 4], &[-0.085701, -0.31751, 0.84717, 0.08323])],
        );
    microsoft("MoE")
        .int("k", 2)
        .string("activation_type", "gelu")
        .check(
            &[
                floats(&[1, 4], 1),
                floats(&[1, 3], 2),
                floats(&[3, 5, 4], 3),
                floats(&[3, 5], 4),
                floats(&[3, 4, 5], 5),
                floats(&[3, 4], 6),
            ],
            &[expected(&[1, 4], &[0.059705, -0.24367, 0.67084, 0.18922])],
        );
    microsoft("MoE")
        .int("k", 2)
        .string("activation_type", "silu")
        .int("normalize_routing_weights", 1)
        .check(
            &[
                floats(&[1, 4], 1),
                floats(&[1, 3], 2),
                floats(&[3, 5, 4], 3),
                floats(&[3, 5], 4),
                floats(&[3, 4, 5], 5),
                floats(&[3, 4], 6),
            ],
            &[expected(&[1, 4], &[0.027825, 0.014078, 0.46665, 0.062938])],
        );
    microsoft("MoE")
        .int("k", 2)
        .string("activation_type", "swiglu")
        .int("swiglu_fusion", 1)
        .float("activation_alpha", 1.702)
        .float("activation_beta", 1.0)
        .float("swiglu_limit", 0.7)
        .check(
            &[
                floats(&[1, 4], 1),
                floats(&[1, 3], 2),
                floats(&[3, 10, 4], 3),
                floats(&[3, 10], 4),
                floats(&[3, 4, 5], 5),
                floats(&[3, 4], 6),
            ],
            &[expected(&[1, 4], &[0.18814, 0.064739, 0.19369, 0.28664])],
        );
}

/// As Mixtral has them. ONNX Runtime computes a third layer on GPUs alone: what is expected follows from the definition.
#[test]
fn experts_of_three_layers_are_mixed() {
    let three = |name: &str, rows: usize, values: &[f64]| {
        microsoft("MoE")
            .int("k", 2)
            .string("activation_type", name)
            .check(
                &[
                    floats(&[rows, 4], 1),
                    floats(&[rows, 3], 2),
                    floats(&[3, 5, 4], 3),
                    floats(&[3, 5], 4),
                    floats(&[3, 4, 5], 5),
                    floats(&[3, 4], 6),
                    floats(&[3, 5, 4], 7),
                    floats(&[3, 5], 8),
                ],
                &[expected(&[rows, 4], values)],
            );
    };
    three(
        "silu",
        2,
        &[
            0.67836, -0.35361, 0.24761, 0.84608, -1.2905, 0.032639, -0.027576, -3.6666,
        ],
    );
    three(
        "relu",
        2,
        &[
            0.20324, -0.17201, 0.22951, 0.55543, -0.64226, 0.58864, -1.1337, -2.7186,
        ],
    );
    three("silu", 1, &[0.67836, -0.35361, 0.24761, 0.84608]);
    three("relu", 1, &[0.20324, -0.17201, 0.22951, 0.55543]);
    three(
        "swiglu",
        2,
        &[
            0.67836, -0.35361, 0.24761, 0.84608, -1.2905, 0.032639, -0.027576, -3.6666,
        ],
    );
}

#[test]
fn experts_of_few_bits() {
    microsoft("QMoE")
        .int("k", 2)
        .string("activation_type", "silu")
        .int("expert_weight_bits", 4)
        .check(
            &[
                floats(&[2, 32], 1),
                floats(&[2, 3], 2),
                bytes(&[3, 16, 16], 3),
                positive(&[3, 16], 4),
                floats(&[3, 16], 5),
                bytes(&[3, 32, 8], 6),
                positive(&[3, 32], 7),
                floats(&[3, 32], 8),
            ],
            &[expected(
                &[2, 32],
                &[
                    -247.89, 117.08, -486.76, -11.175, -438.87, -4.1678, -233.33, 45.925, -377.28,
                    -12.83, -195.3, -56.115, -170.79, 135.43, -245.52, -94.031, -119.46, -82.579,
                    -78.791, 67.489, -14.018, -91.802, -238.11, 33.125, -401.33, 22.772, -185.27,
                    -67.295, -359.8, 1.7078, -314.61, 5.8553, -11.334, -5.7681, 0.82278, 16.276,
                    11.201, -29.548, -8.1784, -9.263, -0.15138, 6.6214, 3.4757, 18.165, -29.699,
                    -8.0259, -5.3829, 3.4495, 14.533, 11.058, -26.38, -3.9342, -8.224, 1.3816,
                    5.5318, 27.089, -21.196, -22.39, -7.4485, -0.78561, 1.8982, 16.419, 7.3188,
                    -20.165,
                ],
            )],
        );
    microsoft("QMoE")
        .int("k", 2)
        .string("activation_type", "silu")
        .int("expert_weight_bits", 8)
        .check(
            &[
                floats(&[2, 32], 1),
                floats(&[2, 3], 2),
                bytes(&[3, 16, 32], 3),
                positive(&[3, 16], 4),
                floats(&[3, 16], 5),
                bytes(&[3, 32, 16], 6),
                positive(&[3, 32], 7),
                floats(&[3, 32], 8),
            ],
            &[expected(
                &[2, 32],
                &[
                    -13824.0, 11830.0, -19865.0, -15690.0, 1357.0, 4692.6, -49857.0, -4650.6,
                    -4581.6, 1468.1, 6290.2, 33287.0, -7101.8, -14629.0, 20155.0, 3838.7, -4051.4,
                    17797.0, -5507.3, -26623.0, 977.31, 10690.0, -44100.0, -11465.0, -5543.1,
                    4514.9, 8771.4, 23842.0, -11011.0, -2696.3, 33079.0, -356.31, 9189.4, 41457.0,
                    -25777.0, -9190.5, 6697.6, 50680.0, -14144.0, -10086.0, 1056.9, -27931.0,
                    2430.6, 50060.0, -71741.0, -16063.0, 62528.0, -8632.9, 14227.0, 15474.0,
                    -31343.0, -3019.9, 8301.8, 3079.9, -19545.0, -14101.0, 9253.5, -39954.0,
                    174.29, 78234.0, -22294.0, -28395.0, 18886.0, -9951.6,
                ],
            )],
        );
}
