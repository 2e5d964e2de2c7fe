//! Sizes near powers of two, broadcasts of far more elements than there is memory, strides that repeat, overlap and go backward,
//! into every operator: each call ends by its deadline, or soon after, with a result or a typed error, and takes no more memory
//! than there is. Whole numbers come out the same whatever their operands' strides, and each op of a call that ends is compared with
//! the reference, floats too, unless that would take long.
//!
//! `HOSTILE_CALLS` says how many are tried, `HOSTILE_SECONDS` for how long, and `HOSTILE_FIRST` which is the first: a call that is
//! wrong says its number.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

use streampool_conformance::hostile::{Cases, Effort};
use streampool_conformance::witness::Witness;
use streampool_host::{HostDevice, HostOptions};
use streampool_runtime::{Budget, Error as RuntimeError};
use streampool_tensor::{Error, Pool, Tensor};

use crate::FOREVER;
use crate::arguments::{Given, Laid};
use crate::operators::ALL;

/// What takes longer is wanted for so long only.
const DEADLINE: Duration = Duration::from_millis(20);
/// The same beside the reference, which is slow.
const PATIENCE: Duration = Duration::from_secs(2);
/// Matrices of hostile numbers are singular, or nearly, and then any result is right.
const SINGULAR: [&str; 6] = [
    "lu",
    "solve",
    "triangular_solve",
    "cholesky",
    "inverse",
    "det",
];
/// More bytes of a result are not read.
const MOST_READ: usize = 1 << 20;
/// So much address space has the process, at most.
#[cfg(all(target_os = "linux", not(sanitize_thread), not(sanitize_address)))]
const MOST_MEMORY: u64 = 4 << 30;

#[test]
fn calls_of_hostile_numbers_end_in_time_with_a_result_or_an_error() {
    #[cfg(all(target_os = "linux", not(sanitize_thread), not(sanitize_address)))]
    {
        let limit = libc::rlimit {
            rlim_cur: MOST_MEMORY,
            rlim_max: libc::RLIM_INFINITY,
        };
        // SAFETY: it reads the limit.
        assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_AS, &limit) }, 0);
    }
    let options = HostOptions::default().capacity(64 << 20);
    let pool = Pool::new(HostDevice::new(options.clone()).unwrap()).unwrap();
    let watched = Pool::new(Witness::of(HostDevice::new(options).unwrap())).unwrap();
    let cases = Cases::from_environment("HOSTILE_CALLS", 4000);
    let (first, begun) = (cases.left().start, Instant::now());
    let (mut results, mut refused, mut late, mut latest) = (0u64, 0u64, 0u64, Duration::ZERO);
    let mut compared = 0u64;
    for case in cases {
        let (name, _) = ALL[case as usize % ALL.len()];
        let effort = Effort::begin();
        let outcome = call(&pool, case, Laid::Anyhow, DEADLINE);
        let took = effort.used();
        assert!(took < FOREVER, "case {case}, {name}, took {took:?}");
        latest = latest.max(took);
        match outcome {
            Ok(made) => {
                results += 1;
                let again = call(&pool, case, Laid::Dense, DEADLINE);
                assert!(
                    !again.is_ok_and(|again| again != made),
                    "case {case}, {name}: strides make a difference"
                );
                // It panics where an op is wrong.
                if !SINGULAR.contains(&name) {
                    compared += u64::from(call(&watched, case, Laid::Anyhow, PATIENCE).is_ok());
                }
            }
            Err(Ended::Late) => late += 1,
            Err(Ended::Refused) => refused += 1,
        }
    }
    let calls = results + refused + late;
    println!("at most {latest:?} of processors for one");
    println!(
        "calls: {calls} tried from {first} in {:?}: {results} results, {compared} of them compared, {refused} refused, {late} late, 0 wrong",
        begun.elapsed()
    );
    // Neither everything fits nor nothing.
    assert!(calls < 2000 || compared > results / 2);
    assert!(calls < 2000 || (results > calls / 20 && refused > calls / 20 && late > 0));
}

/// How a call without a result ended.
enum Ended {
    Refused,
    Late,
}

/// The results, as bytes, of those that are exact and short.
fn call(pool: &Pool, case: u64, laid: Laid, deadline: Duration) -> Result<Vec<Vec<u8>>, Ended> {
    let (name, operator) = ALL[case as usize % ALL.len()];
    let stream = pool.current().unwrap();
    let before = stream.position();
    let mut given = Given::hostile(pool, case, laid);
    let bytes = |made: Vec<Tensor>| {
        let mut all = Vec::new();
        for tensor in made {
            if tensor.elem_count() > MOST_READ / tensor.dtype().size() {
                tensor.synchronize()?;
                continue;
            }
            let bytes = tensor.to_bytes()?;
            if !tensor.dtype().is_float() {
                all.push(bytes);
            }
        }
        Ok(all)
    };
    let budget = Budget {
        deadline: Some(Instant::now() + deadline),
        ..Budget::UNLIMITED
    };
    let outcome = catch_unwind(AssertUnwindSafe(|| {
        budget.spend(|| operator(&mut given).and_then(bytes))
    }));
    let outcome = outcome.unwrap_or_else(|_| panic!("case {case}, {name}, panicked"));
    let error = match outcome {
        Ok(all) => return Ok(all),
        Err(error) => error,
    };
    let text = error.to_string();
    match &error {
        Error::Runtime(RuntimeError::Deadline | RuntimeError::OverBudget { .. }) => {
            stream.give_up(before);
            let _given_up = stream.synchronize();
            stream.recover().unwrap();
            return Err(Ended::Late);
        }
        Error::Runtime(RuntimeError::OutOfMemory { .. } | RuntimeError::TooLarge { .. }) => {}
        Error::Runtime(runtime) if runtime.fault().is_some() => {
            let known = text.contains("index") || text.contains("no memory for the");
            assert!(known, "case {case}, {name}: {text}");
            stream.recover().unwrap();
        }
        _ => assert!(
            text.starts_with(&format!("{name}: ")),
            "case {case}, {name}: {text}"
        ),
    }
    Err(Ended::Refused)
}
