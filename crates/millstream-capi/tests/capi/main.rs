//! The header, the binary interface, and programs in C and C++ that use them.

mod header;
mod programs;
mod support;
