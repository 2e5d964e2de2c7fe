//! Many threads run one session, and every output is compared with that of one thread.

use std::time::{Duration, Instant};

use serde_json::json;

use crate::Result;
use crate::story::setting::{MOST_THREADS, Setting, Subject, same};
use crate::story::steps::{Seen, Step};
use crate::text::count;
use crate::threads::together;

/// How many threads at once.
const THREADS: [usize; 2] = [8, MOST_THREADS];

/// A step for each model and number of threads.
pub fn steps(setting: &Setting) -> Vec<Step<'_>> {
    let mut steps = Vec::new();
    for subject in &setting.subjects {
        for threads in THREADS {
            let name = &subject.name;
            steps.push(Step::new(
                format!("{name}-{threads}"),
                format!("{threads} threads run {name}"),
                move || run(subject, threads, 2 * setting.slice),
            ));
        }
    }
    steps
}

fn run(subject: &Subject, threads: usize, time: Duration) -> Result<Seen> {
    let expected = subject.alone()?;
    let count_wrong = |thread: usize, begin: Instant| -> Result<(u64, u64)> {
        let inputs = subject.inputs(thread);
        let (mut runs, mut wrong) = (0u64, 0u64);
        loop {
            let outputs = subject.session.run_positional(&inputs)?;
            runs += 1;
            wrong += u64::from(!same(&outputs, &expected, thread));
            if begin.elapsed() >= time {
                return Ok((runs, wrong));
            }
        }
    };
    let done = together(0..threads, Ok, || (), count_wrong)?.done;
    let runs: u64 = done.iter().map(|(runs, _)| runs).sum();
    let wrong: u64 = done.iter().map(|(_, wrong)| wrong).sum();
    Ok(Seen {
        ok: wrong == 0,
        figures: format!("{} compared, {} wrong", count(runs), count(wrong)),
        numbers: json!({ "threads": threads, "checked": runs, "wrong": wrong }),
        drawn: vec![runs - wrong, wrong],
    })
}
