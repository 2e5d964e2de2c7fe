//! Numbers of bytes with a unit, as settings spell them: one spelling and one meaning everywhere.

/// What [`parse`] reads, in words for a message.
pub const SPELLING: &str = "a whole number of bytes above 0, optionally with K, M, G, T (or KB, MB, GB, TB: \
                            powers of 1000) or KiB, MiB, GiB, TiB (powers of 1024)";

/// Reads a whole number with an optional unit. Zero is read, too: whoever needs more has to say so.
///
/// ```
/// use streampool_device::bytes;
///
/// assert_eq!(bytes::parse("2GiB"), Some(2 << 30));
/// assert_eq!(bytes::parse("2G"), Some(2_000_000_000));
/// assert_eq!(bytes::parse("2 gallons"), None);
/// ```
pub fn parse(text: &str) -> Option<usize> {
    let digits = text
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let factor = factor(unit.trim_start())?;
    let bytes = number.parse::<u64>().ok()?.checked_mul(factor)?;
    usize::try_from(bytes).ok()
}

/// Shows it exactly, in the largest unit that can; [`parse`] reads it again.
pub fn format(bytes: usize) -> String {
    let bytes = bytes as u64;
    UNITS
        .iter()
        .find(|(_, factor)| bytes != 0 && bytes.is_multiple_of(*factor))
        .map_or_else(
            || bytes.to_string(),
            |(unit, factor)| format!("{}{unit}", bytes / factor),
        )
}

/// The units, largest first.
const UNITS: [(&str, u64); 8] = [
    ("TiB", 1 << 40),
    ("T", 1_000_000_000_000),
    ("GiB", 1 << 30),
    ("G", 1_000_000_000),
    ("MiB", 1 << 20),
    ("M", 1_000_000),
    ("KiB", 1 << 10),
    ("K", 1_000),
];

/// What a unit multiplies by, in whatever case; `KB` is `K`.
fn factor(unit: &str) -> Option<u64> {
    if unit.is_empty() || unit.eq_ignore_ascii_case("B") {
        return Some(1);
    }
    UNITS
        .iter()
        .find(|(known, _)| {
            let decimal = (known.len() == 1).then(|| format!("{known}B"));
            unit.eq_ignore_ascii_case(known)
                || decimal.is_some_and(|long| unit.eq_ignore_ascii_case(&long))
        })
        .map(|&(_, factor)| factor)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_units_are_read() {
        for (written, expected) in [
            ("0", Some(0)),
            ("4096", Some(4096)),
            ("10B", Some(10)),
            ("2K", Some(2_000)),
            ("2kb", Some(2_000)),
            ("2KiB", Some(2048)),
            ("3M", Some(3_000_000)),
            ("3 MiB", Some(3 << 20)),
            ("6G", Some(6_000_000_000)),
            ("6GiB", Some(6 << 30)),
            ("1TiB", Some(1 << 40)),
            ("-1", None),
            ("1.5G", None),
            ("K", None),
            ("", None),
            ("5X", None),
            ("5KiBB", None),
            ("5é", None),
            ("18446744073709551615K", None),
        ] {
            assert_eq!(parse(written), expected, "`{written}`");
        }
    }

    #[test]
    fn what_is_shown_can_be_read_again() {
        for bytes in [
            0,
            1,
            999,
            1000,
            1024,
            1536,
            3 << 20,
            3_000_000,
            5 << 40,
            usize::MAX,
        ] {
            assert_eq!(parse(&format(bytes)), Some(bytes), "{}", format(bytes));
        }
        assert_eq!(format(3 << 30), "3GiB");
        assert_eq!(format(3_000_000_000), "3G");
    }
}
