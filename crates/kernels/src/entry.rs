//! How one kernel lies in its file.

/// A kernel that can be kept on disk.
pub trait Stored: Sized {
    /// Its bytes.
    fn to_bytes(&self) -> Vec<u8>;

    /// The kernel again, or `None` if these are not bytes of one.
    fn from_bytes(bytes: &[u8]) -> Option<Self>;
}

const MAGIC: [u8; 8] = *b"SPKERNEL";
const FORMAT: u32 = 1;
const CHECKSUM: usize = 16;

/// The file of a kernel: header, stamp, key, payload, and a checksum of all that.
pub(crate) fn encode(stamp: &[u8], key: &[u8], payload: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(64 + stamp.len() + key.len() + payload.len());
    bytes.extend(MAGIC);
    bytes.extend(FORMAT.to_le_bytes());
    for part in [stamp, key, payload] {
        bytes.extend((part.len() as u64).to_le_bytes());
        bytes.extend(part);
    }
    let checksum = crate::hash::fnv128(&[&bytes]);
    bytes.extend(checksum.to_le_bytes());
    bytes
}

/// The payload, if the file is whole and is of this stamp and key.
pub(crate) fn decode<'a>(bytes: &'a [u8], stamp: &[u8], key: &[u8]) -> Option<&'a [u8]> {
    let (body, checksum) = bytes.split_at_checked(bytes.len().checked_sub(CHECKSUM)?)?;
    if crate::hash::fnv128(&[body]).to_le_bytes() != checksum {
        return None;
    }
    let mut rest = body
        .strip_prefix(&MAGIC)?
        .strip_prefix(&FORMAT.to_le_bytes())?;
    let mut part = || {
        let (length, tail) = rest.split_first_chunk::<8>()?;
        let length = usize::try_from(u64::from_le_bytes(*length)).ok()?;
        let (part, tail) = tail.split_at_checked(length)?;
        rest = tail;
        Some(part)
    };
    let (found_stamp, found_key, payload) = (part()?, part()?, part()?);
    (found_stamp == stamp && found_key == key && rest.is_empty()).then_some(payload)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_damaged_byte_passes() {
        let whole = encode(b"stamp", b"the key", b"the payload");
        assert_eq!(
            decode(&whole, b"stamp", b"the key"),
            Some(&b"the payload"[..])
        );
        for position in 0..whole.len() {
            for flip in [1, 0x80, 0xff] {
                let mut damaged = whole.clone();
                damaged[position] ^= flip;
                assert_eq!(
                    decode(&damaged, b"stamp", b"the key"),
                    None,
                    "byte {position}"
                );
            }
            assert_eq!(decode(&whole[..position], b"stamp", b"the key"), None);
        }
        let longer = [&whole[..], b"x"].concat();
        assert_eq!(decode(&longer, b"stamp", b"the key"), None);
    }

    #[test]
    fn lengths_that_lie_are_refused_even_with_a_right_checksum() {
        let mut body = encode(b"s", b"k", b"p");
        body.truncate(body.len() - CHECKSUM);
        body[12..20].copy_from_slice(&u64::MAX.to_le_bytes());
        let checksum = crate::hash::fnv128(&[&body]);
        body.extend(checksum.to_le_bytes());
        assert_eq!(decode(&body, b"s", b"k"), None);
    }

    #[test]
    fn other_stamps_and_keys_are_foreign() {
        let whole = encode(b"stamp", b"key", b"payload");
        assert_eq!(decode(&whole, b"stamq", b"key"), None);
        assert_eq!(decode(&whole, b"stamp", b"kez"), None);
        // The boundary between stamp and key counts.
        assert_eq!(decode(&whole, b"stampk", b"ey"), None);
    }
}
