//! Inputs for which a model has values of its own.

use streampool_model::{Array, Input, Outputs, Result, RunOptions, Session};
use streampool_tensor::{DType, Pool};

use super::{first, floats, longs, pool};
use crate::onnx::{Graph, Load};

/// y = x * scale + shift, and z, x in the shape `sizes`.
fn scaled(pool: &Pool) -> Session {
    Graph::new()
        .input("x", DType::F32, "n")
        .input("scale", DType::F32, "")
        .input("shift", DType::F32, "k")
        .input("sizes", DType::I64, "r")
        .constant("scale", &Array::scalar(2f32))
        .constant("shift", &floats(&[1.0], &[1]))
        .constant("sizes", &longs(&[1, -1], &[2]))
        .constant("own", &floats(&[0.0], &[1]))
        .node("Mul x scale = scaled", &[])
        .node("Add scaled shift = shifted", &[])
        .node("Add shifted own = y", &[])
        .node("Reshape x sizes = z", &[])
        .outputs("y z")
        .session(pool)
}

fn run(session: &Session, inputs: &[(&str, &Array)]) -> Result<Outputs> {
    session.run(inputs.iter().copied())
}

#[test]
fn what_is_not_given_is_what_the_model_says() {
    let Some(pool) = pool() else { return };
    let session = scaled(&pool);
    let names = |ports: &[streampool_model::ValueInfo]| -> Vec<String> {
        ports.iter().map(|port| port.name.clone()).collect()
    };
    assert_eq!(names(session.inputs()), ["x"]);
    assert_eq!(
        names(session.optional_inputs()),
        ["scale", "shift", "sizes"]
    );
    let x = floats(&[1.0, 2.0], &[2]);
    assert_eq!(first(&session, &[&x]), floats(&[3.0, 5.0], &[2]));
    let (scale, shift) = (Array::scalar(10f32), floats(&[5.0, 7.0], &[2]));
    for (given, expected) in [
        (&[("x", &x)][..], [3.0, 5.0]),
        (&[("scale", &scale), ("x", &x)], [11.0, 21.0]),
        (&[("x", &x), ("shift", &shift)], [7.0, 11.0]),
        (
            &[("shift", &shift), ("x", &x), ("scale", &scale)],
            [15.0, 27.0],
        ),
        (&[("x", &x)], [3.0, 5.0]),
    ] {
        let outputs = run(&session, given).unwrap();
        assert_eq!(outputs.get("y"), Some(&floats(&expected, &[2])));
        assert_eq!(outputs.get("z"), Some(&floats(&[1.0, 2.0], &[1, 2])));
    }
    let inputs = [("x", &x), ("scale", &scale)];
    let pending = session.submit(inputs.map(|(name, array)| (name, Input::from(array))));
    let outputs = pending.unwrap().wait().unwrap();
    assert_eq!(outputs.get("y"), Some(&floats(&[11.0, 21.0], &[2])));
    let statistics = session.statistics();
    assert_eq!((statistics.plans, statistics.replays), (4, 7));
}

#[test]
fn what_decides_shapes_may_be_given_too() {
    let Some(pool) = pool() else { return };
    let session = scaled(&pool);
    let x = floats(&[1.0, 2.0, 3.0, 4.0], &[4]);
    for sizes in [&[2i64, 2][..], &[4, 1, 1], &[2, 2], &[-1]] {
        let given = longs(sizes, &[sizes.len()]);
        let outputs = run(&session, &[("x", &x), ("sizes", &given)]).unwrap();
        let got = outputs.get("z").unwrap();
        let expected: Vec<usize> = sizes
            .iter()
            .map(|&size| if size < 0 { 4 } else { size as usize })
            .collect();
        assert_eq!(got, &floats(&[1.0, 2.0, 3.0, 4.0], &expected));
    }
}

#[test]
fn many_threads_give_different_ones() {
    let Some(pool) = pool() else { return };
    let session = scaled(&pool);
    let x = floats(&[1.0, 2.0], &[2]);
    std::thread::scope(|scope| {
        for thread in 0..12 {
            let (session, x) = (&session, &x);
            scope.spawn(move || {
                for turn in 0..20 {
                    let scale = (thread + turn) as f32;
                    let given = Array::scalar(scale);
                    let (outputs, scale) = match turn % 3 {
                        0 => (run(session, &[("x", x)]), 2.0),
                        _ => (run(session, &[("x", x), ("scale", &given)]), scale),
                    };
                    let expected = floats(&[scale + 1.0, 2.0 * scale + 1.0], &[2]);
                    assert_eq!(outputs.unwrap().get("y"), Some(&expected));
                }
            });
        }
    });
}

#[test]
fn what_does_not_fit_is_told() {
    let Some(pool) = pool() else { return };
    let session = scaled(&pool);
    let x = floats(&[1.0, 2.0], &[2]);
    let wrong = |inputs: &[(&str, &Array)]| run(&session, inputs).unwrap_err().to_string();
    let error = wrong(&[("x", &x), ("scale", &longs(&[1], &[]))]);
    assert!(error.contains("scale") && error.contains("f32"), "{error}");
    let error = wrong(&[("x", &x), ("shift", &Array::scalar(1f32))]);
    assert!(error.contains("shift") && error.contains("[k]"), "{error}");
    let error = wrong(&[("scale", &Array::scalar(1f32))]);
    assert!(
        error.contains('x') && error.contains("not given"),
        "{error}"
    );
    let error = wrong(&[("x", &x), ("own", &x)]);
    assert!(error.contains("one of x, scale, shift, sizes"), "{error}");
    let twice = Array::scalar(1f32);
    let error = wrong(&[("x", &x), ("scale", &twice), ("scale", &twice)]);
    assert!(error.contains("given twice"), "{error}");
    let late = RunOptions::within(std::time::Duration::ZERO);
    let inputs = [("x", &x), ("scale", &twice)];
    assert!(session.run_with(inputs, &late).is_err());
}
