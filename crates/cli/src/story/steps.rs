//! Chapters that are a list of things to try, each of which holds or does not.

use serde_json::Value;

use super::chapter::Check;
use crate::Result;

type Act<'a> = Box<dyn FnOnce() -> Result<Seen> + 'a>;

/// One thing to try.
pub struct Step<'a> {
    name: String,
    what: String,
    act: Act<'a>,
}

/// What was seen.
pub struct Seen {
    /// Whether it held.
    pub ok: bool,
    /// The figures in a few words.
    pub figures: String,
    /// The figures by name.
    pub numbers: Value,
    /// Those to draw, if any.
    pub drawn: Vec<u64>,
}

/// What became of a step.
pub struct Tried {
    /// What has to hold.
    pub check: Check,
    /// The figures to draw, if any.
    pub drawn: Vec<u64>,
}

impl<'a> Step<'a> {
    /// A step that `act` does.
    pub fn new(
        name: impl Into<String>,
        what: impl Into<String>,
        act: impl FnOnce() -> Result<Seen> + 'a,
    ) -> Step<'a> {
        Step {
            name: name.into(),
            what: what.into(),
            act: Box::new(act),
        }
    }

    /// Does it. What cannot be done shows that something does not hold; the others are still tried.
    pub fn tried(self, now: &dyn Fn(&str)) -> Tried {
        now(&self.what);
        match (self.act)() {
            Ok(seen) => Tried {
                check: Check {
                    name: self.name,
                    what: self.what,
                    ok: seen.ok,
                    figures: seen.figures,
                    numbers: seen.numbers,
                },
                drawn: seen.drawn,
            },
            Err(failure) => Tried {
                check: Check::failed(&self.name, &self.what, &*failure),
                drawn: Vec::new(),
            },
        }
    }
}

/// The sums of what is drawn of all, place by place.
pub fn sums<const N: usize>(tried: &[Tried]) -> [u64; N] {
    let at = |place| tried.iter().filter_map(|one| one.drawn.get(place)).sum();
    std::array::from_fn(at)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_that_cannot_be_done_does_not_hold() {
        let good = Step::new("good", "something", || {
            Ok(Seen {
                ok: true,
                figures: String::new(),
                numbers: Value::Null,
                drawn: vec![3, 1],
            })
        });
        let bad = Step::new("bad", "something else", || Err("it broke".into()));
        let tried = [good, bad].map(|step| step.tried(&|_| ()));
        assert!(tried[0].check.ok && !tried[1].check.ok);
        assert_eq!(tried[1].check.figures, "it broke");
        assert_eq!(sums::<2>(&tried), [3, 1]);
    }
}
