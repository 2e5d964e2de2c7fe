//! Nodes that contradict themselves or their inputs, as ONNX's checker or ONNX Runtime refuse them.

use super::{Given, One, given, onnx};

fn ones(shape: &[usize]) -> Option<Given> {
    given(shape, &vec![1.0f32; shape.iter().product()])
}

fn numbers(values: &[i64]) -> Option<Given> {
    given(&[values.len()], values)
}

/// The nodes that are taken all the same.
fn taken(nodes: Vec<(One, Vec<Option<Given>>)>) -> Vec<String> {
    let mut taken = Vec::new();
    for (place, (node, inputs)) in nodes.into_iter().enumerate() {
        let name = format!("{place}: {}", node.operator.name);
        if node.fails(&inputs).is_none() {
            taken.push(name);
        }
    }
    taken
}

#[test]
fn windows_fit_what_they_move_over() {
    let conv = || onnx("Conv", 21);
    let pool = || onnx("MaxPool", 21);
    let weights = || vec![ones(&[1, 1, 3, 3]), ones(&[1, 1, 2, 2])];
    let picture = || vec![ones(&[1, 1, 3, 3])];
    let same = conv().ints("pads", &[1, 0, 0, 0]);
    let nodes = vec![
        (conv().ints("kernel_shape", &[3, 3]), weights()),
        (
            onnx("ConvTranspose", 21).ints("kernel_shape", &[3, 3]),
            weights(),
        ),
        (conv().ints("strides", &[0, 1]), weights()),
        (conv().ints("dilations", &[0, 1]), weights()),
        (conv().ints("pads", &[-1, 0, 0, 0]), weights()),
        (same.string("auto_pad", "SAME_UPPER"), weights()),
        (conv().int("group", 0), weights()),
        (conv(), vec![ones(&[1, 1, 2]), ones(&[1, 1, 4])]),
        (
            pool()
                .ints("kernel_shape", &[2, 2])
                .ints("strides", &[0, 1]),
            picture(),
        ),
        (pool().ints("kernel_shape", &[0, 2]), picture()),
        (
            pool()
                .ints("kernel_shape", &[2, 2])
                .ints("pads", &[2, 2, 2, 2]),
            picture(),
        ),
        (onnx("LRN", 21).int("size", 0), picture()),
        (
            onnx("DepthToSpace", 21).int("blocksize", 0),
            vec![ones(&[1, 4, 2, 2])],
        ),
        (
            onnx("DepthToSpace", 21).int("blocksize", 3),
            vec![ones(&[1, 4, 2, 2])],
        ),
        (
            onnx("SpaceToDepth", 21).int("blocksize", 0),
            vec![ones(&[1, 4, 2, 2])],
        ),
    ];
    assert_eq!(taken(nodes), [""; 0]);
}

#[test]
fn recurrent_layers_have_the_sizes_of_their_weights() {
    let layer = |name: &str, gates: usize| {
        let inputs = vec![
            ones(&[2, 1, 3]),
            ones(&[1, 2 * gates, 3]),
            ones(&[1, 2 * gates, 2]),
        ];
        (onnx(name, 21), inputs)
    };
    let with = |(node, inputs): (One, _), name: &str, value| (node.int(name, value), inputs);
    let (lstm, inputs) = layer("LSTM", 4);
    let clipped = (lstm.float("clip", -1.0), inputs);
    let nodes = vec![
        with(layer("LSTM", 4), "hidden_size", 3),
        with(layer("GRU", 3), "hidden_size", 5),
        with(layer("RNN", 1), "hidden_size", 1),
        with(layer("LSTM", 4), "layout", 2),
        clipped,
    ];
    assert_eq!(taken(nodes), [""; 0]);
    let (node, inputs) = with(layer("LSTM", 4), "hidden_size", 2);
    assert_eq!(node.fails(&inputs), None);
}

#[test]
fn axes_and_sizes_are_there() {
    let pair = || vec![ones(&[2, 2])];
    let line = |values: &[i64]| vec![ones(&[4]), numbers(values)];
    let slice = |steps: &[i64]| {
        let zeros = vec![0; steps.len()];
        let ends = vec![2; steps.len()];
        vec![
            ones(&[4]),
            numbers(&zeros),
            numbers(&ends),
            numbers(&zeros),
            numbers(steps),
        ]
    };
    let resize = |size: i64| vec![ones(&[1, 1, 4]), None, None, numbers(&[1, 1, size])];
    let nodes = vec![
        (
            onnx("Concat", 21).int("axis", 5),
            vec![ones(&[2]), ones(&[2])],
        ),
        (onnx("Softmax", 21).int("axis", 5), pair()),
        (onnx("Transpose", 21).ints("perm", &[0, 0]), pair()),
        (onnx("Transpose", 21).ints("perm", &[0]), pair()),
        (
            onnx("Gather", 21).int("axis", 4),
            vec![ones(&[2, 2]), numbers(&[0])],
        ),
        (onnx("TopK", 21), vec![ones(&[3]), numbers(&[5])]),
        (onnx("TopK", 21), vec![ones(&[3]), numbers(&[-1])]),
        (
            onnx("OneHot", 21),
            vec![numbers(&[0, 1]), numbers(&[-1]), ones(&[2])],
        ),
        (onnx("Split", 21), line(&[1, 2])),
        (onnx("Tile", 21), line(&[-1])),
        (onnx("Expand", 21), line(&[-1])),
        (onnx("Reshape", 21), line(&[-1, -1])),
        (onnx("Reshape", 21), line(&[-2, 2])),
        (onnx("Slice", 21), slice(&[0])),
        (onnx("Slice", 21), slice(&[1, 1])),
        (onnx("Squeeze", 21), vec![ones(&[2, 1]), numbers(&[0])]),
        (onnx("Unsqueeze", 21), line(&[0, 0])),
        (onnx("Pad", 21), line(&[-5, 0])),
        (onnx("CumSum", 21), line(&[3])),
        (onnx("EyeLike", 21), vec![ones(&[2])]),
        (onnx("Cast", 21).int("to", 99), pair()),
        (onnx("Resize", 21), resize(0)),
        (onnx("Resize", 21), resize(-2)),
        (
            onnx("Gemm", 21),
            vec![ones(&[2, 3]), ones(&[3, 2]), ones(&[3])],
        ),
    ];
    assert_eq!(taken(nodes), [""; 0]);
}

#[test]
fn norms_and_regions_have_what_they_count() {
    let line = || vec![ones(&[1, 4, 2]), ones(&[4]), ones(&[4])];
    let regions = |batch: i64| vec![ones(&[1, 1, 3, 3]), ones(&[1, 4]), numbers(&[batch])];
    let ratio = given(&[], &[1.5f32]);
    let nodes = vec![
        (onnx("GroupNormalization", 21).int("num_groups", 3), line()),
        (onnx("GroupNormalization", 21).int("num_groups", 0), line()),
        (
            onnx("LayerNormalization", 21),
            vec![ones(&[2, 1]), ones(&[6])],
        ),
        (
            onnx("LayerNormalization", 21),
            vec![ones(&[2, 6]), ones(&[2])],
        ),
        (onnx("LpNormalization", 21).int("p", 0), vec![ones(&[2, 3])]),
        (onnx("LRN", 21).int("size", 2), vec![ones(&[1, 4, 2, 2])]),
        (onnx("LRN", 21).int("size", 0), vec![ones(&[1, 4, 2, 2])]),
        (
            onnx("Dropout", 21),
            vec![ones(&[2]), ratio, given(&[], &[true])],
        ),
        (onnx("RoiAlign", 21), regions(3)),
        (onnx("RoiAlign", 21).int("sampling_ratio", -1), regions(0)),
    ];
    assert_eq!(taken(nodes), [""; 0]);
}
