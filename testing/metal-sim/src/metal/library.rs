//! `MTLLibrary`, `MTLFunction` and `MTLCompileOptions`: Metal text, compiled for the CPU.

use std::hash::{DefaultHasher, Hash, Hasher};

use streampool_emulated::metal;

use crate::foundation::{NSOBJECT, array, autoreleased_string, set_error, string, text};
use crate::method;
use crate::report::{Rule, violation};
use crate::runtime::{Body, Class, Definition, Id, autorelease};
use crate::settings::change;

pub(super) static LIBRARY: Class = Class::fixed(c"_Imitation_Library", Some(&NSOBJECT), define);
pub(super) static FUNCTION: Class =
    Class::fixed(c"_Imitation_Function", Some(&NSOBJECT), define_function);

#[unsafe(export_name = "_OBJC_CLASS_MTLCompileOptions")]
pub(super) static OPTIONS: Class =
    Class::fixed(c"MTLCompileOptions", Some(&NSOBJECT), define_options);

/// `MTLLibraryErrorCompileFailure`
const COMPILE_FAILURE: isize = 3;

struct Library {
    compiled: metal::Library,
    text: u64,
}

pub(super) struct Function {
    pub compiled: metal::Function,
    /// What tells functions of this name in other texts from it.
    pub text: u64,
}

impl Body for Library {}
impl Body for Function {}

#[derive(Default)]
struct Options;

impl Body for Options {}

pub(super) fn new(source: Id, options: Id, error: *mut Id) -> Id {
    let Some(source) = text(source) else {
        violation(Rule::Argument, "a library without a text".to_owned());
        return Id::NULL;
    };
    if !options.is_null() && options.body_if::<Options>().is_none() {
        violation(
            Rule::Argument,
            "compile options that are none, or freed".to_owned(),
        );
    }
    let failure = change(|settings| {
        let failures = &mut settings.compile_failures;
        (!failures.is_empty()).then(|| failures.remove(0))
    });
    let compiled = match failure {
        Some(why) => Err(why),
        None => metal::Library::compile(&source),
    };
    match compiled {
        Ok(compiled) => {
            let mut hasher = DefaultHasher::new();
            source.hash(&mut hasher);
            LIBRARY.instance(Library {
                compiled,
                text: hasher.finish(),
            })
        }
        Err(why) => set_error(error, "MTLLibraryErrorDomain", COMPILE_FAILURE, &why),
    }
}

fn define(class: &Definition) {
    method!(class, "newFunctionWithName:", |this: Library,
                                            name: Id|
     -> Id {
        let function = text(name).and_then(|name| this.compiled.function(&name));
        function.map_or(Id::NULL, |compiled| {
            FUNCTION.instance(Function {
                compiled,
                text: this.text,
            })
        })
    });
    method!(class, "functionNames", |this: Library| -> Id {
        autorelease(array(this.compiled.functions().map(string)))
    });
    method!(class, "setLabel:", |_this: Library, _label: Id| {});
}

fn define_function(class: &Definition) {
    method!(class, "name", |this: Function| -> Id {
        autoreleased_string(this.compiled.name())
    });
    method!(class, "setLabel:", |_this: Function, _label: Id| {});
}

fn define_options(class: &Definition) {
    class.begin_with::<Options>();
    method!(
        class,
        "setFastMathEnabled:",
        |_this: Options, _enabled: u8| {}
    );
    method!(class, "setMathMode:", |_this: Options, _mode: isize| {});
    method!(
        class,
        "setMathFloatingPointFunctions:",
        |_this: Options, _functions: isize| {}
    );
    method!(
        class,
        "setLanguageVersion:",
        |_this: Options, _version: usize| {}
    );
    method!(
        class,
        "setPreserveInvariance:",
        |_this: Options, _preserve: u8| {}
    );
}
