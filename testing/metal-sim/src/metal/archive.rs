//! `MTLBinaryArchive`: which functions need no compiling. Its file is a list of them.

use std::collections::BTreeSet;
use std::sync::Mutex;

use super::descriptor::Descriptor as PipelineDescriptor;
use super::library::Function;
use crate::foundation::{NSOBJECT, path, set_error};
use crate::lock::lock;
use crate::method;
use crate::report::{Rule, violation};
use crate::runtime::{Body, Class, Definition, Id, Strong};
use crate::settings::wait_while;

pub(super) static ARCHIVE: Class =
    Class::fixed(c"_Imitation_BinaryArchive", Some(&NSOBJECT), define);

#[unsafe(export_name = "_OBJC_CLASS_MTLBinaryArchiveDescriptor")]
pub(super) static DESCRIPTOR: Class =
    Class::fixed(c"MTLBinaryArchiveDescriptor", Some(&NSOBJECT), describe);

const DOMAIN: &str = "MTLBinaryArchiveDomain";
/// `MTLBinaryArchiveErrorInvalidFile`
const INVALID_FILE: isize = 1;
/// What a file begins with.
const HEADER: &str = "imitated binary archive";

pub(super) struct Archive(Mutex<BTreeSet<String>>);

impl Body for Archive {}

impl Archive {
    pub fn has(&self, function: &Function) -> bool {
        lock(&self.0).contains(&entry(function))
    }
}

#[derive(Default)]
struct Place(Mutex<Option<Strong>>);

impl Body for Place {}

fn entry(function: &Function) -> String {
    format!("{:016x} {}", function.text, function.compiled.name())
}

pub(super) fn new(descriptor: Id, error: *mut Id) -> Id {
    let Some(place) = descriptor.body_if::<Place>() else {
        violation(
            Rule::Argument,
            "a binary archive without a descriptor".to_owned(),
        );
        return Id::NULL;
    };
    let file = lock(&place.0).as_ref().and_then(|url| path(url.id()));
    let Some(file) = file else {
        return ARCHIVE.instance(Archive(Mutex::default()));
    };
    let text = match std::fs::read_to_string(&file) {
        Ok(text) => text,
        Err(why) => {
            return set_error(
                error,
                DOMAIN,
                INVALID_FILE,
                &format!("{}: {why}", file.display()),
            );
        }
    };
    match text.strip_prefix(HEADER) {
        Some(entries) => {
            let entries = entries
                .lines()
                .filter(|line| !line.is_empty())
                .map(str::to_owned)
                .collect();
            ARCHIVE.instance(Archive(Mutex::new(entries)))
        }
        None => set_error(
            error,
            DOMAIN,
            INVALID_FILE,
            &format!("{} is no binary archive", file.display()),
        ),
    }
}

fn describe(class: &Definition) {
    class.begin_with::<Place>();
    method!(class, "setUrl:", |this: Place, url: Id| {
        *lock(&this.0) = (!url.is_null()).then(|| Strong::new(url));
    });
}

fn define(class: &Definition) {
    method!(
        class,
        "addComputePipelineFunctionsWithDescriptor:error:",
        |this: Archive, descriptor: Id, _error: *mut Id| -> u8 {
            wait_while(|settings| settings.busy_archives);
            let function = descriptor
                .body_if::<PipelineDescriptor>()
                .and_then(|descriptor| descriptor.function());
            let Some(function) = function else {
                violation(
                    Rule::Argument,
                    "functions of a descriptor that has none".to_owned(),
                );
                return 0;
            };
            lock(&this.0).insert(entry(&function));
            1
        }
    );
    method!(class, "serializeToURL:error:", |this: Archive,
                                             url: Id,
                                             error: *mut Id|
     -> u8 {
        let entries: Vec<String> = lock(&this.0).iter().cloned().collect();
        let text = format!("{HEADER}\n{}\n", entries.join("\n"));
        let written = match path(url) {
            Some(file) => {
                std::fs::write(&file, text).map_err(|why| format!("{}: {why}", file.display()))
            }
            None => Err("not the URL of a file".to_owned()),
        };
        match written {
            Ok(()) => 1,
            Err(why) => {
                set_error(error, DOMAIN, INVALID_FILE, &why);
                0
            }
        }
    });
    method!(class, "setLabel:", |_this: Archive, _label: Id| {});
}
