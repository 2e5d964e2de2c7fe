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

#[test]
fn bytes_and_the_floats_that_they_stand_for_give_the_same() {
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
        let x = random.reals(&[2, 12, 9, 14]);
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
