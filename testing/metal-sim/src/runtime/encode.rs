//! How types are written in a method's signature. In debug builds `objc2` compares it with what it sends.

use std::ffi::{CString, c_char, c_void};
use std::ptr;

use super::layout::{Class, Id};
use super::selector::Selector;

/// A type that methods take and return.
pub trait Encode: Copy {
    /// Its code in a signature.
    const CODE: &'static str;
    /// What a method answers that could not run.
    const NOTHING: Self;
}

macro_rules! codes {
    ($($type:ty => $code:literal, $nothing:expr;)*) => {
        $(impl Encode for $type {
            const CODE: &'static str = $code;
            const NOTHING: Self = $nothing;
        })*
    };
}

codes! {
    () => "v", ();
    Id => "@", Id::NULL;
    Selector => ":", Selector::NULL;
    Option<&'static Class> => "#", None;
    u8 => "C", 0;
    i32 => "i", 0;
    u32 => "I", 0;
    i64 => "q", 0;
    u64 => "Q", 0;
    isize => "q", 0;
    usize => "Q", 0;
    f64 => "d", 0.0;
    *mut c_void => "^v", ptr::null_mut();
    *const c_char => "*", ptr::null();
    *mut Id => "^@", ptr::null_mut();
    *const Id => "^@", ptr::null();
    *mut u64 => "^Q", ptr::null_mut();
}

/// The C function behind a method: takes the object, the selector and the arguments.
pub trait Implementation {
    /// Its address.
    fn address(&self) -> *mut c_void;
    /// Its signature.
    fn types(&self) -> CString;
}

macro_rules! implementations {
    ($($argument:ident)*) => {
        impl<R: Encode, $($argument: Encode),*> Implementation for extern "C-unwind" fn(Id, Selector, $($argument),*) -> R {
            fn address(&self) -> *mut c_void {
                *self as *mut c_void
            }

            fn types(&self) -> CString {
                let codes = [R::CODE, "@:", $($argument::CODE),*].concat();
                CString::new(codes).expect("codes have no zero byte")
            }
        }
    };
}

implementations!();
implementations!(A);
implementations!(A B);
implementations!(A B C);
implementations!(A B C D);
implementations!(A B C D E);
