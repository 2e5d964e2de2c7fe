//! Measuring one operator at a time, when another program says so: it measures others in between.

use std::collections::BTreeMap;
use std::io::{self, BufRead, Write};
use std::time::Duration;

use super::case::{Case, Stage};
use super::checked;
use crate::{Outcome, Result};

/// For each line of standard input, which names an operator, writes one line: the seconds of a call, of as many as fill
/// `slice`, or `error:` and why there are none. The first time it is made, checked and run to warm up. Says whether all
/// could be measured.
pub fn take(stage: &Stage, slice: Duration) -> Result<Outcome> {
    let mut cases = BTreeMap::new();
    let mut good = true;
    for line in io::stdin().lock().lines() {
        let answer = match measure(stage, line?.trim(), slice, &mut cases) {
            Ok(seconds) => format!("{seconds:e}"),
            Err(why) => {
                good = false;
                format!("error: {}", why.to_string().replace('\n', " "))
            }
        };
        let mut stdout = io::stdout().lock();
        writeln!(stdout, "{answer}").and_then(|()| stdout.flush())?;
    }
    Ok(Outcome::of(good))
}

fn measure(
    stage: &Stage,
    name: &str,
    slice: Duration,
    cases: &mut BTreeMap<String, Case>,
) -> Result<f64> {
    if !cases.contains_key(name) {
        let case = checked(stage, name)?;
        stage.seconds(slice / 4, &case.call)?;
        cases.insert(name.to_owned(), case);
    }
    stage.seconds(slice, &cases[name].call)
}
