//! What the planner makes of several nodes, against the pieces.

use streampool_tensor::{DType, Tensor};

use crate::graph::Attribute;

use super::{expected, floats, fused, given, pool};

#[test]
fn a_linear_layer_multiplies_adds_and_activates() {
    for (activation, results) in [
        ("none", [-2.0, 5.5, 1.0, -1.5]),
        ("relu", [0.0, 5.5, 1.0, 0.0]),
        ("silu", [-0.238405, 5.477611, 0.731059, -0.273638]),
        ("sigmoid", [0.119203, 0.99593, 0.731059, 0.182426]),
        ("tanh", [-0.964028, 0.999967, 0.761594, -0.905148]),
        ("gelu", [-0.0455, 5.5, 0.841345, -0.100211]),
    ] {
        fused("Linear")
            .string("activation", activation)
            .float("alpha", 0.5)
            .check(
                &[
                    given::<f32>(&[2, 2], &[1.0, 2.0, -1.0, 0.0]),
                    given::<f32>(&[2, 2], &[-1.0, 4.0, -2.0, 3.0]),
                    given::<f32>(&[2], &[0.5, 0.5]),
                ],
                &[expected(&[2, 2], &results)],
            );
    }
}

#[test]
fn a_convolution_activates() {
    fused("Conv")
        .string("activation", "relu")
        .ints("pads", &[0, 1])
        .check(
            &[
                given::<f32>(&[1, 1, 3], &[1.0, 2.0, -3.0]),
                given::<f32>(&[1, 1, 2], &[1.0, 1.0]),
                given::<f32>(&[1], &[0.5]),
            ],
            &[expected(&[1, 1, 3], &[3.5, 0.0, 0.0])],
        );
}

#[test]
fn attention_takes_keys_either_way() -> Result<(), Box<dyn std::error::Error>> {
    let host = pool();
    let [query, key, value] = [1, 2, 3].map(|seed| floats(&[1, 2, 3, 4], seed));
    let tensor =
        |given: &Option<super::Given>| given.as_ref().map(|given| given(&host)).ok_or("given");
    let products = tensor(&query)?
        .matmul(&tensor(&key)?.transpose(2, 3)?)?
        .mul(0.25)?;
    let mixed = products.softmax(-1)?.matmul(&tensor(&value)?)?;
    let results = mixed.to_dtype(DType::F64)?.to_vec::<f64>()?;
    let turned: Tensor = tensor(&key)?.transpose(2, 3)?;
    let turned = given::<f32>(&[1, 2, 4, 3], &turned.to_vec::<f32>()?);
    let results = [expected(&[1, 2, 3, 4], &results)];
    let scale = Attribute::Tensor(Tensor::scalar(&host, 0.25)?);
    let plain = fused("Attention").with("scale", scale.clone());
    plain.check(&[query, key, value], &results);
    let [query, value] = [1, 3].map(|seed| floats(&[1, 2, 3, 4], seed));
    let transposed = fused("Attention")
        .with("scale", scale)
        .int("key_transposed", 1);
    transposed.check(&[query, turned, value], &results);
    Ok(())
}

#[test]
fn activations_stand_alone() {
    let x = || given::<f32>(&[2], &[1.0, -1.0]);
    fused("Gelu").check(&[x()], &[expected(&[2], &[0.841345, -0.158655])]);
    let approximate = fused("Gelu").string("approximate", "tanh");
    approximate.check(&[x()], &[expected(&[2], &[0.841192, -0.158808])]);
    fused("Silu").check(&[x()], &[expected(&[2], &[0.731059, -0.268941])]);
}
