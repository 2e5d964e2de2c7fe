//! Finds out which classes a driver's objects are of, from objects that it makes.

use std::ffi::CStr;
use std::ptr::null_mut;

use super::foreign::{self, Object};
use super::runtime::{Class, Owned, Pool, send};
use crate::Error;
use crate::logic::kind::Role;

/// What makes an encoder without being told more. A driver that has no such encoder does not understand the message or returns nil.
const PLAIN_ENCODERS: [&CStr; 3] = [
    c"computeCommandEncoder",
    c"blitCommandEncoder",
    c"resourceStateCommandEncoder",
];

/// What makes an encoder that draws.
const DRAWING_ENCODERS: [&CStr; 2] = [
    c"renderCommandEncoderWithDescriptor:",
    c"parallelRenderCommandEncoderWithDescriptor:",
];

/// The classes of a device, its queue, its command buffer and its encoders.
///
/// # Safety
/// The device is one of Metal's, and alive.
pub unsafe fn classes(device: Object) -> Result<Vec<(Class, Role)>, Error> {
    let _pool = Pool::new();
    let mut found = Vec::new();
    let mut note = |object: Object, role| {
        // SAFETY: an object is looked at right after it was made.
        let class = (!object.is_null())
            .then(|| unsafe { Class::of(object) })
            .flatten();
        found.extend(class.map(|class| (class, role)));
        class.ok_or(match role {
            Role::Device => Error::NoDevice,
            Role::Queue => Error::Refused("newCommandQueue"),
            Role::CommandBuffer => Error::Refused("commandBuffer"),
            Role::Encoder => Error::Refused("computeCommandEncoder"),
        })
    };
    note(device, Role::Device)?;
    // SAFETY: here and below, the messages are those of Metal's headers, and nil answers with nil.
    let queue = Owned(unsafe { send(device, c"newCommandQueue", null_mut()) });
    note(queue.0, Role::Queue)?;
    // SAFETY: as above.
    let commands = unsafe { send(queue.0, c"commandBuffer", null_mut()) };
    note(commands, Role::CommandBuffer)?;

    let mut note_encoder = |name, argument| {
        // SAFETY: as above. The one before is ended.
        let encoder = unsafe { send(commands, name, argument) };
        let noted = note(encoder, Role::Encoder);
        // SAFETY: as above.
        unsafe { send(encoder, c"endEncoding", null_mut()) };
        noted
    };
    for (number, name) in PLAIN_ENCODERS.into_iter().enumerate() {
        let noted = note_encoder(name, null_mut());
        if number == 0 {
            noted?;
        }
    }
    // SAFETY: as above. What is no Boolean at all is nil.
    if unsafe { send(device, c"supportsRaytracing", null_mut()) } as u8 != 0 {
        // Later ones are found when they are made.
        let _ = note_encoder(c"accelerationStructureCommandEncoder", null_mut());
    }
    // SAFETY: the device is alive.
    if let Some((pass, _target)) = unsafe { one_pixel(device) } {
        for name in DRAWING_ENCODERS {
            let _ = note_encoder(name, pass);
        }
    }
    Ok(found)
}

/// A render pass onto a texture of one pixel. The pass belongs to the pool.
///
/// # Safety
/// The device is one of Metal's, and alive.
unsafe fn one_pixel(device: Object) -> Option<(Object, Owned)> {
    // SAFETY: the names end with a zero.
    let (textures, passes) = unsafe {
        (
            foreign::objc_getClass(c"MTLTextureDescriptor".as_ptr()),
            foreign::objc_getClass(c"MTLRenderPassDescriptor".as_ptr()),
        )
    };
    // SAFETY: the messages are those of Metal's headers; a new descriptor is of one pixel, in a format that can be drawn to.
    unsafe {
        let descriptor = Owned(send(textures, c"new", null_mut()));
        // MTLTextureUsageRenderTarget
        send(descriptor.0, c"setUsage:", 4 as Object);
        // MTLStorageModePrivate
        send(descriptor.0, c"setStorageMode:", 2 as Object);
        let texture = Owned(send(device, c"newTextureWithDescriptor:", descriptor.0));
        let pass = send(passes, c"renderPassDescriptor", null_mut());
        let colours = send(pass, c"colorAttachments", null_mut());
        let first = send(colours, c"objectAtIndexedSubscript:", null_mut());
        send(first, c"setTexture:", texture.0);
        (!texture.0.is_null() && !first.is_null()).then_some((pass, texture))
    }
}
