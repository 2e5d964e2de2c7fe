//! Quantised convolutions, which a device may compute with bytes.

use streampool_adversary::Adversary;
use streampool_device::{ChannelsLast, DType};
use streampool_host::{HostDevice, HostOptions};
use streampool_model::Array;
use streampool_model::testing::Random;
use streampool_tensor::Pool;

use super::{first, floats, pool};
use crate::onnx::{Graph, Load, int, ints};

/// Scales are powers of two, so that floats are exact and no byte depends on how sums are made. What pads is not byte zero.
const NODES: [&str; 19] = [
    "QuantizeLinear x sixteenth middle = xq",
    "DequantizeLinear xq sixteenth middle = xd",
    "DequantizeLinear first each first_zero = first_d",
    "Conv xd first_d bias = a",
    "QuantizeLinear a half low = aq",
    "DequantizeLinear aq half low = ad",
    "DequantizeLinear second sixteenth = second_d",
    "Conv ad second_d = b",
    "Relu b = br",
    "QuantizeLinear br half nothing = bq",
    "DequantizeLinear bq half nothing = bd",
    "DequantizeLinear third each first_zero = third_d",
    "Conv bd third_d bias = c",
    "QuantizeLinear c half signed = cq",
    "DequantizeLinear cq half signed = cd",
    "Add cd bd = e",
    "QuantizeLinear e sixteenth low = eq",
    "DequantizeLinear eq sixteenth low = ed",
    "Relu ed = y",
];

fn network(random: &mut Random) -> Graph {
    let mut signed = |shape: &[usize]| {
        let count = shape.iter().product();
        let values: Vec<i8> = (0..count).map(|_| random.below(31) as i8 - 15).collect();
        Array::new(&values, shape).unwrap()
    };
    let each: Vec<f32> = (0..16)
        .map(|channel| 0.5f32.powi(3 + channel % 4))
        .collect();
    let bias: Vec<f32> = (0..16).map(|channel| channel as f32 / 4.0 - 2.0).collect();
    let bytes = |value: u8| Array::new(&[value], &[]).unwrap();
    let mut graph = Graph::new()
        .input("x", DType::F32, "2 12 9 14")
        .constant("first", &signed(&[16, 12, 3, 3]))
        .constant("second", &signed(&[16, 8, 3, 3]))
        .constant("third", &signed(&[16, 16, 1, 1]))
        .constant("first_zero", &Array::new(&[0i8; 16], &[16]).unwrap())
        .constant("each", &floats(&each, &[16]))
        .constant("bias", &floats(&bias, &[16]))
        .constant("sixteenth", &floats(&[0.0625], &[]))
        .constant("half", &floats(&[0.5], &[]))
        .constant("middle", &bytes(125))
        .constant("low", &bytes(77))
        .constant("nothing", &bytes(0))
        .constant("signed", &Array::new(&[-3i8], &[]).unwrap());
    for node in NODES {
        let attributes = match node.split(' ').next_back() {
            Some("first_d" | "third_d") => vec![int("axis", 0)],
            Some("a") => vec![ints("strides", &[2, 1]), ints("pads", &[1, 2, 1, 0])],
            Some("b") => vec![
                int("group", 2),
                ints("pads", &[2, 2, 2, 2]),
                ints("dilations", &[2, 2]),
            ],
            _ => vec![],
        };
        graph = graph.node(node, &attributes);
    }
    graph.outputs("y aq")
}

/// Channels that see only themselves, activations that keep all bytes and others, rows of a matrix, and windows of bytes as their own
/// operator.
const MOBILE: [&str; 46] = [
    "QuantizeLinear x sixteenth middle = xq",
    "DequantizeLinear xq sixteenth middle = xd",
    "DequantizeLinear first each first_zero = first_d",
    "Conv xd first_d bias = a",
    "Clip a low_bound high_bound = ac",
    "QuantizeLinear ac thirtieth nothing = aq",
    "DequantizeLinear aq thirtieth nothing = ad",
    "DequantizeLinear apart each first_zero = apart_d",
    "Conv ad apart_d = b",
    "QuantizeLinear b half middle = bq",
    "DequantizeLinear bq half middle = bd",
    "HardSwish bd = bs",
    "QuantizeLinear bs half low = cq",
    "DequantizeLinear cq half low = cd",
    "DequantizeLinear wide each first_zero = wide_d",
    "Conv cd wide_d bias = d",
    "QuantizeLinear d sixteenth middle = dq",
    "QLinearConv dq sixteenth middle point each first_zero half middle = eq",
    "DequantizeLinear eq half middle = ed",
    "Slice ed starts ends axes = s",
    "QuantizeLinear s half middle = sq",
    "DequantizeLinear sq half middle = sd",
    "Concat sd cd = k",
    "QuantizeLinear k sixteenth middle = kq",
    "DequantizeLinear kq sixteenth middle = kd",
    "MaxPool kd = kp",
    "QuantizeLinear kp sixteenth middle = kpq",
    "DequantizeLinear kpq sixteenth middle = kpd",
    "Transpose kpd = t",
    "QuantizeLinear t sixteenth middle = tq",
    "DequantizeLinear tq sixteenth middle = td",
    "GlobalAveragePool td = p",
    "Flatten p = f",
    "QuantizeLinear f thirtieth middle = fq",
    "DequantizeLinear fq thirtieth middle = fd",
    "DequantizeLinear matrix each first_zero = matrix_d",
    "DequantizeLinear bias_i half = bias_d",
    "Gemm fd matrix_d bias_d = g",
    "Relu g = gr",
    "QuantizeLinear gr half nothing = gq",
    "DequantizeLinear gq half nothing = gd",
    "DequantizeLinear turned each first_zero = turned_d",
    "MatMul gd turned_d = m",
    "QuantizeLinear m half middle = mq",
    "DequantizeLinear mq half middle = md",
    "Add md gd = y",
];

fn mobile(random: &mut Random) -> Graph {
    let mut signed = |shape: &[usize]| {
        let count = shape.iter().product();
        let values: Vec<i8> = (0..count).map(|_| random.below(41) as i8 - 20).collect();
        Array::new(&values, shape).unwrap()
    };
    let each: Vec<f32> = (0..16)
        .map(|channel| 0.5f32.powi(3 + channel % 4))
        .collect();
    let bias: Vec<f32> = (0..16).map(|channel| channel as f32 / 4.0 - 2.0).collect();
    let bias_i: Vec<i32> = (0..16).map(|channel| 3 * channel - 20).collect();
    let bytes = |value: u8| Array::new(&[value], &[]).unwrap();
    let mut graph = Graph::new()
        .input("x", DType::F32, "2 3 23 30")
        .constant("first", &signed(&[16, 3, 3, 3]))
        .constant("apart", &signed(&[16, 1, 3, 3]))
        .constant("wide", &signed(&[16, 1, 5, 5]))
        .constant("point", &signed(&[16, 16, 1, 1]))
        .constant("matrix", &signed(&[16, 24]))
        .constant("turned", &signed(&[16, 16]))
        .constant("first_zero", &Array::new(&[0i8; 16], &[16]).unwrap())
        .constant("each", &floats(&each, &[16]))
        .constant("bias", &floats(&bias, &[16]))
        .constant("bias_i", &Array::new(&bias_i, &[16]).unwrap())
        .constant("starts", &Array::new(&[4i64], &[1]).unwrap())
        .constant("ends", &Array::new(&[12i64], &[1]).unwrap())
        .constant("axes", &Array::new(&[1i64], &[1]).unwrap())
        .constant("low_bound", &floats(&[0.0], &[]))
        .constant("high_bound", &floats(&[8.0], &[]))
        .constant("sixteenth", &floats(&[0.0625], &[]))
        .constant("thirtieth", &floats(&[0.03125], &[]))
        .constant("half", &floats(&[0.5], &[]))
        .constant("middle", &bytes(125))
        .constant("low", &bytes(77))
        .constant("nothing", &bytes(0));
    for node in MOBILE {
        let attributes = match node.split(' ').next_back() {
            Some("first_d" | "apart_d" | "wide_d" | "matrix_d") => vec![int("axis", 0)],
            Some("turned_d") => vec![int("axis", 1)],
            Some("a") => vec![ints("strides", &[2, 2]), ints("pads", &[1, 1, 1, 1])],
            Some("b") => vec![int("group", 16), ints("pads", &[1, 1, 1, 1])],
            Some("d") => vec![int("group", 16), ints("pads", &[2, 2, 2, 2])],
            Some("g") => vec![int("transB", 1)],
            Some("k") => vec![int("axis", 1)],
            Some("kp") => vec![
                ints("kernel_shape", &[3, 3]),
                ints("strides", &[2, 2]),
                ints("pads", &[1, 1, 1, 1]),
            ],
            Some("t") => vec![ints("perm", &[0, 1, 3, 2])],
            _ => vec![],
        };
        graph = graph.node(node, &attributes);
    }
    graph.outputs("y aq")
}

#[test]
fn bytes_and_the_floats_that_they_stand_for_give_the_same() {
    alike(network, &[2, 12, 9, 14]);
    alike(mobile, &[2, 3, 23, 30]);
}

/// A network gives the same with bytes and with floats.
fn alike(network: fn(&mut Random) -> Graph, shape: &[usize]) {
    let Some(own) = pool() else { return };
    let host = HostDevice::new(HostOptions::default()).unwrap();
    let floats_alone = ChannelsLast {
        dtypes: &[DType::F32],
        ..ChannelsLast::default()
    };
    let floats = Pool::new(Adversary::with_channels_last(host, [], floats_alone)).unwrap();
    let sessions = [&own, &floats].map(|pool| network(&mut Random::new(9)).session(pool));
    let mut random = Random::new(10);
    for _ in 0..3 {
        let x = random.reals(shape);
        let [got, expected] = [0, 1].map(|number| first(&sessions[number], &[&x]));
        assert_eq!(
            got.values::<f32>().unwrap(),
            expected.values::<f32>().unwrap()
        );
        let numbers = expected.values::<f32>().unwrap();
        let different = numbers
            .iter()
            .filter(|&&number| number != numbers[0])
            .count();
        assert!(different > numbers.len() / 4, "most of it is one number");
    }
}
