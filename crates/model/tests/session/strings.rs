//! Strings in, strings out: those that a model does not name, too.

use streampool_model::onnx::writer::{Graph, graph, int, string};
use streampool_model::{Array, Error, Input, RunOptions, Session, SessionOptions};
use streampool_tensor::DType;

use super::{longs, pool};

fn session(graph: Graph) -> Option<Session> {
    let model = graph.model(&[("", 20), ("ai.onnx.ml", 3), ("com.microsoft", 1)]);
    let session = Session::from_bytes(&pool()?, model, &SessionOptions::default());
    Some(session.expect("a good model"))
}

/// Each word in small letters, with an end.
fn ended() -> Option<Session> {
    let end = Array::from_strings(&["!"], &[1]).unwrap();
    session(
        Graph::new()
            .strings("x", "n")
            .constant("end", &end)
            .node("StringConcat x end = z", &[])
            .node(
                "StringNormalizer z = y",
                &[string("case_change_action", "LOWER")],
            )
            .outputs("y"),
    )
}

fn words(words: &[&str]) -> Array {
    Array::from_strings(words, &[words.len()]).unwrap()
}

#[test]
fn threads_get_the_strings_of_their_own_runs() {
    let Some(session) = ended() else { return };
    std::thread::scope(|scope| {
        for thread in 0..8 {
            let session = &session;
            scope.spawn(move || {
                for round in 0..20 {
                    let given = [
                        format!("Thread {thread}"),
                        format!("ROUND {round}"),
                        "!".into(),
                    ];
                    let x = Array::from_strings(&given, &[3]).unwrap();
                    let want = given
                        .each_ref()
                        .map(|word| format!("{}!", word.to_lowercase()));
                    let outputs = session.run([("x", &x)]).unwrap();
                    assert_eq!(outputs.strings("y").unwrap(), want);
                    let pending = session.submit([("x", &x)]).unwrap();
                    assert_eq!(pending.wait().unwrap().strings("y").unwrap(), want);
                }
            });
        }
    });
}

#[test]
fn strings_are_moved_and_compared_where_the_work_is() {
    let graph = Graph::new()
        .strings("x", "n")
        .strings("z", "n")
        .input("at", DType::I64, "m")
        .node("Gather x at = y", &[])
        .node("Equal x z = same", &[])
        .node("OptionalHasElement x = there", &[])
        .node("OptionalGetElement x = held", &[])
        .constant("last", &longs(&[2], &[1]))
        .node_of("com.microsoft", "GatherND held last = one", &[])
        .outputs("y same there one");
    let Some(session) = session(graph) else {
        return;
    };
    let (x, z) = (words(&["a", "b", "a"]), words(&["b", "b", "c"]));
    let at = longs(&[2, 1, 1, 0], &[4]);
    for _ in 0..3 {
        let pending = session.submit([("x", &x), ("z", &z), ("at", &at)]).unwrap();
        let outputs = pending.wait().unwrap();
        assert_eq!(outputs.strings("y").unwrap(), ["a", "b", "b", "a"]);
        assert_eq!(
            outputs["same"].values::<bool>().unwrap(),
            [false, true, false]
        );
        assert_eq!(outputs.strings("same"), None);
        assert_eq!(outputs["there"].values::<bool>().unwrap(), [true]);
        assert_eq!(outputs.strings("one").unwrap(), ["a"]);
    }
    assert!(
        session.statistics().plans <= 1,
        "{:?}",
        session.statistics()
    );
}

#[test]
fn what_has_no_place_for_strings_says_so() {
    let Some(session) = ended() else { return };
    let x = words(&["a"]);
    let told = |error: Error| error.to_string();
    let tensors = session.run_to_tensors(&[Input::from(&x)]);
    assert!(told(tensors.unwrap_err()).contains("strings"));
    let mut binding = session.bind();
    assert!(told(binding.set("x", &x).unwrap_err()).contains("strings"));
    assert!(told(binding.run([("x", &x)]).unwrap_err()).contains("strings"));
    let numbers = Array::new(&[1f32], &[1]).unwrap();
    let wrong = session.run([("x", &numbers)]);
    assert!(matches!(&wrong, Err(Error::Input { .. })), "{wrong:?}");
    let graph = Graph::new()
        .input("x", DType::I64, "n")
        .node("Neg x = y", &[])
        .outputs("y");
    let Some(other) = self::session(graph) else {
        return;
    };
    let wrong = told(other.run([("x", &x)]).unwrap_err());
    assert!(
        wrong.contains("strings") && wrong.contains("i64"),
        "{wrong}"
    );
}

#[test]
fn strings_that_grow_without_end_are_refused() {
    let mut graph = Graph::new().strings("x0", "n");
    for step in 0..60 {
        graph = graph.node(
            &format!("StringConcat x{step} x{step} = x{}", step + 1),
            &[],
        );
    }
    let Some(session) = session(graph.outputs("x60")) else {
        return;
    };
    let options = RunOptions {
        work: Some(1 << 20),
        ..RunOptions::default()
    };
    let long = session.run_with([("x0", &words(&["ab"]))], &options);
    let told = long.unwrap_err();
    assert!(told.to_string().contains("RUN_WORK"), "{told}");
    // It is for the strings that are too long, and for these only.
    assert_eq!(
        session
            .run([("x0", &words(&[""]))])
            .unwrap()
            .strings("x60")
            .unwrap(),
        [""]
    );
}

#[test]
fn numbers_are_read_and_written() {
    let Some(session) = session(
        Graph::new()
            .strings("x", "n")
            .node("Cast x = number", &[int("to", 1)])
            .node("Cast number = y", &[int("to", 8)])
            .outputs("y number"),
    ) else {
        return;
    };
    let outputs = session.run([("x", &words(&["1.50", " 2"]))]).unwrap();
    assert_eq!(outputs.strings("y").unwrap(), ["1.5", "2"]);
    assert_eq!(outputs["number"].values::<f32>().unwrap(), [1.5, 2.0]);
    let wrong = session.run([("x", &words(&["one"]))]).unwrap_err();
    assert!(wrong.to_string().contains("\"one\""), "{wrong}");
}

/// A session of strings `x` and a truth `go`, whose node has these graphs inside.
fn chosen(then: Graph, other: Graph) -> Graph {
    Graph::new()
        .strings("x", "n")
        .input("go", DType::Bool, "")
        .node(
            "If go = y",
            &[graph("then_branch", then), graph("else_branch", other)],
        )
        .outputs("y")
}

#[test]
fn graphs_inside_a_node_choose_among_strings() {
    let one = |word: &str| Array::from_strings(&[word], &[1]).unwrap();
    let then = Graph::new()
        .constant("end", &one("!"))
        .node("StringConcat x end = z", &[])
        .outputs("z");
    let other = Graph::new()
        .node("Constant = none", &[string("value_string", "none")])
        .node("Identity none = w", &[])
        .outputs("w");
    let Some(session) = session(chosen(then, other)) else {
        return;
    };
    let x = words(&["a", "b"]);
    for _ in 0..2 {
        for (go, want) in [(true, &["a!", "b!"][..]), (false, &["none"])] {
            let go = Array::scalar(go);
            let outputs = session.run([("x", &x), ("go", &go)]).unwrap();
            assert_eq!(outputs.strings("y").unwrap(), want);
            let pending = session.submit([("x", &x), ("go", &go)]).unwrap();
            assert_eq!(pending.wait().unwrap().strings("y").unwrap(), want);
        }
    }
}

#[test]
fn loops_and_scans_carry_and_list_strings() {
    let body = Graph::new()
        .input("round", DType::I64, "")
        .input("more", DType::Bool, "")
        .strings("so_far", "n")
        .node("Identity more = on", &[])
        .node("StringConcat so_far x = longer", &[])
        .outputs("on longer so_far");
    let steps = Graph::new()
        .strings("last", "")
        .strings("next", "")
        .node("StringConcat last next = both", &[])
        .node("Equal last next = same", &[])
        .outputs("both same");
    let Some(session) = session(
        Graph::new()
            .strings("x", "n")
            .strings("first", "")
            .input("count", DType::I64, "")
            .node("Loop count - x = y each", &[graph("body", body)])
            .node(
                "Scan first x = all same",
                &[graph("body", steps), int("num_scan_inputs", 1)],
            )
            .outputs("y each all same"),
    ) else {
        return;
    };
    let (x, first) = (
        words(&["a", "b"]),
        Array::from_strings(&["a"], &[]).unwrap(),
    );
    for count in [2i64, 1, 2] {
        let count_of = Array::scalar(count);
        let given = [("x", &x), ("first", &first), ("count", &count_of)];
        let outputs = session.run(given).unwrap();
        let rounds: Vec<String> = (0..=count as usize)
            .flat_map(|round| ["a", "b"].map(|word| word.repeat(round + 1)))
            .collect();
        let (listed, last) = rounds.split_at(2 * count as usize);
        assert_eq!(outputs.strings("y").unwrap(), last);
        assert_eq!(outputs.strings("each").unwrap(), listed);
        assert_eq!(outputs.strings("all").unwrap(), ["aab"]);
        assert_eq!(outputs["same"].values::<bool>().unwrap(), [true, false]);
    }
}

#[test]
fn graphs_inside_a_node_do_not_mix_strings_and_numbers() {
    let Some(pool) = pool() else { return };
    let refused = |graph: Graph| {
        let model = graph.model(&[("", 20)]);
        let refused = Session::from_bytes(&pool, model, &SessionOptions::default());
        refused.unwrap_err().to_string()
    };
    let strings = Graph::new().node("Identity x = z", &[]).outputs("z");
    let number = Graph::new()
        .constant("w", &longs(&[1], &[1]))
        .node("Identity w = v", &[])
        .outputs("v");
    let told = refused(chosen(strings.clone(), number));
    assert!(told.contains("strings beside numbers"), "{told}");
    let negated = Graph::new().node("Neg x = z", &[]).outputs("z");
    let told = refused(chosen(strings.clone(), negated));
    assert!(told.contains("an input of strings"), "{told}");
    let asked = Graph::new()
        .strings("x", "")
        .node(
            "If x = y",
            &[
                graph("then_branch", strings.clone()),
                graph("else_branch", strings),
            ],
        )
        .outputs("y");
    let told = refused(asked);
    assert!(told.contains("an input of strings"), "{told}");
}
