//! The same plugin with `"reverse": true` as the default: put in the other one's place, it turns
//! every decision round without a change of the configuration.

comptime {
    @import("guest").exportPlugin(@import("nodenumber.zig").NodeNumber(true));
}
