//! Files and requests of a few bytes that name sizes beyond all memory: errors, and the session serves the next.

use streampool_model::onnx::writer::{Graph, ints, string};
use streampool_model::{Array, Session, SessionOptions};
use streampool_tensor::{DType, Pool};

fn pool() -> Pool {
    streampool_model::testing::host_pool()
}

fn longs(values: &[i64]) -> Array {
    Array::new(values, &[values.len()]).unwrap()
}

#[test]
fn a_convolution_whose_window_reaches_beyond_memory_is_an_error() {
    let pool = pool();
    let far = (1 << 30) - 1;
    for (rank, op) in [
        (2, "Conv"),
        (3, "Conv"),
        (2, "ConvTranspose"),
        (3, "ConvTranspose"),
    ] {
        let weight = vec![1f32; 1 << rank];
        let shape = [&[1, 1], &vec![2; rank][..]].concat();
        let pads = [vec![far / 2 + 1; rank], vec![far / 2; rank]].concat();
        let model = Graph::new()
            .input("x", DType::F32, &["1"; 5][..2 + rank].join(" "))
            .constant("w", &Array::new(&weight, &shape).unwrap())
            .node(
                &format!("{op} x w = y"),
                &[ints("dilations", &vec![far; rank]), ints("pads", &pads)],
            )
            .outputs("y")
            .model(&[("", 18)]);
        assert!(model.len() < 300, "{}", model.len());
        let session = Session::from_bytes(&pool, model, &SessionOptions::default());
        let one = Array::new(&[3f32], &[1; 5][..2 + rank]).unwrap();
        let given = session.and_then(|session| session.run([("x", &one)]));
        // A transposed one may come to its one element, which is nothing but padding.
        match given {
            Ok(outputs) => {
                let y = outputs.at(0).unwrap();
                assert_eq!(
                    (op, y.values::<f32>().unwrap()),
                    ("ConvTranspose", &[0.0f32][..])
                );
            }
            Err(error) => assert!(!error.to_string().contains("panic"), "{error}"),
        }
    }
}

#[test]
fn a_request_for_a_size_beyond_memory_is_an_error() {
    let pool = pool();
    for mode in ["nearest", "linear", "cubic"] {
        let model = Graph::new()
            .input("x", DType::F32, "1 1")
            .input("wide", DType::I64, "2")
            .input("sizes", DType::I64, "2")
            .node("Expand x wide = e", &[])
            .node("Resize e - - sizes = y", &[string("mode", mode)])
            .outputs("y")
            .model(&[("", 18)]);
        let session = Session::from_bytes(&pool, model, &SessionOptions::default()).unwrap();
        let one = Array::new(&[3f32], &[1, 1]).unwrap();
        let run = |wide: i64| {
            let (wide, sizes) = (longs(&[1, wide]), longs(&[1, 4]));
            session.run([("x", &one), ("wide", &wide), ("sizes", &sizes)])
        };
        for wide in [1 << 61, 1 << 62, i64::MAX, 1 << 48, (1 << 48) + 1] {
            match run(wide) {
                Ok(outputs) => {
                    let y = outputs.at(0).unwrap();
                    assert_eq!(
                        (wide, y.values::<f32>().unwrap()),
                        (1i64 << 48, &[3.0f32; 4][..])
                    );
                }
                Err(error) => assert!(!error.to_string().contains("panic"), "{error}"),
            }
            let good = run(8).unwrap();
            assert_eq!(good.at(0).unwrap().values::<f32>().unwrap(), [3.0; 4]);
        }
    }
}
