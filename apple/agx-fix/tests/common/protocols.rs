//! Metal's public protocols, as far as the tests use them.

use streampool_metal_sim::define_protocol;

pub fn define() {
    define_protocol(
        c"MTLCommandEncoder",
        &[c"endEncoding", c"label", c"setLabel:"],
        &[],
    );
    define_protocol(
        c"MTLCommandBuffer",
        &[c"computeCommandEncoder", c"blitCommandEncoder"],
        &[],
    );
    define_protocol(
        c"MTLComputeCommandEncoder",
        &[c"setBuffer:offset:atIndex:"],
        &[c"setImageblockWidth:height:"],
    );
}
