//! Models whose course depends on values: part after part.

use streampool_model::{Array, Session};
use streampool_tensor::{DType, Pool};

use super::{first, floats, longs, pool, run};
use crate::onnx::{Graph, Load, graph, int};

#[test]
fn nonzero_gives_as_many_as_there_are() {
    let Some(pool) = pool() else { return };
    let session = Graph::new()
        .input("x", DType::F32, "n")
        .node("Relu x = positive", &[])
        .node("NonZero positive = places", &[])
        .node("Transpose places = turned", &[])
        .node("GatherND x turned = found", &[])
        .node("Add found found = twice", &[])
        .outputs("twice places")
        .session(&pool);
    for (values, places, twice) in [
        (&[1.0f32, -2.0, 3.0][..], &[0i64, 2][..], &[2.0f32, 6.0][..]),
        (&[-1.0, -2.0, -3.0], &[], &[]),
        (&[1.0, 2.0, 3.0], &[0, 1, 2], &[2.0, 4.0, 6.0]),
        (&[], &[], &[]),
        (&[0.0, 5.0], &[1], &[10.0]),
        (&[4.0, -2.0, 8.0], &[0, 2], &[8.0, 16.0]),
    ] {
        let outputs = run(&session, &[&floats(values, &[values.len()])]).unwrap();
        assert_eq!(outputs.at(0), Some(&floats(twice, &[twice.len()])));
        assert_eq!(outputs.at(1), Some(&longs(places, &[1, places.len()])));
    }
}

#[test]
fn compress_takes_what_a_condition_says() {
    let Some(pool) = pool() else { return };
    let session = Graph::new()
        .input("x", DType::F32, "n 2")
        .constant("limit", &Array::scalar(0f32))
        .constant("axes", &longs(&[1], &[1]))
        .node("ReduceSum x axes = sums", &[int("keepdims", 0)])
        .node("Greater sums limit = kept", &[])
        .node("Compress x kept = rows", &[int("axis", 0)])
        .node("Neg rows = y", &[])
        .outputs("y")
        .session(&pool);
    let x = floats(&[1.0, 2.0, -3.0, 1.0, 4.0, 4.0], &[3, 2]);
    let y = floats(&[-1.0, -2.0, -4.0, -4.0], &[2, 2]);
    assert_eq!(first(&session, &[&x]), y);
    let none = floats(&[-1.0, 0.0], &[1, 2]);
    assert_eq!(first(&session, &[&none]), floats(&[], &[0, 2]));
}

/// The first branch gives a row more than the other.
pub fn branches(condition: &str, dtype: DType, sizes: &str, pool: &Pool) -> Session {
    let more = Graph::new()
        .node("Concat doubled doubled = two", &[int("axis", 0)])
        .outputs("two");
    let fewer = Graph::new().node("Neg doubled = less", &[]).outputs("less");
    Graph::new()
        .input("x", DType::F32, "n")
        .input("c", dtype, sizes)
        .constant("zero", &Array::zeros(dtype, &[]).unwrap())
        .constant("one", &floats(&[1.0], &[1]))
        .node("Add x x = doubled", &[])
        .node(condition, &[])
        .node(
            "If yes = chosen",
            &[graph("then_branch", more), graph("else_branch", fewer)],
        )
        .node("Add chosen one = y", &[])
        .outputs("y")
        .session(pool)
}

#[test]
fn a_condition_on_data_chooses_a_branch() {
    let Some(pool) = pool() else { return };
    let session = branches("Greater c zero = yes", DType::F32, "", &pool);
    let x = floats(&[1.0, 2.0], &[2]);
    for round in 0..6 {
        let c = round % 2;
        let y = match c {
            1 => floats(&[3.0, 5.0, 3.0, 5.0], &[4]),
            _ => floats(&[-1.0, -3.0], &[2]),
        };
        assert_eq!(first(&session, &[&x, &Array::scalar(c as f32)]), y);
    }
}

#[test]
fn a_small_integer_decides_without_parts() {
    let Some(pool) = pool() else { return };
    let session = branches("Greater c zero = yes", DType::I64, "", &pool);
    let x = floats(&[1.0, 2.0], &[2]);
    for round in 0..10 {
        let y = match round % 2 {
            1 => floats(&[3.0, 5.0, 3.0, 5.0], &[4]),
            _ => floats(&[-1.0, -3.0], &[2]),
        };
        let c = Array::scalar(i64::from(round % 2 == 1));
        assert_eq!(first(&session, &[&x, &c]), y);
        let of_tensor = c.tensor(&pool).unwrap();
        let outputs = session.run_positional(&[(&x).into(), (&of_tensor).into()]);
        assert_eq!(outputs.unwrap().at(0), Some(&y), "with a tensor");
    }
    let statistics = session.statistics();
    assert_eq!((statistics.nodes_alone, statistics.captures), (0, 2));
}

#[test]
fn a_loop_takes_as_many_turns_as_data_says() {
    let Some(pool) = pool() else { return };
    let body = Graph::new()
        .input("turn", DType::I64, "")
        .input("go", DType::Bool, "")
        .untyped("before")
        .node("Add before step = after", &[])
        .node("Identity go = on", &[])
        .node("Identity after = listed", &[])
        .outputs("on after")
        .output("listed", DType::F32, "2");
    let session = Graph::new()
        .input("x", DType::F32, "n")
        .input("step", DType::F32, "n")
        .constant("yes", &Array::scalar(true))
        .node("ReduceMax x = most", &[int("keepdims", 0)])
        .node("Cast most = turns", &[int("to", 7)])
        .node("Loop turns yes x = last all", &[graph("body", body)])
        .outputs("last all")
        .session(&pool);
    let step = floats(&[1.0, 10.0], &[2]);
    for turns in [3usize, 1, 0, 5, 3] {
        let x = floats(&[turns as f32, 0.0], &[2]);
        let outputs = run(&session, &[&x, &step]).unwrap();
        let after = |turn: usize| [(turns + turn) as f32, 10.0 * turn as f32];
        assert_eq!(outputs.at(0), Some(&floats(&after(turns), &[2])));
        let all: Vec<f32> = (1..=turns).flat_map(after).collect();
        assert_eq!(outputs.at(1), Some(&floats(&all, &[turns, 2])));
    }
}

#[test]
fn a_loop_ends_when_its_condition_does() {
    let Some(pool) = pool() else { return };
    let body = Graph::new()
        .input("turn", DType::I64, "")
        .input("go", DType::Bool, "")
        .untyped("before")
        .node("Add before before = after", &[])
        .node("Less after limit = on", &[])
        .outputs("on after");
    let session = Graph::new()
        .input("x", DType::F32, "")
        .input("limit", DType::F32, "")
        .constant("yes", &Array::scalar(true))
        .node("Loop - yes x = last", &[graph("body", body)])
        .outputs("last")
        .session(&pool);
    for (x, limit, last) in [
        (1f32, 100f32, 128f32),
        (3.0, 5.0, 6.0),
        (1.0, 1000.0, 1024.0),
    ] {
        let last = Array::scalar(last);
        assert_eq!(
            first(&session, &[&Array::scalar(x), &Array::scalar(limit)]),
            last
        );
    }
}

#[test]
fn what_nms_chooses_is_gathered() {
    let Some(pool) = pool() else { return };
    let session = Graph::new()
        .input("boxes", DType::F32, "1 n 4")
        .input("scores", DType::F32, "1 1 n")
        .constant("most", &longs(&[10], &[1]))
        .constant("overlap", &floats(&[0.5], &[1]))
        .constant("least", &floats(&[0.1], &[1]))
        .constant("place", &longs(&[2], &[1]))
        .constant("axis", &longs(&[0], &[1]))
        .node(
            "NonMaxSuppression boxes scores most overlap least = chosen",
            &[],
        )
        .node("Gather chosen place = column", &[int("axis", 1)])
        .node("Squeeze column = numbers", &[])
        .node("Squeeze boxes axis = list", &[])
        .node("Gather list numbers = kept", &[int("axis", 0)])
        .outputs("kept")
        .session(&pool);
    // The second lies on the first; the last scores too little.
    let boxes = [
        [0.0f32, 0.0, 1.0, 1.0],
        [0.0, 0.05, 1.0, 1.05],
        [3.0, 3.0, 4.0, 4.0],
        [6.0, 6.0, 7.0, 7.0],
    ];
    let all = floats(boxes.as_flattened(), &[1, 4, 4]);
    let kept = first(
        &session,
        &[&all, &floats(&[0.9, 0.8, 0.95, 0.01], &[1, 1, 4])],
    );
    let expected = [boxes[2], boxes[0]];
    assert_eq!(kept, floats(expected.as_flattened(), &[2, 4]));
    let kept = first(
        &session,
        &[&all, &floats(&[0.2, 0.8, 0.7, 0.9], &[1, 1, 4])],
    );
    let expected = [boxes[3], boxes[1], boxes[2]];
    assert_eq!(kept, floats(expected.as_flattened(), &[3, 4]));
}

#[test]
fn parts_are_planned_once_for_each_kind() {
    let Some(pool) = pool() else { return };
    let session = Graph::new()
        .input("x", DType::F32, "n")
        .node("NonZero x = places", &[])
        .node("Transpose places = turned", &[])
        .node("GatherND x turned = found", &[])
        .outputs("found")
        .session(&pool);
    let x = [floats(&[1.0, 0.0], &[2]), floats(&[0.0, 2.0], &[2])];
    for x in x.iter().cycle().take(4) {
        first(&session, &[x]);
    }
    let warm = session.statistics();
    for x in x.iter().cycle().take(20) {
        first(&session, &[x]);
    }
    let after = session.statistics();
    assert_eq!((after.captures, after.plans), (warm.captures, warm.plans));
    assert_eq!(after.nodes_alone - warm.nodes_alone, 20);
}
