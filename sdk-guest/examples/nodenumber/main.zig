comptime {
    @import("guest").exportPlugin(@import("nodenumber.zig").NodeNumber(false));
}
