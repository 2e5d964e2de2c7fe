//! What a run gives: also what is no result of any node, and nothing at all.

use streampool_device::DeviceKind;
use streampool_model::{Array, Input};
use streampool_tensor::DType;

use super::{first, floats, longs, pool, run};
use crate::onnx::{Graph, Load, int};
use streampool_model::testing::Random;

#[test]
fn an_output_may_be_an_input_or_a_constant() {
    let Some(pool) = pool() else { return };
    let constant = floats(&[1.0, 2.0], &[2]);
    let session = Graph::new()
        .input("x", DType::F32, "n")
        .constant("c", &constant)
        .node("Identity x = same", &[])
        .node("Neg x = less", &[])
        .node("Add c c = known", &[])
        .node("Shape x = shape", &[])
        .outputs("x c same less known shape")
        .session(&pool);
    let known = floats(&[2.0, 4.0], &[2]);
    for values in [&[1.0f32, -3.0][..], &[], &[7.0]] {
        let x = floats(values, &[values.len()]);
        let less: Vec<f32> = values.iter().map(|value| -value).collect();
        let less = floats(&less, &[values.len()]);
        let shape = longs(&[values.len() as i64], &[1]);
        let expected = [&x, &constant, &x, &less, &known, &shape];
        for _ in 0..2 {
            let outputs = run(&session, &[&x]).unwrap();
            for (place, expected) in expected.iter().enumerate() {
                assert_eq!(outputs.at(place), Some(*expected), "output {place}");
            }
            let tensors = session.run_to_tensors(&[Input::from(&x)]).unwrap();
            for (place, expected) in expected.iter().enumerate() {
                assert_eq!(tensors[place].pool(), &pool);
                let got = Array::of(&tensors[place]).unwrap();
                assert_eq!(&got, *expected, "tensor {place}");
            }
        }
    }
}

#[test]
fn a_model_without_inputs_gives_what_it_knows() {
    let Some(pool) = pool() else { return };
    let session = Graph::new()
        .constant("c", &floats(&[1.0, 2.0], &[2]))
        .node("Exp c = e", &[])
        .outputs("e c")
        .session(&pool);
    let outputs = run(&session, &[]).unwrap();
    let e = outputs.get("e").unwrap().values::<f32>().unwrap();
    assert!((e[0] - 1f32.exp()).abs() < 1e-6 && (e[1] - 2f32.exp()).abs() < 1e-5);
    assert_eq!(outputs.get("c"), Some(&floats(&[1.0, 2.0], &[2])));
}

#[test]
fn one_value_may_be_several_outputs() {
    let Some(pool) = pool() else { return };
    let session = Graph::new()
        .input("x", DType::F32, "n")
        .node("Add x x = sum", &[])
        .node("Identity sum = again", &[])
        .node("Identity again = once_more", &[])
        .outputs("sum again once_more")
        .session(&pool);
    let outputs = run(&session, &[&floats(&[1.0, 4.0], &[2])]).unwrap();
    for name in ["sum", "again", "once_more"] {
        assert_eq!(
            outputs.get(name),
            Some(&floats(&[2.0, 8.0], &[2])),
            "{name}"
        );
    }
}

#[test]
fn a_sequence_is_given_whole() {
    let Some(pool) = pool() else { return };
    let session = Graph::new()
        .input("x", DType::F32, "n 2")
        .node("Add x x = sum", &[])
        .node("SequenceConstruct x sum x = all", &[])
        .node("SequenceLength all = length", &[])
        .outputs("all length")
        .session(&pool);
    let x = floats(&[1.0, 2.0], &[1, 2]);
    let sum = floats(&[2.0, 4.0], &[1, 2]);
    for _ in 0..2 {
        let outputs = run(&session, &[&x]).unwrap();
        let all = outputs.sequence("all").unwrap();
        assert_eq!(all, [x.clone(), sum.clone(), x.clone()]);
        assert_eq!(outputs.get("length"), Some(&Array::scalar(3i64)));
    }
}

#[test]
fn nothing_in_gives_nothing_out() {
    let Some(pool) = pool() else { return };
    let session = Graph::new()
        .input("x", DType::F32, "n 4")
        .constant("w", &Random::new(1).reals(&[4, 3]))
        .node("MatMul x w = y", &[])
        .node("Relu y = z", &[])
        .constant("axes", &longs(&[0], &[1]))
        .node("ReduceSum z axes = sum", &[int("keepdims", 0)])
        .node("Softmax z = p", &[])
        .outputs("z sum p")
        .session(&pool);
    let empty = floats(&[], &[0, 4]);
    for _ in 0..2 {
        let outputs = run(&session, &[&empty]).unwrap();
        assert_eq!(outputs.get("z"), Some(&floats(&[], &[0, 3])));
        assert_eq!(outputs.get("sum"), Some(&floats(&[0.0; 3], &[3])));
        assert_eq!(outputs.get("p"), Some(&floats(&[], &[0, 3])));
        // Between the empty ones others go as always.
        let some = first(&session, &[&Random::new(2).reals(&[2, 4])]);
        assert_eq!(some.shape(), [2, 3]);
    }
}

#[test]
fn shapes_may_alternate() {
    let Some(pool) = pool() else { return };
    let session = Graph::new()
        .input("x", DType::F32, "n m")
        .constant("flat", &longs(&[-1], &[1]))
        .node("Shape x = shape", &[])
        .node("Reshape x flat = line", &[])
        .node("Add line line = twice", &[])
        .node("Reshape twice shape = y", &[])
        .outputs("y")
        .session(&pool);
    for round in 0..20 {
        let shape = [1 + round % 2, 3 - round % 3];
        let x = Random::new(round as u64).reals(&shape);
        let twice: Vec<f32> = x.values::<f32>().unwrap().iter().map(|x| x * 2.0).collect();
        assert_eq!(first(&session, &[&x]), floats(&twice, &shape));
    }
    assert_eq!(session.statistics().plans, 6);
    assert_eq!(session.statistics().captures, 6);
}

#[test]
fn sizes_of_outputs_are_said_by_those_of_inputs() {
    let Some(pool) = pool() else { return };
    let session = Graph::new()
        .input("x", DType::F32, "batch length 8")
        .input("past", DType::F32, "batch before 8")
        .constant("w", &Random::new(1).reals(&[8, 4]))
        .constant("flat", &longs(&[-1, 4], &[2]))
        .node("Concat past x = all", &[int("axis", 1)])
        .node("MatMul all w = product", &[])
        .node("Reshape product flat = rows", &[])
        .node("NonZero x = places", &[])
        .node("Neg x = after", &[])
        .output("rows", DType::F32, "many 4")
        .outputs("all product places after")
        .session(&pool);
    let outputs = session.infer_output_shapes();
    let told = |place: usize| {
        let sizes = outputs[place].shape.as_ref()?;
        let sizes: Vec<String> = sizes.iter().map(|size| size.to_string()).collect();
        Some(sizes.join(", "))
    };
    // What is made of a sum of names times another is left as it is declared.
    assert_eq!(told(0).as_deref(), Some("many, 4"));
    assert_eq!(told(1).as_deref(), Some("batch, length + before, 8"));
    assert_eq!(told(2).as_deref(), Some("batch, length + before, 4"));
    // What follows what asks for values is not known.
    assert_eq!((told(3), told(4)), (None, None));
    assert_eq!(outputs[1].dtype, Some(DType::F32));
}

#[test]
fn an_output_that_is_its_input_changed_is_made_of_what_each_run_gives() {
    let Some(pool) = pool() else { return };
    let graph = |reads: &str| {
        let graph = Graph::new()
            .input("x", DType::F32, "n 2")
            .input("at", DType::I64, "m 1")
            .input("new", DType::F32, "m 2")
            .constant("down", &longs(&[0], &[1]))
            .node("ScatterND x at new = y", &[]);
        // One that is read later may not be changed.
        let node = format!("ReduceSum {reads} down = sum");
        graph.node(&node, &[int("keepdims", 0)])
    };
    for (reads, outputs) in [("x", "y sum"), ("y", "y sum"), ("y", "y sum x")] {
        let session = graph(reads).outputs(outputs).session(&pool);
        for run in 0..4u64 {
            let mut random = Random::new(run);
            let x = random.reals(&[5, 2]);
            let (at, new) = (longs(&[3, 1], &[2, 1]), random.reals(&[2, 2]));
            let mut want = x.values::<f32>().unwrap().to_vec();
            let mut sums = [want.clone(), want.clone()];
            let updates = new.values::<f32>().unwrap();
            want[6..8].copy_from_slice(&updates[..2]);
            want[2..4].copy_from_slice(&updates[2..]);
            sums[1].clone_from(&want);
            let sums = &sums[usize::from(reads == "y")];
            let sum = |column: usize| sums.chunks(2).map(|row| row[column]).sum::<f32>();
            let given = [("x", &x), ("at", &at), ("new", &new)];
            let pending = session.submit(given).unwrap();
            for outputs in [session.run(given).unwrap(), pending.wait().unwrap()] {
                assert_eq!(outputs["y"].values::<f32>().unwrap(), want);
                if let Some(same) = outputs.get("x") {
                    assert_eq!(same, &x);
                }
                let got = outputs["sum"].values::<f32>().unwrap();
                for (column, &got) in got.iter().enumerate() {
                    assert!((got - sum(column)).abs() < 1e-4, "{reads}: {got}");
                }
            }
            // A place out of range is an error, and nothing of it is left for the next run.
            if pool.device().properties().kind == DeviceKind::Host {
                let beyond = longs(&[3, 9], &[2, 1]);
                let given = [("x", &x), ("at", &beyond), ("new", &new)];
                session.run(given).unwrap_err();
            }
        }
    }
}

#[test]
fn rows_of_an_output_that_is_its_input_changed_are_divided() {
    let Some(pool) = pool() else { return };
    let graph = Graph::new()
        .input("x", DType::F32, "n 3")
        .input("at", DType::I64, "n 1")
        .input("new", DType::F32, "n 1")
        .node("ScatterElements x at new = y", &[int("axis", 1)]);
    let session = graph.outputs("y").session(&pool);
    for run in 0..3 {
        let number = run as f32;
        let x = floats(&[number; 12], &[4, 3]);
        let (at, new) = (longs(&[0, 1, 2, 1], &[4, 1]), floats(&[9.0; 4], &[4, 1]));
        let inputs = [&x, &at, &new].map(Input::from);
        let shares = session.run_batch(&inputs, &[1, 3]).unwrap();
        let values: Vec<f32> = shares
            .iter()
            .flat_map(|share| share[0].values::<f32>().unwrap().to_vec())
            .collect();
        let mut want = [number; 12];
        for (row, column) in [0, 1, 2, 1].into_iter().enumerate() {
            want[3 * row + column] = 9.0;
        }
        assert_eq!(values, want);
    }
}
