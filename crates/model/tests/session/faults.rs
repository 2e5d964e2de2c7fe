//! Runs and models that fail. An index that is out of range is a fault on the host only.

use streampool_model::{Array, Input, Session, SessionOptions};
use streampool_tensor::{DType, Pool};

use super::device::host;
use super::{first, floats, longs, pool, run};
use crate::onnx::{Graph, graph, int};

fn gather(pool: &Pool) -> Session {
    Graph::new()
        .input("x", DType::F32, "n")
        .input("places", DType::I64, "m")
        .node("Add x x = twice", &[])
        .node("Gather twice places = y", &[])
        .outputs("y")
        .session(pool)
}

#[test]
fn a_fault_reaches_the_caller_and_the_session_goes_on() {
    let pool = host();
    let session = gather(&pool);
    let x = floats(&[1.0, 2.0, 3.0], &[3]);
    let (good, bad) = (longs(&[2, 0], &[2]), longs(&[2, 3], &[2]));
    let y = floats(&[6.0, 2.0], &[2]);
    for _ in 0..3 {
        assert_eq!(first(&session, &[&x, &good]), y);
        let error = run(&session, &[&x, &bad]).unwrap_err().to_string();
        assert!(error.contains('3'), "{error}");
        // The stream is the caller's to recover.
        pool.current().unwrap().recover().unwrap();
    }
    assert_eq!(first(&session, &[&x, &good]), y);
}

#[test]
fn a_fault_of_tensors_shows_when_they_are_read() {
    let pool = host();
    let session = gather(&pool);
    let x = floats(&[1.0, 2.0, 3.0], &[3]);
    let (good, bad) = (longs(&[2, 0], &[2]), longs(&[2, 3], &[2]));
    let bad = session.run_to_tensors(&[Input::from(&x), Input::from(&bad)]);
    let error = bad.and_then(|tensors| Ok(tensors[0].to_bytes()?));
    assert!(error.is_err());
    pool.current().unwrap().recover().unwrap();
    assert_eq!(first(&session, &[&x, &good]), floats(&[6.0, 2.0], &[2]));
}

#[test]
fn a_fault_of_one_thread_is_no_other_thread_s() {
    let pool = host();
    let session = gather(&pool);
    let x = floats(&[1.0, 2.0, 3.0], &[3]);
    std::thread::scope(|scope| {
        for thread in 0..8 {
            let (session, pool, x) = (&session, &pool, &x);
            scope.spawn(move || {
                for _ in 0..50 {
                    if thread % 2 == 0 {
                        let y = first(session, &[x, &longs(&[2, 0], &[2])]);
                        assert_eq!(y, floats(&[6.0, 2.0], &[2]));
                    } else {
                        assert!(run(session, &[x, &longs(&[2, 3], &[2])]).is_err());
                        pool.current().unwrap().recover().unwrap();
                    }
                }
            });
        }
    });
}

#[test]
fn shapes_that_do_not_go_together_are_refused_by_node() {
    let Some(pool) = pool() else { return };
    let session = Graph::new()
        .input("x", DType::F32, "n m")
        .constant("w", &floats(&[1.0; 6], &[3, 2]))
        .node("MatMul x w = product", &[])
        .outputs("product")
        .session(&pool);
    for _ in 0..2 {
        let error = run(&session, &[&floats(&[1.0; 4], &[2, 2])]).unwrap_err();
        let error = error.to_string();
        assert!(
            error.contains("\"product\"") && error.contains("[3, 2]"),
            "{error}"
        );
        let y = first(&session, &[&floats(&[1.0; 3], &[1, 3])]);
        assert_eq!(y, floats(&[3.0, 3.0], &[1, 2]));
    }
}

#[test]
fn a_fault_between_parts_reaches_the_caller() {
    let pool = host();
    let session = Graph::new()
        .input("x", DType::F32, "n")
        .input("list", DType::F32, "m")
        .node("NonZero x = places", &[])
        .node("Gather list places = y", &[])
        .outputs("y")
        .session(&pool);
    let list = floats(&[5.0, 6.0], &[2]);
    for _ in 0..2 {
        let bad = floats(&[0.0, 0.0, 1.0], &[3]);
        assert!(run(&session, &[&bad, &list]).is_err());
        pool.current().unwrap().recover().unwrap();
        let good = floats(&[0.0, 1.0, 0.0], &[3]);
        assert_eq!(first(&session, &[&good, &list]), floats(&[6.0], &[1, 1]));
    }
}

#[test]
fn a_model_of_unknown_operators_is_refused_with_every_place() {
    let Some(pool) = pool() else { return };
    let refused = |graph: Graph| {
        let loaded = graph.load(&pool, &SessionOptions::default());
        loaded.err().expect("nobody knows the operator").to_string()
    };
    let inner = |name: &str| {
        Graph::new()
            .node(&format!("Frobnicate x = {name}"), &[])
            .outputs(name)
    };
    let error = refused(
        Graph::new()
            .input("x", DType::F32, "n")
            .constant("yes", &Array::scalar(true))
            .node("Frobnicate x = first_place", &[])
            .node("Neg first_place = good", &[])
            .node("Frobnicate good = second_place", &[int("deep", 1)])
            .node("Twiddle second_place = third_place", &[])
            .node(
                "If yes = chosen",
                &[
                    graph("then_branch", inner("inner_place")),
                    graph("else_branch", inner("other_place")),
                ],
            )
            .outputs("third_place chosen"),
    );
    for text in [
        "Frobnicate",
        "Twiddle",
        "first_place",
        "second_place",
        "third_place",
    ] {
        assert!(error.contains(text), "{error} does not say {text}");
    }
    for text in ["inner_place", "other_place"] {
        assert!(error.contains(text), "{error} does not say {text}");
    }
    let error = refused(
        Graph::new()
            .input("x", DType::F32, "n")
            .node_of("of.nobody", "Own x = here", &[])
            .node_of("of.nobody", "Own here = there", &[])
            .outputs("there"),
    );
    for text in ["of.nobody", "Own", "here", "there"] {
        assert!(error.contains(text), "{error} does not say {text}");
    }
}
