//! Whether a library was inserted into the program: whether the list of such libraries names its file.

use std::ffi::OsStr;
use std::path::Path;

/// The variable by which libraries are inserted, and what stands between their files in it.
pub const VARIABLE: (&str, &[char]) = if cfg!(target_vendor = "apple") {
    ("DYLD_INSERT_LIBRARIES", &[':'])
} else {
    ("LD_PRELOAD", &[':', ' '])
};

/// Whether the list names this file, perhaps by a link of another name. Files of the same name count as the same: what is found by a
/// search is in the list without its folder.
pub fn names(list: &OsStr, between: &[char], file: &Path) -> bool {
    let same = std::fs::canonicalize(file).ok();
    let list = list.to_string_lossy();
    list.split(between).map(Path::new).any(|listed| {
        let name = listed.file_name();
        let linked = || same.is_some() && std::fs::canonicalize(listed).ok() == same;
        name.is_some() && (name == file.file_name() || linked())
    })
}

#[cfg(all(test, unix))]
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
        let is_in = |list: &[&Path]| {
            let list: Vec<&OsStr> = list.iter().map(|path| path.as_os_str()).collect();
            names(&list.join(OsStr::new(":")), &[':'], &file)
        };
        assert!(is_in(&[&other, &file]));
        assert!(is_in(&[&other, &link]));
        assert!(is_in(&[Path::new("libagx_fix.so")]));
        assert!(!is_in(&[&other]));
        assert!(!is_in(&[]));
        std::fs::remove_dir_all(&folder).expect("it is ours");
    }
}
