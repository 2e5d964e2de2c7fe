//! Every operator from eight threads at once, on shared inputs: what one thread gets, all get, bit for bit.

use std::sync::Barrier;

use crate::common::pool;
use crate::concurrent::{Case, Inputs, MANY, ONE};

const THREADS: usize = 8;
const ROUNDS: usize = 3;

#[test]
fn eight_threads_get_what_one_gets() {
    let pool = pool();
    let given = Inputs::new(&pool);
    let cases: Vec<&Case> = ONE.iter().chain(MANY).collect();
    let run = |(name, case): &Case| -> Vec<Vec<u8>> {
        let results = case(&given).unwrap_or_else(|error| panic!("{name}: {error}"));
        let bytes = results.iter().map(|result| result.to_bytes());
        bytes
            .collect::<Result<_, _>>()
            .unwrap_or_else(|error| panic!("{name}: {error}"))
    };
    let alone: Vec<_> = cases.iter().map(|case| run(case)).collect();
    let start = Barrier::new(THREADS);
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let (cases, alone, start, run) = (&cases, &alone, &start, &run);
            scope.spawn(move || {
                start.wait();
                for turn in 0..ROUNDS * cases.len() {
                    // Half of the threads are at the same operator, the others elsewhere.
                    let place = (turn + thread / 4 * cases.len() / 2 + thread % 2) % cases.len();
                    assert!(
                        run(cases[place]) == alone[place],
                        "{} differs",
                        cases[place].0
                    );
                }
            });
        }
    });
}
