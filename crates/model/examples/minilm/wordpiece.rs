//! BERT's tokenizer: text to the pieces of words that a vocabulary has.

use std::collections::HashMap;
use std::path::Path;

use unicode_general_category::{GeneralCategory as Category, get_general_category as category};
use unicode_normalization::UnicodeNormalization;

/// Chinese characters, each a word of its own: from the first to the last of each range.
const CHINESE: [(char, char); 8] = [
    ('\u{3400}', '\u{4dbf}'),
    ('\u{4e00}', '\u{9fff}'),
    ('\u{f900}', '\u{faff}'),
    ('\u{20000}', '\u{2a6df}'),
    ('\u{2a700}', '\u{2b73f}'),
    ('\u{2b740}', '\u{2b81f}'),
    ('\u{2b820}', '\u{2ceaf}'),
    ('\u{2f800}', '\u{2fa1f}'),
];

/// A word of more characters than this is not looked at.
const LONGEST_WORD: usize = 100;

/// A vocabulary, and how text is cut by it; without regard to case and accents.
pub struct Tokenizer {
    ids: HashMap<String, i64>,
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
        Ok(Tokenizer {
            ids,
            begin,
            end,
            unknown,
        })
    }

    /// The pieces of a text between the begin and the end, at most `longest` in all: what comes later is cut off.
    pub fn encode(&self, text: &str, longest: usize) -> Vec<i64> {
        let mut ids = vec![self.begin];
        for word in words(&plain(text)) {
            self.cut(&word, &mut ids);
        }
        ids.truncate(longest.saturating_sub(1));
        ids.push(self.end);
        ids
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

/// The text in lower case, without accents and what is not seen.
fn plain(text: &str) -> String {
    let seen = text.chars().filter_map(|c| match (c, category(c)) {
        ('\t' | '\n' | '\r', _) => Some(' '),
        ('\u{fffd}', _) => None,
        (_, Category::Control | Category::Format | Category::PrivateUse) => None,
        _ => Some(c),
    });
    let letters = seen.flat_map(char::to_lowercase).nfd();
    letters
        .filter(|&c| category(c) != Category::NonspacingMark)
        .collect()
}

/// What stands between spaces; punctuation and Chinese characters stand by themselves.
fn words(text: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    for c in text.chars() {
        let alone = is_punctuation(c) || is_chinese(c);
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
    use Category::*;
    c.is_ascii_punctuation()
        || matches!(
            category(c),
            ConnectorPunctuation
                | DashPunctuation
                | OpenPunctuation
                | ClosePunctuation
                | InitialPunctuation
                | FinalPunctuation
                | OtherPunctuation
        )
}

fn is_chinese(c: char) -> bool {
    CHINESE
        .iter()
        .any(|&(first, last)| (first..=last).contains(&c))
}
