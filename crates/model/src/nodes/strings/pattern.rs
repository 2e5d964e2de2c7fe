//! Regular expressions: linear in the length of what they read, and of a size that is limited. Letters of `\w`, `\d` and `\s` are
//! those of ASCII, as in RE2.

use regex_lite::Regex;
use streampool_tensor::Tensor;

use super::common::{Words, spend};
use crate::error::NodeError;
use crate::nodes::call::{Call, Outputs};

/// An expression; or why it is none.
pub fn compiled(pattern: &str) -> Result<Regex, NodeError> {
    let wrong = |why| {
        let what = format_args!("the expression {pattern:?}");
        NodeError::malformed(what, why, "one that can be read")
    };
    Regex::new(pattern).map_err(wrong)
}

/// One that is found where all of a string is what the pattern says.
fn whole(pattern: &str) -> Result<Regex, NodeError> {
    // What is wrong with the pattern is told of it, not of what is around it here.
    compiled(pattern)?;
    compiled(&format!(r"\A(?:{pattern})\z"))
}

/// Whether each string is what an expression says.
pub fn full_match(call: &Call<'_>) -> Outputs {
    let words = Words::of(call)?;
    let x = call.given(0)?;
    let pattern = whole(call.string_or("pattern", "")?)?;
    let numbers = words.given(x)?;
    let made = words.each(&numbers, |string| {
        spend(string.len())?;
        Ok(pattern.is_match(string))
    })?;
    Ok(vec![Tensor::from_slice(words.pool, &made, x.shape())?])
}

/// What finds the tokens that an expression describes: of those that begin at a place the longest.
pub struct Longest {
    first: Regex,
    /// Where the first that is found need not be the longest.
    whole: Option<Regex>,
}

impl Longest {
    pub fn new(pattern: &str) -> Result<Longest, NodeError> {
        let is_open = ["|", "??", "*?", "+?", "}?"]
            .iter()
            .any(|part| pattern.contains(part));
        Ok(Longest {
            first: compiled(pattern)?,
            whole: is_open.then(|| whole(pattern)).transpose()?,
        })
    }

    /// The first token in a string from a place on, if there is one.
    pub fn find_at(&self, string: &str, begin: usize) -> Result<Option<(usize, usize)>, NodeError> {
        let Some(found) = self.first.find_at(string, begin) else {
            return Ok(None);
        };
        let Some(whole) = &self.whole else {
            return Ok(Some((found.start(), found.end())));
        };
        let rest = &string[found.start()..];
        let ends = rest
            .char_indices()
            .map(|(place, letter)| place + letter.len_utf8());
        let least = found.end() - found.start();
        let mut longest = least;
        for end in ends.filter(|&end| end > least) {
            spend(end)?;
            if whole.is_match(&rest[..end]) {
                longest = end;
            }
        }
        Ok(Some((found.start(), found.start() + longest)))
    }
}
