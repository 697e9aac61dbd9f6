//! The `valvehouse` binary.

fn main() {}
