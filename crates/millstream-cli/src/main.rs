//! The program `millstream`.
fn main() {}
