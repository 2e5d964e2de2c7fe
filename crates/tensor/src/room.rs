//! Memory of the host for as many elements as shapes, files and requests say: it may be refused.

use streampool_device::machine;

use crate::{Error, Result};

/// An empty list with room for so many. More than there is memory for are an error.
///
/// Sizes that come from outside take this way, and no other: others end the process where there is not so much.
pub fn room<T>(count: usize) -> Result<Vec<T>> {
    let mut list = Vec::new();
    let bytes = count.saturating_mul(size_of::<T>());
    match machine::may_hold(bytes) && list.try_reserve_exact(count).is_ok() {
        true => Ok(list),
        false => Err(no_room::<T>(count)),
    }
}

/// There is no memory for so many.
pub(crate) fn no_room<T>(count: usize) -> Error {
    Error::Array {
        got: format!("{count} elements of {} bytes", size_of::<T>()),
        expected: "as many as there is memory for".to_owned(),
    }
}

/// So many times the same.
#[expect(clippy::disallowed_methods, reason = "there is room")]
pub fn filled<T: Clone>(value: T, count: usize) -> Result<Vec<T>> {
    let mut list = room(count)?;
    list.resize(count, value);
    Ok(list)
}

/// A list of the same.
pub fn copied<T: Clone>(list: &[T]) -> Result<Vec<T>> {
    let mut own = room(list.len())?;
    own.extend(list.iter().cloned());
    Ok(own)
}

/// What `each` gives, whose number is known.
pub fn collected<T, E: From<Error>>(
    each: impl ExactSizeIterator<Item = Result<T, E>>,
) -> Result<Vec<T>, E> {
    let mut list = room(each.len())?;
    for one in each {
        list.push(one?);
    }
    Ok(list)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_no_memory_holds_is_refused() {
        for count in [usize::MAX, 1 << 60, 1 << 50, 1 << 43] {
            let error = room::<u64>(count).unwrap_err().to_string();
            assert!(error.contains(&count.to_string()), "{error}");
        }
        assert_eq!(filled(7u8, 3).unwrap(), [7, 7, 7]);
        assert_eq!(copied(&[1u8, 2]).unwrap(), [1, 2]);
        let numbers = collected((0..3usize).map(Ok::<_, Error>));
        assert_eq!(numbers.unwrap(), [0, 1, 2]);
        let many = collected((0..1usize << 50).map(Ok::<_, Error>));
        assert!(many.is_err());
    }
}
