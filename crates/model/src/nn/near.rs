//! Names that somebody may have meant.

/// How many are told.
const TOLD: usize = 3;

/// The few of `names` that are nearest to `name`, the nearest first.
pub(super) fn nearest<'n>(name: &str, names: impl Iterator<Item = &'n str>) -> Vec<&'n str> {
    let mut known: Vec<_> = names.map(|known| (distance(name, known), known)).collect();
    known.sort_unstable();
    known.truncate(TOLD);
    known.into_iter().map(|(_, known)| known).collect()
}

/// How many bytes have to be put in, taken out or changed to make one of the other.
fn distance(a: &str, b: &str) -> usize {
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.bytes().enumerate() {
        let mut left = i + 1;
        let mut diagonal = std::mem::replace(&mut row[0], left);
        for (above, y) in row[1..].iter_mut().zip(b.bytes()) {
            let changed = diagonal + usize::from(x != y);
            diagonal = *above;
            left = changed.min(left + 1).min(diagonal + 1);
            *above = left;
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_are_counted() {
        for (a, b, expected) in [
            ("", "", 0),
            ("", "abc", 3),
            ("abc", "", 3),
            ("kitten", "sitting", 3),
            ("weight", "wieght", 2),
            ("bias", "bias", 0),
        ] {
            assert_eq!(distance(a, b), expected, "{a} to {b}");
        }
    }

    #[test]
    fn the_nearest_come_first() {
        let names = ["decoder.weight", "encoder.bias", "encoder.weight", "x"];
        assert_eq!(
            nearest("encoder.wieght", names.into_iter()),
            ["encoder.weight", "decoder.weight", "encoder.bias"]
        );
    }
}
