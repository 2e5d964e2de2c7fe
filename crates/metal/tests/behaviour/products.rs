//! Which kernels multiply matrices, on GPUs whose simdgroups do and on others.

use streampool_device::{Device, Error as DeviceError};
use streampool_runtime::{Activation, Buffer, DType, Error, MatMul, Op, Result, Stream};

use crate::common::{Stage, device};
use crate::gpu::*;

const SIDE: usize = 40;

fn matrix(stream: &Stream, value: f32) -> Result<Buffer> {
    let mut matrix = stream.allocate(SIDE * SIDE * 4)?;
    stream.upload(&mut matrix, &[value; SIDE * SIDE])?;
    Ok(matrix)
}

/// The product of a matrix of twos and one of threes.
fn product(stream: &Stream) -> Result<Vec<f32>> {
    let (twos, threes) = (matrix(stream, 2.0)?, matrix(stream, 3.0)?);
    let mut out = stream.allocate(SIDE * SIDE * 4)?;
    stream.encode(Op::MatMul(MatMul {
        a: twos.read(DType::F32, &[SIDE, SIDE])?,
        b: threes.read(DType::F32, &[SIDE, SIDE])?,
        out: out.write(DType::F32, &[SIDE, SIDE])?,
        bias: None,
        activation: Activation::None,
        alpha: 1.0,
    }))?;
    stream.download(&out)
}

#[test]
fn kernels_are_refused_where_simdgroups_are_of_another_size() {
    let stage = Stage::new();
    stage.0.simdgroup(16);
    let Some(device) = device() else { return };
    let pool = pool(&device, 4);
    let refused = product(pool.stream(1).unwrap()).unwrap_err();
    let why = refused.to_string();
    assert!(
        why.contains("simdgroups of 32") && why.contains("of 16"),
        "{why}"
    );
}

#[test]
fn simdgroups_multiply_matrices_from_apples_family_7_on() {
    for (family, kernel) in [(6, "product_tiled"), (7, "product_blocks")] {
        let stage = Stage::new();
        stage.0.apple_family(family);
        let Some(device) = device() else { return };
        let features = &device.properties().features;
        let told = features
            .iter()
            .any(|feature| feature == "simdgroup matrices");
        assert_eq!(told, family >= 7, "{features:?}");
        within(FOREVER, || {
            let pool = pool(&device, 4);
            let stream = pool.stream(1).unwrap();
            // Who does not compile says which it is.
            stage.0.fail_compile("it was asked to fail");
            let outcome = product(stream);
            assert!(
                matches!(&outcome, Err(Error::Device(DeviceError::Compile { kernel: refused, .. })) if refused == kernel),
                "{outcome:?}"
            );
            assert_eq!(product(stream).unwrap(), [6.0 * SIDE as f32; SIDE * SIDE]);
        });
    }
}
