//! Outputs that are carried to the next run.

use streampool_device::Span;
use streampool_model::testing::{Random, host_pool};
use streampool_model::{Array, Binding, Error, Session, SessionOptions};
use streampool_tensor::{DType, Pool, Tensor};

use super::{floats, longs, pool};
use crate::onnx::{Graph, Load, int, ints};

const WIDTH: usize = 8;

/// A layer of attention with a cache that grows, and what it makes of each step.
fn growing(pool: &Pool) -> Session {
    let mut random = Random::new(11);
    let mut graph = Graph::new()
        .input("x", DType::F32, "1 s 8")
        .input("past.k", DType::F32, "1 2 past 4")
        .input("past.v", DType::F32, "1 2 past 4")
        .constant("heads", &longs(&[0, 0, 2, 4], &[4]))
        .constant("flat", &longs(&[0, 0, 8], &[3]));
    for name in ["q", "k", "v"] {
        graph = graph
            .constant(&format!("w{name}"), &random.reals(&[WIDTH, WIDTH]))
            .node(&format!("MatMul x w{name} = {name}0"), &[])
            .node(&format!("Reshape {name}0 heads = {name}1"), &[])
            .node(
                &format!("Transpose {name}1 = {name}"),
                &[ints("perm", &[0, 2, 1, 3])],
            );
    }
    graph
        .node("Concat past.k k = present.k", &[int("axis", 2)])
        .node("Concat past.v v = present.v", &[int("axis", 2)])
        .node(
            "Transpose present.k = turned",
            &[ints("perm", &[0, 1, 3, 2])],
        )
        .node("MatMul q turned = scores", &[])
        .node("Softmax scores = weights", &[])
        .node("MatMul weights present.v = mixed", &[])
        .node("Transpose mixed = rows", &[ints("perm", &[0, 2, 1, 3])])
        .node("Reshape rows flat = y", &[])
        .outputs("y present.k present.v")
        .session(pool)
}

/// A binding of such a model with an empty cache.
fn empty(session: &Session) -> Binding {
    let mut binding = session.bind();
    assert_eq!(binding.carry_caches().unwrap(), 2);
    binding.set_zeros(&[("past", 0)]).unwrap();
    binding
}

fn steps(count: u64) -> Vec<Array> {
    (0..count)
        .map(|step| Random::new(step).reals(&[1, 1, WIDTH]))
        .collect()
}

/// What each step makes, with the cache handed from run to run on the host.
fn by_hand(session: &Session, steps: &[Array]) -> Vec<Vec<f32>> {
    let mut past = [(); 2].map(|()| Array::zeros(DType::F32, &[1, 2, 0, 4]).unwrap());
    let each = steps.iter().map(|x| {
        let inputs = [("x", x), ("past.k", &past[0]), ("past.v", &past[1])];
        let outputs = session.run(inputs).unwrap();
        past = ["present.k", "present.v"].map(|name| outputs[name].clone());
        outputs["y"].values::<f32>().unwrap().to_vec()
    });
    each.collect()
}

fn by_binding(binding: &mut Binding, steps: &[Array]) -> Vec<Vec<f32>> {
    let each = steps.iter().map(|x| {
        let outputs = binding.run([("x", x)]).unwrap();
        assert_eq!(outputs.iter().count(), 1, "what is carried is not returned");
        outputs["y"].values::<f32>().unwrap().to_vec()
    });
    each.collect()
}

fn assert_close(got: &[Vec<f32>], expected: &[Vec<f32>]) {
    assert_eq!(got.len(), expected.len());
    for (step, (got, expected)) in got.iter().zip(expected).enumerate() {
        let mut both = got.iter().zip(expected);
        let is_close = both.all(|(a, b)| (a - b).abs() <= 1e-5 * (1.0 + b.abs()));
        assert!(
            is_close && got.len() == expected.len(),
            "step {step}: {got:?}, expected {expected:?}"
        );
    }
}

fn span(binding: &Binding, input: &str) -> Span {
    binding.get(input).unwrap().buffer().span()
}

#[test]
fn a_cache_that_grows_does_so_in_place_and_gives_what_it_gives_by_hand() {
    let Some(pool) = pool() else { return };
    let session = growing(&pool);
    let steps = steps(150);
    let expected = by_hand(&session, &steps);
    let mut binding = empty(&session);
    assert_close(&by_binding(&mut binding, &steps), &expected);
    // Only when there is no room left does it move: here at 65 and 129 places.
    binding.clear();
    binding.set_zeros(&[("past", 0)]).unwrap();
    let mut moves = Vec::new();
    let mut last = None;
    for (step, x) in steps.iter().enumerate() {
        binding.run([("x", x)]).unwrap();
        let now = Some(span(&binding, "past.k"));
        if step > 1 && now != last {
            moves.push(step + 1);
        }
        last = now;
    }
    assert_eq!(moves, [65, 129]);
    let cache = binding.get("past.k").unwrap();
    assert_eq!(cache.shape(), [1, 2, 150, 4]);
    // A second sequence finds all programs.
    let captures = session.statistics().captures;
    binding.set_zeros(&[("past", 0)]).unwrap();
    assert_close(&by_binding(&mut binding, &steps), &expected);
    assert_eq!(session.statistics().captures, captures);
}

#[test]
fn what_somebody_else_has_of_a_cache_stays_as_it_is() {
    let Some(pool) = pool() else { return };
    let session = growing(&pool);
    let steps = steps(12);
    let expected = by_hand(&session, &steps);
    let mut binding = empty(&session);
    by_binding(&mut binding, &steps[..6]);
    let kept: Vec<(&str, Tensor)> = ["past.k", "past.v"]
        .map(|name| (name, binding.get(name).unwrap().clone()))
        .into();
    let before: Vec<Vec<f32>> = (kept.iter())
        .map(|(_, tensor)| tensor.to_vec().unwrap())
        .collect();
    // Two continue from there, one of them twice.
    assert_close(&by_binding(&mut binding, &steps[6..]), &expected[6..]);
    for _ in 0..2 {
        let mut other = session.bind();
        other.carry_caches().unwrap();
        for (name, tensor) in &kept {
            other.set(name, tensor).unwrap();
        }
        assert_close(&by_binding(&mut other, &steps[6..]), &expected[6..]);
    }
    for ((_, tensor), before) in kept.iter().zip(before) {
        assert_eq!(tensor.to_vec::<f32>().unwrap(), before);
    }
}

#[test]
fn many_threads_have_a_cache_each_and_get_the_bits_of_one() {
    let Some(pool) = pool() else { return };
    let session = growing(&pool);
    let steps = steps(70);
    let expected = by_binding(&mut empty(&session), &steps);
    std::thread::scope(|scope| {
        for _ in 0..16 {
            scope.spawn(|| {
                for _ in 0..2 {
                    assert!(by_binding(&mut empty(&session), &steps) == expected);
                }
            });
        }
    });
}

/// A table of 16 rows of which each run replaces one, and the sums of its columns.
fn fixed(put: &str, opset: i64, pool: &Pool) -> Session {
    let graph = Graph::new()
        .input("x", DType::F32, "1 8")
        .input("place", DType::I64, "1 1")
        .input("past", DType::F32, "n 8")
        .constant("rows", &longs(&[1, 8], &[2]))
        .constant("first", &longs(&[1], &[1]))
        .constant("ahead", &longs(&[0], &[1]));
    let graph = match put {
        "ScatterND" => graph.node("ScatterND past place x = present", &[]),
        "ScatterElements" => graph
            .node("Expand place rows = places", &[])
            .node("ScatterElements past places x = present", &[int("axis", 0)]),
        _ => graph
            .node("Unsqueeze past ahead = past3", &[])
            .node("Unsqueeze x ahead = x3", &[])
            .node("Reshape place first = place1", &[])
            .node(
                "TensorScatter past3 x3 place1 = present3",
                &[int("axis", 1)],
            )
            .node("Squeeze present3 ahead = present", &[]),
    };
    let model = graph
        .constant("down", &longs(&[0], &[1]))
        .node("ReduceSum present down = y", &[int("keepdims", 0)])
        .outputs("y present")
        .model(&[("", opset)]);
    Session::from_bytes(pool, model, &SessionOptions::default()).unwrap()
}

#[test]
fn a_cache_of_a_fixed_size_is_changed_in_place() {
    let Some(pool) = pool() else { return };
    for (put, opset) in [
        ("ScatterND", 18),
        ("ScatterElements", 18),
        ("TensorScatter", 24),
    ] {
        let session = fixed(put, opset, &pool);
        let mut binding = session.bind();
        binding.carry("present", "past").unwrap();
        binding.set_zeros(&[("n", 16)]).unwrap();
        let mut table = vec![[0f32; 8]; 16];
        let mut place_of_cache = None;
        for step in 0..40u64 {
            let x = Random::new(step).reals(&[1, 8]);
            let place = (step * 7 % 16) as usize;
            table[place].copy_from_slice(x.values::<f32>().unwrap());
            let at = longs(&[place as i64], &[1, 1]);
            let outputs = binding.run([("x", &x), ("place", &at)]).unwrap();
            let sums = (0..8).map(|column| table.iter().map(|row| row[column]).sum());
            let got = outputs["y"].values::<f32>().unwrap().to_vec();
            assert_close(&[got], &[sums.collect()]);
            let now = span(&binding, "past");
            assert_eq!(
                *place_of_cache.get_or_insert(now),
                now,
                "{put}, step {step}"
            );
        }
        let cache = binding.get("past").unwrap().to_vec::<f32>().unwrap();
        assert_eq!(cache, table.concat());
        let statistics = session.statistics();
        assert_eq!((statistics.plans, statistics.captures), (1, 1), "{put}");
        // Another that does not carry it leaves what it is given alone.
        let kept = binding.get("past").unwrap().clone();
        let mut other = session.bind();
        other.set("past", &kept).unwrap();
        let outputs = other
            .run([
                ("x", &floats(&[9.0; 8], &[1, 8])),
                ("place", &longs(&[3], &[1, 1])),
            ])
            .unwrap();
        assert_eq!(
            outputs["present"].values::<f32>().unwrap()[24..32],
            [9.0; 8]
        );
        assert_eq!(kept.to_vec::<f32>().unwrap(), table.concat());
    }
}

#[test]
fn a_cache_that_is_read_later_is_not_changed_in_place() {
    let Some(pool) = pool() else { return };
    let session = Graph::new()
        .input("x", DType::F32, "1 8")
        .input("place", DType::I64, "1 1")
        .input("past", DType::F32, "16 8")
        .node("ScatterND past place x = present", &[])
        .constant("down", &longs(&[0], &[1]))
        .node("ReduceSum present down = now", &[int("keepdims", 0)])
        .node("ReduceSum past down = before", &[int("keepdims", 0)])
        .outputs("before now present")
        .session(&pool);
    let mut binding = session.bind();
    binding.carry("present", "past").unwrap();
    binding.set_zeros(&[]).unwrap();
    let mut last = vec![0f32; 8];
    for step in 0..5 {
        let x = floats(&[step as f32; 8], &[1, 8]);
        let at = longs(&[step], &[1, 1]);
        let outputs = binding.run([("x", &x), ("place", &at)]).unwrap();
        assert_eq!(outputs["before"].values::<f32>().unwrap(), last);
        last = outputs["now"].values::<f32>().unwrap().to_vec();
    }
    assert_eq!(last, [10.0; 8]);
}

#[test]
fn what_only_goes_through_is_not_copied() {
    let Some(pool) = pool() else { return };
    let session = Graph::new()
        .input("x", DType::F32, "n")
        .input("state", DType::F32, "n")
        .node("Identity state = same", &[])
        .node("Add x state = y", &[])
        .outputs("y same")
        .session(&pool);
    let mut binding = session.bind();
    binding.carry("same", "state").unwrap();
    binding.set("state", &floats(&[1.0, 2.0], &[2])).unwrap();
    let mut places = Vec::new();
    for step in 0..4 {
        let x = floats(&[step as f32, 0.0], &[2]);
        let outputs = binding.run([("x", &x)]).unwrap();
        assert_eq!(
            outputs["y"].values::<f32>().unwrap(),
            [step as f32 + 1.0, 2.0]
        );
        places.push(span(&binding, "state"));
    }
    assert_eq!(places[1..], [places[1]; 3]);
}

#[test]
fn after_a_failed_run_a_cache_that_was_changed_in_place_has_to_be_set_again() {
    // A place out of range is a fault on the host only.
    let pool = host_pool();
    let session = fixed("ScatterND", 18, &pool);
    let mut binding = session.bind();
    binding.carry("present", "past").unwrap();
    binding.set_zeros(&[("n", 16)]).unwrap();
    let x = floats(&[1.0; 8], &[1, 8]);
    let run = |binding: &mut Binding, place: i64| {
        let at = longs(&[place], &[1, 1]);
        let outputs = binding.run([("x", &x), ("place", &at)])?;
        Ok::<f32, Error>(outputs["y"].values::<f32>().unwrap()[0])
    };
    assert_eq!(run(&mut binding, 2).unwrap(), 1.0);
    // What is refused before it begins changes nothing.
    let wrong = floats(&[1.0; 9], &[1, 9]);
    assert!(binding.run([("x", &wrong)]).is_err());
    assert_eq!(run(&mut binding, 3).unwrap(), 2.0);
    assert!(run(&mut binding, 99).is_err());
    let error = run(&mut binding, 4).unwrap_err();
    assert!(
        matches!(&error, Error::Input { name, .. } if name == "past"),
        "{error}"
    );
    assert!(error.to_string().contains("set again"), "{error}");
    assert!(binding.get("past").is_none());
    binding.set_zeros(&[("n", 16)]).unwrap();
    assert_eq!(run(&mut binding, 4).unwrap(), 1.0);
}

#[test]
fn wrong_uses_are_refused_with_what_would_be_right() {
    let pool = host_pool();
    let session = growing(&pool);
    let mut binding = session.bind();
    let refused = |result: Result<(), Error>, parts: &[&str]| {
        let error = result.unwrap_err();
        assert!(
            matches!(error, Error::Input { .. } | Error::Output { .. }),
            "{error:?}"
        );
        let text = error.to_string();
        assert!(parts.iter().all(|part| text.contains(part)), "{text}");
    };
    refused(
        binding.carry("nothing", "past.k"),
        &["\"nothing\"", "one of y, present.k"],
    );
    refused(
        binding.carry("present.k", "nothing"),
        &["\"nothing\"", "one of x, past.k"],
    );
    refused(
        binding.set("nothing", &floats(&[], &[0])),
        &["one of x, past.k"],
    );
    binding.carry("present.k", "past.k").unwrap();
    refused(
        binding.carry("present.k", "past.v"),
        &["carried to input \"past.k\" already"],
    );
    refused(
        binding.carry("present.v", "past.k"),
        &["output \"present.k\""],
    );
    binding.carry("present.v", "past.v").unwrap();
    refused(
        binding.set_zeros(&[("other", 0)]),
        &["unknown size \"past\""],
    );
    refused(
        binding.set("past.k", &floats(&[0.0; 4], &[1, 1, 1, 4])),
        &["f32 [1, 1, 1, 4]", "f32 [1, 2, past, 4]"],
    );
    refused(
        binding.set("past.k", &longs(&[0; 8], &[1, 2, 1, 4])),
        &["i64", "f32 [1, 2, past, 4]"],
    );
    let elsewhere = Array::zeros(DType::F32, &[1, 2, 1, 4]).unwrap();
    let elsewhere = elsewhere.tensor(&host_pool()).unwrap();
    refused(binding.set("past.k", &elsewhere), &["another pool", "`to`"]);
    let x = floats(&[0.0; WIDTH], &[1, 1, WIDTH]);
    refused(
        binding.run([("x", &x)]).map(drop),
        &["\"past.k\"", "not given"],
    );
    let one = Array::zeros(DType::F32, &[1, 2, 0, 4]).unwrap();
    binding.set("past.k", &one).unwrap();
    binding.set("past.v", &one).unwrap();
    binding.run([("x", &x)]).unwrap();
    // A type that an input cannot be.
    let other = Graph::new()
        .input("x", DType::F32, "n 4")
        .node("ArgMax x = y", &[int("axis", 1)])
        .node("ReduceSum x = z", &[])
        .output("y", DType::I64, "n 1")
        .output("z", DType::F32, "1 3")
        .session(&pool);
    refused(other.bind().carry("y", "x"), &["\"y\"", "cannot be"]);
    refused(other.bind().carry("z", "x"), &["\"z\"", "cannot be"]);
}

#[test]
fn an_input_that_is_set_stays_and_one_that_is_given_counts() {
    let Some(pool) = pool() else { return };
    let session = Graph::new()
        .input("x", DType::F32, "n")
        .input("y", DType::F32, "n")
        .node("Add x y = sum", &[])
        .outputs("sum")
        .session(&pool);
    let mut binding = session.bind();
    binding.set("y", &floats(&[10.0], &[1])).unwrap();
    let mut sum = |inputs: &[(&str, f32)]| {
        let inputs: Vec<(&str, Array)> = (inputs.iter())
            .map(|&(name, value)| (name, floats(&[value], &[1])))
            .collect();
        let inputs = inputs.iter().map(|(name, array)| (*name, array));
        binding.run(inputs).unwrap()["sum"].values::<f32>().unwrap()[0]
    };
    assert_eq!(sum(&[("x", 1.0)]), 11.0);
    assert_eq!(sum(&[("x", 2.0), ("y", 5.0)]), 7.0);
    assert_eq!(sum(&[("x", 3.0)]), 13.0);
}

#[test]
fn a_model_in_parts_carries_its_outputs_too() {
    let Some(pool) = pool() else { return };
    // What is kept are the positive ones of all so far.
    let session = Graph::new()
        .input("x", DType::F32, "n")
        .input("past", DType::F32, "m")
        .node("Concat past x = all", &[int("axis", 0)])
        .node("Relu all = positive", &[])
        .node("NonZero positive = places", &[])
        .node("Transpose places = turned", &[])
        .node("GatherND all turned = present", &[])
        .node("ReduceSum present = total", &[int("keepdims", 0)])
        .outputs("total present")
        .session(&pool);
    let mut binding = session.bind();
    binding.carry_caches().unwrap();
    binding.set_zeros(&[("m", 0)]).unwrap();
    for (x, total) in [([1.0, -2.0], 1.0), ([-3.0, -4.0], 1.0), ([5.0, 6.0], 12.0)] {
        let outputs = binding.run([("x", &floats(&x, &[2]))]).unwrap();
        assert_eq!(outputs["total"].values::<f32>().unwrap(), [total]);
    }
    assert_eq!(
        binding.get("past").unwrap().to_vec::<f32>().unwrap(),
        [1.0, 5.0, 6.0]
    );
}
