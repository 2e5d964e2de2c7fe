//! Numbers as text of one width, with as many digits as tell them apart, at most four behind the point.

/// The most digits behind the point.
const DIGITS: usize = 4;

/// Numbers of one kind.
pub(super) enum Numbers {
    Truths(Vec<bool>),
    Naturals(Vec<u64>),
    Integers(Vec<i64>),
    Floats(Vec<f64>),
}

impl Numbers {
    /// Each as text, all of one width.
    pub fn texts(&self) -> Texts {
        Texts::aligned(match self {
            Numbers::Truths(values) => values.iter().map(ToString::to_string).collect(),
            Numbers::Naturals(values) => values.iter().map(ToString::to_string).collect(),
            Numbers::Integers(values) => values.iter().map(ToString::to_string).collect(),
            Numbers::Floats(values) => floats(values),
        })
    }
}

/// Texts of one width.
pub(super) struct Texts {
    texts: Vec<String>,
    width: usize,
}

impl Texts {
    fn aligned(texts: Vec<String>) -> Texts {
        let width = texts.iter().map(String::len).max().unwrap_or(0);
        Texts {
            texts: texts
                .into_iter()
                .map(|text| format!("{text:>width$}"))
                .collect(),
            width,
        }
    }

    pub fn width(&self) -> usize {
        self.width
    }

    pub fn iter(&self) -> impl Iterator<Item = &str> {
        self.texts.iter().map(String::as_str)
    }
}

fn floats(values: &[f64]) -> Vec<String> {
    let finite = || values.iter().copied().filter(|value| value.is_finite());
    let sizes = || finite().map(f64::abs).filter(|&size| size != 0.0);
    let largest = sizes().fold(0.0, f64::max);
    let smallest = sizes().fold(f64::INFINITY, f64::min);
    let whole = finite().all(|value| value.fract() == 0.0);
    let scientific = largest >= 1e8 || smallest < 1e-4 || (!whole && largest / smallest > 1e5);
    let digits = finite()
        .map(|value| digits(value, scientific))
        .max()
        .unwrap_or(0);
    values
        .iter()
        .map(|&value| match value {
            value if value.is_nan() => "nan".to_owned(),
            value if value.is_infinite() => value.to_string(),
            value if scientific => exponent(&format!("{value:.digits$e}")),
            value => fixed(value, digits),
        })
        .collect()
}

/// How many digits behind the point a value needs.
fn digits(value: f64, scientific: bool) -> usize {
    let text = if scientific {
        let text = format!("{value:.DIGITS$e}");
        text.split('e').next().unwrap_or_default().to_owned()
    } else {
        format!("{value:.DIGITS$}")
    };
    let behind = text.split('.').nth(1).unwrap_or_default();
    behind.trim_end_matches('0').len()
}

/// The value with a point, and blanks where its last digits are zeros, so that points stand below each other.
fn fixed(value: f64, digits: usize) -> String {
    let text = format!("{value:.digits$}");
    if digits == 0 {
        return format!("{text}.");
    }
    let short = text.trim_end_matches('0');
    format!("{short}{}", " ".repeat(text.len() - short.len()))
}

/// With a sign and at least two digits of exponent: `1e5` is `1e+05`.
fn exponent(text: &str) -> String {
    let (number, exponent) = text.split_once('e').unwrap_or((text, "0"));
    let (sign, exponent) = match exponent.strip_prefix('-') {
        Some(digits) => ('-', digits),
        None => ('+', exponent),
    };
    format!("{number}e{sign}{exponent:0>2}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn floats_have_as_many_digits_as_they_need() {
        assert_eq!(floats(&[1.0, -2.0, 0.0]), ["1.", "-2.", "0."]);
        assert_eq!(floats(&[1.5, 2.0]), ["1.5", "2. "]);
        assert_eq!(floats(&[0.123456789, 10.0]), ["0.1235", "10.    "]);
        assert_eq!(
            floats(&[f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 1.0]),
            ["nan", "inf", "-inf", "1."]
        );
        assert_eq!(floats(&[f64::NAN]), ["nan"]);
        assert_eq!(floats(&[]), [""; 0]);
    }

    #[test]
    fn the_large_and_the_small_are_scientific() {
        assert_eq!(floats(&[1e10, 2.5e-3]), ["1.0e+10", "2.5e-03"]);
        assert_eq!(floats(&[1e-5]), ["1e-05"]);
        assert_eq!(floats(&[-0.0, 1e300]), ["-0e+00", "1e+300"]);
    }
}
