//! Numbers and names as people read them.

use std::fmt::Display;
use std::path::Path;
use std::str::FromStr;

/// Reads a number within bounds, for the options of a command.
pub fn within<T>(least: T, most: T) -> impl Fn(&str) -> Result<T, String> + Clone
where
    T: FromStr + PartialOrd + Display + Copy,
{
    move |text| {
        let value = text.parse().ok();
        let value = value.filter(|value| (least..=most).contains(value));
        value.ok_or_else(|| format!("expected a number from {least} to {most}"))
    }
}

/// Bytes in the largest unit that keeps at least one before the point.
pub fn bytes(bytes: usize) -> String {
    const UNITS: [&str; 5] = ["KiB", "MiB", "GiB", "TiB", "PiB"];
    if bytes < 1024 {
        return format!("{bytes} B");
    }
    let mut value = bytes as f64 / 1024.0;
    let mut unit = 0;
    while value >= 1024.0 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    let digits = usize::from(value.fract() >= 0.05 && value < 100.0);
    format!("{value:.digits$} {}", UNITS[unit])
}

/// A count with its thousands apart.
pub fn count(count: u64) -> String {
    let digits = count.to_string();
    let mut text = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A count of something, in the plural unless it is one.
pub fn counted(number: u64, thing: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{} {thing}{plural}", count(number))
}

/// These, with commas between.
pub fn list(items: impl IntoIterator<Item = impl Display>) -> String {
    let items: Vec<String> = items.into_iter().map(|item| item.to_string()).collect();
    items.join(", ")
}

/// A measured value with about three digits that mean something.
pub fn figure(value: f64) -> String {
    match value.abs() {
        size if size >= 100.0 => format!("{value:.0}"),
        size if size >= 10.0 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}

/// A time in the unit that fits.
pub fn time(seconds: f64) -> String {
    match seconds {
        long if long >= 1.0 => format!("{} s", figure(long)),
        short if short >= 1e-3 => format!("{} ms", figure(short * 1e3)),
        _ => format!("{} us", figure(seconds * 1e6)),
    }
}

/// A large measured value in thousands, millions and so on, with three digits.
pub fn compact(value: f64) -> String {
    // What would be rounded to 1000 is one of the next unit.
    match value.abs() {
        size if size >= 999.5e9 => format!("{} T", figure(value / 1e12)),
        size if size >= 999.5e6 => format!("{} G", figure(value / 1e9)),
        size if size >= 999.5e3 => format!("{} M", figure(value / 1e6)),
        size if size >= 999.5 => format!("{} k", figure(value / 1e3)),
        _ => figure(value),
    }
}

/// A name in at most so many characters: of a longer one the beginning is left out.
pub fn ending(name: &str, most: usize) -> String {
    match name.chars().count().checked_sub(most) {
        None | Some(0) => name.to_owned(),
        Some(more) => format!("..{}", name.chars().skip(more + 2).collect::<String>()),
    }
}

/// A name in at most so many characters: of a longer one the middle is left out.
pub fn shortened(name: &str, most: usize) -> String {
    let letters: Vec<char> = name.chars().collect();
    if letters.len() <= most {
        return name.to_owned();
    }
    let (front, back) = (most / 2 - 1, most - most / 2 - 1);
    let text = |letters: &[char]| letters.iter().collect::<String>();
    format!(
        "{}..{}",
        text(&letters[..front]),
        text(&letters[letters.len() - back..])
    )
}

/// The name of a file without its folder.
pub fn file_name(path: &Path) -> String {
    let name = path.file_name().unwrap_or(path.as_os_str());
    shortened(&name.to_string_lossy(), 40)
}

/// Text as it stands in HTML and SVG.
pub fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            other => escaped.push(other),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_within_bounds() {
        assert_eq!(within(1, 1024)("31"), Ok(31));
        assert_eq!(within(0.1, 3600.0)("0.5"), Ok(0.5));
        for wrong in ["", "0", "-1", "1e9", "NaN", "ten"] {
            let error = within(0.1, 3600.0)(wrong);
            assert_eq!(error, Err("expected a number from 0.1 to 3600".to_owned()));
        }
    }

    #[test]
    fn long_names_lose_their_middle() {
        assert_eq!(shortened("short", 5), "short");
        assert_eq!(shortened("a/long/name/of/a/node", 10), "a/lo..node");
        assert_eq!(file_name(Path::new("/models/m.onnx")), "m.onnx");
    }

    #[test]
    fn of_long_names_the_end_may_be_what_counts() {
        assert_eq!(ending("short", 5), "short");
        assert_eq!(ending("a/long/name/of/a/node", 10), "..f/a/node");
    }

    #[test]
    fn bytes_take_the_unit_that_fits() {
        assert_eq!(bytes(0), "0 B");
        assert_eq!(bytes(1023), "1023 B");
        assert_eq!(bytes(1024), "1 KiB");
        assert_eq!(bytes(1536), "1.5 KiB");
        assert_eq!(bytes(8 << 20), "8 MiB");
        assert_eq!(bytes(15_980_000_000), "14.9 GiB");
        assert_eq!(bytes(usize::MAX), "16384 PiB");
    }

    #[test]
    fn thousands_stand_apart() {
        assert_eq!(count(0), "0");
        assert_eq!(count(999), "999");
        assert_eq!(count(3100), "3,100");
        assert_eq!(count(1_234_567), "1,234,567");
        assert_eq!(counted(1, "core"), "1 core");
        assert_eq!(counted(2, "core"), "2 cores");
    }

    #[test]
    fn figures_keep_three_digits() {
        assert_eq!(figure(1.234), "1.23");
        assert_eq!(figure(-0.4), "-0.40");
        assert_eq!(figure(43.21), "43.2");
        assert_eq!(figure(150.4), "150");
    }

    #[test]
    fn rates_are_compact() {
        assert_eq!(compact(17.25), "17.2");
        assert_eq!(compact(583_210.0), "583 k");
        assert_eq!(compact(999_900.0), "1.00 M");
        assert_eq!(compact(2_060_000.0), "2.06 M");
        assert_eq!(compact(41.6e9), "41.6 G");
        assert_eq!(compact(723.4e12), "723 T");
    }
}
