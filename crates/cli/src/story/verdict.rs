//! Chapters, their steps, and what became of them.

use std::error::Error;
use std::time::Duration;

use serde::Serialize;
use serde_json::{Value, json};

use crate::Result;

/// One part of the argument.
pub struct Chapter {
    /// Its name.
    pub name: &'static str,
    /// What it answers.
    pub question: &'static str,
    /// The answer, if every step holds.
    pub moral: &'static str,
    /// What is shown, in order.
    pub steps: Vec<Step>,
}

type Act = Box<dyn FnOnce() -> Result<Verdict>>;

/// One thing that is shown.
pub struct Step {
    /// Its name in JSON.
    pub name: String,
    /// What is done.
    pub what: String,
    /// Does it.
    pub act: Act,
}

impl Step {
    /// A step that `act` does.
    pub fn new(
        name: impl Into<String>,
        what: impl Into<String>,
        act: impl FnOnce() -> Result<Verdict> + 'static,
    ) -> Self {
        Step {
            name: name.into(),
            what: what.into(),
            act: Box::new(act),
        }
    }
}

/// Whether something held.
#[derive(Debug, Serialize)]
pub struct Verdict {
    /// Whether it did.
    pub ok: bool,
    /// The figures in a few words.
    pub figures: String,
    /// The figures by name.
    pub numbers: Value,
}

impl Verdict {
    /// The verdict on a step that could not be done.
    pub fn failed(why: &(dyn Error + Send + Sync)) -> Self {
        Verdict {
            ok: false,
            figures: why.to_string(),
            numbers: json!({ "error": why.to_string() }),
        }
    }
}

/// A step that was done.
#[derive(Debug, Serialize)]
pub struct Done {
    /// Its name.
    pub name: String,
    /// What was done.
    pub what: String,
    /// Whether it held.
    #[serde(flatten)]
    pub verdict: Verdict,
    /// How long it took.
    pub seconds: f64,
}

/// A chapter that was told.
#[derive(Debug, Serialize)]
pub struct Told {
    /// Its name.
    pub name: &'static str,
    /// Whether every step held.
    pub ok: bool,
    /// What it answers.
    pub question: &'static str,
    /// The answer in one sentence.
    pub answer: String,
    /// How long it took.
    pub seconds: f64,
    /// What was shown.
    pub steps: Vec<Done>,
}

impl Told {
    /// What became of a chapter.
    pub fn new(
        name: &'static str,
        question: &'static str,
        moral: &str,
        steps: Vec<Done>,
        took: Duration,
    ) -> Self {
        let failed = steps.iter().filter(|step| !step.verdict.ok).count();
        let answer = match failed {
            0 => moral.to_owned(),
            _ => format!(
                "It does not hold here: {failed} of {} steps failed.",
                steps.len()
            ),
        };
        Told {
            name,
            ok: failed == 0,
            question,
            answer,
            seconds: took.as_secs_f64(),
            steps,
        }
    }

    /// Whether every step held.
    pub fn is_ok(&self) -> bool {
        self.ok
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn done(ok: bool) -> Done {
        Done {
            name: "step".into(),
            what: "something is done".into(),
            verdict: Verdict {
                ok,
                figures: String::new(),
                numbers: Value::Null,
            },
            seconds: 0.0,
        }
    }

    #[test]
    fn one_step_that_fails_is_enough() {
        let told = |steps| Told::new("a", "Is it?", "It is.", steps, Duration::ZERO);
        let good = told(vec![done(true), done(true)]);
        assert!(good.is_ok() && good.answer == "It is.");
        let bad = told(vec![done(true), done(false)]);
        assert!(!bad.is_ok() && bad.answer.contains("1 of 2 steps failed"));
    }
}
