//! What is given to a run, and what is said when it is wrong.

use streampool_model::graph::Dim;
use streampool_model::{Array, Input, Session};
use streampool_tensor::{DType, Pool};

use super::{first, floats, longs, pool, run};
use crate::onnx::{Graph, Load};
use streampool_model::testing::host_pool;

/// `x * 2 + y`, where `x` has three columns.
fn session(pool: &Pool) -> Session {
    Graph::new()
        .input("x", DType::F32, "rows 3")
        .input("y", DType::F32, "3")
        .constant("two", &Array::scalar(2f32))
        .node("Mul x two = twice", &[])
        .node("Add twice y = sum", &[])
        .outputs("sum twice")
        .session(pool)
}

fn good() -> [Array; 2] {
    [
        floats(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0], &[2, 3]),
        floats(&[0.5, 0.25, 0.0], &[3]),
    ]
}

#[test]
fn a_session_tells_what_it_takes_and_gives() {
    let Some(pool) = pool() else { return };
    let session = session(&pool);
    let names: Vec<&str> = session.inputs().iter().map(|port| &port.name[..]).collect();
    assert_eq!(names, ["x", "y"]);
    let x = &session.inputs()[0];
    assert_eq!(x.dtype, Some(DType::F32));
    let sizes = [Dim::Named("rows".to_owned()), Dim::Fixed(3)];
    assert_eq!(x.shape.as_deref(), Some(&sizes[..]));
    let names: Vec<&str> = session
        .outputs()
        .iter()
        .map(|port| &port.name[..])
        .collect();
    assert_eq!(names, ["sum", "twice"]);
}

#[test]
fn inputs_by_name_by_place_and_as_tensors_give_the_same() {
    let Some(pool) = pool() else { return };
    let session = session(&pool);
    let [x, y] = good();
    let by_place = run(&session, &[&x, &y]).unwrap();
    let sum = by_place.get("sum").unwrap();
    assert_eq!(
        sum.values::<f32>().unwrap(),
        [2.5, 4.25, 6.0, 8.5, 10.25, 12.0]
    );
    let by_name = session.run([("y", &y), ("x", &x)]).unwrap();
    assert_eq!(by_name.get("sum"), Some(sum));
    let tensors = [x.tensor(&pool).unwrap(), y.tensor(&pool).unwrap()];
    let of_tensors = session.run([("x", &tensors[0]), ("y", &tensors[1])]);
    assert_eq!(of_tensors.unwrap().get("sum"), Some(sum));
    let mixed = session.run_positional(&[Input::from(&tensors[0]), Input::from(&y)]);
    assert_eq!(mixed.unwrap().get("sum"), Some(sum));
    let names: Vec<&str> = by_name.iter().map(|(name, _)| name).collect();
    assert_eq!(names, ["sum", "twice"]);
}

#[test]
fn tensors_of_any_layout_are_taken() {
    let Some(pool) = pool() else { return };
    let session = session(&pool);
    let [x, y] = good();
    let expected = first(&session, &[&x, &y]);
    let turned = floats(&[1.0, 4.0, 2.0, 5.0, 3.0, 6.0], &[3, 2]);
    let turned = turned.tensor(&pool).unwrap().transpose(0, 1).unwrap();
    // A view of one row of several.
    let rows = floats(&[9.0, 9.0, 9.0, 0.5, 0.25, 0.0], &[2, 3]);
    let row = rows.tensor(&pool).unwrap().select(0, 1).unwrap();
    let inputs = [Input::from(&turned), Input::from(&row)];
    let outputs = session.run_positional(&inputs).unwrap();
    assert_eq!(outputs.at(0), Some(&expected));
    let tensors = session.run_to_tensors(&inputs).unwrap();
    assert_eq!(Array::of(&tensors[0]).unwrap(), expected);
}

#[test]
fn sizes_that_no_memory_holds_are_an_error() {
    let Some(pool) = pool() else { return };
    let session = Graph::new()
        .input("x", DType::F32, "n 16")
        .node("Relu x = y", &[])
        .outputs("y")
        .session(&pool);
    for rows in [1 << 40, 1 << 60, usize::MAX] {
        let error = session.warm_up(&[&[rows, 16]]).unwrap_err().to_string();
        assert!(error.contains(&rows.to_string()), "{error}");
    }
    session.warm_up(&[&[4, 16]]).unwrap();
}

#[test]
fn a_wrong_input_is_refused_by_name() {
    let Some(pool) = pool() else { return };
    let session = session(&pool);
    let [x, y] = good();
    let refused = |inputs: &[(&str, &Array)], texts: &[&str]| {
        let error = session.run(inputs.iter().copied()).unwrap_err().to_string();
        for text in texts {
            assert!(error.contains(text), "{error} does not say {text}");
        }
    };
    refused(&[("x", &x)], &["\"y\"", "not given", "f32 [3]"]);
    refused(&[], &["\"x\"", "not given", "rows, 3"]);
    refused(&[("x", &x), ("y", &y), ("z", &y)], &["\"z\"", "x, y"]);
    refused(&[("x", &x), ("x", &x)], &["\"x\"", "twice"]);
    let integers = longs(&[1, 2, 3], &[3]);
    refused(
        &[("x", &x), ("y", &integers)],
        &["\"y\"", "i64 [3]", "f32 [3]"],
    );
    let flat = floats(&[1.0; 6], &[6]);
    refused(&[("x", &flat), ("y", &y)], &["\"x\"", "[6]", "rows, 3"]);
    let wide = floats(&[1.0; 4], &[1, 4]);
    refused(&[("x", &wide), ("y", &y)], &["\"x\"", "[1, 4]", "rows, 3"]);
    // What was refused leaves nothing behind.
    assert_eq!(first(&session, &[&x, &y]).shape(), [2, 3]);
}

#[test]
fn too_few_and_too_many_inputs_are_refused() {
    let Some(pool) = pool() else { return };
    let session = session(&pool);
    let [x, y] = good();
    let error = run(&session, &[&x]).unwrap_err().to_string();
    assert!(
        error.contains("\"y\"") && error.contains("not given"),
        "{error}"
    );
    let error = run(&session, &[&x, &y, &y]).unwrap_err().to_string();
    assert!(error.contains("x, y"), "{error}");
    let error = session.run_to_tensors(&[Input::from(&x)]);
    assert!(error.unwrap_err().to_string().contains("\"y\""));
}

#[test]
fn a_tensor_of_another_pool_is_refused() {
    let Some(pool) = pool() else { return };
    let session = session(&pool);
    let [x, y] = good();
    let expected = first(&session, &[&x, &y]);
    let other = x.tensor(&host_pool()).unwrap();
    let inputs = [Input::from(&other), Input::from(&y)];
    let error = session.run_to_tensors(&inputs).unwrap_err();
    assert!(error.to_string().contains("another pool"), "{error}");
    let error = session.run_positional(&inputs).unwrap_err();
    assert!(
        error.to_string().contains("\"x\" is in another pool"),
        "{error}"
    );
    let moved = other.to(&pool).unwrap();
    let outputs = session.run_positional(&[Input::from(&moved), Input::from(&y)]);
    assert_eq!(outputs.unwrap().at(0), Some(&expected));
    assert_eq!(first(&session, &[&x, &y]), expected);
}

#[test]
fn a_named_size_is_the_same_everywhere() {
    let Some(pool) = pool() else { return };
    let session = Graph::new()
        .input("x", DType::F32, "n")
        .input("y", DType::F32, "n")
        .node("Mul x y = product", &[])
        .outputs("product")
        .session(&pool);
    let (two, three) = (floats(&[1.0, 2.0], &[2]), floats(&[1.0, 2.0, 3.0], &[3]));
    let error = run(&session, &[&two, &three]).unwrap_err().to_string();
    assert!(error.contains('2') && error.contains('3'), "{error}");
    assert_eq!(first(&session, &[&two, &two]), floats(&[1.0, 4.0], &[2]));
}

#[test]
fn inputs_without_a_type_are_taken_as_they_come() {
    let Some(pool) = pool() else { return };
    let session = Graph::new()
        .untyped("x")
        .node("Add x x = sum", &[])
        .outputs("sum")
        .session(&pool);
    assert_eq!(first(&session, &[&longs(&[3], &[1])]), longs(&[6], &[1]));
    let x = floats(&[0.5, 1.5], &[1, 2]);
    assert_eq!(first(&session, &[&x]), floats(&[1.0, 3.0], &[1, 2]));
    assert_eq!(
        first(&session, &[&Array::scalar(2i32)]),
        Array::scalar(4i32)
    );
}
