//! The text form of protocol buffers, as `config.pbtxt` is written: fields with values, messages and lists.

/// A message may be inside others so often.
const MOST_DEPTH: usize = 32;

/// A value of a field.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// A number, a boolean or the name of an enum, as it is written.
    Word(String),
    /// A string, without its quotes.
    Text(String),
    /// Fields.
    Message(Message),
}

/// Fields in their order; one that is given several times is a list.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Message(pub Vec<(String, Value)>);

/// Reads a text. An error says at which line.
pub fn read(text: &str) -> Result<Message, String> {
    let mut reader = Reader {
        rest: text,
        line: 1,
    };
    let message = reader.fields(None, 0);
    message.map_err(|why| format!("line {}: {why}", reader.line))
}

/// The fields of a message.
pub fn message(value: &Value) -> Result<&Message, String> {
    match value {
        Value::Message(message) => Ok(message),
        _ => Err("expected { }".to_owned()),
    }
}

/// A number or a name, as it is written.
pub fn word(value: &Value) -> Result<&str, String> {
    match value {
        Value::Word(word) => Ok(word),
        _ => Err("expected a number or a name".to_owned()),
    }
}

/// A string.
pub fn text(value: &Value) -> Result<String, String> {
    match value {
        Value::Text(text) => Ok(text.clone()),
        _ => Err("expected a string".to_owned()),
    }
}

/// A whole number.
pub fn number(value: &Value) -> Result<usize, String> {
    let word = word(value)?;
    let expected = || format!("{word:?} is not a whole number, 0 or more");
    word.parse().map_err(|_| expected())
}

struct Reader<'a> {
    rest: &'a str,
    line: usize,
}

impl<'a> Reader<'a> {
    /// Passes over blanks and comments, and returns what is next.
    fn peek(&mut self) -> Option<char> {
        loop {
            let next = self.rest.chars().next()?;
            if next == '#' {
                let end = self.rest.find('\n').unwrap_or(self.rest.len());
                self.rest = &self.rest[end..];
            } else if next.is_whitespace() {
                self.skip(next);
            } else {
                return Some(next);
            }
        }
    }

    fn skip(&mut self, next: char) {
        self.line += usize::from(next == '\n');
        self.rest = &self.rest[next.len_utf8()..];
    }

    fn takes(&mut self, wanted: char) -> bool {
        let found = self.peek() == Some(wanted);
        if found {
            self.skip(wanted);
        }
        found
    }

    fn word(&mut self) -> Result<&'a str, String> {
        let next = self.peek();
        let of_word = |c: char| c.is_ascii_alphanumeric() || "_.+-".contains(c);
        let end = self.rest.find(|c| !of_word(c)).unwrap_or(self.rest.len());
        let (word, rest) = self.rest.split_at(end);
        self.rest = rest;
        match (word, next) {
            ("", None) => Err("the text ends too early".to_owned()),
            ("", Some(next)) => Err(format!("{next:?} is not expected here")),
            (word, _) => Ok(word),
        }
    }

    /// Fields up to the end, or up to the character that closes a message.
    fn fields(&mut self, end: Option<char>, depth: usize) -> Result<Message, String> {
        if depth > MOST_DEPTH {
            return Err(format!("messages are nested more than {MOST_DEPTH} deep"));
        }
        let mut fields = Vec::new();
        loop {
            while self.takes(',') || self.takes(';') {}
            match (self.peek(), end) {
                (None, None) => return Ok(Message(fields)),
                (None, Some(end)) => return Err(format!("{end:?} is missing")),
                (Some(next), Some(end)) if next == end => {
                    self.skip(next);
                    return Ok(Message(fields));
                }
                _ => {}
            }
            let name = self.word()?.to_owned();
            let colon = self.takes(':');
            if self.takes('[') {
                while !self.takes(']') {
                    let value = self.value(true, depth)?;
                    fields.push((name.clone(), value));
                    self.takes(',');
                }
            } else {
                let value = self.value(colon, depth)?;
                fields.push((name, value));
            }
        }
    }

    fn value(&mut self, colon: bool, depth: usize) -> Result<Value, String> {
        match self.peek() {
            Some('{') => {
                self.skip('{');
                self.fields(Some('}'), depth + 1).map(Value::Message)
            }
            Some('<') => {
                self.skip('<');
                self.fields(Some('>'), depth + 1).map(Value::Message)
            }
            _ if !colon => Err("':' is missing".to_owned()),
            Some(quote @ ('"' | '\'')) => {
                let mut text = String::new();
                // Strings next to each other are one.
                while self.takes(quote) {
                    self.quoted(quote, &mut text)?;
                }
                Ok(Value::Text(text))
            }
            _ => Ok(Value::Word(self.word()?.to_owned())),
        }
    }

    fn quoted(&mut self, quote: char, text: &mut String) -> Result<(), String> {
        loop {
            let next = self.rest.chars().next();
            let next = next.filter(|&next| next != '\n');
            let next = next.ok_or_else(|| "a string does not end".to_owned())?;
            self.skip(next);
            match next {
                next if next == quote => return Ok(()),
                '\\' => {
                    let escaped = self.rest.chars().next();
                    let escaped = escaped.ok_or_else(|| "a string does not end".to_owned())?;
                    self.skip(escaped);
                    text.push(match escaped {
                        'n' => '\n',
                        't' => '\t',
                        'r' => '\r',
                        '\\' | '"' | '\'' => escaped,
                        other => return Err(format!("the escape \\{other} is not supported")),
                    });
                }
                next => text.push(next),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_messages_and_lists_are_read() {
        let message = read(
            "name: \"a\" # a comment\nmax_batch_size: 8\ninput [ { dims: [ -1, 4 ] }, { name: 'b' } ]\npolicy { all {} } count: 2;",
        );
        let word = |text: &str| Value::Word(text.to_owned());
        let message = message.unwrap().0;
        let names: Vec<&str> = message.iter().map(|(name, _)| &name[..]).collect();
        assert_eq!(
            names,
            [
                "name",
                "max_batch_size",
                "input",
                "input",
                "policy",
                "count"
            ]
        );
        assert_eq!(message[1].1, word("8"));
        let dims = vec![
            ("dims".to_owned(), word("-1")),
            ("dims".to_owned(), word("4")),
        ];
        assert_eq!(message[2].1, Value::Message(Message(dims)));
    }

    #[test]
    fn what_cannot_be_read_is_told_with_its_line() {
        for (text, why) in [
            ("a: \n\n}", "line 3: '}' is not expected"),
            ("a {", "'}' is missing"),
            ("a 1", "':' is missing"),
            ("a: \"x", "does not end"),
            ("a: [1", "ends too early"),
            ("a: \"\\q\"", "escape"),
        ] {
            let error = read(text).unwrap_err();
            assert!(error.contains(why), "{error} for {text:?}");
        }
        let deep = "a {".repeat(100_000);
        assert!(read(&deep).unwrap_err().contains("nested"));
    }

    #[test]
    fn no_text_is_too_much() {
        let mut random = fastrand::Rng::with_seed(7);
        let pieces = [
            "a", ":", "{", "}", "[", "]", "\"", "\\", "1", "\n", "#", "<", ">", "é", ",", " ",
        ];
        for _ in 0..20_000 {
            let text: String = (0..random.usize(0..40))
                .map(|_| pieces[random.usize(0..pieces.len())])
                .collect();
            let _ = read(&text);
        }
    }
}
