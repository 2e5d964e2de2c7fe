//! The header of a `.npy` file: a Python dictionary of three entries.

use std::iter::Peekable;
use std::str::CharIndices;

/// What the header says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Header {
    pub descr: String,
    pub fortran: bool,
    pub shape: Vec<usize>,
}

/// What is wrong with it, and where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Flaw {
    pub at: usize,
    pub got: String,
    pub expected: &'static str,
}

impl Header {
    /// Reads `{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }`.
    pub fn parse(text: &str) -> Result<Header, Flaw> {
        let mut parser = Parser {
            text,
            rest: text.char_indices().peekable(),
        };
        let (mut descr, mut fortran, mut shape) = (None, None, None);
        parser.sign('{')?;
        while !parser.take('}') {
            let at = parser.at();
            let key = parser.string()?;
            parser.sign(':')?;
            match key.as_str() {
                "descr" => descr = Some(parser.string()?),
                "fortran_order" => fortran = Some(parser.truth()?),
                "shape" => shape = Some(parser.tuple()?),
                _ => {
                    return Err(Flaw {
                        at,
                        got: format!("the key `{key}`"),
                        expected: "`descr`, `fortran_order` or `shape`",
                    });
                }
            }
            if !parser.take(',') {
                parser.sign('}')?;
                break;
            }
        }
        parser.end()?;
        let missing = |key: &str| Flaw {
            at: text.len(),
            got: format!("the end, without `{key}`"),
            expected: "`descr`, `fortran_order` and `shape`",
        };
        Ok(Header {
            descr: descr.ok_or_else(|| missing("descr"))?,
            fortran: fortran.ok_or_else(|| missing("fortran_order"))?,
            shape: shape.ok_or_else(|| missing("shape"))?,
        })
    }

    /// The text that [`parse`](Self::parse) reads.
    pub fn render(&self) -> String {
        let mut shape: String = self.shape.iter().map(|size| format!("{size}, ")).collect();
        // A tuple of one ends with a comma, one of more does not.
        shape.truncate(
            shape
                .len()
                .saturating_sub(if self.shape.len() > 1 { 2 } else { 1 }),
        );
        let fortran = if self.fortran { "True" } else { "False" };
        format!(
            "{{'descr': '{}', 'fortran_order': {fortran}, 'shape': ({shape}), }}",
            self.descr
        )
    }
}

struct Parser<'t> {
    text: &'t str,
    rest: Peekable<CharIndices<'t>>,
}

impl Parser<'_> {
    fn at(&mut self) -> usize {
        while self
            .rest
            .next_if(|(_, c)| c.is_ascii_whitespace())
            .is_some()
        {}
        self.rest.peek().map_or(self.text.len(), |&(at, _)| at)
    }

    fn flaw<T>(&mut self, expected: &'static str) -> Result<T, Flaw> {
        let at = self.at();
        let got = match self.rest.peek() {
            Some((_, c)) => format!("{c:?}"),
            None => "the end".to_owned(),
        };
        Err(Flaw { at, got, expected })
    }

    fn take(&mut self, sign: char) -> bool {
        self.at();
        self.rest.next_if(|&(_, c)| c == sign).is_some()
    }

    fn sign(&mut self, sign: char) -> Result<(), Flaw> {
        if self.take(sign) {
            return Ok(());
        }
        self.flaw(match sign {
            '{' => "`{`",
            '}' => "`,` or `}`",
            '(' => "`(`",
            ':' => "`:`",
            _ => "`,` or `)`",
        })
    }

    fn string(&mut self) -> Result<String, Flaw> {
        self.at();
        let Some((_, quote)) = self.rest.next_if(|(_, c)| matches!(c, '\'' | '"')) else {
            return self.flaw("a quoted text");
        };
        let mut string = String::new();
        for (_, c) in self.rest.by_ref() {
            if c == quote {
                return Ok(string);
            }
            string.push(c);
        }
        self.flaw("the end of a quoted text")
    }

    fn word(&mut self) -> String {
        self.at();
        let mut word = String::new();
        while let Some((_, c)) = self.rest.next_if(|(_, c)| c.is_ascii_alphanumeric()) {
            word.push(c);
        }
        word
    }

    fn truth(&mut self) -> Result<bool, Flaw> {
        let at = self.at();
        match self.word().as_str() {
            "True" => Ok(true),
            "False" => Ok(false),
            other => Err(Flaw {
                at,
                got: format!("`{other}`"),
                expected: "`True` or `False`",
            }),
        }
    }

    fn tuple(&mut self) -> Result<Vec<usize>, Flaw> {
        self.sign('(')?;
        let mut sizes = Vec::new();
        while !self.take(')') {
            let at = self.at();
            let word = self.word();
            // Python 2 wrote an L behind long numbers.
            let Ok(size) = word.trim_end_matches('L').parse() else {
                return Err(Flaw {
                    at,
                    got: format!("`{word}`"),
                    expected: "a size",
                });
            };
            sizes.push(size);
            if !self.take(',') {
                self.sign(')')?;
                break;
            }
        }
        Ok(sizes)
    }

    fn end(&mut self) -> Result<(), Flaw> {
        if self.at() == self.text.len() {
            return Ok(());
        }
        self.flaw("the end")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_numpy_writes_is_read() {
        let text = "{'descr': '<f4', 'fortran_order': True, 'shape': (3, 4), }      \n";
        let header = Header::parse(text).unwrap();
        assert_eq!((header.descr.as_str(), header.fortran), ("<f4", true));
        assert_eq!(header.shape, [3, 4]);
        let bare = r#"{"shape":(5L,),"descr":"|b1","fortran_order":False}"#;
        assert_eq!(Header::parse(bare).unwrap().shape, [5]);
    }

    #[test]
    fn what_is_written_is_read() {
        for shape in [&[][..], &[7], &[0, 3], &[1; 8]] {
            let header = Header {
                descr: "<f8".to_owned(),
                fortran: false,
                shape: shape.to_vec(),
            };
            assert_eq!(Header::parse(&header.render()), Ok(header));
        }
    }

    #[test]
    fn flaws_are_located() {
        for (text, at) in [
            ("", 0),
            ("{'descr' '<f4'}", 9),
            ("{'descr': [('a', '<f4')]}", 10),
            ("{'other': 1}", 1),
            ("{'shape': (1 2)}", 13),
            ("{'shape': (-1,)}", 11),
            ("{'shape': (99999999999999999999,)}", 11),
            ("{'descr': '<f4", 14),
            ("{'descr': '<f4'}", 16),
            ("{'descr': '<f4', 'fortran_order': Maybe}", 34),
            ("{'descr':'<f4','fortran_order':True,'shape':()} x", 48),
        ] {
            assert_eq!(Header::parse(text).unwrap_err().at, at, "{text}");
        }
    }
}
