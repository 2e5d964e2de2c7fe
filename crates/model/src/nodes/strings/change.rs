//! Strings from strings: changed, joined, divided.

use std::collections::{HashMap, HashSet};

use super::common::Words;
use crate::error::NodeError;
use crate::nodes::call::{Call, Outputs};

/// Letters of one case, without the words that are left out. A letter is changed if the other case has one letter for it, as in C.
pub fn normalise(call: &Call<'_>) -> Outputs {
    let words = Words::of(call)?;
    let x = call.given(0)?;
    let (&[count] | &[1, count]) = x.shape() else {
        let got = format_args!("of shape {:?}", x.shape());
        return Err(NodeError::malformed(
            "input 0",
            got,
            "[words] or [1, words]",
        ));
    };
    let action = call.string_or("case_change_action", "NONE")?;
    let change: Option<fn(char) -> char> = match action {
        "NONE" => None,
        "LOWER" => Some(lower),
        "UPPER" => Some(upper),
        other => return Err(call.unknown("case_change_action", other)),
    };
    let case: fn(char) -> char = change.unwrap_or(lower);
    let is_sensitive = call.flag_or("is_case_sensitive", false)?;
    let seen = |string: &str| match is_sensitive {
        true => string.to_owned(),
        false => string.chars().map(case).collect(),
    };
    let left_out = call.attr_strings("stopwords")?;
    let left_out: HashSet<String> = left_out.into_iter().map(seen).collect();
    let numbers = words.given(x)?;
    let mut made: Vec<i64> = words.each(&numbers, |string| {
        if !left_out.is_empty() && left_out.contains(&seen(string)) {
            return Ok(-1);
        }
        match change {
            None => words.number(string),
            Some(change) => words.number(&string.chars().map(change).collect::<String>()),
        }
    })?;
    made.retain(|&number| number >= 0);
    if made.is_empty() && count > 0 {
        made.push(words.number("")?);
    }
    let shape = [1, made.len()];
    Ok(vec![words.tensor(&made, &shape[2 - x.rank()..])?])
}

fn lower(letter: char) -> char {
    // The one letter whose other case is told by its first character alone.
    if letter == 'İ' {
        return 'i';
    }
    alone(letter, letter.to_lowercase())
}

fn upper(letter: char) -> char {
    alone(letter, letter.to_uppercase())
}

/// The other case of a letter, if that is one letter.
fn alone(letter: char, mut other: impl ExactSizeIterator<Item = char>) -> char {
    match (other.len(), other.next()) {
        (1, Some(other)) => other,
        _ => letter,
    }
}

/// Pairs of strings, joined.
pub fn concat(call: &Call<'_>) -> Outputs {
    let words = Words::of(call)?;
    let (one, two) = call.given(0)?.broadcast_with(call.given(1)?)?;
    let pairs = words.given(&one)?.into_iter().zip(words.given(&two)?);
    let mut joined: HashMap<(i64, i64), i64> = HashMap::new();
    let each = pairs.map(|pair| {
        if let Some(&number) = joined.get(&pair) {
            return Ok(number);
        }
        let mut string = words.of_run.read(pair.0, str::to_owned);
        let number = words.of_run.read(pair.1, |end| {
            string.push_str(end);
            words.number(&string)
        })?;
        joined.insert(pair, number);
        Ok(number)
    });
    let each = each.collect::<Result<Vec<_>, NodeError>>()?;
    Ok(vec![words.tensor(&each, one.shape())?])
}

/// The parts of each string, and how many there are.
pub fn split(call: &Call<'_>) -> Outputs {
    let words = Words::of(call)?;
    let x = call.given(0)?;
    let between = call.string_or("delimiter", "")?;
    let most = match call.attr_int("maxsplit")? {
        Some(most) => usize::try_from(most).unwrap_or(usize::MAX),
        None => usize::MAX,
    };
    let numbers = words.given(x)?;
    let mut lists = streampool_tensor::room::room(numbers.len())?;
    for &number in &numbers {
        lists.push(words.of_run.read(number, |string| {
            let mut parts = Vec::new();
            let mut rest = Some(string).filter(|string| !string.is_empty());
            while let Some(left) = rest {
                let left = if between.is_empty() {
                    left.trim_start()
                } else {
                    left
                };
                if left.is_empty() && between.is_empty() {
                    break;
                }
                let divided = match between {
                    _ if parts.len() >= most => None,
                    "" => left.split_once(char::is_whitespace),
                    between => left.split_once(between),
                };
                let (part, behind) =
                    divided.map_or((left, None), |(part, rest)| (part, Some(rest)));
                let is_last = behind.is_none() && between.is_empty();
                let part = if is_last { part.trim_end() } else { part };
                parts.push(words.number(part)?);
                rest = behind;
            }
            Ok::<_, NodeError>(parts)
        })?);
    }
    let counts: Vec<i64> = lists.iter().map(|list| list.len() as i64).collect();
    let parts = words.rows(&lists, x.shape(), words.number("")?)?;
    Ok(vec![parts, words.tensor(&counts, x.shape())?])
}
