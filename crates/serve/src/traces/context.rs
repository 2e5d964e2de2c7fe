//! The header `traceparent`: the trace that a request is part of.

use axum::http::HeaderMap;
use streampool::batch::Mark;

/// The trace that a request is part of, as its client says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Context {
    /// The trace, and the span of the client.
    pub mark: Mark,
    /// Whether the client traces it.
    pub sampled: bool,
}

impl Context {
    /// What the headers say. A header that is not as the standard has it says nothing.
    pub fn of(headers: &HeaderMap) -> Option<Context> {
        read(headers.get("traceparent")?.to_str().ok()?)
    }
}

fn read(text: &str) -> Option<Context> {
    let mut parts = text.split('-');
    let mut hex = |digits: usize| {
        let part = parts.next()?;
        let plain = part.len() == digits
            && part
                .bytes()
                .all(|c| c.is_ascii_digit() || (b'a'..=b'f').contains(&c));
        plain.then_some(part)
    };
    let version = hex(2)?;
    let trace = u128::from_str_radix(hex(32)?, 16).ok()?;
    let span = u64::from_str_radix(hex(16)?, 16).ok()?;
    let flags = u8::from_str_radix(hex(2)?, 16).ok()?;
    // Later versions may have more parts.
    let fits = version != "ff" && (version != "00" || parts.next().is_none());
    (fits && trace != 0 && span != 0).then_some(Context {
        mark: Mark { trace, span },
        sampled: flags & 1 == 1,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_the_standard_has_is_read() {
        let good = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
        let read_one = read(good).unwrap();
        assert_eq!(read_one.mark.trace, 0x4bf92f3577b34da6a3ce929d0e0e4736);
        assert_eq!(
            (read_one.mark.span, read_one.sampled),
            (0x00f067aa0ba902b7, true)
        );
        assert!(!read(&good.replace("-01", "-00")).unwrap().sampled);
        assert!(read(&format!("{}-more", good.replacen("00", "01", 1))).is_some());
        for wrong in [
            "",
            "00",
            "00-0-0-0",
            "ff-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-more",
            "00-4BF92F3577B34DA6A3CE929D0E0E4736-00f067aa0ba902b7-01",
            "00-00000000000000000000000000000000-00f067aa0ba902b7-01",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01",
            "00-+bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
            "00-4bf92f3577b34da6a3ce929d0e0e473é-00f067aa0ba902b7-01",
        ] {
            assert_eq!(read(wrong), None, "{wrong}");
        }
    }
}
