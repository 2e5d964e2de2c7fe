//! Whether a library was inserted into the program: whether the list of such libraries names its file.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;

/// The variable by which libraries are inserted, and what stands between their files in it.
pub const VARIABLE: (&str, &[u8]) = if cfg!(target_vendor = "apple") {
    ("DYLD_INSERT_LIBRARIES", b":")
} else {
    ("LD_PRELOAD", b": ")
};

/// The list without this file, which it names, perhaps by a link of another name. None, if it does not name it. Files of the same name
/// count as the same: what is found by a search is in the list without its folder.
pub fn without(list: &OsStr, between: &[u8], file: &Path) -> Option<OsString> {
    let same = std::fs::canonicalize(file).ok();
    let is_it = |listed: &Path| {
        let name = listed.file_name();
        let linked = || same.is_some() && std::fs::canonicalize(listed).ok() == same;
        name.is_some() && (name == file.file_name() || linked())
    };
    let listed = list.as_bytes().split(|byte| between.contains(byte));
    let (own, others): (Vec<&[u8]>, Vec<&[u8]>) = listed
        .filter(|listed| !listed.is_empty())
        .partition(|listed| is_it(Path::new(OsStr::from_bytes(listed))));
    (!own.is_empty()).then(|| OsString::from_vec(others.join(&between[..1])))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_known_by_its_name_and_by_links() {
        let folder = std::env::temp_dir().join(format!("agx-fix {}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder");
        let [file, link, other] = ["libagx_fix.so", "guard", "other"].map(|name| folder.join(name));
        std::fs::write(&file, "").expect("a file");
        std::fs::write(&other, "").expect("another file");
        std::os::unix::fs::symlink(&file, &link).expect("a link");
        let rest = |list: &[&Path]| {
            let list: Vec<&OsStr> = list.iter().map(|path| path.as_os_str()).collect();
            without(&list.join(OsStr::new(":")), b":", &file)
        };
        assert_eq!(rest(&[&other, &file]).as_deref(), Some(other.as_os_str()));
        assert_eq!(
            rest(&[&file, &other, &link, &other]),
            Some([other.as_os_str(); 2].join(OsStr::new(":")))
        );
        assert_eq!(
            rest(&[Path::new("libagx_fix.so")]),
            Some(OsString::new()),
            "nothing is left"
        );
        assert_eq!(rest(&[&other]), None);
        assert_eq!(rest(&[]), None);
        std::fs::remove_dir_all(&folder).expect("it is ours");
    }
}
