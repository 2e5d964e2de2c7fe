//! BERT's tokenizer: text to the pieces of words that a vocabulary has.

use std::collections::HashMap;
use std::path::Path;

use super::letters::{CHINESE, INVISIBLE, MARKED, MARKS, PUNCTUATION};

/// A word of more characters than this is not looked at.
const LONGEST_WORD: usize = 100;

/// A vocabulary, and how text is cut by it; without regard to case and accents.
pub struct Tokenizer {
    ids: HashMap<String, i64>,
    letters: HashMap<char, char>,
    begin: i64,
    end: i64,
    unknown: i64,
}

impl Tokenizer {
    /// Of a file with a piece in each line, `vocab.txt`.
    pub fn open(path: &Path) -> Result<Tokenizer, String> {
        let text = std::fs::read_to_string(path)
            .map_err(|error| format!("{}: {error}", path.display()))?;
        let pieces = text.lines().map(str::to_owned);
        let ids: HashMap<_, _> = pieces.zip(0..).collect();
        let id = |piece: &str| {
            let missing = || {
                let path = path.display();
                format!("{path}: there is no piece {piece}, which a vocabulary of BERT has")
            };
            ids.get(piece).copied().ok_or_else(missing)
        };
        let (begin, end, unknown) = (id("[CLS]")?, id("[SEP]")?, id("[UNK]")?);
        let marked = MARKED.iter();
        let letters = marked
            .flat_map(|&(letter, marked)| marked.chars().map(move |marked| (marked, letter)))
            .collect();
        Ok(Tokenizer {
            ids,
            letters,
            begin,
            end,
            unknown,
        })
    }

    /// The pieces of a text between the begin and the end, at most `longest` in all: what comes later is cut off.
    pub fn encode(&self, text: &str, longest: usize) -> Vec<i64> {
        let mut ids = vec![self.begin];
        for word in words(&self.plain(text)) {
            self.cut(&word, &mut ids);
        }
        ids.truncate(longest.saturating_sub(1));
        ids.push(self.end);
        ids
    }

    /// The text in lower case, without accents and what is not seen.
    fn plain(&self, text: &str) -> String {
        let seen = text.chars().filter_map(|c| match c {
            '\t' | '\n' | '\r' => Some(' '),
            '\u{fffd}' => None,
            c if c.is_control() || is_in(c, INVISIBLE) => None,
            c => Some(c),
        });
        let mut plain = String::with_capacity(text.len());
        for c in seen.flat_map(char::to_lowercase) {
            match self.letters.get(&c) {
                Some(&letter) => plain.push(letter),
                None if is_in(c, MARKS) => {}
                None => push_parts(c, &mut plain),
            }
        }
        plain
    }

    /// The longest piece there is, then the longest of what is left, and so on; or unknown.
    fn cut(&self, word: &str, ids: &mut Vec<i64>) {
        let known = ids.len();
        let mut rest = word;
        if word.chars().count() > LONGEST_WORD {
            ids.push(self.unknown);
            return;
        }
        while !rest.is_empty() {
            let prefix = if rest.len() == word.len() { "" } else { "##" };
            let ends = rest.char_indices().map(|(at, c)| at + c.len_utf8()).rev();
            let mut pieces = ends.map(|end| (end, format!("{prefix}{}", &rest[..end])));
            let found = pieces.find_map(|(end, piece)| Some((end, *self.ids.get(&piece)?)));
            let Some((end, id)) = found else {
                ids.truncate(known);
                ids.push(self.unknown);
                return;
            };
            ids.push(id);
            rest = &rest[end..];
        }
    }
}

/// What stands between spaces; punctuation and Chinese characters stand by themselves.
fn words(text: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    for c in text.chars() {
        let alone = is_punctuation(c) || is_in(c, CHINESE);
        if alone || c.is_whitespace() {
            words.push(String::new());
        }
        if c.is_whitespace() {
            continue;
        }
        if let Some(word) = words.last_mut() {
            word.push(c);
        }
        if alone {
            words.push(String::new());
        }
    }
    words.retain(|word| !word.is_empty());
    words
}

fn is_punctuation(c: char) -> bool {
    c.is_ascii_punctuation() || is_in(c, PUNCTUATION)
}

fn is_in(c: char, ranges: &[(char, char)]) -> bool {
    !c.is_ascii()
        && ranges
            .iter()
            .any(|&(first, last)| (first..=last).contains(&c))
}

/// A Korean syllable as the two or three letters it is of, any other character as it is.
fn push_parts(c: char, text: &mut String) {
    let syllable = match c {
        '가'..='힣' => u32::from(c) - u32::from('가'),
        _ => return text.push(c),
    };
    let last = syllable % 28;
    let parts = [
        0x1100 + syllable / 588,
        0x1161 + syllable % 588 / 28,
        0x11a7 + last,
    ];
    let count = if last == 0 { 2 } else { 3 };
    text.extend(parts.into_iter().take(count).filter_map(char::from_u32));
}
