//! Decoding of reads, over every backend: each codec from files and from memory, damaged bytes,
//! tables of blocks, streams of several frames, and codecs of the application.

mod application;
mod blocked;
mod blocks;
mod codecs;
mod device;
mod progress;
mod requests;
mod rig;
mod routes;
