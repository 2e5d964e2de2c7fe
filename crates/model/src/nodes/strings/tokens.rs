//! Strings in parts: what ONNX Runtime calls a tokenizer.

use super::common::Words;
use super::pattern::{Longest, compiled};
use crate::error::NodeError;
use crate::nodes::call::{Call, Outputs};

/// What divides a string.
enum Rule {
    /// Each letter is a part.
    Letters,
    /// Parts are what lies between these, one after the other.
    Between(Vec<regex_lite::Regex>),
    /// Parts are these.
    Tokens(Longest),
}

/// Marks of the begin and the end.
const MARKS: [&str; 2] = ["\u{2}", "\u{3}"];

/// The parts of each string along a new axis, filled up to the longest.
pub fn tokenise(call: &Call<'_>) -> Outputs {
    let words = Words::of(call)?;
    let x = call.given(0)?;
    if !(1..=2).contains(&x.rank()) {
        let got = format_args!("of {} axes", x.rank());
        return Err(NodeError::malformed("input 0", got, "one or two"));
    }
    let fill = words.number(call.string_or("pad_value", "")?)?;
    let least = call.size_or("mincharnum", 1)?;
    let rule = rule(call)?;
    let numbers = words.given(x)?;
    if numbers.is_empty() {
        return Ok(vec![x.clone()]);
    }
    let mut lists = streampool_tensor::room::room(numbers.len())?;
    for &number in &numbers {
        lists.push(words.of_run.read(number, |string| {
            let mut made = Vec::new();
            parts(&rule, string, &mut |part| {
                let is_long = part.chars().take(least).count() == least;
                if is_long && !part.is_empty() {
                    made.push(words.number(part)?);
                }
                Ok(())
            })?;
            Ok::<_, NodeError>(made)
        })?);
    }
    if call.flag_or("mark", false)? && lists.iter().any(|list| !list.is_empty()) {
        let [begin, end] = MARKS;
        let (begin, end) = (words.number(begin)?, words.number(end)?);
        for list in &mut lists {
            list.insert(0, begin);
            list.push(end);
        }
    }
    Ok(vec![words.rows(&lists, x.shape(), fill)?])
}

fn rule(call: &Call<'_>) -> Result<Rule, NodeError> {
    let separators = call.attr_strings("separators")?;
    let token = call.string_or("tokenexp", "")?;
    match (&separators[..], token) {
        ([""], "") => Ok(Rule::Letters),
        ([], "") => Err(NodeError::malformed(
            "attributes separators and tokenexp",
            "left out",
            "one of the two",
        )),
        (separators, "") => {
            let separators = separators.iter().map(|separator| compiled(separator));
            Ok(Rule::Between(separators.collect::<Result<_, _>>()?))
        }
        ([], token) => Ok(Rule::Tokens(Longest::new(token)?)),
        _ => Err(NodeError::malformed(
            "attributes separators and tokenexp",
            "both given",
            "one of the two",
        )),
    }
}

/// Tells the parts of a string.
fn parts(
    rule: &Rule,
    string: &str,
    tell: &mut dyn FnMut(&str) -> Result<(), NodeError>,
) -> Result<(), NodeError> {
    match rule {
        Rule::Letters => {
            let mut letters = [0; 4];
            (string.chars()).try_for_each(|letter| tell(letter.encode_utf8(&mut letters)))
        }
        Rule::Between(separators) => between(separators, string, tell),
        Rule::Tokens(token) => {
            let mut begin = 0;
            while let Some((start, end)) = token.find_at(string, begin)? {
                tell(&string[start..end])?;
                // What is empty does not take anything along.
                let letter = string[end..].chars().next().map_or(1, char::len_utf8);
                begin = if end > start { end } else { end + letter };
                if begin > string.len() {
                    break;
                }
            }
            Ok(())
        }
    }
}

/// Tells what lies between the separators: what one leaves is divided by the next.
fn between(
    separators: &[regex_lite::Regex],
    string: &str,
    tell: &mut dyn FnMut(&str) -> Result<(), NodeError>,
) -> Result<(), NodeError> {
    let Some((first, others)) = separators.split_first() else {
        return tell(string);
    };
    let found = first.find_iter(string).filter(|found| !found.is_empty());
    let mut begin = 0;
    for separator in found {
        between(others, &string[begin..separator.start()], tell)?;
        begin = separator.end();
    }
    between(others, &string[begin..], tell)
}
