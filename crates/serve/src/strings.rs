//! Tensors of strings, which the protocol calls `BYTES`: as bytes, each string has its length in front.

use streampool::Array;

use crate::error::{Error, Result};

/// The strings of an input, each with its length as four bytes in front.
pub fn read(input: &str, shape: &[usize], bytes: &[u8]) -> Result<Array> {
    let wrong = |why: String| Error::invalid(format!("input '{input}': {why}"));
    let (mut strings, mut rest) = (Vec::new(), bytes);
    while let Some((length, others)) = rest.split_first_chunk() {
        let length = u32::from_le_bytes(*length) as usize;
        let own = others.split_at_checked(length);
        let (own, others) = own.ok_or_else(|| {
            let number = strings.len();
            wrong(format!(
                "string {number} has {length} bytes, and {} are left",
                others.len()
            ))
        })?;
        strings.push(own);
        rest = others;
    }
    if !rest.is_empty() {
        return Err(wrong(format!(
            "{} bytes are left behind the last string",
            rest.len()
        )));
    }
    of(input, shape, strings.into_iter())
}

/// The strings of an input.
pub fn of<'a>(
    input: &str,
    shape: &[usize],
    strings: impl ExactSizeIterator<Item = &'a [u8]>,
) -> Result<Array> {
    let wrong = |why: String| Error::invalid(format!("input '{input}' {why}"));
    let elements = shape
        .iter()
        .try_fold(1usize, |all, &size| all.checked_mul(size));
    let given = strings.len();
    if elements != Some(given) {
        return Err(wrong(format!(
            "has {given} elements, expected those of the shape {shape:?}"
        )));
    }
    let text = |string| {
        std::str::from_utf8(string).map_err(|_| wrong("has a string that is not UTF-8".to_owned()))
    };
    let strings: Vec<&str> = strings.map(text).collect::<Result<_>>()?;
    Array::from_strings(&strings, shape).map_err(|error| wrong(error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(strings: &[&[u8]]) -> Vec<u8> {
        let each = strings.iter().flat_map(|string| {
            let length = u32::try_from(string.len()).unwrap().to_le_bytes();
            [&length[..], string].concat()
        });
        each.collect()
    }

    #[test]
    fn lengths_are_believed_only_as_far_as_there_are_bytes() {
        let good = bytes(&[b"red", b"", "grün".as_bytes()]);
        let read_good = read("x", &[1, 3], &good).unwrap();
        assert_eq!(read_good.as_strings().unwrap(), ["red", "", "grün"]);
        assert!(
            read("x", &[0], &[])
                .unwrap()
                .as_strings()
                .unwrap()
                .is_empty()
        );
        for (shape, bytes, why) in [
            (&[2][..], good.clone(), "3 elements"),
            (&[usize::MAX, 2], good.clone(), "3 elements"),
            (&[3], good[..good.len() - 1].to_vec(), "are left"),
            (&[3], [&good[..], &[0, 0]].concat(), "2 bytes are left"),
            (&[1], vec![255, 255, 255, 255, 1], "string 0 has 4294967295"),
            (&[1], bytes(&[&[0xff]]), "not UTF-8"),
        ] {
            let error = read("x", shape, &bytes).unwrap_err();
            assert_eq!(error.status(), 400);
            assert!(error.to_string().contains(why), "{error}");
        }
    }
}
