//! Arbitrary tensors, views, axes and parameters into every operator over whole tensors: each call ends, with a result or
//! with an error that names the operator; nothing panics, and no fault comes but that of an index out of range.

mod arguments;
#[path = "../common/mod.rs"]
mod common;
mod hostile;
mod operators;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

use streampool_host::{HostDevice, HostOptions};
use streampool_runtime::Error as RuntimeError;
use streampool_tensor::{Error, Pool};

use arguments::Given;

const CASES: usize = 6000;
/// Nothing here takes so long, unless it hangs.
const FOREVER: Duration = Duration::from_secs(20);

#[test]
fn arbitrary_calls_end_with_a_result_or_an_error_that_names_the_operator() {
    let options = HostOptions::default().capacity(64 << 20);
    let pool = Pool::new(HostDevice::new(options).unwrap()).unwrap();
    let (mut results, mut refusals) = (vec![0; operators::ALL.len()], 0);
    for case in 0..CASES {
        let place = case % operators::ALL.len();
        let (name, operator) = operators::ALL[place];
        let begun = Instant::now();
        let mut given = Given::new(&pool, case as u64);
        let call = AssertUnwindSafe(|| {
            let made = operator(&mut given)?;
            for tensor in made {
                tensor.to_bytes()?;
            }
            Ok(())
        });
        let outcome = catch_unwind(call);
        let outcome = outcome.unwrap_or_else(|_| panic!("case {case}, {name}, panicked"));
        assert!(begun.elapsed() < FOREVER, "case {case}, {name}, takes long");
        match outcome {
            Ok(()) => results[place] += 1,
            Err(error) => {
                refusals += 1;
                judge(&pool, &error, &format!("case {case}, {name}"), name);
            }
        }
    }
    // Neither everything fits nor nothing.
    assert!(refusals > CASES / 10, "{refusals} refusals");
    for ((name, _), results) in operators::ALL.iter().zip(results) {
        assert!(results > 0, "{name} was never given what fits");
    }
}

/// Whether an error is one that a user can do something with.
fn judge(pool: &Pool, error: &Error, case: &str, name: &str) {
    let text = error.to_string();
    match error {
        Error::Runtime(RuntimeError::OutOfMemory { .. } | RuntimeError::TooLarge { .. }) => {}
        Error::Runtime(runtime) if runtime.fault().is_some() => {
            assert!(text.contains("index"), "{case}: {text}");
            pool.current().unwrap().recover().unwrap();
        }
        _ => assert!(text.starts_with(&format!("{name}: ")), "{case}: {text}"),
    }
}
