//! Convolutions of pictures, which a device may lay out as it likes between inputs and outputs.

use streampool_adversary::Adversary;
use streampool_device::ChannelsLast;
use streampool_host::{HostDevice, HostOptions};
use streampool_model::Array;
use streampool_model::testing::Random;
use streampool_tensor::{DType, Pool};

use super::{floats, longs, pool, run};
use crate::onnx::{Graph, Load, int, ints};

/// Nodes of all kinds that stand between convolutions; each line is one.
const NODES: [&str; 26] = [
    "Conv x first first_bias = a",
    "HardSwish a = b",
    "Conv b each each_bias = c",
    "Relu c = d",
    "GlobalAveragePool d = mean",
    "Conv mean squeeze = small",
    "HardSigmoid small = gate",
    "Mul d gate = gated",
    "Conv gated pointwise = e",
    "Add e b = sum",
    "Sigmoid sum = weight",
    "Mul sum weight = f",
    "Concat f d = g",
    "MaxPool g = h",
    "Conv h grouped = i",
    "AveragePool i = j",
    "Slice j zero half one = k",
    "Slice j half all one = l",
    "Conv k narrow = m",
    "Sub m l = n",
    "ReduceMean n one = o",
    "Reshape n rows = p",
    "Transpose p = q",
    "MatMul q product = r",
    "Resize n empty empty sizes = s",
    "Flatten n = t",
];

fn network(random: &mut Random) -> Graph {
    let mut weight = |shape: &[usize]| {
        let each = shape[1..].iter().product::<usize>() as f32;
        let values = random.reals(shape);
        let values: Vec<f32> = values.values::<f32>().unwrap().to_vec();
        let scaled: Vec<f32> = values.iter().map(|value| value / each.sqrt()).collect();
        floats(&scaled, shape)
    };
    let mut graph = Graph::new().input("x", DType::F32, "2 3 21 18");
    for (name, shape) in [
        ("first", &[24, 3, 3, 3][..]),
        ("first_bias", &[24]),
        ("each", &[24, 1, 5, 5]),
        ("each_bias", &[24]),
        ("squeeze", &[24, 24, 1, 1]),
        ("pointwise", &[24, 24, 1, 1]),
        ("grouped", &[32, 12, 3, 3]),
        ("narrow", &[8, 8, 3, 3]),
        ("product", &[8, 5]),
    ] {
        let values = match shape.len() {
            1 => random_bias(shape[0]),
            _ => weight(shape),
        };
        graph = graph.constant(name, &values);
    }
    for (name, values) in [
        ("zero", &[0][..]),
        ("half", &[8]),
        ("all", &[16]),
        ("one", &[1]),
        ("rows", &[2, 8, -1]),
        ("sizes", &[2, 8, 7, 4]),
    ] {
        graph = graph.constant(name, &longs(values, &[values.len()]));
    }
    graph = graph.constant("empty", &floats(&[], &[0]));
    for node in NODES {
        let attributes = match node.split(' ').next_back() {
            Some("a") => vec![ints("strides", &[2, 2]), ints("pads", &[1, 1, 1, 1])],
            Some("c") => vec![int("group", 24), ints("pads", &[2, 2, 2, 2])],
            Some("g") => vec![int("axis", 1)],
            Some("h") => vec![
                ints("kernel_shape", &[3, 3]),
                ints("strides", &[2, 1]),
                ints("pads", &[1, 1, 1, 1]),
            ],
            Some("i") => vec![
                int("group", 4),
                ints("dilations", &[2, 2]),
                ints("pads", &[2, 2, 2, 2]),
            ],
            Some("j") => vec![ints("kernel_shape", &[2, 3])],
            Some("m") => vec![ints("pads", &[1, 1, 1, 1])],
            Some("q") => vec![ints("perm", &[0, 2, 1])],
            _ => vec![],
        };
        graph = graph.node(node, &attributes);
    }
    graph
}

fn random_bias(size: usize) -> Array {
    let values: Vec<f32> = (0..size).map(|index| index as f32 / 10.0 - 1.0).collect();
    floats(&values, &[size])
}

/// A session with all values as outputs leaves everything where callers want it, one with the last may not.
#[test]
fn layouts_between_inputs_and_outputs_change_nothing() {
    let Some(device) = pool() else { return };
    changes_nothing(&device);
    // As cuDNN wants it, and as its kernels for f32 leave it.
    for [dtypes, simple] in [[&[DType::F32][..], &[]], [&[], &[DType::F32]]] {
        let wanted = ChannelsLast {
            dtypes,
            simple,
            throughout: true,
        };
        let host = HostDevice::new(HostOptions::default()).unwrap();
        let strict = Adversary::with_channels_last(host, [], wanted);
        changes_nothing(&Pool::new(strict).unwrap());
    }
}

fn changes_nothing(pool: &Pool) {
    let all: Vec<&str> = NODES
        .iter()
        .filter_map(|node| node.split(' ').next_back())
        .collect();
    let wanted = ["o", "r", "s", "t"];
    let open = network(&mut Random::new(3))
        .outputs(&all.join(" "))
        .session(pool);
    let closed = network(&mut Random::new(3))
        .outputs(&wanted.join(" "))
        .session(pool);
    let mut random = Random::new(5);
    for _ in 0..3 {
        let x = random.reals(&[2, 3, 21, 18]);
        let (expected, got) = (run(&open, &[&x]).unwrap(), run(&closed, &[&x]).unwrap());
        for name in wanted {
            let [expected, got] = [&expected, &got].map(|outputs| outputs.get(name).unwrap());
            assert_eq!(expected.shape(), got.shape(), "{name}");
            let pairs = expected
                .values::<f32>()
                .unwrap()
                .iter()
                .zip(got.values::<f32>().unwrap());
            for (expected, got) in pairs {
                assert!((expected - got).abs() < 1e-4, "{name}: {expected} is {got}");
            }
        }
    }
}

/// Bounds that follow a convolution apply wherever its results are made.
#[test]
fn results_are_kept_between_bounds() {
    let Some(pool) = pool() else { return };
    let mut random = Random::new(7);
    // Channels that are read and made, the window, its distance of places, groups, and lines and places.
    for (read, made, window, dilation, groups, [lines, line]) in [
        (16, 40, 1, 1, 1, [9, 7]),
        (16, 40, 1, 1, 4, [9, 7]),
        (16, 40, 3, 1, 1, [9, 14]),
        (3, 24, 3, 1, 1, [20, 33]),
        (40, 40, 3, 6, 1, [14, 14]),
        (64, 32, 3, 1, 2, [8, 13]),
        (24, 24, 3, 1, 24, [14, 14]),
        (24, 24, 5, 1, 24, [6, 70]),
        (1024, 16, 1, 1, 1, [7, 7]),
    ] {
        let weights = random.reals(&[made, read / groups, window, window]);
        let next = random.reals(&[8, made, 1, 1]);
        let first = random.reals(&[read, read, 1, 1]);
        // These read channels that lie side by side, as a convolution makes them.
        let before = match groups == read || window == 1 {
            true => "Conv x first = h",
            false => "Identity x = h",
        };
        let shape = [2, read, lines, line];
        let pad = (dilation * (window - 1) / 2) as i64;
        let attributes = [
            int("group", groups as i64),
            ints("pads", &[pad; 4]),
            ints("dilations", &[dilation as i64; 2]),
        ];
        let session = |outputs: &str| {
            let input = format!("2 {read} {lines} {line}");
            let graph = Graph::new()
                .input("x", DType::F32, &input)
                .constant("weights", &weights)
                .constant("bias", &random_bias(made))
                .constant("first", &first)
                .constant("next", &next)
                .constant("least", &floats(&[-0.5], &[]))
                .constant("most", &floats(&[1.25], &[]))
                .node(before, &[])
                .node("Conv h weights bias = a", &attributes)
                .node("Clip a least most = b", &[])
                .node("Conv b next = y", &[]);
            graph.outputs(outputs).session(&pool)
        };
        let (open, closed) = (session("a b y"), session("y"));
        let mut x = random.reals(&shape).values::<f32>().unwrap().to_vec();
        x[3] = f32::NAN;
        let x = floats(&x, &shape);
        let (expected, got) = (run(&open, &[&x]).unwrap(), run(&closed, &[&x]).unwrap());
        let of = |outputs: &streampool_model::Outputs, name: &str| {
            outputs.get(name).unwrap().values::<f32>().unwrap().to_vec()
        };
        let [a, b, y] = ["a", "b", "y"].map(|name| of(&expected, name));
        for (expected, got) in y.iter().zip(of(&got, "y")) {
            let near = (expected - got).abs() < 1e-4;
            assert!(
                near || expected.is_nan() && got.is_nan(),
                "{expected} is {got}"
            );
        }
        let mut kept = [0; 3];
        for (a, b) in a.iter().zip(&b) {
            kept[0] += usize::from(*a < -0.5 && *b == -0.5);
            kept[1] += usize::from(*a > 1.25 && *b == 1.25);
            kept[2] += usize::from(a.is_nan() && b.is_nan());
        }
        assert!(kept.iter().all(|&count| count > 0), "{kept:?}");
    }
}
