//! Nodes that contradict themselves or their inputs, as ONNX's checker or ONNX Runtime refuse them.

use streampool_tensor::{DType, Tensor};

use super::{Given, One, expected, given, made, onnx, pool};
use crate::graph::{Graph, ValueInfo};
use crate::testing::{Value, evaluate_eagerly};

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

#[test]
fn attributes_that_a_sweep_found_contradictory_are_refused() {
    let picture = || vec![ones(&[1, 4, 3, 3])];
    let conv = || vec![ones(&[1, 1, 3, 3]), ones(&[1, 1, 2, 2])];
    let pool = || onnx("MaxPool", 21).ints("kernel_shape", &[2, 2]);
    let heads = || {
        let each = || ones(&[1, 2, 2, 4]);
        vec![each(), each(), each()]
    };
    let boxes = || vec![ones(&[1, 1, 4]), ones(&[1, 1, 1])];
    let places = || given(&[1, 1, 1, 1], &[0i64]);
    let deformed = || {
        vec![
            ones(&[1, 1, 3, 3]),
            ones(&[1, 1, 2, 2]),
            ones(&[1, 8, 2, 2]),
        ]
    };
    let turned = || vec![ones(&[2, 2]), numbers(&[1, 1])];
    let quantised = || vec![ones(&[2]), given(&[], &[0.5f32])];
    let unpool = || onnx("MaxUnpool", 21);
    let unpooled = || vec![ones(&[1, 1, 1, 1]), places()];
    let norm = |name: &str| (onnx(name, 21), vec![ones(&[1, 4, 2]), ones(&[2])]);
    let (layer, inputs) = norm("LayerNormalization");
    let mut nodes = vec![(layer.int("stash_type", 7), inputs)];
    let grouped = onnx("GroupNormalization", 21).int("num_groups", 2);
    nodes.extend([
        (
            grouped.int("stash_type", 7),
            vec![ones(&[1, 4, 2]), ones(&[4]), ones(&[4])],
        ),
        (pool().ints("strides", &[]), picture()),
        (pool().ints("pads", &[]), picture()),
        (pool().ints("dilations", &[]), picture()),
        (pool().int("ceil_mode", 7), picture()),
        (pool().int("storage_order", 7), picture()),
        (onnx("Conv", 21).ints("kernel_shape", &[]), conv()),
        (
            onnx("ConvTranspose", 21).string("auto_pad", "nonsense"),
            conv(),
        ),
        (
            onnx("ConvTranspose", 21).ints("output_shape", &[0, 0]),
            conv(),
        ),
        (onnx("ConvTranspose", 21).ints("output_shape", &[4]), conv()),
        (onnx("ConvTranspose", 21).ints("output_shape", &[]), conv()),
        (
            onnx("ConvTranspose", 21).ints("output_padding", &[]),
            conv(),
        ),
        (onnx("DeformConv", 21).int("offset_group", 7), deformed()),
        (
            unpool()
                .ints("kernel_shape", &[1, 1])
                .ints("strides", &[0, 0]),
            unpooled(),
        ),
        (unpool().ints("kernel_shape", &[0, 0]), unpooled()),
        (
            onnx("LRN", 21).int("size", 1).float("alpha", 0.0),
            picture(),
        ),
        (
            onnx("LRN", 21).int("size", 1).float("beta", f32::NAN),
            picture(),
        ),
        (onnx("LpNormalization", 21).int("p", 7), picture()),
        (
            onnx("MeanVarianceNormalization", 21).ints("axes", &[]),
            picture(),
        ),
        (onnx("Attention", 23).int("q_num_heads", 7), heads()),
        (onnx("Attention", 23).int("kv_num_heads", 0), heads()),
        (
            onnx("NonMaxSuppression", 21).int("center_point_box", 7),
            boxes(),
        ),
        (
            onnx("CenterCropPad", 21).ints("axes", &[0, 0]),
            vec![ones(&[2, 2]), numbers(&[1, 1])],
        ),
        (
            onnx("CenterCropPad", 21).ints("axes", &[0]),
            vec![ones(&[2, 2]), numbers(&[1, 1])],
        ),
        (
            onnx("Constant", 21)
                .int("value_int", 1)
                .float("value_float", 1.0),
            vec![],
        ),
        (onnx("DFT", 20).int("onesided", 1), vec![ones(&[1, 4, 2])]),
        (
            onnx("Reshape", 21).int("allowzero", 7),
            vec![ones(&[2]), numbers(&[2])],
        ),
        (
            onnx("Resize", 21).string("keep_aspect_ratio_policy", "nonsense"),
            vec![ones(&[1]), None, given(&[1], &[2.0f32])],
        ),
        (onnx("ReduceSum", 21).int("keepdims", -1), picture()),
        (onnx("ReverseSequence", 21).int("batch_axis", 0), turned()),
        (onnx("ReverseSequence", 21).int("time_axis", -1), turned()),
        (onnx("QuantizeLinear", 25).int("precision", 7), quantised()),
        (
            onnx("TopK", 21).int("sorted", 7),
            vec![ones(&[3]), numbers(&[1])],
        ),
        (
            onnx("DequantizeLinear", 25).int("output_dtype", 7),
            vec![given(&[2], &[1u8, 2]), given(&[], &[0.5f32])],
        ),
        (onnx("Shrink", 21).float("lambd", f32::NAN), picture()),
    ]);
    assert_eq!(taken(nodes), [""; 0]);
}

#[test]
fn what_others_take_is_taken() {
    let line = || made(&[1, 1, 3], |place| place as f32);
    let shrunk = expected(&[1, 1, 3], &[1.5, -0.5, 0.5]);
    let shrink = onnx("Shrink", 21).float("lambd", -1.0).float("bias", 1.5);
    shrink.check(&[line()], &[shrunk]);
    let auto = onnx("MaxPool", 21).ints("kernel_shape", &[2]);
    let largest = expected(&[1, 1, 2], &[1.0, 2.0]);
    auto.string("auto_pad", "").check(&[line()], &[largest]);
    let selu = onnx("Selu", 21).float("alpha", f32::INFINITY);
    let curved = expected(&[1, 1, 3], &[f64::NAN, 1.050_700_98, 2.101_401_96]);
    selu.check(&[line()], &[curved]);
    let all = onnx("Resize", 21).ints("axes", &[]);
    let doubled = expected(&[1, 1, 6], &[0.0, 0.0, 1.0, 1.0, 2.0, 2.0]);
    all.check(
        &[line(), None, given(&[3], &[1.0f32, 1.0, 2.0])],
        &[doubled],
    );
}

/// As ONNX Runtime 1.32 counts the windows of `[0, 1, 2]`.
#[test]
fn a_pool_beyond_its_input_has_a_window_or_none() {
    let line = || vec![made(&[1, 1, 3], |place| place as f32)];
    let pool = |name: &str, kernel: i64, stride: i64| {
        let pool = onnx(name, 21).ints("kernel_shape", &[kernel]);
        pool.ints("strides", &[stride])
    };
    let root = 5.0f64.sqrt();
    for (name, whole) in [("MaxPool", 2.0), ("AveragePool", 1.0), ("LpPool", root)] {
        for (kernel, stride, windows) in [
            (4, 1, Some(0)),
            (4, 2, Some(1)),
            (4, 3, Some(1)),
            (5, 1, None),
            (5, 2, Some(0)),
            (5, 3, Some(1)),
            (6, 1, None),
            (6, 2, Some(0)),
            (6, 3, Some(0)),
        ] {
            let Some(windows) = windows else {
                assert!(pool(name, kernel, stride).fails(&line()).is_some());
                continue;
            };
            let seen = vec![whole; windows];
            for ceil in [0, 1] {
                let pool = pool(name, kernel, stride).int("ceil_mode", ceil);
                pool.check(&line(), &[expected(&[1, 1, windows], &seen)]);
            }
        }
        let dilated = onnx(name, 21).ints("kernel_shape", &[2]);
        let none = expected(&[1, 1, 0], &[]);
        dilated.ints("dilations", &[3]).check(&line(), &[none]);
    }
    // What is beyond does not count as padding, either.
    let mean = pool("AveragePool", 5, 3).ints("pads", &[1, 0]);
    let counted = expected(&[1, 1, 1], &[0.75]);
    mean.int("count_include_pad", 1).check(&line(), &[counted]);
    let both = [expected(&[1, 1, 0], &[]), expected(&[1, 1, 0], &[])];
    pool("MaxPool", 4, 1).check(&line(), &both);
    // A convolution's is refused, as there.
    let conv = onnx("Conv", 21).fails(&[ones(&[1, 1, 3]), ones(&[1, 1, 4])]);
    assert!(conv.is_some());
}

#[test]
fn outputs_have_the_type_that_is_declared() {
    let mut graph = onnx("EyeLike", 21).int("dtype", 7).graph(&[true], &[true]);
    let pool = pool();
    let run = |graph: &Graph| {
        let x = Tensor::zeros(&pool, &[2, 2], DType::F32).expect("a tensor");
        evaluate_eagerly(graph, (&pool, &pool), &[Some(Value::Tensor(x))])
    };
    assert!(run(&graph).is_ok());
    let output = graph.outputs[0];
    let info = ValueInfo {
        dtype: Some(DType::F32),
        ..ValueInfo::default()
    };
    graph.declare(output, info);
    let Err(error) = run(&graph) else {
        panic!("i64 is not f32");
    };
    assert!(error.to_string().contains("as it is declared"), "{error}");
}
