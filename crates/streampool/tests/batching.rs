//! Models behind queues, as users put them there.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Barrier};
use std::time::Duration;

use streampool::batch::{Error, Padding, Shutdown};
use streampool::model::SessionOptions;
use streampool::model::onnx::writer::{Graph, graph, int};
use streampool::{Array, BatchQueue, DType, ForSession, Pool, Request, Session};

/// The pool that these tests run in: on the host, or where `TEST_DEVICE` says.
fn pool() -> Pool {
    match std::env::var("TEST_DEVICE").as_deref() {
        #[cfg(feature = "cuda")]
        Ok("cuda") => streampool::cuda_pool().expect("a GPU, since TEST_DEVICE asks for it"),
        Ok(other) if other != "host" => panic!("TEST_DEVICE is {other:?}, expected host or cuda"),
        _ => streampool::host_pool().expect("a host device"),
    }
}

fn session(pool: &Pool, graph: Graph) -> Session {
    let model = graph.model(&[("", 18)]);
    Session::from_bytes(pool, model, &SessionOptions::default()).unwrap()
}

/// y = relu(x w), where all numbers are small integers: products of them are exact, however they are summed.
fn layer(pool: &Pool) -> Session {
    let weights: Vec<f32> = (0..32).map(|at| (at % 7) as f32 - 3.0).collect();
    let graph = Graph::new()
        .input("x", DType::F32, "batch 8")
        .constant("w", &Array::new(&weights, &[8, 4]).unwrap())
        .node("MatMul x w = h", &[])
        .node("Relu h = y", &[])
        .output("y", DType::F32, "batch 4");
    session(pool, graph)
}

fn row(seed: usize, rows: usize) -> Array {
    let value = |at| ((at * 5 + seed * 3) % 11) as f32 - 5.0;
    let values: Vec<f32> = (0..8 * rows).map(value).collect();
    Array::new(&values, &[rows, 8]).unwrap()
}

fn alone(session: &Session, input: &Array) -> Vec<Array> {
    session.run([("x", input)]).unwrap().into_arrays()
}

#[test]
fn strings_of_many_callers_go_through_one_queue() {
    let end = Array::from_strings(&["!"], &[1]).unwrap();
    let graph = Graph::new()
        .strings("x", "n 2")
        .constant("end", &end)
        .node("StringConcat x end = y", &[])
        .outputs("y")
        .model(&[("", 20)]);
    let session = Session::from_bytes(&pool(), graph, &SessionOptions::default()).unwrap();
    let settings = BatchQueue::builder().max_batch_size(8);
    let queue = BatchQueue::for_session(&session, settings).unwrap();
    let begin = Barrier::new(16);
    std::thread::scope(|scope| {
        for caller in 0..16 {
            let (queue, begin) = (&queue, &begin);
            scope.spawn(move || {
                begin.wait();
                for round in 0..20 {
                    let given = [format!("caller {caller}"), format!("round {round}")];
                    let outputs = queue
                        .infer(Array::from_strings(&given, &[1, 2]).unwrap())
                        .unwrap();
                    let want = given.map(|word| format!("{word}!"));
                    assert_eq!(outputs[0].as_strings().unwrap(), want);
                }
            });
        }
    });
}

#[test]
fn many_callers_get_what_they_would_get_alone() {
    let session = layer(&pool());
    let settings = BatchQueue::builder().max_batch_size(16);
    let queue = BatchQueue::for_session(&session, settings).unwrap();
    let begin = Barrier::new(32);
    std::thread::scope(|scope| {
        for caller in 0..32 {
            let (session, queue, begin) = (&session, &queue, &begin);
            scope.spawn(move || {
                begin.wait();
                for round in 0..20 {
                    // Some have more rows than a batch may have.
                    let input = row(caller * 100 + round, 1 + (caller + round) % 20);
                    assert_eq!(queue.infer(input.clone()).unwrap(), alone(session, &input));
                }
            });
        }
    });
    let statistics = queue.statistics();
    assert_eq!(statistics.requests.completed, 32 * 20);
    assert_eq!(statistics.requests.submitted, 32 * 20);
}

#[test]
fn what_fails_is_told_to_its_caller_alone_and_the_queue_goes_on() {
    let table: Vec<f32> = (0..10).map(|at| at as f32).collect();
    let graph = Graph::new()
        .input("places", DType::I64, "batch 2")
        .constant("table", &Array::new(&table, &[10]).unwrap())
        .node("Gather table places = y", &[int("axis", 0)])
        .output("y", DType::F32, "batch 2");
    let session = session(&pool(), graph);
    let settings = BatchQueue::builder().max_batch_size(8).adaptive(false);
    let queue = BatchQueue::for_session(&session, settings).unwrap();
    let asked = [1i64, 2, 77, 4, 5];
    for _ in 0..3 {
        let places = asked.map(|at| Array::new(&[at, 0], &[1, 2]).unwrap());
        let tickets = queue.submit_many(places);
        for (at, ticket) in asked.into_iter().zip(tickets) {
            match ticket.unwrap().wait() {
                Ok(arrays) => {
                    // A GPU picks zero for an index that is out of range.
                    let wanted = if at < 10 { at as f32 } else { 0.0 };
                    assert_eq!(arrays[0].values::<f32>().unwrap(), [wanted, 0.0]);
                }
                Err(error) => {
                    assert_eq!(at, 77, "{error}");
                    assert!(error.to_string().contains("77"), "{error}");
                }
            }
        }
    }
}

#[test]
fn requests_of_other_lengths_are_filled_up_to_go_together() {
    let graph = Graph::new()
        .input("x", DType::F32, "batch length")
        .input("mask", DType::I64, "batch length")
        .constant("axes", &Array::new(&[1i64], &[1]).unwrap())
        .node("Cast mask = weight", &[int("to", 1)])
        .node("Mul x weight = own", &[])
        .node("ReduceSum own axes = sum", &[int("keepdims", 0)])
        .node("Add x x = twice", &[])
        .output("sum", DType::F32, "batch")
        .output("twice", DType::F32, "batch length");
    let session = session(&pool(), graph);
    let padding = Padding::to_edges(1, [4, 8]).with_mask().outputs(&[1]);
    let settings = BatchQueue::builder().padding(padding);
    let queue = BatchQueue::for_session(&session, settings).unwrap();
    let input = |length: usize| Array::new(&vec![3.0f32; length], &[1, length]).unwrap();
    let tickets = queue.submit_many((1..=8).map(input));
    for (length, ticket) in (1..=8).zip(tickets) {
        let outputs = ticket.unwrap().wait().unwrap();
        assert_eq!(outputs[0].values::<f32>().unwrap(), [3.0 * length as f32]);
        assert_eq!(outputs[1].values::<f32>().unwrap(), vec![6.0; length]);
    }
    let own = (1..=8).sum::<usize>() as f64;
    let all = 4.0 * 4.0 + 4.0 * 8.0;
    assert_eq!(queue.statistics().padding_waste, (all - own) / all);
}

#[test]
fn a_list_comes_back_in_order_and_is_read_as_it_is_needed() {
    let session = layer(&pool());
    let (read, told) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let reader = read.clone();
    // Without an end.
    let inputs = (0..).map(move |at| {
        reader.fetch_add(1, Ordering::Relaxed);
        row(at, 1)
    });
    let teller = told.clone();
    let outputs = streampool::batch_inference(&session, inputs)
        .batch_size(8)
        .progress(move |done| teller.store(done, Ordering::Relaxed));
    for (at, outputs) in outputs.take(50).enumerate() {
        assert_eq!(outputs.unwrap(), alone(&session, &row(at, 1)));
        assert_eq!(told.load(Ordering::Relaxed), at + 1);
        // The eight batches that a GPU may have under way, one more, and the one that is being read.
        assert!(read.load(Ordering::Relaxed) <= at + 8 * 10);
    }
}

/// More than a queue has room for if nothing is said.
#[test]
fn a_batch_of_a_list_may_be_of_any_size() {
    let session = layer(&pool());
    let inputs = (0..20_000).map(|at| row(at, 1));
    let outputs = streampool::batch_inference(&session, inputs).batch_size(15_000);
    assert_eq!(outputs.filter(Result::is_ok).count(), 20_000);

    let mut outputs = streampool::batch_inference(&session, [row(0, 1)]).batch_size(0);
    let error = outputs.next().unwrap().unwrap_err().to_string();
    assert!(error.starts_with("`batch_size` is 0"), "{error}");
    assert!(outputs.next().is_none());
}

#[test]
fn a_model_that_takes_one_number_of_rows_only_is_refused() {
    let graph = Graph::new()
        .input("x", DType::F32, "1 8")
        .node("Relu x = y", &[])
        .output("y", DType::F32, "1 8");
    let session = session(&pool(), graph);
    let error = BatchQueue::for_session(&session, BatchQueue::builder()).err();
    let message = error.expect("a refusal").to_string();
    assert!(message.contains("\"x\" of [1, 8]"), "{message}");
    assert!(message.contains("any number of rows"), "{message}");
    let mut outputs = streampool::batch_inference(&session, [row(0, 1)]);
    assert!(outputs.next().is_some_and(|first| first.is_err()));
    assert!(outputs.next().is_none());
}

#[test]
fn outputs_of_other_rows_are_an_error_that_names_them() {
    let graph = || Graph::new().input("x", DType::F32, "batch 8");
    let sum = graph().node("ReduceSum x = y", &[int("keepdims", 0)]);
    let twice = graph().node("Concat x x = y", &[int("axis", 0)]);
    for (graph, shape) in [(sum, "[]"), (twice, "[4, 8]")] {
        let session = session(&pool(), graph.outputs("y"));
        let queue = BatchQueue::for_session(&session, BatchQueue::builder()).unwrap();
        let error = queue.infer(row(0, 2)).unwrap_err().to_string();
        let told = format!("output \"y\" is f32 {shape}, expected 2 rows");
        assert!(error.contains(&told), "{error}");
    }
}

#[test]
fn many_queues_share_the_streams_of_a_device() {
    let pool = pool();
    let session = layer(&pool);
    let queue = || BatchQueue::for_session(&session, BatchQueue::builder().max_in_flight(4));
    pool.release_current_stream();
    let streams = pool.settings().streams - 1;
    let queues: Vec<BatchQueue> = (0..streams).map(|_| queue().unwrap()).collect();
    let refused = queue().err().map(|error| error.to_string());
    let message = refused.expect("a refusal");
    assert!(message.contains("stream"), "{message}");
    // No stream is free: batches of one queue that run beside each other wait for its own.
    std::thread::scope(|scope| {
        for queue in queues.iter().chain(&queues) {
            scope.spawn(|| {
                for number in 0..20 {
                    let batched = queue.infer(row(number, 1)).unwrap();
                    let outputs = session.run([("x", &row(number, 1))]).unwrap();
                    assert_eq!(batched[0].bytes(), outputs["y"].bytes());
                }
            });
        }
    });
    drop(queues);
    assert!(queue().is_ok(), "the streams are back");
}

/// What `work` gives, which has to come long before a test is thought to hang.
fn soon<R: Send + 'static>(work: impl FnOnce() -> R + Send + 'static) -> R {
    let (sender, receiver) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        // Who waited too long is not there any more.
        let _ = sender.send(work());
    });
    let given = receiver.recv_timeout(Duration::from_secs(60));
    given.expect("it ends")
}

/// Adds its rows to themselves as often as the largest of `turns` says.
fn adding(pool: &Pool) -> Session {
    let body = Graph::new()
        .input("turn", DType::I64, "")
        .input("go", DType::Bool, "")
        .untyped("before")
        .node("Add before x = after", &[])
        .node("Identity go = on", &[])
        .outputs("on after");
    let model = Graph::new()
        .input("x", DType::F32, "batch 1")
        .input("turns", DType::I64, "batch 1")
        .constant("yes", &Array::scalar(true))
        .node("ReduceMax turns = most", &[int("keepdims", 0)])
        .node("Loop most yes x = y", &[graph("body", body)])
        .output("y", DType::F32, "batch 1");
    session(pool, model)
}

#[test]
fn loops_without_end_give_their_lanes_back_at_their_deadlines() {
    soon(|| {
        let session = adding(&pool());
        let settings = BatchQueue::builder().max_batch_size(1).max_in_flight(2);
        let queue = BatchQueue::for_session(&session, settings).unwrap();
        let request = |turns: i64, time: u64| {
            let x = Array::new(&[2f32], &[1, 1]).unwrap();
            let turns = Array::new(&[turns], &[1, 1]).unwrap();
            Request::new(vec![x, turns]).within(Duration::from_millis(time))
        };
        for round in 0..3 {
            let long: Vec<_> = (0..2)
                .map(|_| queue.submit(request(1 << 40, 500)).unwrap())
                .collect();
            let good = queue.infer(request(3, 20_000)).unwrap();
            assert_eq!(good[0].values::<f32>().unwrap(), [8.0], "round {round}");
            for ticket in long {
                let late = ticket.wait();
                assert!(matches!(late, Err(Error::Expired)), "{late:?}");
            }
        }
        // A batch is counted a moment after its answers are there; `soon` waits for no more than a minute.
        loop {
            let requests = queue.statistics().requests;
            if (requests.completed, requests.expired) == (3, 6) {
                break;
            }
            std::thread::yield_now();
        }
        let last = [(); 2].map(|()| queue.submit(request(1 << 40, 500)).unwrap());
        queue.shutdown(Shutdown::Cancel);
        for ticket in last {
            assert!(ticket.wait().is_err());
        }
    });
}

#[test]
fn what_the_model_does_not_take_is_refused_when_it_comes() {
    let pool = pool();
    let graph = Graph::new()
        .input("x", DType::F32, "batch 8")
        .input("scale", DType::F32, "batch 1")
        .node("Mul x scale = y", &[])
        .output("y", DType::F32, "batch 8");
    let session = session(&pool, graph);
    let queue = BatchQueue::for_session(&session, BatchQueue::builder()).unwrap();
    let zeros = |dtype, shape: &[usize]| Array::zeros(dtype, shape).unwrap();
    let x = zeros(DType::F32, &[2, 8]);
    let scale = zeros(DType::F32, &[2, 1]);
    for (request, says) in [
        (
            vec![x.clone()],
            "input 1 is not given, expected f32 [batch, 1] for \"scale\"",
        ),
        (
            vec![x.clone(), scale.clone(), scale.clone()],
            "input 2 is no input of the model, expected no more than 2",
        ),
        (
            vec![x.clone(), zeros(DType::I64, &[2, 1])],
            "input 1 is i64 [2, 1], expected f32 [batch, 1] for \"scale\"",
        ),
        (
            vec![zeros(DType::F32, &[2, 9]), scale.clone()],
            "input 0 is f32 [2, 9], expected f32 [batch, 8] for \"x\"",
        ),
        (
            vec![zeros(DType::F32, &[2, 8, 1]), scale.clone()],
            "input 0 is f32 [2, 8, 1]",
        ),
    ] {
        let error = queue.submit(request).map(drop).unwrap_err();
        assert!(
            matches!(error, streampool::batch::Error::Request { .. }),
            "{error:?}"
        );
        assert!(error.to_string().contains(says), "{error}");
    }
    assert_eq!(queue.statistics().requests.submitted, 0);
    assert_eq!(queue.infer(vec![x, scale]).unwrap()[0].shape(), [2, 8]);
}
